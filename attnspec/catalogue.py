"""The catalogue of wrong implementations, read when it is needed: it imports torch."""

from __future__ import annotations

from attnspec.impls.faults.fault import Fault


def all_faults() -> dict[str, Fault]:
    """Id to fault, in the catalogue's order."""
    from attnspec.impls.faults.table import FAULTS

    return {fault.id: fault for fault in FAULTS}
