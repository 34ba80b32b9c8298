"""The JSON report is what its published schema says, and the schema refuses what it should."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from attnspec.driving import Effort
from attnspec.files import as_json, json_text
from attnspec.loading import load
from attnspec.outcome import Outcome, Run, Untested
from attnspec.runner import Selection, run
from tests.stubs import outcome, wrong


@pytest.fixture(scope="module")
def schema() -> Draft202012Validator:
    content = json.loads((files("attnspec") / "report.schema.json").read_text("utf-8"))
    Draft202012Validator.check_schema(content)
    return Draft202012Validator(content)


def told(*outcomes: Outcome, **fields: Any) -> Any:
    found = Run("mine", "1", 0, "full", outcomes, **fields)
    return json.loads(json_text(as_json(found)))


def test_a_real_run(schema: Draft202012Validator) -> None:
    found = run(load("torch"), Selection(components=("softmax",)), Effort(examples=2))
    schema.validate(json.loads(json_text(as_json(found))))


def test_every_kind_of_outcome(schema: Draft202012Validator) -> None:
    failing = outcome(wrong)
    rows = (
        failing,
        replace(failing, ratio=math.inf, case_file="a.safetensors"),
        replace(failing, status="known", known="#7"),
        replace(outcome(), device="cuda:1", guarantee="batch-invariant", held=1, watched=2),
        replace(outcome(), status="not-tested", ratio=None, reason="no"),
    )
    report = told(*rows, untested=(Untested("rope", "", "none"),), problems=("x",),
                  interrupted=True, settings={"cpu": "x"})  # fmt: skip
    schema.validate(report)
    schema.validate({"runs": [report, report]})


def without(name: str) -> Callable[[Any], None]:
    return lambda report: report.pop(name)


def law_with(**fields: Any) -> Callable[[Any], None]:
    return lambda report: report["laws"][0].update(fields)


@pytest.mark.parametrize(
    "spoiled",
    [
        without("verdict"),
        without("laws"),
        lambda report: report.update(verdict="maybe"),
        lambda report: report.update(more=1),
        law_with(status="ok"),
        law_with(worst_ratio=-1),
        law_with(worst_ratio="inf"),
        law_with(device="gpu"),
        law_with(id="softmax"),
        law_with(status="fail", reason=None),
        law_with(status="known", known=None),
        law_with(extra=0),
    ],
)
def test_what_a_report_is_not(schema: Draft202012Validator, spoiled: Callable[[Any], None]) -> None:
    report = told(outcome(wrong))
    schema.validate(report)
    other = copy.deepcopy(report)
    spoiled(other)
    assert not schema.is_valid(other)
