"""A decoder layer of transformers called with given weights: what its targets share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

EMPTY = "views in the layer leave a size open that a batch of nothing does not tell"
WIDTHS = "the layer's heads have as many channels of values as of keys"
NAMES: Mapping[str, str] = {
    "w_q": "self_attn.q_proj", "w_k": "self_attn.k_proj", "w_v": "self_attn.v_proj",
    "w_o": "self_attn.o_proj", "norm_attention": "input_layernorm",
    "norm_feed_forward": "post_attention_layernorm", "w_gate": "mlp.gate_proj",
    "w_up": "mlp.up_proj", "w_down": "mlp.down_proj",
}  # fmt: skip
"""Of the contract's weights; matrices are transposed there."""


def sizes_of(weights: Mapping[str, Tensor], n_heads: int, n_kv_heads: int | None) -> dict[str, int]:
    """What a configuration needs. Raises NotImplementedError for values of another width."""
    groups = n_heads if n_kv_heads is None else n_kv_heads
    d = weights["w_q"].shape[1] // n_heads
    if weights["w_v"].shape[1] != d * groups:
        raise NotImplementedError(WIDTHS)
    return {
        "hidden_size": weights["w_q"].shape[0], "num_attention_heads": n_heads,
        "num_key_value_heads": groups, "head_dim": d,
        "intermediate_size": weights["w_gate"].shape[1],
    }  # fmt: skip


def called(
    layer: Any, rotary: Any, x: Tensor, weights: Mapping[str, Tensor], mask: Tensor | None
) -> Tensor:
    """The layer with these weights. Without a rotary module tables are those of no rotation.
    Raises NotImplementedError for an empty batch."""
    import torch
    from torch.func import functional_call

    if not len(x):
        raise NotImplementedError(EMPTY)
    places = torch.arange(x.shape[1], device=x.device).unsqueeze(0)
    if rotary is None:
        ones = torch.ones(1, x.shape[1], layer.self_attn.head_dim, dtype=x.dtype, device=x.device)
        tables = (ones, torch.zeros_like(ones))
    else:
        tables = rotary.to(x.device)(x, places)
    given = {f"{NAMES[name]}.weight": weight.T if weight.ndim == 2 else weight
             for name, weight in weights.items()}  # fmt: skip
    options = {"attention_mask": mask, "position_ids": places, "position_embeddings": tables}
    result: Tensor = functional_call(layer, given, (x,), options)
    return result
