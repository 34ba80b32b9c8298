"""Calls of learned_positions."""

from __future__ import annotations

from attnspec.oracle.family import Family

FAMILIES: tuple[Family, ...] = ()
