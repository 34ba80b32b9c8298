"""Reports for machines: the contract's JSON object and JUnit's XML, written atomically."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from attnspec.outcome import Outcome, Run
from attnspec.usage import UsageError


def as_json(run: Run) -> dict[str, Any]:
    """The object that the contract describes, with what this version knows besides."""
    return {
        "target": run.target,
        "version": run.version,
        "seed": run.seed,
        "tier": run.tier,
        "verdict": run.verdict,
        "interrupted": run.interrupted,
        "settings": dict(run.settings),
        "laws": [_law(outcome) for outcome in run.outcomes],
        "not_tested": [
            {"component": u.component, "option": u.option, "reason": u.reason} for u in run.untested
        ],
        "known_problems": list(run.problems),
    }


def _law(outcome: Outcome) -> dict[str, Any]:
    return {
        "id": outcome.law,
        "component": outcome.component,
        "dtype": outcome.dtype,
        "device": outcome.device,
        "status": outcome.status,
        "examples": outcome.examples,
        "failing": outcome.failing,
        "worst_ratio": _number(outcome.ratio),
        "diagnosis": list(outcome.diagnosis),
        "reason": outcome.reason or None,
        "case": outcome.case or None,
        "case_file": outcome.case_file or None,
        "preset": outcome.preset or None,
        "guarantee": outcome.guarantee or None,
        "held": outcome.held,
        "watched": outcome.watched,
        "declined": outcome.declined,
        "known": outcome.known or None,
    }


def _number(ratio: float | None) -> float | None:
    # JSON has no infinity, which is the ratio where the same bits are due
    return ratio if ratio is None else min(ratio, sys.float_info.max)


def as_junit(runs: Sequence[Run]) -> str:
    """One suite a target, one case a law, dtype and device."""
    root = ET.Element("testsuites", name="attnspec")
    for run in runs:
        counts = {
            "tests": len(run.outcomes),
            "failures": sum(o.status == "fail" for o in run.outcomes),
            "errors": sum(bool(o.error) for o in run.outcomes),
            "skipped": sum(
                o.status in ("not-tested", "known") and not o.error for o in run.outcomes
            ),
        }
        counts["tests"] += len(run.problems)
        counts["failures"] += len(run.problems)
        attributes = {name: str(count) for name, count in counts.items()}
        suite = ET.SubElement(root, "testsuite", {"name": run.target, **attributes})
        for outcome in run.outcomes:
            _case(suite, run.target, outcome)
        for problem in run.problems:
            case = ET.SubElement(suite, "testcase", name=problem, classname=f"{run.target}.known")
            ET.SubElement(case, "failure", message=_plain(problem))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ET.Element, target: str, outcome: Outcome) -> None:
    name = f"{outcome.law}[{outcome.dtype}-{outcome.device}]"
    classname = f"{target}.{outcome.component}"
    case = ET.SubElement(suite, "testcase", name=name, classname=classname)
    if outcome.error:
        ET.SubElement(case, "error", message=_plain(outcome.error))
    elif outcome.status == "fail":
        failure = ET.SubElement(case, "failure", message=_plain(outcome.reason))
        failure.text = _plain(outcome.text or outcome.reason)
    elif outcome.status == "known":
        ET.SubElement(case, "skipped", message=_plain(f"known to fail: {outcome.known}"))
    elif outcome.status == "not-tested":
        ET.SubElement(case, "skipped", message=_plain(outcome.reason))


def _plain(text: str) -> str:
    # XML 1.0 has no way to write most control characters
    return "".join(
        c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text
    )


def written(path: Path, content: str | bytes) -> None:
    """Write a file so that a reader sees the old file or the whole new one. A device or a pipe
    is written into. Raises UsageError if the place cannot be written."""
    held = content.encode() if isinstance(content, str) else content
    try:
        if _is_stream(path):
            path.write_bytes(held)
            return
        path = _place(path)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(held)
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error


def check_writable(path: Path) -> None:
    """Find out before a run, not after it, that a report cannot be written. Raises UsageError."""
    try:
        if path.is_dir():
            raise UsageError(f"cannot write {path}: it is a directory")
        place = _place(path)
        if not place.parent.is_dir():
            raise UsageError(f"cannot write {path}: there is no directory {place.parent}")
        if not _is_stream(path):
            handle, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
            os.close(handle)
            Path(name).unlink()
        if path.exists() and not os.access(path, os.W_OK):
            raise UsageError(f"cannot write {path}: permission denied")
    except (OSError, RuntimeError) as error:  # RuntimeError: a link that leads to itself
        raise UsageError(
            f"cannot write {path}: {getattr(error, 'strerror', '') or error}"
        ) from error


def _place(path: Path) -> Path:
    """Where the file is that a path means: a link stays, and what it leads to is replaced."""
    return path.resolve() if path.is_symlink() else path


def _is_stream(path: Path) -> bool:
    """A device or a pipe, such as /dev/null: a file must not be put in its place."""
    return path.exists() and not path.is_file()


def json_text(content: object) -> str:
    """JSON as it is written: indented, in a fixed order, with no number that JSON lacks."""
    return json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
