"""What docstrings and comments refer to by id: a claim, law, mistake, convention or definition that
is renamed or gone would leave a text behind that nobody can look up."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from attnspec.docs.content import register
from attnspec.oracle.conventions import CONVENTIONS
from attnspec.register import component_of

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = re.compile(r"`([a-z0-9_]+\.[a-z0-9_]+)`")


def known() -> set[str]:
    """Every id that there is."""
    table = register()
    ids = {claim.id for claim in table.claims} | {law.id for law in table.laws}
    ids |= {fault.id for fault in table.faults} | {d.name for d in table.definitions}
    return ids | set(CONVENTIONS)


def references(text: str, components: set[str]) -> Iterator[str]:
    """The ids in backticks, of components that there are."""
    yield from (name for name in REFERENCE.findall(text) if component_of(name) in components)


def test_ids_in_docstrings_exist() -> None:
    ids = known()
    components = {component_of(name) for name in ids}
    given = {
        (path.relative_to(ROOT), name)
        for folder in ("spec", "oracle", "impls", "attnspec")
        for path in (ROOT / folder).rglob("*.py")
        if not path.is_symlink()
        for name in references(path.read_text("utf-8"), components)
    }
    assert given, "no docstring refers to anything"
    assert sorted(f"{path} names {name}" for path, name in given if name not in ids) == []


def test_an_id_that_does_not_exist_is_found() -> None:
    text = "As the claim `softmax.no_such` says, and `softmax.shift_invariance`; see `x.y`."
    names = list(references(text, {"softmax"}))
    assert names == ["softmax.no_such", "softmax.shift_invariance"]
    assert [name for name in names if name not in known()] == ["softmax.no_such"]
