"""The way in from Python: one law for a notebook, all of them for pytest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from attnspec.choices import known_components, known_dtypes, known_laws, known_tier
from attnspec.driving import Effort, outcome_of
from attnspec.loading import Loaded, load
from attnspec.oracle.components import COMPONENTS
from attnspec.oracle.law import Law
from attnspec.outcome import Outcome
from attnspec.runner import Selection, planned
from attnspec.usage import UsageError


@dataclass(frozen=True)
class Checked:
    """What `check` found. True if the law holds, and printed as text."""

    outcome: Outcome

    def __bool__(self) -> bool:
        return self.outcome.status == "pass"

    @property
    def text(self) -> str:
        """The whole message of a failure; otherwise one line."""
        o = self.outcome
        if o.status == "fail":
            return o.text or o.reason
        if o.status == "pass":
            ratio = "" if o.ratio is None else f", worst error/allowance {o.ratio:.3g}"
            return f"{o.law} holds in {o.dtype} ({o.examples} examples{ratio})"
        return f"{o.law} was not tested in {o.dtype}: {o.reason}"

    def __repr__(self) -> str:
        return self.text


def check(
    law_id: str,
    target: object,
    dtype: str | None = None,
    *,
    device: str = "cpu",
    tier: str = "full",
    examples: int = 0,
    seed: int = 0,
) -> Checked:
    """Drive one law on a target: words as on the command line, a module, a mapping, a function
    named after its component, or any object. `dtype` is float32 unless it is given; of what has
    whole numbers alone, that of the target's indices.

    Raises UsageError for a law, dtype or tier that does not exist, a target that cannot be loaded
    or lacks the law's component; LawError for a mistake of the suite.
    """
    (law,) = known_laws([law_id])
    known_dtypes([] if dtype is None else [dtype])
    known_tier(tier)
    loaded = load(target)
    if law.component not in loaded.components:
        raise UsageError(f"{loaded.name} has no {law.component}, which {law_id} is about")
    usual = loaded.declaration.index_dtype if COMPONENTS[law.component].whole else "float32"
    outcome = outcome_of(law, loaded, dtype or usual, device, Effort(seed, tier, examples))
    return Checked(_without_error(outcome))


@dataclass(frozen=True)
class Case:
    """One law on one dtype of a target, for a test to call."""

    law: Law
    loaded: Loaded
    dtype: str
    device: str
    effort: Effort

    @cached_property
    def outcome(self) -> Outcome:
        """What came out; driven once."""
        return _without_error(
            outcome_of(self.law, self.loaded, self.dtype, self.device, self.effort)
        )

    def check(self) -> None:
        """Fail the running test with the law's message, or skip it with the reason."""
        import pytest

        outcome = self.outcome
        if outcome.status == "fail":
            pytest.fail(outcome.text or outcome.reason, pytrace=False)
        if outcome.status == "not-tested":
            pytest.skip(outcome.reason)


def parametrize(
    target: object,
    *,
    components: Sequence[str] = (),
    laws: Sequence[str] = (),
    dtypes: Sequence[str] = (),
    tier: str = "smoke",
    examples: int = 0,
    seed: int = 0,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Parametrize a test over every law and dtype that applies to a target::

        @attnspec.parametrize("my_kernels.py")
        def test_law(case):
            case.check()

    Raises UsageError for names that do not exist, a target that cannot be loaded, or a choice
    that leaves nothing to test.
    """
    import pytest

    known_components(components)
    known_dtypes(dtypes)
    known_tier(tier)
    known = {law.id: law for law in known_laws(laws)}
    loaded = load(target)
    selection = Selection(tuple(components), tuple(laws), tuple(dtypes), ())
    tasks = planned(loaded, selection, tuple(known.values())).tasks
    if not tasks:
        raise UsageError(f"no law applies to {loaded.name} with this choice")
    effort = Effort(seed, tier, examples)
    return pytest.mark.parametrize(
        "case",
        [
            pytest.param(
                Case(known[task.law], loaded, task.dtype, task.device, effort),
                id=f"{task.law}-{task.dtype}" + ("" if task.device == "cpu" else f"-{task.device}"),
            )
            for task in tasks
        ],
    )


def _without_error(outcome: Outcome) -> Outcome:
    if outcome.error:
        from attnspec.judging import LawError

        raise LawError(outcome.error)
    return outcome
