"""Laws about the call itself, the same for every component.

Sources: the project's contract ('Guarantees': what is held to the bit and what to the allowance).
Each is made for a component by a function that takes its oracle.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from attnspec.oracle.comparison import Comparison
from attnspec.oracle.components import COMPONENTS
from attnspec.oracle.expected import Expected
from attnspec.oracle.family import REPEATED
from attnspec.oracle.inputs import LAYOUTS, generator
from attnspec.oracle.law import Breach, Implementation, Inputs, Law

Array = np.ndarray[Any, Any]
Oracle = Callable[[Implementation, Inputs], Expected]
Check = Callable[[Implementation, Inputs], list[Comparison]]
Others = Callable[[Implementation, Inputs], list[Inputs]]
"""Other legal calls of the same function."""


def same(
    what: str, first: Array, second: Array, dtype: str, *, promised: bool = True
) -> Comparison:
    """Two results that must agree to the bit."""
    return Comparison(what, first, second, None, dtype, promised=promised)


def same_where(known: Array, what: str, one: Array, other: Array, dtype: str) -> Comparison:
    """Two results that must agree to the bit wherever it is known what is right."""
    return same(what, np.where(known, one, 0.0), np.where(known, other, 0.0), dtype)


def close(what: str, actual: Array, right: Expected, dtype: str) -> Comparison:
    """A result beside what it should be."""
    return Comparison(what, actual, right.value, right.allowance, dtype, right.residual)


def alike(what: str, actual: Array, right: Array, allowance: Array, dtype: str) -> Comparison:
    """A result, or what is formed from it, beside what it must be within an allowance."""
    return Comparison(what, actual, right, allowance, dtype)


def agree(what: str, one: Array, other: Array, allowance: Array, dtype: str) -> Comparison:
    """Two runs of one implementation, within both runs' allowances. The larger counts as what is
    expected: beside a side that is zero by mistake no allowance would say anything."""
    actual, expected = sorted((one, other), key=_largest)
    return Comparison(what, actual, expected, allowance, dtype)


def _largest(values: Array) -> float:
    found = float(np.abs(values).max(initial=0.0))
    return math.inf if math.isnan(found) else found


def refused(implementation: Implementation, inputs: Inputs, what: str) -> list[Comparison]:
    """That a call for `what` ends with an exception, whichever. Raises Breach if it does not."""
    if not implementation.refuses(inputs):
        raise Breach("accepts", f"returned a result for {what}; an exception is due")
    return [same(f"exception for {what}", np.ones(1), np.ones(1), "float64")]


def matches_oracle(oracle: Oracle) -> Check:
    """Every element within its derived allowance of the exact value."""

    def check(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
        actual = implementation(inputs)
        right = oracle(implementation, inputs)
        return [close("output", actual, right, implementation.dtype)]

    return check


def inputs_unchanged(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Every byte handed over is as before, in the guard zones around the arrays too."""
    implementation(inputs)
    record = implementation.memory()
    before = record.before.astype(np.float64)
    return [same("bytes of the inputs", record.after.astype(np.float64), before, "float64")]


