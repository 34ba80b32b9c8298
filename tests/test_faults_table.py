"""The catalogue of faults, as a table. That the suite rejects each is tested elsewhere."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from attnspec.impls import attention, rope, softmax
from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.table import FAULTS, fault
from attnspec.target import DTYPES

COMPONENTS = ("softmax", "attention", "rope", "rope_apply")

every_fault = pytest.mark.parametrize("wrong", FAULTS, ids=lambda wrong: wrong.id)


def call(component: str, dtype: torch.dtype) -> tuple[Tensor, ...]:
    """A small legal call."""
    x = torch.linspace(-2.0, 2.0, 2 * 3 * 5 * 4).reshape(2, 3, 5, 4).to(dtype)
    positions = torch.tensor([[0, 1, 2, 3, 4], [7, 6, 300, 0, 1]])
    angles = rope.turning_angles(x, positions, 10000.0, None)
    keys = torch.linspace(2.0, -2.0, 2 * 1 * 7 * 4).reshape(2, 1, 7, 4).cos().to(dtype)
    return {
        "softmax": (x,),
        "attention": (x, keys, keys[..., :3].sin()),
        "rope": (x, positions),
        "rope_apply": (x, angles.cos().to(dtype), angles.sin().to(dtype)),
    }[component]


def test_ids_are_unique() -> None:
    assert [name for name, times in Counter(f.id for f in FAULTS).items() if times > 1] == []


def test_many_kinds() -> None:
    for component in COMPONENTS[:3]:
        assert len({f.kind for f in FAULTS if f.component == component}) >= 9
    assert len({f.kind for f in FAULTS}) >= 16
    assert len(FAULTS) >= 80


def test_reasons_and_remedies_differ_within_a_component() -> None:
    reasons = Counter((f.component, f.reason) for f in FAULTS)
    assert [reason for reason, times in reasons.items() if times > 1] == []


@every_fault
def test_row(wrong: Fault) -> None:
    assert wrong.component in COMPONENTS
    assert re.fullmatch(rf"{wrong.component}\.[a-z0-9_]+", wrong.id)
    assert re.fullmatch(r"K(0[1-9]|[12]\d|30)", wrong.kind)
    assert re.fullmatch(rf"{wrong.component}\.[a-z_]+", wrong.law)
    assert re.fullmatch(r"(\S+/\S+ #\d+)?", wrong.report)
    assert wrong.dtypes is None or set(wrong.dtypes) < set(DTYPES)
    assert re.fullmatch(r"[a-z].*[^.]", wrong.reason)
    assert re.fullmatch(r"[A-Z].*\.", wrong.remedy)


@every_fault
@pytest.mark.parametrize("name", DTYPES)
def test_gives_a_function_that_runs(wrong: Fault, name: str) -> None:
    made = wrong.functions()
    reference: dict[str, Callable[..., Any]] = {
        "softmax": softmax.softmax,
        "attention": attention.attention,
        "rope": rope.rope,
        "rope_apply": rope.rope_apply,
    }
    # what a fault brings besides is right
    assert all(made[other] is reference[other] for other in made if other != wrong.component)
    function = made[wrong.component]
    # the signature is the capability: a fault has all that the reference has
    assert [*inspect.signature(function).parameters] == [
        *inspect.signature(reference[wrong.component]).parameters
    ]
    arguments = call(wrong.component, getattr(torch, name))
    assert function(*arguments).shape == reference[wrong.component](*arguments).shape


def flat(result: Any) -> Tensor:
    """All numbers of a result, or of several."""
    parts = result if isinstance(result, tuple) else (result,)
    return torch.cat([part.detach().double().reshape(-1) for part in parts])


@every_fault
def test_starts_without_memory(wrong: Fault) -> None:
    arguments = call(wrong.component, torch.float32)
    results = []
    for _ in range(2):
        function = wrong.functions()[wrong.component]
        results.append(function(*(argument.clone() for argument in arguments)))
    first, second = (flat(result) for result in results)
    assert torch.equal(first.nan_to_num(), second.nan_to_num())
    assert torch.equal(first.isnan(), second.isnan())


@every_fault
def test_gradient_flows(wrong: Fault) -> None:
    x, *others = call(wrong.component, torch.float64)
    y = wrong.functions()[wrong.component](x.clone().requires_grad_(), *others)
    assert y.requires_grad


def test_found_by_id() -> None:
    assert fault(FAULTS[3].id) is FAULTS[3]


def test_unknown_id_names_its_neighbours() -> None:
    with pytest.raises(KeyError, match=r"no fault 'rope\.positions'; near it: rope\.position"):
        fault("rope.positions")
