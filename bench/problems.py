"""Definitions with sizes and values, of which certificates and allowances are timed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnspec.oracle.balls import BALLS, precision
from attnspec.oracle.expected import expected, expected_gradients, tape_of
from attnspec.oracle.plan import planned
from attnspec.oracle.precision import contract
from attnspec.spec import attention_definition, rope_definition, softmax_definition
from attnspec.spec.attention_definition import Options
from attnspec.spec.definition import Definition

Array = np.ndarray[Any, Any]
Call = Callable[[], object]


@dataclass(frozen=True)
class Problem:
    """One definition with sizes and values."""

    name: str
    definition: Definition
    parameters: dict[str, Any]
    arrays: dict[str, Array]
    result: tuple[int, ...] = ()
    """Shape of the result, where gradients are timed."""

    def certificate(self) -> object:
        """The enclosures of all elements."""
        plan = planned(tape_of(self.definition), BALLS, tuple(self.parameters.items()))
        with precision():
            return plan(self.arrays)

    def value_and_allowance(self) -> object:
        """What a law compares with, in float32."""
        return expected(self.definition, self.parameters, self.arrays, contract("float32"))

    def gradients(self) -> object:
        """What a law compares all gradients with, in float32."""
        return expected_gradients(
            self.definition,
            tuple(self.arrays),
            self.parameters,
            {**self.arrays, "upstream": _normal(*self.result)},
            contract("float32"),
        )


def _normal(*shape: int) -> Array:
    """float32 numbers as float64."""
    values = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    return values.astype(np.float64)


def softmax_problem(rows: int, n: int) -> Problem:
    """Softmax of so many rows of so many logits."""
    parameters = {"rows": rows, "n": n}
    return Problem(
        f"softmax {rows} x {n}", softmax_definition.DEFINITION, parameters, {"x": _normal(rows, n)}
    )


def rope_problem(n: int, d: int) -> Problem:
    """RoPE of so many positions in one head."""
    return Problem(
        f"rope {n} x {d}",
        rope_definition.rope("interleaved", "forward"),
        {"batch": 1, "heads": 1, "length": n, "d": d, "r": d, "base": 10000.0},
        {"x": _normal(1, 1, n, d), "positions": np.arange(n)[None, :]},
    )


def attention_problem(t: int, s: int, d: int) -> Problem:
    """Attention of so many queries and keys of this size, in one head."""
    sizes = {"batch": 1, "heads": 1, "groups": 1, "t": t, "s": s, "d": d, "e": d}
    keys = _normal(2, 1, 1, s, d)
    return Problem(
        f"attention {t} x {s} x {d}",
        attention_definition.attention(Options()),
        {**sizes, "scale": d**-0.5},
        {"q": _normal(1, 1, t, d), "k": keys[0], "v": keys[1]},
        (1, 1, t, d),
    )


def milliseconds(call: Call, runs: int) -> tuple[float, float]:
    """Minimum and median of the processor's time, after one call that doesn't count."""
    call()
    taken = []
    for _ in range(runs):
        start = time.process_time()
        call()
        taken.append(1e3 * (time.process_time() - start))
    return min(taken), statistics.median(taken)
