"""The laws of learned_positions."""

from __future__ import annotations

from attnspec.oracle.law import Law

LAWS: tuple[Law, ...] = ()
