"""The laws of alibi_bias."""

from __future__ import annotations

from attnspec.oracle.law import Law

LAWS: tuple[Law, ...] = ()
