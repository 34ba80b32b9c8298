"""One function as a law sees it: what is passed, what comes back, what an exception becomes."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from attnspec.loading import load
from attnspec.oracle.inputs import LAYOUTS
from attnspec.oracle.law import Breach, Inputs
from attnspec.oracle.precision import contract
from attnspec.subject import Subject
from attnspec.target import DTYPES
from tests.stubs import attention_call, subject


def softmax_call(dtype: str = "float32", **fields: Any) -> Inputs:
    return Inputs("softmax", dtype, {"x": np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])}, **fields)


def rope_call(**fields: Any) -> Inputs:
    arrays = {"x": np.ones((1, 1, 3, 2)), "positions": np.arange(3)}
    return Inputs("rope", "float32", arrays, **fields)


def test_arguments_go_by_position_and_options_that_are_present_by_name() -> None:
    seen: list[tuple[Any, ...]] = []

    def rope(*arguments: Any, **options: Any) -> Any:
        seen.append((arguments, options))
        return arguments[0]

    mine = subject(rope, "rope", index_dtype="int32")
    mine(rope_call())
    mine(rope_call(options={"base": 100.0}))
    (x, positions), options = seen[0]
    assert (x.dtype, positions.dtype, options) == (torch.float32, torch.int32, {})
    assert positions.tolist() == [0, 1, 2]
    assert seen[1][1] == {"base": 100.0}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("arrays", ["torch", "numpy"])
def test_results_come_back_as_float64_copies(dtype: str, layout: str, arrays: str) -> None:
    mine = subject(lambda x, dim=-1: x, dtype=dtype, arrays=arrays)
    call = softmax_call(dtype, layout=layout)
    result = mine(call)
    assert result.dtype == np.float64
    assert np.array_equal(result, call.arrays["x"])
    result[:] = 0.0
    record = mine.memory()
    assert np.array_equal(record.before, record.after)


def test_the_layout_of_a_call_can_be_another() -> None:
    strides = []

    def softmax(x: Any, *, dim: int = -1) -> Any:
        strides.append(x.stride())
        return x

    mine = subject(softmax)
    mine(softmax_call(layout="transposed"))
    mine(softmax_call(layout="transposed"), layout="contiguous")
    assert strides == [(1, 2), (3, 1)]


def test_memory_tells_changed_inputs_and_what_is_written_beside_them() -> None:
    def inside(x: Any, *, dim: int = -1) -> Any:
        x[0, 0] = 9.0
        return x

    def beside(x: Any, *, dim: int = -1) -> Any:
        x.as_strided((1,), (1,), x.storage_offset() + 6)[0] = 0.0
        return x

    for function, changed in ((inside, 1), (beside, 1)):
        mine = subject(function)
        mine(softmax_call())
        record = mine.memory()
        cells = record.before.reshape(-1, 4), record.after.reshape(-1, 4)
        assert (cells[0] != cells[1]).any(axis=1).sum() == changed


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "row-step"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_what_was_written_is_told_in_words(dtype: str, layout: str) -> None:
    def inside(x: Any, *, dim: int = -1) -> Any:
        x[1, 2] = 9.0
        return x

    def beside(x: Any, step: int) -> Any:
        x.as_strided((1,), (1,), x.storage_offset() + step)[0] = 0.0
        return x

    call = softmax_call(dtype, layout=layout)
    was = f"{call.arrays['x'][1, 2]:.9g}"
    told: dict[str, Any] = {
        f"x changed at [1, 2]: was {was}, is 9": inside,
        "memory behind the end of x was written": lambda x, dim=-1: beside(x, 12),
        "memory before the start of x was written": lambda x, dim=-1: beside(x, -1),
        "": lambda x, dim=-1: x,
    }
    if layout == "row-step":
        told["memory between the entries of x was written"] = lambda x, dim=-1: beside(x, 3)
    for text, function in told.items():
        mine = subject(function, dtype=dtype)
        mine(call)
        assert mine.written() == text
    assert subject(inside).written() == ""


def test_memory_before_any_call() -> None:
    with pytest.raises(RuntimeError, match="before any call"):
        subject(lambda x, dim=-1: x).memory()


def raising(error: BaseException) -> Callable[..., Any]:
    def softmax(x: Any, *, dim: int = -1) -> Any:
        raise error

    return softmax


def breach(function: Callable[..., Any], **declared: Any) -> Breach:
    with pytest.raises(Breach, match=r".") as caught:
        subject(function, **declared)(softmax_call())
    return caught.value


def test_not_implemented_is_declined() -> None:
    found = breach(raising(NotImplementedError("only heads of 64")))
    assert (found.kind, str(found)) == ("declined", "NotImplementedError: only heads of 64")


@pytest.mark.parametrize(
    "error", [ValueError("bad\n  shape"), SystemExit(1), AssertionError(), RecursionError("deep")]
)
def test_any_other_exception_raises(error: BaseException) -> None:
    found = breach(raising(error))
    assert found.kind == "raises"
    assert str(found).startswith(f"raised {type(error).__name__}: ")
    assert "(test_subject.py, line " in str(found)
    assert "in softmax: raise error)" in str(found)
    assert "\n" not in str(found)


def test_an_exception_in_a_library_is_told_at_the_line_that_called_it() -> None:
    def softmax(x: Any, *, dim: int = -1) -> Any:
        return torch.nn.functional.softmax(x, dim=17)

    assert "in softmax: return torch.nn.functional.softmax(x, dim=17))" in str(breach(softmax))


def test_an_exception_is_told_in_code_that_is_no_library() -> None:
    def mine(x: Any) -> Any:
        return torch.nn.functional.softmax(x, dim=17)

    wrapped = torch.no_grad()(mine)
    assert "in mine: return torch.nn.functional.softmax(x, dim=17))" in str(breach(wrapped))


def test_ctrl_c_is_not_a_failure() -> None:
    with pytest.raises(KeyboardInterrupt):
        subject(raising(KeyboardInterrupt()))(softmax_call())


@pytest.mark.parametrize(
    ("function", "kind", "said"),
    [
        (lambda x, dim=-1: None, "type", "returned None; expected a torch tensor"),
        (lambda x, dim=-1: (x, x), "type", "a tuple of 2"),
        (lambda x, dim=-1: x[:1], "shape", "shape (1, 3); expected shape (2, 3)"),
        (lambda x, dim=-1: x.double(), "dtype", "dtype float64; expected dtype float32"),
        (lambda x, dim=-1: x.to("meta"), "device", "device meta; expected device cpu"),
    ],
)
def test_a_result_of_the_wrong_kind(function: Callable[..., Any], kind: str, said: str) -> None:
    found = breach(function)
    assert found.kind == kind
    assert said in str(found)


def test_warnings_of_a_target_are_no_errors() -> None:
    def softmax(x: Any, *, dim: int = -1) -> Any:
        warnings.warn("slow path", stacklevel=1)
        return x

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = subject(softmax)(softmax_call())
    assert np.array_equal(found, softmax_call().arrays["x"])


def test_contracts_and_conventions_can_be_others() -> None:
    mine = subject(lambda x, dim=-1: x, dtype="bfloat16")
    strict = mine.with_contract(contract("bfloat16", "strict"))
    assert strict.contract.tables == "float32"
    assert mine.contract.tables == "bfloat16"
    half = mine.with_conventions({**mine.conventions, "rope.layout": "half"})
    assert half.conventions["rope.layout"] == "half"
    assert mine.conventions["rope.layout"] == "interleaved"
    half(softmax_call("bfloat16"))
    assert (half.tally.calls, mine.tally.calls) == (1, 0)


def test_siblings_share_what_the_target_keeps() -> None:
    kept: list[str] = []

    def keeping(name: str, x: Any) -> Any:
        kept.append(name)
        return x

    target = {
        "softmax": lambda x, dim=-1: keeping("softmax", x),
        "rope": lambda x, positions: keeping("rope", x),
        "rope_apply": lambda x: x,
    }
    mine = Subject(load(target), "softmax", "float32")
    sibling = mine.sibling("rope")
    assert sibling is not None
    sibling(rope_call())
    mine(softmax_call())
    assert kept == ["rope", "softmax"]
    assert mine.sibling("rope_apply") is None  # its signature is not the contract's
    assert mine.sibling("attention") is None


def test_what_was_returned_can_be_read_again() -> None:
    shared = torch.zeros(2, 3)

    def softmax(x: Any, *, dim: int = -1) -> Any:
        return shared.copy_(x)

    mine = subject(softmax)
    result, again = mine.held(softmax_call())
    mine(Inputs("softmax", "float32", {"x": np.zeros((2, 3))}))
    assert result[1, 2] == 6.0
    assert again()[1, 2] == 0.0


def test_calls_and_answers_are_counted() -> None:
    def softmax(x: Any, *, dim: int = -1) -> Any:
        if dim == 0:
            raise ValueError("no")
        return x

    mine = subject(softmax)
    mine(softmax_call())
    with pytest.raises(Breach):
        mine(softmax_call(options={"dim": 0}))
    assert (mine.tally.calls, mine.tally.answered) == (2, 1)


def test_calls_are_kept_in_their_order_with_those_of_siblings() -> None:
    mine = subject(lambda x, dim=-1: x, others={"rope": lambda x, positions: x})
    sibling = mine.sibling("rope")
    assert sibling is mine.sibling("rope")
    assert sibling is not None
    mine(softmax_call())
    with mine.diary.kept() as made:
        sibling(rope_call())
        mine(softmax_call(), layout="offset")
        mine.gradients(softmax_call(), np.ones((2, 3)))
    mine(softmax_call())
    assert [call.inputs.component for call in made] == ["rope", "softmax", "softmax"]
    assert [call.inputs.layout for call in made] == ["contiguous", "offset", "contiguous"]
    assert [call.upstream is None for call in made] == [True, True, False]
    assert mine.with_contract(contract("float32", "strict")).diary.made == []


def costs(call: Callable[[], Any]) -> float:
    """Seconds of one call, at best."""
    best = float("inf")
    for _ in range(20):
        start = time.process_time()
        for _ in range(20):
            call()
        best = min(best, (time.process_time() - start) / 20)
    return best


def test_a_call_costs_little_beside_the_function() -> None:
    softmax = subject(lambda x, dim=-1: x)
    call = softmax_call(layout="row-step")
    # 30 microseconds on an idle machine; there is room for a loaded one
    assert costs(lambda: softmax(call)) < 300e-6
    masked = attention_call("bfloat16", mask=np.ones((3, 4), bool), bias=np.ones((3, 4)))
    attention = subject(lambda q, k, v, **_: v[:, :, :3], "attention", dtype="bfloat16")
    assert costs(lambda: attention(masked)) < 600e-6
    upstream = np.ones((2, 1, 3, 5))
    sums = subject(lambda q, k, v: v[:, :, :3] + (q.sum() + k.sum()), "attention")
    assert costs(lambda: sums.gradients(attention_call(), upstream)) < 1500e-6
