"""One law on one function of a target, at one dtype and device: from drawn calls to an outcome."""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from attnspec.arrays import has_torch
from attnspec.cases import packed
from attnspec.declaration import limits_of
from attnspec.devices import one_thread
from attnspec.diagnosis import Explanation, explanations
from attnspec.elements import elements_of
from attnspec.evidence import Evidence
from attnspec.gradients import without_gradients
from attnspec.judging import Judgement, LawError, judged, place_of
from attnspec.loading import Loaded
from attnspec.made import shown
from attnspec.message import failure_text, repeat_command, summary
from attnspec.oracle.inputs import Scope, families, lowered, strategy
from attnspec.oracle.law import Inputs, Law
from attnspec.oracle.precision import JUDGED_SHARE
from attnspec.outcome import NOT_PROMISED, Outcome
from attnspec.presets import is_exact, tightest
from attnspec.search import KEPT_FAILING, Sweep, chosen, simplest, stable_seed, sweep
from attnspec.subject import Subject
from attnspec.traits import in_common
from attnspec.usage import UsageError

EXAMPLES = {"smoke": 20, "full": 150, "deep": 1000}
"""Drawn calls for each law, by tier."""
DEEP = "deep"
UNTOLD = "float32"
"""The dtype of a result of which neither an argument nor an option tells it."""
ABOUT_MEMORY = (".inputs_unchanged", ".gradient_leaves_output")
"""Laws that look at the memory of what was handed over."""


@dataclass(frozen=True)
class Effort:
    """How hard to try, and from which seed."""

    seed: int = 0
    tier: str = "full"
    examples: int = 0
    """Instead of the tier's number, where it isn't 0."""

    def __post_init__(self) -> None:
        if self.examples < 0:
            raise UsageError(f"examples is {self.examples}; expected 1 or more")
        if self.seed < 0:
            raise UsageError(f"seed is {self.seed}; expected 0 or more")

    @property
    def count(self) -> int:
        """Drawn calls for each law."""
        return self.examples or EXAMPLES[self.tier]

    @property
    def deep(self) -> bool:
        """Whether the search is guided by the ratios that it sees."""
        return self.tier == DEEP


def outcome_of(law: Law, loaded: Loaded, dtype: str, device: str, effort: Effort) -> Outcome:
    """Drive one law. An error in the law itself is told in the outcome's `error`."""
    if law.inputs not in families():
        raise LawError(f"{law.id}: there is no family of inputs {law.inputs!r}")
    blank = Outcome(law.id, law.component, dtype, device, "not-tested")
    subject = Subject(loaded, law.component, dtype, device)
    if unnamed := _unnamed(loaded, law.component, dtype, device):
        return replace(blank, reason=f"the target does not name {unnamed} among its own")
    if loaded.declaration.arrays == "dlpack" and dtype == "bfloat16" and not has_torch():
        return replace(blank, reason="bfloat16 through DLPack needs torch on the suite's side")
    if subject.signature.problem:
        return replace(blank, status="fail", reason=subject.signature.problem)
    if reason := out_of_reach(law, subject):
        return replace(blank, reason=reason)
    try:
        with one_thread(loaded):
            return _driven(law, subject, blank, effort)
    except LawError as error:
        return replace(blank, reason=f"error in the law itself: {error}", error=str(error))


def out_of_reach(law: Law, subject: Subject) -> str:
    """What a function lacks that a law is about; empty where it lacks nothing."""
    lacking = [option for option in law.options if not subject.accepts(option)]
    if lacking:
        return f"{law.component} does not accept {', '.join(lacking)}"
    for name, value in law.conventions.items():
        if subject.conventions[name] != value:
            return f"the target does not declare {name}={value}"
    if law.gradients and not subject.differentiable:
        return without_gradients(law.component)
    return _unnameable(subject)


