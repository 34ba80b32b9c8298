"""Symbols that the claims share, with the assumptions under which sympy reasons about them."""

from __future__ import annotations

import sympy as sp

# sizes
N = sp.Symbol("N", integer=True, positive=True)
"""How many logits a softmax sees."""
others = sp.Symbol("s", integer=True, positive=True)
"""How many logits there are beside a given one: at least one, so that N = s + 1 >= 2."""
d = sp.Symbol("d", integer=True, positive=True, even=True)
"""The dimension of a rotated vector, which is even."""

# indices
i, j, k, l, c = sp.symbols("i j k l c", integer=True, nonnegative=True)  # noqa: E741
"""`i` counts pairs from 0; `j`, `k` and `l` count logits; `c` counts channels."""

# positions, which the identities of rotation allow to be any real numbers
m, n, s, t = sp.symbols("m n shift t", real=True)
"""A query's and a key's position, a common shift of both, and a displacement n - m."""

# vectors of symbolic length
z = sp.IndexedBase("z", real=True)
"""Logits."""
q = sp.IndexedBase("q", real=True)
key = sp.IndexedBase("k", real=True)
x = sp.IndexedBase("x", real=True)
theta = sp.IndexedBase("theta", real=True)
"""Angle per position of each pair: no identity depends on its value."""
slack = sp.IndexedBase("e", nonnegative=True)
"""e[k] >= 0, for writing exp(h) = 1 + e[k] where h >= 0: so sympy decides the sign."""
