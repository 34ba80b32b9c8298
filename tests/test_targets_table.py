"""The table of built-in targets. What the suite says of each is tested elsewhere."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from attnspec.impls.targets import TARGETS
from attnspec.oracle.components import COMPONENTS
from attnspec.target import DTYPES, Target

# the targets that are written in torch themselves import it, and nothing else does
WITHOUT_TORCH = [
    path for name, path in TARGETS.items() if not name.startswith("torch.") and name != "torch"
]


@pytest.mark.parametrize("name", TARGETS)
def test_module_declares_the_target(name: str) -> None:
    module = importlib.import_module(TARGETS[name])
    target = module.TARGET
    assert isinstance(target, Target)
    assert target.name == name
    assert target.requires
    assert set(target.dtypes or ()) <= set(DTYPES)
    assert any(callable(getattr(module, component, None)) for component in COMPONENTS)


def test_libraries_are_imported_on_demand() -> None:
    code = (
        "import sys, importlib\n"
        f"for path in {WITHOUT_TORCH!r}:\n"
        "    importlib.import_module(path)\n"
        "print(sorted({'torch', 'mlx', 'onnx', 'onnxruntime', 'transformers',"
        " 'rotary_embedding_torch', 'jax', 'openvino', 'x_transformers',"
        " 'positional_encodings'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]", done.stdout
