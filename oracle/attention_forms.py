"""Options and shapes of the calls of attention that some families need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from attnspec.oracle.attention_options import (
    CHOICES,
    NARROWEST,
    Choice,
    any_form,
    attention_forms,
    every_row,
    hides_something,
    no_key_for_some_row,
)
from attnspec.oracle.attention_shapes import (
    AXES,
    EMPTY_SHAPES,
    GRADIENT_SHAPES,
    SHAPES,
    attention_shapes,
)
from attnspec.oracle.family import Form, Scope
from attnspec.oracle.shapes import several

Forms = Callable[[Scope], tuple[Form, ...]]

# a window of 0 leaves single keys, of which the weight is 1 and does not move
GRADIENT_CHOICES = (
    *(c for c in CHOICES if c.window is not NARROWEST),
    Choice(window=NARROWEST),
    *[Choice(return_lse=True)] * 4,
    *[Choice(return_lse=True, causal=True)] * 2,
)


def needing(*options: str, forms: Forms) -> Forms:
    """The same forms, where the function takes the options."""

    def found(scope: Scope) -> tuple[Form, ...]:
        if lacking := [option for option in options if option not in scope.accepts]:
            raise ValueError(f"the function does not take {', '.join(lacking)}")
        return forms(scope)

    return found


def gradient_forms(scope: Scope) -> tuple[Form, ...]:
    """In bfloat16 with short sums: what differences of stored numbers add up to is not judged."""
    table = GRADIENT_SHAPES
    if scope.dtype == "bfloat16":
        table = tuple(s for s in table if max(s[3] * s[1] // s[2], s[4], 2 * s[6]) < 11)
    return attention_forms(scope, table=table, choices=GRADIENT_CHOICES)


def hidden_forms(scope: Scope) -> tuple[Form, ...]:
    """A mask or a bias hides keys where the options don't, if the function takes one."""
    added = scope.accepts & {"mask", "bias"}
    return attention_forms(
        scope,
        table=SHAPES,
        plain=0.5 if added else 0.0,
        needs={"s": several},
        wish=every_row if added else hides_something,
        wishes="a key that some row does not see",
    )


def empty_row_forms(scope: Scope) -> tuple[Form, ...]:
    """Forms that leave rows without keys by themselves, a third of all; only those where the
    function takes neither a mask nor a bias."""
    rule = scope.conventions.get("attention.empty_row", "zero")
    if rule == "unspecified":
        raise ValueError("attention.empty_row is 'unspecified': nothing is promised for such rows")
    alone = partial(
        attention_forms,
        scope,
        table=SHAPES,
        plain=0.0,
        wish=no_key_for_some_row,
        wishes="a row that sees no key",
    )
    if not scope.accepts & {"mask", "bias"}:
        return alone()
    every = attention_forms(scope, table=SHAPES, wish=any_form)
    empty = [form for form in every if no_key_for_some_row(scope, form)]
    return (*every, *empty * (len(every) // (2 * len(empty)) if empty else 0))


def empty_forms(scope: Scope) -> tuple[Form, ...]:
    """No batch entry, no query or no query head, unless a limit forbids it."""
    forms = []
    for shape in EMPTY_SHAPES:
        hole = shape.index(0)
        axis = AXES[hole]
        if axis not in scope.limits or _allows_zero(scope.limits[axis]):
            limits = {other: limit for other, limit in scope.limits.items() if other != axis}
            filled = (*shape[:hole], shape[2] if axis == "h" else 1, *shape[hole + 1 :])
            fit = attention_shapes((filled,), replace(scope, limits=limits))[0]
            whole = (*fit[:hole], 0, *fit[hole + 1 :])
            forms += [Form(whole, {})]
            forms += [Form(whole, {"causal": True}) for _ in [0] if "causal" in scope.accepts]
    if not forms:
        raise ValueError(f"the limits {dict(scope.limits)!r} allow no empty axis")
    return tuple(forms)


def _allows_zero(limit: Any) -> bool:
    return 0 in limit if isinstance(limit, (set, frozenset)) else limit[0] <= 0
