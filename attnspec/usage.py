"""Errors of those who use the suite, as opposed to failures of what it judges."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

LISTED = 12
"""Names that a message lists; of more it gives the number."""
WORDS = {
    "fp16": "float16", "half": "float16", "bf16": "bfloat16", "fp32": "float32",
    "float": "float32", "single": "float32", "fp64": "float64", "double": "float64",
    "batch": "b", "batch_size": "b", "heads": "h", "n_heads": "h", "num_heads": "h",
    "kv_heads": "g", "n_kv_heads": "g", "num_kv_heads": "g", "q_len": "t", "seq_len": "t",
    "seqlen": "t", "kv_len": "s", "head_dim": "d", "dim": "d", "v_head_dim": "e",
}  # fmt: skip
"""What others call the names of the contract."""


class UsageError(Exception):
    """The suite was asked for something that it cannot do. The message is one clear text that
    names what was given and what is allowed; the command line prints it and exits with 2."""


def unknown(what: str, given: object, allowed: Iterable[str]) -> str:
    """`unknown law 'x'; did you mean 'y'? allowed: ...`."""
    names = tuple(allowed)
    return f"unknown {what} {given!r};{suggestion(given, names)} allowed: {listed(names, given)}"


def suggestion(given: object, allowed: Iterable[str]) -> str:
    """` did you mean 'y'?`, or nothing where no allowed name is near."""
    near = nearest(given, allowed)
    return f" did you mean {near!r}?" if near else ""


def nearest(given: object, allowed: Iterable[str]) -> str:
    """The allowed name that is nearest to what was given, in any case; empty where none is near."""
    names = list(allowed)
    by_lower = {name.lower(): name for name in reversed(names)}
    word = str(given).lower()
    if WORDS.get(word) in names:
        return WORDS[word]
    near = difflib.get_close_matches(word, list(by_lower), n=1)
    return by_lower[near[0]] if near else ""


def listed(names: Sequence[str], given: object = "") -> str:
    """Names in a row; of many those that are nearest to what was given, and how many more there
    are."""
    if len(names) <= LISTED:
        return ", ".join(names)
    word = str(given).lower()

    def likeness(name: str) -> float:
        return difflib.SequenceMatcher(None, word, name.lower()).ratio()

    kept = sorted(names, key=likeness, reverse=True)[:LISTED] if word else names[:LISTED]
    return f"{', '.join(n for n in names if n in kept)} and {len(names) - LISTED} more"
