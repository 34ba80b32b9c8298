"""Pools of worker processes that end quietly and at once when they must."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


@contextmanager
def results(
    work: Callable[..., T],
    calls: Sequence[tuple[Any, ...]],
    workers: int,
    start: Callable[..., object],
    arguments: tuple[Any, ...] = (),
) -> Iterator[list[Future[T]]]:
    """The futures of `work` on each of the calls, in their order. Each process first calls
    `start`. If the block is left by an exception, the processes are ended, whatever they do; and
    they end if this process is killed.

    Processes are spawned: a forked one cannot use CUDA, and copies locks in whatever state they
    are.
    """
    spawn = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(
        workers, mp_context=spawn, initializer=_started, initargs=(start, arguments)
    ) as pool:
        with without_interrupts():
            futures = [pool.submit(work, *call) for call in calls]
        try:
            yield futures
        except BaseException:
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()
            raise


def _started(start: Callable[..., object], arguments: tuple[Any, ...]) -> None:
    end_with_parent()
    start(*arguments)


def end_with_parent() -> None:
    """Let this process end when its parent is killed: nothing else ends one that waits for
    work."""
    threading.Thread(target=_wait_for_parent, daemon=True).start()


def _wait_for_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Ctrl-C is for the process that prints: one that starts meanwhile inherits that it is
    ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
