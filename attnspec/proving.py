"""Running derivations again: which steps close, and which do not."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import sympy as sp

from attnspec.processes import results
from attnspec.register import claim_of, original
from attnspec.spec.claim import Claim, Step, is_closed

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Proof:
    """What came out of one derivation."""

    claim: str
    steps: int
    seconds: float
    problems: tuple[str, ...]
    """Steps that stay open, a counterexample that is none, or what was raised."""

    @property
    def holds(self) -> bool:
        """Whether the derivation supports the claim's verdict."""
        return not self.problems


def proved(
    claims: Sequence[Claim], workers: int | None = None, progress: Progress | None = None
) -> tuple[Proof, ...]:
    """The proofs of these claims; a statement that repeats another rests on the other's, which is
    run once. `workers` is how many processes work, by default one a core."""
    ids = list(dict.fromkeys(original(claim).id for claim in claims if is_derived(claim)))
    found = []
    for proof in _mapped(ids, workers or cores()):
        found.append(proof)
        if progress is not None:
            progress(proof.claim, len(found), len(ids))
    return tuple(found)


def is_derived(claim: Claim) -> bool:
    """Whether there is anything to run: of a fact about models there is not."""
    of = original(claim)
    return of.derivation is not None or of.counterexample is not None


def proof_of(identity: str) -> Proof:
    """One claim's derivation and counterexample, run now."""
    claim = claim_of(identity)
    began = time.perf_counter()
    try:
        steps = claim.derivation() if claim.derivation else ()
        problems = [
            f"open step: {step.says}: {shortened(step)}" for step in steps if not is_closed(step)
        ]
        problems += _contradicted(claim)
        if claim.derivation and not steps:
            problems.append("the derivation has no steps")
    except Exception as error:  # noqa: BLE001  # whatever is raised is the outcome
        return Proof(
            identity, 0, time.perf_counter() - began, (f"{type(error).__name__}: {error}",)
        )
    return Proof(identity, len(steps), time.perf_counter() - began, tuple(problems))


def shortened(step: Step) -> str:
    """What is left of a step, no longer than a line."""
    text = str(step.residual)
    return text if len(text) <= 80 else f"{text[:77]}..."


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _contradicted(claim: Claim) -> list[str]:
    if claim.counterexample is None:
        return []
    shown = claim.counterexample()
    gap = sp.sympify(shown.stated) - sp.sympify(shown.actual)
    if gap.equals(0) is False:
        return []
    return [f"the counterexample does not contradict: {shown.stated} against {shown.actual}"]


def _mapped(ids: list[str], workers: int) -> Iterator[Proof]:
    if workers <= 1 or len(ids) <= 1:
        yield from map(proof_of, ids)
        return
    calls = [(identity,) for identity in ids]
    with results(proof_of, calls, min(workers, len(ids)), cores) as futures:
        for future in futures:
            yield future.result()
