"""Wrong words of a user: the nearest right one is named, and long lists are cut off."""

from __future__ import annotations

from typing import Any

import pytest

from attnspec.choices import known_components, known_laws
from attnspec.declaration import AXES
from attnspec.loading import load
from attnspec.target import DTYPES
from attnspec.usage import UsageError, listed, nearest, suggestion, unknown
from tests.stubs import attention, target


def test_unknown_names_are_told_with_what_is_allowed() -> None:
    assert unknown("tier", "depp", ("full", "deep")) == (
        "unknown tier 'depp'; did you mean 'deep'? allowed: full, deep"
    )
    assert suggestion("zzz", ("full", "deep")) == ""


def test_many_names_are_cut_off_with_their_number_and_the_nearest_are_kept() -> None:
    many = [f"name_{number}" for number in range(30)] + ["attention"]
    told = unknown("thing", "atention", many)
    assert told.startswith("unknown thing 'atention'; did you mean 'attention'? allowed: name_")
    assert told.endswith(", attention and 19 more")
    assert listed(many) == ", ".join(many[:12]) + " and 19 more"
    assert listed(many[:12]) == ", ".join(many[:12])


@pytest.mark.parametrize(
    ("given", "allowed", "meant"),
    [
        ("fp16", DTYPES, "float16"), ("BF16", DTYPES, "bfloat16"), ("half", DTYPES, "float16"),
        ("half", ("interleaved", "half"), "half"), ("Attention", ("softmax", "attention"),
         "attention"), ("attention=3", ("softmax", "attention"), "attention"),
        ("head_dim", AXES, "d"), ("kv_heads", AXES, "g"), ("kv_heads", DTYPES, ""),
    ],
)  # fmt: skip
def test_what_others_call_it_is_understood(given: str, allowed: Any, meant: str) -> None:
    assert nearest(given, allowed) == meant


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("attention.foo", "unknown law 'attention.foo'; allowed: attention."),
        ("attention.match_oracle", "did you mean 'attention.matches_oracle'? allowed: attention."),
        ("atention.matches_oracle", "did you mean 'attention.matches_oracle'? allowed: "),
        (
            "matches_oracle",
            "'matches_oracle'; allowed: softmax.matches_oracle, attention.",
        ),
        ("attention", "it is a component: --component attention chooses all its laws"),
    ],
)
def test_an_unknown_law_is_told_with_the_nearest(given: str, told: str) -> None:
    with pytest.raises(UsageError) as error:
        known_laws([given])
    assert told in str(error.value)
    assert len(str(error.value)) < 600


def test_a_law_that_is_given_as_a_component_is_recognised() -> None:
    with pytest.raises(UsageError, match=r"it is a law: --law attention\.row_alone chooses it"):
        known_components(["attention.row_alone"])


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        ({"gradients": ("atention",)}, "'atention'; did you mean 'attention'? allowed: "),
        ({"gradients": "attention"}, "a tuple of names; did you mean ('attention',)?"),
        ({"limits": {"attention": {"head_dim": {64}}}}, "'head_dim'; did you mean 'd'? allowed: "),
        ({"conventions": {"rope.layout": "halfs"}}, "'halfs'; did you mean 'half'? allowed: inter"),
        ({"precision": "flas"}, "preset 'flas'; did you mean 'flash'? allowed: eager"),
        ({"precision": {"score": "float32"}}, "'score'; did you mean 'scores'? allowed: inter"),
        ({"precision": {"scores": "fp32"}}, "'fp32'; did you mean 'float32'? allowed: storage"),
    ],
)
def test_a_wrong_word_in_a_declaration_is_told_with_the_nearest(
    declared: dict[str, Any], told: str
) -> None:
    with pytest.raises(UsageError) as error:
        target(declared, attention=attention)
    assert told in str(error.value)
    assert len(str(error.value)) < 400


def test_built_in_targets_are_not_all_listed() -> None:
    with pytest.raises(UsageError) as error:
        load("fualt:rope.half")
    assert "did you mean 'fault:rope.half'? expected a file, " in str(error.value)
    assert str(error.value).endswith(" more")
