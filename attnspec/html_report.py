"""One HTML file of what runs found, which needs nothing beside it. Needs the extra `docs`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from types import MappingProxyType

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from attnspec import __version__
from attnspec.outcome import Outcome, Run
from attnspec.report import most_telling, untested_by_reason, verdict_text
from attnspec.report_pictures import elements_picture, ratios_picture

WORDS = {
    "conforms": "conforms",
    "fails": "does not conform",
    "not-judged": "could not be judged",
}


@dataclass(frozen=True)
class Cell:
    """One component on one dtype and device."""

    status: str
    text: str


@dataclass(frozen=True)
class Failure:
    """What fails of one component: the most telling failure, and the others."""

    first: Outcome
    others: Sequence[Outcome] = field(default=())
    picture: Markup = field(default=Markup())


def as_html(runs: Sequence[Run], skipped: Mapping[str, str] = MappingProxyType({})) -> str:
    """The report of these runs, and of targets that were not run."""
    environment = Environment(
        loader=PackageLoader("attnspec.docs"), autoescape=True, undefined=StrictUndefined
    )
    places = {id(run): f"target-{number}" for number, run in enumerate(runs, 1)}
    environment.globals.update(
        anchor=lambda run: places[id(run)],
        places=_places,
        table=lambda run: list(_table(run)),
        failures=lambda run: list(_failures(run, places[id(run)])),
        components=lambda run: list(_components(run, places[id(run)])),
        untested=lambda run: list(untested_by_reason(run).items()),
        verdict_text=verdict_text,
        words=WORDS,
    )
    template = environment.get_template("report.html")
    text = template.render(runs=runs, skipped=skipped, version=__version__, style=_style())
    # form feeds and the like may stand in what a target says; HTML has no place for them
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", "\N{REPLACEMENT CHARACTER}", text)


def _style() -> Markup:
    assets = files("attnspec.docs") / "assets"
    sheets = [(assets / name).read_text("utf-8") for name in ("style.css", "report.css")]
    return Markup("\n".join(sheets))


def _places(run: Run) -> list[str]:
    devices = {outcome.device for outcome in run.outcomes}
    return list(dict.fromkeys(_place(o, len(devices) > 1) for o in run.outcomes))


def _place(outcome: Outcome, several: bool) -> str:
    return f"{outcome.dtype}, {outcome.device}" if several else outcome.dtype


def _by_component(run: Run) -> dict[str, list[Outcome]]:
    found: dict[str, list[Outcome]] = {}
    for outcome in run.outcomes:
        found.setdefault(outcome.component, []).append(outcome)
    return found


def _table(run: Run) -> Iterator[tuple[str, list[Cell]]]:
    several = len({outcome.device for outcome in run.outcomes}) > 1
    for component, outcomes in _by_component(run).items():
        yield (
            component,
            [_cell([o for o in outcomes if _place(o, several) == place]) for place in _places(run)],
        )


def _cell(outcomes: Sequence[Outcome]) -> Cell:
    count = {s: sum(o.status == s for o in outcomes) for s in ("pass", "fail", "known")}
    if not any(count.values()):
        return Cell("not-tested", "not tested" if outcomes else "")
    ratios = [o.ratio for o in outcomes if o.ratio is not None and o.status != "not-tested"]
    parts = [f"{number} {status}" for status, number in count.items() if number]
    worst = f", worst {max(ratios):.2g}" if ratios and math.isfinite(max(ratios)) else ""
    status = next(s for s in ("fail", "known", "pass") if count[s])
    return Cell(status, ", ".join(parts) + worst)


def _failures(run: Run, anchor: str) -> Iterator[Failure]:
    for component, outcomes in _by_component(run).items():
        failed = [o for o in outcomes if o.status == "fail"]
        if not failed:
            continue
        first = most_telling(failed)
        picture = Markup()
        if first.elements is not None:
            picture = Markup(elements_picture(first.elements, f"{anchor}-{component}-where"))
        yield Failure(first, [o for o in failed if o is not first], picture)


def _components(run: Run, anchor: str) -> Iterator[tuple[str, list[Outcome], Markup]]:
    for component, outcomes in _by_component(run).items():
        picture = Markup(ratios_picture(outcomes, f"{anchor}-{component}-ratios"))
        yield component, outcomes, picture
