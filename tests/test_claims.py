"""The register of claims: every derivation closes, every counterexample contradicts, and the
records say what the register says."""

from __future__ import annotations

import importlib
from collections import Counter
from typing import Any

import pytest
import sympy as sp

from attnspec.spec import CLAIMS, claim, rope
from attnspec.spec.claim import Claim, Step, is_closed
from attnspec.spec.rotation import turned
from attnspec.spec.shapes import shapes_fit
from attnspec.spec.sources import DOCUMENTS, document
from attnspec.spec.sums import difference
from attnspec.spec.symbols import N, d, i, j, x, z
from attnspec.spec.turns import UNIT, error, turn_tables

DECISIONS = {
    "holds": (
        "A05 A06 A08 A09 A10 A12 A13 A14 A18 A22 A25 B01 B03 B04 B08 B10 B11 B13 B15 B16 C001 C003 "
        "C004 C005 C006 C007 C008 C009 C010 C016 C018 C020 C021 C024 C026 C029 C031 C032 C034 C037 "
        "C038 C041 C045 C047 C052 C054 C059 C060 C061 C062 C064 C065 C066 C069 C070 C072 C073 C074 "
        "C075 C078 C079 C081 C083 C085 C088 C089 C091 C097 C102 C103 C105 C108 C111 C112 C119 C122 "
        "C123 C125 C126 C130 C132 C133 C134 C137 C142 C146 C147 C150 C155 C156 C160 C164 C165 C170 "
        "C173 C174 C175 C177 C178 C179 C184"
    ),
    "holds-if": (
        "A01 A02 A03 A07 A11 A16 A21 A23 B02 B06 B07 B09 C002 C011 C014 C017 C023 C027 C030 C040 "
        "C046 C049 C051 C053 C055 C058 C063 C068 C071 C076 C095 C098 C100 C101 C104 C106 C109 C110 "
        "C114 C117 C120 C124 C128 C131 C135 C136 C138 C139 C140 C141 C143 C144 C152 C158 C159 C162 "
        "C163 C167 C168 C169 C172 C181 C182 C183 C186"
    ),
    "false": (
        "A04 A15 A17 A20 B05 B12 B14 C012 C013 C015 C019 C022 C033 C035 C042 C043 C048 C050 C056 "
        "C057 C067 C077 C080 C082 C087 C090 C093 C094 C096 C107 C113 C115 C121 C129 C145 C148 C149 "
        "C151 C153 C154 C157 C166 C180 C185"
    ),
    "empirical": (
        "A19 A24 C025 C028 C036 C039 C044 C084 C086 C092 C099 C116 C118 C127 C161 C171 C176"
    ),
}
"""What is true of the documents' 227 statements, by number: they hold, hold under a condition that
the text leaves out, are false as written, or are no matter of mathematics."""

REFUTED = ("B14", "C043", "C129")
"""The false ones for which nothing is proved in their place."""

DERIVED = [entry for entry in CLAIMS if entry.derivation is not None]
CONTRADICTED = [entry for entry in CLAIMS if entry.counterexample is not None]


def named(claims: list[Claim]) -> dict[str, Any]:
    return {"argvalues": claims, "ids": [entry.id for entry in claims]}


@pytest.mark.parametrize("entry", **named(DERIVED))
def test_derivation_closes(entry: Claim) -> None:
    assert entry.derivation is not None
    steps = entry.derivation()
    assert steps, f"{entry.id} has no steps"
    assert [step.says for step in steps if not is_closed(step)] == []
    says = Counter(step.says for step in steps)
    assert all(says)
    assert [text for text, times in says.items() if times > 1] == []


@pytest.mark.parametrize("entry", **named(CONTRADICTED))
def test_counterexample_contradicts(entry: Claim) -> None:
    assert entry.counterexample is not None
    shown = entry.counterexample()
    for number in (shown.stated, shown.actual):
        assert number.is_number, f"{number} isn't a number"
        assert not number.has(sp.Float), f"{number} isn't exact"
    assert (shown.stated - shown.actual).equals(0) is False
    assert shown.inputs


def test_ids_and_numbers_are_unique() -> None:
    ids = Counter(entry.id for entry in CLAIMS)
    numbers = Counter(entry.number for entry in CLAIMS if entry.number)
    assert [name for name, times in (ids + numbers).items() if times > 1] == []
    assert all(
        component and conclusion
        for component, _, conclusion in (entry.id.partition(".") for entry in CLAIMS)
    )


def decided(verdict: str) -> set[str]:
    """Numbers of the register that are to have a verdict."""
    if verdict in ("corrected", "refuted"):
        false = set(DECISIONS["false"].split())
        return false.intersection(REFUTED) if verdict == "refuted" else false.difference(REFUTED)
    return set(DECISIONS[verdict].split())


@pytest.mark.parametrize("verdict", ["holds", "holds-if", "corrected", "refuted", "empirical"])
def test_verdicts_by_number(verdict: str) -> None:
    found = {entry.number for entry in CLAIMS if entry.number and entry.verdict == verdict}
    assert found == decided(verdict)


