"""ONNX Runtime: the kernel SimplifiedLayerNormalization, into which it fuses RMSNorm."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from attnspec.impls.targets.onnx_graphs import Array, norm_graph, ones
from attnspec.target import Target

TARGET = Target(
    name="onnxruntime.simplified",
    # eps is stored in float32
    dtypes=("float32", "float16"),
    arrays="numpy",
    requires={"onnxruntime": "onnxruntime", "onnx": "onnx"},
)


def rms_norm(x: Array, weight: Array | None = None, *, eps: float = 1e-6) -> Array:
    """Operator SimplifiedLayerNormalization."""
    scale = ones(x) if weight is None else np.ascontiguousarray(weight)
    inputs = {"x": np.ascontiguousarray(x), "scale": scale}
    result: Array = _session(x.dtype.name, x.ndim, eps).run(None, inputs)[0]
    return result


@lru_cache(maxsize=256)
def _session(dtype: str, rank: int, eps: float) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    model = norm_graph("SimplifiedLayerNormalization", dtype, rank, eps)
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
