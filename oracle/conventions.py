"""Named options where good implementations legitimately differ, and guarantees to the bit.

The first value of a convention is the default: that of the documents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_ROTATIONS = ("rope", "rope_apply", "multi_head_attention", "mla", "mla_absorbed", "mla_cache",
              "mla_decode", "transformer_layer")  # fmt: skip
_ATTENTIONS = ("attention", "decode_attention", "multi_head_attention", "sparse_attention",
               "longformer_attention", "transformer_layer")  # fmt: skip


@dataclass(frozen=True)
class Convention:
    """One named option."""

    values: tuple[str, ...]
    reaches: tuple[str, ...]
    """The components on which it has a say."""
    meanings: tuple[str, ...]
    """What each value says, in the order of the values."""


CONVENTIONS: Mapping[str, Convention] = {
    "rope.layout": Convention(
        ("interleaved", "half"),
        _ROTATIONS,
        ("channels 2i and 2i + 1 are a pair", "channels i and i + r/2 are, of r that turn"),
    ),
    "rope.direction": Convention(
        ("forward", "backward"),
        _ROTATIONS,
        ("pair i turns by + position * theta_i", "it turns by - position * theta_i"),
    ),
    "attention.causal_alignment": Convention(
        ("bottom-right", "top-left"),
        ("attention", "select_top_k"),
        (
            "of t queries and s keys, query i sees the keys up to i + s - t",
            "it sees the keys up to i",
        ),
    ),
    "attention.window": Convention(
        ("radius", "total"),
        ("attention", "decode_attention"),
        (
            "w keys on each side and its own; with `causal`, w keys back and its own",
            "w keys with its own among them, and `causal` only",
        ),
    ),
    "attention.empty_row": Convention(
        ("zero", "nan", "unspecified"),
        _ATTENTIONS,
        (
            "a query that sees no key gives zeros, and minus infinity as log-sum-exp",
            "it gives NaN",
            "nothing is promised of it",
        ),
    ),
    "attention.masked_nan": Convention(
        ("unspecified", "ignored"),
        ("attention",),
        (
            "nothing is promised where NaN or infinity is stored at hidden keys or values",
            "what is stored there changes nothing",
        ),
    ),
    "attention.visible_nan": Convention(
        ("unspecified", "propagates"),
        ("attention",),
        (
            "nothing is promised where a visible input is NaN",
            "it reaches every row that sees it, and no other",
        ),
    ),
    "gqa.head_order": Convention(
        ("grouped", "tiled"),
        _ATTENTIONS,
        (
            "of h query heads and g key heads, query head i reads key head floor(i g / h)",
            "it reads key head i mod g",
        ),
    ),
    "alibi.slopes": Convention(
        ("paper", "geometric"),
        ("alibi_slopes", "alibi_bias"),
        (
            "a head count that is no power of two takes its slopes by the paper's rule",
            "head i, counted from 1, has 2^(-8i/h) at any head count h",
        ),
    ),
    "alibi.row_constant": Convention(
        ("zero-diagonal", "free"),
        ("alibi_bias",),
        (
            "the bias is zero where key and query are the same",
            "any constant may be added to a row: softmax cannot see it",
        ),
    ),
    "alibi.future": Convention(
        ("symmetric", "unspecified"),
        ("alibi_bias",),
        (
            "the bias falls with distance on both sides",
            "nothing is promised of keys after the query, which are masked anyway",
        ),
    ),
    "sinusoidal.layout": Convention(
        ("interleaved", "concatenated"),
        ("sinusoidal",),
        ("sines and cosines by turns", "all sines first, then all cosines"),
    ),
    "rms_norm.eps": Convention(
        ("inside", "outside", "clamped", "none"),
        ("rms_norm", "transformer_layer"),
        (
            "eps is added to the mean square, below the root",
            "eps is added to the root",
            "the larger of mean square and eps counts",
            "there is no eps",
        ),
    ),
    "rms_norm.gain": Convention(
        ("plain", "one-plus"),
        ("rms_norm", "transformer_layer"),
        ("the normalised value is multiplied by the weight w", "it is multiplied by 1 + w"),
    ),
    "layer_norm.eps": Convention(
        ("inside", "outside"),
        ("layer_norm",),
        ("eps is added to the variance, below the root", "eps is added to the root"),
    ),
    "hadamard.scaling": Convention(
        ("orthonormal", "none"),
        ("hadamard",),
        ("the transform is divided by sqrt(n), so that it keeps lengths", "it is not divided"),
    ),
    "select_top_k.ties": Convention(
        ("any", "lowest-index"),
        ("select_top_k",),
        ("any of several equal scores may be taken", "those of the lowest index are"),
    ),
}

GUARANTEES = (
    "mask-exact",
    "repeatable",
    "repeatable-backward",
    "batch-invariant",
    "layout-invariant",
)
DEFAULT_GUARANTEES = ("mask-exact", "repeatable")


def followed(declared: Mapping[str, str]) -> dict[str, str]:
    """Every convention with the value that a target follows. Raises ValueError, with what is
    allowed, for a name or a value that does not exist."""
    for name, value in declared.items():
        if name not in CONVENTIONS:
            raise ValueError(f"unknown convention {name!r}; allowed: {', '.join(CONVENTIONS)}")
        if value not in CONVENTIONS[name].values:
            allowed = ", ".join(CONVENTIONS[name].values)
            raise ValueError(f"convention {name!r} is {value!r}; allowed: {allowed}")
    return {name: declared.get(name, c.values[0]) for name, c in CONVENTIONS.items()}


def others(component: str, conventions: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Every (convention, value) that reaches a component and that the target does not follow."""
    return tuple(
        (name, value)
        for name, convention in CONVENTIONS.items()
        if component in convention.reaches
        for value in convention.values
        if value != conventions[name]
    )
