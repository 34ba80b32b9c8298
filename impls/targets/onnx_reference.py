"""The reference evaluator of ONNX: what the standard itself says in NumPy."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from attnspec.impls.targets.onnx_graphs import Array, batched, rotary_graph, softmax_graph
from attnspec.target import Target

TARGET = Target(
    name="onnx.reference",
    dtypes=("float64", "float32", "float16"),
    # NumPy sums float16 in float16 along every axis but the last
    precision={"float16": {"accumulate": "storage"}},
    arrays="numpy",
    requires={"onnx": "onnx"},
)


def softmax(x: Array, *, dim: int = -1) -> Array:
    """Operator Softmax."""
    result: Array = _softmax(x.dtype.name, x.ndim, dim).run(None, {"x": x})[0]
    return result


def rope_apply(x: Array, cos: Array, sin: Array) -> Array:
    """Operator RotaryEmbedding, with tables in the place of its caches."""
    batch = x.shape[0]
    inputs = {"x": x, "cos": batched(cos, batch), "sin": batched(sin, batch)}
    result: Array = _rotary(x.dtype.name).run(None, inputs)[0]
    return result


@lru_cache(maxsize=64)
def _softmax(dtype: str, rank: int, axis: int) -> Any:
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(softmax_graph(dtype, rank, axis))


@lru_cache(maxsize=64)
def _rotary(dtype: str) -> Any:
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(rotary_graph(dtype))
