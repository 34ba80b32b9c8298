"""The record of a wrong implementation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Fault:
    """One wrong implementation, with the one reason why it is wrong."""

    id: str
    """`component.what_is_wrong`."""
    component: str
    kind: str
    """The kind of mistake, `K01` to `K30`."""
    reason: str
    """What it does, and what it should do, in words for the author of a kernel."""
    remedy: str
    """What to do about it, as an imperative sentence."""
    law: str
    """The id of the law that must reject it."""
    functions: Callable[[], Mapping[str, Callable[..., Any]]]
    """Makes the implementation anew: component name to function. Faults that keep state
    between calls must start without it."""
    report: str = ""
    """The public report that it comes from, `owner/repository #number`."""
    precision: Mapping[str, Any] = field(default_factory=dict)
    """The contract that it breaks, where that isn't the default."""
    conventions: Mapping[str, str] = field(default_factory=dict)
    """What it says to follow, where that isn't the default."""
    guarantees: tuple[str, ...] = ("mask-exact", "repeatable")
    """What it promises, in words."""
    dtypes: tuple[str, ...] | None = None
    """The storage dtypes in which it can be seen; `None` for all."""
