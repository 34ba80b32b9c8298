"""Draws of attention, for the tests about them."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from attnspec.oracle import inputs as drawn
from attnspec.oracle.attention_masks import sees
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
    b, h, _, t, s, _, _ = shape_of(inputs)
    mask, bias = inputs.arrays.get("mask"), inputs.arrays.get("bias")
    return sees(followed(conventions or {}), (b, h, t, s), inputs.options, mask, bias)


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
