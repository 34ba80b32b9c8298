"""RMSNorm as a law sees it: functions under each convention, and which laws reject them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from attnspec.impls import rms_norm as references
from attnspec.oracle import LAWS
from attnspec.oracle.law import Inputs
from attnspec.subject import Subject
from tests import stubs

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
    return stubs.subject(function, "rms_norm", dtype=dtype, **declared)


def call(x: Array, dtype: str = "float64", weight: Array | None = None, **options: Any) -> Inputs:
    arrays = {"x": x} if weight is None else {"x": x, "weight": weight}
    return Inputs("rms_norm", dtype, arrays, options)
