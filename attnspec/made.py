"""The calls that a law really makes: the drawn one, or others that it forms from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from attnspec import blackbox
from attnspec.oracle.law import Inputs
from attnspec.oracle.literal import LONGEST as DRAWN
from attnspec.oracle.literal import Upstream, literal
from attnspec.search import key

FURTHER = 2
"""Calls besides the first that a message shows."""
FORMED = "formed by the law"
"""In place of the pattern, as no seed draws such a call."""
LONGEST = 512
"""Elements of the largest array of such a call that is written out: nothing else tells them."""


@dataclass(frozen=True)
class Made:
    """One call of a function, and the gradient of its result where gradients were asked for."""

    inputs: Inputs
    upstream: Upstream | None = None

    def code(self, arrays: str) -> str:
        """It as Python that can be pasted."""
        longest = LONGEST if self.inputs.pattern == FORMED else DRAWN
        return literal(self.inputs, arrays=arrays, upstream=self.upstream, longest=longest)

    def formed(self) -> Made:
        """The same, marked as one that was not drawn."""
        return replace(self, inputs=replace(self.inputs, pattern=FORMED))


@dataclass
class Diary:
    """Keeps the calls of a function and of its siblings, in their order, while it is open."""

    made: list[Made] = field(default_factory=list)
    is_open: bool = False

    @contextmanager
    def kept(self) -> Iterator[list[Made]]:
        """The list of the calls that are made inside of the `with`."""
        self.made, self.is_open = [], True
        try:
            yield self.made
        finally:
            self.is_open = False

    def note(self, made: Made) -> None:
        """Write down a call that begins, for whoever reads it, here or after the process ended."""
        blackbox.note(made.inputs)
        if self.is_open:
            self.made.append(made)

    def note_upstream(self, upstream: Upstream) -> None:
        """The call that began last is one for gradients."""
        if self.is_open:
            self.made[-1] = Made(self.made[-1].inputs, upstream)


@dataclass(frozen=True)
class Shown:
    """The calls of a law that a message prints."""

    calls: tuple[Made, ...]
    """The one that matters most first."""
    left_out: int = 0
    """How many other ones there were."""
    times: int = 1
    """How often the first one was made."""

    def code(self, arrays: str) -> str:
        """All of them as Python."""
        return "\n\n".join(call.code(arrays) for call in self.calls)


def shown(drawn: Inputs, made: Sequence[Made], *, breach: bool) -> Shown:
    """Of the calls that a law made from a drawn one, those that a message prints.

    The drawn one leads if it was made, else that made last, which is the one that most laws
    read off. A `breach` ended the last call, so that call alone is shown.
    """
    if not made:
        return Shown((Made(drawn),))
    own = _arguments(Made(drawn))
    by_arguments: dict[bytes, list[Made]] = {}
    for call in made[-1:] if breach else made:
        is_drawn = _arguments(Made(call.inputs)) == own
        alike = by_arguments.setdefault(_arguments(call), [])
        alike.append(call if is_drawn else call.formed())
    lead = [same for same, (call, *_) in by_arguments.items() if call.inputs.pattern != FORMED]
    first = lead[0] if lead else _arguments(made[-1])
    others = [calls[0] for same, calls in by_arguments.items() if same != first]
    alike = by_arguments[first]
    return Shown((alike[0], *others[:FURTHER]), len(others[FURTHER:]), len(alike))


def _arguments(call: Made) -> bytes:
    """Tells calls apart by what the function is given."""
    above = call.upstream
    gradients = b"" if above is None else repr(above.layout).encode() + above.values.tobytes()
    return key(replace(call.inputs, pattern="", signed=False, seed=0)) + gradients