@pytest.mark.parametrize("entry", **named(list(CLAIMS)))
def test_record_is_complete(entry: Claim) -> None:
    assert entry.statement
    assert entry.source.says
    assert entry.source.section in document(entry.source.document).sections
    if entry.same_as:
        original = claim(entry.same_as)
        assert entry.derivation is None
        assert original.derivation is not None
        assert not original.same_as
        assert entry.form == original.form
    if entry.verdict in ("holds", "holds-if"):
        assert entry.derivation or entry.same_as
        assert bool(entry.conditions) == (entry.verdict == "holds-if")
    if entry.verdict in ("corrected", "refuted"):
        assert entry.counterexample
        assert entry.derivation
    if entry.verdict in ("corrected", "refuted", "empirical"):
        assert entry.truth
    assert (entry.form == "none") == (entry.derivation is None and not entry.same_as)
    labels = [condition.label for condition in entry.conditions]
    assert labels == [f"D{place}" for place in range(1, len(labels) + 1)]


def test_holds_if_shows_what_fails_without_its_conditions() -> None:
    for entry in CLAIMS:
        if entry.verdict == "holds-if" and not entry.same_as:
            assert entry.counterexample, entry.id


def test_lookup() -> None:
    assert claim("rope.group_law").number == "C102"
    with pytest.raises(ValueError, match=r"no claim 'rope\.nothing'; of rope there are rope\.sig"):
        claim("rope.nothing")
    with pytest.raises(
        ValueError, match="no claim 'nothing'; components with claims: alibi_bias, "
    ):
        claim("nothing")


def test_documents() -> None:
    assert [entry.number for entry in DOCUMENTS] == ["000", "003", "004"]
    assert all(len(entry.sha256) == 64 for entry in DOCUMENTS)
    with pytest.raises(ValueError, match="no document '001'; there are 000, 003, 004"):
        document("001")


@pytest.mark.parametrize(
    "residual",
    [
        sp.Symbol("a") - sp.Symbol("b"),
        sp.Integer(1),
        sp.Float(0),
        sp.Matrix([sp.Float(0)]),
        sp.nan,
        False,
        sp.false,
        None,
        sp.zeros(0, 0),
        sp.Matrix([0, 1]),
        sp.Matrix([0, sp.Symbol("a")]),
        sp.Symbol("a") > 0,
        sp.MatrixSymbol("A", 2, 2),
        0.0,
    ],
    ids=str,
)
def test_wrong_step_stays_open(residual: Any) -> None:
    assert not is_closed(Step("wrong", residual))


@pytest.mark.parametrize(
    "residual",
    [True, sp.true, sp.Integer(0), sp.zeros(2, 2), sp.ZeroMatrix(N, N), sp.Integer(2) > 1],
    ids=str,
)
def test_right_step_closes(residual: Any) -> None:
    assert is_closed(Step("right", residual))


def test_wrong_rotation_opens_the_relative_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """A derivation depends on what it is about: with the sign of one sine wrong it stays open."""

    def reflected(vector: sp.IndexedBase, position: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
        first, second = turned(vector, position)
        return first, -second

    monkeypatch.setattr("attnspec.spec.rotation.turned", reflected)
    assert not all(is_closed(step) for step in rope.relative.__wrapped__())


def test_sums_over_different_ranges_are_not_merged() -> None:
    with pytest.raises(ValueError, match="different ranges"):
        difference(sp.Sum(x[i], (i, 0, d / 2 - 1)), sp.Sum(x[i], (i, 0, d - 1)))
    left = sp.Sum(z[j], (j, 0, N - 1))
    assert difference(left, left) == 0
    assert difference(left, sp.Sum(2 * z[j], (j, 0, N - 1))) != 0


def test_symbolic_shapes() -> None:
    rows, columns = sp.symbols("a b", integer=True, positive=True)
    wide = sp.MatrixSymbol("A", rows, columns)
    assert shapes_fit(wide, wide.T, wide)
    assert not shapes_fit(wide, wide)


def test_integer_turns_are_within_their_error() -> None:
    for pair, (cosines, sines) in enumerate(turn_tables(4, 300)):
        for t in (0, 1, 7, 300):
            angle = t * sp.Integer(10000) ** sp.Rational(-pair, 4)
            for table, function in ((cosines, sp.cos), (sines, sp.sin)):
                off = abs(table[t] - UNIT * function(angle))
                assert bool(off <= error(t)) if t else off == 0


@pytest.mark.parametrize(
    ("name", "claim_id"),
    [
        ("attention_cost.pair_flops", "attention.scores_are_quadratic"),
        ("attention_formula.logits", "attention.definition"),
        ("gqa_cache.variant_elements", "gqa.cache_hierarchy"),
        ("hadamard_forms.sign", "hadamard.definition"),
        ("indexer_scores.rectified", "indexer_scores.weighted_sum_over_heads"),
        ("quantize_int8.largest", "quantize_int8.definition"),
        ("rope.block", "rope.orthogonal"),
        ("rope_frequencies.frequency", "rope.listed_frequencies"),
        ("sinusoidal.frequency", "sinusoidal.last_frequency"),
        ("window.band_pairs", "window.band"),
    ],
)
def test_wrong_definition_opens_its_claim(
    name: str, claim_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With twice what a definition's function gives, the derivation of its claim does not close."""
    derivation = claim(claim_id).derivation
    assert derivation is not None
    module, _, function = name.partition(".")
    right = getattr(importlib.import_module(f"attnspec.spec.{module}"), function)

    def twice(*arguments: Any, **options: Any) -> Any:
        return 2 * right(*arguments, **options)

    monkeypatch.setattr(f"attnspec.spec.{name}", twice)
    steps = getattr(derivation, "__wrapped__", derivation)()
    assert not all(is_closed(step) for step in steps)
