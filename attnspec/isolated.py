"""The tasks of a run in worker processes: whatever a target does to its process costs a law."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from pathlib import Path

from pebble import ProcessExpired

from attnspec import blackbox
from attnspec.cases import packed
from attnspec.crew import SICK, Crew, End
from attnspec.driving import Effort, outcome_of
from attnspec.judging import Judgement
from attnspec.loading import Loaded, load
from attnspec.made import Made
from attnspec.message import failure_text, repeat_command
from attnspec.oracle.law import Breach, Law
from attnspec.outcome import Outcome
from attnspec.usage import UsageError

HANGS = 2
"""Laws in which calls of a component hang before the others of that component are left out: each
costs the whole time of a call."""
INTERRUPTED = 130
"""Exit status of a process that Ctrl-C ends, by the custom of shells."""
LOADING = 300.0
"""Seconds that importing a target may take beyond those of a call: libraries take long to load
on a busy machine, and to import one is no call."""
LINES = 12
"""Lines of a process' last output that a message shows."""


_OURS = f'File "{Path(__file__).parent}{os.sep}'


@dataclass(frozen=True)
class Task:
    """One law on one dtype and device: a unit of work that crosses processes."""

    law: str
    dtype: str
    device: str

    @property
    def component(self) -> str:
        return self.law.partition(".")[0]

    def left_out(self, reason: str) -> Outcome:
        """Its outcome where it was not run."""
        return Outcome(
            self.law, self.component, self.dtype, self.device, "not-tested", reason=reason
        )


class OutOfTime(Exception):
    """The time of the run is over."""


def outcomes(
    loaded: Loaded, tasks: Sequence[Task], effort: Effort, crew: Crew, laws: Sequence[Law],
    deadline: float | None = None,
) -> Iterator[Outcome]:  # fmt: skip
    """The outcome of each task, in their order, each as it comes. Raises OutOfTime once the
    monotonic clock is past the deadline."""
    by_id = {law.id: law for law in laws}
    futures = [crew.submit(_work, loaded.given, task, effort) for task in tasks]
    hung: Counter[str] = Counter()
    again: set[int] = set()
    position = 0
    while position < len(tasks):
        task, future = tasks[position], futures[position]
        try:
            yield future.result(timeout=remaining(deadline))
        except TimeoutError as error:
            if future.done():
                raise
            raise OutOfTime from error
        except CancelledError:
            count = hung[task.component]
            yield task.left_out(f"not run: calls of {task.component} hung in {count} laws before")
        except ProcessExpired as error:
            if error.exitcode == SICK and position not in again:
                # what made the device sick was told with an earlier law
                again.add(position)
                futures[position] = crew.submit(_work, loaded.given, task, effort)
                continue
            end = crew.end(error)
            yield _outcome(loaded, by_id[task.law], task, effort, end)
            hung[task.component] += end.kind == "hangs"
            if hung[task.component] == HANGS:
                for other, later in zip(tasks[position:], futures[position:], strict=True):
                    if other.component == task.component:
                        later.cancel()  # type: ignore[no-untyped-call]  # pebble's
        position += 1


def remaining(deadline: float | None) -> float | None:
    """Seconds until then, 0 or more."""
    return None if deadline is None else max(0.0, deadline - time.monotonic())


_LOADED: dict[str, Loaded] = {}


def loaded_here(given: str) -> Loaded:
    """The target, loaded once in each worker."""
    if given not in _LOADED:
        with blackbox.running(LOADING):
            _LOADED[given] = load(given)
    return _LOADED[given]


def tried(given: str) -> None:
    """Load the target in a worker. What it says of a wrong one, it says again elsewhere."""
    with contextlib.suppress(UsageError):
        loaded_here(given)


def _work(given: str, task: Task, effort: Effort) -> Outcome:
    from attnspec.oracle import LAWS

    if task.device != "cpu" and _sick(task.device):
        os._exit(SICK)
    law = next(law for law in LAWS if law.id == task.law)
    try:
        return outcome_of(law, loaded_here(given), task.dtype, task.device, effort)
    except KeyboardInterrupt:
        # Ctrl-C is ignored here: it is the target that raised it
        os._exit(INTERRUPTED)


def _sick(device: str) -> bool:
    """Whether an earlier call left the device in an error that only a new process ends."""
    import torch

    try:
        torch.cuda.synchronize(device)
    except RuntimeError:
        return True
    return False


def last_lines(output: str) -> list[str]:
    """What a process wrote last, or of a fatal signal what was struck and where in the target."""
    lines = [line for line in output.splitlines() if line.strip()]
    fatal = [at for at, line in enumerate(lines) if line.startswith("Fatal Python error")]
    if not fatal:
        return lines[-LINES:]
    # the innermost frame comes first; the suite's own, and what follows, tell nothing
    struck = itertools.takewhile(_foreign, lines[fatal[-1] :])
    return list(struck)[:LINES]


def _foreign(line: str) -> bool:
    # built-in targets lie inside our folder, but they are judged like any other
    return _OURS not in line or f"{_OURS}impls{os.sep}" in line


def _outcome(loaded: Loaded, law: Law, task: Task, effort: Effort, end: End) -> Outcome:
    """A failure, with the call in which the process ended."""
    command = repeat_command(
        loaded.given, law.id, task.dtype, device=task.device, seed=effort.seed,
        examples=effort.examples, tier=effort.tier,
    )  # fmt: skip
    blank = Outcome(task.law, task.component, task.dtype, task.device, "fail", reason=end.says)
    last = "".join(f"\n    {line}" for line in last_lines(end.left.output))
    told = f"\nLast output:{last}" if last else ""
    inputs = end.left.inputs
    if inputs is None or end.left.running <= 0.0:
        text = f"{law.id}: {law.says}\nIt {end.says}, outside of its calls.{told}\nAgain: {command}"
        return replace(blank, text=text)
    arrays = loaded.declaration.arrays
    judgement = Judgement(breach=Breach(end.kind, end.says))
    text = failure_text(law, inputs, judgement, (), command, arrays=arrays)
    head, _, again = text.rpartition("\nAgain: ")
    return replace(
        blank,
        examples=1,
        failing=1,
        text=f"{head}{told}\nAgain: {again}",
        case=Made(inputs).code(arrays),
        call=packed(inputs),
    )
