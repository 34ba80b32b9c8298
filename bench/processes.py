"""How many processes a bench has, and how each of them computes."""

from __future__ import annotations

import argparse
import os


def one_thread() -> None:
    """torch in this process computes on one core: the arrays are small and the cores are taken."""
    import torch

    torch.set_num_threads(1)


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2


def positive(text: str) -> int:
    """A number of the command line, 1 or more."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return value
