"""Where a site is written: whole or not at all, and never over what is not a site of ours."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attnspec.usage import UsageError

MARKER = "attnspec-site.json"
"""The file by which a site of ours is known: it lists what was written."""


def check_place(directory: Path) -> None:
    """Find out before the work that a site can be written there, by an absolute path. Raises
    UsageError."""
    _check_ours(directory)
    if not directory.parent.is_dir():
        raise UsageError(f"cannot write {directory}: there is no directory {directory.parent}")
    try:
        _beside(directory).rmdir()
    except OSError as error:
        raise UsageError(f"cannot write {directory}: {error.strerror or error}") from error
    if directory.exists() and not os.access(directory, os.W_OK):
        raise UsageError(f"cannot write {directory}: permission denied")


def _check_ours(directory: Path) -> None:
    """A directory that isn't there, is empty, or holds a site of ours and nothing else."""
    try:
        # a name that no file can have raises here already
        directory.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"cannot write {directory}: {error.strerror or error}") from error
    if directory.is_symlink() or not directory.is_dir():
        raise UsageError(f"cannot write {directory}: it is there already, and is no directory")
    try:
        there = {entry.name for entry in directory.iterdir()}
        known = set(_files(directory)) if MARKER in there else set()
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot write {directory}: {error}") from error
    foreign = sorted(there - known - {MARKER})
    if not foreign:
        return
    more = f" and {len(foreign) - 1} more" if len(foreign) > 1 else ""
    raise UsageError(
        f"cannot write {directory}: it holds {foreign[0]}{more}, which no earlier site put there; "
        "give a new directory, or one that such a site is in"
    )


def _files(directory: Path) -> list[str]:
    """What an earlier site wrote. Raises ValueError for a marker that isn't one."""
    content = json.loads((directory / MARKER).read_text("utf-8"))
    files = content.get("files") if isinstance(content, dict) else None
    if not isinstance(files, list) or content.get("written by") != "attnspec docs":
        raise ValueError(f"{MARKER} in it is not ours")
    return [str(name) for name in files]


@contextmanager
def replaced(directory: Path, version: str) -> Iterator[Path]:
    """A folder to build in. When the block ends well, it takes the place of `directory`; else it
    is removed. Raises UsageError where that cannot be done."""
    try:
        built = _beside(directory)
        try:
            yield built
            names = sorted(entry.name for entry in built.iterdir())
            content = {"written by": "attnspec docs", "version": version, "files": names}
            (built / MARKER).write_text(json.dumps(content, indent=2) + "\n", "utf-8")
            built.chmod(0o755)
            _check_ours(directory)
            _swapped(built, directory)
        finally:
            shutil.rmtree(built, ignore_errors=True)
    except OSError as error:
        raise UsageError(f"cannot write {directory}: {error.strerror or error}") from error


def _beside(directory: Path) -> Path:
    """A new folder beside a directory, so that one can take the other's place in one step."""
    return Path(tempfile.mkdtemp(dir=directory.parent, prefix=f".{directory.name}."))


def _swapped(built: Path, directory: Path) -> None:
    """The new folder in the place of the old one, which comes back if that fails."""
    if not directory.exists():
        built.rename(directory)
        return
    old = _beside(directory)
    try:
        directory.rename(old)
    except OSError:
        old.rmdir()
        raise
    try:
        built.rename(directory)
    except OSError:
        old.rename(directory)
        raise
    shutil.rmtree(old, ignore_errors=True)
