"""The families of inputs of attention, to which laws refer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

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
from attnspec.oracle.attention_forms import (
    Forms,
    empty_forms,
    empty_row_forms,
    gradient_forms,
    hidden_forms,
    needing,
)
from attnspec.oracle.attention_inputs import Extra, attention_inputs
from attnspec.oracle.attention_masks import LEAVING_ONE, MASKS, NOTHING_HIDDEN
from attnspec.oracle.attention_options import (
    BOTH_WAYS,
    CAUSAL,
    CAUSAL_WINDOWS,
    CHOICES,
    MIXED,
    SCALES,
    Choice,
    attention_forms,
)
from attnspec.oracle.attention_shapes import (
    EVEN_SHAPES,
    LONG_ROW_SHAPES,
    LONG_SHAPES,
    SHAPES,
    SQUARE_SHAPES,
    TILE_SHAPES,
    WIDE_GROUP_SHAPES,
    shared,
)
from attnspec.oracle.family import PLAIN, Draw, Dress, Family, Scope
from attnspec.oracle.law import Inputs
from attnspec.oracle.shapes import several
from attnspec.oracle.values import Pattern

STEADILY = partial(attention_inputs, sizes=STEADY, lift=1.0)
BLUNTLY = partial(attention_inputs, sizes=BLUNT, lift=1.0)
AXIS_NAMES = {"b": "batch entries", "h": "heads"}
ANY_FORM: Forms = partial(attention_forms, table=SHAPES)

NONE: tuple[Extra, ...] = (Extra(),)
MASKED = tuple(Extra(mask=mask) for mask in MASKS)
SHARED_MASKS = tuple(extra for extra in MASKED if extra.mask and extra.mask.axes != "b h t s")
ROWLESS_MASKS = tuple(extra for extra in SHARED_MASKS if extra.mask and "t" not in extra.mask.axes)
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
GROUP_CHOICES = (*CAUSAL * 2, Choice(scale=0.5), Choice(softcap=2.0), *CAUSAL_WINDOWS[:1])


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


def _of_several(name: str, axis: str) -> Family:
    """For two runs, with several along an axis of b h t s; half with masks and biases that each
    there has for itself."""
    every = (*MASKED, *BIASED, *BIASED_AND_HIDDEN, *BOTH)
    own = tuple(e for e in every if all(axis in part.axes for part in e if part is not None))
    return _family(
        name,
        f"as two runs, with several {AXIS_NAMES[axis]} and masks and biases of their own",
        forms=partial(attention_forms, table=(*SHAPES, *EVEN_SHAPES * 3), needs={axis: several}),
        extras=(*own, *NONE * len(own)),
        build=BLUNTLY,
        patterns=CALM,
        dresses=PLAIN,
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
        build=BLUNTLY,
        patterns=CALM,
        dresses=PLAIN,
    ),
    _of_several("_entries", "b"),
    _of_several("_heads", "h"),
    _family(
        "_plain",
        "no mask, bias, causality, window or soft cap",
        forms=partial(attention_forms, table=SHAPES, choices=SCALES, plain=2.0),
    ),
    _family(
        "_hidden",
        "some row does not see some key, and every row sees one",
        forms=hidden_forms,
        extras=(*MASKED, *BIASED_AND_HIDDEN, *BOTH, *NONE * 25),
        build=partial(attention_inputs, hidden=True),
    ),
    _family(
        "_mask",
        "a mask, no bias; something is hidden, and every row sees a key",
        forms=needing(
            "mask", forms=partial(attention_forms, table=SHAPES, plain=1.5, needs={"s": several})
        ),
        extras=MASKED,
        build=partial(STEADILY, hidden=True),
    ),
    _family(
        "_shared_mask",
        "as a mask, nearly always shared along some axis, and mostly by all queries",
        forms=needing(
            "mask",
            forms=partial(
                attention_forms,
                table=(*SHAPES, *SQUARE_SHAPES * 6),
                plain=1.5,
                needs={"s": several},
            ),
        ),
        extras=(*SHARED_MASKS, *ROWLESS_MASKS * 4),
        build=partial(STEADILY, hidden=True),
    ),
    _family(
        "_bias",
        "a finite bias, no mask",
        forms=needing("bias", forms=partial(attention_forms, table=SHAPES, plain=1.5)),
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
        forms=empty_row_forms,
        extras=EMPTYING,
        build=partial(attention_inputs, empty_rows=True),
    ),
    _family(
        "_groups",
        "query heads share a key head, often more than eight one",
        forms=partial(
            attention_forms,
            table=(*SHAPES, *WIDE_GROUP_SHAPES * 3),
            choices=GROUP_CHOICES,
            plain=1.0,
            heads=shared,
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
        "_gradients",
        "as attention, smaller, with numbers whose gradients can be judged",
        forms=gradient_forms,
        extras=tuple(extra for extra in ANY if extra.mask not in LEAVING_ONE),
        build=partial(attention_inputs, sizes=FAINT, lift=0.0),
        patterns=GRADIENTS,
        dresses=NORMAL,
    ),
    _family(
        "_gradients_tiles",
        "as gradients, more queries and more keys than a tile holds, nearly all causal",
        forms=partial(attention_forms, table=TILE_SHAPES, choices=CAUSAL, plain=0.25),
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
        forms=empty_forms,
        patterns=CONTENTS[:1],
        dresses=PLAIN,
    ),
)
