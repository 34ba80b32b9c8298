"""Which laws reject a function that is in no catalogue, and in how many calls."""

from __future__ import annotations

from collections.abc import Iterable

from attnspec.driving import out_of_reach, scope_of
from attnspec.judging import judged
from attnspec.oracle import LAWS
from attnspec.oracle.inputs import sampled, strategy
from attnspec.oracle.law import Law
from attnspec.subject import Subject


def rejections(
    mine: Subject, many: int = 40, *, seed: int = 5, laws: Iterable[Law] = LAWS
) -> dict[str, int]:
    """How many of so many calls each law of its component rejects, by the law's last name, of
    those laws that reject any. Laws that have no call for it are left out."""
    found = {}
    for row in laws:
        if row.component != mine.component or out_of_reach(row, mine) or not _callable(row, mine):
            continue
        calls = sampled(row.inputs, scope_of(mine), many, seed)
        if times := sum(judged(row, mine, inputs).fails for inputs in calls):
            found[row.id.partition(".")[2]] = times
    return found


def _callable(law: Law, mine: Subject) -> bool:
    try:
        strategy(law.inputs, scope_of(mine))
    except ValueError:
        return False
    return True
