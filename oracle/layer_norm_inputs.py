"""Calls of layer_norm."""

from __future__ import annotations

from attnspec.oracle.family import Family

FAMILIES: tuple[Family, ...] = ()
