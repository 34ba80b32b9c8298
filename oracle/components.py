"""The components that the suite judges."""

from __future__ import annotations

from collections.abc import Mapping

from attnspec.oracle.component import Also, Bundle, Component
from attnspec.oracle.law import Inputs


def _shape_of_x(inputs: Inputs) -> tuple[int, ...]:
    return tuple(inputs.arrays["x"].shape)


def _shape_of_attention(inputs: Inputs) -> tuple[int, ...]:
    return (*inputs.arrays["q"].shape[:3], inputs.arrays["v"].shape[3])


def _shape_of_decoded(inputs: Inputs) -> tuple[int, ...]:
    return (*inputs.arrays["q"].shape[:3], inputs.arrays["v_cache"].shape[3])


def _shape_of_encoding(inputs: Inputs) -> tuple[int, ...]:
    return (inputs.arrays["positions"].shape[0], inputs.numbers["dim"])


def _shape_of_rows(inputs: Inputs) -> tuple[int, ...]:
    return (inputs.arrays["positions"].shape[0], inputs.arrays["table"].shape[1])


def _shape_of_displacements(inputs: Inputs) -> tuple[int, ...]:
    return tuple(inputs.arrays["relative_position"].shape)


def _shape_of_table_bias(inputs: Inputs) -> tuple[int, ...]:
    return (inputs.arrays["table"].shape[1], inputs.numbers["t"], inputs.numbers["s"])


def _shape_of_heads(inputs: Inputs) -> tuple[int, ...]:
    return (inputs.numbers["n_heads"],)


def _shape_of_heads_bias(inputs: Inputs) -> tuple[int, ...]:
    return (inputs.numbers["n_heads"], inputs.numbers["t"], inputs.numbers["s"])


def _log_sum_exp(inputs: Inputs) -> tuple[Also, ...]:
    if not inputs.options.get("return_lse"):
        return ()
    return (Also("lse", tuple(inputs.arrays["q"].shape[:3])),)


_MLA_WEIGHTS: Mapping[str, str] = {
    "w_dq": "m r", "w_uq": "r h*d", "w_qr": "r h*p", "w_dkv": "m c", "w_uk": "c h*d",
    "w_uv": "c h*e", "w_kr": "m p", "w_o": "h*e m",
}  # fmt: skip

_LAYER_WEIGHTS: Mapping[str, str] = {
    "w_q": "m h*d", "w_k": "m g*d", "w_v": "m g*e", "w_o": "h*e m", "norm_attention": "m",
    "norm_feed_forward": "m", "w_gate": "m f", "w_up": "m f", "w_down": "f m",
}  # fmt: skip


def _shape_of_latents(inputs: Inputs) -> tuple[int, ...]:
    return (*inputs.arrays["x"].shape[:2], inputs.arrays["w_dkv"].shape[1])


def _rotated_keys(inputs: Inputs) -> tuple[Also, ...]:
    shape = (*inputs.arrays["x"].shape[:2], inputs.arrays["w_kr"].shape[1])
    return (Also("k_rope", shape, wide=False),)


def _mla(name: str) -> Component:
    return Component(
        name=name,
        arguments={"x": "b n m", **_MLA_WEIGHTS},
        options=("n_heads", "causal", "rope_base"),
        integers=(),
        result=_shape_of_x,
        first="x",
        differentiable=("x", *_MLA_WEIGHTS),
        bundles={"weights": Bundle(tuple(_MLA_WEIGHTS))},
        required=("n_heads",),
        heads={"h": "n_heads"},
    )


