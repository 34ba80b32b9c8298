"""`nn.MultiHeadAttention` of MLX, and its gradients."""

from __future__ import annotations

from typing import Any

from attnspec.impls.targets.mlx_calls import DTYPES, Array, as_numpy
from attnspec.target import Target

TARGET = Target(
    name="mlx.multi_head", arrays="numpy", dtypes=DTYPES, devices=("cpu",),
    gradients=("multi_head_attention",), requires={"mlx.core": "mlx"},
)  # fmt: skip


def multi_head_attention(
    x: Array, w_q: Array, w_k: Array, w_v: Array, w_o: Array, *, n_heads: int, causal: bool = False
) -> Array:
    """Its layers have a row for each output."""
    import mlx.core as mx

    given = [mx.array(a) for a in (x, w_q, w_k, w_v, w_o)]
    return as_numpy(_run(n_heads, causal, *given), x)


def multi_head_attention_backward(
    upstream: Array, x: Array, w_q: Array, w_k: Array, w_v: Array, w_o: Array, *, n_heads: int,
    causal: bool = False,
) -> tuple[Array, ...]:  # fmt: skip
    """By `mx.vjp`."""
    import mlx.core as mx

    given = [mx.array(a) for a in (x, w_q, w_k, w_v, w_o)]

    def run(*arrays: Any) -> list[Any]:
        return [_run(n_heads, causal, *arrays)]

    found = mx.vjp(run, given, [mx.array(upstream)])[1]
    return tuple(as_numpy(gradient, x) for gradient in found)


def _run(n_heads: int, causal: bool, x: Any, w_q: Any, w_k: Any, w_v: Any, w_o: Any) -> Any:
    from mlx.nn.layers.transformer import MultiHeadAttention

    m = x.shape[2]
    module = MultiHeadAttention(
        w_q.shape[1], n_heads, query_input_dims=m, key_input_dims=m, value_input_dims=m,
        value_dims=w_v.shape[1], value_output_dims=m,
    )  # fmt: skip
    module.query_proj.weight, module.key_proj.weight = w_q.T, w_k.T
    module.value_proj.weight, module.out_proj.weight = w_v.T, w_o.T
    mask = module.create_additive_causal_mask(x.shape[1], x.dtype) if causal else None
    return module(x, x, x, mask)
