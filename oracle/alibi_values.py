"""What alibi_slopes and alibi_bias return: the oracle's side of their laws.

Sources: `spec/alibi_definition.py`. What a target follows decides the rule of its slopes, whether
a constant a row may be added, and whether anything is promised of keys after the query.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attnspec.oracle.expected import Expected, expected, value_of
from attnspec.oracle.law import Implementation, Inputs
from attnspec.oracle.precision import JUDGED_RMS
from attnspec.oracle.rounding import formed
from attnspec.spec import alibi_definition
from attnspec.spec.alibi_definition import FUTURES, ROW_CONSTANTS, SLOPES

Array = np.ndarray[Any, Any]

_SLOPES = {rule: alibi_definition.alibi_slopes(rule) for rule in SLOPES}
_BIAS = {
    (rule, constant): alibi_definition.alibi_bias(rule, constant)
    for rule in SLOPES
    for constant in ROW_CONSTANTS
}
_JUDGED = {future: alibi_definition.judged(future) for future in FUTURES}


def slopes(implementation: Implementation, inputs: Inputs) -> Expected:
    """The slope of each head: h."""
    rule = implementation.conventions["alibi.slopes"]
    heads = {"heads": inputs.numbers["n_heads"]}
    return expected(_SLOPES[rule], heads, {}, implementation.contract)


def unrounded_error(implementation: Implementation, inputs: Inputs) -> Array:
    """What the slopes of a call may be off before they are rounded to storage: h."""
    contract, rule = implementation.contract, implementation.conventions["alibi.slopes"]
    wide = replace(contract, storage=contract.accumulate)
    return expected(_SLOPES[rule], {"heads": inputs.numbers["n_heads"]}, {}, wide).allowance


def first_run(implementation: Implementation, inputs: Inputs) -> int:
    """How many heads, from the first on, have slopes that are powers of the first one."""
    marks = alibi_definition.powers_of_first(implementation.conventions["alibi.slopes"])
    return int(value_of(marks, {"heads": inputs.numbers["n_heads"]}, {}).sum())


def bias(implementation: Implementation, inputs: Inputs, given: Array | None = None) -> Expected:
    """The bias, h t s. Where a constant a row is free it is what the target has on the diagonal,
    and entries of which nothing is promised are what the target has: `given`, or what one more
    call gives."""
    promised = known(implementation, inputs)
    if given is None and (_free(implementation) or not promised.all()):
        given = implementation(inputs)
    right = _expected(implementation, inputs, given)
    if given is None:
        return right
    if _free(implementation):
        right = _against_penalties(right, own(inputs, right.value), promised)
    # the same call gives the same bits, or else nothing is known of them
    room = 0.0 if "repeatable" in implementation.guarantees else np.inf
    rest = None if right.residual is None else np.where(promised, right.residual, 0.0)
    value = np.where(promised, right.value, given)
    return Expected(value, np.where(promised, right.allowance, room), rest)


def _against_penalties(right: Expected, constant: Array, promised: Array) -> Expected:
    """Nothing is said of an entry whose allowance hides the penalties beside a large constant."""
    penalties = np.where(promised, right.value - constant, 0.0)
    size = float(np.sqrt(np.mean(penalties**2)))
    lost = (right.allowance > JUDGED_RMS * size) & (size > 0.0)
    return replace(right, allowance=np.where(lost, np.inf, right.allowance))


@dataclass(frozen=True)
class Penalties:
    """What a bias takes off beside its query's own key, given and right: h t s each, 0 where
    nothing is promised."""

    given: Array
    right: Array
    allowance: Array
    known: Array
    """Where something is promised: bool."""


def penalties(
    implementation: Implementation, inputs: Inputs, given: Array | None = None
) -> Penalties:
    """The bias of a call, less what it has on the diagonal where a constant a row is free."""
    bits = implementation(inputs) if given is None else given
    right = _expected(implementation, inputs, bits)
    promised = known(implementation, inputs)
    value, allowance = right.value, right.allowance
    if _free(implementation):
        constant = own(inputs, bits)
        with np.errstate(invalid="ignore"):
            allowance = allowance + formed(np.abs(bits) + np.abs(constant), 2)
            bits = bits - constant
        value = value - own(inputs, value)
    found, due, room = (np.where(promised, x, 0.0) for x in (bits, value, allowance))
    return Penalties(found, due, room, promised)


def known(implementation: Implementation, inputs: Inputs) -> Array:
    """Where something is promised of the bias: bool, h t s."""
    future = implementation.conventions["alibi.future"]
    found: Array = value_of(_JUDGED[future], _sizes(inputs), {}) > 0.0
    return found


def own(inputs: Inputs, values: Array) -> Array:
    """What a bias has at each query's own key: h t 1."""
    rows = np.arange(inputs.numbers["t"])
    found: Array = values[:, rows, positions(inputs)][..., None]
    return found


def positions(inputs: Inputs) -> Array:
    """Where the queries sit among the keys: t."""
    return np.arange(inputs.numbers["t"]) + inputs.numbers["s"] - inputs.numbers["t"]


def distances(inputs: Inputs) -> Array:
    """How far each key is from each query: t s."""
    sizes = {name: inputs.numbers[name] for name in ("t", "s")}
    return value_of(alibi_definition.alibi_distances(), sizes, {})


def _free(implementation: Implementation) -> bool:
    return implementation.conventions["alibi.row_constant"] == "free"


def _expected(implementation: Implementation, inputs: Inputs, given: Array | None) -> Expected:
    """The definition's bias, with the given one's own constants where they are free."""
    followed = implementation.conventions
    definition = _BIAS[followed["alibi.slopes"], followed["alibi.row_constant"]]
    arrays = {}
    if _free(implementation) and given is not None:
        diagonal = own(inputs, given)[..., 0]
        # no constant is infinite
        arrays["constant"] = np.where(np.isfinite(diagonal), diagonal, 0.0)
    return expected(definition, _sizes(inputs), arrays, implementation.contract)


def _sizes(inputs: Inputs) -> dict[str, int]:
    numbers = inputs.numbers
    return {"heads": numbers["n_heads"], "t": numbers["t"], "s": numbers["s"]}