COMPONENTS: Mapping[str, Component] = {
    "softmax": Component(
        name="softmax",
        arguments={"x": "..."},
        options=("dim",),
        integers=(),
        result=_shape_of_x,
        first="x",
        differentiable=("x",),
    ),
    "attention": Component(
        name="attention",
        arguments={"q": "b h t d", "k": "b g s d", "v": "b g s e"},
        options=("mask", "bias", "causal", "window", "softcap", "scale", "return_lse"),
        integers=(),
        result=_shape_of_attention,
        first="q",
        differentiable=("q", "k", "v", "bias"),
        keywords={"mask": "b h t s", "bias": "b h t s"},
        booleans=("mask",),
        also=_log_sum_exp,
    ),
    "decode_attention": Component(
        name="decode_attention",
        arguments={
            "q": "b h 1 d",
            "k_cache": "b g S d",
            "v_cache": "b g S e",
            "lengths": "b",
        },
        options=("window", "scale"),
        integers=("lengths",),
        result=_shape_of_decoded,
        first="q",
        differentiable=("q", "k_cache", "v_cache"),
    ),
    "rope": Component(
        name="rope",
        arguments={"x": "b h n d", "positions": "b n"},
        options=("base", "rotary_dim"),
        integers=("positions",),
        result=_shape_of_x,
        first="x",
        differentiable=("x",),
    ),
    "layer_norm": Component(
        name="layer_norm",
        arguments={"x": "... m"},
        options=("weight", "bias", "eps"),
        integers=(),
        result=_shape_of_x,
        first="x",
        differentiable=("x", "weight", "bias"),
        keywords={"weight": "m", "bias": "m"},
    ),
    "rms_norm": Component(
        name="rms_norm",
        arguments={"x": "... m"},
        options=("weight", "eps"),
        integers=(),
        result=_shape_of_x,
        first="x",
        differentiable=("x", "weight"),
        keywords={"weight": "m"},
    ),
    "rope_apply": Component(
        name="rope_apply",
        arguments={"x": "b h n d", "cos": "b n d/2", "sin": "b n d/2"},
        options=(),
        integers=(),
        result=_shape_of_x,
        first="x",
        differentiable=("x", "cos", "sin"),
    ),
    "sinusoidal": Component(
        name="sinusoidal",
        arguments={"positions": "n"},
        numbers={"dim": "dim"},
        options=("base", "dtype", "device"),
        integers=("positions",),
        result=_shape_of_encoding,
        first="",
        differentiable=(),
    ),
    "learned_positions": Component(
        name="learned_positions",
        arguments={"positions": "n", "table": "L m"},
        options=(),
        integers=("positions",),
        result=_shape_of_rows,
        first="table",
        differentiable=("table",),
    ),
    "t5_bucket": Component(
        name="t5_bucket",
        arguments={"relative_position": "..."},
        options=("bidirectional", "num_buckets", "max_distance"),
        integers=("relative_position",),
        result=_shape_of_displacements,
        whole=True,
        first="",
        differentiable=(),
    ),
    "t5_bias": Component(
        name="t5_bias",
        arguments={"table": "num_buckets h"},
        numbers={"t": "t", "s": "s"},
        options=("bidirectional", "max_distance"),
        integers=(),
        result=_shape_of_table_bias,
        first="table",
        differentiable=("table",),
    ),
    "alibi_slopes": Component(
        name="alibi_slopes",
        arguments={},
        numbers={"n_heads": "h"},
        options=("dtype", "device"),
        integers=(),
        result=_shape_of_heads,
        first="",
        differentiable=(),
    ),
    "alibi_bias": Component(
        name="alibi_bias",
        arguments={},
        numbers={"n_heads": "h", "t": "t", "s": "s"},
        options=("dtype", "device"),
        integers=(),
        result=_shape_of_heads_bias,
        first="",
        differentiable=(),
    ),
    "multi_head_attention": Component(
        name="multi_head_attention",
        arguments={"x": "b n m", "w_q": "m h*d", "w_k": "m g*d", "w_v": "m g*e", "w_o": "h*e m"},
        options=("n_heads", "n_kv_heads", "causal", "rope_base"),
        integers=(),
        result=_shape_of_x,
        first="x",
        differentiable=("x", "w_q", "w_k", "w_v", "w_o"),
        required=("n_heads",),
        heads={"h": "n_heads", "g": "n_kv_heads"},
    ),
    "transformer_layer": Component(
        name="transformer_layer",
        arguments={"x": "b n m", **_LAYER_WEIGHTS},
        options=("n_heads", "n_kv_heads", "rope_base", "eps"),
        integers=(),
        result=_shape_of_x,
        first="x",
        differentiable=("x", *_LAYER_WEIGHTS),
        bundles={"weights": Bundle(tuple(_LAYER_WEIGHTS))},
        required=("n_heads",),
        heads={"h": "n_heads", "g": "n_kv_heads"},
    ),
    "residual_block": Component(
        name="residual_block",
        arguments={"x": "... m"},
        options=("placement",),
        integers=(),
        result=_shape_of_x,
        first="x",
        differentiable=("x",),
        callees=("sublayer", "norm"),
        required=("placement",),
    ),
    "mla": _mla("mla"),
    "mla_absorbed": _mla("mla_absorbed"),
    "mla_cache": Component(
        name="mla_cache",
        # how many heads there are is not said in a call
        arguments={"x": "b n m", **{n: a.replace("*", "") for n, a in _MLA_WEIGHTS.items()}},
        options=("rope_base",),
        integers=(),
        result=_shape_of_latents,
        first="x",
        differentiable=("x", "w_dkv"),
        also=_rotated_keys,
        bundles={"weights": Bundle(tuple(_MLA_WEIGHTS))},
    ),
    "mla_decode": Component(
        name="mla_decode",
        arguments={"x": "b 1 m", "c_kv": "b n c", "k_rope": "b n p", **_MLA_WEIGHTS},
        options=("n_heads", "rope_base"),
        integers=(),
        result=_shape_of_x,
        first="x",
        differentiable=("x", "c_kv", "k_rope", "w_dq", "w_uq", "w_qr", "w_uk", "w_uv", "w_o"),
        bundles={
            "cache": Bundle(("c_kv", "k_rope"), keyed=False),
            "weights": Bundle(tuple(_MLA_WEIGHTS)),
        },
        required=("n_heads",),
        heads={"h": "n_heads"},
    ),
}

CONTRACT = (
    "softmax", "attention", "decode_attention", "kv_cache", "multi_head_attention", "mla",
    "mla_absorbed", "mla_cache", "mla_decode", "sinusoidal", "learned_positions", "t5_bucket",
    "t5_bias", "alibi_slopes", "alibi_bias", "rope", "longformer_attention", "hadamard",
    "quantize_int8", "indexer_scores", "select_top_k", "sparse_attention", "layer_norm",
    "rms_norm", "residual_block", "rope_apply", "transformer_layer",
)  # fmt: skip
"""Every function that the contract names; those without a row above are not judged yet."""
