"""The callables that a call hands over, made from their records, and what they were given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from attnspec.arrays import Exchange, described, has_torch, torch
from attnspec.oracle.callee import Callee, Heard, Moved, Own, Same
from attnspec.oracle.law import Breach

Ear = Callable[[], Heard]
"""Tells what was heard; nothing is converted before somebody asks."""
Functions = Mapping[str, Callable[..., Any]]


def made(
    callees: Mapping[str, Callee], arrays: str, functions: Functions, heard: list[Ear]
) -> dict[str, Callable[[Any], Any]]:
    """Functions on the arrays of a target that takes `arrays`, by their names: `functions` are its
    own. What they are given is noted in `heard`, as it is then, each time that one is called."""
    return {name: _made(name, c, arrays, functions, heard) for name, c in callees.items()}


def _made(
    name: str, callee: Callee, arrays: str, functions: Functions, heard: list[Ear]
) -> Callable[[Any], Any]:
    def function(x: Any, /) -> Any:
        heard.append(_noted(name, x, arrays))
        if isinstance(callee, Own):
            eps = {} if callee.eps is None else {"eps": callee.eps}
            return functions[callee.function](x, **eps)
        return x if isinstance(callee, Same) else _moved(callee, x)

    function.__name__ = name
    return function


def _noted(name: str, x: Any, arrays: str) -> Ear:
    """A copy of what is given to a callable. Raises Breach of kind `type` if it is no array of the
    target's."""
    kind = _kind(x)
    if kind is None or arrays not in ("dlpack", kind):
        expected = {"torch": "a torch tensor", "numpy": "a numpy array"}.get(
            arrays, "one with __dlpack__"
        )
        raise Breach("type", f"called {name} with {described(x)}; expected {expected}")
    held = _imported(x) if kind == "dlpack" else x
    if isinstance(held, np.ndarray):
        copy = np.array(held)
        return lambda: Heard(name, copy.astype(np.float64), str(copy.dtype), "cpu")
    clone = held.detach().clone()
    return lambda: Heard(
        name,
        clone.double().cpu().numpy(),
        str(clone.dtype).removeprefix("torch."),
        clone.device.type,
    )


def _kind(x: Any) -> str | None:
    if isinstance(x, np.ndarray):
        return "numpy"
    if has_torch() and isinstance(x, torch().Tensor):
        return "torch"
    return "dlpack" if hasattr(x, "__dlpack__") else None


def _imported(x: Any) -> Any:
    """An array that offers DLPack, for the library that can read it."""
    return torch().from_dlpack(x) if has_torch() else np.from_dlpack(x)


def _moved(callee: Moved, x: Any) -> Any:
    """In the dtype of `x`, and of the kind that it is of."""
    kind = _kind(x)
    if kind == "dlpack":
        found = Exchange(_moved(callee, _imported(x)))
        # a target's own array comes back as one where its library says how
        namespace = getattr(x, "__array_namespace__", None)
        return found if namespace is None else namespace().from_dlpack(found)
    if not x.ndim:
        raise Breach("shape", "called a callable with a single number; expected rows of channels")
    factor = callee.factor(x.shape[-1])
    if kind == "numpy":
        return np.roll(x, callee.shift, -1) * factor.astype(x.dtype)
    return x.roll(callee.shift, -1) * torch().from_numpy(factor).to(x)
