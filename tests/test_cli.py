"""The command line: what each command prints and writes, and its exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

from attnspec import __version__, score, verifying
from attnspec.cli import main
from attnspec.files import check_writable, written
from attnspec.impls.faults.table import FAULTS
from attnspec.impls.targets import TARGETS
from attnspec.runner import all_laws
from attnspec.target import DTYPES
from attnspec.usage import UsageError

Attnspec = Callable[..., Result]

GOOD = "import torch\ndef softmax(x, *, dim=-1): return torch.softmax(x, dim)\n"
BAD = "import torch\ndef softmax(x, *, dim=-1): return torch.softmax(x, dim) * 2\n"
QUICK = ("--law", "softmax.rows_sum_to_one", "--dtype", "float32", "--examples", "5")


@pytest.fixture
def attnspec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Attnspec:
    """Runs the command in a folder with a good and a bad target."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "bad.py").write_text(BAD)
    path = list(sys.path)

    def call(*words: str) -> Result:
        try:
            # in this process, as a new one takes seconds to start
            alone = ("-n", "0") if words[0] == "verify" and "-n" not in words else ()
            result = CliRunner().invoke(main, (*words, *alone))
        finally:
            sys.path[:] = path
        assert "Traceback" not in result.output
        return result

    return call


def test_a_target_that_conforms(attnspec: Attnspec) -> None:
    result = attnspec("verify", "good.py", *QUICK)
    assert result.exit_code == 0
    assert "good.py conforms: 1 law holds (5 examples, seed 0, tier full)" in result.output
    assert "\x1b" not in result.output


def test_a_target_that_does_not(attnspec: Attnspec) -> None:
    result = attnspec("verify", "bad.py", *QUICK)
    assert result.exit_code == 1
    assert "softmax.rows_sum_to_one: the weights along the axis add up to 1" in result.output
    assert (
        "Again: attnspec verify bad.py --law softmax.rows_sum_to_one --dtype float32 "
        "--examples 5 --seed 0"
    ) in result.output
    assert "bad.py does not conform" in result.output


def test_the_command_that_a_message_gives_finds_the_same(attnspec: Attnspec) -> None:
    first = attnspec("verify", "bad.py", *QUICK, "--seed", "11").output
    (command,) = [line for line in first.splitlines() if line.startswith("Again: attnspec ")]
    again = attnspec(*command.removeprefix("Again: attnspec ").split())
    assert again.output == first


def test_nothing_that_applies(attnspec: Attnspec) -> None:
    result = attnspec("verify", "good.py", "--component", "rope")
    assert result.exit_code == 2
    assert "good.py could not be judged" in result.output


def test_several_targets(attnspec: Attnspec) -> None:
    result = attnspec("verify", "good.py", "bad.py", *QUICK, "--json", "all.json")
    assert result.exit_code == 1
    assert "| good.py | conforms | softmax   | pass 1" in result.output
    assert "| bad.py  | fails    | softmax   | FAIL 1/1" in result.output
    runs = json.loads(Path("all.json").read_text())["runs"]
    assert [run["verdict"] for run in runs] == ["conforms", "fails"]


def test_all_targets_in_one_table(attnspec: Attnspec, monkeypatch: pytest.MonkeyPatch) -> None:
    few = {name: TARGETS[name] for name in ("torch", "torch.half", "torch.online")}
    monkeypatch.setattr(verifying, "TARGETS", {**few, "lacking": "attnspec.impls.no_such_module"})
    result = attnspec("verify", "--all", *QUICK, "--json", "all.json")
    assert result.exit_code == 0
    assert "| torch        | conforms | softmax   | pass 1 " in result.output
    assert "torch.half " not in result.output  # it has no softmax
    assert "lacking was not run: " in result.output
    assert len(json.loads(Path("all.json").read_text())["runs"]) == 2


def test_all_targets_on_a_device_that_none_has(
    attnspec: Attnspec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifying, "TARGETS", {"torch": TARGETS["torch"]})
    result = attnspec("verify", "--all", "--device", "cuda:77")
    assert result.exit_code == 2
    assert "torch was not run: device 'cuda:77' is not present" in result.output


def test_a_target_that_is_known_to_fail_must_fail(
    attnspec: Attnspec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifying, "TARGETS", {"torch": TARGETS["torch"]})
    monkeypatch.setattr(verifying, "KNOWN_TO_FAIL", {"torch": "nothing"})
    result = attnspec("verify", "--all", *QUICK)
    assert result.exit_code == 1


