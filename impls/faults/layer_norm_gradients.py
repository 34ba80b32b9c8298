"""Wrong implementations of layer_norm_gradients."""

from __future__ import annotations

from attnspec.impls.faults.fault import Fault

FAULTS: tuple[Fault, ...] = ()
