"""The families of inputs of attention, to which laws refer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from attnspec.oracle import attention_biases as biases
from attnspec.oracle import attention_masks as masks
from attnspec.oracle.attention_biases import BIASES, HIDING
from attnspec.oracle.attention_contents import (
    BLUNT,
    CALM,
    CONTENTS,
    FAINT,
    GRADIENTS,
    NORMAL,
    SPECIAL,
    STEADY,
)
from attnspec.oracle.attention_inputs import Extra, attention_inputs
from attnspec.oracle.attention_masks import LEAVING_ONE, MASKS, NOTHING_HIDDEN
from attnspec.oracle.attention_options import (
    BOTH_WAYS,
    CAPS,
    CAUSAL,
    CAUSAL_WINDOWS,
    CHOICES,
    MIXED,
    NARROWEST,
    SCALES,
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
    LONG_ROW_SHAPES,
    LONG_SHAPES,
    SHAPES,
    attention_shapes,
    shared,
)
from attnspec.oracle.family import PLAIN, Draw, Dress, Family, Form, Scope
from attnspec.oracle.law import Inputs
from attnspec.oracle.shapes import several
from attnspec.oracle.values import Pattern

Forms = Callable[[Scope], tuple[Form, ...]]

STEADILY = partial(attention_inputs, sizes=STEADY, lift=1.0)
ANY_FORM: Forms = partial(attention_forms, table=SHAPES)

NONE: tuple[Extra, ...] = (Extra(),)
MASKED = tuple(Extra(mask=mask) for mask in MASKS)
BIASED = tuple(Extra(bias=bias) for bias in BIASES)
BIASED_AND_HIDDEN = tuple(Extra(bias=bias) for bias in HIDING)
BOTH = tuple(
    Extra(mask, bias) for mask, bias in zip(MASKS[::3], (*BIASES[2::2], *HIDING), strict=False)
)
ANY = (*NONE, *MASKED, *BIASED, *BIASED_AND_HIDDEN, *BOTH, Extra(mask=NOTHING_HIDDEN), *NONE * 45)
EMPTYING = (
    *NONE,
    *(Extra(mask=mask) for mask in masks.EMPTYING),
    *(Extra(bias=bias) for bias in biases.EMPTYING),
    *(Extra(mask, BIASES[3 + i]) for i, mask in enumerate(masks.EMPTYING[1:6])),
    *NONE * 5,
)

LSE_CHOICES = tuple(replace(choice, return_lse=True) for choice in (*[Choice()] * 20, *CHOICES))
CAUSAL_CHOICES = (*CAUSAL * 6, *(c for c in MIXED if c.causal and not c.window))
WINDOW_CHOICES = (*CAUSAL_WINDOWS, *BOTH_WAYS, *(c for c in MIXED if c.window))
CAP_CHOICES = (*CAPS * 2, *(c for c in MIXED if c.softcap))
# a window of 0 leaves single keys, of which the weight is 1 and does not move
GRADIENT_CHOICES = (
    *(c for c in CHOICES if c.window is not NARROWEST),
    Choice(window=NARROWEST),
    Choice(return_lse=True),
    Choice(return_lse=True, causal=True),
)
GROUP_CHOICES = (*CAUSAL * 2, Choice(scale=0.5), Choice(softcap=2.0), *CAUSAL_WINDOWS[:1])


def _needing(*options: str, forms: Forms) -> Forms:
    """The same forms, where the function takes the options."""

    def found(scope: Scope) -> tuple[Form, ...]:
        if lacking := [option for option in options if option not in scope.accepts]:
            raise ValueError(f"the function does not take {', '.join(lacking)}")
        return forms(scope)

    return found


def _gradient_forms(scope: Scope) -> tuple[Form, ...]:
    """In bfloat16 with short sums: what differences of stored numbers add up to is not judged."""
    table = GRADIENT_SHAPES
    if scope.dtype == "bfloat16":
        table = tuple(s for s in table if max(s[3] * s[1] // s[2], s[4], 2 * s[6]) < 11)
    return attention_forms(scope, table=table, choices=GRADIENT_CHOICES)


def _hidden_forms(scope: Scope) -> tuple[Form, ...]:
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


def _empty_row_forms(scope: Scope) -> tuple[Form, ...]:
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


def _empty_forms(scope: Scope) -> tuple[Form, ...]:
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


def _family(
    name: str,
    says: str,
    *,
    forms: Forms = ANY_FORM,
    extras: tuple[Extra, ...] = NONE,
    build: Callable[[Scope, Draw], Inputs] = STEADILY,
    patterns: tuple[Pattern, ...] = CONTENTS,
    dresses: tuple[Dress, ...] = SPECIAL,
) -> Family:
    return Family(
        name=f"attention{name}",
        component="attention",
        says=says,
        forms=forms,
        extras=extras,
        build=build,
        patterns=patterns,
        dresses=dresses,
    )


ATTENTION: tuple[Family, ...] = (
    _family(
        "",
        "any options, mask and bias; every row sees a key",
        extras=ANY,
        build=attention_inputs,
    ),
    _family(
        "_two_runs",
        "as attention, with numbers that leave room for the allowances of two runs",
        extras=ANY,
        build=partial(attention_inputs, sizes=BLUNT, lift=1.0),
        patterns=CALM,
        dresses=PLAIN,
    ),
    _family(
        "_plain",
        "no mask, bias, causality, window or soft cap",
        forms=partial(attention_forms, table=SHAPES, choices=SCALES, plain=2.0),
    ),
    _family(
        "_hidden",
        "some row does not see some key, and every row sees one",
        forms=_hidden_forms,
        extras=(*MASKED, *BIASED_AND_HIDDEN, *BOTH, *NONE * 25),
        build=partial(attention_inputs, hidden=True),
    ),
    _family(
        "_mask",
        "a mask, no bias; something is hidden, and every row sees a key",
        forms=_needing(
            "mask", forms=partial(attention_forms, table=SHAPES, plain=1.5, needs={"s": several})
        ),
        extras=MASKED,
        build=partial(STEADILY, hidden=True),
    ),
    _family(
        "_bias",
        "a finite bias, no mask",
        forms=_needing("bias", forms=partial(attention_forms, table=SHAPES, plain=1.5)),
        extras=BIASED,
    ),
    _family(
        "_causal",
        "causality, no window, mask or bias; every row sees a key",
        forms=partial(attention_forms, table=SHAPES, choices=CAUSAL_CHOICES, plain=0.0),
    ),
    _family(
        "_window",
        "a window, with and without causality, no mask or bias; every row sees a key",
        forms=partial(attention_forms, table=SHAPES, choices=WINDOW_CHOICES, plain=0.0),
    ),
    _family(
        "_empty_rows",
        "some row sees no key",
        forms=_empty_row_forms,
        extras=EMPTYING,
        build=partial(attention_inputs, empty_rows=True),
    ),
    _family(
        "_groups",
        "query heads share a key head",
        forms=partial(
            attention_forms, table=SHAPES, choices=GROUP_CHOICES, plain=1.0, heads=shared
        ),
        extras=(*NONE, *MASKED[::3], *BIASED[2::3], *NONE * 20),
    ),
    _family(
        "_lse",
        "as attention, with the logarithm of the sum of exponentials",
        forms=partial(attention_forms, table=SHAPES, choices=LSE_CHOICES, plain=0.0),
        extras=ANY,
        build=attention_inputs,
    ),
    _family(
        "_softcap",
        "a soft cap",
        forms=partial(attention_forms, table=SHAPES, choices=CAP_CHOICES, plain=0.0),
        extras=(*NONE, *MASKED[::4], *BIASED[::2], *NONE * 20),
    ),
    _family(
        "_gradients",
        "as attention, smaller, with numbers whose gradients can be judged",
        forms=_gradient_forms,
        extras=tuple(extra for extra in ANY if extra.mask not in LEAVING_ONE),
        build=partial(attention_inputs, sizes=FAINT, lift=0.0),
        patterns=GRADIENTS,
        dresses=NORMAL,
    ),
    _family(
        "_long",
        "many rows, or many heads that share a key head; no options",
        forms=partial(attention_forms, table=LONG_SHAPES, choices=(), plain=1.0),
        patterns=CALM,
        dresses=PLAIN,
    ),
    _family(
        "_long_rows",
        "many keys; no options",
        forms=partial(attention_forms, table=LONG_ROW_SHAPES, choices=(), plain=1.0),
        patterns=CALM,
        dresses=PLAIN,
    ),
    _family(
        "_empty",
        "no batch entry, no query or no query head",
        forms=_empty_forms,
        patterns=CONTENTS[:1],
        dresses=PLAIN,
    ),
)
