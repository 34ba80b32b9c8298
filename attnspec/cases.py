"""Failing calls as data: one file for each, of safetensors, that says what was called and judged.

Nothing in such a file is code. Its arrays are the float64 values of the call, and its metadata are
JSON: target, law, dtype, device, seed, versions, and what else the call consists of.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import math
import os
import platform
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from attnspec import __version__
from attnspec.files import written
from attnspec.oracle.callee import as_plain, from_plain
from attnspec.oracle.components import COMPONENTS
from attnspec.oracle.family import LAYOUTS
from attnspec.oracle.law import Inputs
from attnspec.oracle.precision import INDEX_TYPES
from attnspec.outcome import Outcome, Run
from attnspec.target import DTYPES
from attnspec.usage import UsageError

FORMAT = 1
"""Of the metadata. A file of a later format is refused."""
KEY = "attnspec"
SUFFIX = ".safetensors"
_FIELDS = ("component", "dtype", "layout", "pattern", "signed", "seed")


@dataclass(frozen=True)
class Case:
    """One failing call, and what judged it."""

    target: str
    """The words by which the target was found; empty for an object from Python."""
    law: str
    dtype: str
    device: str
    inputs: Inputs
    seed: int = 0
    reason: str = ""
    """What was found, in one line."""
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of its file: the same failure of a later run takes its place."""
        path = Path(self.target)
        words = [path.name or "object", self.law, self.dtype, self.device]
        if len(path.parts) > 1:
            # files of one name in several folders are several targets
            words.insert(1, hashlib.blake2b(self.target.encode(), digest_size=3).hexdigest())
        return re.sub(r"[^\w.-]+", "_", "-".join(words)) + SUFFIX


def packed(inputs: Inputs, about: Mapping[str, Any] | None = None) -> bytes:
    """A call as the content of a file, with what else there is to say in JSON's types. Raises
    TypeError for an option that is no plain value."""
    told = {
        "format": FORMAT,
        "arrays": list(inputs.arrays),
        "call": {name: getattr(inputs, name) for name in _FIELDS},
        "options": _encoded(dict(inputs.options)),
        "numbers": dict(inputs.numbers),
        "callees": {name: as_plain(callee) for name, callee in inputs.callees.items()},
        "drawn": inputs.drawn.hex(),
        "about": dict(about or {}),
    }
    arrays = {name: np.array(values, order="C") for name, values in inputs.arrays.items()}
    return save(arrays, {KEY: json.dumps(told)})


