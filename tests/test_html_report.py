"""The HTML report: what it says, that it stands alone, and how a browser shows it."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from justhtml import JustHTML

from attnspec import verifying
from attnspec.cli import main
from attnspec.elements import CEILING, MOST, SIDE, elements_of
from attnspec.html_report import as_html
from attnspec.judging import Judgement
from attnspec.oracle.comparison import Comparison, verdict
from attnspec.oracle.law import Breach
from attnspec.outcome import Outcome, Run, Untested
from tests.browser import console, opened, sized
from tests.stubs import outcome, wrong


def judgement(actual: Any, expected: Any, allowance: Any) -> Judgement:
    comparison = Comparison("output", actual, expected, allowance, "float32")
    return Judgement((comparison,), (verdict(comparison),))


def a_run(*outcomes: Outcome, **fields: Any) -> Run:
    plain: dict[str, Any] = {"settings": {"cpu": "x86_64"}}
    return Run("mine", "1", 3, "full", outcomes, **(plain | fields))


def test_what_the_elements_of_a_comparison_look_like() -> None:
    expected = np.ones((2, 3, 4))
    actual = expected.copy()
    actual[1, 2, 3], actual[0, 0, 0], actual[0, 1, 1] = 3.0, 1.25, np.nan
    found = elements_of(judgement(actual, expected, np.full((2, 3, 4), 0.0625)))
    assert found is not None
    assert (found.what, found.shape) == ("output", (2, 3, 4))
    assert (found.errors, found.allowances) == ((0.25, 2.0), (0.0625, 0.0625))
    assert round(found.map[2][3]) == 32
    assert round(found.map[0][0]) == 4
    assert found.map[1][1] == CEILING
    assert len(found.map) == 3


def test_where_the_same_bits_are_due() -> None:
    found = elements_of(judgement(np.array([1.0, 2.0]), np.array([1.0, 1.0]), None))
    assert found is not None
    assert (found.errors, found.allowances, found.map) == ((1.0,), (0.0,), ((0.0, CEILING),))


def test_large_results_are_kept_short() -> None:
    size = (3, 500, 300)
    found = elements_of(judgement(np.ones(size), np.zeros(size), np.ones(size)))
    assert found is not None
    assert len(found.errors) <= MOST
    assert (len(found.map), len(found.map[0])) <= (SIDE, SIDE)


def test_without_numbers_there_are_none() -> None:
    assert elements_of(Judgement(breach=Breach("raises", "raised"))) is None
    assert elements_of(judgement(np.ones(0), np.ones(0), np.ones(0))) is None


def test_a_failure_is_told_whole() -> None:
    failing = outcome(wrong)
    text = as_html([a_run(failing, outcome(dtype="float64"))])
    assert "mine does not conform: 1 law fails" in text
    assert "softmax fails in float32 on cpu" in text
    assert "Worst element" in text
    assert text.count("<svg") == 2
    assert "1 fail, worst" in text


def test_everything_else_is_told() -> None:
    known = replace(outcome(wrong), status="known", known="see <b>#7</b>")
    lacking = replace(outcome(), status="not-tested", reason="too little & too late", ratio=None)
    run = a_run(
        outcome(), known, lacking, untested=(Untested("rope", "offset", "no offset"),),
        problems=("softmax.near has expired",), interrupted=True, ended_by="its time limit",
    )  # fmt: skip
    text = as_html([run, a_run(outcome())], {"jax": "not installed"})
    for said in (
        "see &lt;b&gt;#7&lt;/b&gt;",
        "too little &amp; too late",
        "rope(offset): no offset",
        "softmax.near has expired",
        "Ended by its time limit",
        "jax was not run: not installed",
        "cpu x86_64",
        'href="#target-2"',
    ):
        assert said in text


def test_a_page_is_html_and_stands_alone() -> None:
    name = "<script>alert(1)</script>\x0c\x00"
    failing = replace(outcome(wrong), text=name, reason=name)
    text = as_html([replace(a_run(failing), target=name)])
    page = JustHTML(text, strict=True)
    assert not page.query("script")
    for tag, attribute in (("link", "href"), ("img", "src"), ("a", "href")):
        for node in page.query(tag):
            address = (node.attrs or {}).get(attribute) or ""
            assert address.startswith(("#", "data:"))
    assert "@import" not in text
    assert "url(http" not in text


@pytest.mark.parametrize("ratio", [0.0, 1e-300, math.inf, None])
def test_ratios_of_every_size_are_drawn(ratio: float | None) -> None:
    text = as_html([a_run(replace(outcome(), ratio=ratio))])
    assert ("<svg" in text) == (ratio is not None)


def raising(x: torch.Tensor, *, dim: int = -1) -> torch.Tensor:
    raise RuntimeError("no")


def test_a_failure_without_numbers_has_no_picture_of_them() -> None:
    text = as_html([a_run(outcome(raising))])
    assert "raised RuntimeError: no" in text
    assert "<figure" not in text


def test_an_empty_report() -> None:
    assert "attnspec report" in as_html([], {"x": "why"})


def test_the_command_writes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.py").write_text(
        "import torch\ndef softmax(x, *, dim=-1): return torch.softmax(x, dim) * 2\n"
    )
    words = ["verify", "bad.py", "--law", "softmax.rows_sum_to_one", "--dtype", "float32",
             "--examples", "5", "-n", "0", "--html", "out.html"]  # fmt: skip
    path = list(sys.path)
    assert CliRunner().invoke(main, words).exit_code == 1
    sys.path[:] = path
    assert "bad.py does not conform" in Path("out.html").read_text()
    monkeypatch.setattr(verifying, "HTML_NEEDS", {"no_such_module": "such"})
    refused = CliRunner().invoke(main, words)
    sys.path[:] = path
    assert refused.exit_code == 2
    assert "pip install 'attnspec[docs]'" in refused.output


@pytest.mark.slow
def test_a_browser_shows_it(tmp_path: Path) -> None:
    file = tmp_path / "out.html"
    file.write_text(as_html([a_run(outcome(wrong), outcome(dtype="float64"))]))
    with opened() as chrome:
        for size in ((1100, 900), (390, 844)):
            sized(chrome, size)
            chrome.get(file.as_uri())
            wide = chrome.execute_script("return document.documentElement.scrollWidth")
            assert wide <= size[0]
        assert chrome.execute_script("return document.querySelectorAll('svg').length") == 2
        assert console(chrome) == []
