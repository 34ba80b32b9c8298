"""Which calls of the contract a function takes, as its signature tells."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from attnspec.oracle.component import Component


@dataclass(frozen=True)
class Signature:
    """What a function of a target can be called with."""

    accepts: frozenset[str]
    """The component's options that it takes."""
    problem: str = ""
    """Why the contract's call is impossible; empty where it isn't."""


def signature(function: Callable[..., Any], component: Component) -> Signature:
    """Read the signature of `function`. A function that has none to read, as some built-in ones,
    is taken to accept everything."""
    forward = getattr(function, "forward", None)
    if callable(forward) and not inspect.isroutine(function):
        # a module of torch takes anything and hands it on
        function = forward
    try:
        given = inspect.signature(function)
    except (ValueError, TypeError):
        return Signature(frozenset(component.options))
    names = component.positional
    arguments = [object()] * len(names)
    always = dict.fromkeys(component.required)
    try:
        given.bind(*arguments, **always)
    except TypeError as error:
        call = f"{component.name}({', '.join((*names, *(f'{o}=...' for o in always)))})"
        takes = f"{component.name}{given}"
        return Signature(frozenset(), f"the contract calls {call}, but {takes} refuses: {error}")
    taken = (o for o in component.options if _binds(given, arguments, {**always, o: None}))
    return Signature(frozenset(taken))


def _binds(
    given: inspect.Signature, arguments: list[object], options: Mapping[str, object]
) -> bool:
    try:
        given.bind(*arguments, **options)
    except TypeError:
        return False
    return True
