"""Wrong implementations of learned_positions."""

from __future__ import annotations

from attnspec.impls.faults.fault import Fault

FAULTS: tuple[Fault, ...] = ()
