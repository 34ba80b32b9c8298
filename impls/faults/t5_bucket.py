"""Wrong implementations of t5_bucket."""

from __future__ import annotations

from attnspec.impls.faults.fault import Fault

FAULTS: tuple[Fault, ...] = ()
