"""Makes a failing call readable: fewer numbers, and simpler ones.

Hypothesis shrinks the structure of a call (shape, pattern, layout); its seed fills tensors with
numbers that nobody can read. So the numbers are simplified here, deterministically and on a
small budget of calls: contiguous memory, positions 0 to n-1, zeros nearly everywhere, ones,
small integers. What is returned still fails, and is still a legal call: whatever is hidden from a
row may be shown, and nothing else is hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import numpy as np

from attnspec.oracle.components import COMPONENTS
from attnspec.oracle.family import repeated
from attnspec.oracle.law import Inputs
from attnspec.oracle.precision import snapped

Array = np.ndarray[Any, Any]
Fails = Callable[[Inputs], bool]

_HALVINGS = 2
"""How often the hidden part of a mask is halved."""
SIMPLIFIED = "simplified"
"""Pattern of a call whose numbers were changed here."""
_RESERVED = 4
"""Calls that are kept back for the last step, which rounds the numbers that are left."""


def simplified(
    inputs: Inputs, fails: Fails, budget: int = 16, keep: Collection[str] = ()
) -> Inputs:
    """A simpler call that fails too, after at most `budget` calls of `fails`.

    `inputs` itself fails, which isn't checked again. Arrays named in `keep` stay as they are: for
    laws that assume something of their values. So do basis vectors, and positions that are all 0.
    An exception of `fails` is not caught.
    """
    search = _Search(inputs, fails, budget)
    if inputs.layout != "contiguous":
        search.accepts(replace(search.best, layout="contiguous"))
    names = [name for name in inputs.arrays if name not in keep]
    for name in names:
        if inputs.arrays[name].dtype.kind in "iu":
            _simplify_positions(search, name)
        elif inputs.arrays[name].dtype.kind == "b":
            _simplify_mask(search, name)
    floating = [name for name in names if inputs.arrays[name].dtype.kind == "f"]
    if inputs.pattern.startswith("basis"):
        return search.best
    for name in floating:
        # minus infinity in a bias hides a key, as a mask does
        _simplify_whole(search, name, infinite=name in COMPONENTS[inputs.component].keywords)
    for name in floating:
        _simplify_parts(search, name)
    for name in floating:
        _simplify_numbers(search, name)
    return search.best


class _Search:
    """The simplest failing call so far, and how many calls are left."""

    def __init__(self, inputs: Inputs, fails: Fails, budget: int) -> None:
        self.best = inputs
        self.left = budget
        self._fails = fails

    def accepts(self, trial: Inputs) -> bool:
        """Whether there was a call left for the trial and it fails. Then it is the best."""
        if self.left < 1:
            return False
        self.left -= 1
        if not self._fails(trial):
            return False
        self.best = trial
        return True

    def tries(self, name: str, values: Array) -> bool:
        """Whether other values of one array are the same as before (no call is made), or are
        accepted."""
        before = self.best.arrays[name]
        if before.dtype.kind == "f":
            values = snapped(values, self.best.dtype)
            keyword = name in COMPONENTS[self.best.component].keywords
            if not keyword:
                values = repeated(values, self.best.layout)
        else:
            values = values.astype(before.dtype)
        if np.array_equal(values, before):
            return True
        trial = self.best.with_arrays(**{name: values})
        if before.dtype.kind == "f":
            # the signs are no longer random: only the worst case counts
            trial = replace(trial, pattern=SIMPLIFIED, signed=False)
        return self.accepts(trial)


def _simplify_positions(search: _Search, name: str) -> None:
    """0 to n-1, else all equal to a small number or to the largest, else nearer to 0."""
    values = search.best.arrays[name]
    if not values.size or not values.any():
        return
    running = np.broadcast_to(np.arange(values.shape[-1]), values.shape)
    largest = int(values.max())
    for trial in (running, np.ones_like(values), np.full_like(values, largest)):
        if trial.max() <= largest and search.tries(name, trial):
            break
    else:
        search.tries(name, values - values.min())
    for _ in range(2):
        now = search.best.arrays[name]
        if now.max() <= values.shape[-1] or not search.tries(name, now // 2):
            return


def _simplify_mask(search: _Search, name: str) -> None:
    """Everything visible, else as little hidden as can be found by halves."""
    if search.tries(name, np.ones_like(search.best.arrays[name])):
        return
    for _ in range(_HALVINGS):
        hidden = np.flatnonzero(~search.best.arrays[name].ravel())
        for part in np.array_split(hidden, 2) if len(hidden) > 1 else ():
            values = search.best.arrays[name].copy()
            values.flat[part] = True
            if search.tries(name, values):
                break
        else:
            return


def _simplify_whole(search: _Search, name: str, *, infinite: bool) -> None:
    """One trial each: nothing but zeros, ones, no minus infinity (unless `infinite`), the largest
    number alone."""
    values = search.best.arrays[name]
    finite = np.isfinite(values)
    if not finite.any():
        return
    for trial in (np.where(finite, 0.0, values), np.where(finite, 1.0, values)):
        if search.tries(name, trial):
            break
    if not finite.all() and not infinite:
        search.tries(name, np.where(finite, search.best.arrays[name], 0.0))
    values = search.best.arrays[name]
    sizes = np.where(np.isfinite(values), np.abs(values), 0.0)
    if np.count_nonzero(sizes) > 2:
        alone = np.arange(sizes.size).reshape(sizes.shape) == sizes.argmax()
        search.tries(name, np.where(alone | ~np.isfinite(values), values, 0.0))


def _simplify_parts(search: _Search, name: str) -> None:
    """Zeros in halves of what is left, in quarters where neither half can go, and so on."""
    pieces = 2
    while True:
        there = _nonzero(search, name)
        if len(there) < 2:
            return
        shorter = False
        for part in np.array_split(there, min(pieces, len(there))):
            if len(part) == len(_nonzero(search, name)):
                continue  # nothing but zeros doesn't fail, that was tried first
            if search.left <= _RESERVED:
                return
            values = search.best.arrays[name].copy()
            values.flat[part] = 0.0
            shorter |= search.tries(name, values)
        if not shorter:
            if pieces >= len(there):
                return
            pieces *= 2


def _nonzero(search: _Search, name: str) -> Array:
    flat = search.best.arrays[name].ravel()
    return np.flatnonzero(np.isfinite(flat) & (flat != 0.0))


def _simplify_numbers(search: _Search, name: str) -> None:
    """All of them 1, or 1 and -1, or integers, or halves."""
    values = search.best.arrays[name]
    there = np.isfinite(values) & (values != 0.0)
    if not there.any():
        return
    close = np.clip(values, -8.0, 8.0)
    for simple in (np.ones_like(values), np.sign(values), np.rint(close), np.rint(values)):
        if search.tries(name, np.where(there, simple, values)):
            return
    search.tries(name, np.where(there, np.rint(2.0 * values) / 2.0, values))