def _unnameable(subject: Subject) -> str:
    """What no call can ask a function for, of those that no argument tells the dtype, or the
    device, of their result; empty where there is nothing."""
    row = subject.row
    if row.typed and subject.dtype != UNTOLD and not subject.accepts("dtype"):
        return f"{row.name} does not accept dtype: its result is always {UNTOLD}"
    elsewhere = row.typed and not row.arguments and subject.device != "cpu"
    if elsewhere and not subject.accepts("device"):
        return f"{row.name} does not accept device: its result is always on the CPU"
    return ""


def _unnamed(loaded: Loaded, component: str, dtype: str, device: str) -> str:
    """The dtype or the device, if the target names its own and this is none of them."""
    devices = loaded.declaration.devices
    if dtype not in loaded.dtypes_of(component):
        return dtype
    return "" if devices is None or device in devices else device


def scope_of(subject: Subject) -> Scope:
    """What narrows the inputs that are drawn for a subject."""
    declaration = subject.loaded.declaration
    return Scope(
        dtype=subject.dtype,
        component=subject.component,
        accepts=subject.signature.accepts,
        limits=limits_of(subject.component, declaration.limits),
        conventions=subject.conventions,
        index_dtype=declaration.index_dtype,
    )


def seed_of(effort: Effort, law: Law, dtype: str, device: str) -> int:
    """The seed of one law's calls: the same on every machine and in every process."""
    return stable_seed(effort.seed, law.id, dtype, device)


def _driven(law: Law, subject: Subject, blank: Outcome, effort: Effort) -> Outcome:
    judge = functools.partial(judged, law, subject)
    seed = seed_of(effort, law, subject.dtype, subject.device)
    try:
        draws = strategy(law.inputs, scope_of(subject))
    except ValueError as error:
        # the target's limits leave nothing to call it with
        return replace(blank, reason=f"no legal call: {error}")
    swept = sweep(judge, draws, effort.count, seed, deep=effort.deep, whole=False)
    counted = _counted(blank, law, subject, swept)
    if not swept.failures:
        return _without_failure(counted, law, subject, swept)
    lower = functools.partial(lowered, law.inputs, scope_of(subject))
    simple = simplest(judge, draws, effort.count, seed, swept, lower, deep=effort.deep)
    return _failed(counted, law, subject, swept, simple=simple, effort=effort)


def _counted(blank: Outcome, law: Law, subject: Subject, swept: Sweep) -> Outcome:
    promised = not law.guarantee or law.guarantee in subject.guarantees
    return replace(
        blank,
        examples=swept.examples,
        failing=swept.failing,
        ratio=swept.ratio,
        guarantee="" if promised else law.guarantee,
        held=swept.held,
        watched=swept.watched,
        declined=swept.declined,
        declined_with=swept.refusals[0][1] if swept.refusals else "",
        declined_option=_declined_option(swept),
        calls=subject.tally.calls,
        answered=subject.tally.answered,
        refusals=copy.deepcopy(subject.tally.refusals),
    )


def _declined_option(swept: Sweep) -> str:
    if not swept.refusals:
        return ""
    shared = set.intersection(*(set(chosen(inputs)) for inputs, _ in swept.refusals))
    return ", ".join(sorted(shared - swept.accepted))


def _without_failure(counted: Outcome, law: Law, subject: Subject, swept: Sweep) -> Outcome:
    if swept.declined == swept.examples:
        return replace(counted, reason=f"declined: {counted.declined_with}")
    if not swept.compared:
        if swept.watched:
            return replace(counted, reason=f"{law.guarantee} {NOT_PROMISED}")
        lacking = [name for name, other in subject.siblings.items() if other is None]
        needs = f"needs {', '.join(lacking)}, which the target has not" if lacking else ""
        return replace(counted, reason=needs or "applies to none of the calls drawn")
    if swept.judged < JUDGED_SHARE * swept.elements:
        share = swept.judged / swept.elements
        reason = f"only {share:.0%} of the elements could be judged: the allowance says too little"
        return replace(counted, reason=reason)
    preset = tightest(law, subject, swept.passes) if is_exact(law) else ""
    return replace(counted, status="pass", preset=preset)


