"""The catalogue of faults, as a table. That the suite rejects each is tested elsewhere."""

from __future__ import annotations

import importlib
import inspect
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from attnspec.impls import rope
from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.table import FAULTS, fault
from attnspec.oracle.component import Component
from attnspec.oracle.components import COMPONENTS
from attnspec.target import DTYPES

FILES = {"rope_apply": "rope", "mla_absorbed": "mla", "mla_cache": "mla", "mla_decode": "mla"}
"""Components that live in another one's file."""

every_fault = pytest.mark.parametrize("wrong", FAULTS, ids=lambda wrong: wrong.id)


def reference(component: str) -> Callable[..., Any]:
    """The plain implementation."""
    module = importlib.import_module(f"attnspec.impls.{FILES.get(component, component)}")
    function: Callable[..., Any] = getattr(module, component)
    return function


KEYWORDS: Mapping[str, Mapping[str, Any]] = {
    "mla": {"n_heads": 2},
    "mla_absorbed": {"n_heads": 2},
    "mla_decode": {"n_heads": 2},
    "transformer_layer": {"n_heads": 4, "n_kv_heads": 2},
    "multi_head_attention": {"n_heads": 4, "n_kv_heads": 2},
    "residual_block": {"placement": "pre"},
}
"""Options without which there is no call."""


def latent_weights(dtype: torch.dtype) -> dict[str, Tensor]:
    """Of 4 channels, latents of 3 and 5, two heads of 3, 2 and 4 channels."""
    shapes = {
        "w_dq": (4, 3), "w_uq": (3, 6), "w_qr": (3, 8), "w_dkv": (4, 5), "w_uk": (5, 6),
        "w_uv": (5, 4), "w_kr": (4, 4), "w_o": (4, 4),
    }  # fmt: skip
    return {
        name: torch.linspace(-1.0, 1.5, rows * columns).sin().reshape(rows, columns).to(dtype)
        for name, (rows, columns) in shapes.items()
    }


def layer_weights(dtype: torch.dtype) -> dict[str, Tensor]:
    """Of 4 channels, 4 heads over 2 of keys, 2 channels of keys and 3 of values, 5 hidden ones."""
    shapes = {
        "w_q": (4, 8), "w_k": (4, 4), "w_v": (4, 6), "w_o": (12, 4), "norm_attention": (4,),
        "norm_feed_forward": (4,), "w_gate": (4, 5), "w_up": (4, 5), "w_down": (5, 4),
    }  # fmt: skip
    return {
        name: torch.linspace(-1.0, 1.5, math.prod(shape)).cos().reshape(shape).to(dtype)
        for name, shape in shapes.items()
    }


def call(component: str, dtype: torch.dtype) -> tuple[Any, ...]:
    """A small legal call."""
    x = torch.linspace(-2.0, 2.0, 2 * 3 * 5 * 4).reshape(2, 3, 5, 4).to(dtype)
    positions = torch.tensor([[0, 1, 2, 3, 4], [7, 6, 300, 0, 1]])
    angles = rope.turning_angles(x, positions, 10000.0, None)
    keys = torch.linspace(2.0, -2.0, 2 * 1 * 7 * 4).reshape(2, 1, 7, 4).cos().to(dtype)
    table = x.reshape(-1, 4)[:32].clone()
    return {
        "softmax": (x,),
        "attention": (x, keys, keys[..., :3].sin()),
        "sinusoidal": (positions[1], 4),
        "learned_positions": (positions[0], table),
        "t5_bucket": (positions[0] - 2,),
        "t5_bias": (table, 3, 5),
        "alibi_slopes": (3,),
        "alibi_bias": (3, 3, 5),
        "rope": (x, positions),
        "rope_apply": (x, angles.cos().to(dtype), angles.sin().to(dtype)),
        "layer_norm": (x,),
        "rms_norm": (x,),
        "decode_attention": (x[:, :2, :1], keys, keys[..., :3].sin(), positions[0, 3:]),
        "transformer_layer": (x[:, 0], layer_weights(dtype)),
        "multi_head_attention": (x[:, 0], *[*layer_weights(dtype).values()][:4]),
        "residual_block": (x, lambda y: 2.0 * y.roll(1, -1), lambda y: 4.0 * y),
        "mla": (x[:, 0], latent_weights(dtype)),
        "mla_absorbed": (x[:, 0], latent_weights(dtype)),
        "mla_cache": (x[:, 0], latent_weights(dtype)),
        "mla_decode": (
            x[:, 0, :1],
            (x[:, :, :, 0].sin().repeat(1, 1, 1), x[:, 1, :3]),
            latent_weights(dtype),
        ),
    }[component]


