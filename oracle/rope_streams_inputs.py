"""Calls of rope_streams."""

from __future__ import annotations

from attnspec.oracle.family import Family

FAMILIES: tuple[Family, ...] = ()
