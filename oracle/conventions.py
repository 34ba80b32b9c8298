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


CONVENTIONS: Mapping[str, Convention] = {
    "rope.layout": Convention(("interleaved", "half"), _ROTATIONS),
    "rope.direction": Convention(("forward", "backward"), _ROTATIONS),
    "attention.causal_alignment": Convention(
        ("bottom-right", "top-left"), ("attention", "select_top_k")
    ),
    "attention.window": Convention(("radius", "total"), ("attention", "decode_attention")),
    "attention.empty_row": Convention(("zero", "nan", "unspecified"), _ATTENTIONS),
    "attention.masked_nan": Convention(("unspecified", "ignored"), ("attention",)),
    "attention.visible_nan": Convention(("unspecified", "propagates"), ("attention",)),
    "gqa.head_order": Convention(("grouped", "tiled"), _ATTENTIONS),
    "alibi.slopes": Convention(("paper", "geometric"), ("alibi_slopes", "alibi_bias")),
    "alibi.row_constant": Convention(("zero-diagonal", "free"), ("alibi_bias",)),
    "alibi.future": Convention(("symmetric", "unspecified"), ("alibi_bias",)),
    "sinusoidal.layout": Convention(("interleaved", "concatenated"), ("sinusoidal",)),
    "rms_norm.eps": Convention(
        ("inside", "outside", "clamped", "none"), ("rms_norm", "transformer_layer")
    ),
    "rms_norm.gain": Convention(("plain", "one-plus"), ("rms_norm", "transformer_layer")),
    "layer_norm.eps": Convention(("inside", "outside"), ("layer_norm",)),
    "hadamard.scaling": Convention(("orthonormal", "none"), ("hadamard",)),
    "select_top_k.ties": Convention(("any", "lowest-index"), ("select_top_k",)),
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
