"""A small law, a right softmax and a target made of functions, for tests of the runner."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

import attnspec
from attnspec.driving import Effort, outcome_of
from attnspec.loading import Loaded, load
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.law import Implementation, Inputs, Law
from attnspec.outcome import Outcome
from attnspec.runner import all_laws

SMALL = Effort(tier="smoke")
Check = Callable[[Implementation, Inputs], list[Comparison]]


def softmax(x: Any, *, dim: int = -1) -> Any:
    return torch.softmax(x, dim)


def target(declared: Mapping[str, Any] | None = None, **functions: Any) -> Loaded:
    declaration = attnspec.Target(**{"name": "mine", **(declared or {})})
    return load(SimpleNamespace(TARGET=declaration, **functions))


def expected(inputs: Inputs) -> Any:
    x, dim = inputs.arrays["x"], inputs.options.get("dim", -1)
    e = np.exp(x - x.max(axis=dim, keepdims=True))
    return e / e.sum(axis=dim, keepdims=True)


def near(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """A plain law for these tests: softmax within a generous allowance."""
    right = expected(inputs)
    contract, x = implementation.contract, inputs.arrays["x"]
    # what the contract says of statistics decides the allowance
    unit = contract.format("statistics").roundoff + contract.format("output").roundoff
    spread = np.abs(x).max(initial=0.0)
    allowance = unit * (16.0 + 4.0 * spread) * right + contract.format("output").underflow
    return [Comparison("output", implementation(inputs), right, allowance, inputs.dtype)]


def law(check: Check = near, **fields: Any) -> Law:
    row = Law("softmax.near", "softmax", "it is near softmax", "it is wrong", "oracle", check,
              inputs="softmax")  # fmt: skip
    return replace(row, **fields)


def outcome(
    function: Callable[..., Any] = softmax,
    row: Law | None = None,
    dtype: str = "float32",
    effort: Effort = SMALL,
    **declared: Any,
) -> Outcome:
    return outcome_of(row or law(), target(declared, softmax=function), dtype, "cpu", effort)


def wrong(x: Any, *, dim: int = -1) -> Any:
    return torch.softmax(x, 0)


def none(x: Any, *, dim: int = -1) -> Any:
    return None


def law_of_id(identity: str) -> Law:
    return next(row for row in all_laws() if row.id == identity)
