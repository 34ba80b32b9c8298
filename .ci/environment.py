"""Makes `.venv`: everything that the Makefile's targets need, at the versions of constraints.txt.

A stamp says that the environment is whole and what it was made from. It is written last and
removed first, so an interrupted set-up is never taken for a finished one; a lock lets one of
several makes do the work while the others wait. Runs before anything is installed, so it uses the
standard library only, and up to the check of the version nothing newer than Python 3.6.
"""

import sys

if sys.version_info < (3, 11):
    sys.exit(
        "attnspec needs Python 3.11 or later, and `{}` is {}.{}: name another, as in "
        "`make PYTHON=python3.12 verify`".format(sys.executable, *sys.version_info[:2])
    )

import hashlib
import json
import shutil
import subprocess
import tomllib
import venv
from pathlib import Path

try:
    import fcntl
except ImportError:
    sys.exit("the Makefile runs on Linux, macOS and WSL; elsewhere use pip, see CONTRIBUTING.md")

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
STAMP = VENV / "stamp"
CONSTRAINTS = ROOT / "constraints.txt"
PYTHON = VENV / "bin" / "python"


def fingerprint() -> str:
    """A digest of all that decides what is installed: the interpreter, the project's own
    dependencies (not the settings of tools), the constraints, and where the environment lies."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    parts = [
        sys.version,
        str(VENV),
        json.dumps([settings["build-system"], settings["project"]]),
        CONSTRAINTS.read_text("utf-8"),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def is_whole(wanted: str) -> bool:
    """Whether the environment is there, finished, and made from `wanted`."""
    return STAMP.is_file() and STAMP.read_text("utf-8") == wanted and PYTHON.exists()


def install(*arguments: str) -> None:
    """One call of the environment's pip, under the constraints. Exits with pip's status if that
    isn't 0."""
    command = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    finished = subprocess.run([*command, "-c", str(CONSTRAINTS), *arguments], cwd=ROOT, check=False)
    if finished.returncode:
        sys.exit(finished.returncode)


def main() -> None:
    """Make the environment unless it is whole already."""
    with (ROOT / ".venv.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = fingerprint()
        if not is_whole(wanted):
            print(f"making .venv with Python {sys.version.split()[0]}; this takes minutes, once")
            STAMP.unlink(missing_ok=True)
            if VENV.exists():
                shutil.rmtree(VENV)
            venv.create(VENV, with_pip=True)
            # setuptools first and no build isolation: an isolated build ignores the constraints
            install("setuptools")
            install("--no-build-isolation", "--editable", ".[dev]")
        # written even when whole: make compares its age with pyproject.toml's
        STAMP.write_text(wanted, "utf-8")


if __name__ == "__main__":
    main()
