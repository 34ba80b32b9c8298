"""Counterexamples of rope, softmax and attention, evaluated without the register's own formulas.

Each one is worked out here by plain loops over fractions and intervals, or by what torch does, and
both of its numbers must be those that the claim states. Rule of comparison: numbers are intervals
that hold the exact ones, no wider than 2^-160, at either side. The same number means that the two
intervals meet, and then the two numbers differ by less than 2^-159; that stated and actual are
different numbers means that theirs don't.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
import torch
from mpmath import iv

from attnspec.spec import CLAIMS
from attnspec.spec.claim import Claim
from tests.intervals import WIDEST, enclosed, interval, meet, narrow
from tests.registered import shown

BASE = 10000
FALSE = ("corrected", "refuted")


@pytest.fixture(autouse=True)
def _digits() -> Iterator[None]:
    """Enough for exp(-1000) beside 1."""
    kept, iv.dps = iv.dps, 500
    yield
    iv.dps = kept


class Numbers(NamedTuple):
    """What is stated, and what is so."""

    stated: Any
    actual: Any


# -- attention and rotations by loops ------------------------------------------------------------


def product(x: Sequence[Any], y: Sequence[Any]) -> Any:
    total = iv.mpf(0)
    for a, b in zip(x, y, strict=True):
        total += interval(a) * interval(b)
    return total


def softmax(logits: Sequence[Any]) -> list[Any]:
    numerators = [iv.exp(interval(z)) for z in logits]
    total = product(numerators, [1] * len(numerators))
    return [numerator / total for numerator in numerators]


def averaged(logits: Sequence[Any], values: Sequence[Any]) -> Any:
    return product(softmax(logits), values)


def frequency(pair: int, width: int) -> Any:
    return iv.exp(-iv.log(BASE) * iv.mpf(2 * pair) / width) if pair else iv.mpf(1)


def turned(x: Sequence[Any], position: int) -> list[Any]:
    """RoPE of one vector, pair by pair, as a listing would."""
    out: list[Any] = []
    for pair in range(len(x) // 2):
        angle = position * frequency(pair, len(x))
        cos, sin = iv.cos(angle), iv.sin(angle)
        first, second = (interval(channel) for channel in x[2 * pair : 2 * pair + 2])
        out += [first * cos - second * sin, first * sin + second * cos]
    return out


def turned_score(q: Sequence[Any], k: Sequence[Any], m: int, n: int) -> Any:
    return product(turned(q, m), turned(k, n))


# -- the counterexamples -------------------------------------------------------------------------


def other_content() -> Numbers:
    """A15: two keys at the same displacement."""
    return Numbers(turned_score((1, 0), (1, 0), 0, 0), turned_score((1, 0), (2, 0), 0, 0))


def slope_at_999() -> Numbers:
    """A17: the quotient rule for 999 / (999 + 1), whose numerator's slope is itself."""
    above, beside = Fraction(999), Fraction(1)
    total = above + beside
    slope = (above * total - above * above) / total**2
    assert above / total == Fraction(999, 1000)
    return Numbers(Fraction(0), slope)


def rising_score() -> Numbers:
    """A20: distance 6 beside distance 1, in one plane."""
    near, far = (turned_score((1, 0), (1, 0), 0, distance) for distance in (1, 6))
    assert far > near
    return Numbers(near, far)


def second_pair() -> Numbers:
    """B05: a vector in the second pair of channels."""
    x = (0, 0, 1, 0)
    only_first = [*turned(x[:2], 1), 0, 0]
    both = turned(x, 1)
    return Numbers(product(only_first, only_first), product(both, both))


def two_large() -> Numbers:
    """C012: two logits of 1000; a unique one that leads by 1000 does dominate."""
    assert softmax((1000, 0))[0] > 1 - iv.mpf(10) ** -400
    return Numbers(Fraction(1), softmax((1000, 1000))[0])


def slope_in_value() -> Numbers:
    """C013: the output is linear in a value, so that its slope is a difference."""
    outputs = [averaged((1000, 0), (value, 0)) for value in (0, 1)]
    slope = outputs[1] - outputs[0]
    assert slope < 1
    return Numbers(Fraction(0), slope)


def scaled_pair() -> Numbers:
    """C015: scores (2 log 2, 0), divided by 2 or not."""
    gap = 2 * iv.log(2)
    return Numbers(softmax((gap, 0))[0], softmax((gap / 2, 0))[0])


