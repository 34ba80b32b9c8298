"""The gradients of grouped queries: what heads share gets the sum of their gradients.

Source: our own derivation; document 004 (3.1, GQA) has the heads, and no gradient.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.attention_gradients import gradient
from attnspec.spec.claim import Claim, Source, Step
from attnspec.spec.closed_gradients import Head, attention, by_groups, by_heads, over_heads
from attnspec.spec.derivatives import derivative, places, plain, ranges
from attnspec.spec.normal import normal

_Q, _K, _V, *_ = attention("q").arrays
_head = attention("q").axes[1][0]
_sizes = {symbol.name: symbol for symbol in attention("q").parameters}
_groups, _members = _sizes["groups"], _sizes["members"]
_after, _beyond = sp.symbols("e f", integer=True, nonnegative=True)


def _counted(order: str) -> tuple[Step, ...]:
    """That the members of all groups are all heads, each once: head = outer * size + inner, where
    the inner index is below its size."""
    single, member = by_heads(order), by_groups(order)
    group = member.key
    (place,) = member.query.free_symbols - {group, _groups, _members}
    inner, outer, size = (place, group, _members) if order == "grouped" else (group, place, _groups)
    quotient, rest = sp.floor(_head / size), sp.Mod(_head, size)
    inside = {_groups: group + 1 + _after, _members: place + 1 + _beyond}
    last = _groups * _members - 1 - member.query
    there = {single.key: group, _head: member.query}
    return (
        Step(
            f"{order}: the head of member t of group g is {outer} {size} + {inner}",
            sp.expand(member.query - outer * size - inner),
        ),
        Step(
            f"{order}: {inner} is below {size}, so {outer} and {inner} are quotient and rest",
            (size - inner).subs(inside).is_positive,
        ),
        Step(
            f"{order}: and the head is one of groups * members",
            sp.expand(last.subs(inside)).is_nonnegative,
        ),
        Step(
            f"{order}: every head is its quotient times {size} plus its rest",
            sp.expand(_head - quotient * size - rest.rewrite(sp.floor)),
        ),
        Step(
            f"{order}: of which one is the key head that it reads",
            single.key - (quotient if order == "grouped" else rest),
        ),
        Step(
            f"{order}: so what it adds to the sum of upstream times output is counted once",
            single.loss.xreplace(there) - member.loss,
        ),
    )


def _of_copies(of: str) -> tuple[Step, Step]:
    """The gradient with a key head for every query head, and its sum over a group of copies."""
    formula, array = attention(of), _K if of == "k" else _V
    where = places(formula)
    copy = formula.axes[1][0]
    heads = {**ranges(formula), where[copy]: _groups * _members}
    found = derivative(plain(over_heads(Head(_head, _head).loss), _Q), array[tuple(where.values())])

    def added(head: Head) -> sp.Expr:
        return head.of_key if of == "k" else head.of_value

    member = by_groups()
    shared = added(Head(member.query, member.query)).replace(
        lambda node: isinstance(node, sp.Indexed) and node.base in (_K, _V),
        lambda node: node.base[node.indices[0], member.key, *node.indices[2:]],
    )
    (place,) = member.query.free_symbols - {member.key, _members}
    return (
        Step(
            f"with a {'key' if of == 'k' else 'value'} head for every query head, d{of} is what "
            "each adds",
            normal(plain(added(Head(copy, copy)), _Q).xreplace(where) - found, heads),
        ),
        Step(
            f"where all heads of a group have the same, the sum over them is d{of}",
            formula.expression - sp.Sum(shared, (place, 0, _members - 1)),
        ),
    )


def _grouped() -> tuple[Step, ...]:
    return (
        *_counted("grouped"),
        *_counted("tiled"),
        *(step for of in ("k", "v") for step in (*_of_copies(of), gradient(of))),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="gqa.gradients_sum_over_group",
        number="",
        statement="Key and value heads that query heads share have the sum of the gradients that "
        "copies of them, one for each query head, would have.",
        latex=r"dk_g=\sum_{t<r}dk_{gr+t},\quad dv_g=\sum_{t<r}dv_{gr+t}",
        source=Source("004", "3.1 GQA", "Query heads of a group share one key and value head."),
        verdict="holds",
        form="symbolic",
        derivation=_grouped,
    ),
)