def test_ids_are_unique() -> None:
    assert [name for name, times in Counter(f.id for f in FAULTS).items() if times > 1] == []


def test_many_kinds() -> None:
    for component in ("softmax", "attention", "rope"):
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
    # what a fault brings besides is right
    assert all(made[other] is reference(other) for other in made if other != wrong.component)
    function = made[wrong.component]
    # the signature is the capability: a fault has all that the reference has
    assert [*inspect.signature(function).parameters] == [
        *inspect.signature(reference(wrong.component)).parameters
    ]
    arguments = call(wrong.component, getattr(torch, name))
    keywords = KEYWORDS.get(wrong.component, {})
    found = function(*arguments, **keywords)
    wanted = reference(wrong.component)(*arguments, **keywords)
    assert first(found).shape == first(wanted).shape


def first(result: Any) -> Any:
    """The first of several results, or the one."""
    return result[0] if isinstance(result, tuple) else result


def flat(result: Any) -> Tensor:
    """All numbers of a result, or of several."""
    parts = result if isinstance(result, tuple) else (result,)
    return torch.cat([part.detach().double().reshape(-1) for part in parts])


def copied(argument: Any) -> Any:
    """The same argument elsewhere in memory."""
    if isinstance(argument, dict):
        return {name: copied(value) for name, value in argument.items()}
    if isinstance(argument, tuple):
        return tuple(map(copied, argument))
    return argument.clone() if isinstance(argument, Tensor) else argument


def leaves(name: str, argument: Any, row: Component) -> Any:
    """The argument, of which gradients may be asked."""
    if name in row.bundles:
        bundle = row.bundles[name]
        parts = argument if bundle.keyed else dict(zip(bundle.arrays, argument, strict=True))
        made = {key: leaves(key, value, row) for key, value in parts.items()}
        return made if bundle.keyed else tuple(made.values())
    return argument.clone().requires_grad_() if name in row.differentiable else argument


@every_fault
def test_starts_without_memory(wrong: Fault) -> None:
    arguments = call(wrong.component, torch.float32)
    results = []
    for _ in range(2):
        function = wrong.functions()[wrong.component]
        results.append(function(*map(copied, arguments), **KEYWORDS.get(wrong.component, {})))
    first, second = (flat(result) for result in results)
    assert torch.equal(first.nan_to_num(), second.nan_to_num())
    assert torch.equal(first.isnan(), second.isnan())


@pytest.mark.parametrize(
    "wrong", [f for f in FAULTS if COMPONENTS[f.component].differentiable], ids=lambda f: f.id
)
def test_gradient_flows(wrong: Fault) -> None:
    row = COMPONENTS[wrong.component]
    arguments = [
        leaves(name, a, row)
        for name, a in zip(row.positional, call(wrong.component, torch.float64), strict=True)
    ]
    keywords = KEYWORDS.get(wrong.component, {})
    assert first(wrong.functions()[wrong.component](*arguments, **keywords)).requires_grad


def test_found_by_id() -> None:
    assert fault(FAULTS[3].id) is FAULTS[3]


def test_unknown_id_names_its_neighbours() -> None:
    with pytest.raises(KeyError, match=r"no fault 'rope\.positions'; near it: rope\.position"):
        fault("rope.positions")
