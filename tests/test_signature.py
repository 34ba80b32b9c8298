"""What a function's signature says it can be called with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attnspec.oracle.components import COMPONENTS
from attnspec.signature import signature

Write = Callable[..., Path]

ROPE = COMPONENTS["rope"]


@pytest.mark.parametrize(
    ("function", "accepts"),
    [
        (lambda x, positions: x, set()),
        (lambda x, positions, *, base=1.0: x, {"base"}),
        (lambda x, positions, base=1.0, rotary_dim=None: x, {"base", "rotary_dim"}),
        (lambda x, positions, **options: x, {"base", "rotary_dim"}),
        (lambda *tensors, **options: tensors, {"base", "rotary_dim"}),
        (lambda x, positions, /, base=1.0, offset=0: x, {"base"}),
    ],
)
def test_the_signature_is_the_capability(function: Callable[..., Any], accepts: set[str]) -> None:
    assert signature(function, ROPE).accepts == accepts


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda x: x, "too many positional arguments"),
        (lambda x, positions, base: x, "missing a required argument: 'base'"),
        (lambda x, positions, *, cache: x, "missing a required"),
    ],
)
def test_a_signature_that_the_contract_cannot_call(function: Callable[..., Any], said: str) -> None:
    problem = signature(function, ROPE).problem
    assert "the contract calls rope(x, positions), but rope(x" in problem
    assert said in problem


def test_a_function_without_a_signature_is_tried() -> None:
    # Python cannot tell the signature of `type`
    found = signature(type, ROPE)
    assert found.problem == ""
    assert found.accepts == {"base", "rotary_dim"}


def test_a_torch_module_takes_what_its_forward_takes() -> None:
    torch = pytest.importorskip("torch")

    class Weights(torch.nn.Module):  # type: ignore[name-defined,misc]
        def forward(self, x: Any) -> Any:
            return torch.softmax(x, -1)

    assert signature(Weights(), COMPONENTS["softmax"]).accepts == frozenset()
