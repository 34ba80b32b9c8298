"""The components that the suite judges: their arguments, axes and results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from attnspec.oracle.law import Inputs


@dataclass(frozen=True)
class Also:
    """A further result of a call that returns several."""

    name: str
    shape: tuple[int, ...]
    wide: bool = True
    """Whether it is float32 or wider, whatever the dtype of the inputs."""


def _nothing_more(inputs: Inputs) -> tuple[Also, ...]:
    return ()


@dataclass(frozen=True)
class Component:
    """The signature of one component of the contract."""

    name: str
    arguments: Mapping[str, str]
    """Positional arguments in their order, with their axis letters (`...`: any axes)."""
    options: tuple[str, ...]
    """Keyword options."""
    integers: tuple[str, ...]
    """Arguments that hold positions, lengths or indices."""
    result: Callable[[Inputs], tuple[int, ...]]
    """Shape of what it returns."""
    first: str
    """The argument whose dtype and device the result has."""
    differentiable: tuple[str, ...]
    """Arguments that have gradients, positional ones first."""
    keywords: Mapping[str, str] = field(default_factory=dict)
    """Tensors that are passed by keyword, with the axes to which they are broadcast."""
    booleans: tuple[str, ...] = ()
    """Arguments that hold truth values."""
    also: Callable[[Inputs], tuple[Also, ...]] = _nothing_more
    """Further results, after the first."""


def _shape_of_x(inputs: Inputs) -> tuple[int, ...]:
    return tuple(inputs.arrays["x"].shape)


def _shape_of_attention(inputs: Inputs) -> tuple[int, ...]:
    return (*inputs.arrays["q"].shape[:3], inputs.arrays["v"].shape[3])


def _log_sum_exp(inputs: Inputs) -> tuple[Also, ...]:
    if not inputs.options.get("return_lse"):
        return ()
    return (Also("lse", tuple(inputs.arrays["q"].shape[:3])),)


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
    "rope": Component(
        name="rope",
        arguments={"x": "b h n d", "positions": "b n"},
        options=("base", "rotary_dim"),
        integers=("positions",),
        result=_shape_of_x,
        first="x",
        differentiable=("x",),
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
}

CONTRACT = (
    "softmax", "attention", "decode_attention", "kv_cache", "multi_head_attention", "mla",
    "mla_absorbed", "mla_cache", "mla_decode", "sinusoidal", "learned_positions", "t5_bucket",
    "t5_bias", "alibi_slopes", "alibi_bias", "rope", "longformer_attention", "hadamard",
    "quantize_int8", "indexer_scores", "select_top_k", "sparse_attention", "layer_norm",
    "rms_norm", "residual_block", "rope_apply", "transformer_layer",
)  # fmt: skip
"""Every function that the contract names; those without a row above are not judged yet."""
