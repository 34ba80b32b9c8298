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
    """Positional arguments in their order, with their axis letters (`...`: any axes before the
    others)."""
    options: tuple[str, ...]
    """Keyword options."""
    integers: tuple[str, ...]
    """Arguments that hold positions, lengths or indices."""
    result: Callable[[Inputs], tuple[int, ...]]
    """Shape of what it returns."""
    first: str
    """The argument whose dtype and device the result has; empty where no argument is a floating
    array."""
    differentiable: tuple[str, ...]
    """Arguments that have gradients, positional ones first."""
    numbers: Mapping[str, str] = field(default_factory=dict)
    """Whole numbers that are passed by position, after the arrays, with the axes whose sizes they
    are."""
    whole: bool = False
    """Whether the result holds whole numbers, of any integer dtype."""
    keywords: Mapping[str, str] = field(default_factory=dict)
    """Tensors that are passed by keyword, with the axes to which they are broadcast."""
    booleans: tuple[str, ...] = ()
    """Arguments that hold truth values."""
    also: Callable[[Inputs], tuple[Also, ...]] = _nothing_more
    """Further results, after the first."""

    @property
    def typed(self) -> bool:
        """Whether a call says of which dtype its result is: no argument tells."""
        return "dtype" in self.options

    def sizes(self, inputs: Inputs) -> dict[tuple[str, str], int]:
        """(argument, axis) to the size in a call, of those axes that go by names."""
        found = {(name, axis): inputs.numbers[name] for name, axis in self.numbers.items()}
        for name, letters in self.arguments.items():
            axes, shape = letters.split(), inputs.arrays[name].shape
            if axes[0] == "...":
                axes, shape = axes[1:], shape[len(shape) - len(axes) + 1 :]
            if len(axes) == len(shape):
                found |= {(name, axis): int(n) for axis, n in zip(axes, shape, strict=True)}
        return found


def _shape_of_x(inputs: Inputs) -> tuple[int, ...]:
    return tuple(inputs.arrays["x"].shape)


def _shape_of_attention(inputs: Inputs) -> tuple[int, ...]:
    return (*inputs.arrays["q"].shape[:3], inputs.arrays["v"].shape[3])


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
}

CONTRACT = (
    "softmax", "attention", "decode_attention", "kv_cache", "multi_head_attention", "mla",
    "mla_absorbed", "mla_cache", "mla_decode", "sinusoidal", "learned_positions", "t5_bucket",
    "t5_bias", "alibi_slopes", "alibi_bias", "rope", "longformer_attention", "hadamard",
    "quantize_int8", "indexer_scores", "select_top_k", "sparse_attention", "layer_norm",
    "rms_norm", "residual_block", "rope_apply", "transformer_layer",
)  # fmt: skip
"""Every function that the contract names; those without a row above are not judged yet."""
