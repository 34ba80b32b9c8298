"""Draws of attention, for the tests about them."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from attnspec.oracle import inputs as drawn
from attnspec.oracle.components import COMPONENTS
from attnspec.oracle.conventions import followed
from attnspec.oracle.inputs import Scope, families
from attnspec.oracle.law import Inputs
from attnspec.oracle.precision import contract

ALL = frozenset(COMPONENTS["attention"].options)
NAMES = families("attention")
TOP_LEFT = {"attention.causal_alignment": "top-left"}
TOTAL = {"attention.window": "total"}
Array = np.ndarray[Any, Any]


def scope(dtype: str = "float32", **narrower: Any) -> Scope:
    """The scope of a function that takes every option, and follows the default conventions."""
    conventions = followed(narrower.pop("conventions", {}))
    given = {"dtype": dtype, "accepts": ALL, **narrower}
    return Scope(component="attention", conventions=conventions, **given)


@cache
def _many(family: str, many: int, dtype: str) -> list[Inputs]:
    return list(drawn.sampled(family, scope(dtype), many, seed=7))


def draws(family: str, many: int = 300, dtype: str = "float32", **narrower: Any) -> list[Inputs]:
    """Calls as Hypothesis would build them, without Hypothesis."""
    if not narrower:
        return _many(family, many, dtype)
    return list(drawn.sampled(family, scope(dtype, **narrower), many, seed=7))


def shape_of(inputs: Inputs) -> tuple[int, ...]:
    """b h g t s d e."""
    b, h, t, d = inputs.arrays["q"].shape
    _, g, s, e = inputs.arrays["v"].shape
    return b, h, g, t, s, d, e


def seen_of(inputs: Inputs, conventions: dict[str, str] | None = None) -> Array:
    """Who sees whom, written again in another way: from the distance of key and query."""
    b, h, _, t, s, _, _ = shape_of(inputs)
    rules, given = followed(conventions or {}), inputs.options
    first = 0 if rules["attention.causal_alignment"] == "top-left" else s - t
    distance = np.arange(s) - (first + np.arange(t))[:, None]
    seen = np.ones((t, s), bool)
    if given.get("causal"):
        seen &= distance <= 0
    if given.get("window") is not None:
        counted = 1 if rules["attention.window"] == "total" else 0
        seen &= np.abs(distance) <= given["window"] - counted
    seen = np.broadcast_to(seen, (b, h, t, s))
    if "mask" in inputs.arrays:
        seen = seen & inputs.arrays["mask"]
    if "bias" in inputs.arrays:
        seen = seen & (inputs.arrays["bias"] > -np.inf)
    return seen


def some_row_is_empty(inputs: Inputs, conventions: dict[str, str] | None = None) -> bool:
    return not bool(seen_of(inputs, conventions).any(axis=-1).all())


def as_implementation(
    dtype: str, conventions: dict[str, str] | None = None, preset: str = "eager"
) -> Any:
    """What the oracle asks of an implementation."""
    return SimpleNamespace(
        dtype=dtype,
        contract=contract(dtype, preset),
        conventions=followed(conventions or {}),
        guarantees=(),
    )
