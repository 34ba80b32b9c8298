"""Checks of attention kernels against laws that are derived from the mathematics.

`Target` declares what an implementation promises; `check` runs one law on it, for a notebook;
`parametrize` makes one pytest case of every law and dtype. The command line is `attnspec`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attnspec.target import Target

if TYPE_CHECKING:
    from attnspec.door import check, parametrize

__version__ = "0.1.0"

__all__ = ["Target", "__version__", "check", "parametrize"]


def __getattr__(name: str) -> Any:
    # a file with kernels imports this module for `Target` alone: the suite comes on demand
    if name in ("check", "parametrize"):
        from attnspec import door

        return getattr(door, name)
    raise AttributeError(f"module 'attnspec' has no attribute {name!r}")
