"""ONNX models of one operator each."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

OPSET = 23
"""The first with RotaryEmbedding."""
IR_VERSION = 11
"""The format of files that came with it."""


def softmax_graph(dtype: str, rank: int, axis: int) -> Any:
    """`x` to `y`."""
    return _model("Softmax", {"x": rank}, rank, dtype, axis=axis)


def rotary_graph(dtype: str) -> Any:
    """`x: b h n d`, `cos`, `sin`: `b n d/2` to `y`, on adjacent pairs."""
    return _model("RotaryEmbedding", {"x": 4, "cos": 3, "sin": 3}, 4, dtype, interleaved=1)


def batched(table: Array, batch: int) -> Array:
    """`n d/2` or `b n d/2` to `b n d/2`."""
    return np.ascontiguousarray(np.broadcast_to(table, (batch, *table.shape[-2:])))


def _model(operator: str, inputs: dict[str, int], rank: int, dtype: str, **options: Any) -> Any:
    from onnx import TensorProto, helper

    element = {
        "float64": TensorProto.DOUBLE,
        "float32": TensorProto.FLOAT,
        "float16": TensorProto.FLOAT16,
    }[dtype]
    given = [
        helper.make_tensor_value_info(name, element, [None] * axes) for name, axes in inputs.items()
    ]
    result = helper.make_tensor_value_info("y", element, [None] * rank)
    node = helper.make_node(operator, list(inputs), ["y"], **options)
    graph = helper.make_graph([node], operator, given, [result])
    opset = helper.make_opsetid("", OPSET)
    return helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION)
