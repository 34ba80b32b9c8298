"""What the tests of the claims on latent attention share: registered numbers, and exact rank."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
V2 = {"heads": 128, "d": 128, "e": 128, "latent": 512, "rotary": 64, "query_latent": 1536}


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
