"""What an implementation under test says about itself.

Imports nothing but the standard library, so that a file with kernels can import it anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

DTYPES = ("float64", "float32", "bfloat16", "float16")


@dataclass(frozen=True)
class Target:
    """The declaration of one implementation. Every field has a default.

    `attnspec.loading` checks the values when a target is loaded, not here: a kernel file
    must import without the suite's tables.
    """

    name: str = ""
    dtypes: tuple[str, ...] | None = None
    """Storage dtypes to test; `None` means all of `DTYPES`, and one on which every call
    raises is then *not tested* instead of failing."""
    devices: tuple[str, ...] | None = None
    """Devices to test; `None` means every device that is present."""
    gradients: bool | tuple[str, ...] | None = None
    """Which components have gradients: all, none, or these. `None`: all for torch tensors; for
    other arrays those with a `NAME_backward`."""
    conventions: Mapping[str, str] = field(default_factory=dict)
    """Name of a convention to the value that is followed, where it isn't the default."""
    precision: str | Mapping[str, Any] = field(default_factory=dict)
    """A preset's name, a field to its dtype, or a storage dtype to either of these."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """Axis letter to a set of sizes or `(min, max[, step])`; per component, a dict of these."""
    index_dtype: str = "int64"
    guarantees: tuple[str, ...] = ("mask-exact", "repeatable")
    arrays: str = "torch"
    """What is handed over and taken back: `torch`, `numpy` or `dlpack`."""
    requires: Mapping[str, str] = field(default_factory=dict)
    """Module that the functions import to the argument of `pip install` that brings it."""
