"""What is said of a target that declines most calls: what it declines, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from attnspec.driving import Effort
from attnspec.oracle.law import Inputs
from attnspec.refusals import Refusals, advice, declining_text
from attnspec.runner import Selection, run
from attnspec.traits import called
from tests.stubs import attention, attention_call, target

DECLARE = 'declare limits={"attention": '


def refusals(declines: Callable[..., str], sizes: list[dict[str, int]], **fields: Any) -> Refusals:
    """What becomes of calls of these sizes, three of each, by a function that gives the words
    with which one is declined."""
    found = Refusals()
    for size in 3 * sizes:
        full = {"h": 1, "g": 1, "t": 3, "s": 4, "d": 2} | size
        drawn = attention_call(**fields)
        q, k, v = (drawn.arrays[name][:, :1, :1, :1] for name in "qkv")
        call = drawn.with_arrays(
            q=q.repeat(full["h"], 1).repeat(full["t"], 2).repeat(full["d"], 3),
            k=k.repeat(full["g"], 1).repeat(full["s"], 2).repeat(full["d"], 3),
            v=v.repeat(full["g"], 1).repeat(full["s"], 2).repeat(5, 3),
        )
        if words := declines(**full):
            found.decline(f"NotImplementedError: {words}", called(call))
        else:
            found.answered.add(called(call))
    return found


def told(found: Refusals) -> str:
    ((_, seen), *_) = found.most()
    return advice("attention", seen, found.answered)


HEADS = [{"h": h, "g": g} for h, g in ((1, 1), (2, 1), (2, 2), (4, 2), (6, 3), (3, 3), (4, 1))]
LENGTHS = [{"t": t, "s": s} for t in (1, 7, 16, 32, 40, 48, 100) for s in (33, 48, 7)]


def test_a_kernel_without_grouped_heads_is_told_how_to_say_so() -> None:
    found = refusals(lambda h, g, **_: "no GQA" if h != g else "", HEADS)
    assert told(found) == (
        "these are the calls with another number of key heads than of query heads: implement "
        f'them, or {DECLARE}{{"g": {{3}}, "h": {{3}}}}}} in TARGET'
    )


@pytest.mark.parametrize(
    ("declines", "says"),
    [
        (lambda t, **_: t > 40, f't above 40: implement them, or {DECLARE}{{"t": (1, 40)}}}}'),
        (lambda t, **_: t < 16, f't below 16: implement them, or {DECLARE}{{"t": (16, 100)}}}}'),
        (
            lambda t, **_: t % 16,
            f't not a multiple of 16: implement them, or {DECLARE}{{"t": (16, 48, 16)}}}}',
        ),
    ],
)
def test_an_axis_is_named_with_the_sizes_that_are_answered(
    declines: Callable[..., bool], says: str
) -> None:
    found = refusals(lambda **sizes: "size" if declines(**sizes) else "", LENGTHS)
    assert told(found) == f"these are the calls with {says} in TARGET"


def test_a_few_sizes_are_named_where_many_calls_tell() -> None:
    widths = [{"d": d, "t": t} for d in (2, 3, 7, 9) for t in range(1, 15)]
    many = refusals(lambda d, **_: "" if d in (3, 7) else "width", widths)
    assert f'd other than 3, 7: implement them, or {DECLARE}{{"d": {{3, 7}}}}}}' in told(many)
    scarce = refusals(lambda d, **_: "" if d in (3, 7) else "width", widths[::5])
    assert told(scarce).startswith("no single condition tells")


def test_an_option_is_named_with_the_way_to_leave_it_out() -> None:
    found = refusals(lambda **_: "no causal", [{}], options={"causal": True})
    found.join(refusals(lambda **_: "", [{}, {"t": 2}]))
    assert told(found) == (
        "these are the calls with option causal given: implement them, or take causal out of its "
        "signature"
    )


def test_an_option_that_is_needed_is_named() -> None:
    found = refusals(lambda **_: "only causal", [{}], options={"causal": False})
    found.join(refusals(lambda **_: "only causal", [{"t": 2}, {"h": 2}]))
    found.join(refusals(lambda **_: "", [{}, {"t": 2}], options={"causal": True}))
    assert told(found) == "these are the calls with causal other than True: implement them"


def test_a_kernel_for_equal_lengths_is_told_a_length_that_tells_something() -> None:
    lengths = [{"t": t, "s": s} for t, s in ((2, 2), (3, 2), (33, 33), (5, 9), (9, 5), (300, 300))]
    found = refusals(lambda t, s, **_: "square only" if t != s else "", lengths)
    assert told(found) == (
        "these are the calls with another number of queries than of keys: implement them, or "
        f'{DECLARE}{{"t": {{33}}, "s": {{33}}}}}} in TARGET'
    )


def test_numbers_that_are_passed_are_sizes_too() -> None:
    def declined(declines: Callable[[int, int], bool]) -> str:
        found = Refusals()
        for t, s in 3 * [(2, 2), (3, 5), (33, 33), (5, 9), (65, 65), (8, 8), (9, 9), (4, 8)]:
            numbers = {"t": t, "s": s}
            call = Inputs("t5_bias", "float32", {"table": np.zeros((32, 2))}, numbers=numbers)
            if declines(t, s):
                found.decline("NotImplementedError: size", called(call))
            else:
                found.answered.add(called(call))
        ((_, seen), *_) = found.most()
        return advice("t5_bias", seen, found.answered)

    assert declined(lambda t, s: t != s) == (
        "these are the calls with another number of queries than of keys: implement them, or "
        'declare limits={"t5_bias": {"t": {33}, "s": {33}}} in TARGET'
    )
    assert declined(lambda t, s: s > 33) == (
        "these are the calls with t above 33: implement them, or "
        'declare limits={"t5_bias": {"t": (1, 33)}} in TARGET'
    )


def test_without_one_condition_the_ways_are_told() -> None:
    found = refusals(lambda t, s, **_: "tiles" if t % 16 or s % 16 else "", LENGTHS)
    assert told(found) == (
        "no single condition tells these calls from those that it answers: implement them, or "
        'declare limits={"attention": {"AXIS": SIZES}} in TARGET and take options out of the '
        "signature, so that only calls that it answers are made"
    )


def test_where_nothing_is_answered_the_function_may_go() -> None:
    assert told(refusals(lambda **_: "never", HEADS)).startswith("no call was answered: implement")


def test_messages_that_differ_in_numbers_are_one_and_others_are_listed_apart() -> None:
    words = {1: "one head", 2: "no GQA", 4: "no GQA", 6: "no GQA", 3: ""}
    found = refusals(lambda h, t, **_: words[h] and f"{words[h]} of {h + t}", HEADS)
    text = declining_text("attention", "declines 6 of 7 legal calls", found)
    lines = text.splitlines()
    assert lines[0] == (
        "attention declines 6 of 7 legal calls. At most half of them may be declined."
    )
    assert lines[1] == "NotImplementedError: no GQA of 5 (15 calls)"
    assert lines[2].startswith("  To do: ")
    assert lines[3] == "NotImplementedError: one head of 4 (3 calls)"


def test_a_whole_run_says_what_to_declare() -> None:
    def no_groups(q: Any, k: Any, v: Any) -> Any:
        if q.shape[1] != k.shape[1]:
            raise NotImplementedError("GQA is not supported")
        return attention(q, k, v)

    chosen = Selection(
        laws=("attention.matches_oracle", "attention.row_alone"), dtypes=("float32",)
    )
    found = run(target(attention=no_groups), chosen, Effort(examples=20))
    assert found.verdict == "fails"
    for outcome in found.outcomes:
        assert outcome.reason.startswith("declines ")
        assert 'key heads than of query heads: declare limits={"attention": {"g"' in outcome.reason
        assert "\n  To do: these are the calls with another number of key heads" in outcome.text
    declared = {"limits": {"attention": {"g": {2}, "h": {2}}}}
    assert run(target(declared, attention=no_groups), chosen, Effort(examples=20)).verdict == (
        "conforms"
    )
