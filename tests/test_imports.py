"""The dependency rule: an oracle that shares code with what it judges agrees with it by
construction, so each folder may import what its row says and nothing else."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Rule:
    """What the files of one place may import, besides the standard library."""

    path: str
    """A folder or a file; the first rule whose path holds a file is the one that counts."""
    allowed: tuple[str, ...]
    inside_functions: tuple[str, ...] = ()
    """What may be imported when a function is called, never on import."""


# the public libraries that built-in targets call
LIBRARIES = (
    "mlx",
    "onnx",
    "onnxruntime",
    "jax",
    "openvino",
    "positional_encodings",
    "rotary_embedding_torch",
    "x_transformers",
    "transformers",
)
# what a target file may rest on; the arrays are dependencies of the suite itself
ARRAYS = ("torch", "numpy", "ml_dtypes", "attnspec.target", "attnspec.Target", "attnspec.impls")

# what evaluates the expressions of spec
ORACLES = (
    "sympy", "mpmath", "numpy", "ml_dtypes", "flint", "hypothesis", "attnspec.spec",
    "attnspec.oracle",
)  # fmt: skip

RULES = (
    Rule("spec", ("sympy", "mpmath", "attnspec.spec")),
    Rule("oracle", ORACLES),
    Rule("impls/targets", ARRAYS, LIBRARIES),
    Rule("impls", ("torch", "attnspec.impls")),
    Rule("attnspec/target.py", ()),
)


def rule_of(path: str) -> Rule:
    """The rule for a file, by its path from the root. Raises StopIteration where there is none."""
    return next(rule for rule in RULES if path == rule.path or path.startswith(f"{rule.path}/"))


def imports(tree: ast.AST, *, inside: bool = False) -> Iterator[tuple[int, str, bool]]:
    """Line, dotted name and whether inside a function, of each import under a node.

    `from attnspec import spec` counts as `attnspec.spec`, and `import_module("x")` as `x`;
    a relative import comes with its dots, which no rule allows.
    """
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.Import():
                yield from ((node.lineno, alias.name, inside) for alias in node.names)
            case ast.ImportFrom(module="attnspec", level=0):
                for alias in node.names:
                    yield node.lineno, f"attnspec.{alias.name}", inside
            case ast.ImportFrom():
                yield node.lineno, "." * node.level + (node.module or ""), inside
            case ast.Call(
                func=ast.Name(id="__import__" | "import_module")
                | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield node.lineno, name, inside
        below = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from imports(node, inside=below)


def breaches(path: str, source: str) -> list[str]:
    """A sentence for each import of a file that its rule forbids."""
    rule = rule_of(path)
    found = []
    for line, name, inside in imports(ast.parse(source, path)):
        if name.split(".")[0] in sys.stdlib_module_names or _is_under(name, rule.allowed):
            continue
        if _is_under(name, rule.inside_functions):
            if inside:
                continue
            advice = "import it inside the function that needs it"
        else:
            also = f"; inside functions {', '.join(rule.inside_functions)}"
            advice = f"{rule.path} may import the standard library" + "".join(
                f", {allowed}" for allowed in rule.allowed
            )
            advice += also if rule.inside_functions else ""
        found.append(f"{path}:{line} imports {name}: {advice}")
    return found


def _is_under(name: str, allowed: tuple[str, ...]) -> bool:
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in allowed)


def judged_files() -> list[str]:
    folders = [p for rule in RULES for p in [ROOT / rule.path] if p.is_dir()]
    files = {path for folder in folders for path in folder.rglob("*.py")}
    return sorted(str(path.relative_to(ROOT)) for path in {*files, ROOT / "attnspec/target.py"})


@pytest.mark.parametrize("path", judged_files())
def test_every_file_imports_what_its_folder_may(path: str) -> None:
    found = breaches(path, (ROOT / path).read_text("utf-8"))
    assert not found, "\n".join(found)


def test_there_are_files_under_every_rule() -> None:
    assert {rule_of(path).path for path in judged_files()} == {rule.path for rule in RULES}


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("spec/rope.py", "import numpy"),
        ("spec/rope.py", "from attnspec import oracle"),
        ("spec/rope.py", "import attnspec"),
        ("spec/rope.py", "from . import claim"),
        ("oracle/rope.py", "import torch"),
        ("oracle/rope.py", "def f():\n    import torch.nn"),
        ("oracle/rope.py", "import importlib\nt = importlib.import_module('torch')"),
        ("oracle/rope.py", "from attnspec.impls.rope import rope"),
        ("impls/rope.py", "import numpy as np"),
        ("impls/rope.py", "from attnspec.oracle import LAWS"),
        ("impls/rope.py", "import torchvision"),
        ("impls/faults/rope.py", "from attnspec.spec.rope import ROPE"),
        ("impls/targets/mlx.py", "import mlx.core as mx"),
        ("impls/targets/mlx.py", "def f():\n    from attnspec import check"),
        ("attnspec/target.py", "import numpy"),
        ("attnspec/target.py", "from attnspec.oracle.precision import contract"),
    ],
)
def test_a_forbidden_import_is_found(path: str, source: str) -> None:
    (found,) = breaches(path, source)
    line = len(source.splitlines())
    assert found.startswith(f"{path}:{line} imports ")
    assert "may import" in found or "inside the function" in found


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("spec/rope.py", "import sympy as sp\nfrom attnspec.spec.claim import Claim"),
        ("oracle/rope.py", "import flint\nfrom attnspec import spec\nimport numpy.linalg"),
        ("impls/rope.py", "import math\nimport torch.nn.functional"),
        ("impls/targets/mlx.py", "from attnspec.target import Target\ndef f():\n    import mlx.nn"),
    ],
)
def test_an_allowed_import_passes(path: str, source: str) -> None:
    assert breaches(path, source) == []


def test_the_message_names_file_import_and_rule() -> None:
    (found,) = breaches("spec/rope.py", "import torch")
    assert found == (
        "spec/rope.py:1 imports torch: spec may import the standard library, sympy, mpmath, "
        "attnspec.spec"
    )


def test_claims_and_oracles_load_without_torch() -> None:
    loaded = "import sys, attnspec.spec, attnspec.oracle; sys.exit('torch' in sys.modules)"
    finished = subprocess.run([sys.executable, "-c", loaded], cwd=ROOT, check=False)
    assert finished.returncode == 0, "importing attnspec.spec and attnspec.oracle imports torch"


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
import numpy as np
from types import SimpleNamespace
import attnspec

def softmax(x, *, dim=-1):
    shares = np.exp(x - x.max(axis=dim, keepdims=True))
    return shares / shares.sum(axis=dim, keepdims=True)

target = SimpleNamespace(TARGET=attnspec.Target(arrays="numpy"), softmax=softmax)
attnspec.check("softmax.matches_oracle", target, examples=3)
"""


def test_a_target_of_numpy_arrays_is_judged_without_torch() -> None:
    finished = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert finished.returncode == 0, finished.stderr
