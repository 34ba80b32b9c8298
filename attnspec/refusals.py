"""What a target declines, and the one condition that tells it from what it answers.

Every call counts, also those that a law forms itself. A condition separates if every call that
was declined with one message meets it, and no call that was answered does.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from attnspec.oracle.components import COMPONENTS
from attnspec.traits import SIDE_BY_SIDE, beside

FEWEST = 3
"""Fewer calls, declined or answered, have too much in common by chance."""
MESSAGES = 8
"""Different messages that are told apart; numbers in them make no difference."""
FEW_SIZES = 4
"""So many sizes of an axis, or fewer, are what a kernel was written for."""
TELLING = 50
"""Of fewer answered calls a few sizes may be a matter of chance."""
LARGEST, LARGE = {("g", "h"): 4}, 64
"""The largest size that is suggested where two axes must be of one."""
LISTED = 3
"""Messages that a text tells of."""

_SIZE = re.compile(r"size of (\w+) of \w+")
_OPTION = re.compile(r"option (\w+)|(\w+) =")


@dataclass
class Seen:
    """The features of several calls."""

    rows: Counter[tuple[tuple[str, Any], ...]] = field(default_factory=Counter)
    """The features of one call, and how many calls had just these: they are sorted by name only
    when they are asked for."""

    def add(self, features: Iterable[tuple[str, Any]]) -> None:
        """One more call."""
        self.rows[tuple(features)] += 1

    def join(self, other: Seen) -> None:
        """Those of another one too."""
        self.rows.update(other.rows)

    @property
    def count(self) -> int:
        """How many calls."""
        return self.rows.total()

    @property
    def values(self) -> dict[str, Counter[Any]]:
        """How often each value of each feature was there."""
        found: dict[str, Counter[Any]] = {}
        for row, times in self.rows.items():
            for name, value in row:
                found.setdefault(name, Counter())[value] += times
        return found


@dataclass
class Refusals:
    """What became of calls: declined, by message, or answered."""

    declined: dict[str, Seen] = field(default_factory=dict)
    answered: Seen = field(default_factory=Seen)

    def decline(self, message: str, features: Iterable[tuple[str, Any]]) -> None:
        """One call that was declined."""
        alike = without_numbers(message)
        known = next((m for m in self.declined if without_numbers(m) == alike), message)
        if known in self.declined or len(self.declined) < MESSAGES:
            self.declined.setdefault(known, Seen()).add(features)

    def join(self, other: Refusals) -> None:
        """Those of another law too."""
        self.answered.join(other.answered)
        for message, seen in other.declined.items():
            alike = without_numbers(message)
            known = next((m for m in self.declined if without_numbers(m) == alike), message)
            self.declined.setdefault(known, Seen()).join(seen)

    def most(self) -> list[tuple[str, Seen]]:
        """Messages and their calls, the most frequent first."""
        return sorted(self.declined.items(), key=lambda pair: -pair[1].count)


@dataclass(frozen=True)
class Condition:
    """What all declined calls have and no answered one has."""

    says: str
    remedy: str
    """What to declare so that no such call is made; empty if there is nothing to declare."""
    about_size: bool = False
    """Whether it is about the sizes of one axis."""


def condition(component: str, declined: Seen, answered: Seen) -> Condition | None:
    """A condition that separates the two, rather one on options or on two axes than on the sizes
    of one; None where there is none."""
    if declined.count < FEWEST or answered.count < FEWEST:
        return None
    found = list(_conditions(component, declined, answered))
    return min(found, key=lambda c: c.about_size, default=None)


def _conditions(component: str, declined: Seen, answered: Seen) -> Iterator[Condition]:
    refused, answers = declined.values, answered.values
    for name, counts in refused.items():
        others = answers.get(name, Counter())
        if counts.total() < declined.count or set(counts) & set(others):
            continue
        axis, option = _axis_of(component, name), _OPTION.fullmatch(name)
        if axis is not None:
            yield from _of_size(component, axis, counts, others)
        elif (pair := _pair_of(name)) is not None:
            yield _of_pair(component, name, pair, counts, answered)
        elif len(counts) == 1:
            (value,) = counts
            given = "" if option is None or value == "left out" else option[1] or option[2]
            leave = f"take {given} out of its signature" if given else ""
            yield Condition(f"{name} {value}", leave)
    for name, others in answers.items():
        option = _OPTION.fullmatch(name)
        always = len(others) == 1 and others.total() == answered.count
        if _axis_of(component, name) is None and option is not None and option[2] and always:
            (value,) = others
            if value not in refused.get(name, ()):
                yield Condition(f"{option[2]} other than {value}", "")


def _axis_of(component: str, name: str) -> str | None:
    """The axis whose size a feature is: that of an array, or a number that is passed."""
    found = _SIZE.fullmatch(name)
    return found[1] if found else COMPONENTS[component].numbers.get(name.removesuffix(" ="))


def _of_size(
    component: str, axis: str, declined: Counter[Any], answered: Counter[Any]
) -> Iterator[Condition]:
    """A condition on one axis: a bound, a step or a few sizes."""
    low, high = min(answered), max(answered)
    step = math.gcd(*answered)
    if min(declined) > high:
        limit, says = f"(1, {high})", f"{axis} above {high}"
    elif max(declined) < low:
        limit, says = f"({low}, {high})", f"{axis} below {low}"
    elif len(answered) > 1 and step > 1 and all(size % step for size in declined):
        limit, says = f"({step}, {high}, {step})", f"{axis} not a multiple of {step}"
    elif len(answered) <= FEW_SIZES and answered.total() >= TELLING:
        sizes = ", ".join(map(str, sorted(answered)))
        limit, says = f"{{{sizes}}}", f"{axis} other than {sizes}"
    else:
        return
    yield Condition(says, _limits(component, {axis: limit}), about_size=True)


def _pair_of(name: str) -> tuple[str, str] | None:
    """The two axes that a feature compares."""
    return next((pair for pair, (what, _) in SIDE_BY_SIDE.items() if name == f"{what}:"), None)


def _of_pair(
    component: str, name: str, pair: tuple[str, str], declined: Counter[Any], answered: Seen
) -> Condition:
    what, than = SIDE_BY_SIDE[pair]
    if set(answered.values.get(name, ())) != {beside(1, 1, than)}:
        return Condition(f"{what} {' or '.join(sorted(declined))}", "")
    sizes: Counter[int] = Counter()
    for feature, counts in answered.values.items():
        if _axis_of(component, feature) == pair[0]:
            sizes.update(counts)
    # of one head or one token little is seen
    most = LARGEST.get(pair, LARGE)
    size = max(sizes, key=lambda n: (n <= most, n if n <= most else -n))
    says = f"another number of {what} than of {than}"
    return Condition(says, _limits(component, dict.fromkeys(pair, f"{{{size}}}")))


def _limits(component: str, limits: Mapping[str, str]) -> str:
    inside = ", ".join(f'"{axis}": {limit}' for axis, limit in limits.items())
    return f'declare limits={{"{component}": {{{inside}}}}} in TARGET'


def brief(component: str, declined: Seen, answered: Seen) -> str:
    """The condition and what to declare, in a few words; empty where none is known."""
    found = condition(component, declined, answered)
    if found is None:
        return ""
    return f" (calls with {found.says}{': ' if found.remedy else ''}{found.remedy})"


def advice(component: str, declined: Seen, answered: Seen) -> str:
    """Which calls were declined with one message, and what to do about it."""
    if not answered.count:
        return (
            "no call was answered: implement it, or leave the function out, as what a target "
            "lacks is not tested"
        )
    found = condition(component, declined, answered)
    if found is None:
        return (
            "no single condition tells these calls from those that it answers: implement them, or "
            f'declare limits={{"{component}": {{"AXIS": SIZES}}}} in TARGET and take options out '
            "of the signature, so that only calls that it answers are made"
        )
    instead = f", or {found.remedy}" if found.remedy else ""
    return f"these are the calls with {found.says}: implement them{instead}"


def declining_text(component: str, share: str, refusals: Refusals) -> str:
    """The message of a target that declines too much."""
    lines = [f"{component} {share}. At most half of them may be declined."]
    messages = refusals.most()
    for message, seen in messages[:LISTED]:
        calls = "1 call" if seen.count == 1 else f"{seen.count} calls"
        lines.append(f"{message} ({calls})")
        lines.append(f"  To do: {advice(component, seen, refusals.answered)}")
    if len(messages) > LISTED:
        lines.append(f"and {len(messages) - LISTED} other messages")
    return "\n".join(lines)


def without_numbers(message: str) -> str:
    """What tells messages apart: kernels print the sizes that they decline."""
    return re.sub(r"\d+", "0", message)


@dataclass
class Tally:
    """What became of the calls so far."""

    calls: int = 0
    answered: int = 0
    """Calls that returned something, right or wrong."""
    refusals: Refusals = field(default_factory=Refusals)
