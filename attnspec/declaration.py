"""The check of what a target declares about itself: every value against what is allowed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from attnspec.arrays import KINDS
from attnspec.oracle.components import COMPONENTS, CONTRACT
from attnspec.oracle.conventions import CONVENTIONS, GUARANTEES, followed
from attnspec.oracle.precision import INDEX_TYPES, WHOLE_AS, Contract, PrecisionError, contract
from attnspec.target import DTYPES, Target
from attnspec.usage import UsageError, suggestion, unknown

DEVICE = re.compile(r"cpu|cuda(:\d+)?")
AXES = ("b", "h", "g", "t", "s", "d", "e", "m", "c", "r", "p", "n", "S", "L", "dim", "num_buckets",
        "f")  # fmt: skip
"""Axes that limits may name, by the contract's letters and words; f is the hidden width of a
feed-forward network."""


def checked(target: Target) -> tuple[dict[str, str], dict[str, Contract]]:
    """Every convention followed, and the contract for each dtype. Raises UsageError, with what
    was given and what is allowed, for the first value that does not exist."""
    _names("dtypes", target.dtypes, DTYPES)
    _devices(target.devices)
    _names("guarantees", target.guarantees, GUARANTEES)
    if not (target.gradients is None or isinstance(target.gradients, bool)):
        _names("gradients", target.gradients, CONTRACT, also="True, False or ")
    _one("arrays", target.arrays, KINDS)
    _one("index_dtype", target.index_dtype, INDEX_TYPES)
    _limits(target.limits)
    _mapping("requires", target.requires)
    return _conventions(target.conventions), _contracts(target.precision)


def limits_of(component: str, limits: Mapping[str, Any]) -> dict[str, Any]:
    """Axis letter to sizes for one component: the general limits under its own."""
    general = {name: value for name, value in limits.items() if name not in CONTRACT}
    return {**general, **limits.get(component, {})}


def _conventions(declared: object) -> dict[str, str]:
    given = _mapping("conventions", declared)
    for name in given:
        if name not in CONVENTIONS:
            raise UsageError(unknown("convention", name, CONVENTIONS))
        values = CONVENTIONS[name].values
        if given[name] not in values:
            near = suggestion(given[name], values)
            raise UsageError(
                f"convention {name!r} is {given[name]!r};{near} allowed: {', '.join(values)}"
            )
    try:
        return followed(given)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _contracts(declared: Any) -> dict[str, Contract]:
    try:
        found = {dtype: contract(dtype, declared) for dtype in DTYPES}
    except PrecisionError as error:
        near = suggestion(error.given, error.allowed)
        raise UsageError(str(error).replace("; allowed:", f";{near} allowed:", 1)) from error
    return {**found, **dict.fromkeys(INDEX_TYPES, found[WHOLE_AS])}


def _devices(devices: object) -> None:
    for name in _tuple("devices", devices) if devices is not None else ():
        if not (isinstance(name, str) and DEVICE.fullmatch(name)):
            raise UsageError(f"unknown device {name!r}; allowed: cpu, cuda, cuda:N")


def _limits(limits: object, component: str = "") -> None:
    for name, value in _mapping("limits", limits).items():
        if isinstance(value, Mapping) and not component:
            if name not in CONTRACT:
                raise UsageError(unknown("component in limits", name, CONTRACT))
            _limits(value, name)
            continue
        where = f"limits[{component!r}]" if component else "limits"
        axes = _axes_of(component)
        if name not in axes:
            raise UsageError(
                f"{where} names the axis {name!r};{suggestion(name, axes)} "
                f"allowed: {', '.join(axes) or 'none'}"
                + ("" if component else ", or a component with a mapping of these")
            )
        if not _is_limit(value):
            raise UsageError(
                f"{where}[{name!r}] is {value!r}; expected a set of sizes or (min, max[, step])"
            )


def _axes_of(component: str) -> tuple[str, ...]:
    """The axes that limits may name: those of a component that is judged, or any."""
    if component not in COMPONENTS:
        return AXES
    named = COMPONENTS[component].axes
    return tuple(axis for axis in AXES if axis in named)


def _is_limit(value: object) -> bool:
    if isinstance(value, (set, frozenset)):
        return bool(value) and all(_is_size(v) for v in value)
    if not (isinstance(value, (tuple, list)) and len(value) in (2, 3)):
        return False
    if not all(map(_is_size, value)):
        return False
    return value[0] <= value[1] and all(step > 0 for step in value[2:])


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _names(field: str, given: object, allowed: Iterable[str], also: str = "") -> None:
    if given is None:
        return
    for name in _tuple(field, given, also):
        if name not in allowed:
            raise UsageError(f"{field}: {unknown('name', name, allowed)}")


def _tuple(field: str, given: object, also: str = "") -> tuple[Any, ...]:
    if not isinstance(given, (tuple, list)):
        meant = f"; did you mean ({given!r},)?" if isinstance(given, str) and given else ""
        raise UsageError(f"{field} is {given!r}; expected {also}a tuple of names{meant}")
    if not given and field in ("dtypes", "devices"):
        raise UsageError(f"{field} is empty: nothing would be tested")
    return tuple(given)


def _one(field: str, given: object, allowed: tuple[str, ...]) -> None:
    if given not in allowed:
        near = suggestion(given, allowed)
        raise UsageError(f"{field} is {given!r};{near} allowed: {', '.join(allowed)}")


def _mapping(field: str, given: object) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise UsageError(f"{field} is {given!r}; expected a mapping")
    return given
