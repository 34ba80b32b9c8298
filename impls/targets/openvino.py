"""OpenVINO: its operator ScaledDotProductAttention on the CPU."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from attnspec.target import Target

Array = np.ndarray[Any, Any]

TARGET = Target(
    name="openvino",
    # it computes float64 in float32
    dtypes=("float32", "float16"),
    conventions={"attention.causal_alignment": "top-left", "attention.empty_row": "nan"},
    arrays="numpy",
    requires={"openvino": "openvino"},
)


def attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    mask: Array | None = None,
    bias: Array | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Array:
    """Key heads are repeated, as there are no groups; and causality is a part of the mask where
    there is one, as the operator then ignores it."""
    t, s, heads = q.shape[2], k.shape[2], q.shape[1] // k.shape[1]
    if causal and (mask is not None or bias is not None):
        seen = np.tri(t, s, dtype=bool)
        mask, causal = (seen if mask is None else mask & seen), False
    if bias is not None and mask is not None:
        bias, mask = np.where(mask, bias, np.asarray(-np.inf, bias.dtype)), None
    one = mask if bias is None else bias
    given = [q, np.repeat(k, heads, axis=1), np.repeat(v, heads, axis=1)]
    given.append(np.asarray(q.shape[-1] ** -0.5 if scale is None else scale, q.dtype))
    kind = ""
    if one is not None:
        given.append(one[(None,) * (4 - one.ndim)])
        kind = "bool" if one.dtype == bool else "bias"
    compiled = _compiled(q.dtype.name, kind, causal)
    result: Array = compiled([np.array(x, order="C") for x in given])[0]
    return result.copy()


@lru_cache(maxsize=16)
def _compiled(dtype: str, mask: str, causal: bool) -> Any:
    """The operator for any shape, with a mask of four axes, a bias, or neither."""
    import openvino
    from openvino import opset13

    def parameter(name: str, dtype: str, rank: int) -> Any:
        return opset13.parameter(openvino.PartialShape([-1] * rank), np.dtype(dtype), name=name)

    q, k, v = (parameter(name, dtype, 4) for name in "qkv")
    scale = parameter("scale", dtype, 0)
    given = [q, k, v, scale]
    if mask:
        one = parameter("mask", "bool" if mask == "bool" else dtype, 4)
        given.append(one)
    else:
        # the place before the scale can't be left free
        one = opset13.constant(np.zeros((1, 1), dtype))
    node = opset13.scaled_dot_product_attention(q, k, v, one, scale, causal=causal)
    options = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    return openvino.Core().compile_model(openvino.Model([node], given), "CPU", options)
