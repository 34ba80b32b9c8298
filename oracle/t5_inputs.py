"""Calls of t5."""

from __future__ import annotations

from attnspec.oracle.family import Family

FAMILIES: tuple[Family, ...] = ()
