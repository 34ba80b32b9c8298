"""The normal form of sums of symbolic length.

Derivatives of array entries inside a `Sum` are sums over `KroneckerDelta`. sympy's `doit` makes a
Piecewise of each, which `simplify` does not get rid of. Here a delta is collapsed to the entry that
it picks out, and the rest is brought to one form: every term a product of sums that share no index,
no sum within a sum, no factor under a sum that is free of its indices, and bound indices named by
place. Expressions of one normal form are equal. That equal ones always have one isn't promised.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, permutations, product

import sympy as sp

Limit = tuple[sp.Symbol, sp.Expr, sp.Expr]
Ranges = Mapping[sp.Symbol, sp.Expr]
"""Of free indices: how many values each has, from 0."""

exponential = sp.Function("E")
"""exp in normal forms: sympy merges products of its own exponentials, across sums."""


@dataclass(frozen=True)
class _Term:
    """A product, and what it is summed over: indices whose names occur nowhere else."""

    factor: sp.Expr
    limits: tuple[Limit, ...] = ()


def normal(expression: sp.Expr, ranges: Ranges) -> sp.Expr:
    """The normal form. Raises ValueError for a delta that picks no entry known to be in range and
    for a range that another index bounds, TypeError for a node around a sum of which nothing is
    known here."""
    return _assembled(_terms(expression), ranges, 0)


def _terms(node: sp.Expr) -> list[_Term]:
    """The terms of the expanded expression, each with its sums in front."""
    if isinstance(node, sp.Add):
        return [term for arg in node.args for term in _terms(arg)]
    if isinstance(node, sp.Mul):
        return _multiplied(node.args)
    if isinstance(node, sp.Sum):
        names = {index: sp.Dummy(index.name, integer=True) for index, _, _ in node.limits}
        limits = tuple(tuple(part.xreplace(names) for part in limit) for limit in node.limits)
        inner = _terms(node.function.xreplace(names))
        return [_Term(term.factor, term.limits + limits) for term in inner]
    if isinstance(node, sp.exp):
        terms = sp.Add.make_args(_expanded(node.args[0]))
        return [_Term(sp.Mul(*(_exponential(term) for term in terms)))]
    if isinstance(node, sp.Pow):
        base, exponent = node.args
        if exponent.is_Integer and exponent > 0:
            return _multiplied([base] * int(exponent))
        factors = sp.Mul.make_args(_expanded(base)) if exponent.is_Integer else (_expanded(base),)
        return [_Term(sp.Mul(*(factor**exponent for factor in factors)))]
    if isinstance(node, sp.Function) and node.has(sp.Sum):
        return [_Term(node.func(*(_expanded(arg) for arg in node.args)))]
    if node.has(sp.Sum):
        raise TypeError(f"no normal form for {type(node).__name__} around a sum: {node}")
    return [_Term(node)]


def _multiplied(factors: Sequence[sp.Expr]) -> list[_Term]:
    """The terms of a product. The same sum twice is a sum over two indices."""
    return [
        _Term(
            sp.Mul(*(term.factor for term in chosen)),
            tuple(chain.from_iterable(term.limits for term in chosen)),
        )
        for chosen in product(*(_terms(factor) for factor in factors))
    ]


def _expanded(node: sp.Expr) -> sp.Expr:
    """What stands in a denominator or in a function, in normal form but for the names of its
    indices: those follow when the indices outside have theirs."""
    return _assembled(_terms(node), {}, None)


def _exponential(term: sp.Expr) -> sp.Expr:
    """exp of one term. A whole factor becomes the power, so that exp(-x) cancels exp(x)."""
    times, rest = term.as_coeff_Mul()
    return exponential(rest) ** times if times.is_Integer else exponential(term)


def _assembled(terms: list[_Term], ranges: Ranges, depth: int | None) -> sp.Expr:
    """The sum of the terms. `depth` is how many indices are bound outside; without it they keep
    their names."""
    return sp.Add(*(_closed(_collapsed(term, ranges), ranges, depth) for term in terms))


def _collapsed(term: _Term, ranges: Ranges) -> _Term:
    """The term without deltas of its indices."""
    limits = {limit[0]: limit for limit in term.limits}
    for index, low, high in term.limits:
        if (low.free_symbols | high.free_symbols) & limits.keys():
            raise ValueError(f"the range of {index} depends on another index: {term.limits}")
    factors = sp.Mul.make_args(term.factor)
    deltas = [
        factor
        for factor in factors
        if isinstance(factor, sp.KroneckerDelta) and factor.free_symbols & limits.keys()
    ]
    if not deltas:
        return term
    for delta in sorted(deltas, key=str):
        for index in sorted(delta.free_symbols & limits.keys(), key=str):
            solution = _solution(delta, index)
            if solution is not None and _is_in_range(solution, limits[index], limits, ranges):
                factor = term.factor.xreplace({delta: sp.S.One}).xreplace({index: solution})
                rest = tuple(limit for limit in term.limits if limit[0] != index)
                return _collapsed(_Term(factor, rest), ranges)
    raise ValueError(f"{deltas} pick no entry that is known to be in range: {term.limits}")


def _solution(delta: sp.KroneckerDelta, index: sp.Symbol) -> sp.Expr | None:
    """The value of the index at which the delta is 1, if it is linear in it with slope +-1."""
    gap = delta.args[0] - delta.args[1]
    slope = sp.diff(gap, index)
    return sp.expand(index - gap / slope) if slope in (1, -1) else None


def _is_in_range(
    solution: sp.Expr, limit: Limit, limits: Mapping[sp.Symbol, Limit], ranges: Ranges
) -> bool:
    """Whether the solution is an index of the same range, or a number that sympy finds inside."""
    _, low, high = limit
    if solution in limits:
        return limits[solution][1:] == (low, high)
    if solution in ranges:
        return bool(low == 0 and sp.expand(ranges[solution] - 1 - high) == 0)
    return bool((solution - low).is_nonnegative and (high - solution).is_nonnegative)


def _closed(term: _Term, ranges: Ranges, depth: int | None) -> sp.Expr:
    """The term as a product of sums that share no index."""
    waiting = {limit[0]: limit for limit in term.limits}
    parts: list[tuple[frozenset[sp.Symbol], list[sp.Expr]]] = []
    for factor in sp.Mul.make_args(term.factor):
        indices = frozenset(factor.free_symbols & waiting.keys())
        joined = [part for part in parts if part[0] & indices]
        parts = [part for part in parts if part not in joined]
        factors = list(chain.from_iterable(part[1] for part in joined))
        parts.append((indices.union(*(part[0] for part in joined)), [*factors, factor]))
    used = frozenset().union(*(indices for indices, _ in parts))
    sizes = [high - low + 1 for index, low, high in term.limits if index not in used]
    sums = (
        _smallest(factors, [waiting[index] for index in sorted(indices, key=str)], ranges, depth)
        for indices, factors in parts
    )
    return sp.Mul(*sizes, *sums)


def _smallest(
    factors: list[sp.Expr], limits: list[Limit], ranges: Ranges, depth: int | None
) -> sp.Expr:
    """The sum of the product, under the names that make it print smallest."""
    if depth is None:
        return sp.Sum(sp.Mul(*factors), *limits) if limits else sp.Mul(*factors)
    candidates = []
    for order in _orders(limits):
        places = [sp.Symbol(f"_{depth + k}", integer=True) for k in range(len(order))]
        names = {limit[0]: place for limit, place in zip(order, places, strict=True)}
        below = depth + len(order)
        inside = [_renamed(factor.xreplace(names), ranges, below) for factor in factors]
        bounds = [(place, *limit[1:]) for limit, place in zip(order, places, strict=True)]
        body = sp.Mul(*inside)
        candidates.append(sp.Sum(body, *bounds) if bounds else body)
    return min(candidates, key=str)


def _renamed(factor: sp.Expr, ranges: Ranges, depth: int) -> sp.Expr:
    """A function or a power with the sums inside it in normal form."""
    args = (_assembled(_terms(a), ranges, depth) if a.has(sp.Sum) else a for a in factor.args)
    return factor.func(*args) if factor.has(sp.Sum) else factor


def _orders(limits: list[Limit]) -> Iterator[tuple[Limit, ...]]:
    """The orders of the indices: by range, and all ways among those of one range."""

    def span(limit: Limit) -> str:
        return f"{limit[2]} {limit[1]}"

    groups = [list(group) for _, group in groupby(sorted(limits, key=span), key=span)]
    for chosen in product(*(permutations(group) for group in groups)):
        yield tuple(chain.from_iterable(chosen))