def repeatable(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The same call twice in a row."""
    promised = "repeatable" in implementation.guarantees
    first, second = implementation(inputs), implementation(inputs)
    return [same("second call", second, first, implementation.dtype, promised=promised)]


def views_equal_copies(oracle: Oracle) -> Check:
    """A view gives what a contiguous copy gives."""

    def check(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
        layout = inputs.layout
        if layout == "contiguous":
            # those need values that repeat, which these inputs need not have
            others = [name for name in LAYOUTS[1:] if name not in REPEATED]
            layout = others[generator(inputs, "layout").integers(len(others))]
        view = implementation(inputs, layout=layout)
        copy = implementation(inputs, layout="contiguous")
        what = f"{layout} view against its copy"
        dtype = implementation.dtype
        allowance = 2.0 * oracle(implementation, inputs).allowance
        exact = "layout-invariant" in implementation.guarantees
        return [
            agree(what, view, copy, allowance, dtype),
            same(f"{what}, to the bit", view, copy, dtype, promised=exact),
        ]

    return check


Alone = tuple[Inputs, Any]
"""A part of a call that must not depend on the rest, and its index in the full result."""


def row_alone(oracle: Oracle, alone: Callable[[Inputs], Alone]) -> Check:
    """A part of the batch by itself gives what it gives among the others."""

    def check(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
        part, index = alone(inputs)
        if not implementation.legal(part):
            return []
        whole = implementation(inputs)[index]
        single = implementation(part).reshape(whole.shape)
        allowance = 2.0 * oracle(implementation, inputs).allowance[index]
        dtype = implementation.dtype
        exact = "batch-invariant" in implementation.guarantees
        return [
            agree("row alone", single, whole, allowance, dtype),
            same("row alone, to the bit", single, whole, dtype, promised=exact),
        ]

    return check


def others_change_nothing(alone: Callable[[Inputs], Alone]) -> Check:
    """Other content at the other places, finite, changes no bit of a row (`mask-exact`)."""

    def check(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
        _, index = alone(inputs)
        first = COMPONENTS[inputs.component].first
        values = inputs.arrays[first]
        other = values[..., ::-1] if values.ndim else values
        mixed = np.array(-other)
        mixed[index] = values[index]
        promised = "mask-exact" in implementation.guarantees
        plain = implementation(inputs, layout="contiguous")[index]
        among = implementation(inputs.with_arrays(**{first: mixed}), layout="contiguous")[index]
        what = "row among other rows of other content"
        return [same(what, among, plain, implementation.dtype, promised=promised)]

    return check


def output_form(oracle: Oracle) -> Check:
    """Type, shape, dtype and device, which the call itself checks, and no NaN where nothing can
    overflow on the way."""

    def check(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
        actual = implementation(inputs)
        sure = np.isfinite(oracle(implementation, inputs).allowance)
        found = np.isnan(actual) & sure
        return [same("NaN in the output", found * 1.0, np.zeros(actual.shape), "float64")]

    return check


def empty_batch(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """A batch of nothing gives a result of nothing, of the right shape."""
    shape = np.array(COMPONENTS[inputs.component].result(inputs), np.float64)
    actual = np.array(implementation(inputs).shape, np.float64)
    return [same("shape", actual, shape, "float64")]


def no_memory(oracle: Oracle, others: Others) -> Check:
    """Between other calls a call gives what it should, the same each time, and what was returned
    stays as it is while others are made."""

    def check(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
        promised = "repeatable" in implementation.guarantees
        dtype = implementation.dtype
        between = others(implementation, inputs)
        _called(implementation, between)
        before, read_again = implementation.held(inputs)
        _called(implementation, between)
        kept = read_again()
        after = implementation(inputs)
        return [
            close("output after other calls", before, oracle(implementation, inputs), dtype),
            same("earlier result after later calls", kept, before, dtype),
            same("the same call after others", after, before, dtype, promised=promised),
        ]

    return check


def _called(implementation: Implementation, calls: list[Inputs]) -> None:
    """Make those calls that the target's limits allow, whatever they give: other laws judge
    them."""
    for inputs in calls:
        if implementation.legal(inputs):
            with suppress(Breach):
                implementation(inputs)


def call_laws(
    component: str,
    oracle: Oracle,
    others: Others,
    rejects: Mapping[str, tuple[str, ...]],
    *,
    two_runs: str = "",
) -> tuple[Law, ...]:
    """The rows about the call itself, those that `rejects` names: it maps a law's last name to its
    faults. `two_runs` is the family for laws that compare two runs, whose allowances add up."""

    def law(name: str, says: str, means: str, check: Check, **more: Any) -> Law:
        family = more.pop("inputs", component)
        return Law(
            f"{component}.{name}", component, says, means, more.pop("kind", "exact"), check,
            inputs=family, rejects=rejects.get(name, ()), **more,
        )  # fmt: skip

    laws = (
        law(
            "inputs_unchanged",
            "no byte of what is handed over changes, nor of the memory around it",
            "the function works in place, or writes outside of its arrays",
            inputs_unchanged,
        ),
        law(
            "repeatable",
            "the same call gives the same bits",
            "the result depends on something other than the arguments: a race, or old memory",
            repeatable,
            guarantee="repeatable",
        ),
        law(
            "views_equal_copies",
            "a view gives what its contiguous copy gives",
            "strides are assumed, or a view's memory is read in another order",
            views_equal_copies(oracle),
            kind="reduced",
            inputs=two_runs or component,
            guarantee="layout-invariant",
        ),
        law(
            "no_memory",
            "a call gives what it should between other calls, and what it returned stays as it is",
            "something is kept from one call to the next: a table, a buffer",
            no_memory(oracle, others),
        ),
        law(
            "output_form",
            "the result has the shape, dtype and device of the input, and no NaN",
            "the result is of another kind than the signature promises",
            output_form(oracle),
            kind="form",
        ),
        law(
            "empty_batch",
            "a batch of nothing gives nothing, in the right shape",
            "an empty tensor is not handled",
            empty_batch,
            kind="form",
            inputs=f"{component}_empty",
        ),
    )
    return tuple(made for made in laws if made.id.partition(".")[2] in rejects)
