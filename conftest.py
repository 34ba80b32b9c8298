"""What every test gets: Hypothesis profiles, a header about the machine, clean global state."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# dev explores, with a new seed each time and the failures of the last run first
settings.register_profile("dev", deadline=None)
# ci gives the same examples each time and keeps nothing; deadlines would test the machine's load
settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci" if "CI" in os.environ else "dev")
settings.load_profile(PROFILE)


def pytest_report_header() -> list[str]:
    """Versions, devices and the settings of the device that change results."""
    return [
        f"attnspec {_version('attnspec')}, profile {PROFILE}",
        f"Python {platform.python_version()} on {platform.system()} {platform.machine()}",
        ", ".join(
            f"{name} {_version(name)}"
            for name in ("numpy", "sympy", "python-flint", "hypothesis", "torch")
        ),
        _devices(),
    ]


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _devices() -> str:
    try:
        import torch
    except ImportError:
        return "devices: no torch"
    if not torch.cuda.is_available():
        return f"devices: cpu ({torch.get_num_threads()} threads); nothing runs on CUDA"
    matmul = torch.backends.cuda.matmul
    return (
        f"devices: cpu, {torch.cuda.get_device_name()}; "
        f"TF32 {matmul.allow_tf32} (cuDNN {torch.backends.cudnn.allow_tf32}), "
        f"reduced-precision reductions bf16 {matmul.allow_bf16_reduced_precision_reduction}, "
        f"fp16 {matmul.allow_fp16_reduced_precision_reduction}"
    )


@pytest.fixture(autouse=True)
def _same_global_state() -> Iterator[None]:
    """Put the global settings of the numeric libraries back where a test changed them. Only of
    those that are imported by then: most tests must run without torch."""
    before = _global_state()
    yield
    after = _global_state()
    for (module, name), value in before.items():
        if after.get((module, name)) != value:
            _restore(module, name, value)


def _global_state() -> dict[tuple[str, str], Any]:
    state: dict[tuple[str, str], Any] = {}
    if (torch := sys.modules.get("torch")) is not None and hasattr(torch, "get_default_dtype"):
        state["torch", "default_dtype"] = torch.get_default_dtype()
        state["torch", "num_threads"] = torch.get_num_threads()
        state["torch", "grad_enabled"] = torch.is_grad_enabled()
    if (mpmath := sys.modules.get("mpmath")) is not None and hasattr(mpmath, "mp"):
        state["mpmath", "prec"] = mpmath.mp.prec
    if (flint := sys.modules.get("flint")) is not None and hasattr(flint, "ctx"):
        state["flint", "prec"] = flint.ctx.prec
    if (numpy := sys.modules.get("numpy")) is not None and hasattr(numpy, "geterr"):
        state["numpy", "errors"] = numpy.geterr()
    return state


def _restore(module: str, name: str, value: Any) -> None:
    library: Any = sys.modules[module]
    if module == "torch":
        set_value = "set_grad_enabled" if name == "grad_enabled" else f"set_{name}"
        getattr(library, set_value)(value)
    elif module == "mpmath":
        library.mp.prec = value
    elif module == "flint":
        library.ctx.prec = value
    else:
        library.seterr(**value)
