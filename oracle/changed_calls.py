"""Calls with weights, made from drawn ones, and the comparison of two such runs.

Axes are named as in the contract. A call made here lies contiguous in memory, as its values need
not repeat where those of the drawn one do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from attnspec.oracle.calls import Check, Oracle, agree, same
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs
from attnspec.oracle.precision import snapped

Array = np.ndarray[Any, Any]


class TwoRuns(Protocol):
    """`other` must give in `other_rows` what `one` gives in `rows`, within both runs'
    allowances."""

    def __call__(
        self, what: str, implementation: Implementation, one: Inputs, other: Inputs, *,
        rows: Any = (), other_rows: Any = (),
    ) -> list[Comparison]: ...  # fmt: skip


def changed(inputs: Inputs, options: Mapping[str, Any] | None = None, /, **arrays: Array) -> Inputs:
    """The same call with other options and arrays."""
    return replace(
        inputs,
        options={**inputs.options, **(options or {})},
        arrays={**inputs.arrays, **arrays},
        layout="contiguous",
        drawn=b"",
    )


def zeroed(inputs: Inputs, *names: str) -> Inputs:
    """The call with some weights of zeros."""
    return changed(inputs, **{name: np.zeros_like(inputs.arrays[name]) for name in names})


def held(inputs: Inputs, arrays: Mapping[str, Array]) -> bool:
    """Whether the dtype of a call holds these numbers."""
    return all((snapped(values, inputs.dtype) == values).all() for values in arrays.values())


def one_entry(inputs: Inputs, names: tuple[str, ...] = ("x",)) -> tuple[Inputs, Any]:
    """A batch entry alone, and where it is. `names` are the arrays that have one; those that the
    call lacks are left out."""
    at = int(generator(inputs, "entry").integers(max(len(inputs.arrays["x"]), 1)))
    parts = {n: inputs.arrays[n][at : at + 1] for n in names if n in inputs.arrays}
    return changed(inputs, **parts), slice(at, at + 1)


def blocks(weight: Array, heads: int) -> Array:
    """`m (h d)` as `m h d`."""
    return weight.reshape(weight.shape[0], heads, weight.shape[1] // heads)


def with_head_rows(out: Array, heads: int, order: Array) -> Array:
    """w_o, `(h e) m`, with the rows of its heads in another order."""
    rows = out.reshape(heads, out.shape[0] // heads, out.shape[1])
    return np.array(rows[order].reshape(out.shape))


def pair_members(layout: str, width: int) -> tuple[Array, Array]:
    """The first and the second channels of all pairs that are rotated."""
    channels = np.arange(width)
    if layout == "half":
        return channels[: width // 2], channels[width // 2 :]
    return channels[0::2], channels[1::2]


def two_runs_of(oracle: Oracle) -> TwoRuns:
    """The comparison of two runs of a component. Nothing is said about calls that the target's
    limits exclude."""
    return partial(_two_runs, oracle)


def _two_runs(
    oracle: Oracle, what: str, implementation: Implementation, one: Inputs, other: Inputs, *,
    rows: Any = (), other_rows: Any = (),
) -> list[Comparison]:  # fmt: skip
    if not (implementation.legal(one) and implementation.legal(other)):
        return []
    first, second = implementation(one)[rows], implementation(other)[other_rows]
    room = oracle(implementation, one).allowance[rows]
    room = room + oracle(implementation, other).allowance[other_rows]
    return [agree(what, second, first, room, implementation.dtype)]


def prefix(two_runs: TwoRuns) -> Check:
    """The first tokens alone give the first rows."""

    def check(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
        x = inputs.arrays["x"]
        kept = int(generator(inputs, "prefix").integers(1, x.shape[1]))
        alone = changed(inputs, x=x[:, :kept])
        rows = (slice(None), slice(kept))
        return two_runs("first tokens alone", implementation, inputs, alone, rows=rows)

    return check


def future_changes_nothing(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Other later tokens, of the same number, change no bit of a row (`mask-exact`)."""
    x = inputs.arrays["x"]
    kept = int(generator(inputs, "frontier").integers(1, x.shape[1]))
    other = np.array(x)
    other[:, kept:] = -2.0 * x[:, kept:, ::-1]
    promised = "mask-exact" in implementation.guarantees
    plain = implementation(inputs, layout="contiguous")[:, :kept]
    among = implementation(changed(inputs, x=snapped(other, inputs.dtype)))[:, :kept]
    return [same("rows before other tokens", among, plain, implementation.dtype, promised=promised)]
