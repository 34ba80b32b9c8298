"""Targets that crash, hang, leave, eat the memory or flood the terminal cost one law, not a run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import attnspec
from attnspec import blackbox
from attnspec.cases import unpacked
from attnspec.crew import SICK, Crew, ended_by
from attnspec.driving import Effort
from attnspec.isolated import last_lines
from attnspec.limits import Limits
from attnspec.loading import load
from attnspec.outcome import Outcome
from attnspec.runner import Selection, run
from tests.stubs import attention_call

# a different end in every dtype; in each only from some call on, as real ones do
ENDS = """
import ctypes, os, time
import torch
calls = {}
def softmax(x, *, dim=-1):
    print("noise " * 100_000, flush=True)
    calls[x.dtype] = calls.get(x.dtype, 0) + 1
    if calls[x.dtype] == 4:
        if x.dtype == torch.float64:
            ctypes.string_at(0)
        if x.dtype == torch.float32:
            time.sleep(1e6)
        if x.dtype == torch.bfloat16:
            held = [torch.ones(2**24) for _ in range(10**6)]
        os._exit(7)
    return torch.softmax(x, dim)
"""
# a shell that runs this in the background has told its processes to ignore Ctrl-C
HEARING = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from attnspec.cli import main
main(prog_name="attnspec")
"""
ONE = Selection(laws=("softmax.rows_sum_to_one",))
FEW = Effort(examples=8)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    file = tmp_path_factory.mktemp("ends") / "ends.py"
    file.write_text(ENDS)
    hangs = replace(ONE, dtypes=("float32",))
    others = replace(ONE, dtypes=("float64", "bfloat16", "float16"))
    found: list[Outcome] = []
    # a limit that hangs reach soon would be reached on a busy machine by what takes memory, too
    for selection, limits in ((hangs, Limits(call=2.0)), (others, Limits(memory=1.5))):
        with Crew(2, limits) as crew:
            found += run(load(str(file)), selection, FEW, crew=crew).outcomes
    return {outcome.dtype: outcome for outcome in found}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "reason"),
    [
        ("float64", "ended the process, by SIGSEGV"),
        ("float32", "did not return within 2 s, and was stopped"),
        ("bfloat16", "used more than 1.5 GiB, and was stopped"),
        ("float16", "ended the process, with exit status 7"),
    ],
)
def test_each_end_costs_a_law_and_shows_its_call(
    outcomes: dict[str, Outcome], dtype: str, reason: str
) -> None:
    outcome = outcomes[dtype]
    assert (outcome.status, outcome.reason) == ("fail", reason)
    assert f"It {reason}" in outcome.text
    assert "softmax(x" in outcome.case
    inputs, _ = unpacked(outcome.call)
    assert (inputs.component, inputs.dtype) == ("softmax", dtype)


@pytest.mark.slow
def test_a_fatal_signal_shows_where_it_struck(outcomes: dict[str, Outcome]) -> None:
    text = outcomes["float64"].text
    assert "Fatal Python error: Segmentation fault" in text
    assert 'ends.py", line 10 in softmax' in text
    assert "subject.py" not in text


HANGS = "import time\ndef softmax(x, *, dim=-1):\n    time.sleep(1e6)\n"


@pytest.mark.slow
def test_a_component_that_hangs_is_left_out_after_two_laws(tmp_path: Path) -> None:
    file = tmp_path / "hangs.py"
    file.write_text(HANGS)
    with Crew(2, Limits(call=0.5)) as crew:
        found = run(load(str(file)), Selection(dtypes=("float32",)), FEW, crew=crew)
    assert found.verdict == "fails"
    first, second, *others = found.outcomes
    assert first.reason == second.reason == "did not return within 0.5 s, and was stopped"
    assert {o.reason for o in others} == {"not run: calls of softmax hung in 2 laws before"}


@pytest.mark.slow
def test_a_deadline_leaves_what_is_known(tmp_path: Path) -> None:
    file = tmp_path / "hangs.py"
    file.write_text(HANGS)
    began = time.monotonic()
    with Crew(1, Limits()) as crew:
        found = run(load(str(file)), ONE, FEW, crew=crew, deadline=began + 1.0)
    assert time.monotonic() - began < 20.0
    assert (found.interrupted, found.ended_by, found.exit_status) == (True, "its time limit", 2)
    assert {o.reason for o in found.outcomes} == {"not run: its time limit came first"}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["Ctrl-C", "its time limit"])
