"""The laws of t5_bucket."""

from __future__ import annotations

from attnspec.oracle.law import Law

LAWS: tuple[Law, ...] = ()
