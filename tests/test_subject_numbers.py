"""Whole numbers that are passed by position, results of a named dtype or of integers, and calls
that must end with an exception."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import attnspec
from attnspec.driving import out_of_reach
from attnspec.oracle.calls import refused
from attnspec.oracle.family import Scope, naming_the_dtype
from attnspec.oracle.inputs import description
from attnspec.oracle.law import Breach, Inputs, Law
from attnspec.oracle.literal import literal
from attnspec.runner import Selection, planned
from attnspec.search import key
from attnspec.shares import untested
from attnspec.signature import signature
from attnspec.subject import Subject
from attnspec.traits import called
from attnspec.usage import UsageError
from tests.stubs import target

NONE: dict[str, Any] = {}
BFLOAT16: dict[str, Any] = {"dtype": "bfloat16", "device": "cpu"}


def slopes_call(dtype: str = "float32", options: Any = NONE) -> Inputs:
    return Inputs("alibi_slopes", dtype, {}, dict(options), {"n_heads": 4})


def buckets_call(values: Any = (-2, 0, 3)) -> Inputs:
    return Inputs("t5_bucket", "int64", {"relative_position": np.array(values)})


def rows_call(*positions: int) -> Inputs:
    table = np.arange(6.0).reshape(3, 2)
    return Inputs(
        "learned_positions", "float32", {"positions": np.array(positions), "table": table}
    )


def mine(component: str, function: Any, dtype: str = "float32", **declared: Any) -> Subject:
    return Subject(target(declared, **{component: function}), component, dtype)


def test_numbers_follow_the_arrays_by_position() -> None:
    given: list[Any] = []

    def t5_bias(*arguments: Any, **options: Any) -> Any:
        given.extend(arguments[1:])
        return torch.zeros(3, *arguments[1:])

    inputs = Inputs("t5_bias", "float32", {"table": np.zeros((4, 3))}, {}, {"t": 2, "s": 5})
    assert mine("t5_bias", t5_bias)(inputs).shape == (3, 2, 5)
    assert given == [2, 5]
    assert literal(inputs).endswith("t5_bias(table, 2, 5)")
    assert dict(called(inputs))["s ="] == 5
    assert key(inputs) != key(inputs.with_numbers(s=6))
    assert "s=5" in repr(inputs)


@pytest.mark.parametrize(
    ("arrays", "due"),
    [("torch", torch.bfloat16), ("numpy", np.dtype(ml_dtypes.bfloat16)), ("dlpack", "bfloat16")],
)
def test_a_dtype_is_named_as_the_targets_library_does(arrays: str, due: Any) -> None:
    given: dict[str, Any] = {}

    def alibi_slopes(n_heads: int, **options: Any) -> Any:
        given.update(options)
        if arrays == "numpy":
            return np.ones(n_heads, options["dtype"])
        return torch.ones(n_heads, dtype=torch.bfloat16)

    call = slopes_call("bfloat16", BFLOAT16)
    assert mine("alibi_slopes", alibi_slopes, "bfloat16", arrays=arrays)(call).tolist() == [1.0] * 4
    assert given == {"dtype": due, "device": "cpu"}


def test_a_call_is_printed_with_the_dtype_that_it_names() -> None:
    call = slopes_call("bfloat16", BFLOAT16)
    assert literal(call).endswith("alibi_slopes(4, dtype=torch.bfloat16, device='cpu')")
    assert literal(call, arrays="numpy").endswith("(4, dtype=ml_dtypes.bfloat16, device='cpu')")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_ways_to_name_the_dtype(dtype: str) -> None:
    def ways(*accepted: str) -> tuple[Any, ...]:
        scope = Scope(component="alibi_slopes", dtype=dtype, accepts=frozenset(accepted))
        return naming_the_dtype(scope)

    unnamed: tuple[Any, ...] = ({},) if dtype == "float32" else ()
    assert ways() == unnamed
    assert ways("dtype") == (*unnamed, {"dtype": dtype})
    assert ways("dtype", "device") == (*ways("dtype"), {"dtype": dtype, "device": "cpu"})


def some_law(component: str) -> Law:
    return Law(f"{component}.some", component, "", "", "form", lambda *_: [], inputs="softmax")


def test_a_function_without_dtype_is_judged_in_float32_alone() -> None:
    def alibi_slopes(n_heads: int) -> Any:
        return torch.ones(n_heads)

    row = some_law("alibi_slopes")
    assert out_of_reach(row, mine("alibi_slopes", alibi_slopes)) == ""
    assert "dtype" in out_of_reach(row, mine("alibi_slopes", alibi_slopes, "bfloat16"))


def test_a_function_that_takes_no_numbers_does_not_fit() -> None:
    row = mine("alibi_slopes", torch.ones).row
    assert "alibi_slopes(n_heads)" in signature(lambda: None, row).problem
    assert signature(lambda n_heads, dtype=None: None, row).accepts == {"dtype"}


@pytest.mark.parametrize("kind", [torch.int64, torch.int32, torch.uint8])
def test_whole_results_are_of_any_integer_dtype(kind: Any) -> None:
    function = mine("t5_bucket", lambda x: x.abs().to(kind), "int64")
    assert function(buckets_call()).tolist() == [2.0, 0.0, 3.0]


@pytest.mark.parametrize("wrong", [torch.float32, torch.bool])
def test_other_results_than_whole_ones_are_a_breach(wrong: Any) -> None:
    function = mine("t5_bucket", lambda x: x.abs().to(wrong), "int64")
    with pytest.raises(Breach, match="expected dtype int64 or int32") as raised:
        function(buckets_call())
    assert raised.value.kind == "dtype"


def test_whole_numbers_are_judged_in_the_dtype_of_indices() -> None:
    loaded = target({"index_dtype": "int32"}, t5_bucket=lambda x: x, softmax=torch.softmax)
    assert loaded.dtypes_of("t5_bucket") == ("int32",)
    assert loaded.dtypes_of("softmax") == loaded.dtypes
    laws = (some_law("t5_bucket"), some_law("softmax"))
    tasks = planned(loaded, Selection(dtypes=("int32", "float32")), laws).tasks
    assert {(t.law, t.dtype) for t in tasks} == {
        ("t5_bucket.some", "int32"), ("softmax.some", "float32")
    }  # fmt: skip
    assert {t.dtype for t in planned(loaded, Selection(), laws[:1]).tasks} == {"int32"}


def test_a_law_of_whole_numbers_is_checked_without_naming_a_dtype() -> None:
    found = attnspec.check("t5_bucket.output_form", {"t5_bucket": lambda x: x.float()}, examples=2)
    assert "dtype" in found.text


def test_an_exception_that_is_due_is_an_answer() -> None:
    function = mine("learned_positions", lambda positions, table: table[positions])
    assert function.refuses(rows_call(0, 3))
    assert not function.refuses(rows_call(0, 2))
    assert (function.tally.calls, function.tally.answered) == (2, 2)
    (comparison,) = refused(function, rows_call(3), "position 3")
    assert comparison.what == "exception for position 3"


def test_a_result_where_an_exception_is_due_is_a_breach() -> None:
    function = mine("learned_positions", lambda positions, table: table[positions])
    with pytest.raises(Breach, match="returned a result for position -1; an exception is due"):
        refused(function, rows_call(-1), "position -1")


def test_a_wrong_result_is_no_exception() -> None:
    function = mine("learned_positions", lambda positions, table: None)
    with pytest.raises(Breach, match="returned"):
        function(rows_call(0))


def test_limits_name_numbers_by_their_axes() -> None:
    limits = {"alibi_slopes": {"h": {2, 4}}}
    function = mine("alibi_slopes", torch.ones, limits=limits)
    assert function.legal(slopes_call())
    assert not function.legal(slopes_call().with_numbers(n_heads=3))


def test_limits_of_a_component_name_its_own_axes() -> None:
    wrong = {"layer_norm": {"d": {64}}}
    with pytest.raises(UsageError, match=r"\['layer_norm'\] names the axis 'd';.* allowed: m$"):
        target({"limits": wrong}, layer_norm=torch.nn.functional.layer_norm)


def test_what_a_dtype_leaves_out_is_told() -> None:
    loaded = target({}, t5_bucket=lambda x: x)
    (told,) = untested(loaded, (), ("t5_bucket",), ("float32",))
    assert told.reason == "judged in int64, int32, not in float32"
    assert not any(
        "judged in" in u.reason for u in untested(loaded, (), ("t5_bucket",), ("int64",))
    )


def test_a_law_that_needs_another_function_says_which() -> None:
    def rope_apply(x: Any, cos: Any, sin: Any) -> Any:
        return x

    found = attnspec.check("rope_apply.own_angles", {"rope_apply": rope_apply}, examples=3)
    assert "needs rope, which the target has not" in found.text


def test_a_description_has_no_empty_parts() -> None:
    assert description(slopes_call()) == "n_heads=4; float32; contiguous; seed 0"
