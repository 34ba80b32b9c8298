"""RMSNorm as a law sees it: functions under each convention, and which laws reject them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

import attnspec
from attnspec.driving import out_of_reach, scope_of
from attnspec.impls import rms_norm as references
from attnspec.judging import judged
from attnspec.loading import load
from attnspec.oracle import LAWS
from attnspec.oracle.inputs import sampled, strategy
from attnspec.oracle.law import Inputs
from attnspec.subject import Subject

Norm = Callable[..., Any]
Array = np.ndarray[Any, Any]
ROWS = {row.id.split(".")[1]: row for row in LAWS if row.component == "rms_norm"}
CONVENTIONS: dict[str, tuple[Norm, dict[str, str]]] = {
    "inside": (references.rms_norm, {}),
    "by blocks": (references.rms_norm_by_blocks, {}),
    "outside": (references.rms_norm_outside, {"rms_norm.eps": "outside"}),
    "clamped": (references.rms_norm_clamped, {"rms_norm.eps": "clamped"}),
    "none": (references.rms_norm_without_eps, {"rms_norm.eps": "none"}),
    "one-plus": (references.rms_norm_one_plus, {"rms_norm.gain": "one-plus"}),
}


def subject(function: Norm, dtype: str = "float32", **declared: Any) -> Subject:
    beside = declared.pop("beside", {})
    declaration = attnspec.Target(**{"name": "mine", **declared})
    loaded = load(SimpleNamespace(TARGET=declaration, rms_norm=function, **beside))
    return Subject(loaded, "rms_norm", dtype)


def failing(mine: Subject, many: int, seed: int = 5) -> dict[str, int]:
    """How many calls each law rejects, of those laws that reject any."""
    found = {}
    for name, row in ROWS.items():
        if out_of_reach(row, mine):
            continue
        try:
            strategy(row.inputs, scope_of(mine))
        except ValueError:
            continue
        drawn = sampled(row.inputs, scope_of(mine), many, seed)
        if times := sum(judged(row, mine, inputs).fails for inputs in drawn):
            found[name] = times
    return found


def call(x: Array, dtype: str = "float64", weight: Array | None = None, **options: Any) -> Inputs:
    arrays = {"x": x} if weight is None else {"x": x, "weight": weight}
    return Inputs("rms_norm", dtype, arrays, options)
