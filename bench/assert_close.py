"""Which wrong implementations `torch.testing.assert_close` rejects, beside the suite.

Every fault of the catalogue is called with the calls of the law that must reject it, and what it
returns, or its gradients, is compared with the exact values four times: by `assert_close` with its
default tolerances; with tolerances widened by the smallest power of two at which it rejects 1 in
100 right results at most, and at which it is silent on them, for each component, dtype and
direction; and within the derived allowance. The last column is the law itself, which for many
faults is about more than one result: other calls, the memory, the bits. A fault counts as rejected
if one example is, and what rejects right results as well proves nothing by it.

    python -m bench.assert_close --examples 150 --component attention
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from multiprocessing import get_context
from typing import Any

from attnspec import score
from attnspec.catalogue import all_faults
from attnspec.driving import scope_of
from attnspec.judging import judged
from attnspec.loading import load
from attnspec.oracle import law
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.components import COMPONENTS
from attnspec.oracle.inputs import sampled, strategy
from attnspec.oracle.law import Breach, Implementation, Inputs
from attnspec.search import stable_seed
from attnspec.subject import Subject
from bench.closeness import rejected, widening_for, within_allowance, within_tolerance
from bench.figures import Figure, number, printed, table
from bench.processes import cores, one_thread, positive

REFERENCES = {
    "softmax": ("torch", "torch.online"),
    "rope": ("torch", "torch.complex", "torch.matrix"),
    "rope_apply": ("torch",),
    "attention": ("torch", "torch.tiled", "torch.split", "torch.per_query", "torch.sdpa_math"),
}
"""Right implementations, of various roundings, on which the widened tolerances are silent."""
DTYPE = "float32"
"""Where a fault that shows in every dtype is looked for."""
EXAMPLES = 150
"""As many as the tier full draws for a law."""
FEW = 0.01
"""Share of right results that a nearly silent tolerance rejects, at most."""
WAYS = (
    "assert_close", "assert_close, nearly silent", "assert_close, widened", "derived allowance",
    "named law",
)  # fmt: skip
DEFAULTS, NEARLY, WIDENED, ALLOWANCE, NAMED = WAYS


@dataclass(frozen=True)
class Group:
    """Comparisons that share their tolerances."""

    component: str
    dtype: str
    direction: str
    """`forward` or `gradients`."""


@dataclass(frozen=True)
class Widened:
    """The tolerances of one group."""

    group: Group
    nearly: float
    widening: float
    """How many times as wide as the defaults, nearly silent and silent."""
    alarms: int
    """Examples of the references that the default tolerances reject."""
    examples: int


@dataclass(frozen=True)
class Seen:
    """Which ways of judging reject one fault, in any of its dtypes."""

    fault: str
    law: str
    component: str
    direction: str
    ways: tuple[str, ...]


def direction_of(name: str) -> str:
    """What a law is about."""
    return "gradients" if law(name).gradients else "forward"


def compared(implementation: Implementation, inputs: Inputs, direction: str) -> list[Comparison]:
    """What a call returns beside what it should: its results, or its gradients. Raises Breach."""
    component = inputs.component
    if not math.prod(COMPONENTS[component].result(inputs)):
        # no number to compare, but it has to return
        implementation(inputs)
        return []
    if direction == "gradients":
        checks = [law(f"{component}.gradients_match_oracle")]
    else:
        checks = [law(f"{component}.matches_oracle")]
        if inputs.options.get("return_lse"):
            checks.append(law(f"{component}.lse_matches_oracle"))
    return [c for check in checks for c in check.check(implementation, inputs)]


def drawn(subject: Subject, family: str, many: int) -> Iterator[Inputs]:
    """The calls of a family; the same for all that take the same options."""
    return sampled(family, scope_of(subject), many, stable_seed(0, family, subject.dtype))


def callable_with(subject: Subject, family: str) -> bool:
    """Whether a function takes what the family's calls need."""
    try:
        strategy(family, scope_of(subject))
    except ValueError:
        return False
    return True


def dtypes_of(fault: str) -> tuple[str, ...]:
    """The dtypes in which a fault is looked for."""
    return score.dtypes_of(all_faults()[fault])


def groups_of(faults: Iterable[str]) -> dict[Group, tuple[str, ...]]:
    """Every group with the families of its calls."""
    found: dict[Group, dict[str, None]] = {}
    for name in faults:
        fault = all_faults()[name]
        for dtype in dtypes_of(name):
            group = Group(fault.component, dtype, direction_of(fault.law))
            found.setdefault(group, {})[law(fault.law).inputs] = None
    return {group: tuple(families) for group, families in found.items()}


def widened(group: Group, families: Sequence[str], examples: int) -> Widened:
    """The smallest power of two at which `assert_close` is silent on the references, which are
    called with the calls of all laws of the group."""
    right: list[Comparison] = []
    alarms = made = 0
    for name in REFERENCES[group.component]:
        subject = Subject(load(name), group.component, group.dtype)
        for family in filter(partial(callable_with, subject), families):
            for inputs in drawn(subject, family, examples):
                of_one = compared(subject, inputs, group.direction)
                made += 1
                alarms += bool(rejected(within_tolerance(1.0), of_one))
                # what the suite itself rejects is for the bench of false alarms to tell, and no
                # reason to widen anything
                right += filter(within_allowance, of_one)
    return Widened(group, widening_for(right, FEW), widening_for(right), alarms, made)


