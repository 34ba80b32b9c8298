"""A file of known failures through its whole life, and what can be wrong with one."""

from __future__ import annotations

import datetime
import json
import re
import sys
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

from attnspec.cli import main
from attnspec.known import Entry, known_failures, known_text, unmatched, with_known
from attnspec.outcome import Outcome, Run, Status
from attnspec.runner import Selection
from attnspec.usage import UsageError

Attnspec = Callable[..., Result]

RIGHT = "import torch\ndef softmax(x, *, dim=-1): return torch.softmax(x, dim)\n"
WRONG = "import torch\ndef softmax(x, *, dim=-1): return torch.softmax(x, dim) * 2\n"
SUM, ALONE = "softmax.rows_sum_to_one", "softmax.row_alone"
QUICK = ("--law", SUM, "--law", ALONE, "--dtype", "float32", "--examples", "5")
TODAY = datetime.date(2030, 5, 17)
YESTERDAY = TODAY - datetime.timedelta(days=1)


@pytest.fixture
def attnspec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Attnspec:
    """Runs the command in a folder with a wrong target."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(WRONG)
    path = list(sys.path)

    def call(*words: str) -> Result:
        for name in ("mine", "attnspec_target_mine"):
            sys.modules.pop(name, None)
        try:
            # in this process, as a new one takes seconds to start
            alone = ("-n", "0") if words[0] == "verify" and "-n" not in words else ()
            result = CliRunner().invoke(main, (*words, *alone))
        finally:
            sys.path[:] = path
        assert "Traceback" not in result.output
        return result

    return call


def test_the_life_of_a_file(attnspec: Attnspec) -> None:
    # it is written from what fails now, ...
    first = attnspec("verify", "mine.py", *QUICK, "--write-known", "known.toml")
    assert first.exit_code == 1
    (entry,) = tomllib.loads(Path("known.toml").read_text())["known"]
    assert (entry["law"], entry["dtype"], entry["device"]) == (SUM, "float32", "cpu")
    assert entry["reason"]

    # ... with which the run no longer fails and says what is known, ...
    known = attnspec("verify", "mine.py", *QUICK, "--known", "known.toml", "--json", "a.json",
                     "--junit", "a.xml")  # fmt: skip
    assert known.exit_code == 0
    assert "1 law holds (1 known to fail, 10 examples" in known.output
    laws = json.loads(Path("a.json").read_text())["laws"]
    assert {law["id"]: law["status"] for law in laws} == {SUM: "known", ALONE: "pass"}
    skipped = ET.parse("a.xml").getroot().find(".//skipped")
    assert skipped is not None
    assert "known to fail" in skipped.attrib["message"]

    # ... gets a link and a last day, which are kept when it is written again, ...
    text = Path("known.toml").read_text()
    Path("known.toml").write_text(text + 'link = "https://example.org/7"\nexpires = 2999-01-31\n')
    attnspec("verify", "mine.py", *QUICK, "--known", "known.toml", "--write-known", "again.toml")
    (kept,) = tomllib.loads(Path("again.toml").read_text())["known"]
    assert kept == {**entry, "link": "https://example.org/7",
                    "expires": datetime.date(2999, 1, 31)}  # fmt: skip

    # ... fails the run once that day is over, ...
    Path("late.toml").write_text(text + "expires = 2001-01-31\n")
    late = attnspec("verify", "mine.py", *QUICK, "--known", "late.toml")
    assert late.exit_code == 1
    assert "has expired on 2001-01-31" in late.output

    # ... and once the target is mended, or the law is not run at all
    Path("mine.py").write_text(RIGHT)
    mended = attnspec("verify", "mine.py", *QUICK, "--known", "known.toml", "--junit", "b.xml")
    assert mended.exit_code == 1
    assert "no longer fails: take the entry out" in mended.output
    assert "its known failures are not what fails" in mended.output
    assert ET.parse("b.xml").getroot().find(".//failure") is not None
    attnspec("verify", "mine.py", *QUICK, "--write-known", "none.toml")
    assert tomllib.loads(Path("none.toml").read_text()) == {"known": []}
    assert attnspec("verify", "mine.py", *QUICK, "--known", "none.toml").exit_code == 0


def test_an_entry_that_matches_nothing(attnspec: Attnspec) -> None:
    Path("known.toml").write_text(
        f'[[known]]\nlaw = "{SUM}"\n[[known]]\nlaw = "{ALONE}"\ntarget = "yours"\n'
    )
    result = attnspec("verify", "mine.py", *QUICK, "--known", "known.toml")
    assert result.exit_code == 1
    assert f"{ALONE} (yours) matches nothing that was judged" in result.output


def test_an_entry_for_one_of_several_targets(attnspec: Attnspec) -> None:
    Path("right.py").write_text(RIGHT)
    both = ("verify", "right.py", "mine.py", *QUICK)
    attnspec(*both, "--write-known", "known.toml")
    (entry,) = tomllib.loads(Path("known.toml").read_text())["known"]
    assert entry["target"] == "mine.py"
    result = attnspec(*both, "--known", "known.toml")
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("law = 'x'", "has law; expected entries under [[known]] alone"),
        ("known = 3", "expected entries under [[known]] alone"),
        ("[[known", "is no TOML file"),
        ("[[known]]\ndtype = 'float32'", "entry 1: expected `law`, the id of a law; got None"),
        ("[[known]]\nlaw = 'softmax.rows_sum_to_on'", "softmax.rows_sum_to_one"),
        (f"[[known]]\nlaw = '{SUM}'\nlnk = 'x'", "entry 1: unknown field 'lnk'"),
        (f"[[known]]\nlaw = '{SUM}'\nlink = 3", "link is 3; expected a string"),
        (f"[[known]]\nlaw = '{SUM}'\ncomponent = 'rope'", "is a law of softmax"),
        (f"[[known]]\nlaw = '{SUM}'\ndtype = 'float8'", "float8"),
        (f"[[known]]\nlaw = '{SUM}'\ndevice = 'gpuu'", "gpuu"),
        (f"[[known]]\nlaw = '{SUM}'\nexpires = 'soon'", "expected a date such as 2027-01-31"),
        (f"[[known]]\nlaw = '{SUM}'\nexpires = 2027-01-31T00:00:00", "expected a date"),
        (f"[[known]]\nlaw = '{SUM}'\nversions = '2'", "expected a table such as"),
        (f"[[known]]\nlaw = '{SUM}'\nversions = {{torch = 'new'}}", "torch = 'new'; expected"),
        (f"[[known]]\nlaw = '{SUM}'\nversions = {{torch = 2}}", "torch = 2; expected"),
    ],
)
def test_what_can_be_wrong_with_a_file(attnspec: Attnspec, text: str, said: str) -> None:
    Path("known.toml").write_text(text)
    result = attnspec("verify", "mine.py", *QUICK, "--known", "known.toml")
    assert result.exit_code == 2
    assert "known.toml" in result.output
    assert said in " ".join(result.output.split())


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*none\.toml: No such file"):
        known_failures(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match=re.escape("bytes.toml is no TOML file")):
        known_failures(tmp_path / "bytes.toml")


def _run(*statuses: Status, device: str = "cpu") -> Run:
    outcomes = tuple(
        Outcome(SUM, "softmax", dtype, device, status)
        for dtype, status in zip(("float64", "float32"), statuses, strict=False)
    )
    return Run("mine", "1", 0, "full", outcomes)


def _told(run: Run, **conditions: Any) -> tuple[list[str], tuple[str, ...]]:
    """The statuses of the run with an entry, and everything that is wrong with the entry."""
    entry = Entry(SUM, **conditions)
    marked, seen = with_known(run, [entry], Selection(), TODAY)
    problems = (*marked.problems, *unmatched([entry], seen, Selection()))
    return [o.status for o in marked.outcomes], problems


def test_conditions() -> None:
    failing = _run("fail", "fail")
    assert _told(failing) == (["known", "known"], ())
    assert _told(failing, dtype="float32") == (["fail", "known"], ())
    assert _told(failing, target="mine", component="softmax") == (["known", "known"], ())
    assert _told(failing, target="yours")[0] == ["fail", "fail"]
    assert _told(failing, device="cuda")[0] == ["fail", "fail"]
    assert _told(_run("fail", device="cuda:1"), device="cuda") == (["known"], ())
    assert _told(failing, expires=TODAY) == (["known", "known"], ())
    statuses, problems = _told(failing, expires=YESTERDAY)
    assert statuses == ["fail", "fail"]
    assert problems == (f"{SUM} has expired on {YESTERDAY}",)


def test_an_entry_needs_a_failure_somewhere() -> None:
    # it may hold on a dtype that its entry does not tell apart
    assert _told(_run("pass", "fail")) == (["pass", "known"], ())
    assert "no longer fails" in _told(_run("pass", "pass"))[1][0]
    # what was not tested says nothing
    assert _told(_run("not-tested", "not-tested"))[1] == ()


def test_an_interrupted_run_takes_no_entry_out() -> None:
    interrupted = replace(_run("pass"), interrupted=True)
    assert _told(interrupted)[1] == ()


def test_an_entry_of_other_versions_is_no_matter() -> None:
    failing = _run("fail", "fail")
    assert _told(failing, versions={"numpy": ">=1"}) == (["known", "known"], ())
    assert _told(failing, versions={"numpy": "<1"}) == (["fail", "fail"], ())
    assert _told(failing, versions={"no-such-distribution": ">=0"}) == (["fail", "fail"], ())


def test_what_a_run_leaves_out_is_no_matter() -> None:
    elsewhere = Entry("softmax.row_alone", dtype="float16", device="cpu")
    for selection in (Selection(components=("rope",)), Selection(laws=(SUM,)),
                      Selection(dtypes=("float32",)), Selection(devices=("cuda",))):  # fmt: skip
        assert unmatched([elsewhere], [], selection) == ()
    assert unmatched([elsewhere], [], Selection(dtypes=("float16",)))


def test_a_failure_that_is_not_known_fails_the_run() -> None:
    run, _ = with_known(_run("fail", "fail"), [Entry(SUM, dtype="float32")], Selection(), TODAY)
    assert (run.verdict, run.exit_status) == ("fails", 1)


def test_entries_are_written_once(tmp_path: Path) -> None:
    before = Entry(SUM, reason='a quote " and\na line', versions={"numpy": ">=1"})
    marked, _ = with_known(_run("fail", "fail"), [before], Selection(), TODAY)
    path = tmp_path / "known.toml"
    path.write_text(known_text([marked], [before]))
    (entry,) = known_failures(path)
    assert (entry.law, entry.reason, entry.versions) == (SUM, before.reason, before.versions)
