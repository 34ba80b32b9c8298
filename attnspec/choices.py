"""Names that a user chooses, against those that exist. All raise UsageError with what is
allowed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attnspec.declaration import DEVICE
from attnspec.driving import EXAMPLES
from attnspec.oracle.components import COMPONENTS
from attnspec.oracle.law import Law
from attnspec.oracle.precision import INDEX_TYPES
from attnspec.runner import all_laws
from attnspec.target import DTYPES
from attnspec.usage import UsageError, listed, nearest, unknown


def known_laws(ids: Sequence[str]) -> tuple[Law, ...]:
    """The laws of these ids; all of them if none is given."""
    laws = {law.id: law for law in all_laws()}
    for given in ids:
        if given not in laws:
            raise UsageError(_unknown_law(given, list(laws)))
    return tuple(laws[i] for i in ids) if ids else tuple(laws.values())


def _unknown_law(given: str, laws: Sequence[str]) -> str:
    """A law is looked for among those of its component, by its last name."""
    if given in COMPONENTS:
        return f"unknown law {given!r}; it is a component: --component {given} chooses all its laws"
    component, dot, last = given.partition(".")
    own = [law for law in laws if law.startswith(f"{component}.")]
    if own:
        near = nearest(last, [law.partition(".")[2] for law in own])
        hint = f" did you mean '{component}.{near}'?" if near else ""
        return f"unknown law {given!r};{hint} allowed: {listed(own, given)}"
    if dot:
        return unknown("law", given, laws)
    named = [law for law in laws if law.partition(".")[2] == given]
    named = named or [law for law in laws if nearest(given, [law.partition(".")[2]])]
    return f"unknown law {given!r}; allowed: {listed(named or laws, given)}"


def known_components(names: Sequence[str]) -> tuple[str, ...]:
    """These names, if they are components that this version judges."""
    for name in names:
        if name in {law.id for law in all_laws()}:
            raise UsageError(f"unknown component {name!r}; it is a law: --law {name} chooses it")
    return _known("component", names, COMPONENTS)


def known_dtypes(names: Sequence[str]) -> tuple[str, ...]:
    """These names, if they are storage dtypes, or those of indices."""
    return _known("dtype", names, (*DTYPES, *INDEX_TYPES))


def known_devices(names: Sequence[str]) -> tuple[str, ...]:
    """These names, if they have the form of a device's."""
    for name in names:
        if not DEVICE.fullmatch(name):
            raise UsageError(f"unknown device {name!r}; allowed: cpu, cuda, cuda:N")
    return tuple(names)


def known_tier(name: str) -> str:
    """The name, if it is a tier."""
    return _known("tier", [name], EXAMPLES)[0]


def _known(what: str, names: Sequence[str], allowed: Iterable[str]) -> tuple[str, ...]:
    exist = tuple(allowed)
    for name in names:
        if name not in exist:
            raise UsageError(unknown(what, name, exist))
    return tuple(names)