def test_an_ended_run_leaves_a_valid_report(tmp_path: Path, way: str) -> None:
    (tmp_path / "kernels.py").write_text(
        "import time, torch\n"
        "def softmax(x, *, dim=-1):\n"
        "    if x.dtype != torch.float64:\n"
        "        open('reached', 'w').close()\n"
        "        time.sleep(1e6)\n"
        "    return torch.softmax(x, dim)\n"
    )
    words = ["verify", "kernels.py", "--law", "softmax.rows_sum_to_one", "--examples", "5",
             "--json", "out.json", "--junit", "out.xml"]  # fmt: skip
    words += ["--time-limit", "8"] if way == "its time limit" else []
    root = Path(attnspec.__file__).parents[1]
    with subprocess.Popen(
        [sys.executable, "-c", HEARING, *words], cwd=tmp_path, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": str(root)},
    ) as process:  # fmt: skip
        try:
            while way == "Ctrl-C" and not (tmp_path / "reached").exists():
                assert process.poll() is None
                time.sleep(0.05)
            if way == "Ctrl-C":
                process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 2, output
    assert "Traceback" not in output
    assert f"Ended by {way}" in output
    told = json.loads((tmp_path / "out.json").read_text())
    assert (told["verdict"], told["interrupted"]) == ("not-judged", True)
    statuses = {law["dtype"]: law["status"] for law in told["laws"]}
    assert statuses["float16"] == "not-tested"
    # how far it comes in a given time is the machine's
    assert statuses["float64"] == "pass" or way != "Ctrl-C"
    assert (tmp_path / "out.xml").read_text().startswith("<?xml")


def test_how_a_process_ended() -> None:
    assert ended_by(0) == "ended the process, with exit status 0"
    assert ended_by(-signal.SIGABRT) == "ended the process, by SIGABRT"
    assert ended_by(-signal.SIGKILL).endswith("SIGKILL, as the system does when memory runs out")
    assert ended_by(SICK).startswith("found a device that answers with errors only")
    assert ended_by(-99) == "ended the process, by signal 99"


def test_the_last_lines_of_an_output() -> None:
    assert last_lines("") == []
    assert last_lines("a\n\n b\n") == ["a", " b"]
    assert len(last_lines("x\n" * 1000)) == 12
    ours = f'  File "{Path(blackbox.__file__).parent / "subject.py"}", line 3 in _guarded'
    built_in = f'  File "{Path(blackbox.__file__).parent / "impls" / "rope.py"}", line 3 in rope'
    struck = ["Fatal Python error: Aborted", "Stack (most recent call first):", built_in]
    assert last_lines("\n".join(["noise", *struck, ours, "Extension modules: many"])) == struck


def test_a_half_written_call_is_none(tmp_path: Path) -> None:
    path = tmp_path / f"7{blackbox.CALL}"
    assert blackbox.left(tmp_path, 7) == blackbox.Left(None, 0.0, "")
    for content in (b"", bytes(8), (100).to_bytes(8, "little") + b"{}", b"\xff" * 40):
        path.write_bytes(content)
        assert blackbox.left(tmp_path, 7).inputs is None


def test_a_black_box_tells_the_call_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the streams of this process stay where they are
    monkeypatch.setattr(os, "dup2", lambda *handles: None)
    monkeypatch.setattr("faulthandler.enable", lambda *words, **more: None)
    monkeypatch.setattr(blackbox, "_BOXES", [])
    blackbox.begin(tmp_path)
    call = attention_call(options={"scale": float("inf"), "causal": True})
    blackbox.note(call)
    assert blackbox.seconds_in_call(tmp_path, os.getpid()) == 0.0
    with blackbox.running():
        time.sleep(0.01)
        found = blackbox.left(tmp_path, os.getpid())
    assert found.running >= 0.01
    assert found.inputs is not None
    assert found.inputs.options == call.options
    assert list(found.inputs.arrays) == list(call.arrays)
    assert blackbox.seconds_in_call(tmp_path, os.getpid()) == 0.0
    (box,) = blackbox._BOXES
    for file in (box.call, box.clock, box.output):
        file.close()


def test_output_is_kept_short(tmp_path: Path) -> None:
    long, short = tmp_path / f"1{blackbox.OUTPUT}", tmp_path / f"2{blackbox.OUTPUT}"
    long.write_bytes(b"x" * (blackbox.MOST_OUTPUT + 1))
    short.write_bytes(b"y")
    blackbox.trim(tmp_path, 1)
    blackbox.trim(tmp_path, 2)
    blackbox.trim(tmp_path, 3)
    assert (long.stat().st_size, short.stat().st_size) == (0, 1)
