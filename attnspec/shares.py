"""What the outcomes of one component say together: dtypes that a target does not have, calls that
it declines, options and components that were not tested."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from attnspec.gradients import has_gradients, without_gradients
from attnspec.loading import Loaded, kind_of
from attnspec.oracle.components import COMPONENTS, CONTRACT
from attnspec.oracle.law import Law
from attnspec.outcome import Outcome, Untested
from attnspec.refusals import Refusals, brief, declining_text, without_numbers
from attnspec.signature import signature

DECLINED_SHARE = 0.5
"""A target that declines more of the legal calls of a component does not conform."""


def settled(
    loaded: Loaded, outcomes: Sequence[Outcome], laws: Sequence[Law], *, narrowed: bool
) -> tuple[Outcome, ...]:
    """The outcomes in the order of the laws, with what only all of a component's tell.

    `narrowed` says that the run was asked for some dtypes or devices only.
    """
    groups: dict[tuple[str, str, str], list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.key, []).append(outcome)
    works = {key[0] for key, group in groups.items() if any(o.answered for o in group)}
    final = [
        o
        for key, group in groups.items()
        for o in _settled(loaded, group, excusable=narrowed or key[0] in works)
    ]
    order = {law.id: number for number, law in enumerate(laws)}
    dtypes = {dtype: number for number, dtype in enumerate(loaded.dtypes)}
    return tuple(
        sorted(final, key=lambda o: (order[o.law], dtypes.get(o.dtype, len(dtypes)), o.device))
    )


def _settled(loaded: Loaded, group: list[Outcome], *, excusable: bool) -> list[Outcome]:
    first = group[0]
    calls = sum(o.calls for o in group)
    # a function that answers in no dtype at all is broken, not without that dtype
    if calls and not any(o.answered for o in group) and excusable and not _named(loaded, first):
        reason = next((o.reason for o in group if o.reason), "")
        verb = "is declined" if reason.startswith("declined") else f"raises: {reason}"
        text = f"every call in {first.dtype} on {first.device} {verb}"
        return [
            replace(o, status="not-tested", reason=text, text="", diagnosis=(), case="")
            for o in group
        ]
    examples, declined = sum(o.examples for o in group), sum(o.declined for o in group)
    if examples and declined > DECLINED_SHARE * examples:
        reason, text = _too_much(first.component, declined, examples, group)
        return [
            replace(o, status="fail", reason=reason, text=text)
            if o.declined and o.status != "fail"
            else o
            for o in group
        ]
    return group


def _too_much(
    component: str, declined: int, examples: int, group: Sequence[Outcome]
) -> tuple[str, str]:
    """What is said of a target that declines most calls, in a line and in full."""
    refusals = Refusals()
    for outcome in group:
        refusals.join(outcome.refusals)
    share = f"declines {declined} of {examples} legal calls"
    messages = refusals.most()
    if not messages:
        return share, share
    message, seen = messages[0]
    reason = f"{share}: {message}{brief(component, seen, refusals.answered)}"
    return reason, declining_text(component, share, refusals)


def _named(loaded: Loaded, outcome: Outcome) -> bool:
    """Whether the target itself names both the dtype and the device; the CPU needs no naming."""
    declaration = loaded.declaration
    device = declaration.devices is not None or outcome.device == "cpu"
    return declaration.dtypes is not None and device


def untested(
    loaded: Loaded,
    outcomes: Sequence[Outcome],
    components: Sequence[str],
    dtypes: Sequence[str] = (),
) -> tuple[Untested, ...]:
    """Components that a target lacks, options that it does not accept, and those it declines; and
    components of which none of the chosen `dtypes` is one."""
    found = []
    functions = loaded.make()
    for name in CONTRACT:
        if components and name not in components:
            continue
        if name in loaded.unjudged:
            found.append(Untested(name, "", "this version has no laws for it"))
        elif name not in functions and name in COMPONENTS:
            found.append(Untested(name, "", "the target has no such function"))
        elif name in functions and dtypes and not {*dtypes} & {*kind_of(name)}:
            kind = ", ".join(kind_of(name))
            found.append(Untested(name, "", f"judged in {kind}, not in {', '.join(dtypes)}"))
        elif name in functions:
            accepted = signature(functions[name], COMPONENTS[name])
            if not accepted.problem:
                found += [
                    Untested(name, option, "the function does not accept it")
                    for option in COMPONENTS[name].options
                    if option not in accepted.accepts
                ]
            differentiable = COMPONENTS[name].differentiable
            if differentiable and not has_gradients(loaded.declaration, name, functions):
                found.append(Untested(name, "gradients", without_gradients(name)))
            found += _declined(name, outcomes)
    return tuple(found)


def _declined(component: str, outcomes: Sequence[Outcome]) -> list[Untested]:
    mine = [o for o in outcomes if o.component == component and o.declined]
    examples = sum(o.examples for o in outcomes if o.component == component)
    counts: dict[tuple[str, str], int] = {}
    messages: dict[tuple[str, str], str] = {}
    for outcome in mine:
        key = (outcome.declined_option, without_numbers(outcome.declined_with))
        counts[key] = counts.get(key, 0) + outcome.declined
        messages.setdefault(key, outcome.declined_with)
    return [
        Untested(component, key[0], f"declined {count} of {examples} calls: {messages[key]}")
        for key, count in counts.items()
    ]