def unpacked(content: bytes) -> tuple[Inputs, dict[str, Any]]:
    """The call, and what else is said. Raises ValueError for anything else than `packed` gives."""
    try:
        arrays = load(content)
        told = json.loads(_metadata(content)[KEY])
    except (SafetensorError, KeyError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
    try:
        if told["format"] != FORMAT:
            raise ValueError(f"it has format {told['format']}, and this version reads {FORMAT}")
        inputs = Inputs(
            arrays={name: arrays[name] for name in told["arrays"]},
            options=dict(_decoded(told["options"])),
            numbers={name: int(n) for name, n in told["numbers"].items()},
            callees={name: from_plain(c) for name, c in told["callees"].items()},
            drawn=bytes.fromhex(told["drawn"]),
            **{name: told["call"][name] for name in _FIELDS},
        )
        return inputs, dict(told["about"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"its metadata are not a call's: {error!r}") from error


def _metadata(content: bytes) -> dict[str, str]:
    length = int.from_bytes(content[:8], "little")
    return dict(json.loads(content[8 : 8 + length])["__metadata__"])


def stored(case: Case, folder: Path) -> Path:
    """Write a case into a folder, which is made if need be, and return its file. Raises
    UsageError if that cannot be written."""
    about = {
        "target": case.target,
        "law": case.law,
        "device": case.device,
        "seed": case.seed,
        "reason": case.reason,
        "versions": dict(case.versions),
    }
    _made(folder)
    path = folder / case.name
    written(path, packed(case.inputs, about))
    return path


def with_cases(run: Run, folder: Path) -> Run:
    """The run with each failing call stored in the folder, and its file told; or, where it cannot
    be written, the reason."""
    return replace(run, outcomes=tuple(_with_case(o, run, folder) for o in run.outcomes))


def _with_case(outcome: Outcome, run: Run, folder: Path) -> Outcome:
    if outcome.status not in ("fail", "known") or not outcome.call:
        return outcome
    inputs, _ = unpacked(outcome.call)
    place = (outcome.law, outcome.dtype, outcome.device)
    case = Case(run.given, *place, inputs, run.seed, outcome.reason, run.versions)
    try:
        path = stored(case, folder)
    except UsageError as error:
        # a full disk is no reason to lose what was found
        return replace(outcome, text=f"{outcome.text}\nThis call was not stored: {error}")
    command = shlex.join(["attnspec", "replay", str(path)])
    return replace(outcome, case_file=str(path), text=f"{outcome.text}\nThis call: {command}")


def check_folder(folder: Path) -> None:
    """Find out before a run that the folder of its cases cannot be made, or cannot be written
    into. Raises UsageError."""
    place = folder.absolute()
    while not place.exists() and place.parent != place:
        place = place.parent
    if not place.is_dir():
        raise UsageError(f"cannot make the folder {folder}: {place} is no folder")
    if not os.access(place, os.W_OK | os.X_OK):
        raise UsageError(f"cannot write into the folder {folder}: no permission for {place}")


def _made(folder: Path) -> None:
    if folder.is_dir():
        return
    try:
        folder.mkdir(parents=True)
        # version control leaves it alone, as it does caches
        (folder / ".gitignore").write_text("*\n", "utf-8")
    except OSError as error:
        raise UsageError(f"cannot make the folder {folder}: {error.strerror or error}") from error


def case_of(path: Path) -> Case:
    """The case in a file. Raises UsageError, saying what the file is, for any other."""
    try:
        inputs, about = unpacked(path.read_bytes())
        _check_call(inputs)
        words = [about[name] for name in ("target", "law", "device", "reason")]
        if not all(isinstance(word, str) for word in words):
            raise ValueError(f"its metadata are not a case's: {about}")
        target, law, device, reason = words
        seed, versions = int(about["seed"]), dict(about["versions"])
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"{path} is no stored case, or a damaged one: {' '.join(str(error).split())[:200]}. "
            f"`attnspec verify` writes them, with the suffix {SUFFIX}"
        ) from error
    return Case(target, law, inputs.dtype, device, inputs, seed, reason, versions)


def _check_call(inputs: Inputs) -> None:
    row = COMPONENTS.get(inputs.component)
    if row is None:
        raise ValueError(f"there is no component {inputs.component!r}")
    lacking = [name for name in (*row.arguments, *row.callees, *row.numbers)
               if name not in (*inputs.arrays, *inputs.callees, *inputs.numbers)]  # fmt: skip
    if lacking:
        raise ValueError(f"{row.name} needs {', '.join(lacking)}")
    if inputs.dtype not in (*DTYPES, *INDEX_TYPES) or inputs.layout not in LAYOUTS:
        raise ValueError(f"{inputs.dtype!r} in memory layout {inputs.layout!r} does not exist")


def versions_here(*distributions: str) -> dict[str, str]:
    """The versions that a failure may depend on."""
    found = {"attnspec": __version__, "python": platform.python_version()}
    for name in dict.fromkeys(("numpy", "torch", *distributions)):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _encoded(value: Any) -> Any:
    if isinstance(value, tuple):
        return {"tuple": [_encoded(item) for item in value]}
    if isinstance(value, dict):
        return {"dict": {name: _encoded(item) for name, item in value.items()}}
    if isinstance(value, float) and not math.isfinite(value):
        # JSON has no word for it
        return {"float": repr(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"{value!r} is no plain value, and cannot be stored")


def _decoded(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, held),) = value.items()
    if kind == "tuple":
        return tuple(_decoded(item) for item in held)
    if kind == "dict":
        return {name: _decoded(item) for name, item in held.items()}
    return float(held)
