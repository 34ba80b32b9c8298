"""The laws of rope_streams."""

from __future__ import annotations

from attnspec.oracle.law import Law

LAWS: tuple[Law, ...] = ()
