"""ONNX Runtime: its kernel GroupQueryAttention for the CPU, one new token over a cache."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from attnspec.target import Target

Array = np.ndarray[Any, Any]

TARGET = Target(
    name="onnxruntime.decode",
    dtypes=("float32", "float16"),
    # a new token is one of the keys: there is no empty row. One head size for keys and values
    conventions={"attention.window": "total", "attention.empty_row": "unspecified"},
    limits={"b": (1, 8192), "d": {8}, "e": {8}},
    arrays="numpy",
    gradients=False,
    requires={"onnxruntime": "onnxruntime", "onnx": "onnx"},
)


def decode_attention(
    q: Array,
    k_cache: Array,
    v_cache: Array,
    lengths: Array,
    *,
    window: int | None = None,
    scale: float | None = None,
) -> Array:
    """It takes the newest key and value apart from the others, and the tokens before the heads."""
    if (lengths == 0).any():
        raise NotImplementedError("GroupQueryAttention has no token without a key")
    b, h, _, d = q.shape
    g = k_cache.shape[1]
    newest = (lengths - 1)[:, None, None, None]
    session = _session(q.dtype.name, h, g, window, scale)
    given = {
        "query": q.reshape(b, 1, h * d),
        "key": np.take_along_axis(k_cache, newest, 2).reshape(b, 1, g * d),
        "value": np.take_along_axis(v_cache, newest, 2).reshape(b, 1, g * d),
        "past_key": k_cache,
        "past_value": v_cache,
        "seqlens_k": (lengths - 1).astype(np.int32),
        "total_sequence_length": np.array([lengths.max()], np.int32),
    }
    contiguous = {name: np.ascontiguousarray(array) for name, array in given.items()}
    output: Array = session.run(["output"], contiguous)[0]
    return output.reshape(b, h, 1, d)


@lru_cache(maxsize=256)
def _session(dtype: str, h: int, g: int, window: int | None, scale: float | None) -> Any:
    import onnxruntime
    from onnx import TensorProto, helper

    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    ranks = {"query": 3, "key": 3, "value": 3, "past_key": 4, "past_value": 4}
    inputs = [
        helper.make_tensor_value_info(name, kind, [None] * rank) for name, rank in ranks.items()
    ]
    inputs += [
        helper.make_tensor_value_info(name, TensorProto.INT32, [None])
        for name in ("seqlens_k", "total_sequence_length")
    ]
    results = {"output": 3, "present_key": 4, "present_value": 4}
    outputs = [
        helper.make_tensor_value_info(name, kind, [None] * rank) for name, rank in results.items()
    ]
    given: dict[str, Any] = {"num_heads": h, "kv_num_heads": g}
    if window is not None:
        given["local_window_size"] = window
    if scale is not None:
        given["scale"] = scale
    node = helper.make_node(
        "GroupQueryAttention",
        [x.name for x in inputs],
        list(results),
        domain="com.microsoft",
        **given,
    )
    graph = helper.make_graph([node], "decode", inputs, outputs)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
