"""Running derivations again: which steps close, and which do not."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import sympy as sp

from attnspec.processes import results
from attnspec.register import claim_of, original
from attnspec.spec.claim import Claim, Counterexample, Step, is_closed

Progress = Callable[[str, int, int], None]
OPEN = "open step: "


@dataclass(frozen=True)
class Proof:
    """What came out of one derivation."""

    claim: str
    steps: tuple[tuple[str, str], ...] = ()
    """What each step says, and what is left: 0, a matrix of zeros, or true, where it closes."""
    counterexample: Counterexample | None = None
    problems: tuple[str, ...] = ()
    """Steps that stay open, a counterexample that is none, or what was raised."""
    seconds: float = field(default=0.0, compare=False)

    @property
    def holds(self) -> bool:
        """Whether the derivation supports the claim's verdict."""
        return not self.problems


def proved(
    claims: Sequence[Claim], workers: int | None = None, progress: Progress | None = None
) -> tuple[Proof, ...]:
    """The proofs of these claims; a statement that repeats another rests on the other's, which is
    run once. `workers` is how many processes work, by default one a core."""
    originals = list(dict.fromkeys(original(claim) for claim in claims if is_derived(claim)))
    return each(proof_of, originals, workers, progress)


def each(
    work: Callable[[Claim], Proof],
    claims: Sequence[Claim],
    workers: int | None = None,
    progress: Progress | None = None,
) -> tuple[Proof, ...]:
    """What `work` finds of each claim, in their order; `workers` as for `proved`."""
    found: list[Proof] = []
    for claim, proof in zip(claims, _mapped(work, claims, workers or cores()), strict=True):
        found.append(proof)
        if progress is not None:
            progress(claim.id, len(found), len(claims))
    return tuple(found)


def _mapped(
    work: Callable[[Claim], Proof], claims: Sequence[Claim], workers: int
) -> Iterator[Proof]:
    if workers <= 1 or len(claims) <= 1:
        yield from map(work, claims)
        return
    calls = [(work, claim.id) for claim in claims]
    with results(_by_id, calls, min(workers, len(claims)), cores) as futures:
        for future in futures:
            yield future.result()


def _by_id(work: Callable[[Claim], Proof], identity: str) -> Proof:
    """In another process, to which no derivation can be sent."""
    return work(claim_of(identity))


def is_derived(claim: Claim) -> bool:
    """Whether there is anything to run: of a fact about models there is not."""
    of = original(claim)
    return of.derivation is not None or of.counterexample is not None


def proof_of(claim: Claim) -> Proof:
    """One claim's derivation and counterexample, run now."""
    began = time.perf_counter()
    try:
        proof = _run(claim)
    except Exception as error:  # noqa: BLE001  # whatever is raised is the outcome
        proof = Proof(claim.id, problems=(f"{type(error).__name__}: {error}",))
    return replace(proof, seconds=time.perf_counter() - began)


def _run(claim: Claim) -> Proof:
    steps = claim.derivation() if claim.derivation else ()
    problems = [f"{OPEN}{step.says}: {shortened(step)}" for step in steps if not is_closed(step)]
    shown = claim.counterexample() if claim.counterexample else None
    problems += _contradicted(shown)
    if claim.derivation and not steps:
        problems.append("the derivation has no steps")
    return Proof(
        claim.id, tuple((step.says, _left(step)) for step in steps), shown, tuple(problems)
    )


def _left(step: Step) -> str:
    """A step's residual, briefly."""
    if not is_closed(step):
        return shortened(step)
    if step.residual is True or step.residual == sp.true:
        return "true"
    shape = getattr(step.residual, "shape", None)
    return "0" if shape is None else f"0 ({shape[0]} by {shape[1]})"


def shortened(step: Step) -> str:
    """What is left of a step, no longer than a line."""
    text = str(step.residual)
    return text if len(text) <= 80 else f"{text[:77]}..."


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _contradicted(shown: Counterexample | None) -> list[str]:
    if shown is None:
        return []
    gap = sp.sympify(shown.stated) - sp.sympify(shown.actual)
    if gap.equals(0) is False:
        return []
    return [f"the counterexample does not contradict: {shown.stated} against {shown.actual}"]
