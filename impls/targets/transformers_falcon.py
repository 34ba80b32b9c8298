"""ALiBi of Falcon: as in BLOOM, but multiplied in bfloat16 whatever is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnspec.target import Target

if TYPE_CHECKING:
    import torch
    from torch import Tensor

TARGET = Target(
    name="transformers.falcon",
    # float32 is where its bfloat16 shows most
    dtypes=("float32", "bfloat16"),
    conventions={"alibi.row_constant": "free", "alibi.future": "unspecified"},
    requires={"torch": "torch", "transformers": "transformers"},
)


def alibi_bias(
    n_heads: int,
    t: int,
    s: int,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Tensor:
    """`build_alibi_tensor` for a text without padding, whose row all queries share."""
    import torch
    from transformers.models.falcon.modeling_falcon import build_alibi_tensor

    tokens = torch.ones(1, s, dtype=torch.int64, device=device)
    row: Tensor = build_alibi_tensor(tokens, n_heads, dtype or torch.float32)
    return row.expand(n_heads, t, s)
