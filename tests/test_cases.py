"""Failing calls as files: what is stored is what comes back, and what else may be in a file."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from safetensors.numpy import save

from attnspec.cases import (
    KEY,
    Case,
    case_of,
    check_folder,
    packed,
    stored,
    unpacked,
    versions_here,
    with_cases,
)
from attnspec.cli import main
from attnspec.oracle.inputs import FAMILIES, Scope, sampled
from attnspec.oracle.law import Inputs
from attnspec.outcome import Run
from attnspec.replaying import changed, outcome_of_case
from attnspec.search import key
from attnspec.usage import UsageError
from tests.stubs import attention, attention_call, outcome, softmax, target

LAW = "softmax.rows_sum_to_one"
FILE = Path("a.safetensors")


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_what_is_stored_comes_back(family: str) -> None:
    found = FAMILIES[family]
    scope = Scope(dtype="float32", component=found.component, accepts=_everything(found.component))
    for inputs in sampled(family, scope, 6):
        again, about = unpacked(packed(inputs, {"law": "x"}))
        assert key(again) == key(inputs)
        assert list(again.arrays) == list(inputs.arrays)
        assert again.drawn == inputs.drawn
        assert about == {"law": "x"}


def _everything(component: str) -> frozenset[str]:
    from attnspec.oracle.components import COMPONENTS

    row = COMPONENTS[component]
    return frozenset((*row.options, *row.keywords))


def test_values_of_every_kind_come_back() -> None:
    options = {"a": None, "b": -math.inf, "c": 0.1, "d": (1, ("x", True)), "e": "bfloat16", "f": 3}
    arrays = {
        "z": np.arange(6.0).reshape(2, 3).T,
        "a": np.array(np.nan),
        "m": np.array([[True, False]]),
        "n": np.zeros((0, 4), np.int64),
    }
    found, _ = unpacked(packed(Inputs("attention", "float32", arrays, options)))
    assert found.options == options
    assert list(found.arrays) == list(arrays)
    for name, values in arrays.items():
        assert found.arrays[name].shape == values.shape
        assert found.arrays[name].dtype == values.dtype
        np.testing.assert_array_equal(found.arrays[name], values)


def test_an_option_that_is_no_plain_value_is_not_stored() -> None:
    with pytest.raises(TypeError, match="cannot be stored"):
        packed(attention_call(options={"scale": object()}))


def a_case(**fields: object) -> Case:
    inputs = Inputs("softmax", "float32", {"x": np.array([[1.0, 2.0]])}, {"dim": 0})
    case = Case("kernels.py", LAW, "float32", "cpu", inputs, 7, "it is off", versions_here())
    return replace(case, **fields)  # type: ignore[arg-type]


def test_a_file_says_what_was_judged(tmp_path: Path) -> None:
    path = stored(a_case(), tmp_path / "a" / "cases")
    assert path.name == f"kernels.py-{LAW}-float32-cpu.safetensors"
    found = case_of(path)
    assert key(found.inputs) == key(a_case().inputs)
    told = {name: value for name, value in vars(found).items() if name != "inputs"}
    assert told == {name: value for name, value in vars(a_case()).items() if name != "inputs"}
    assert (tmp_path / "a" / "cases" / ".gitignore").read_text() == "*\n"


def test_names_of_targets_become_names_of_files() -> None:
    assert a_case(target="pkg.mod:Kernels").name.startswith("pkg.mod_Kernels-")
    one, two = (a_case(target=f"../{folder}/my kernels.py").name for folder in "xy")
    assert one.startswith("my_kernels.py-")
    assert one != two
    assert a_case(target="", device="cuda:1").name == f"object-{LAW}-float32-cuda_1.safetensors"


def whole(**told: object) -> bytes:
    """A file with metadata of which something is replaced."""
    content = packed(a_case().inputs, {"target": "t", "law": LAW, "device": "cpu", "seed": 0,
                                       "reason": "", "versions": {}})  # fmt: skip
    length = int.from_bytes(content[:8], "little")
    metadata = json.loads(json.loads(content[8 : 8 + length])["__metadata__"][KEY])
    return save({"x": np.ones((1, 2))}, {KEY: json.dumps({**metadata, **told})})


CALL = {"component": "softmax", "dtype": "float32", "layout": "contiguous", "pattern": "",
        "signed": False, "seed": 0}  # fmt: skip


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not one",
        b"PK\x03\x04" * 30,
        b"\xff" * 100,
        packed(a_case().inputs),
        packed(a_case().inputs, {"target": 3}),
        whole()[:-3],
        save({"x": np.ones(2)}),
        save({"x": np.ones(2)}, {"format": "pt"}),
        save({"x": np.ones(2)}, {KEY: "[]"}),
        save({"x": np.ones(2)}, {KEY: "no json"}),
        whole(format=99),
        whole(arrays=["y"]),
        whole(arrays=[]),
        whole(options={"list": []}),
        whole(options=3),
        whole(drawn="zz"),
        whole(numbers={"n": "many"}),
        whole(call={}),
        whole(call={**CALL, "component": "softmaxx"}),
        whole(call={**CALL, "dtype": "float8"}),
        whole(call={**CALL, "layout": "spiral"}),
        whole(call={**CALL, "layout": []}),
    ],
)
def test_any_other_file_is_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="is no stored case, or a damaged one"):
        case_of(path)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        case_of(tmp_path / "none.safetensors")
    with pytest.raises(UsageError, match="cannot read"):
        case_of(tmp_path)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is no folder"):
        check_folder(tmp_path / "file" / "cases")
    with pytest.raises(UsageError, match="cannot make the folder"):
        stored(a_case(), tmp_path / "file" / "cases")
    check_folder(tmp_path / "new" / "cases")
    assert not (tmp_path / "new").exists()


def test_a_call_that_cannot_be_stored_is_told_and_nothing_is_lost(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    failing = outcome(lambda x, dim=-1: 2.0 * torch.softmax(x, dim))
    run = Run("mine", "1", 0, "full", (failing, outcome()))
    told = with_cases(run, tmp_path / "file").outcomes
    assert told[0].text.startswith(failing.text)
    assert "This call was not stored: cannot make the folder" in told[0].text
    assert told[1] == run.outcomes[1]


def test_versions_that_changed() -> None:
    case = a_case(versions={**versions_here(), "numpy": "1.0", "jax": "0.0"})
    assert changed(a_case()) == {}
    assert changed(case)["numpy"] == ("1.0", np.__version__)
    assert changed(case)["jax"][0] == "0.0"


def double(x: torch.Tensor, *, dim: int = -1) -> torch.Tensor:
    return 2.0 * torch.softmax(x, dim)


def declines(x: torch.Tensor, *, dim: int = -1) -> torch.Tensor:
    raise NotImplementedError("not today")


@pytest.mark.parametrize(
    ("functions", "fields", "state", "says"),
    [
        ({"softmax": softmax}, {}, "fixed", "of the allowance"),
        ({"softmax": double}, {}, "still failing", "times the allowance"),
        ({"softmax": lambda: 1}, {}, "still failing", "x"),
        ({"softmax": declines}, {}, "could not run", "declines the call"),
        ({"softmax": lambda x: x}, {}, "could not run", "does not accept dim"),
        ({"rope": softmax}, {}, "could not run", "has no softmax"),
        ({"softmax": softmax}, {"law": "softmax.gone"}, "could not run", "no law softmax.gone"),
        ({"softmax": softmax}, {"device": "cuda:9"}, "could not run", "is not present"),
    ],
)
def test_what_became_of_a_case(
    functions: dict[str, Any], fields: dict[str, str], state: str, says: str
) -> None:
    found = outcome_of_case(a_case(**fields), target(**functions), FILE)
    assert found.state == state
    assert says in found.says


def test_a_case_beyond_the_limits_of_a_target() -> None:
    small = target({"limits": {"attention": {"d": {7}}}}, attention=attention)
    case = a_case(law="attention.matches_oracle", inputs=attention_call())
    found = outcome_of_case(case, small, FILE)
    assert (found.state, "limits" in found.says) == ("could not run", True)
    found = outcome_of_case(a_case(), target({"dtypes": ("float16",)}, softmax=softmax), FILE)
    assert (found.state, "has no float32" in found.says) == ("could not run", True)


WRONG = "import torch\ndef softmax(x, *, dim=-1): return torch.softmax(x, dim) * 2\n"
RIGHT = "import torch\ndef softmax(x, *, dim=-1): return torch.softmax(x, dim)\n"


def test_a_case_from_its_failure_to_its_mending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("wrong.py").write_text(WRONG)
    Path("right.py").write_text(RIGHT)
    path = list(sys.path)

    def call(*words: str) -> Result:
        try:
            return CliRunner().invoke(main, [*words, "-n", "0"])
        finally:
            sys.path[:] = path

    words = ("--law", LAW, "--dtype", "float32", "--examples", "5")
    result = call("verify", "wrong.py", *words, "--cases", "kept", "--json", "out.json")
    (file,) = Path("kept").glob("*.safetensors")
    assert f"This call: attnspec replay {file}" in result.output
    assert json.loads(Path("out.json").read_text())["laws"][0]["case_file"] == str(file)

    again = call("replay", str(file))
    assert again.exit_code == 1
    assert "of wrong.py in float32 on cpu: still failing" in again.output
    assert "Worst element" in again.output
    mended = call("replay", str(file), "--target", "right.py")
    assert mended.exit_code == 0
    assert "of right.py in float32 on cpu: fixed" in mended.output
    refused: list[tuple[tuple[str, ...], str]] = [
        ((str(file), "--target", "none.py"), "could not run"),
        (("nothing.safetensors",), "cannot read"),
        ((), "no file given"),
    ]
    for given, said in refused:
        failed = call("replay", *given)
        assert failed.exit_code == 2
        assert said in failed.output
