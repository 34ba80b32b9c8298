"""Calls of alibi_slopes and alibi_bias: head counts on both sides of powers of two; few queries
and many keys, and distances at which half precision runs out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod

from attnspec.oracle.family import PLAIN, Draw, Family, Form, Scope, naming_the_dtype
from attnspec.oracle.law import Inputs
from attnspec.oracle.shapes import Need, Shape, fitted
from attnspec.oracle.values import VALUES

HEADS: tuple[Shape, ...] = tuple((n,) for n in range(1, 129))
MANY: tuple[Shape, ...] = ((160,), (192,), (255,), (256,))
TURNS = 6
"""How often powers of two come again: a rule may be wrong at them alone."""

SHORT: tuple[Shape, ...] = (
    (1, 1, 1), (2, 1, 2), (1, 2, 2), (2, 2, 3), (3, 1, 2), (3, 2, 3), (2, 3, 3), (5, 2, 4),
    (4, 3, 5), (8, 1, 3), (6, 4, 4), (7, 3, 8), (12, 2, 5), (3, 1, 9), (8, 4, 7), (5, 5, 5),
    (11, 2, 7), (16, 3, 6), (10, 1, 8), (8, 7, 15), (3, 5, 16), (9, 8, 17), (2, 16, 16),
    (6, 9, 33), (12, 1, 32), (4, 31, 31), (20, 5, 19), (32, 3, 20), (3, 33, 65), (40, 4, 12),
    (14, 7, 64), (24, 2, 33), (71, 2, 7), (5, 17, 100),
)  # fmt: skip
"""Axes h t s."""
LONG: tuple[Shape, ...] = (
    (3, 2, 128), (2, 7, 129), (5, 1, 257), (1, 9, 258), (3, 16, 300), (12, 4, 300), (6, 2, 511),
    (2, 5, 513), (7, 1, 600), (3, 8, 1000), (12, 1, 1024), (8, 3, 1025), (1, 16, 1500),
    (1, 2, 2049), (5, 1, 2050), (2, 6, 2100), (4, 3, 2500), (3, 1, 4096), (1, 5, 4096),
    (2, 4, 4000), (1, 128, 200), (2, 100, 140), (3, 5, 2200), (2, 9, 3000), (1, 7, 3333),
    (4, 2, 3001), (2, 2, 4095), (1, 3, 2300), (5, 2, 2600),
)  # fmt: skip
"""Past 256, where bfloat16 stops to tell positions apart, and past 2048, where float16 does."""
SQUARE: tuple[Shape, ...] = (
    (1, 1, 1), (2, 2, 2), (3, 3, 3), (1, 4, 4), (5, 5, 5), (12, 7, 7), (3, 17, 17), (6, 33, 33),
    (2, 100, 100), (1, 150, 150), (7, 64, 64), (2, 127, 127),
)  # fmt: skip
MOST_SQUARE = 2**17
"""Elements of a square of all keys, where a law makes one."""


def _slope_forms(scope: Scope) -> tuple[Form, ...]:
    shapes = fitted((*HEADS, *MANY), ("h",), scope.limits, {})
    powers = tuple(shape for shape in shapes if shape[0].bit_count() == 1)
    return _named(scope, (*shapes, *powers * TURNS))


def _bias_forms(
    scope: Scope, *, table: tuple[Shape, ...], need: Callable[[Shape], bool] = bool
) -> tuple[Form, ...]:
    """Shapes with no more queries than keys, within the limits."""
    needs: dict[str, Need] = {}
    shapes = tuple(
        s for s in fitted(table, ("h", "t", "s"), scope.limits, needs) if s[1] <= s[2] and need(s)
    )
    if not shapes:
        raise ValueError(f"no call with t <= s is legal under the limits {scope.limits!r}")
    return _named(scope, shapes)


def _named(scope: Scope, shapes: tuple[Shape, ...]) -> tuple[Form, ...]:
    """Every shape once for each way to ask for the dtype."""
    return tuple(Form(shape, options) for options in naming_the_dtype(scope) for shape in shapes)


def _slopes_call(scope: Scope, drawn: Draw) -> Inputs:
    return Inputs(
        component="alibi_slopes",
        dtype=scope.dtype,
        arrays={},
        options=dict(drawn.form.options),
        numbers={"n_heads": drawn.form.shape[0]},
        seed=drawn.seed,
    )


def _bias_call(scope: Scope, drawn: Draw) -> Inputs:
    heads, t, s = drawn.form.shape
    return Inputs(
        component="alibi_bias",
        dtype=scope.dtype,
        arrays={},
        options=dict(drawn.form.options),
        numbers={"n_heads": heads, "t": t, "s": s},
        seed=drawn.seed,
    )


def _fewer_queries(shape: Shape) -> bool:
    """Whether queries are fewer than keys, and a square of all keys is not too large."""
    return shape[1] < shape[2] and prod((shape[0], shape[2], shape[2])) <= MOST_SQUARE


def _family(name: str, says: str, forms: Callable[[Scope], tuple[Form, ...]]) -> Family:
    component = "alibi_slopes" if name.startswith("alibi_slopes") else "alibi_bias"
    return Family(
        name=name,
        component=component,
        says=says,
        forms=forms,
        extras=(None,),
        build=_slopes_call if component == "alibi_slopes" else _bias_call,
        # there is no array to fill
        patterns=VALUES[:1],
        dresses=PLAIN[:1],
    )


FAMILIES: tuple[Family, ...] = (
    _family("alibi_slopes", "any number of heads", _slope_forms),
    _family(
        "alibi_bias",
        "any number of heads, queries and keys",
        partial(_bias_forms, table=(*SHORT, *SQUARE, *LONG)),
    ),
    _family(
        "alibi_bias_part",
        "fewer queries than keys",
        partial(_bias_forms, table=(*SHORT, *LONG), need=_fewer_queries),
    ),
    _family(
        "alibi_bias_short",
        "few keys",
        partial(_bias_forms, table=(*SHORT, *SQUARE[:9])),
    ),
)
