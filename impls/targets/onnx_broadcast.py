"""ONNX's reference evaluator, given masks that its operator Attention has to broadcast."""

from __future__ import annotations

from attnspec.impls.targets.onnx_graphs import Array, attention_options, one_mask, with_all_keys
from attnspec.impls.targets.onnx_reference import attended
from attnspec.target import Target

TARGET = Target(
    name="onnx.broadcast",
    dtypes=("float64", "float32"),
    conventions={"attention.causal_alignment": "top-left"},
    arrays="numpy",
    requires={"onnx": "onnx"},
)


def attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    mask: Array | None = None,
    bias: Array | None = None,
    causal: bool = False,
    window: int | None = None,
    softcap: float | None = None,
    scale: float | None = None,
) -> Array:
    """Operator Attention, whose masks broadcast to `b h t s` by its definition."""
    one = one_mask(mask, bias)
    one = None if one is None else with_all_keys(one, k)
    return attended(q, k, v, one, attention_options(causal, window, softcap, scale))
