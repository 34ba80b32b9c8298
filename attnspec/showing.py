"""What `attnspec claims`, `attnspec show` and `attnspec prove` print."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.box import ASCII2, SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from attnspec.files import check_writable, json_text, written
from attnspec.progress import bar
from attnspec.proving import Proof, is_derived, proved, shortened
from attnspec.register import Choice, chosen, claim_of, claims_json, counts, original, tied
from attnspec.report import print_line
from attnspec.spec import CLAIMS
from attnspec.spec.claim import Claim, is_closed
from attnspec.usage import UsageError

STYLES = {
    "holds": "green",
    "holds-if": "cyan",
    "corrected": "bold yellow",
    "refuted": "bold red",
    "empirical": "dim",
}
FORMS = {
    "symbolic": "for every size",
    "block": "for a generic block, with an argument for the rest",
    "fixed": "at a fixed size, for all entries",
    "exact": "on instances, in exact arithmetic",
    "numeric": "on instances, within rigorous bounds",
    "none": "not at all: it is no matter of mathematics",
}
"""What each proof form says of a derivation."""
INDENT = "    "
TABLE_WIDTH = 72
"""Columns that the table of claims needs."""
STANDARD_OUTPUT = Path("-")


def claims_shown(console: Console, choice: Choice, json_file: Path | None) -> None:
    """The claims of a choice as a table, or as JSON, printed where the file is `-`. Raises
    UsageError."""
    if json_file is None:
        print_claims(console, chosen(choice))
        return
    if json_file == STANDARD_OUTPUT:
        print_line(console, json_text(claims_json(chosen(choice))).rstrip())
        return
    check_writable(json_file)
    written(json_file, json_text(claims_json(chosen(choice))))


def proved_exit(console: Console, names: Sequence[str], workers: int | None) -> int:
    """Prove, print; the exit status. Raises UsageError for an unknown claim, and where there is
    nothing to derive."""
    claims = list(dict.fromkeys(map(claim_of, names))) if names else CLAIMS
    derived = [claim for claim in claims if is_derived(claim)]
    without = [claim.id for claim in claims if not is_derived(claim)] if names else []
    verb = "is" if len(without) == 1 else "are"
    nothing = f"nothing to derive: {', '.join(without)} {verb} no matter of mathematics"
    if not derived:
        raise UsageError(nothing)
    if without:
        print_line(console, nothing)
    with bar("prove") as told:
        proofs = proved(derived, workers, told)
    print_proofs(console, proofs)
    return 0 if all(proof.holds for proof in proofs) else 1


def print_claims(console: Console, claims: Sequence[Claim]) -> None:
    """One row a claim, or two lines where a table is too wide, and how many have each verdict."""
    if console.width < TABLE_WIDTH:
        for claim in claims:
            print_line(console, " ".join(filter(None, (claim.number, claim.id))), "bold")
            print_line(console, f"{claim.verdict}, {claim.form}", STYLES[claim.verdict])
            console.print(Padding(Text(claim.statement), (0, 0, 0, len(INDENT))))
    else:
        console.print(_table(console, claims))
    stated = [claim for claim in claims if claim.number]
    lemmas = len(claims) - len(stated)
    listed = ", ".join(f"{count} {verdict}" for verdict, count in counts(stated).items())
    texts = [f"{_some(len(stated), 'statement')} of the documents: {listed}"] if stated else []
    texts += [_some(lemmas, "lemma of our own", "lemmas of our own")] if lemmas else []
    print_line(console, "; ".join(texts))


def _table(console: Console, claims: Sequence[Claim]) -> Table:
    table = Table(box=SIMPLE if console.is_terminal else ASCII2)
    for column in ("no.", "id", "verdict", "proof", "statement"):
        table.add_column(column, overflow="fold")
    for claim in claims:
        style = STYLES[claim.verdict]
        table.add_row(
            claim.number,
            escape(claim.id),
            f"[{style}]{claim.verdict}[/{style}]",
            claim.form,
            escape(claim.statement),
        )
    return table


def print_claim(console: Console, claim: Claim) -> None:
    """One claim whole, its derivation run now."""
    of, tie = original(claim), tied(claim)
    number = f"  ({claim.number})" if claim.number else ""
    print_line(console, f"{claim.id}{number}", "bold")
    print_line(console, claim.verdict, STYLES[claim.verdict])
    print_line(console, f"Statement: {claim.statement}")
    print_line(console, f"Formula: {claim.latex}")
    print_line(
        console,
        f"Source: document {claim.source.document}, {claim.source.section}: {claim.source.says}",
    )
    _list(console, "Conditions", [f"{c.label}: {c.text}" for c in claim.conditions])
    if claim.truth:
        print_line(console, f"What is true: {claim.truth}")
    if of.counterexample is not None:
        shown = of.counterexample()
        print_line(console, "Counterexample:")
        print_line(console, f"{INDENT}{shown.inputs}")
        print_line(console, f"{INDENT}stated {shown.stated}, in fact {shown.actual}")
    if claim.same_as:
        print_line(console, f"It repeats {claim.same_as}, whose derivation follows.")
    print_line(console, f"Proved: {FORMS[claim.form]}")
    steps = of.derivation() if of.derivation is not None else ()
    for place, step in enumerate(steps, 1):
        closed = is_closed(step)
        left = "" if closed else f": OPEN, {shortened(step)} is left"
        print_line(console, f"{INDENT}{place}. {step.says}{left}", None if closed else "bold red")
    _list(console, "Laws", [f"{law.id}: {law.says}" for law in tie.laws])
    _list(
        console,
        "Faults that they reject",
        [f"{f.id}: {f.reason}" + (f" ({f.report})" if f.report else "") for f in tie.faults],
    )


def print_proofs(console: Console, proofs: Sequence[Proof]) -> None:
    """What failed, whole, and how many derivations were run."""
    for proof in proofs:
        if not proof.holds:
            print_line(console, f"{proof.claim} is not proved:", "bold red")
            for problem in proof.problems:
                print_line(console, f"{INDENT}{problem}")
    failed = sum(not proof.holds for proof in proofs)
    steps = sum(len(proof.steps) for proof in proofs)
    slowest = max(proofs, key=lambda proof: proof.seconds)
    which = "the slowest, " + slowest.claim + "," if len(proofs) > 1 else slowest.claim
    print_line(
        console,
        f"{_some(len(proofs), 'derivation')}, {_some(steps, 'step')}: "
        + (f"{failed} failed" if failed else "all close")
        + f"; {which} took {slowest.seconds:.1f} s",
        "bold red" if failed else "green",
    )


def _list(console: Console, title: str, lines: Sequence[str]) -> None:
    if lines:
        print_line(console, f"{title}:")
    for line in lines:
        print_line(console, f"{INDENT}{line}")


def _some(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"
