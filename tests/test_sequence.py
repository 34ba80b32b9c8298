"""Runs of several targets, side by side in processes that they share."""

from __future__ import annotations

from pathlib import Path

import pytest

from attnspec.crew import Crew
from attnspec.driving import Effort
from attnspec.limits import Limits
from attnspec.loading import load
from attnspec.outcome import Run
from attnspec.runner import Selection
from attnspec.sequence import runs_of

RIGHT = "import torch\n\ndef softmax(x, *, dim=-1):\n    return torch.softmax(x, dim)\n"
WRONG = "import torch\n\ndef softmax(x, *, dim=-1):\n    return torch.softmax(x, 0)\n"
ENDS = "import os\n\ndef softmax(x, *, dim=-1):\n    os._exit(7)\n"
TWO = Selection(laws=("softmax.matches_oracle", "softmax.rows_sum_to_one"), dtypes=("float32",))
FEW = Effort(examples=5)


def runs(folder: Path, *texts: str, workers: int = 2) -> list[Run]:
    files = [folder / f"kernels_{number}.py" for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    targets = [load(str(file)) for file in files]
    if not workers:
        return list(runs_of(targets, TWO, FEW))
    with Crew(workers, Limits()) as crew:
        return list(runs_of(targets, TWO, FEW, crew))


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_every_target_has_its_run_in_order(tmp_path: Path, workers: int) -> None:
    found = runs(tmp_path, RIGHT, WRONG, RIGHT, workers=workers)
    assert [Path(run.target).stem for run in found] == ["kernels_0", "kernels_1", "kernels_2"]
    assert [run.verdict for run in found] == ["conforms", "fails", "conforms"]


def test_side_by_side_they_find_what_they_find_alone(tmp_path: Path) -> None:
    together = runs(tmp_path, RIGHT, WRONG)
    alone = runs(tmp_path, RIGHT, WRONG, workers=0)
    assert [run.outcomes for run in together] == [run.outcomes for run in alone]


def test_a_target_that_ends_its_process_costs_no_other_its_run(tmp_path: Path) -> None:
    found = runs(tmp_path, RIGHT, ENDS, WRONG)
    assert [run.verdict for run in found] == ["conforms", "fails", "fails"]
    assert {outcome.reason for outcome in found[1].outcomes} == {
        "ended the process, with exit status 7"
    }
    assert "ended the process" not in found[2].outcomes[0].reason
