"""`attnspec claims` and `show`: what they list, and how wrong words are answered."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from attnspec import register
from attnspec.cli import main
from attnspec.impls.faults.table import FAULTS
from attnspec.register import Choice, chosen, claim_of, tied
from attnspec.runner import all_laws
from attnspec.showing import print_claims
from attnspec.spec import CLAIMS
from attnspec.spec.sources import document
from attnspec.usage import UsageError


def attnspec(*words: str) -> Result:
    result = CliRunner().invoke(main, words)
    assert "Traceback" not in result.output
    return result


def listed(*words: str) -> dict[str, Any]:
    result = attnspec("claims", *words, "--json")
    assert result.exit_code == 0
    found: dict[str, Any] = json.loads(result.output)
    return found


def test_all_statements_are_listed() -> None:
    found = listed()
    rows = found["claims"]
    assert len(rows) == 227
    assert sum(found["counts"].values()) == 227
    assert found["counts"]["holds"] == 101
    assert found["counts"]["holds-if"] == 65
    assert found["counts"]["corrected"] + found["counts"]["refuted"] == 44
    assert found["counts"]["empirical"] == 17
    for row in rows:
        assert row["section"] in document(row["document"]).sections
        assert row["verdict"] in register.VERDICTS
        assert row["form"] in register.FORMS
    by_document = [
        sum(row["document"] == number for row in rows) for number in ("000", "003", "004")
    ]
    assert by_document == [25, 16, 186]
    assert not any(row["number"] for row in found["lemmas"])
    assert len(rows) + len(found["lemmas"]) == len(CLAIMS)


@pytest.mark.parametrize(
    ("option", "value", "field"),
    [
        ("--component", "rope", "component"),
        ("--document", "003", "document"),
        ("--verdict", "refuted", "verdict"),
        ("--form", "exact", "form"),
    ],
)
def test_claims_are_chosen_by_a_field(option: str, value: str, field: str) -> None:
    rows = listed(option, value)["claims"]
    assert rows == [row for row in listed()["claims"] if row[field] == value]
    assert 0 < len(rows) < 227


def test_several_values_of_one_field_are_joined_and_fields_are_met() -> None:
    both = listed("--verdict", "refuted", "--verdict", "corrected", "--document", "000")["claims"]
    assert {row["number"] for row in both} == {"A04", "A15", "A17", "A20"}


def test_the_table() -> None:
    result = attnspec("claims", "--component", "gqa", "--verdict", "corrected")
    assert result.exit_code == 0
    assert "C042" in result.output
    assert "gqa.cache_ratios" in result.output
    assert result.output.endswith("1 statement of the documents: 1 corrected\n")
    assert max(map(len, result.output.splitlines())) <= 100
    whole = attnspec("claims").output.splitlines()[-1]
    assert whole.startswith("227 statements of the documents: 101 holds, 65 holds-if, ")
    assert whole.endswith("lemmas of our own")


def test_json_goes_into_a_file(tmp_path: Path) -> None:
    file = tmp_path / "claims.json"
    result = attnspec("claims", "--json", str(file))
    assert result.output == ""
    assert json.loads(file.read_text()) == listed()
    failed = attnspec("claims", "--json", str(tmp_path / "nowhere" / "claims.json"))
    assert failed.exit_code == 2
    assert "there is no directory" in failed.output


def test_json_through_a_link_keeps_the_link(tmp_path: Path) -> None:
    file, link = tmp_path / "claims.json", tmp_path / "link.json"
    link.symlink_to(file)
    for _ in range(2):
        assert attnspec("claims", "--json", str(link)).exit_code == 0
        assert link.is_symlink()
        assert json.loads(file.read_text()) == listed()
        file.write_text("old")


def test_json_goes_into_a_pipe_and_never_in_its_place(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    assert attnspec("claims", "--json", str(pipe)).exit_code == 0
    reader.join(timeout=60)
    assert pipe.is_fifo()
    assert json.loads(read[0]) == listed()


def test_json_into_a_name_that_no_file_can_have(tmp_path: Path) -> None:
    turning = tmp_path / "turning"
    turning.symlink_to(turning)
    for path in (tmp_path / ("n" * 300), turning):
        result = attnspec("claims", "--json", str(path))
        assert result.exit_code == 2
        assert "cannot write" in result.output


def run_into(stdout: Any, *words: str) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-m", "attnspec", *words)
    return subprocess.run(
        command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, timeout=300
    )


def test_a_reader_that_leaves_is_no_verdict() -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        result = run_into(write, "prove", "C042")
    finally:
        os.close(write)
    assert (result.returncode, result.stderr) == (2, "")


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="no /dev/full here")
@pytest.mark.parametrize("words", [("claims",), ("claims", "--json"), ("prove", "C042")])
def test_a_full_disk_is_told_in_one_line(words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        result = run_into(full, *words)
    assert result.returncode == 2
    assert result.stderr == "attnspec: cannot write the output: No space left on device\n"


def test_a_narrow_terminal_gets_lines_in_place_of_a_table() -> None:
    console = Console(width=40, record=True, file=io.StringIO())
    print_claims(console, chosen(Choice(verdicts=["refuted"])))
    text = console.export_text()
    assert "C043 gqa.used_by_models\nrefuted, exact\n    LLaMA 2, Mistral and most open" in text
    assert max(map(len, text.splitlines())) <= 40


def test_names_are_known_in_any_case() -> None:
    assert listed("--component", "MLA") == listed("--component", "mla")
    assert listed("--verdict", "Holds-If") == listed("--verdict", "holds-if")
    for name in ("C042", "c042", "C42", "c42", " C042 ", "GQA.cache_ratios"):
        assert claim_of(name).id == "gqa.cache_ratios"


def test_several_claims_are_shown_once_each() -> None:
    output = attnspec("show", "C042", "A04", "c42").output
    assert output.count("Statement: ") == 2
    assert "\n\nmla.saving_of_equal_precision  (A04)\n" in output
    failed = attnspec("show", "C042", "nothing")
    assert failed.exit_code == 2
    assert "Statement" not in failed.output


def test_proving_says_what_has_nothing_to_derive() -> None:
    result = attnspec("prove", "C042", "C044")
    assert result.exit_code == 0
    assert result.output.startswith("nothing to derive: gqa.quality_of_mha is no matter")
    assert "1 derivation, " in result.output
    assert "gqa.cache_ratios took" in result.output


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("show", "42"), "did you mean C042?"),
        (("show", "4"), "did you mean A04 or B04 or C004?"),
        (("show", "Rope"), "`attnspec claims --component rope` lists those of the component"),
        (("show", ""), "unknown claim ''; `attnspec claims` lists them"),
        (("prove", "C044", "C044", "C118"), "are no matter of mathematics"),
        (("claims", "--component", "rop"), "unknown component 'rop'; did you mean 'rope'?"),
        (("claims", "--verdict", "false"), "unknown verdict 'false'; allowed: holds, holds-if"),
        (("claims", "--document", "001"), "unknown document '001'; did you mean"),
        (("claims", "--form", "symbol"), "unknown proof form 'symbol'; did you mean 'symbolic'?"),
        (("claims", "--component", "rms_norm", "--document", "000"), "no claim is all of that"),
        (("show", "rope.groop_law"), "did you mean 'rope.group_law'?"),
        (("show", "c999"), "unknown claim 'c999'; did you mean"),
        (("prove", "rope.group_lwa"), "did you mean 'rope.group_law'?"),
        (("prove", "C044"), "nothing to derive"),
    ],
    ids=lambda value: "_".join(value) if isinstance(value, tuple) else None,
)
def test_wrong_words(words: tuple[str, ...], says: str) -> None:
    result = attnspec(*words)
    assert result.exit_code == 2
    assert says in result.output


def test_a_claim_is_shown_whole() -> None:
    result = attnspec("show", "c042")
    assert result.exit_code == 0
    entry = claim_of("C042")
    assert entry.counterexample is not None
    assert entry.derivation is not None
    for text in (
        entry.id, entry.verdict, entry.statement, entry.latex, entry.source.says, entry.truth,
        entry.counterexample().inputs, *(step.says for step in entry.derivation()),
    ):  # fmt: skip
        assert text in result.output


def test_a_claim_is_shown_with_its_laws_and_their_faults() -> None:
    tie = tied(claim_of("rope.orthogonal"))
    assert "rope.orthogonal" in tie.laws[0].claims
    output = attnspec("show", "rope.orthogonal").output
    for text in (*(law.id for law in tie.laws), *(fault.id for fault in tie.faults)):
        assert text in output


def test_a_repeated_statement_shows_the_derivation_of_the_other() -> None:
    entry = next(claim for claim in CLAIMS if claim.same_as)
    output = attnspec("show", entry.id).output
    assert f"It repeats {entry.same_as}" in output
    derivation = claim_of(entry.same_as).derivation
    assert derivation is not None
    assert derivation()[0].says in output


def test_conditions_are_shown() -> None:
    entry = next(claim for claim in CLAIMS if claim.conditions)
    assert f"D1: {entry.conditions[0].text}" in attnspec("show", entry.id).output


def test_every_number_finds_its_claim() -> None:
    assert all(claim_of(entry.number.lower()) is entry for entry in CLAIMS if entry.number)


def test_every_claim_that_a_law_names_exists() -> None:
    ids = {claim.id for claim in CLAIMS}
    assert [name for law in all_laws() for name in law.claims if name not in ids] == []
    assert FAULTS


def test_nothing_chosen() -> None:
    with pytest.raises(UsageError, match="no claim is all of that at once"):
        chosen(Choice(components=["rms_norm"], documents=["000"]))
