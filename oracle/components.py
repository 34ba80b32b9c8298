"""The components that the suite judges: their arguments, axes and results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from attnspec.oracle.law import Inputs


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


def _shape_of_x(inputs: Inputs) -> tuple[int, ...]:
    return tuple(inputs.arrays["x"].shape)


COMPONENTS: Mapping[str, Component] = {
    "softmax": Component(
        name="softmax",
        arguments={"x": "..."},
        options=("dim",),
        integers=(),
        result=_shape_of_x,
        first="x",
    ),
    "rope": Component(
        name="rope",
        arguments={"x": "b h n d", "positions": "b n"},
        options=("base", "rotary_dim"),
        integers=("positions",),
        result=_shape_of_x,
        first="x",
    ),
    "rope_apply": Component(
        name="rope_apply",
        arguments={"x": "b h n d", "cos": "b n d/2", "sin": "b n d/2"},
        options=(),
        integers=(),
        result=_shape_of_x,
        first="x",
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
