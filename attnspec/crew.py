"""Worker processes in which targets run, so that one that ends or hangs costs a task and no run.

A watch looks at them ten times a second: it stops one that is too long in a call or uses too much
memory, and empties what one writes too much of. Whatever ends a process, the next takes its place.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import psutil
from pebble import ProcessExpired, ProcessPool

from attnspec import blackbox
from attnspec.limits import Limits
from attnspec.processes import end_with_parent, without_interrupts

if TYPE_CHECKING:
    from pebble import ProcessFuture

T = TypeVar("T")

TICK = 0.1
"""Seconds between two looks at the workers."""
RESERVE = 0.04
"""Share of the machine's memory below which the largest worker is stopped: the system would soon
stop one of its own choosing, not always a worker."""
GOODBYE = 10.0
"""Seconds that the workers have to end before they are made to."""
SICK = 77
"""Exit status of a worker that ends itself since its device answers with errors only."""
GIB = 1 << 30


@dataclass(frozen=True)
class End:
    """How and where a worker ended."""

    kind: str
    """`crashes`, `hangs` or `memory`."""
    says: str
    left: blackbox.Left


class Crew:
    """So many workers, for the time of a `with`. They start with the first task."""

    def __init__(self, workers: int, limits: Limits) -> None:
        self.limits = limits
        self.workers = workers
        self.folder = Path()
        self._stopped: dict[int, tuple[str, str]] = {}
        self._over = threading.Event()
        self._started = False

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="attnspec-"))
        self._pool = ProcessPool(
            self.workers,
            initializer=_begin,
            initargs=(self.folder,),
            # a forked process cannot use CUDA, and has locks in whatever state they were
            context=multiprocessing.get_context("spawn"),
        )
        self._watch = threading.Thread(target=self._watched, daemon=True)
        self._watch.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # whatever runs still is of no use to anybody
        with without_interrupts():
            self._pool.stop()  # type: ignore[no-untyped-call]  # pebble's
            with contextlib.suppress(TimeoutError):
                self._pool.join(timeout=GOODBYE)
            self._over.set()
            self._watch.join()
            for pid in self._workers():
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            shutil.rmtree(self.folder, ignore_errors=True)

    def submit(self, work: Callable[..., T], *arguments: Any) -> ProcessFuture[T]:
        """The future of a task. It raises `ProcessExpired` if the task's process ends."""
        if self._started:
            return self._pool.schedule(work, args=arguments)
        self._started = True
        # the workers start now, and inherit that Ctrl-C is not for them
        with without_interrupts():
            return self._pool.schedule(work, args=arguments)

    def end(self, error: ProcessExpired) -> End:
        """How the worker of a task ended, and what it left behind."""
        found = blackbox.left(self.folder, error.pid or 0)
        kind, says = self._stopped.get(error.pid or 0, ("crashes", ended_by(error.exitcode)))
        return End(kind, says, found)

    def _watched(self) -> None:
        while not self._over.wait(TICK):
            alive = {pid: held for pid in self._workers() if (held := _held(pid))}
            for pid, held in alive.items():
                # of one that has ended, the output says why
                blackbox.trim(self.folder, pid)
                seconds = blackbox.seconds_in_call(self.folder, pid)
                if seconds > self.limits.call:
                    self._stop(pid, "hangs", f"did not return within {self.limits.call:g} s")
                elif self.limits.memory and held > self.limits.memory * GIB:
                    self._stop(pid, "memory", f"used more than {self.limits.memory:g} GiB")
            machine = psutil.virtual_memory()
            if alive and machine.available < RESERVE * machine.total:
                pid = max(alive, key=lambda p: alive[p])
                used = f"used {alive[pid] / GIB:.1f} GiB, nearly all the memory that was left"
                self._stop(pid, "memory", used)

    def _workers(self) -> list[int]:
        """The workers that live and began. A number of one that ended may be another's by now."""
        here = {child.pid for child in psutil.Process().children()}
        began = (int(path.stem) for path in self.folder.glob(f"*{blackbox.CLOCK}"))
        return [pid for pid in began if pid in here]

    def _stop(self, pid: int, kind: str, says: str) -> None:
        self._stopped.setdefault(pid, (kind, f"{says}, and was stopped"))
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def ended_by(exit_status: int) -> str:
    """How a process ended, in words."""
    if exit_status == SICK:
        return "found a device that answers with errors only, in a new process too"
    if exit_status >= 0:
        return f"ended the process, with exit status {exit_status}"
    try:
        name = signal.Signals(-exit_status).name
    except ValueError:
        name = f"signal {-exit_status}"
    # nobody else sends this one
    why = ", as the system does when memory runs out" if name == "SIGKILL" else ""
    return f"ended the process, by {name}{why}"


def _held(pid: int) -> int:
    """Bytes of memory that a process holds; 0 once it is gone."""
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


def _begin(folder: Path) -> None:
    end_with_parent()
    blackbox.begin(folder)
