"""The laws of alibi_slopes.

Sources: the claims of `spec/alibi_slopes.py`. Both published rules are geometric on their first
run of heads; what they give the other heads follows from the slopes of twice as many.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from attnspec.oracle import calls
from attnspec.oracle.alibi_values import first_run, slopes, unrounded_error
from attnspec.oracle.calls import agree, alike, same
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.law import Implementation, Inputs, Kind, Law
from attnspec.oracle.rounding import formed

Array = np.ndarray[Any, Any]


def powers_of_two(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The slopes that are powers of two, the last of the first run, 2^-8, among them. To the bit
    where the last rounding removes whatever error was made before it."""
    actual, right = implementation(inputs), slopes(implementation, inputs)
    whole = np.frexp(right.value)[0] == 0.5
    fmt, dtype = implementation.contract.format("output"), implementation.dtype
    # numbers below a power of two are half as far apart as those above it
    kept = whole & (unrounded_error(implementation, inputs) < 0.5 * fmt.roundoff * right.value)
    value, allowance = (np.where(whole, x, 0.0) for x in (right.value, right.allowance))
    return [
        alike("powers of two", np.where(whole, actual, 0.0), value, allowance, dtype),
        same(
            "powers of two, to the bit",
            np.where(kept, actual, 0.0),
            np.where(kept, value, 0.0),
            dtype,
        ),
    ]


