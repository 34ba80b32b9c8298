"""Calls of attention that are made from a drawn one: other options, rows, heads and keys.

Axes are named as in the contract: b h t d, b g s d and b g s e for q, k and v, b h t s for masks
and biases, which may lack leading axes and may have size 1 where all share an entry. A call made
here lies contiguous in memory, as its values need not repeat where those of the drawn one do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from attnspec.oracle import attention_sight as sight
from attnspec.oracle.attention_values import attention, log_sum_exp, overflowing, visible
from attnspec.oracle.calls import Check, agree
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs, Kind, Law
from attnspec.oracle.precision import snapped

Array = np.ndarray[Any, Any]

_AXES = {"q": "bhtd", "k": "bgsd", "v": "bgse", "mask": "bhts", "bias": "bhts"}
BY_POSITION: Mapping[str, Any] = {"causal": None, "window": None}
"""Takes away, in `changed`, what hides keys by their position."""


def changed(inputs: Inputs, options: Mapping[str, Any] | None = None, /, **arrays: Any) -> Inputs:
    """The same call with other options and arrays. None takes one away."""
    merged = {**inputs.options, **(options or {})}
    values = {**inputs.arrays, **arrays}
    return replace(
        inputs,
        options={name: value for name, value in merged.items() if value is not None},
        arrays={name: value for name, value in values.items() if value is not None},
        layout="contiguous",
        signed=False,
        drawn=b"",
    )


def plain(inputs: Inputs) -> Inputs:
    """Its q, k and v with no option but the scale."""
    options = dict.fromkeys(("causal", "window", "softcap", "return_lse"))
    return changed(inputs, options, mask=None, bias=None)


def taken(inputs: Inputs, **places: Any) -> Inputs:
    """The call with the given entries of some axes, in every array that has them; places by
    axis letter. Query heads and key heads are two axes."""
    arrays = {}
    for name, values in inputs.arrays.items():
        part = values
        for axis, letter in enumerate(_AXES[name]):
            at = axis - (4 - part.ndim)
            if letter in places and at >= 0 and not _shared(name, part, at):
                part = np.take(part, places[letter], axis=at)
        arrays[name] = part
    return changed(inputs, **arrays)


def _shared(name: str, values: Array, axis: int) -> bool:
    """Whether the one entry of an axis of a mask or a bias stands for all."""
    return name in ("mask", "bias") and values.shape[axis] == 1


def sizes(inputs: Inputs) -> tuple[int, int, int, int]:
    """b, h, t and s."""
    b, h, t, _ = inputs.arrays["q"].shape
    return b, h, t, inputs.arrays["k"].shape[2]


def key_heads(implementation: Implementation, inputs: Inputs) -> Array:
    """The key head that each query head reads."""
    h, g = inputs.arrays["q"].shape[1], inputs.arrays["k"].shape[1]
    return sight.key_heads(implementation.conventions, h, g)


def by_position(implementation: Implementation, inputs: Inputs) -> Array:
    """Who sees whom by causality and window alone: [t, s]."""
    seen: Array = visible(implementation, changed(inputs, mask=None, bias=None))[0, 0]
    return seen


def masked(inputs: Inputs, mask: Array) -> Inputs:
    """The call with a mask beside the one that it may have."""
    own = inputs.arrays.get("mask", np.True_)
    return changed(inputs, mask=np.logical_and(own, mask))


def with_bias(implementation: Implementation, inputs: Inputs) -> Inputs:
    """The call with a drawn bias, shared along some axes, if it may have one and has none."""
    if "bias" in inputs.arrays or not implementation.accepts("bias"):
        return inputs
    rng = generator(inputs, "bias added")
    drawn: Any = rng.standard_normal(np.where(rng.integers(2, size=4), sizes(inputs), 1))
    if len(drawn) == 1 and rng.integers(2):
        drawn = drawn[0]
    return changed(inputs, bias=snapped(drawn, inputs.dtype))


def explicit(implementation: Implementation, inputs: Inputs) -> Inputs | None:
    """The call with a mask in place of causality and window; None where it would need one and
    the function takes none."""
    if not inputs.options.get("causal") and inputs.options.get("window") is None:
        return inputs
    if not implementation.accepts("mask"):
        return None
    return masked(changed(inputs, BY_POSITION), by_position(implementation, inputs))


def promised_rows(implementation: Implementation, inputs: Inputs) -> Array:
    """The rows of which the contract says what they hold: [b, h, t]. Where a score may overflow, of
    a hidden key too, it says nothing: infinity less infinity is what hides the key there."""
    finite = ~overflowing(implementation, inputs)
    if implementation.conventions["attention.empty_row"] != "unspecified":
        return finite
    seen: Array = np.any(visible(implementation, inputs), axis=-1)
    return seen & finite


def two_runs(
    what: str, implementation: Implementation, one: Inputs, other: Inputs, rows: Any = ()
) -> list[Comparison]:
    """`other` must give what `one` gives in `rows`, an index into b h t, within both runs'
    allowances; so must the log-sum-exps, where both return them. Nothing is said about another
    call that the target's limits exclude."""
    if not implementation.legal(other):
        return []
    first, second = implementation.parts(one), implementation.parts(other)
    room = attention(implementation, one).allowance[rows]
    room = room + attention(implementation, other).allowance
    result = [agree(what, second[0], first[0][rows], room, implementation.dtype)]
    if len(first) == len(second) == 2:
        room = log_sum_exp(implementation, one).allowance[rows]
        room = room + log_sum_exp(implementation, other).allowance
        wide = implementation.contract.accumulate
        result.append(agree(f"{what}, lse", second[1], first[1][rows], room, wide))
    return result


def law(name: str, says: str, means: str, kind: Kind, check: Check, **more: Any) -> Law:
    """A row of the table of laws; `inputs` without the component's name, which all families
    start with."""
    family = f"attention{more.pop('inputs', '')}"
    return Law(f"attention.{name}", "attention", says, means, kind, check, inputs=family, **more)
