"""The laws driven over right and over wrong implementations, without the runner in between.

Right ones must pass every law; a wrong one must be rejected by the law that it names, and must get
past the laws that call themselves blind to it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from attnspec.driving import out_of_reach, scope_of
from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.table import FAULTS, fault
from attnspec.impls.targets import KNOWN_TO_FAIL, TARGETS
from attnspec.judging import judged
from attnspec.loading import Loaded, load
from attnspec.oracle import LAWS, law
from attnspec.oracle.inputs import sampled, strategy
from attnspec.oracle.law import Law
from attnspec.subject import Subject
from attnspec.target import DTYPES
from attnspec.usage import UsageError

REFERENCES = (
    "torch", "torch.online", "torch.complex", "torch.matrix", "torch.half", "torch.tiled",
    "torch.split", "torch.per_query", "torch.top_left", "torch.total_window", "torch.tiled_heads",
    "torch.nan_rows", "torch.by_key", "torch.by_logarithm",
    "torch.rms_by_blocks", "torch.rms_one_plus", "torch.rms_outside", "torch.rms_clamped",
    "torch.rms_without_eps",
)  # fmt: skip
ENOUGH = 400
"""Examples in which a fault must show: more than a run at tier `full` makes for one dtype."""


def subjects(name: str, component: str, dtypes: tuple[str, ...]) -> Iterator[Subject]:
    loaded = load(name)
    if component in loaded.components:
        yield from (Subject(loaded, component, dtype) for dtype in dtypes)


def is_driven(row: Law, subject: Subject) -> bool:
    """Whether the law has calls that are legal for the target."""
    if out_of_reach(row, subject):
        return False
    try:
        strategy(row.inputs, scope_of(subject))
    except ValueError:
        return False
    return True


def driven(name: str) -> list[tuple[str, str]]:
    """A target with each law that has calls for it, in some dtype."""
    loaded = load(name)
    return [
        (name, row.id)
        for row in LAWS
        if row.component in loaded.components
        and any(is_driven(row, Subject(loaded, row.component, dtype)) for dtype in DTYPES)
    ]


def rejections(row: Law, subject: Subject, examples: int, seed: int = 1) -> Iterator[str]:
    """What is wrong, for every one of the drawn calls that fails."""
    if not is_driven(row, subject):
        return
    for inputs in sampled(row.inputs, scope_of(subject), examples, seed):
        judgement = judged(row, subject, inputs)
        if judgement.fails:
            what = judgement.breach or judgement.ratio
            yield f"{row.id} {subject.dtype} seed {inputs.seed}: {what}"


DRIVEN = [pair for name in REFERENCES for pair in driven(name)]


@pytest.mark.parametrize(("name", "identity"), DRIVEN)
def test_references_keep_every_law(name: str, identity: str) -> None:
    row = law(identity)
    for subject in subjects(name, row.component, DTYPES):
        assert list(rejections(row, subject, 8)) == []


def test_every_law_of_what_references_have_is_driven_over_one() -> None:
    ids = {identity for _, identity in DRIVEN}
    components = {law(identity).component for identity in ids}
    assert {name for name, _ in DRIVEN} == set(REFERENCES)
    assert [row.id for row in LAWS if row.component in components and row.id not in ids] == []


LIBRARIES = [name for name in TARGETS if name not in REFERENCES]


def loaded_or_skipped(name: str) -> Loaded:
    try:
        return load(name)
    except UsageError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", LIBRARIES)
def test_libraries_match_the_oracle_unless_they_are_known_not_to(name: str) -> None:
    """A few calls of each, more in search of a known defect: `make verify` makes many more."""
    loaded = loaded_or_skipped(name)
    known = name in KNOWN_TO_FAIL
    examples = 25 if known else 8
    # of a known defect any law may tell, of the others the comparison with the oracle says most
    wrong = (
        what
        for row in LAWS
        if (known or row.kind == "oracle") and row.component in loaded.components
        for dtype in loaded.dtypes
        for what in rejections(row, Subject(loaded, row.component, dtype), examples)
    )
    found = next(wrong, "")
    assert bool(found) == known, found


@pytest.mark.parametrize("row", FAULTS, ids=lambda row: row.id)
def test_a_fault_is_rejected_by_the_law_that_it_names(row: Fault) -> None:
    for subject in subjects(f"fault:{row.id}", row.component, row.dtypes or ("float32",)):
        if next(rejections(law(row.law), subject, ENOUGH), None) is not None:
            return
    pytest.fail(f"{row.law} rejects {row.id} in none of {ENOUGH} examples a dtype")


BLIND = [(row.id, identity) for row in LAWS for identity in row.blind_to]


@pytest.mark.parametrize(("identity", "wrong"), BLIND)
def test_a_blind_spot_is_one(identity: str, wrong: str) -> None:
    row = law(identity)
    for subject in subjects(f"fault:{wrong}", row.component, fault(wrong).dtypes or ("float32",)):
        assert list(rejections(row, subject, 60)) == []
