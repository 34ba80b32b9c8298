"""Errors of those who use the suite, as opposed to failures of what it judges."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UsageError(Exception):
    """The suite was asked for something that it cannot do. The message is one clear text that
    names what was given and what is allowed; the command line prints it and exits with 2."""


def unknown(what: str, given: object, allowed: Iterable[str]) -> str:
    """`unknown law 'x'; did you mean 'y'? allowed: ...`."""
    names = tuple(allowed)
    return f"unknown {what} {given!r};{suggestion(given, names)} allowed: {', '.join(names)}"


def suggestion(given: object, allowed: Iterable[str]) -> str:
    """` did you mean 'y'?`, or nothing where no allowed name is near."""
    near = difflib.get_close_matches(str(given), list(allowed), n=1)
    return f" did you mean {near[0]!r}?" if near else ""