def seen(name: str, tolerances: Mapping[Group, Widened], examples: int) -> Seen:
    """Which ways of judging reject a fault."""
    fault = all_faults()[name]
    named = law(fault.law)
    direction = direction_of(fault.law)
    ways: set[str] = set()
    for dtype in dtypes_of(name):
        tolerance = tolerances[Group(fault.component, dtype, direction)]
        silent = {
            DEFAULTS: within_tolerance(1.0),
            NEARLY: within_tolerance(tolerance.nearly),
            WIDENED: within_tolerance(tolerance.widening),
            ALLOWANCE: within_allowance,
        }
        subject = Subject(load(f"fault:{name}"), fault.component, dtype)
        for inputs in drawn(subject, named.inputs, examples):
            if not silent.keys() - ways:
                break
            try:
                found = compared(subject, inputs, direction)
            except Breach:
                # an exception or a result of another kind is seen however one compares
                ways |= silent.keys()
                break
            ways |= {way for way in silent.keys() - ways if rejected(silent[way], found)}
        # made anew, as it may remember calls
        subject = Subject(load(f"fault:{name}"), fault.component, dtype)
        calls = drawn(subject, named.inputs, examples)
        if any(judged(named, subject, inputs).fails for inputs in calls):
            ways.add(NAMED)
    return Seen(
        name, fault.law, fault.component, direction, tuple(way for way in WAYS if way in ways)
    )


def totals(found: Sequence[Seen]) -> list[tuple[object, ...]]:
    """Rows: component and direction, faults, how many each way rejects."""

    def key(one: Seen) -> tuple[str, str]:
        return one.component, one.direction

    rows: list[tuple[object, ...]] = []
    order = list(dict.fromkeys(map(key, found)))
    for words, alike in groupby(sorted(found, key=lambda one: order.index(key(one))), key):
        group = list(alike)
        rows.append((" ".join(words), len(group), *(_rejecting(group, way) for way in WAYS)))
    rows.append(("all", len(found), *(_rejecting(found, way) for way in WAYS)))
    return rows


def _rejecting(found: Iterable[Seen], way: str) -> int:
    return sum(way in one.ways for one in found)


def shown(found: Sequence[Seen], tolerances: Sequence[Widened]) -> str:
    """The tables, and the faults that pass."""
    wide = [
        (
            f"{w.group.component} {w.group.direction} {w.group.dtype}",
            *(f"x{number(of) if of < 1e7 else f'{of:.0e}'}" for of in (w.nearly, w.widening)),
            f"{w.alarms:,} of {w.examples:,}",
        )
        for w in tolerances
    ]
    heads = ("tolerances", "nearly silent", "silent", "right examples that the defaults reject")
    parts = [
        table(heads, wide),
        table(("rejected by", "faults", *WAYS), totals(found)),
    ]
    for text, passing in (
        (
            f"accepted by {WIDENED}, rejected within the {ALLOWANCE} on the same results",
            [one for one in found if WIDENED not in one.ways and ALLOWANCE in one.ways],
        ),
        (
            f"accepted within the {ALLOWANCE}: the named law makes other calls, or looks at memory",
            [one for one in found if ALLOWANCE not in one.ways and NAMED in one.ways],
        ),
        (
            f"rejected by {WIDENED}, on results that are within the {ALLOWANCE}",
            [one for one in found if WIDENED in one.ways and ALLOWANCE not in one.ways],
        ),
        (
            "not rejected by the named law in so many examples",
            [one for one in found if NAMED not in one.ways],
        ),
    ):
        names = "".join(f"\n  {one.fault}  ({one.law})" for one in passing)
        parts.append(f"{len(passing)} {text}{':' if passing else ''}{names}")
    return "\n\n".join(parts)


def figures(found: Sequence[Seen]) -> list[Figure]:
    """How many faults each way rejects."""
    return [
        Figure(
            f"faults rejected, {way}",
            _rejecting(found, way),
            least=len(found) if way == NAMED else None,
            remark=f"of {len(found)}",
        )
        for way in WAYS
    ]


def measured(
    faults: Sequence[str], examples: int, workers: int = 1
) -> tuple[list[Seen], list[Widened]]:
    """Every fault, in the catalogue's order, and the tolerances."""
    with _mapped(workers) as mapped:
        groups = groups_of(faults)
        tolerances = list(
            mapped(partial(widened, examples=examples), groups.keys(), groups.values())
        )
        by_group = {of.group: of for of in tolerances}
        work = partial(seen, tolerances=by_group, examples=examples)
        return list(mapped(work, faults)), tolerances


@contextmanager
def _mapped(workers: int) -> Iterator[Callable[..., Iterable[Any]]]:
    """`map`, over so many processes."""
    if workers < 2:
        yield map
        return
    spawn = get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=spawn, initializer=one_thread) as pool:
        yield pool.map


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge, print; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.assert_close")
    parser.add_argument("--examples", type=positive, default=EXAMPLES)
    parser.add_argument("--workers", type=positive, default=cores())
    parser.add_argument("--component", action="append", choices=tuple(REFERENCES), default=[])
    given = parser.parse_args(arguments)
    one_thread()
    components = given.component or tuple(REFERENCES)
    faults = [name for name, fault in all_faults().items() if fault.component in components]
    found, tolerances = measured(faults, given.examples, given.workers)
    print(shown(found, tolerances), end="\n\n")
    return printed(figures(found))


if __name__ == "__main__":
    # of this process and of those that it starts; read when NumPy's and torch's libraries load
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