def test_the_json_object(attnspec: Attnspec) -> None:
    assert attnspec("verify", "bad.py", *QUICK, "--json", "out.json").exit_code == 1
    told = json.loads(Path("out.json").read_text())
    assert {k: told[k] for k in ("target", "version", "seed", "tier", "verdict")} == {
        "target": "bad.py", "version": __version__, "seed": 0, "tier": "full", "verdict": "fails",
    }  # fmt: skip
    (law,) = told["laws"]
    assert {"id", "component", "dtype", "device", "status", "examples", "worst_ratio",
            "diagnosis", "reason", "case"} <= set(law)  # fmt: skip
    assert (law["id"], law["status"], law["examples"]) == ("softmax.rows_sum_to_one", "fail", 5)
    assert law["worst_ratio"] > 1
    assert "softmax(x" in law["case"]
    missing = {(entry["component"], entry["option"]) for entry in told["not_tested"]}
    assert ("rope", "") in missing
    assert [p.name for p in Path().iterdir() if p.name.startswith(".")] == [".attnspec"]


def test_the_junit_file(attnspec: Attnspec) -> None:
    words = ("--law", "softmax.rows_sum_to_one", "--dtype", "float32", "--examples", "5")
    attnspec("verify", "bad.py", *words, "--law", "softmax.row_alone", "--junit", "out.xml")
    (suite,) = ET.parse("out.xml").getroot()
    assert (suite.get("name"), suite.get("failures")) == ("bad.py", "1")
    names = [case.get("name") for case in suite]
    assert "softmax.rows_sum_to_one[float32-cpu]" in names
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert "Again: attnspec verify" in (failure.text or "")


def test_a_run_can_be_repeated(attnspec: Attnspec) -> None:
    words = ("verify", "good.py", *QUICK, "--seed", "5", "--json")
    attnspec(*words, "a.json")
    attnspec(*words, "b.json")
    assert Path("a.json").read_text() == Path("b.json").read_text()


