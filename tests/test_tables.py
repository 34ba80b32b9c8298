"""The tables are written by hand, so that they can be read; this holds them to the files and to
each other. An empty table or a row that nothing points at would weaken the suite silently."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.table import FAULTS
from attnspec.impls.targets import TARGETS
from attnspec.oracle import LAWS
from attnspec.oracle.components import COMPONENTS, CONTRACT
from attnspec.oracle.inputs import families
from attnspec.oracle.law import Law
from attnspec.spec import CLAIMS
from attnspec.spec.claim import Claim

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("spec", "oracle", "impls", "impls/faults")
FILES = {"rope_apply": "rope", "mla_absorbed": "mla", "mla_cache": "mla", "mla_decode": "mla"}
"""Components that live in another one's files."""

SHARED = {"__init__", "fault", "passes", "table", "views"}
"""Files in impls/ and impls/faults/ that belong to no component: records, and faults that any
component can have. The others are called after a component, or after one and a subject."""

LONGEST = 320
"""Lines of a file: 200 is what to aim at, this is what is refused."""
VAGUE = re.compile(r"util|helper|common|^base$|manager|misc")
KINDS = re.compile(r"K(0[1-9]|[12]\d|30)")
TABLES: Mapping[str, Sequence[Claim | Fault | Law]] = {
    "CLAIMS": CLAIMS,
    "LAWS": LAWS,
    "FAULTS": FAULTS,
}


def file_of(component: str) -> str:
    """The name, without its ending, of the files that hold a component."""
    return FILES.get(component, component)


def sources() -> list[Path]:
    folders = ("attnspec", "spec", "oracle", "impls", "tests", "bench")
    # rglob does not enter the links in attnspec/
    found = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return sorted({path for path in found if not path.is_symlink()} | {ROOT / "conftest.py"})


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_not_empty_and_its_ids_are_unique(name: str) -> None:
    ids = Counter(row.id for row in TABLES[name])
    assert ids, f"{name} is empty"
    assert [name for name, times in ids.items() if times > 1] == []


@pytest.mark.parametrize("name", TABLES)
def test_ids_are_component_and_conclusion(name: str) -> None:
    odd = [row.id for row in TABLES[name] if not re.fullmatch(r"[a-z_0-9]+\.[a-z_0-9]+", row.id)]
    assert odd == []


def test_laws_and_faults_belong_to_a_component_that_is_judged() -> None:
    rows: list[Law | Fault] = [*LAWS, *FAULTS]
    assert [row.id for row in rows if row.component not in COMPONENTS] == []
    assert [row.id for row in rows if row.id.split(".")[0] != row.component] == []


def test_every_component_has_laws_and_faults_and_is_in_the_contract() -> None:
    for component in COMPONENTS:
        assert component in CONTRACT
        assert any(law.component == component for law in LAWS), f"no law of {component}"
        assert any(fault.component == component for fault in FAULTS), f"no fault of {component}"


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_component_has_its_file(folder: str) -> None:
    missing = {file_of(name) for name in COMPONENTS} - {
        p.stem for p in (ROOT / folder).glob("*.py")
    }
    assert missing == set(), f"{folder}/ lacks {missing}"


@pytest.mark.parametrize("folder", ["impls", "impls/faults"])
def test_every_file_belongs_to_a_component(folder: str) -> None:
    files = {path.stem for path in (ROOT / folder).glob("*.py")} - SHARED
    components = {file_of(name) for name in COMPONENTS}
    assert {f for f in files if not any(f"{f}_".startswith(f"{c}_") for c in components)} == set()


def test_the_references_are_functions_of_the_components_names() -> None:
    for component in COMPONENTS:
        module = importlib.import_module(f"attnspec.impls.{file_of(component)}")
        assert callable(getattr(module, component, None)), f"no impls function {component}"


def test_every_law_of_a_components_file_is_in_the_table() -> None:
    table = {law.id for law in LAWS}
    for name in {file_of(component) for component in COMPONENTS}:
        module = vars(importlib.import_module(f"attnspec.oracle.{name}"))
        rows = [value for value in module.values() if isinstance(value, Law)]
        for value in module.values():
            if isinstance(value, tuple):
                rows += [row for row in value if isinstance(row, Law)]
        assert rows, f"oracle/{name}.py has no laws"
        assert {row.id for row in rows} <= table


def test_every_target_file_is_in_the_table() -> None:
    files = (ROOT / "impls/targets").glob("*.py")
    declared = {
        path.stem for path in files if re.search(r"^TARGET\b", path.read_text(), re.MULTILINE)
    }
    assert {f"attnspec.impls.targets.{file}" for file in declared} == set(TARGETS.values())


def test_every_fault_names_a_law_that_names_it() -> None:
    laws = {law.id: law for law in LAWS}
    unknown = [(fault.id, fault.law) for fault in FAULTS if fault.law not in laws]
    assert unknown == []
    one_sided = [(f.id, f.law) for f in FAULTS if f.id not in laws[f.law].rejects]
    assert one_sided == [], "these laws lack the fault in their `rejects`"


def test_the_inputs_of_every_law_are_a_family() -> None:
    assert [law.id for law in LAWS if law.inputs not in families()] == []


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.id)
def test_a_law_rejects_and_overlooks_known_faults(law: Law) -> None:
    faults = {fault.id for fault in FAULTS}
    assert law.rejects, f"{law.id} rejects no fault: nothing shows that it can fail"
    assert set(law.rejects) <= faults
    assert set(law.blind_to) <= faults
    assert not set(law.rejects) & set(law.blind_to)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.id)
def test_a_law_names_known_claims(law: Law) -> None:
    assert set(law.claims) <= {claim.id for claim in CLAIMS}


def test_the_same_as_of_a_claim_is_a_claim() -> None:
    ids = {claim.id for claim in CLAIMS}
    assert [claim.id for claim in CLAIMS if claim.same_as and claim.same_as not in ids] == []


def test_kinds_of_faults_exist() -> None:
    assert [fault.id for fault in FAULTS if not KINDS.fullmatch(fault.kind)] == []


def test_texts_are_there() -> None:
    assert [law.id for law in LAWS if not (law.says and law.means)] == []
    assert [fault.id for fault in FAULTS if not (fault.reason and fault.remedy)] == []
    assert [claim.id for claim in CLAIMS if not (claim.statement and claim.source.says)] == []


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_has_a_telling_name_and_a_readable_length(path: Path) -> None:
    assert not VAGUE.search(path.stem), f"{path.name}: name it after what it holds"
    lines = len(path.read_text("utf-8").splitlines())
    assert lines <= LONGEST, f"{path.name} has {lines} lines: split it where its subject changes"


LOOSE = re.compile(r"\b(rtol|atol|allclose|isclose|assert_close|approx)\b")


def test_nothing_is_judged_within_a_tolerance_set_by_hand() -> None:
    """Every allowance is derived; its constants are in oracle/precision.py. The benches compare
    with the rules of other suites, which are such tolerances, and tests with copies to the bit."""
    judging = [p for p in sources() if p.relative_to(ROOT).parts[0] in ("attnspec", "oracle")]
    assert judging
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in judging
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if LOOSE.search(line)
    ]
    assert found == []
