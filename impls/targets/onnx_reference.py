"""The reference evaluator of ONNX: what the standard itself says in NumPy."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from attnspec.impls.targets.onnx_graphs import (
    Array,
    attention_graph,
    attention_options,
    batched,
    full,
    one_mask,
    rotary_graph,
    softmax_graph,
)
from attnspec.target import Target

TARGET = Target(
    name="onnx.reference",
    dtypes=("float64", "float32", "float16"),
    conventions={"attention.causal_alignment": "top-left"},
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
    """Operator Attention. Its mask has all its entries, as `onnx.broadcast` says why."""
    one = one_mask(mask, bias)
    one = None if one is None else full(one, q, k)
    return attended(q, k, v, one, attention_options(causal, window, softcap, scale))


def attended(
    q: Array, k: Array, v: Array, mask: Array | None, options: tuple[tuple[str, Any], ...]
) -> Array:
    """The operator with a mask, or a bias, as it is given."""
    if q.dtype == np.float64 and dict(options).keys() & {"scale", "softcap"}:
        raise NotImplementedError("ONNX stores scale and softcap in float32")
    if mask is None:
        evaluator, inputs = _attention(q.dtype.name, "", 0, options), {"q": q, "k": k, "v": v}
    else:
        evaluator = _attention(q.dtype.name, mask.dtype.name, mask.ndim, options)
        inputs = {"q": q, "k": k, "v": v, "mask": mask}
    result: Array = evaluator.run(None, inputs)[0]
    return result


@lru_cache(maxsize=64)
def _attention(dtype: str, mask: str, rank: int, options: tuple[tuple[str, Any], ...]) -> Any:
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(attention_graph(dtype, mask, rank, options))


@lru_cache(maxsize=64)
def _softmax(dtype: str, rank: int, axis: int) -> Any:
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(softmax_graph(dtype, rank, axis))


@lru_cache(maxsize=64)
def _rotary(dtype: str) -> Any:
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(rotary_graph(dtype))
