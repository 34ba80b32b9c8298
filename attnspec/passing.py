"""The arguments of one call, in the order and under the names of the contract."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnspec.arrays import Crossing
from attnspec.oracle.component import Component
from attnspec.oracle.law import Inputs


def passed(
    component: Component,
    inputs: Inputs,
    given: Mapping[str, Any],
    *,
    crossing: Crossing,
    device: str,
) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments: `given` arrays, bundles of them and whole numbers, then
    tensors and options by keyword."""
    bundled = {name: bundle.of(given) for name, bundle in component.bundles.items()}
    by_name = {**given, **bundled, **inputs.numbers}
    positional = [by_name[name] for name in component.positional]
    keywords = {name: given[name] for name in component.keywords if name in given}
    options = {**inputs.options, **_typed(component, inputs, crossing, device)}
    return positional, {**keywords, **options}


def _typed(component: Component, inputs: Inputs, crossing: Crossing, device: str) -> dict[str, Any]:
    """Dtype and device of the result as the target's library names them, where the call does. On
    another device than the CPU it must where no array tells."""
    named = {}
    if "dtype" in inputs.options:
        named["dtype"] = crossing.dtype(inputs.options["dtype"])
    untold = component.typed and not component.arguments and device != "cpu"
    if "device" in inputs.options or untold:
        named["device"] = device
    return named
