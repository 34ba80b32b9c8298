"""Tensors that are passed by keyword, and functions that return several results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from attnspec import memory
from attnspec.oracle.inputs import LAYOUTS
from attnspec.oracle.law import Breach, Inputs
from attnspec.search import key
from attnspec.target import DTYPES
from tests.stubs import attention, attention_call, subject

LOWER = np.tril(np.ones((3, 4), bool), 1)
"""Every query sees a key, and one more than the query before."""
SLOPE = -0.5 * np.abs(np.arange(3.0)[:, None] - np.arange(4.0))


def seeing() -> tuple[list[dict[str, Any]], Callable[..., Any]]:
    seen: list[dict[str, Any]] = []

    def looks(q: Any, k: Any, v: Any, **options: Any) -> Any:
        seen.append(options)
        return attention(q, k, v, **options)

    return seen, looks


def test_only_those_that_a_call_has_are_passed() -> None:
    seen, function = seeing()
    mine = subject(function, "attention")
    mine(attention_call(options={"causal": True}))
    mine(attention_call(mask=LOWER, bias=SLOPE, options={"scale": 0.5}))
    assert seen[0] == {"causal": True}
    assert list(seen[1]) == ["mask", "bias", "scale"]
    assert seen[1]["mask"].tolist() == LOWER.tolist()
    assert seen[1]["bias"].tolist() == SLOPE.tolist()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("arrays", ["torch", "numpy", "dlpack"])
def test_masks_are_bool_and_biases_of_the_storage_dtype(dtype: str, arrays: str) -> None:
    given: dict[str, Any] = {}

    def looks(q: Any, k: Any, v: Any, *, mask: Any, bias: Any) -> Any:
        if arrays == "dlpack":
            q, v, mask, bias = (torch.utils.dlpack.from_dlpack(x) for x in (q, v, mask, bias))
        given.update(mask=mask, bias=bias)
        return v[:, :, :3]

    subject(looks, "attention", dtype=dtype, arrays=arrays)(
        attention_call(dtype, mask=LOWER, bias=SLOPE)
    )
    kinds = {name: str(x.dtype).removeprefix("torch.") for name, x in given.items()}
    assert kinds == {"mask": "bool", "bias": dtype}
    assert given["mask"].tolist() == LOWER.tolist()


@pytest.mark.parametrize("shape", [(), (4,), (1, 4), (3, 1), (2, 1, 3, 4), (1, 1, 1, 1)], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_shapes_that_are_broadcast(shape: tuple[int, ...], layout: str) -> None:
    seen, function = seeing()
    mask, bias = np.ones(shape, bool), np.full(shape, -2.0)
    subject(function, "attention")(attention_call(mask=mask, bias=bias, layout=layout))
    assert (seen[0]["mask"].shape, seen[0]["bias"].shape) == (shape, shape)
    assert seen[0]["mask"].all()
    assert (seen[0]["bias"] == -2.0).all()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_around_a_mask_everything_may_be_seen(layout: str) -> None:
    where = memory.planned(LOWER, layout, 1)
    flat = memory.buffer(~LOWER, "bool", where)
    assert flat.dtype == np.bool_
    assert flat.sum() == flat.size - LOWER.sum()
    assert flat.ctypes.data % memory.ALIGNMENT == 0


def changing(name: str) -> Callable[..., Any]:
    def function(q: Any, k: Any, v: Any, *, mask: Any = None, bias: Any = None) -> Any:
        thing = mask if name == "mask" else bias
        thing[1, 2] = False if name == "mask" else 7.0
        return attention(q, k, v)

    return function


def test_memory_has_the_keyword_tensors() -> None:
    call = attention_call(mask=LOWER, bias=SLOPE)
    told = {
        "mask": "mask changed at [1, 2]: was True, is False",
        "bias": "bias changed at [1, 2]: was -0.5, is 7",
    }
    for name, text in told.items():
        mine = subject(changing(name), "attention")
        mine(call)
        record = mine.memory()
        assert (record.before != record.after).any()
        assert mine.written() == text
    still = subject(attention, "attention")
    still(call)
    assert still.written() == ""
    assert len(still.memory().before) > len(_record(attention_call()).before)


def _record(call: Inputs) -> Any:
    mine = subject(attention, "attention")
    mine(call)
    return mine.memory()


def test_calls_of_other_masks_have_other_keys() -> None:
    keys = {
        key(attention_call()),
        key(attention_call(mask=LOWER)),
        key(attention_call(mask=~LOWER)),
        key(attention_call(bias=SLOPE)),
        key(attention_call(mask=LOWER, bias=SLOPE)),
    }
    assert len(keys) == 5


LSE: dict[str, Any] = {"options": {"return_lse": True}}


@pytest.mark.parametrize("dtype", DTYPES)
def test_all_results_or_the_first(dtype: str) -> None:
    mine = subject(attention, "attention", dtype=dtype)
    call = attention_call(dtype, **LSE)
    output, lse = mine.parts(call)
    assert (output.shape, lse.shape) == ((2, 1, 3, 5), (2, 1, 3))
    assert output.dtype == lse.dtype == np.float64
    assert np.array_equal(mine(call), output)
    again, read = mine.held(call)
    assert np.array_equal(again, output)
    assert np.array_equal(read(), output)
    (alone,) = mine.parts(attention_call(dtype))
    assert np.array_equal(alone, output)


def returning(change: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def function(q: Any, k: Any, v: Any, *, return_lse: bool = False) -> Any:
        return change(*attention(q, k, v, return_lse=True))

    return function


@pytest.mark.parametrize(
    ("change", "kind", "said"),
    [
        (lambda o, lse: o, "type",
         "returned an object of type torch.Tensor; expected a tuple (output, lse)"),
        (lambda o, lse: (o,), "type", "returned a tuple of 1; expected a tuple (output, lse)"),
        (lambda o, lse: (o, lse, lse), "type", "a tuple of 3"),
        (lambda o, lse: (o, None), "type", "returned None as lse; expected a torch tensor"),
        (lambda o, lse: (lse, o), "shape",
         "returned output of shape (2, 1, 3); expected shape (2, 1, 3, 5)"),
        (lambda o, lse: (o, lse[..., None]), "shape",
         "returned lse of shape (2, 1, 3, 1); expected shape (2, 1, 3)"),
        (lambda o, lse: (o, lse.bfloat16()), "dtype",
         "returned lse of dtype bfloat16; expected dtype float32 or float64"),
        (lambda o, lse: (o.double(), lse), "dtype",
         "returned output of dtype float64; expected dtype bfloat16"),
        (lambda o, lse: (o, lse.to("meta")), "device", "returned lse of device meta"),
    ],
)  # fmt: skip
def test_results_of_the_wrong_kind(change: Callable[..., Any], kind: str, said: str) -> None:
    mine = subject(returning(change), "attention", dtype="bfloat16")
    with pytest.raises(Breach, match=r".") as caught:
        mine.parts(attention_call("bfloat16", **LSE))
    assert caught.value.kind == kind
    assert said in str(caught.value)


def test_a_wider_log_sum_exp_and_a_list_are_right() -> None:
    mine = subject(returning(lambda o, lse: [o, lse.double()]), "attention", dtype="float16")
    _, lse = mine.parts(attention_call("float16", **LSE))
    assert lse.shape == (2, 1, 3)


def test_a_tuple_where_one_result_is_due() -> None:
    mine = subject(lambda q, k, v: attention(q, k, v, return_lse=True), "attention")
    with pytest.raises(Breach, match=r"returned a tuple of 2; expected a torch tensor"):
        mine(attention_call())


def test_limits_concern_the_tensors_that_are_passed_by_position() -> None:
    mine = subject(attention, "attention", limits={"b": {2}, "s": (1, 4)})
    assert mine.legal(attention_call(mask=LOWER[None, None]))
    assert not subject(attention, "attention", limits={"e": {4}}).legal(attention_call())
