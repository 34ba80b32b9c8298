"""What a run prints: a matrix of components and dtypes, the failures, and all that was not
tested. On a terminal with colour, elsewhere as plain text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from rich.box import ASCII2, SIMPLE, Box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from attnspec.diagnosis import Explanation
from attnspec.oracle.precision import PRESETS
from attnspec.outcome import NOT_PROMISED, Outcome, Run

LISTED = 12
"""Lines of one list before the rest is only counted."""
NAMES, LAWS = 4, 8
"""Names in one line, of options and of laws, before the rest is only counted."""
STYLES = {"pass": "green", "fail": "bold red", "known": "yellow", "not-tested": "dim"}
VERDICTS = {"conforms": "green", "fails": "bold red", "not-judged": "yellow"}


def print_run(console: Console, run: Run) -> None:
    """Everything about one target."""
    print_failures(console, run)
    print_line(console, f"{run.target}: laws, worst error over allowance, tightest preset met")
    console.print(_matrix(console, run))
    _guarantees(console, run.outcomes)
    _untested(console, run)
    settings = ", ".join(f"{name} {value}" for name, value in run.settings.items())
    print_line(console, f"Ran under: {settings}")
    if run.interrupted:
        print_line(console, f"Ended by {run.ended_by}: this is what was known by then.", "yellow")
    print_problems(console, run.problems)
    print_line(console, verdict_text(run), VERDICTS[run.verdict])


def print_problems(console: Console, problems: Sequence[str]) -> None:
    """What is wrong with the file of known failures."""
    for problem in problems:
        print_line(console, f"Known failures: {problem}", STYLES["fail"])


def print_comparison(
    console: Console,
    runs: Sequence[Run],
    skipped: Mapping[str, str],
    known: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """One table of targets and components, a row for each pair: laws that hold, worst ratio,
    tightest preset, and the target's verdict. `known` gives the reasons of targets that must
    fail."""
    table = Table(box=_box(console))
    for head in ("target", "verdict", "component", "laws, worst, preset"):
        table.add_column(head, overflow="fold")
    for run in runs:
        verdict = run.verdict + (" (known)" if run.target in known else "")
        first = (escape(run.target), _styled(verdict, VERDICTS[run.verdict]))
        for component in dict.fromkeys(o.component for o in run.outcomes):
            cell = _cell([o for o in run.outcomes if o.component == component])
            table.add_row(*first, component, cell)
            first = ("", "")
    console.print(table)
    for run in runs:
        if run.target in known:
            still = "" if run.verdict == "fails" else ", but it does not fail"
            print_line(console, f"{run.target} is known to fail{still}: {known[run.target]}")
    for name, reason in skipped.items():
        print_line(console, f"{name} was not run: {reason}")


def print_line(console: Console, text: str, style: str | None = None) -> None:
    """Text as it is: nothing in it is taken for markup, and lines are not broken."""
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True, emoji=False)


def print_failures(console: Console, run: Run) -> None:
    """Of each component the most telling failure whole, the others in a line each."""
    failed: dict[str, list[Outcome]] = {}
    for outcome in run.outcomes:
        if outcome.status == "fail":
            failed.setdefault(outcome.component, []).append(outcome)
    for group in failed.values():
        first = most_telling(group)
        print_line(
            console, f"{run.target} FAILS in {first.dtype} on {first.device}", STYLES["fail"]
        )
        print_line(console, first.text or first.reason)
        others = list(_by_law(o for o in group if o is not first))
        if others:
            print_line(console, "Fails too:")
        for line in others[:LISTED]:
            print_line(console, f"  {line}")
        if len(others) > LISTED:
            print_line(console, f"  and {len(others) - LISTED} more reasons")
        console.print()


def most_telling(failed: Sequence[Outcome]) -> Outcome:
    """The first failure that is explained, or at least shows a call: laws stand in the order in
    which they tell most."""
    shown = [o for o in failed if o.diagnosis] or [o for o in failed if o.case]
    return (shown or failed)[0]


def _by_law(outcomes: Iterable[Outcome]) -> Iterator[str]:
    """`laws (dtypes): what it looks like, or else what happened`; equal reasons once."""
    laws: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        laws.setdefault(outcome.law, []).append(outcome)
    told: dict[tuple[str, str], list[str]] = {}
    for law, group in laws.items():
        first = group[0]
        text = _explained(first) if first.diagnosis else first.reason
        dtypes = ", ".join(dict.fromkeys(o.dtype for o in group))
        told.setdefault((dtypes, text), []).append(law)
    for (dtypes, text), names in told.items():
        yield f"{_few(names, LAWS)} ({dtypes}): {text}"


def _explained(outcome: Outcome) -> str:
    """`looks like ID`, or `could be ID` where only the size of the errors says so."""
    best = outcome.diagnosis[0]
    return f"{Explanation(best, 0.0, '').verb} {best}"


def _matrix(console: Console, run: Run) -> Table:
    columns = list(dict.fromkeys((o.dtype, o.device) for o in run.outcomes))
    devices = {device for _, device in columns}
    table = Table(box=_box(console))
    table.add_column("component")
    for dtype, device in columns:
        table.add_column(dtype if len(devices) == 1 else f"{dtype} {device}")
    for component in dict.fromkeys(o.component for o in run.outcomes):
        row = [
            [o for o in run.outcomes if o.key == (component, dtype, device)]
            for dtype, device in columns
        ]
        table.add_row(component, *(_cell(outcomes) for outcomes in row))
    return table


def _cell(outcomes: Sequence[Outcome]) -> str:
    """`pass 12/14, 0.52, flash`: laws that pass of those that apply, worst ratio, preset."""
    passed = sum(o.status == "pass" for o in outcomes)
    failed = sum(o.status == "fail" for o in outcomes)
    known = sum(o.status == "known" for o in outcomes)
    if not passed and not failed and not known:
        return _styled("not tested" if outcomes else "", STYLES["not-tested"])
    ratios = [o.ratio for o in outcomes if o.ratio is not None and o.status in ("pass", "fail")]
    worst = f" {max(ratios):.2g}" if ratios else ""
    told = f", {known} known" if known else ""
    if failed:
        return _styled(f"FAIL {failed}/{passed + failed}{worst}{told}", STYLES["fail"])
    met = [o.preset for o in outcomes if o.preset]
    loosest = f" {min(met, key=list(PRESETS).index)}" if met else ""
    style = STYLES["known" if known else "pass"]
    return _styled(f"pass {passed}{worst}{loosest}{told}", style)


def _guarantees(console: Console, outcomes: Sequence[Outcome]) -> None:
    shares: dict[tuple[str, str], list[int]] = {}
    for outcome in outcomes:
        if outcome.guarantee and outcome.watched:
            share = shares.setdefault((outcome.guarantee, outcome.component), [0, 0])
            share[0] += outcome.held
            share[1] += outcome.watched
    for (guarantee, component), (held, watched) in shares.items():
        print_line(
            console, f"{guarantee} isn't promised; for {component} it held in {held}/{watched}"
        )


def untested_by_reason(run: Run) -> dict[str, list[str]]:
    """What was not tested, by the reason."""
    lines: dict[str, list[str]] = {}
    for entry in run.untested:
        name = f"{entry.component}({entry.option})" if entry.option else entry.component
        lines.setdefault(entry.reason, []).append(name)
    for outcome in run.outcomes:
        # shares of guarantees are listed on their own
        if outcome.status == "not-tested" and not outcome.reason.endswith(NOT_PROMISED):
            lines.setdefault(outcome.reason, []).append(f"{outcome.law} {outcome.dtype}")
    return lines


def _untested(console: Console, run: Run) -> None:
    lines = untested_by_reason(run)
    if not lines:
        return
    print_line(console, "Not tested:")
    for reason, names in list(lines.items())[:LISTED]:
        print_line(console, f"  {_few(names, NAMES)}: {reason}")
    if len(lines) > LISTED:
        print_line(console, f"  and {len(lines) - LISTED} more reasons (--json has all)")


def _few(names: Sequence[str], most: int) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def verdict_text(run: Run) -> str:
    """The verdict in a line."""
    failed = len({o.law for o in run.outcomes if o.status == "fail"})
    passed = len({o.law for o in run.outcomes if o.status == "pass"})
    errors = [o.error for o in run.outcomes if o.error]
    examples = sum(o.examples for o in run.outcomes)
    fail = "1 law fails" if failed == 1 else f"{failed} laws fail"
    hold = "1 law holds" if passed == 1 else f"{passed} laws hold"
    known = len({o.law for o in run.outcomes if o.status == "known"})
    told = f"{examples} examples, seed {run.seed}, tier {run.tier}"
    told = f"{known} known to fail, {told}" if known else told
    if errors:
        return f"{run.target} could not be judged, by a mistake of the suite: {errors[0]}"
    if run.interrupted and run.verdict != "fails":
        return f"{run.target} could not be judged: {run.ended_by} ended the run ({told})"
    if run.verdict == "fails":
        why = fail if failed or not run.problems else "its known failures are not what fails"
        return f"{run.target} does not conform: {why} ({told})"
    if run.verdict == "conforms":
        return f"{run.target} conforms: {hold} ({told})"
    return f"{run.target} could not be judged: nothing was tested ({told})"


def _styled(text: str, style: str) -> str:
    return f"[{style}]{escape(text)}[/]" if text else ""


def _box(console: Console) -> Box:
    return SIMPLE if console.is_terminal else ASCII2
