"""ONNX Runtime: Softmax and RotaryEmbedding on the CPU."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from attnspec.impls.targets.onnx_graphs import Array, batched, rotary_graph, softmax_graph
from attnspec.target import Target

TARGET = Target(
    name="onnxruntime",
    # its RotaryEmbedding has neither float64 nor bfloat16
    dtypes=("float32", "float16"),
    arrays="numpy",
    requires={"onnxruntime": "onnxruntime", "onnx": "onnx"},
)


def softmax(x: Array, *, dim: int = -1) -> Array:
    """Operator Softmax."""
    return _run(_softmax(x.dtype.name, x.ndim, dim), x=x)


def rope_apply(x: Array, cos: Array, sin: Array) -> Array:
    """Operator RotaryEmbedding, with tables in the place of its caches."""
    batch = x.shape[0]
    return _run(_rotary(x.dtype.name), x=x, cos=batched(cos, batch), sin=batched(sin, batch))


def _run(session: Any, **inputs: Array) -> Array:
    contiguous = {name: np.ascontiguousarray(array) for name, array in inputs.items()}
    result: Array = session.run(None, contiguous)[0]
    return result


@lru_cache(maxsize=64)
def _softmax(dtype: str, rank: int, axis: int) -> Any:
    return _session(softmax_graph(dtype, rank, axis))


@lru_cache(maxsize=64)
def _rotary(dtype: str) -> Any:
    return _session(rotary_graph(dtype))


def _session(model: Any) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