def _failed(
    counted: Outcome, law: Law, subject: Subject, swept: Sweep, *, simple: Inputs, effort: Effort
) -> Outcome:
    first, seen = swept.failures[0]
    repeatable = judged(law, subject, first).kind == seen.kind
    with subject.diary.kept() as made:
        judgement = judged(law, subject, simple)
    written = _written(law, subject)
    if judgement.kind != seen.kind:
        repeatable, simple, judgement, written, made = False, first, seen, "", []
    calls = shown(simple, made, breach=judgement.breach is not None)
    printed = (simple, judgement)
    explained = _explained(law, subject, swept, printed) if repeatable else ()
    command = repeat_command(
        subject.loaded.given,
        law.id,
        subject.dtype,
        device=subject.device,
        seed=effort.seed,
        examples=effort.examples,
        tier=effort.tier,
    )
    reason, arrays = written or summary(judgement), subject.loaded.declaration.arrays
    text = failure_text(
        law,
        simple,
        judgement,
        explained,
        command,
        arrays=arrays,
        repeatable=repeatable,
        calls=calls,
        written=written,
        common=in_common([inputs for inputs, _ in swept.failures], swept.passes),
    )
    return replace(
        counted,
        status="fail",
        reason=reason if repeatable else f"not repeatable; {reason}",
        text=text,
        diagnosis=tuple(e.id for e in explained),
        case=calls.code(arrays),
        call=_packed(simple),
        elements=elements_of(judgement),
    )


def _packed(inputs: Inputs) -> bytes:
    try:
        return packed(inputs)
    except TypeError:
        # an option that no file can hold
        return b""


def _written(law: Law, subject: Subject) -> str:
    """What the law's latest call did to its inputs, if the law is about them."""
    return subject.written() if law.id.endswith(ABOUT_MEMORY) else ""


def _explained(
    law: Law, subject: Subject, swept: Sweep, shown_call: tuple[Inputs, Judgement]
) -> Sequence[Explanation]:
    judgement = shown_call[1]
    if judgement.kind == "raises":
        # an exception says itself what is wrong
        return ()
    alike = [(inputs, j) for inputs, j in swept.failures if j.kind == judgement.kind]
    passes = swept.passes[:KEPT_FAILING]
    evidence = Evidence(
        law, subject, alike, passes,
        oracle=_oracle_of(law), forward=_forward_of(law), others=_others_of(law, subject),
        shown=shown_call,
    )  # fmt: skip
    try:
        return explanations(evidence)
    except Exception as error:
        # a mistake of the suite beside its laws: it is told, and costs no run
        place = place_of(error)
        raise LawError(f"its diagnosis: {type(error).__name__}: {error} ({place})") from error


def _others_of(law: Law, subject: Subject) -> list[Law]:
    """The other laws that the calls of `law` can be given to."""
    from attnspec.oracle import LAWS

    alike = (o for o in LAWS if o.component == law.component and o.inputs == law.inputs)
    return [o for o in alike if o.id != law.id and not out_of_reach(o, subject)]


def _oracle_of(law: Law) -> Law | None:
    """The comparison of the component's results with the exact value, or for laws about gradients
    that of its gradients, if `law` is another."""
    if is_exact(law):
        return None
    from attnspec.oracle import LAWS

    exact = [other for other in LAWS if other.component == law.component and is_exact(other)]
    alike = [other for other in exact if other.gradients == law.gradients]
    return next(iter(alike or exact), None)


def _forward_of(law: Law) -> Law | None:
    """The comparison of the output of the component that `law` is about."""
    from attnspec.oracle import LAWS

    return next((o for o in LAWS if o.id == f"{law.component}.matches_oracle"), None)
