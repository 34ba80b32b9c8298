"""ONNX Runtime: its operators on the CPU."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from attnspec.impls.targets.onnx_graphs import (
    Array,
    attention_graph,
    attention_options,
    batched,
    gather_graph,
    layer_norm_graph,
    norm_graph,
    one_mask,
    ones,
    rotary_graph,
    softmax_graph,
    with_all_keys,
    within,
)
from attnspec.target import Target

TARGET = Target(
    name="onnxruntime",
    # its RotaryEmbedding has neither float64 nor bfloat16
    dtypes=("float32", "float16"),
    conventions={"attention.causal_alignment": "top-left"},
    # its Attention refuses tensors without entries
    limits={"attention": {"b": (1, 8192), "h": (1, 8192), "t": (1, 8192)}},
    arrays="numpy",
    requires={"onnxruntime": "onnxruntime", "onnx": "onnx"},
)


def softmax(x: Array, *, dim: int = -1) -> Array:
    """Operator Softmax."""
    return _run(_softmax(x.dtype.name, x.ndim, dim), x=x)


def learned_positions(positions: Array, table: Array) -> Array:
    """Operator Gather."""
    return _run(_gather(table.dtype.name), table=table, positions=within(positions))


def layer_norm(
    x: Array, weight: Array | None = None, bias: Array | None = None, *, eps: float = 1e-5
) -> Array:
    """Operator LayerNormalization."""
    session = _layer_norm(x.dtype.name, x.ndim, eps, bias is not None)
    given = {"x": x, "scale": ones(x) if weight is None else weight}
    return _run(session, **given, **({} if bias is None else {"bias": bias}))


def rms_norm(x: Array, weight: Array | None = None, *, eps: float = 1e-6) -> Array:
    """Operator RMSNormalization."""
    session = _norm("RMSNormalization", x.dtype.name, x.ndim, eps)
    return _run(session, x=x, scale=ones(x) if weight is None else weight)


def rope_apply(x: Array, cos: Array, sin: Array) -> Array:
    """Operator RotaryEmbedding, with tables in the place of its caches."""
    batch = x.shape[0]
    return _run(_rotary(x.dtype.name), x=x, cos=batched(cos, batch), sin=batched(sin, batch))


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
    """Operator Attention."""
    options = attention_options(causal, window, softcap, scale)
    one = one_mask(mask, bias)
    if one is None:
        return _run(_attention(q.dtype.name, "", 0, options), q=q, k=k, v=v)
    session = _attention(q.dtype.name, one.dtype.name, max(one.ndim, 2), options)
    return _run(session, q=q, k=k, v=v, mask=with_all_keys(one, k))


def _run(session: Any, **inputs: Array) -> Array:
    contiguous = {name: np.ascontiguousarray(array) for name, array in inputs.items()}
    result: Array = session.run(None, contiguous)[0]
    return result


@lru_cache(maxsize=256)
def _attention(dtype: str, mask: str, rank: int, options: tuple[tuple[str, Any], ...]) -> Any:
    return _session(attention_graph(dtype, mask, rank, options))


@lru_cache(maxsize=64)
def _softmax(dtype: str, rank: int, axis: int) -> Any:
    return _session(softmax_graph(dtype, rank, axis))


@lru_cache(maxsize=8)
def _gather(dtype: str) -> Any:
    return _session(gather_graph(dtype))


@lru_cache(maxsize=256)
def _layer_norm(dtype: str, rank: int, eps: float, bias: bool) -> Any:
    return _session(layer_norm_graph(dtype, rank, eps, bias=bias))


@lru_cache(maxsize=256)
def _norm(operator: str, dtype: str, rank: int, eps: float) -> Any:
    return _session(norm_graph(operator, dtype, rank, eps))


@lru_cache(maxsize=64)
def _rotary(dtype: str) -> Any:
    return _session(rotary_graph(dtype))


def _session(model: Any) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    # what it refuses it says by an exception; it need not print it as well
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
