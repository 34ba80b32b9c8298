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
        with _without_interrupts():
            futures = [pool.submit(work, *call) for call in calls]
        try:
            yield futures
        except BaseException:
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()
            raise


def _started(start: Callable[..., object], arguments: tuple[Any, ...]) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    start(*arguments)


def _end_with_parent() -> None:
    # nothing else ends a process that waits for work when its parent was killed
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    # a process inherits what is ignored when it starts: Ctrl-C is for the one that prints
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
