"""The norms of ONNX by its reference evaluator."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from attnspec.impls.targets.onnx_graphs import Array, layer_norm_graph, norm_graph, ones
from attnspec.target import Target

TARGET = Target(
    name="onnx.norms",
    # ONNX stores epsilon in float32, too coarse for float64; and in float16 see
    # `onnx.layer_norm_half`
    dtypes=("float32",),
    arrays="numpy",
    requires={"onnx": "onnx"},
)


def layer_norm(
    x: Array, weight: Array | None = None, bias: Array | None = None, *, eps: float = 1e-5
) -> Array:
    """Operator LayerNormalization."""
    evaluator = _layer_norm(x.dtype.name, x.ndim, eps, bias is not None)
    given = {"x": x, "scale": ones(x) if weight is None else weight}
    result: Array = evaluator.run(None, given | ({} if bias is None else {"bias": bias}))[0]
    return result


def rms_norm(x: Array, weight: Array | None = None, *, eps: float = 1e-6) -> Array:
    """Operator RMSNormalization."""
    scale = ones(x) if weight is None else weight
    evaluator = _norm("RMSNormalization", x.dtype.name, x.ndim, eps)
    result: Array = evaluator.run(None, {"x": x, "scale": scale})[0]
    return result


@lru_cache(maxsize=256)
def _layer_norm(dtype: str, rank: int, eps: float, bias: bool) -> Any:
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(layer_norm_graph(dtype, rank, eps, bias=bias))


@lru_cache(maxsize=256)
def _norm(operator: str, dtype: str, rank: int, eps: float) -> Any:
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(norm_graph(operator, dtype, rank, eps))
