"""The crossing between the suite's NumPy arrays and those of a target: torch, NumPy or DLPack.

torch is imported in here, on first use, and nowhere else in the suite.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from attnspec import memory
from attnspec.memory import Plan
from attnspec.oracle.law import Breach
from attnspec.oracle.precision import numpy_type

Array = np.ndarray[Any, Any]

KINDS = ("torch", "numpy", "dlpack")
_DLPACK_CPU, _DLPACK_CUDA = 1, 2


@dataclass(frozen=True)
class Due:
    """What a result, or one of several, must be."""

    shape: tuple[int, ...]
    dtypes: tuple[str, ...]
    """The dtypes that it may have."""
    device: str
    called: str = ""
    """Its name, where it isn't the only result."""


@dataclass(frozen=True)
class Crossing:
    """How arguments go over to a target and results come back."""

    hand: Callable[[Array, Plan, str, str], tuple[Any, Callable[[], Array]]]
    """From (buffer, plan, dtype, device): the object handed over, and a function that returns
    the buffer's cells as they are now."""
    take: Callable[[Any, Due], Array]
    """From a result and what it must be: the result as float64, always a copy. Raises Breach of
    kind `type`, `shape`, `dtype` or `device` with what was given and what is expected."""
    settle: Callable[[str], None]
    """Waits until the device is done."""
    dtype: Callable[[str], Any]
    """A dtype as a call of the target names it: torch's, NumPy's, or its bare name."""


def crossing(arrays: str) -> Crossing:
    """The crossing for `Target.arrays`, one of `KINDS`."""
    if arrays == "torch":
        return Crossing(_hand_torch, _take_torch, _settle_torch, _torch_type)
    if arrays == "numpy":
        return Crossing(_hand_numpy, _take_numpy, _settle_nothing, numpy_type)
    return Crossing(_hand_dlpack, _take_dlpack, _settle_torch, str)


def has_torch() -> bool:
    """Whether torch is installed."""
    return importlib.util.find_spec("torch") is not None


@cache
def torch() -> Any:
    """The module torch."""
    import torch as module

    return module


@cache
def _torch_type(dtype: str) -> Any:
    return getattr(torch(), dtype)


def described(value: object) -> str:
    """What a returned object is, in a few words."""
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    if value is None:
        return "None"
    kind = type(value)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"an object of type {module}{kind.__qualname__}"


# torch


def _hand_torch(
    flat: Array, where: Plan, dtype: str, device: str
) -> tuple[Any, Callable[[], Array]]:
    held = torch().from_numpy(flat)
    if device == "cpu":
        now: Callable[[], Array] = lambda: flat  # noqa: E731
    else:
        held = held.to(device)
        now = lambda: held.cpu().numpy()  # noqa: E731
    typed = held.view(_torch_type(dtype)) if dtype == "bfloat16" else held
    return typed.as_strided(where.shape, where.strides, where.start), now


def _take_torch(result: Any, due: Due) -> Array:
    library = torch()
    if not isinstance(result, library.Tensor):
        raise _alien(result, "a torch tensor", due)
    if result.layout is not library.strided:
        raise _wrong("type", f"a tensor of layout {result.layout}", "a dense one", due)
    if result.shape != due.shape:
        raise _wrong("shape", f"shape {tuple(result.shape)}", f"shape {due.shape}", due)
    if all(result.dtype is not _torch_type(dtype) for dtype in due.dtypes):
        given = str(result.dtype).removeprefix("torch.")
        raise _wrong("dtype", f"dtype {given}", f"dtype {' or '.join(due.dtypes)}", due)
    device, wanted = result.device, due.device
    if device.type != wanted.partition(":")[0] or (":" in wanted and str(device) != wanted):
        raise _wrong("device", f"device {device}", f"device {wanted}", due)
    values = result.detach()
    if values.dtype is library.float64:
        return np.array(values.cpu().numpy())
    wide: Array = values.to(library.float64).cpu().numpy()
    return wide


def _settle_torch(device: str) -> None:
    if device != "cpu":
        torch().cuda.synchronize(device)


# NumPy


def _hand_numpy(
    flat: Array, where: Plan, dtype: str, _device: str
) -> tuple[Any, Callable[[], Array]]:
    return memory.strided(flat, dtype, where), lambda: flat


def _take_numpy(result: Any, due: Due) -> Array:
    if not isinstance(result, (np.ndarray, np.generic)):
        raise _alien(result, "a numpy array", due)
    if result.shape != due.shape:
        raise _wrong("shape", f"shape {result.shape}", f"shape {due.shape}", due)
    if all(result.dtype != numpy_type(dtype) for dtype in due.dtypes):
        wanted = " or ".join(due.dtypes)
        raise _wrong("dtype", f"dtype {result.dtype}", f"dtype {wanted}", due)
    return np.array(result, np.float64)


def _settle_nothing(_device: str) -> None:
    return None


# DLPack


class Exchange:
    """An array that offers the DLPack protocol and nothing else, so that a target cannot lean on
    the library that made it."""

    def __init__(self, held: Any) -> None:
        self._held = held

    def __dlpack__(self, **options: Any) -> Any:
        return self._held.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._held.__dlpack_device__()


def _hand_dlpack(
    flat: Array, where: Plan, dtype: str, device: str
) -> tuple[Any, Callable[[], Array]]:
    # NumPy exports no bfloat16 and knows no other device
    hand = _hand_torch if dtype == "bfloat16" or device != "cpu" else _hand_numpy
    held, now = hand(flat, where, dtype, device)
    return Exchange(held), now


def _take_dlpack(result: Any, due: Due) -> Array:
    if not (hasattr(result, "__dlpack__") and hasattr(result, "__dlpack_device__")):
        raise _alien(result, "one with __dlpack__", due)
    given = result.__dlpack_device__()[0]
    if given != (_DLPACK_CPU if due.device == "cpu" else _DLPACK_CUDA):
        told = f"DLPack device type {int(given)}"
        raise _wrong("device", told, f"device {due.device}", due)
    if "bfloat16" in due.dtypes or due.device != "cpu":
        return _take_torch(_imported(torch().from_dlpack, result), due)
    return _take_numpy(_imported(np.from_dlpack, result), due)


def _imported(load: Callable[[Any], Any], result: Any) -> Any:
    try:
        return load(result)
    except Exception as error:
        message = f"returned {described(result)} whose __dlpack__ cannot be read: {error}"
        raise Breach("type", message) from error


def _alien(result: object, expected: str, due: Due) -> Breach:
    role = f" as {due.called}" if due.called else ""
    return Breach("type", f"returned {described(result)}{role}; expected {expected}")


def _wrong(kind: str, given: str, expected: str, due: Due) -> Breach:
    owner = f"{due.called} of " if due.called else ""
    return Breach(kind, f"returned {owner}{given}; expected {expected}")
