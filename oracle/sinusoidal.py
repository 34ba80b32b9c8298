"""The laws of sinusoidal."""

from __future__ import annotations

from attnspec.oracle.law import Law

LAWS: tuple[Law, ...] = ()
