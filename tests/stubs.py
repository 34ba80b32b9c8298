"""A small law, a right softmax and attention, and targets made of functions, for tests of the
runner."""

from __future__ import annotations

import math
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
from attnspec.oracle.precision import snapped
from attnspec.outcome import Outcome
from attnspec.runner import all_laws
from attnspec.subject import Subject

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


def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    mask: Any = None,
    bias: Any = None,
    causal: bool = False,
    scale: float | None = None,
    return_lse: bool = False,
) -> Any:
    """Attention of as many query heads as key heads, with the log-sum-exp if asked for."""
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    scores = scores if bias is None else scores + bias
    t, s = scores.shape[-2:]
    if causal:
        hidden = torch.ones(t, s, dtype=torch.bool).triu(s - t + 1)
        scores = scores.masked_fill(hidden, -math.inf)
    scores = scores if mask is None else scores.masked_fill(~mask, -math.inf)
    output = torch.softmax(scores, -1) @ v
    return (output, scores.float().logsumexp(-1)) if return_lse else output


def attention_call(
    dtype: str = "float32", *, mask: Any = None, bias: Any = None, **fields: Any
) -> Inputs:
    """Two batch entries, one head, three queries, four keys of 2, values of 5."""
    sizes = {"q": (2, 1, 3, 2), "k": (2, 1, 4, 2), "v": (2, 1, 4, 5)}
    arrays = {
        name: (np.arange(math.prod(shape)).reshape(shape) % 7 - 3.0) / (2.0 + at)
        for at, (name, shape) in enumerate(sizes.items())
    }
    arrays = {name: snapped(values, dtype) for name, values in arrays.items()}
    keywords = {"mask": mask, "bias": bias}
    arrays |= {name: np.asarray(given) for name, given in keywords.items() if given is not None}
    return Inputs("attention", dtype, arrays, **fields)


def subject(function: Callable[..., Any], component: str = "softmax", **declared: Any) -> Subject:
    """A function of a target as laws see it, beside `others`."""
    dtype = declared.pop("dtype", "float32")
    functions = {component: function, **declared.pop("others", {})}
    return Subject(target(declared, **functions), component, dtype)
