"""What is told about an exception of a target: what it says, and where in the target's code."""

from __future__ import annotations

import inspect
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

_OURS = str(Path(__file__).parent) + os.sep


def raised(error: BaseException, function: Callable[..., Any], way: str = "") -> str:
    """The exception that a call of `function` ended with, in one line. `way` tells on which way
    through it."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    place = location(error, code.co_filename if code else "")
    text = f"raised {type(error).__name__}{way}: {one_line(error)}"
    return f"{text} ({place})" if place else text


def location(error: BaseException, file: str = "") -> str:
    """Where in the target's code an exception came from: the deepest frame in `file`, or else
    the outermost one that isn't the suite's, nor an installed library's if there is another.
    Empty where there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [f for f in frames if file and f.filename == file]
    foreign = [f for f in frames if not _ours(f.filename)]
    if not inside and not foreign:
        return ""
    written_here = [f for f in foreign if "-packages" not in f.filename]
    frame = inside[-1] if inside else (written_here or foreign)[0]
    name = Path(frame.filename).name
    return f"{name}, line {frame.lineno}, in {frame.name}: {frame.line or '?'}"


def _ours(filename: str) -> bool:
    # built-in targets and faults lie inside our folder, but they are judged like any other
    return filename.startswith(_OURS) and not filename.startswith(_OURS + "impls")


def one_line(error: BaseException) -> str:
    """Its words, without line breaks and not too many."""
    return " ".join(str(error).split())[:300]
