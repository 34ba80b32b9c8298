"""Adding up along a constant index: the adjoint of reading an array at computed places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from attnspec.oracle.tape import Op, UnsupportedError

if TYPE_CHECKING:
    from attnspec.oracle.plan import Plan

Array = np.ndarray[Any, Any]


class Scattering:
    """y[.., g, ..] = sum of x[.., f, ..] over the f whose index is g, at one plan's sizes.

    The operation's arguments are x and the index; `extra` is the axis g and the axes f.
    """

    def __init__(self, op: Op, plan: Plan) -> None:
        target, sources = op.extra
        index = plan.constant(op.args[1])
        if index is None:
            raise UnsupportedError(f"{plan.tape.name}: an index that depends on an input")
        sizes = plan.sizes
        self._sources = [sizes[a] for a in sources]
        place = [sizes[a] if a in sources else 1 for a in range(plan.ndim)]
        flat = np.broadcast_to(index, place).transpose(
            [*sources, *(a for a in range(plan.ndim) if a not in sources)]
        )
        flat = flat.reshape(-1)
        self._order = np.argsort(flat, kind="stable")
        self._present, self._starts, counts = np.unique(
            flat[self._order], return_index=True, return_counts=True
        )
        self._size = sizes[target]
        self.moves = len(sources) == 1 and np.array_equal(flat, np.arange(self._size))
        """Whether every place has its one term: the axis gets another name, and that is all."""
        each = -(-len(flat) // self._size) if self._size else 0
        self._each = each if each and (counts == each).all() and len(counts) == self._size else 0
        self._sorted = np.array_equal(self._order, np.arange(len(flat)))
        self._axes = sources[0], target
        full = np.zeros(self._size, np.int64)
        full[self._present] = counts
        self._rest = [a for a in range(plan.ndim) if a not in sources]
        self._moved = (*self._rest, *sources)
        self._target = self._rest.index(target)
        self._final = [
            0 if a not in (*sources, target) else self._size if a == target else 1
            for a in range(plan.ndim)
        ]
        shape = [1] * plan.ndim
        shape[target] = self._size
        self.counts: Array = full.reshape(shape)
        """How many terms each place has."""
        self._full = [sizes[a] if a in sources else 0 for a in range(plan.ndim)]

    def __call__(self, x: Array, zero: Any = 0.0) -> Array:
        """The sums; `zero` where there is no term."""
        shape = tuple(full or size for full, size in zip(self._full, x.shape, strict=True))
        if x.shape != shape:
            x = np.broadcast_to(x, shape)
        if self.moves:
            return x.swapaxes(*self._axes)
        x = x.transpose(self._moved)
        lead = x.shape[: len(self._rest)]
        flat = x.reshape(*lead, -1)
        if not self._sorted:
            flat = flat.take(self._order, -1)
        if self._each:
            # as many terms at each place
            out = np.add.reduce(flat.reshape(*lead, self._size, self._each), -1)
        else:
            out = np.full((*lead, self._size), zero, x.dtype)
            if flat.size:
                out[..., self._present] = np.add.reduceat(flat, self._starts, -1)
        # the target's own place has size 1 so far
        out = out.swapaxes(-1, self._target)[..., 0]
        final = [f or s for f, s in zip(self._final, shape, strict=True)]
        placed: Array = out.reshape(final)
        return placed
