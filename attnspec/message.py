"""The text of a failure, written for the author of an implementation."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from attnspec.diagnosis import Explanation
from attnspec.judging import Judgement
from attnspec.made import Made, Shown
from attnspec.oracle.comparison import Comparison, Verdict, errors
from attnspec.oracle.law import Inputs, Law

NAMED = 3
"""Explanations that a message spells out, ..."""
LISTED = 3
"""... and those that it names besides. Where there are more, none of them is likely."""
NOT_REPEATABLE = (
    "not repeatable: the same call gave different results when it was made again, so what is "
    "printed here is one of several results"
)


def failure_text(
    law: Law,
    inputs: Inputs,
    judgement: Judgement,
    explained: Sequence[Explanation],
    command: str,
    *,
    arrays: str = "torch",
    repeatable: bool = True,
    calls: Shown | None = None,
    written: str = "",
    common: str = "",
) -> str:
    """The whole message: law, call, worst element, likely mistake, meaning, command.

    `arrays` is what the target takes: calls are written for it. `calls` are those that the law
    made, if not the drawn one alone; `written` tells in words what became of the inputs, `common`
    what the failing calls share.
    """
    parts = [f"{law.id}: {law.says}", *_calls(calls or Shown((Made(inputs),)), arrays)]
    parts.append(f"Changed: {written}" if written else _what_happened(judgement))
    if not repeatable:
        parts.append(f"Attention: {NOT_REPEATABLE}.")
    if judgement.breach is None or explained:
        # a breach says itself what is wrong
        parts.append(_likely(explained))
    if remedy := _remedy(law, judgement):
        parts.append(f"To do: {remedy}")
    if common and not explained:
        parts.append(f"Failing calls have in common: {common}.")
    parts.append(f"What it means: {law.means}")
    parts.append(f"Again: {command}")
    return "\n".join(parts)


def _calls(calls: Shown, arrays: str) -> Iterator[str]:
    for number, call in enumerate(calls.calls):
        inputs = call.inputs
        head = "Further call" if number else "Call"
        yield (
            f"{head} ({inputs.dtype}, memory layout {inputs.layout}):\n"
            + _indented(call.code(arrays))
        )
    if calls.times > 1:
        which = "first call" if len(calls.calls) > 1 else "call"
        yield f"The {which} is made {calls.times} times."
    if calls.left_out:
        more = "call" if calls.left_out == 1 else "calls"
        yield f"The law makes {calls.left_out} further {more} of this kind."


def summary(judgement: Judgement) -> str:
    """The failure in one line."""
    if judgement.breach is not None:
        return str(judgement.breach)
    worst = judgement.worst
    if worst is None:
        return "nothing was compared"
    comparison, found = worst
    if _is_exact(comparison, found):
        return f"{_place(comparison, found)} differs where the same bits are due"
    return f"{_place(comparison, found)} is off by {found.ratio:.3g} times the allowance"


def repeat_command(
    given: str, law: str, dtype: str, *, device: str, seed: int, examples: int, tier: str
) -> str:
    """The command that finds the same failure again; for an object, the call from Python."""
    if not given:
        chosen = {"device": device, "tier": tier, "examples": examples}
        usual = {"device": "cpu", "tier": "full", "examples": 0}
        more = "".join(f", {name}={v!r}" for name, v in chosen.items() if v != usual[name])
        return f"attnspec.check({law!r}, target, dtype={dtype!r}{more}, seed={seed})"
    words = ["attnspec", "verify", given, "--law", law, "--dtype", dtype]
    if device != "cpu":
        words += ["--device", device]
    words += ["--tier", tier] if tier != "full" else []
    words += ["--examples", str(examples)] if examples else []
    return shlex.join([*words, "--seed", str(seed)])


def _what_happened(judgement: Judgement) -> str:
    if judgement.breach is not None:
        return f"It {judgement.breach}"
    worst = judgement.worst
    if worst is None:
        return "Nothing was compared."
    comparison, found = worst
    error = float(errors(comparison)[found.index])
    lines = [
        f"Worst element: {_place(comparison, found)}",
        f"  actual    {_number(comparison.actual[found.index])}",
        f"  expected  {_number(comparison.expected[found.index])}",
    ]
    if comparison.allowance is None or _is_exact(comparison, found):
        lines.append("  allowed   the same bits")
    else:
        allowance = float(comparison.allowance[found.index])
        lines.append(f"  error     {error:.3g}")
        lines.append(f"  allowed   {allowance:.3g}")
        lines.append(f"  ratio     {found.ratio:.3g}")
    return "\n".join(lines)


def _is_exact(comparison: Comparison, found: Verdict) -> bool:
    """Whether nothing is rounded on the way to the element."""
    return comparison.allowance is None or not comparison.allowance[found.index]


def _place(comparison: Comparison, found: Verdict) -> str:
    index = ", ".join(map(str, found.index))
    return f"{comparison.what}[{index}]"


def _likely(explained: Sequence[Explanation]) -> str:
    if not explained:
        return "Likely mistake: nothing known gives these results."
    if len(explained) > NAMED + LISTED:
        few = ", ".join(e.id for e in explained[: NAMED + LISTED])
        return (
            f"Likely mistake: {len(explained)} known ones give these results, which tell too "
            f"little: {few} and {len(explained) - NAMED - LISTED} more."
        )
    lines = [f"{e.verb.capitalize()} {e.id}: {e.says}" for e in explained[:NAMED]]
    if len(explained) > NAMED:
        lines.append("Also possible: " + ", ".join(e.id for e in explained[NAMED:]))
    return "\n".join(lines)


def _remedy(law: Law, judgement: Judgement) -> str:
    """What an author can do about a breach, where that is known."""
    if judgement.breach is None:
        return ""
    if judgement.breach.kind == "raises":
        return (
            f"if {law.component} is not made for such calls, declare its "
            f'limits={{"{law.component}": {{"AXIS": SIZES}}}} in TARGET, or raise '
            "NotImplementedError, which is not tested; else answer them"
        )
    return judgement.breach.remedy


def _number(value: object) -> str:
    return f"{float(value):.9g}"  # type: ignore[arg-type]


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