def two_limits() -> Numbers:
    """C019: the output rises with the query t, stays between 0 and 1, and is within 10^-400 of
    them at -1000 and 1000. A polynomial that has a limit is a constant: so this is none."""
    outputs = [averaged((t, 0), (1, 0)) for t in (-1000, -10, 0, 10, 1000)]
    assert all(low < high for low, high in pairwise(outputs))
    low, high = outputs[0], outputs[-1]
    return Numbers(iv.mpf([high.a, 1]), iv.mpf([0, low.b]))


def first_of_swapped() -> Numbers:
    """C022: two tokens, in either order."""
    first = [averaged([order[0] * key for key in order], order) for order in ((0, 1), (1, 0))]
    return Numbers(*first)


def angle_of_first_block() -> Numbers:
    """C107: (1, 0) at position 1 is turned to (cos a, sin a) by the angle a of the only block."""
    (cos, sin) = turned((1, 0), 1)
    by_number = [frequency(pair, 2) for pair in (0, 1)]
    found = [a for a in by_number if meet(iv.cos(a), cos) and meet(iv.sin(a), sin)]
    assert len(found) == 1
    return Numbers(by_number[1], found[0])


def pulled_down(distance: int) -> Numbers:
    """C113 and C115: the best of unit vectors at a distance, against q = k."""
    k = (1, 0)
    best = turned_score(turned(k, distance), k, 0, distance)
    for q in UNIT_VECTORS:
        assert turned_score(q, k, 0, distance) < 1 + interval(WIDEST)
    return Numbers(turned_score(k, k, 0, distance), best)


UNIT_VECTORS = [
    (Fraction(sign * a, c), Fraction(other * b, c))
    for a, b, c in ((3, 4, 5), (4, 3, 5), (5, 12, 13), (12, 5, 13), (1, 0, 1), (0, 1, 1))
    for sign in (1, -1)
    for other in (1, -1)
]


def float32_mask() -> Numbers:
    """B14: what torch makes of a mask without a dtype."""
    values = torch.ones(3, 2, dtype=torch.float16)
    mask = torch.triu(torch.full((3, 3), float("-inf")), diagonal=1)
    weights = torch.softmax(values @ values.T + mask, dim=-1)
    with pytest.raises(RuntimeError, match="dtype"):
        _ = weights @ values
    own = torch.softmax(values @ values.T + mask.to(values.dtype), dim=-1)
    assert (own @ values).dtype == values.dtype
    bits = [Fraction(torch.finfo(x.dtype).bits) for x in (values, weights)]
    return Numbers(*bits)


def turning_channels() -> Numbers:
    """C129: a stream of 64 channels, each of which moves from position 0 to 1."""
    ones = [Fraction(1)] * 64
    moved = [not meet(iv.mpf(1), x) for x in turned(ones, 1)]
    return Numbers(Fraction(32, 128), Fraction(sum(moved), len(moved)))


FOUND: dict[str, Callable[[], Numbers]] = {
    "A15": other_content,
    "A17": slope_at_999,
    "A20": rising_score,
    "B05": second_pair,
    "B14": float32_mask,
    "C012": two_large,
    "C013": slope_in_value,
    "C015": scaled_pair,
    "C019": two_limits,
    "C022": first_of_swapped,
    "C107": angle_of_first_block,
    "C113": lambda: pulled_down(1),
    "C115": lambda: pulled_down(3),
    "C129": turning_channels,
}


# -- comparison ----------------------------------------------------------------------------------


def of_number(number: str) -> Claim:
    (entry,) = (entry for entry in CLAIMS if entry.number == number)
    return entry


@pytest.mark.parametrize("number", FOUND)
def test_a_counterexample_has_the_numbers_that_loops_find(number: str) -> None:
    entry = of_number(number)
    assert entry.verdict in FALSE
    example, found = shown(entry.id), FOUND[number]()
    for what in ("stated", "actual"):
        registered, own = enclosed(getattr(example, what)), getattr(found, what)
        assert narrow(registered)
        assert narrow(own)
        assert meet(registered, own), f"{what}: {getattr(example, what)}, by loops {own}"
    assert not meet(found.stated, found.actual)


def test_every_false_statement_on_rope_softmax_and_attention_is_worked_out_here() -> None:
    false = {entry.number: entry.id for entry in CLAIMS if entry.verdict in FALSE}
    own = ("rope.", "softmax.", "attention.")
    assert {number for number, name in false.items() if name.startswith(own)} == set(FOUND)


def test_shares_of_a_power_of_two_are_no_polynomial_of_low_degree() -> None:
    """C019 once more: at t = k log 2 the output is 2^k / (2^k + 1), and no row of its differences
    vanishes, as one would for a polynomial of degree below 16."""
    row = [Fraction(2**k, 2**k + 1) for k in range(17)]
    while len(row) > 1:
        row = [after - before for before, after in pairwise(row)]
        assert any(row)
