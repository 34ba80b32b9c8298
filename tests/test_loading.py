"""What a user points at: every way to name a target, and everything that can be wrong with it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import attnspec
from attnspec.declaration import limits_of
from attnspec.impls.targets import TARGETS
from attnspec.loading import Loaded, load
from attnspec.oracle.components import COMPONENTS
from attnspec.usage import UsageError

Write = Callable[..., Path]

KERNELS = """
import attnspec

TARGET = attnspec.Target(name="mine", dtypes=("float32",), conventions={"rope.layout": "half"})

def softmax(x, *, dim=-1):
    return x

def rope(x, positions):
    return x

def sparse_attention(q, k, v, indices):
    return q
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Writes a file into the working directory, which imports start from."""
    monkeypatch.chdir(tmp_path)
    before, path = set(sys.modules), list(sys.path)

    def write(text: str | bytes, name: str = "kernels.py") -> Path:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        return file

    yield write
    sys.path[:] = path
    for name in set(sys.modules) - before:
        if name.startswith(("attnspec_target_", "kernels", "package", "neighbour")):
            del sys.modules[name]


def message(target: object) -> str:
    with pytest.raises(UsageError) as caught:
        load(target)
    assert "Traceback" not in str(caught.value)
    return str(caught.value)


def test_a_file(write: Write) -> None:
    loaded = load(str(write(KERNELS)))
    assert (loaded.name, loaded.components) == ("mine", ("softmax", "rope"))
    assert loaded.unjudged == ("sparse_attention",)
    assert loaded.dtypes == ("float32",)
    assert loaded.conventions["rope.layout"] == "half"
    assert loaded.contracts["bfloat16"].storage == "bfloat16"


@pytest.mark.parametrize("words", ["kernels", "kernels.py", "./kernels.py", "package.inner"])
def test_every_way_to_name_a_module(write: Write, words: str) -> None:
    write(KERNELS)
    write(KERNELS, "package/inner.py")
    write("", "package/__init__.py")
    loaded = load(words)
    assert loaded.given == words
    assert "softmax" in loaded.make()


@pytest.mark.parametrize("words", ["kernels:Fast", "kernels.py:Fast", "kernels:fast"])
def test_an_object_in_a_module(write: Write, words: str) -> None:
    write("class Fast:\n    @staticmethod\n    def rope(x, positions): return x\nfast = Fast()\n")
    assert load(words).components == ("rope",)


def test_a_file_may_import_its_neighbour(write: Write) -> None:
    write("def softmax(x, *, dim=-1): return x\n", "folder/neighbour.py")
    write("from neighbour import softmax\n", "folder/kernels.py")
    assert load("folder/kernels.py").components == ("softmax",)


def test_a_built_in_target_of_its_own_name() -> None:
    loaded = load("torch")
    assert loaded.given == "torch"
    assert loaded.components == tuple(COMPONENTS)


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_every_built_in_target_loads_or_says_how_to_install_its_library(name: str) -> None:
    try:
        loaded = load(name)
    except UsageError as error:
        told = str(error)
    else:
        told = "pip install" if loaded.components else ""
    assert "pip install" in told


def softmax(x: Any, *, dim: int = -1) -> Any:
    return x


@pytest.mark.parametrize(
    "thing",
    [softmax, {"softmax": softmax}, SimpleNamespace(softmax=softmax), sys.modules[__name__]],
    ids=["function", "mapping", "object", "module"],
)
def test_an_object_from_python(thing: object) -> None:
    loaded = load(thing)
    assert loaded.components == ("softmax",)
    assert loaded.given == ""
    assert loaded.make()["softmax"] is softmax


def test_a_file_that_is_not_there(write: Write) -> None:
    write(KERNELS)
    told = message("kernel.py")
    assert "no file 'kernel.py'" in told
    assert "did you mean 'kernels.py'?" in told


def test_a_directory(write: Write, tmp_path: Path) -> None:
    assert "is a directory" in message(f"{tmp_path}/")
    assert "is a directory" in message(".")


def test_a_colon_without_an_object(write: Write) -> None:
    write(KERNELS)
    assert message("kernels:") == "'kernels:' names no object after its colon"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def rope(:\n", "kernels.py is not Python: invalid syntax (kernels.py, line 1)"),
        (b"\x00\x01\x02", "kernels.py is not Python"),
        (b"\xff\xfe\xfa", "kernels.py is not Python"),
    ],
)
def test_a_file_that_is_not_python(write: Write, text: str | bytes, said: str) -> None:
    write(text)
    assert said in message("kernels.py")


@pytest.mark.parametrize("words", ["kernels.py", "kernels", "kernels:fast"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import no_such_library\n", "ModuleNotFoundError: No module named 'no_such_library'"),
        ("x = 1\nraise RuntimeError('no GPU here')\n", "RuntimeError: no GPU here"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3"),
        ("def f():\n    return 1 / 0\nf()\n", "ZeroDivisionError: division by zero"),
    ],
)
def test_an_exception_on_import(write: Write, words: str, text: str, said: str) -> None:
    write(text)
    told = message(words)
    assert f"importing {words} raised {said}" in told
    assert "(kernels.py, line " in told


def test_an_exception_names_the_line_in_their_file(write: Write) -> None:
    write("x = 1\nraise RuntimeError('no GPU here')\n")
    assert message("kernels.py").endswith("(kernels.py, line 2: raise RuntimeError('no GPU here'))")


def test_a_name_that_nothing_has() -> None:
    told = message("torch.hafl")
    assert "unknown target 'torch.hafl'" in told or "importing torch.hafl raised" in told
    told = message("transfomers.half")
    assert "unknown target 'transfomers.half'; did you mean 'transformers.half'?" in told


def test_a_module_without_that_object(write: Write) -> None:
    write("def fast(): ...\n")
    assert "kernels has no 'fats'; did you mean 'fast'? it has: fast" in message("kernels:fats")


def test_a_module_without_any_component(write: Write) -> None:
    write("def ropes(x, positions): ...\nSIZE = 3\n")
    told = message("kernels.py")
    assert "has none of the contract's functions; 'ropes': did you mean 'rope'?" in told
    assert "it has: SIZE, ropes" in told
    assert "the contract's: softmax, attention" in told


def test_a_component_that_is_no_function(write: Write) -> None:
    write("rope = 3\n")
    assert "none of the contract's functions" in message("kernels.py")


def test_a_missing_library_of_a_target() -> None:
    target = attnspec.Target(name="fast", requires={"no_such_library": "no-such-library"})
    told = message(SimpleNamespace(TARGET=target, softmax=softmax))
    assert told == (
        "fast needs no_such_library, which is not installed: pip install no-such-library"
    )


def test_a_fault_that_does_not_exist() -> None:
    assert "unknown fault 'rope.nothing'" in message("fault:rope.nothing")


def test_a_declaration_that_is_none() -> None:
    told = message(SimpleNamespace(TARGET={"name": "mine"}, softmax=softmax))
    assert told == "TARGET is {'name': 'mine'}; expected an attnspec.Target"


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"dtypes": ("float23",)}, "unknown name 'float23'; did you mean 'float32'? allowed: float64"),
    ({"dtypes": "float32"}, "dtypes is 'float32'; expected a tuple of names"),
    ({"dtypes": ()}, "dtypes is empty"),
    ({"devices": ("gpu",)}, "unknown device 'gpu'; allowed: cpu, cuda, cuda:N"),
    ({"devices": "cpu"}, "devices is 'cpu'; expected a tuple of names"),
    ({"conventions": {"rope.layuot": "half"}}, "unknown convention 'rope.layuot'; did you mean"),
    (
        {"conventions": {"rope.layout": "halves"}},
        "convention 'rope.layout' is 'halves'; did you mean 'half'? allowed: interleaved, half",
    ),
    ({"conventions": "half"}, "conventions is 'half'; expected a mapping"),
    ({"precision": "exact"}, "unknown precision preset 'exact'; allowed: eager, flash, strict"),
    (
        {"precision": {"angle": "float32"}},
        "unknown precision field 'angle'; did you mean 'angles'?",
    ),
    ({"precision": {"angles": "float31"}}, "precision field 'angles' is 'float31'; did you mean"),
    ({"precision": 3}, "precision is 3; expected a preset"),
    ({"precision": {"bfloat16": {"angle": "float32"}}}, "unknown precision field 'angle'"),
    ({"guarantees": ("repeatabel",)}, "unknown name 'repeatabel'; did you mean 'repeatable'?"),
    ({"gradients": ("ropes",)}, "gradients: unknown name 'ropes'; did you mean 'rope'?"),
    ({"gradients": "rope"}, "gradients is 'rope'; expected True, False or a tuple of names"),
    ({"arrays": "jax"}, "arrays is 'jax'; allowed: torch, numpy, dlpack"),
    ({"index_dtype": "int16"}, "index_dtype is 'int16'; did you mean 'int64'?"),
    ({"limits": {"x": {1}}}, "limits names the axis 'x'; allowed: b, h"),
    ({"limits": {"d": 64}}, "limits['d'] is 64; expected a set of sizes or (min, max[, step])"),
    ({"limits": {"d": (8, 4)}}, "limits['d'] is (8, 4); expected"),
    ({"limits": {"d": (8, 64, 0)}}, "limits['d'] is (8, 64, 0); expected"),
    ({"limits": {"ropes": {"d": {1}}}}, "unknown component in limits 'ropes'; did you mean 'rope'"),
    ({"limits": {"rope": {"x": {1}}}}, "limits['rope'] names the axis 'x'"),
    ({"limits": [64]}, "limits is [64]; expected a mapping"),
    ({"requires": "torch"}, "requires is 'torch'; expected a mapping"),
]


@pytest.mark.parametrize(("fields", "said"), WRONG, ids=lambda value: str(value)[:40])
def test_every_value_that_does_not_exist(fields: dict[str, Any], said: str) -> None:
    target = attnspec.Target(name="mine", **fields)
    told = message(SimpleNamespace(TARGET=target, softmax=softmax))
    assert told.startswith("mine: TARGET: ")
    assert said in told
    assert "\n" not in told


@pytest.mark.parametrize(
    "fields",
    [
        {"limits": {"d": {64, 128}, "t": (1, 4096), "n": [1, 8, 2], "rope": {"d": {2}}}},
        {"precision": {"bfloat16": {"angles": "float32"}}},
        {"gradients": ("rope",)},
        {"gradients": False},
        {"devices": ("cpu", "cuda:1")},
        {"index_dtype": "int32"},
        {"guarantees": ()},
    ],
    ids=str,
)
def test_values_that_are_allowed(fields: dict[str, Any]) -> None:
    loaded = load(SimpleNamespace(TARGET=attnspec.Target(**fields), softmax=softmax))
    assert isinstance(loaded, Loaded)


def test_limits_of_a_component_go_before_the_general_ones() -> None:
    limits = {"d": {64}, "n": (1, 9), "rope": {"d": {2}}}
    assert limits_of("rope", limits) == {"d": {2}, "n": (1, 9)}
    assert limits_of("softmax", limits) == {"d": {64}, "n": (1, 9)}
