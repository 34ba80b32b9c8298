"""What came out: one record for each law, dtype and device, and one for the whole run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from attnspec.elements import Elements
from attnspec.refusals import Refusals

NOT_PROMISED = "is not promised"
"""How the reason ends where a guarantee was only watched."""

Status = Literal["pass", "fail", "known", "not-tested"]
Verdict = Literal["conforms", "fails", "not-judged"]


@dataclass(frozen=True)
class Outcome:
    """One law on one dtype and device of a target. Plain data: it crosses processes."""

    law: str
    component: str
    dtype: str
    device: str
    status: Status
    examples: int = 0
    """Drawn calls on which the law was evaluated."""
    failing: int = 0
    """How many of them failed, before any search for a simpler one."""
    ratio: float | None = None
    """Worst error over allowance; None where nothing was compared."""
    reason: str = ""
    """Why it was not tested, or in one line why it failed."""
    text: str = ""
    """The whole message of a failure."""
    diagnosis: tuple[str, ...] = ()
    """Ids of what would explain the failure, best first."""
    case: str = ""
    """The simplest failing call, as code, ..."""
    call: bytes = b""
    """... and as the data of which a stored case consists, ..."""
    case_file: str = ""
    """... and where that is."""
    elements: Elements | None = None
    """What the worst comparison of that call looks like."""
    preset: str = ""
    """The tightest precision preset that the examples met, where the law compares with the
    exact value."""
    guarantee: str = ""
    """A guarantee that the target does not give and that was only watched, ..."""
    held: int = 0
    watched: int = 0
    """... and in how many of so many examples it held."""
    declined: int = 0
    """Examples answered with NotImplementedError, ..."""
    declined_with: str = ""
    """... its message, ..."""
    declined_option: str = ""
    """... and the option that all of them have and no accepted call has."""
    calls: int = 0
    answered: int = 0
    """Calls of the function, and how many of them returned."""
    refusals: Refusals = field(default_factory=Refusals)
    """What these calls were like, declined and answered."""
    known: str = ""
    """Why a failure is known, where the status is `known`."""
    error: str = ""
    """An error in the law itself: nothing is known then."""

    @property
    def key(self) -> tuple[str, str, str]:
        """What it belongs to: component, dtype, device."""
        return (self.component, self.dtype, self.device)


@dataclass(frozen=True)
class Untested:
    """Something that a target lacks or declines, and that was not tested for that reason."""

    component: str
    option: str
    reason: str


@dataclass(frozen=True)
class Run:
    """All that is known about one target after a run."""

    target: str
    version: str
    seed: int
    tier: str
    outcomes: tuple[Outcome, ...]
    untested: tuple[Untested, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    """Device settings under which it ran."""
    given: str = ""
    """The words by which the target was found; empty for an object from Python."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of the suite, of Python, and of what the target needs."""
    interrupted: bool = False
    """Whether it ended before it had judged everything, ..."""
    ended_by: str = "Ctrl-C"
    """... and what ended it."""
    problems: tuple[str, ...] = ()
    """What is wrong with the known failures that the run was given: that fails it."""

    @property
    def verdict(self) -> Verdict:
        """`fails` if any law failed that is not known to, or if the known failures are wrong;
        `not-judged` if nothing was judged, if the run was interrupted before a failure, or if a
        law itself went wrong."""
        statuses = {outcome.status for outcome in self.outcomes}
        if any(outcome.error for outcome in self.outcomes):
            return "not-judged"
        if "fail" in statuses or self.problems:
            return "fails"
        return "conforms" if "pass" in statuses and not self.interrupted else "not-judged"

    @property
    def exit_status(self) -> int:
        """0 conforms, 1 does not, 2 could not be judged."""
        if self.interrupted:
            return 2
        return {"conforms": 0, "fails": 1, "not-judged": 2}[self.verdict]
