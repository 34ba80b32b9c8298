"""Two failures of a layout with links are silent, so both are looked for: a wheel without the
linked folders, and a wheel that works only where the repository lies beside it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import numpy as np
import pytest

import attnspec

ROOT = Path(__file__).resolve().parents[1]
LINKED = ("spec", "oracle", "impls")
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")

pytestmark = pytest.mark.slow


def tracked() -> list[str]:
    """Every file that git knows in this checkout, links as themselves; without git, a skip."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("needs a git checkout: the wheel is compared with the tracked files")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return [name for name in listed.stdout.split("\0") if name and _exists(ROOT / name)]


def _exists(path: Path) -> bool:
    return path.exists() or path.is_symlink()


def run(*command: str, cwd: Path) -> str:
    """What a command printed. A failure shows all of it."""
    finished = subprocess.run(
        command,
        cwd=cwd,
        env={"PATH": "/usr/bin:/bin", "HOME": str(cwd)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, f"{' '.join(command)}\n{finished.stdout}\n{finished.stderr}"
    return finished.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a copy of the tracked files: building leaves nothing in the checkout, and
    finds nothing there that git does not know."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in tracked():
        copy = source / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy, follow_symlinks=False)
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(built))
    run(*PIP, "wheel", *options, str(source), cwd=source)
    (found,) = built.glob("attnspec-*.whl")
    return found


def test_the_version_is_the_projects() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert attnspec.__version__ == settings["project"]["version"]


def test_the_folders_are_links() -> None:
    for name in LINKED:
        link = ROOT / "attnspec" / name
        assert link.is_symlink(), (
            f"attnspec/{name} is no link: git was told to make none (core.symlinks)"
        )
        assert link.resolve() == ROOT / name


def test_the_wheel_holds_the_tracked_modules_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        members = {name for name in archive.namelist() if ".dist-info/" not in name}
    own = {name for name in tracked() if name.startswith("attnspec/") and name.endswith(".py")}
    linked = {
        f"attnspec/{name}"
        for name in tracked()
        if name.split("/")[0] in LINKED and name.endswith(".py")
    }
    pages = ("attnspec/docs/templates/", "attnspec/docs/assets/")
    site = {name for name in tracked() if name.startswith(pages)}
    data = {"attnspec/py.typed", "attnspec/report.schema.json"}
    assert members == own | linked | site | data


def test_the_wheel_works_beside_folders_of_the_same_names(wheel: Path, tmp_path: Path) -> None:
    environment, project = tmp_path / "environment", tmp_path / "project"
    for name in (*LINKED, "tests"):
        (project / name).mkdir(parents=True)
        (project / name / "__init__.py").write_text(f"raise ImportError('the decoy {name}')\n")
    venv.create(environment, with_pip=False)
    python = str(environment / "bin" / "python")
    run(*PIP, "--python", python, "install", "--no-deps", "--no-index", str(wheel), cwd=project)
    # the dependencies come from the environment of this test; its own .pth files, one of which
    # leads to the checkout, are not read there
    installed = next(environment.glob("lib/python*/site-packages"))
    (installed / "dependencies.pth").write_text(f"{Path(np.__file__).parents[1]}\n")

    script = (
        "import attnspec.spec, attnspec.oracle, attnspec.impls.faults.table\n"
        "for package in (attnspec, attnspec.spec, attnspec.oracle, attnspec.impls):\n"
        "    print(package.__file__)\n"
        "print(len(attnspec.spec.CLAIMS) * len(attnspec.oracle.LAWS)"
        " * len(attnspec.impls.faults.table.FAULTS) > 0)\n"
    )
    *files, tables = run(python, "-c", script, cwd=project).splitlines()
    assert all(Path(file).is_relative_to(installed) for file in files), files
    assert tables == "True", "a table of the installed package is empty"
    assert "torch.functional" in run(python, "-m", "attnspec", "targets", cwd=project)
