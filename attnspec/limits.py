"""What a worker process may use before it is stopped."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Time and memory of one worker."""

    call: float = 120.0
    """Seconds for one call of the target."""
    memory: float = 0.0
    """GiB that a worker may hold; 0 leaves it to the machine."""
