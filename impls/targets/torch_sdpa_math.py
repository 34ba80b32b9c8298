"""`scaled_dot_product_attention` by its composition of other operators."""

from __future__ import annotations

from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from attnspec.impls.targets.torch_sdpa import sdpa_options
from attnspec.target import Target

# half precision is widened before it and rounded after it, but a bias is expanded and masked in
# storage, where its gradient is summed again
TARGET = Target(
    name="torch.sdpa_math",
    precision=dict.fromkeys(("scores", "probabilities", "normalised", "tables"), "accumulate"),
    requires={"torch": "torch"},
)


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """The backend MATH."""
    options = sdpa_options(q, k, mask, bias, causal)
    grouped = q.shape[1] != k.shape[1]
    with sdpa_kernel(SDPBackend.MATH):
        return scaled_dot_product_attention(q, k, v, scale=scale, enable_gqa=grouped, **options)
