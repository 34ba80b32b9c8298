"""`attnspec docs`: a place that is written whole or not at all, and what the command says."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sympy as sp
from click.testing import CliRunner

from attnspec.cli import main
from attnspec.docs import building, proofs
from attnspec.docs.building import build
from attnspec.docs.content import Register, components, register
from attnspec.docs.pages import Pages
from attnspec.docs.place import MARKER, check_place, replaced
from attnspec.docs.proofs import OpenError
from attnspec.oracle.conventions import CONVENTIONS
from attnspec.spec import CLAIMS
from attnspec.spec.claim import Claim, Counterexample, Step
from attnspec.usage import UsageError
from tests.sites import (
    silent,
    small_register,
)

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def nothing_proved(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Builds a site of one claim without any work."""
    claim = next(c for c in CLAIMS if c.id == "softmax.definition")
    table = Register((claim,), (), (), ())
    return lambda directory: (build(directory, silent, workers=1, table=table), None)[1]


Quick = Callable[[Path], None]


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_site_is_replaced_whole(tmp_path: Path, nothing_proved: Quick) -> None:
    directory = tmp_path / "site"
    nothing_proved(directory)
    (directory / "index.html").write_text("old")
    stale = json.loads((directory / MARKER).read_text())
    (directory / MARKER).write_text(json.dumps({**stale, "files": [*stale["files"], "gone.html"]}))
    (directory / "gone.html").write_text("a page of an earlier version")
    nothing_proved(directory)
    assert (directory / "index.html").read_text() != "old"
    assert not (directory / "gone.html").exists()
    assert leftovers(tmp_path) == ["site"]


def test_an_empty_directory_is_used(tmp_path: Path, nothing_proved: Quick) -> None:
    (tmp_path / "site").mkdir()
    nothing_proved(tmp_path / "site")
    assert (tmp_path / "site" / "index.html").is_file()


def test_what_is_not_ours_is_left_alone(tmp_path: Path, nothing_proved: Quick) -> None:
    directory = tmp_path / "site"
    directory.mkdir()
    (directory / "thesis.tex").write_text("work of years")
    with pytest.raises(UsageError, match=r"it holds thesis\.tex, which no earlier site put there"):
        nothing_proved(directory)
    assert (directory / "thesis.tex").read_text() == "work of years"
    assert leftovers(tmp_path) == ["site"]


def test_a_file_that_was_put_into_a_site_is_left_alone(
    tmp_path: Path, nothing_proved: Quick
) -> None:
    directory = tmp_path / "site"
    nothing_proved(directory)
    (directory / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"it holds notes\.txt"):
        nothing_proved(directory)
    assert (directory / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    "marker", ["not json", "[]", '{"files": "index.html"}', '{"written by": "x", "files": []}']
)
def test_a_marker_that_is_not_ours(tmp_path: Path, marker: str) -> None:
    (tmp_path / MARKER).write_text(marker)
    with pytest.raises(UsageError, match="cannot write"):
        check_place(tmp_path)


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path)
    for place, reason in (
        (tmp_path / "file", "is no directory"),
        (tmp_path / "link", "is no directory"),
        (tmp_path / "no" / "such", "there is no directory"),
        (Path("/proc/site"), "cannot write /proc/site"),
        (tmp_path / ("long" * 100), "too long"),
    ):
        with pytest.raises(UsageError, match=reason):
            check_place(place)
    assert leftovers(tmp_path) == ["file", "link"]


def test_a_build_that_fails_changes_nothing(
    tmp_path: Path, nothing_proved: Quick, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "site"
    nothing_proved(directory)
    before = {path.name: path.read_bytes() for path in directory.iterdir()}

    def broken(self: Any) -> str:
        raise RuntimeError("in the middle")

    monkeypatch.setattr(Pages, "errata", broken)
    with pytest.raises(RuntimeError, match="in the middle"):
        nothing_proved(directory)
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before
    assert leftovers(tmp_path) == ["site"]


def test_what_comes_in_between_is_not_overwritten(tmp_path: Path) -> None:
    directory = tmp_path / "site"

    def overtaken() -> None:
        with replaced(directory, "1") as folder:
            (folder / "index.html").write_text("ours")
            directory.mkdir()
            (directory / "theirs").write_text("")

    with pytest.raises(UsageError, match="it holds theirs"):
        overtaken()
    assert leftovers(directory) == ["theirs"]
    assert leftovers(tmp_path) == ["site"]


def test_the_command_writes_a_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "register", small_register)
    result = CliRunner().invoke(main, ["docs", str(tmp_path / "site"), "-n", "1"])
    assert result.exit_code == 0, result.output
    assert f"6 pages: open {tmp_path / 'site' / 'index.html'}" in result.output
    assert (tmp_path / "site" / "kv_cache.html").is_file()


def test_the_command_refuses_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "register", lambda: pytest.fail("it began to work"))
    (tmp_path / "thesis.tex").write_text("")
    result = CliRunner().invoke(main, ["docs", str(tmp_path)])
    assert result.exit_code == 2
    assert f"attnspec: cannot write {tmp_path}: it holds thesis.tex" in result.output


def open_claim() -> Claim:
    claim = next(c for c in CLAIMS if c.id == "softmax.definition")
    return replace(claim, derivation=lambda: (Step("one is two", sp.Integer(1)),))


def test_a_derivation_that_does_not_close_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "register", lambda: Register((open_claim(),), (), (), ()))
    result = CliRunner().invoke(main, ["docs", str(tmp_path / "site"), "-n", "1"])
    assert result.exit_code == 1
    assert (
        "nothing was written: the derivation of softmax.definition does not close: one is two"
        in (" ".join(result.output.split()))
    )
    assert leftovers(tmp_path) == []


def test_proofs_are_the_same_in_several_processes() -> None:
    claims = [c for c in CLAIMS if c.id.startswith("t5_bucket.")]
    assert proofs.proofs(claims, silent, 2) == proofs.proofs(claims, silent, 1)
    with pytest.raises(OpenError):
        proofs.proof(open_claim())


def test_numbers_of_a_counterexample() -> None:
    claim = replace(
        open_claim(),
        derivation=None,
        counterexample=lambda: Counterexample("x = 1", sp.Integer(3), sp.Rational(-1, 3)),
    )
    counterexample = proofs.proof(claim).counterexample
    assert counterexample is not None
    shown = proofs.shown(counterexample)
    assert (shown.stated, shown.actual) == ("3", r"- \frac{1}{3}")
    assert shown.decimals == ("", "\N{MINUS SIGN}0.333333")


def test_without_the_extra_it_says_what_to_install() -> None:
    script = (
        "import sys\n"
        "sys.modules['math_core'] = None\n"
        "from attnspec.cli import main\n"
        "main(['docs', 'nowhere/site'])\n"
    )
    finished = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert finished.returncode == 2
    assert finished.stderr.startswith("attnspec: `attnspec docs` needs math_core, which is not")
    assert "pip install 'attnspec[docs]'" in finished.stderr


def test_the_whole_register_is_gathered() -> None:
    table = register()
    shown = components(table)
    assert sum(len(c.claims) for c in shown) == len(CLAIMS)
    assert sum(len(c.laws) for c in shown) == len(table.laws)
    assert sum(len(c.faults) for c in shown) == len(table.faults)
    assert sum(len(c.definitions) for c in shown) == len(table.definitions)
    assert {name for c in shown for name in c.conventions} == set(CONVENTIONS)