def inside_the_unit_interval(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Every slope is positive and below 1."""
    actual = implementation(inputs)
    inside = ((actual > 0.0) & (actual < 1.0)) * 1.0
    return [same("whether 0 < slope < 1", inside, np.ones_like(inside), "float64")]


def order(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Which of two neighbours is the larger, wherever the allowances tell."""
    actual, right = implementation(inputs), slopes(implementation, inputs)
    step = np.diff(right.value)
    told = np.abs(step) > right.allowance[1:] + right.allowance[:-1]
    found, due = (np.where(told, np.sign(x), 0.0) for x in (np.diff(actual), step))
    return [same("sign of the step to the next head", found, due, "float64")]


def products(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Exponents are multiples of the first, so slopes j and k, counted from 1, have slope j + k as
    their product. Two of the heads left over, whose exponents are odd multiples of half of it,
    have one of the first run."""
    actual, right = implementation(inputs), slopes(implementation, inputs)
    run = first_run(implementation, inputs)
    found = []
    for what, start, shift in (("two slopes", 0, 1), ("two slopes after the first run", run, 0)):
        left, other = _pairs(start, actual.size if start else run, run, shift)
        if left.size:
            product = actual[left] * actual[other]
            whole = left + other - 2 * start + shift
            room = _product_room(right.value, right.allowance, left, other)
            room += right.allowance[whole] + formed(np.abs(product), 1)
            say = f"product of {what}"
            found.append(agree(say, product, actual[whole], room, implementation.dtype))
    return found


def _pairs(start: int, end: int, run: int, shift: int) -> tuple[Array, Array]:
    """Heads from `start` to `end` two by two, those whose product is a slope of the first run."""
    left, other = np.triu_indices(end - start)
    fits = left + other + shift < run
    return left[fits] + start, other[fits] + start


def _product_room(value: Array, error: Array, left: Array, other: Array) -> Array:
    room: Array = value[left] * error[other] + error[left] * (value[other] + error[other])
    return room


def every_other_of_twice(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The first run is every other slope of twice as many heads, and what is left the others."""
    run, right = first_run(implementation, inputs), slopes(implementation, inputs)
    twice = inputs.with_numbers(n_heads=2 * run)
    if not implementation.legal(twice):
        return []
    actual, of_twice = implementation(inputs), implementation(twice)
    more = slopes(implementation, twice)
    left = actual.size - run
    place = np.concatenate([np.arange(1, 2 * run, 2), np.arange(0, 2 * left, 2)])
    room = right.allowance + more.allowance[place]
    what = f"every other slope of {2 * run} heads"
    return [agree(what, actual, of_twice[place], room, implementation.dtype)]


def others(implementation: Implementation, inputs: Inputs) -> list[Inputs]:
    """Other calls: more and fewer heads, and another dtype."""
    heads = inputs.numbers["n_heads"]
    found = [inputs.with_numbers(n_heads=n) for n in (2 * heads, heads + 1, max(1, heads // 2))]
    return [*found, *otherwise_typed(implementation, inputs)]


def otherwise_typed(implementation: Implementation, inputs: Inputs) -> Iterator[Inputs]:
    """The same call for a result of another dtype, where the function can be asked for one."""
    if implementation.accepts("dtype"):
        other = "float16" if implementation.dtype == "float32" else "float32"
        yield replace(inputs, options={**inputs.options, "dtype": other})


def _law(name: str, says: str, means: str, kind: Kind, check: calls.Check, **more: Any) -> Law:
    return Law(
        f"alibi_slopes.{name}", "alibi_slopes", says, means, kind, check, inputs="alibi_slopes",
        **more,
    )  # fmt: skip


LAWS: tuple[Law, ...] = (
    _law(
        "matches_oracle",
        "head k has the slope 2^(-8k/P), or what the rule gives it beyond P, within the derived "
        "allowance",
        "the rule, the order of heads or an exponent is wrong, or slopes are computed in storage",
        "oracle",
        calls.matches_oracle(slopes),
        claims=("alibi_slopes.definition", "alibi_slopes.no_parameters"),
        rejects=(
            "alibi_slopes.geometric_for_every_count",
            "alibi_slopes.left_over_repeat_the_first",
            "alibi_slopes.computed_in_bfloat16",
            "alibi_slopes.powers_in_storage",
            "alibi_slopes.logarithm_rounded_down",
        ),
    ),
    _law(
        "powers_of_two",
        "slopes that are powers of two are that, 2^-8 at the end of the first run among them",
        "exponents do not end at 8, or powers are computed where they are not exact",
        "exact",
        powers_of_two,
        claims=("alibi_slopes.geometric_of_power_of_two",),
        rejects=("alibi_slopes.halved_from_head_to_head",),
        blind_to=("alibi_slopes.computed_in_bfloat16",),
    ),
    _law(
        "inside_the_unit_interval",
        "every slope is a magnitude, above 0 and below 1",
        "the sign of the bias is in the slopes, or exponents start at 0",
        "exact",
        inside_the_unit_interval,
        claims=("alibi_slopes.geometric_of_power_of_two",),
        rejects=(
            "alibi_slopes.negative",
            "alibi_slopes.exponent_from_zero",
            "alibi_slopes.integer_division",
        ),
        blind_to=("alibi_slopes.geometric_for_every_count", "alibi_slopes.reversed"),
    ),
    _law(
        "order",
        "slopes fall from head to head, and once more from the first head beyond the first run",
        "heads are in another order: reversed, sorted, or those left over come first",
        "exact",
        order,
        claims=("alibi_slopes.definition",),
        rejects=("alibi_slopes.reversed", "alibi_slopes.sorted"),
        blind_to=("alibi_slopes.computed_in_bfloat16",),
    ),
    _law(
        "products",
        "the product of slopes j and k of the first run is slope j + k",
        "slopes are no powers of the first one",
        "equivariance",
        products,
        claims=("alibi_slopes.geometric_of_power_of_two",),
        rejects=("alibi_slopes.evenly_spaced",),
    ),
    _law(
        "every_other_of_twice",
        "the first run is every other slope of twice as many heads, and what is left the others",
        "head counts that are no power of two follow another rule, or take the wrong ones",
        "reduced",
        every_other_of_twice,
        claims=("alibi_slopes.definition",),
        rejects=(
            "alibi_slopes.left_over_first",
            "alibi_slopes.left_over_consecutive",
            "alibi_slopes.power_rounded_up",
        ),
        blind_to=("alibi_slopes.computed_in_bfloat16",),
    ),
    *calls.call_laws(
        "alibi_slopes",
        slopes,
        others,
        {
            "repeatable": ("alibi_slopes.halved_in_place",),
            "no_memory": (
                "alibi_slopes.longest_kept",
                "alibi_slopes.dtype_of_first_call",
                "alibi_slopes.buffer_handed_out",
            ),
            "output_form": ("alibi_slopes.result_in_float32",),
        },
    ),
)
