"""What the tests of the claims on latent attention share: registered numbers, and exact rank."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import sympy as sp

from attnspec.spec import claim

Array = np.ndarray[Any, Any]
V2 = {"heads": 128, "d": 128, "e": 128, "latent": 512, "rotary": 64, "query_latent": 1536}


def shown(claim_id: str) -> tuple[sp.Expr, sp.Expr]:
    """What a counterexample says is stated, and what is so."""
    entry = claim(claim_id)
    assert entry.counterexample is not None
    found = entry.counterexample()
    return found.stated, found.actual


def numbers(claim_id: str) -> tuple[Any, Any]:
    """The two as fractions."""
    found = shown(claim_id)
    assert all(isinstance(x, sp.Rational) for x in found)
    stated, actual = (Fraction(int(x.p), int(x.q)) for x in found)
    return stated, actual


def rank(rows: list[list[Fraction]]) -> int:
    """By elimination in fractions."""
    rows, found = [list(row) for row in rows], 0
    for column in range(len(rows[0])):
        pivots = [k for k in range(found, len(rows)) if rows[k][column]]
        if not pivots:
            continue
        rows[found], rows[pivots[0]] = rows[pivots[0]], rows[found]
        for k in range(found + 1, len(rows)):
            factor = rows[k][column] / rows[found][column]
            rows[k] = [x - factor * y for x, y in zip(rows[k], rows[found], strict=True)]
        found += 1
        if found == len(rows):
            break
    return found


def fractions(array: Array) -> list[list[Fraction]]:
    return [[Fraction(int(x)) for x in row] for row in array]
