"""The tensors of one call, each in guarded memory of its own, and what became of that memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnspec import memory
from attnspec.arrays import Crossing
from attnspec.oracle.law import Record
from attnspec.oracle.precision import NUMPY_TYPES

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Handed:
    """One tensor that was handed over."""

    name: str
    values: Array
    dtype: str
    """What it is stored in: a storage dtype, an index dtype or `bool`."""
    where: memory.Plan
    given: Any
    """What the target got."""
    now: Callable[[], Array]
    """Reads its buffer as it is."""

    def before(self) -> Array:
        """Its buffer as it was, made anew."""
        return memory.buffer(self.values, self.dtype, self.where)


def handed(
    name: str, values: Array, dtype: str, layout: str, *, crossing: Crossing, device: str
) -> Handed:
    """Place values in a fresh guarded buffer and hand them over."""
    item = NUMPY_TYPES[dtype] if dtype in NUMPY_TYPES else np.dtype(dtype)
    where = memory.planned(values, layout, item.itemsize)
    flat = memory.buffer(values, dtype, where)
    given, now = crossing.hand(flat, where, dtype, device)
    return Handed(name, values, dtype, where, given, now)


def record(tensors: Sequence[Handed]) -> Record:
    """Every byte of these tensors' buffers, guard zones included, before and now."""
    return Record(_bytes([t.before() for t in tensors]), _bytes([t.now() for t in tensors]))


def written(tensors: Sequence[Handed]) -> str:
    """What happened to these tensors' buffers, in words; empty where nothing did."""
    for tensor in tensors:
        text = memory.told(tensor.name, tensor.before(), tensor.now(), tensor.dtype, tensor.where)
        if text:
            return text
    return ""


def _bytes(buffers: list[Array]) -> Array:
    return np.concatenate([np.ascontiguousarray(b).view(np.uint8) for b in buffers])
