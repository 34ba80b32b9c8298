"""Sinusoidal positions in half precision: which of them still differ.

Source: document 004 (3.3, unique fingerprints). The collisions are found in integer arithmetic with
the proved errors of `spec/turns.py`, so that every rounding is certain.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import sympy as sp

from attnspec.spec.claim import Claim, Source, Step
from attnspec.spec.turns import BITS, error, turn_tables

Form = tuple[int, int]
"""Of a number format: its significant bits, and the exponent of its smallest spacing."""
BFLOAT16, FLOAT16 = (8, -133), (11, -24)


def rounded(value: int, uncertainty: int, form: Form) -> int:
    """A number, known up to the uncertainty, rounded to nearest in a format; all of them in units
    of 2^-BITS. Raises ValueError where the uncertainty leaves it open."""
    significant, spacing = form
    dropped = max(abs(value).bit_length() - significant, BITS + spacing, 0)
    half = 1 << dropped >> 1
    below, above = ((value + half + off) >> dropped for off in (-uncertainty, uncertainty))
    if below != above:
        raise ValueError(f"{value} +- {uncertainty} isn't known well enough")
    return below << dropped


@cache
def first_collision(pairs: int, length: int, form: Form) -> tuple[int, int] | None:
    """The first position up to `length` whose rounded encoding an earlier one has, after that."""
    tables = [table for pair in turn_tables(pairs, length) for table in pair]
    seen: dict[tuple[int, ...], int] = {}
    for position in range(length + 1):
        off = error(position)
        code = tuple([rounded(table[position], off, form) for table in tables])
        if seen.setdefault(code, position) != position:
            return seen[code], position
    return None


def collisions() -> tuple[Step, ...]:
    """The steps of `sinusoidal.collisions_of_half_precision`."""
    found = (
        ("d = 2, bfloat16: 711 has the encoding of 1, and none before it that of another", 1, 711,
         BFLOAT16, (1, 711)),
        ("d = 2, float16: 712 that of 2", 1, 712, FLOAT16, (2, 712)),
        ("d = 4, bfloat16: 84830 that of 7, and none before it", 2, 84830, BFLOAT16, (7, 84830)),
        ("d = 4, float16: no two of them have the same", 2, 84830, FLOAT16, None),
    )  # fmt: skip
    return tuple(
        Step(says, first_collision(pairs, length, form) == pair)
        for says, pairs, length, form, pair in found
    )


def _stored_whole(position: int, significant: int) -> int:
    """An integer rounded to so many significant bits, half to even."""
    dropped = max(position.bit_length() - significant, 0)
    return round(Fraction(position, 1 << dropped)) << dropped


def _half_positions() -> tuple[Step, ...]:
    bits = sp.Symbol("p", integer=True, positive=True)
    spacing = 2**bits / 2 ** (bits - 1)
    odd = 2**bits + 1
    return (
        Step(
            "from 2^p on, numbers of p significant bits are 2 apart",
            sp.simplify(spacing - 2),
        ),
        Step(
            "so 2^p + 1 lies halfway between two of them, and the even one is 2^p",
            sp.simplify(odd - (2**bits + 2**bits + spacing) / 2),
        ),
        *(
            Step(
                f"{name}: position {2**significant + 1} is stored as {2**significant}",
                sp.Integer(_stored_whole(2**significant + 1, significant) - 2**significant),
            )
            for name, (significant, _) in (("bfloat16", BFLOAT16), ("float16", FLOAT16))
        ),
        Step(
            "with all positions up to there told apart",
            all(
                _stored_whole(position, significant) == position
                for significant, _ in (BFLOAT16, FLOAT16)
                for position in range(2**significant + 1)
            ),
        ),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="sinusoidal.collisions_of_half_precision",
        number="",
        statement="Stored in half precision, encodings of different positions may coincide.",
        latex=r"\mathrm{fl}(PE(7))=\mathrm{fl}(PE(84830))\quad(d=4,\ \text{bfloat16})",
        source=Source("004", "3.3 Walkthrough", "No two positions share their four numbers."),
        verdict="holds",
        form="exact",
        truth="At d = 2 the first are 1 and 711 in bfloat16, 2 and 712 in float16. At d = 4 they "
        "are 7 and 84830 in bfloat16, with none up to there in float16.",
        derivation=collisions,
    ),
    Claim(
        id="sinusoidal.neighbors_of_half_positions",
        number="",
        statement="Positions that are themselves stored in half precision lose their neighbors: "
        "257 becomes 256 in bfloat16, 2049 becomes 2048 in float16.",
        latex=r"\mathrm{fl}_p(2^p+1)=2^p",
        source=Source("004", "3.3 Walkthrough", "No two positions share their four numbers."),
        verdict="holds",
        form="symbolic",
        derivation=_half_positions,
    ),
)
