"""The attention module of Llama in transformers, which Mistral's and others' are copies of."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor

TARGET = Target(
    name="transformers.llama",
    # its weights are formed in float32 for float64, too
    dtypes=("float32", "bfloat16", "float16"),
    conventions={"rope.layout": "half"},
    # values have the width of keys: one width is judged
    limits={"multi_head_attention": {"d": {4}, "e": {4}}},
    requires={"torch": "torch", "transformers": "transformers"},
)


def multi_head_attention(
    x: Tensor,
    w_q: Tensor,
    w_k: Tensor,
    w_v: Tensor,
    w_o: Tensor,
    *,
    n_heads: int,
    n_kv_heads: int | None = None,
    causal: bool = False,
    rope_base: float | None = None,
) -> Tensor:
    """Raises NotImplementedError where values have another width than keys, or, as its halves are
    rotated always, for an odd one."""
    import torch

    groups, d = n_heads if n_kv_heads is None else n_kv_heads, w_q.shape[1] // n_heads
    if w_v.shape[1] != w_k.shape[1] or d % 2:
        raise NotImplementedError("keys and values have one width, which is even")
    module = _made(x.shape[2], n_heads, groups, d)
    n, mask = x.shape[1], None
    if rope_base is None:
        # a rotation by nothing
        cos = torch.ones(1, n, d, dtype=x.dtype, device=x.device)
        tables = (cos, torch.zeros_like(cos))
    else:
        places = torch.arange(n, device=x.device).unsqueeze(0)
        tables = _rotary(x.shape[2], n_heads, groups, d, rope_base)(x, places)
    if causal:
        later = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
        empty = torch.zeros(1, 1, n, n, dtype=x.dtype, device=x.device)
        mask = empty.masked_fill(later, -torch.inf)
    weights = zip("qkvo", (w_q, w_k, w_v, w_o), strict=True)
    own = {f"{name}_proj.weight": weight.mT for name, weight in weights}
    given = {"position_embeddings": tables, "attention_mask": mask}
    found: Tensor = torch.func.functional_call(module, own, (x,), given)[0]
    return found


@lru_cache(maxsize=256)
def _config(m: int, h: int, g: int, d: int, base: float) -> Any:
    from transformers import LlamaConfig

    kind: Any = LlamaConfig
    config = kind(
        hidden_size=m * h, num_attention_heads=h, num_key_value_heads=g, head_dim=d,
        attention_bias=False, rope_parameters={"rope_type": "default", "rope_theta": base},
        attn_implementation="eager",
    )  # fmt: skip
    # heads need not divide the width of the model: only the config of a whole model says so
    config.hidden_size = m
    return config


@lru_cache(maxsize=256)
def _made(m: int, h: int, g: int, d: int) -> Any:
    """A module without numbers."""
    import torch
    from transformers.models.llama.modeling_llama import LlamaAttention

    with torch.device("meta"):
        return LlamaAttention(_config(m, h, g, d, 10000.0), layer_idx=0).eval()


@lru_cache(maxsize=256)
def _rotary(m: int, h: int, g: int, d: int, base: float) -> Any:
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    return LlamaRotaryEmbedding(_config(m, h, g, d, base))
