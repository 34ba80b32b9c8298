"""What the search looks through: a list that is written as a script, since a page that was opened
from a file may not fetch one."""

from __future__ import annotations

import json
from collections.abc import Sequence

from attnspec.docs.content import Component, Register
from attnspec.docs.pages import place


def entries(table: Register, shown: Sequence[Component]) -> list[dict[str, str]]:
    """One entry for each component, claim, law and mistake: what it is, where it stands, the words
    by which it is found."""
    found = [
        {"kind": "component", "id": c.name, "url": f"{c.name}.html", "text": c.about} for c in shown
    ]
    words: tuple[str, ...]
    for claim in table.claims:
        words = (claim.number, claim.verdict, claim.statement, claim.truth, claim.source.says)
        found.append(_entry("claim", claim.id, place(claim), words))
    found += [_entry("law", law.id, place(law), (law.says, law.means)) for law in table.laws]
    for fault in table.faults:
        words = (fault.reason, fault.remedy, fault.report)
        found.append(_entry("mistake", fault.id, place(fault), words))
    return found


def script(table: Register, shown: Sequence[Component]) -> str:
    """The list as a script that leaves it where the page's own finds it."""
    rows = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries(table, shown))
    return f"window.attnspecIndex = [\n{rows}\n];\n"


def _entry(kind: str, id: str, url: str, words: tuple[str, ...]) -> dict[str, str]:
    return {"kind": kind, "id": id, "url": url, "text": " ".join(w for w in words if w)}
