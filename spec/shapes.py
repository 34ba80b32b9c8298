"""Whether the shapes of a matrix product fit: sympy itself checks integer sizes only, so an
ill-typed product of symbolic sizes would pass for a proof."""

from __future__ import annotations

from itertools import pairwise

import sympy as sp


def shapes_fit(*factors: sp.MatrixExpr) -> bool:
    """Whether each factor has as many columns as the next has rows, as the same symbol."""
    return all(left.cols == right.rows for left, right in pairwise(factors))
