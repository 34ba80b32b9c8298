"""From what a user points at to functions that can be judged.

A target is a file, an importable `pkg.mod` or `pkg.mod:object`, a built-in name, `fault:ID`, or,
from Python, any object with functions named after components.
"""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from attnspec.arrays import has_torch
from attnspec.catalogue import all_faults
from attnspec.declaration import checked
from attnspec.finding import found
from attnspec.oracle.components import COMPONENTS, CONTRACT
from attnspec.oracle.precision import INDEX_TYPES, Contract
from attnspec.target import DTYPES, Target
from attnspec.usage import UsageError, listed, suggestion

Functions = Mapping[str, Callable[..., Any]]


@dataclass(frozen=True)
class Loaded:
    """A target with everything that it declares checked."""

    given: str
    """The words by which it was found; empty for an object from Python."""
    name: str
    make: Callable[[], Functions]
    """The functions by component, and those named `backward_name` beside them. A wrong
    implementation of the catalogue is made anew."""
    components: tuple[str, ...]
    """Those that it has and that this version judges."""
    unjudged: tuple[str, ...]
    """Those that it has and that this version has no laws for."""
    declaration: Target
    conventions: Mapping[str, str]
    contracts: Mapping[str, Contract]

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Storage dtypes to test, in the contract's order."""
        named = self.declaration.dtypes
        return tuple(d for d in DTYPES if named is None or d in named)

    def dtypes_of(self, component: str) -> tuple[str, ...]:
        """Those of one component; that of indices where nothing is a floating array."""
        return (self.declaration.index_dtype,) if COMPONENTS[component].whole else self.dtypes


def kind_of(component: str) -> tuple[str, ...]:
    """The dtypes in which a component can be judged at all."""
    return INDEX_TYPES if COMPONENTS[component].whole else DTYPES


def backward_name(component: str) -> str:
    """The name of a component's backward pass, where a target has one of its own."""
    return f"{component}_backward"


def load(target: object) -> Loaded:
    """Load a target. Raises UsageError with one clear text for everything that can be wrong
    with it, except a function whose signature does not fit: that is a failure of the target."""
    if not isinstance(target, str):
        return _loaded("", target)
    kind, name = target.partition(":")[::2]
    if kind == "fault":
        return _fault(target, name)
    return _loaded(target, found(target))


def _loaded(given: str, thing: object) -> Loaded:
    thing = _as_object(thing)
    declaration = _attribute(thing, "TARGET")
    if declaration is None:
        declaration = Target()
    if not isinstance(declaration, Target):
        raise UsageError(f"TARGET is {declaration!r}; expected an attnspec.Target")
    name = declaration.name or given or _name_of(thing)
    conventions, contracts = _checked(name, declaration)
    _require(name, declaration.requires)
    if declaration.arrays == "torch" and not has_torch():
        raise UsageError(
            f"{name} takes torch tensors and torch is not installed: pip install torch, or "
            'declare arrays="numpy" or "dlpack"'
        )
    functions = {c: f for c in CONTRACT if callable(f := _attribute(thing, c))}
    if not functions:
        raise UsageError(_without_component(name, thing))
    judged = tuple(name for name in COMPONENTS if name in functions)
    others = tuple(name for name in functions if name not in COMPONENTS)
    for component in judged:
        backward = backward_name(component)
        if callable(found_there := _attribute(thing, backward)):
            functions[backward] = found_there
    return Loaded(
        given, name, lambda: functions, judged, others, declaration, conventions, contracts
    )


def _fault(given: str, identity: str) -> Loaded:
    by_id = all_faults()
    if identity not in by_id:
        near = suggestion(identity, by_id)
        raise UsageError(
            f"unknown fault {identity!r};{near} `attnspec faults` lists all {len(by_id)}"
        )
    fault = by_id[identity]
    declaration = Target(
        name=given,
        dtypes=fault.dtypes,
        precision=fault.precision,
        conventions=fault.conventions,
        guarantees=fault.guarantees,
    )
    conventions, contracts = _checked(given, declaration)
    judged = tuple(name for name in COMPONENTS if name in fault.functions())
    return Loaded(given, given, fault.functions, judged, (), declaration, conventions, contracts)


def _checked(name: str, declaration: Target) -> tuple[dict[str, str], dict[str, Contract]]:
    try:
        return checked(declaration)
    except UsageError as error:
        raise UsageError(f"{name}: TARGET: {error}") from error


def _as_object(thing: object) -> object:
    if isinstance(thing, Mapping):
        return SimpleNamespace(**{str(name): value for name, value in thing.items()})
    if inspect.isfunction(thing) or inspect.isbuiltin(thing):
        return _as_object({thing.__name__: thing})
    return thing


def _attribute(thing: object, name: str) -> Any:
    try:
        return getattr(thing, name, None)
    except Exception as error:
        raise UsageError(f"reading {name!r} raised {type(error).__name__}: {error}") from error


def _name_of(thing: object) -> str:
    name = getattr(thing, "__name__", None)
    return name if isinstance(name, str) else type(thing).__name__


def _require(name: str, requires: Mapping[str, str]) -> None:
    lacking = missing(requires)
    if lacking:
        modules = ", ".join(lacking)
        packages = " ".join(dict.fromkeys(lacking.values()))
        raise UsageError(f"{name} needs {modules}, which is not installed: pip install {packages}")


def missing(requires: Mapping[str, str]) -> dict[str, str]:
    """Those of `Target.requires` that are not installed here."""
    return {m: package for m, package in requires.items() if not _installed(m)}


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _without_component(name: str, thing: object) -> str:
    has = [n for n in dir(thing) if not n.startswith("_") and n != "TARGET"]
    near = {n: s for n in has if (s := suggestion(n, CONTRACT))}
    hints = "".join(f" {n!r}:{s}" for n, s in near.items())
    return (
        f"{name} has none of the contract's functions;{hints} "
        f"it has: {listed(has) or 'nothing'}; "
        f"the contract's: {listed(list(CONTRACT), has[0] if len(has) == 1 else '')}"
    )
