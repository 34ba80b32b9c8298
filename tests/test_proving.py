"""`attnspec prove`: what it runs, and how a broken derivation is told."""

from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sympy as sp
from click.testing import CliRunner, Result

from attnspec import register
from attnspec.cli import main
from attnspec.proving import proof_of, proved
from attnspec.register import claim_of
from attnspec.spec import CLAIMS
from attnspec.spec.claim import Claim, Counterexample, Step


def attnspec(*words: str) -> Result:
    result = CliRunner().invoke(main, words)
    assert "Traceback" not in result.output
    return result


def test_proving_in_processes() -> None:
    result = attnspec("prove", "A04", "rope.group_law", "C042", "-n", "2")
    assert result.exit_code == 0
    assert result.output.startswith("3 derivations, ")
    assert ": all close; the slowest, " in result.output


DEADLINE = 120.0
"""Seconds until processes that neither begin nor end are a failure."""
STUCK = """
import time
from attnspec.processes import results

def ready():
    pass

def stuck(seconds):
    print("began", flush=True)
    time.sleep(seconds)

if __name__ == "__main__":
    with results(stuck, [(300,), (300,)], 2, ready) as futures:
        print([future.result() for future in futures])
"""


def test_no_process_outlives_the_one_that_started_it(tmp_path: Path) -> None:
    script = tmp_path / "stuck.py"
    script.write_text(STUCK)
    with subprocess.Popen((sys.executable, script), stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        # if they do not begin, what is read ends, and so does the wait for them
        deadline = threading.Timer(DEADLINE, parent.kill)
        deadline.start()
        # both are at work
        assert [parent.stdout.readline() for _ in range(2)] == [b"began\n"] * 2
        deadline.cancel()
        parent.kill()
        # they hold the other end, which is closed when the last one ends
        rest, _ = parent.communicate(timeout=DEADLINE)
        assert rest == b""


def test_a_repeated_statement_is_proved_once() -> None:
    entry = next(claim for claim in CLAIMS if claim.same_as)
    (proof,) = proved([entry, claim_of(entry.same_as)], workers=1)
    assert proof.claim == entry.same_as


def open_step(claim: Claim) -> Claim:
    def derivation() -> tuple[Step, ...]:
        return (*claim.derivation(), Step("one more", sp.Symbol("left_over")))  # type: ignore[misc]

    return replace(claim, derivation=derivation)


def no_steps(claim: Claim) -> Claim:
    return replace(claim, derivation=lambda: ())


def raising(claim: Claim) -> Claim:
    def derivation() -> tuple[Step, ...]:
        raise ZeroDivisionError("nothing there")

    return replace(claim, derivation=derivation)


def agreeing(claim: Claim) -> Claim:
    one = sp.Integer(1)
    return replace(claim, counterexample=lambda: Counterexample("any", one, one))


BREAKS = [
    (open_step, "open step: one more: left_over"),
    (no_steps, "the derivation has no steps"),
    (raising, "ZeroDivisionError: nothing there"),
    (agreeing, "the counterexample does not contradict: 1 against 1"),
]
ONE_OF_EACH_FORM = [
    next(c for c in CLAIMS if c.form == form and c.derivation)
    for form in ("symbolic", "block", "fixed", "exact")
]


@pytest.mark.parametrize("claim", ONE_OF_EACH_FORM, ids=lambda claim: claim.form)
@pytest.mark.parametrize(
    ("broken", "says"), BREAKS, ids=lambda value: getattr(value, "__name__", "")
)
def test_a_broken_derivation_is_named(
    claim: Claim, broken: Any, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = tuple(broken(entry) if entry is claim else entry for entry in CLAIMS)
    monkeypatch.setattr(register, "CLAIMS", wrong)
    assert proof_of(claim_of("rope.group_law")).holds or claim.id == "rope.group_law"
    result = attnspec("prove", claim.id, "softmax.definition", "-n", "1")
    assert result.exit_code == 1
    assert f"{claim.id} is not proved:" in result.output
    assert says in result.output
    shown = attnspec("show", claim.id) if broken is open_step else None
    assert shown is None or "OPEN, left_over is left" in shown.output
