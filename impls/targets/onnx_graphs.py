"""ONNX models of one operator each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

OPSET = 25
"""The first whose Attention has windows. RotaryEmbedding came with 23."""
IR_VERSION = 11
"""The format of files that came with 23."""


def softmax_graph(dtype: str, rank: int, axis: int) -> Any:
    """`x` to `y`."""
    return _model("Softmax", {"x": rank}, rank, dtype, axis=axis)


def rotary_graph(dtype: str) -> Any:
    """`x: b h n d`, `cos`, `sin`: `b n d/2` to `y`, on adjacent pairs."""
    return _model("RotaryEmbedding", {"x": 4, "cos": 3, "sin": 3}, 4, dtype, interleaved=1)


def gather_graph(dtype: str) -> Any:
    """`table: L m` and `positions: n` to `y: n m`."""
    inputs = {"table": 2, "positions": 1}
    return _model("Gather", inputs, 2, dtype, elements={"positions": "int64"}, axis=0)


def within(positions: Array) -> Array:
    """Positions that Gather doesn't count from the end of the table. Raises NotImplementedError
    for negative ones, for which ONNX demands that."""
    if (positions < 0).any():
        raise NotImplementedError("Gather counts negative positions from the end of the table")
    return positions


def norm_graph(operator: str, dtype: str, rank: int, eps: float) -> Any:
    """`x` and `scale`, one number for each entry of the last axis, to `y`: an operator that
    normalises along that axis."""
    return _model(operator, {"x": rank, "scale": 1}, rank, dtype, axis=-1, epsilon=eps)


def layer_norm_graph(dtype: str, rank: int, eps: float, *, bias: bool) -> Any:
    """`x`, `scale` and perhaps `bias`, a number for each entry of the last axis, to `y`."""
    inputs = {"x": rank, "scale": 1} | ({"bias": 1} if bias else {})
    return _model("LayerNormalization", inputs, rank, dtype, axis=-1, epsilon=eps)


def ones(x: Array) -> Array:
    """A scale that changes nothing, which ONNX wants all the same."""
    return np.ones(x.shape[-1], x.dtype)


def attention_graph(dtype: str, mask: str, rank: int, options: tuple[tuple[str, Any], ...]) -> Any:
    """`q`, `k`, `v` and, unless `rank` is 0, a `mask` of that many axes, `bool` or a bias."""
    inputs = {"q": 4, "k": 4, "v": 4} | ({"mask": rank} if rank else {})
    return _model("Attention", inputs, 4, dtype, elements={"mask": mask}, **dict(options))


def attention_options(
    causal: bool, window: int | None, softcap: float | None, scale: float | None
) -> tuple[tuple[str, Any], ...]:
    """The operator's attributes."""
    found: dict[str, Any] = {"is_causal": int(causal)}
    if window is not None:
        found |= {"left_window_size": window, "right_window_size": window}
    if softcap is not None:
        found["softcap"] = softcap
    if scale is not None:
        found["scale"] = scale
    return tuple(found.items())


def one_mask(mask: Array | None, bias: Array | None) -> Array | None:
    """Both as one: a mask as it is, a bias as it is, and the two together a bias."""
    if mask is None or bias is None:
        return mask if bias is None else bias
    return np.where(mask, bias, np.asarray(-np.inf, bias.dtype))


def full(mask: Array, q: Array, k: Array) -> Array:
    """With all its entries."""
    return np.broadcast_to(mask, (*q.shape[:3], k.shape[2]))


def with_all_keys(mask: Array, k: Array) -> Array:
    """With two axes at least, and one entry for each key: ONNX fills up a shorter last axis
    with -inf, also one of size 1."""
    rows = mask.shape[:-1] or (1,)
    return np.broadcast_to(mask, (*rows, k.shape[2]))


def batched(table: Array, batch: int) -> Array:
    """`n d/2` or `b n d/2` to `b n d/2`."""
    return np.ascontiguousarray(np.broadcast_to(table, (batch, *table.shape[-2:])))


def _model(
    operator: str,
    inputs: dict[str, int],
    rank: int,
    dtype: str,
    elements: Mapping[str, str] | None = None,
    **options: Any,
) -> Any:
    """Inputs by their number of axes; `elements` names those whose dtype is another."""
    from onnx import TensorProto, helper

    codes = {
        "float64": TensorProto.DOUBLE,
        "float32": TensorProto.FLOAT,
        "float16": TensorProto.FLOAT16,
        "bool": TensorProto.BOOL,
        "int64": TensorProto.INT64,
    }
    given = [
        helper.make_tensor_value_info(name, codes[(elements or {}).get(name, dtype)], [None] * axes)
        for name, axes in inputs.items()
    ]
    result = helper.make_tensor_value_info("y", codes[dtype], [None] * rank)
    node = helper.make_node(operator, list(inputs), ["y"], **options)
    graph = helper.make_graph([node], operator, given, [result])
    opset = helper.make_opsetid("", OPSET)
    return helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION)