VERIFY = ("verify", "good.py")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*VERIFY, "--component", "ropes"), "unknown component 'ropes'; did you mean 'rope'?"),
        ((*VERIFY, "--law", "softmax.row_sum"), "unknown law 'softmax.row_sum'; did you mean"),
        ((*VERIFY, "--dtype", "float23"), "unknown dtype 'float23'; did you mean 'float32'?"),
        ((*VERIFY, "--device", "gpu"), "unknown device 'gpu'; allowed: cpu, cuda, cuda:N"),
        ((*VERIFY, "--device", "cuda:77"), "device 'cuda:77' is not present; present: cpu"),
        ((*VERIFY, "--tier", "quick"), "unknown tier 'quick'; allowed: smoke, full, deep"),
        ((*VERIFY, "--examples", "0"), "0 is not in the range x>=1"),
        ((*VERIFY, "--examples", "x"), "'x' is not a valid integer"),
        ((*VERIFY, "--seed", "-1"), "-1 is not in the range x>=0"),
        ((*VERIFY, "-n", "-1"), "-1 is not in the range x>=0"),
        ((*VERIFY, "--no-such-option"), "--no-such-option"),
        ((*VERIFY, "--json", "no/such/folder.json"), "there is no directory no/such"),
        ((*VERIFY, "--junit", "."), "cannot write .: it is a directory"),
        ((*VERIFY, "--all"), "give targets or --all, not both"),
        (("verify",), "no target given; `attnspec targets` lists"),
        (("verify", "nowhere.py"), "no file 'nowhere.py'"),
        (("verify", "fault:rope.half"), "unknown fault 'rope.half'; did you mean"),
        (("score", "--fault", "rope.half"), "unknown fault 'rope.half'; did you mean"),
        (("score", "--tier", "quick"), "unknown tier 'quick'"),
        (("faults", "--json", "no/such.json"), "there is no directory no"),
        (("no-such-command",), "No such command 'no-such-command'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_usage_is_told_in_a_line(attnspec: Attnspec, words: tuple[str, ...], said: str) -> None:
    result = attnspec(*words)
    assert result.exit_code == 2
    assert said in result.output
    if result.output.startswith("attnspec: "):
        assert len(result.output.splitlines()) == 1


def test_a_report_that_cannot_be_written_is_found_before_the_run(
    attnspec: Attnspec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifying, "runs_of", lambda *words, **more: pytest.fail("it ran"))
    assert attnspec(*VERIFY, "--json", "no/such.json").exit_code == 2


def test_a_report_is_replaced_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.json"
    path.write_text("old")
    check_writable(path)
    assert path.read_text() == "old"
    monkeypatch.setattr("attnspec.files.os.fdopen", failing)
    with pytest.raises(UsageError, match=r"cannot write .*: no space"):
        written(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["out.json"]


def failing(handle: int, *words: object, **more: object) -> None:
    raise OSError(28, "no space")


def test_an_interrupted_run_prints_what_is_known(attnspec: Attnspec, tmp_path: Path) -> None:
    (tmp_path / "stopping.py").write_text(
        "import torch\n"
        "def softmax(x, *, dim=-1):\n"
        "    if x.dtype == torch.float32: raise KeyboardInterrupt\n"
        "    return torch.softmax(x, dim)\n"
    )
    law = ("--law", "softmax.rows_sum_to_one", "--examples", "5", "--json", "out.json")
    result = attnspec("verify", "stopping.py", *law)
    assert result.exit_code == 2
    assert "Ended by Ctrl-C: this is what was known by then." in result.output
    told = json.loads(Path("out.json").read_text())
    assert (told["verdict"], told["interrupted"]) == ("not-judged", True)
    first, *others = told["laws"]
    assert first["status"] == "pass"
    assert {law["reason"] for law in others} == {"not run: Ctrl-C came first"}


def test_ctrl_c_while_a_target_is_loaded(attnspec: Attnspec, tmp_path: Path) -> None:
    (tmp_path / "stopping.py").write_text("raise KeyboardInterrupt\n")
    result = attnspec("verify", "stopping.py")
    assert (result.exit_code, result.output) == (2, "attnspec: interrupted\n")


def test_targets_are_listed(attnspec: Attnspec) -> None:
    result = attnspec("targets")
    assert result.exit_code == 0
    for name in TARGETS:
        assert name in result.output


def test_faults_are_listed(attnspec: Attnspec) -> None:
    result = attnspec("faults", "--json", "faults.json")
    assert result.exit_code == 0
    rows = json.loads(Path("faults.json").read_text())["faults"]
    assert [row["id"] for row in rows] == [fault.id for fault in FAULTS]
    for fault in FAULTS:
        assert f"{fault.id}  {fault.kind}  rejected by {fault.law}" in result.output


def test_a_fault_is_a_target(attnspec: Attnspec) -> None:
    fault = next(f for f in FAULTS if f.law == "softmax.rows_sum_to_one")
    dtypes = [word for d in fault.dtypes or DTYPES[1:2] for word in ("--dtype", d)]
    words = ("--law", fault.law, *dtypes, "--tier", "smoke")
    result = attnspec("verify", f"fault:{fault.id}", *words)
    assert result.exit_code == 1
    assert f"attnspec verify fault:{fault.id} --law {fault.law}" in result.output


def test_the_score_of_one_fault(attnspec: Attnspec) -> None:
    fault = next(f for f in FAULTS if f.law == "softmax.rows_sum_to_one")
    result = attnspec("score", "--fault", fault.id, "--json", "score.json")
    assert result.exit_code == 0
    assert "1 of 1 faults rejected" in result.output
    told = json.loads(Path("score.json").read_text())
    assert fault.law in told["faults"][0]["rejected_by"]
    assert told["problems"] == []


def test_a_fault_that_survives_gives_1(attnspec: Attnspec, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = next(f for f in FAULTS if f.law == "softmax.rows_sum_to_one")
    laws = [law for law in all_laws() if law.id == "softmax.output_form"]
    monkeypatch.setattr(score, "all_laws", lambda: tuple(laws))
    result = attnspec("score", "--fault", fault.id)
    assert result.exit_code == 1
    assert f"{fault.id} survives: no law rejects it" in result.output


def test_help_and_version(attnspec: Attnspec) -> None:
    assert attnspec("--version").output == f"attnspec, version {__version__}\n"
    for words in ((), ("verify",), ("score",), ("faults",), ("targets",)):
        assert attnspec(*words, "--help").exit_code == 0


def test_help_imports_neither_torch_nor_the_laws() -> None:
    code = (
        "import sys\nfrom attnspec.cli import main\nmain(['verify', '--help'], "
        "standalone_mode=False)\n"
        "print(sorted({'torch', 'sympy', 'hypothesis'} & set(sys.modules)))\n"
    )
    root = Path(__file__).resolve().parents[1]
    words = [sys.executable, "-c", code]
    told = subprocess.run(words, check=True, cwd=root, capture_output=True, text=True)
    assert told.stdout.endswith("\n[]\n")


def test_the_module_is_the_command() -> None:
    root = Path(__file__).resolve().parents[1]
    words = [sys.executable, "-m", "attnspec", "--version"]
    told = subprocess.run(words, check=True, cwd=root, capture_output=True, text=True)
    assert told.stdout == f"attnspec, version {__version__}\n"
