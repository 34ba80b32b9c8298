"""Functions that a call hands over: made from records for every kind of array, written as text,
stored, and overheard."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from attnspec.arrays import Exchange
from attnspec.cases import packed, unpacked
from attnspec.oracle.callee import ZERO, Callee, Heard, Moved, Own, Same, as_plain, from_plain
from attnspec.oracle.inputs import description
from attnspec.oracle.law import Breach, Inputs
from attnspec.oracle.literal import Upstream, literal
from attnspec.oracle.precision import NUMPY_TYPES
from attnspec.search import key
from attnspec.subject import Subject
from tests.stubs import target

X = np.array([[1.0, -2.0, 0.5], [4.0, 0.0, -1.0]])
TURNED = Moved((2.0, -1.0), 1)
OWN = Own("rms_norm", 0.5)
EVERY: tuple[Callee, ...] = (Moved(), ZERO, TURNED, Moved((1.0, 0.0, 4.0, 2.0), -2), Same())


def call(sublayer: Callee = TURNED, norm: Callee = ZERO, dtype: str = "float32") -> Inputs:
    callees = {"sublayer": sublayer, "norm": norm}
    return Inputs("residual_block", dtype, {"x": X}, {"placement": "pre"}, callees=callees)


def subject(function: Callable[..., Any], arrays: str = "torch", dtype: str = "float32") -> Subject:
    declared = {"arrays": arrays}
    return Subject(target(declared, residual_block=function), "residual_block", dtype)


def sublayer_alone(x: Any, sublayer: Any, norm: Any, *, placement: str) -> Any:
    return sublayer(x)


@pytest.mark.parametrize("dtype", NUMPY_TYPES)
@pytest.mark.parametrize("arrays", ["torch", "numpy", "dlpack"])
@pytest.mark.parametrize("callee", EVERY, ids=repr)
def test_a_record_becomes_a_function_on_the_arrays_of_a_target(
    callee: Callee, arrays: str, dtype: str
) -> None:
    assert isinstance(callee, Moved)
    mine = subject(sublayer_alone, arrays, dtype)
    assert np.array_equal(mine(call(sublayer=callee, dtype=dtype)), callee.of(X))
    (heard,) = mine.seen()
    assert (heard.name, heard.dtype, heard.device) == ("sublayer", dtype, "cpu")
    assert np.array_equal(heard.values, X)


def test_channels_are_turned_and_then_multiplied() -> None:
    assert TURNED.of(X).tolist() == [[1.0, -1.0, -4.0], [-2.0, -4.0, 0.0]]


@pytest.mark.parametrize("callee", EVERY, ids=repr)
def test_the_transposed_is_that_of_torch(callee: Callee) -> None:
    assert isinstance(callee, Moved)
    upstream = np.array([[1.0, 2.0, 3.0], [-4.0, 5.0, 6.0]])
    wanted = np.stack([callee.of(row) for row in np.eye(3)]) @ upstream.T
    assert np.array_equal(callee.transposed(upstream), wanted.T)
    found = subject(sublayer_alone).gradients(call(sublayer=callee), upstream)["x"]
    assert np.array_equal(found, wanted.T)


def test_the_same_object_comes_back_from_one_that_returns_it() -> None:
    kept: list[bool] = []

    def block(x: Any, sublayer: Any, norm: Any, *, placement: str) -> Any:
        kept.append(sublayer(x) is x)
        return norm(x)

    subject(block)(call(sublayer=Same()))
    subject(block)(call(sublayer=Moved()))
    assert kept == [True, False]


def test_a_norm_of_the_targets_own_is_its_function() -> None:
    given: list[Any] = []

    def rms_norm(x: Any, weight: Any = None, *, eps: float = 1e-6) -> Any:
        given.append(eps)
        return 3.0 * x

    def block(x: Any, sublayer: Any, norm: Any, *, placement: str) -> Any:
        return norm(x)

    loaded = target({}, residual_block=block, rms_norm=rms_norm)
    mine = Subject(loaded, "residual_block", "float32")
    assert np.array_equal(mine(call(norm=OWN)), 3.0 * X)
    mine(call(norm=Own("rms_norm")))
    assert given == [0.5, 1e-6]


def test_what_was_heard_is_that_of_the_latest_call_as_it_was_then() -> None:
    def block(x: Any, sublayer: Any, norm: Any, *, placement: str) -> Any:
        y = 2.0 * x
        norm(y)
        y.zero_()
        return sublayer(x.double()).float()

    mine = subject(block)
    assert mine.seen() == ()
    mine(call())
    mine(call())
    first, second = mine.seen()
    assert (first.name, second.name) == ("norm", "sublayer")
    assert np.array_equal(first.values, 2.0 * X)
    assert second.dtype == "float64"
    assert isinstance(second, Heard)


@pytest.mark.parametrize("arrays", ["torch", "numpy", "dlpack"])
def test_a_callable_takes_the_targets_arrays_alone(arrays: str) -> None:
    def block(x: Any, sublayer: Any, norm: Any, *, placement: str) -> Any:
        return sublayer([1.0, 2.0])

    expected = {
        "torch": "a torch tensor", "numpy": "a numpy array", "dlpack": "one with __dlpack__"
    }[arrays]  # fmt: skip
    with pytest.raises(Breach, match=f"called sublayer with a list of 2; expected {expected}"):
        subject(block, arrays)(call())


def test_another_librarys_array_is_told() -> None:
    def block(x: Any, sublayer: Any, norm: Any, *, placement: str) -> Any:
        return sublayer(x.numpy())

    with pytest.raises(Breach, match=r"called sublayer with an object of type numpy\.ndarray"):
        subject(block)(call())


class Foreign(Exchange):
    """An array of a library that the suite does not know."""

    def __array_namespace__(self) -> Any:
        return SimpleNamespace(from_dlpack=lambda x: Foreign(np.from_dlpack(x)))


def test_through_dlpack_what_comes_back_is_of_the_kind_that_was_given() -> None:
    kinds: list[type] = []

    def block(x: Any, sublayer: Any, norm: Any, *, placement: str) -> Any:
        given = [
            x,
            np.from_dlpack(x),
            torch.utils.dlpack.from_dlpack(x),
            Foreign(np.from_dlpack(x)),
        ]
        found = [sublayer(y) for y in given]
        assert all(np.array_equal(np.from_dlpack(y), TURNED.of(X)) for y in found)
        kinds.extend(map(type, found))
        return found[0]

    subject(block, "dlpack")(call())
    assert kinds == [Exchange, np.ndarray, torch.Tensor, Foreign]


@pytest.mark.parametrize("callee", [*EVERY, OWN, Own("layer_norm")], ids=repr)
def test_a_record_is_stored_and_comes_back(callee: Callee) -> None:
    assert from_plain(as_plain(callee)) == callee
    assert type(from_plain(as_plain(callee))) is type(callee)
    inputs = call(sublayer=callee)
    again, _ = unpacked(packed(inputs))
    assert again.callees == inputs.callees
    assert key(again) == key(inputs)


def test_calls_with_other_functions_are_other_calls() -> None:
    assert len({key(call(sublayer=callee)) for callee in (*EVERY, OWN)}) == len(EVERY) + 1


def test_a_damaged_record_is_told() -> None:
    with pytest.raises(KeyError):
        from_plain({"kind": "eval", "code": "1"})
    with pytest.raises(TypeError):
        from_plain({"kind": "moved", "code": "1"})


@pytest.mark.parametrize("arrays", ["torch", "numpy"])
@pytest.mark.parametrize("callee", EVERY, ids=repr)
def test_the_text_of_a_call_runs(callee: Callee, arrays: str) -> None:
    assert isinstance(callee, Moved)
    found: list[Any] = []

    def stub(x: Any, sublayer: Any, norm: Any, *, placement: str) -> None:
        found.extend((placement, sublayer(x), norm(x)))

    exec(literal(call(sublayer=callee, norm=TURNED), "stub", arrays), {"stub": stub})
    placement, one, other = found
    assert placement == "pre"
    for given, wanted in ((one, callee.of(X)), (other, TURNED.of(X))):
        assert str(given.dtype).removeprefix("torch.") == "float32"
        assert np.array_equal(np.asarray(given), wanted)


def test_the_text_of_a_call_with_its_own_norm_and_of_gradients() -> None:
    text = literal(call(norm=OWN), upstream=Upstream(np.ones((2, 3))))
    spaces: dict[str, Any] = {
        "rms_norm": lambda x, eps: x * eps,
        "residual_block": lambda x, sublayer, norm, placement: x + sublayer(norm(x)),
    }
    *lines, last = text.splitlines()
    exec("\n".join([*lines, f"(found,) = {last}"]), spaces)
    wanted = 1.0 + 0.5 * TURNED.transposed(np.ones((2, 3)))
    assert torch.equal(spaces["found"], torch.tensor(wanted).float())


def test_a_call_in_one_line_tells_them() -> None:
    assert "sublayer=Moved(factors=(2.0, -1.0), shift=1)" in description(call())
    assert "norm=Same(" in repr(call(norm=Same()))
