"""Sums of sums: what is added up over rows and then over the heads that share a key may be added up
in one go, as a matrix product over the rows of all heads does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attnspec.impls.attention import attention
from attnspec.oracle.attention_values import gradients
from attnspec.oracle.law import Inputs
from attnspec.oracle.rounding import gamma
from attnspec.subject import Subject
from tests.stubs import target

HEADS, ROWS = 32, 300
TERMS = HEADS * ROWS
UNIT = 2.0**-24


def right(name: str) -> Any:
    """The gradient of keys or values that 32 heads of 300 rows share, all terms alike."""
    q, k, v = np.ones((1, HEADS, ROWS, 3)), np.zeros((1, 1, 2, 3)), np.zeros((1, 1, 2, 4))
    v[:, :, 0] = 1.0
    inputs = Inputs("attention", "float32", {"q": q, "k": k, "v": v})
    subject = Subject(target({}, attention=attention), "attention", "float32")
    return gradients(subject, inputs, np.ones((1, HEADS, ROWS, 4)))[name]


@pytest.mark.parametrize(("name", "term"), [("k", 3.0**-0.5), ("v", 0.5)])
def test_terms_of_all_heads_may_be_added_one_by_one(name: str, term: float) -> None:
    found = right(name)
    # 9600 roundings in float32, one after the other
    total = float(np.cumsum(np.full(TERMS, np.float32(term)), dtype=np.float32)[-1])
    error = abs(total - abs(found.value[0, 0, 0, 0]))
    assert error <= found.allowance[0, 0, 0, 0]
    if name == "k":
        # more than if each head were added up by itself
        assert error > 1.5 * gamma(ROWS + HEADS, UNIT) * term * TERMS


@pytest.mark.parametrize(("name", "term"), [("k", 3.0**-0.5), ("v", 0.5)])
def test_no_more_is_allowed_than_that_loses_at_worst(name: str, term: float) -> None:
    found, size = right(name), term * TERMS
    worst = gamma(TERMS + ROWS, UNIT) * size
    # what is lost before terms are added: in the weights, their gradients, the scale
    before = gamma(64, UNIT) * 4.0 * size
    assert found.allowance[0, 0, 0, 0] <= worst + before
