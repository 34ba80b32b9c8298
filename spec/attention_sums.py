"""One row of attention over any number of keys, and how its sums are rearranged.

An output is a quotient of two sums over keys, and its log-sum-exp the logarithm of the lower one.
So what holds for the sum of any function of the key holds for both: which keys are summed, in
what order, and how often, is said by *places*, the key of each term.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.claim import Step
from attnspec.spec.symbols import N, j, z

head = sp.Symbol("d_k", integer=True, positive=True)
"""The size of queries and keys."""
count = sp.Symbol("r", integer=True, positive=True)
"""How many keys are meant, of N."""
a, u, w = sp.symbols("a u w", integer=True, nonnegative=True)
"""`a` counts terms; `u` and `w` are distances, so that j = i + 1 + u is a key after i."""

v = sp.IndexedBase("v", real=True)
"""One channel of the values, by key."""
places = sp.IndexedBase("phi", integer=True, nonnegative=True)
"""The key of each term of a sum."""
inverse = sp.IndexedBase("sigma", integer=True, nonnegative=True)
"""The term of each key, where there is one for each."""
any_function = sp.Function("f", real=True)


def exponentials(size: sp.Expr = N) -> sp.Sum:
    """The sum of exp(z_j) over the first keys: the lower sum of an output."""
    return sp.Sum(sp.exp(z[j]), (j, 0, size - 1))


def weighted(size: sp.Expr = N) -> sp.Sum:
    """The sum of exp(z_j) v_j over the first keys: the upper sum of an output."""
    return sp.Sum(sp.exp(z[j]) * v[j], (j, 0, size - 1))


def output(size: sp.Expr = N) -> sp.Expr:
    """One output over the first keys."""
    return weighted(size) / exponentials(size)


def at_places(summand: sp.Expr, terms: sp.Expr) -> sp.Expr:
    """The sum over all keys j of the summand times how often j is among the places of the terms,
    which is the sum of delta(j, phi_a); the sum over j is taken first."""
    hit = sp.KroneckerDelta(j, places[a], (0, N - 1))
    return sp.Sum(hit * summand, (j, 0, N - 1), (a, 0, terms - 1)).doit()


def over_keys(summand: sp.Expr) -> sp.Expr:
    """The same for a permutation, with the sum over the terms first: delta(j, phi_a) is
    delta(a, sigma_j), as key j is the place of the term sigma_j."""
    hit = sp.KroneckerDelta(a, inverse[j], (0, N - 1))
    return sp.Sum(hit * summand, (a, 0, N - 1), (j, 0, N - 1)).doit()


def gathering() -> tuple[Step, ...]:
    """A sum over some keys is a sum over all that counts those: for any function of the key, in
    particular for both sums of an output."""
    parts = (any_function(j), sp.exp(z[j]), sp.exp(z[j]) * v[j])
    names = ("any function f of the key", "exp(z_j)", "exp(z_j) v_j")
    return tuple(
        Step(
            f"with m_j = sum over a of delta(j, phi_a), the sum over all keys of m_j times {name} "
            "is the sum over a at phi_a",
            at_places(part, count) - sp.Sum(part.subs(j, places[a]), (a, 0, count - 1)),
        )
        for part, name in zip(parts, names, strict=True)
    )


def relabelling() -> tuple[Step, ...]:
    """A sum over keys in another order is the same sum."""
    return (
        *gathering(),
        Step(
            "where phi takes each key once, so that delta(j, phi_a) = delta(a, sigma_j) with its "
            "inverse sigma, every m_j is 1",
            sp.Sum(sp.KroneckerDelta(a, inverse[j], (0, N - 1)), (a, 0, N - 1)).doit() - 1,
        ),
        Step(
            "and the sum over the terms is that over all keys",
            over_keys(any_function(j)) - sp.Sum(any_function(j), (j, 0, N - 1)),
        ),
    )


def entry_difference(product: sp.Expr, total: sp.Sum) -> sp.Expr:
    """An entry of a matrix product minus a sum: 0 if they agree but for the name of the index."""
    return product.as_dummy() - total.as_dummy()
