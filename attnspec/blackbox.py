"""What a worker process leaves behind of the call that it was in, should it end there.

In the folder of its crew each worker has three files, named after its process: the call as it is
about to be made, since when it runs, and what was written to the terminal. Another process can
read them at any time.
"""

from __future__ import annotations

import contextlib
import faulthandler
import mmap
import os
import struct
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from attnspec.cases import packed, unpacked
from attnspec.oracle.law import Inputs

CALL, CLOCK, OUTPUT = ".call", ".clock", ".output"
MOST_OUTPUT = 1 << 20
"""Bytes that a worker's output may grow to before it is emptied."""
TAIL = 40_000
"""Characters of the output that are read of a process that ended: of a fatal signal Python writes
a long list of modules below the place where it struck."""
_IDLE = 0.0


@dataclass
class _Box:
    call: BinaryIO
    clock: mmap.mmap
    output: BinaryIO
    since: float = _IDLE


_BOXES: list[_Box] = []


def begin(folder: Path) -> None:
    """Keep the files of this process from now on, and send there what it writes to the terminal:
    also what a library writes past Python, and where a fatal signal struck."""
    mine = folder / str(os.getpid())
    call = mine.with_suffix(CALL).open("wb", buffering=0)
    output = mine.with_suffix(OUTPUT).open("ab", buffering=0)
    mine.with_suffix(CLOCK).write_bytes(struct.pack("d", _IDLE))
    with mine.with_suffix(CLOCK).open("r+b") as file:
        clock = mmap.mmap(file.fileno(), 8)
    for stream in (1, 2):
        os.dup2(output.fileno(), stream)
    faulthandler.enable(output, all_threads=False)
    _BOXES[:] = [_Box(call, clock, output)]


def note(inputs: Inputs) -> None:
    """Write down the call that is about to be made."""
    if not _BOXES:
        return
    try:
        content = packed(inputs)
    except TypeError:
        content = b""
    file = _BOXES[0].call
    # the length comes last, so that a half written call is not taken for a whole one
    os.pwrite(file.fileno(), bytes(8), 0)
    os.pwrite(file.fileno(), content, 8)
    os.pwrite(file.fileno(), struct.pack("q", len(content)), 0)


@contextlib.contextmanager
def running(grace: float = 0.0) -> Iterator[None]:
    """A call of the target: the clock runs, from `grace` seconds on, and its warnings are ignored,
    which are errors for the suite's own code and tests."""
    _set(time.monotonic() + grace)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        _set(_IDLE)


def _set(moment: float) -> None:
    if _BOXES:
        _BOXES[0].clock[:8] = struct.pack("d", moment)


@dataclass(frozen=True)
class Left:
    """What a worker left behind."""

    inputs: Inputs | None
    """The call that it was in, or had made last."""
    running: float
    """Seconds since the call began; 0 where it was in none."""
    output: str
    """The end of what it wrote to the terminal."""


def seconds_in_call(folder: Path, pid: int) -> float:
    """For how long a worker has been in a call of the target; 0 where it is in none, less while
    its time does not count."""
    try:
        content = (folder / str(pid)).with_suffix(CLOCK).read_bytes()
        (since,) = struct.unpack("d", content)
    except (OSError, struct.error):
        return 0.0
    return time.monotonic() - since if since != _IDLE else 0.0


def left(folder: Path, pid: int) -> Left:
    """What the worker left behind; nothing of one that never began."""
    mine = folder / str(pid)
    inputs = None
    with contextlib.suppress(OSError, struct.error, ValueError):
        content = mine.with_suffix(CALL).read_bytes()
        (length,) = struct.unpack("q", content[:8])
        inputs = unpacked(content[8 : 8 + length])[0]
    output = ""
    with contextlib.suppress(OSError):
        output = mine.with_suffix(OUTPUT).read_bytes().decode("utf-8", "replace")[-TAIL:]
    return Left(inputs, seconds_in_call(folder, pid), output)


def trim(folder: Path, pid: int) -> None:
    """Empty the output of a worker that writes too much."""
    path = (folder / str(pid)).with_suffix(OUTPUT)
    with contextlib.suppress(OSError):
        if path.stat().st_size > MOST_OUTPUT:
            os.truncate(path, 0)
