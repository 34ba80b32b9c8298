"""Backward passes of one call: of some arguments, after others, and again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from attnspec.oracle.law import Breach
from tests.stubs import attention, attention_call, subject

UPSTREAM = (np.arange(30.0).reshape(2, 1, 3, 5) % 5 - 2.0) / 2.0
ALL = ("q", "k", "v")


@pytest.mark.parametrize("wanted", [("q",), ("k",), ("v",), ("q", "v"), ALL])
def test_only_what_is_wanted_requires_grad(wanted: tuple[str, ...]) -> None:
    seen = []

    def looks(q: Any, k: Any, v: Any) -> Any:
        given = {"q": q, "k": k, "v": v}
        seen.append(tuple(name for name, x in given.items() if x.requires_grad))
        return attention(q, k, v)

    call = attention_call()
    found = subject(looks, "attention").pullback(call, UPSTREAM, wanted)()
    right = subject(attention, "attention").gradients(call, UPSTREAM)
    assert seen == [wanted]
    assert list(found) == list(wanted)
    assert all(np.array_equal(found[name], right[name]) for name in wanted)


def test_each_backward_pass_is_one_of_the_same_call() -> None:
    calls = []

    def counted(q: Any, k: Any, v: Any) -> Any:
        calls.append(q)
        return attention(q, k, v)

    pullback = subject(counted, "attention").pullback(attention_call(), UPSTREAM, ALL)
    first, second = pullback(), pullback()
    assert len(calls) == 1
    assert all(np.array_equal(first[name], second[name]) for name in ALL)


class Once(torch.autograd.Function):
    """The identity, which changes in its backward pass what it has saved."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        kept = x.clone()
        ctx.save_for_backward(kept)
        return kept.clone()

    @staticmethod
    def backward(ctx: Any, *upstream: Any) -> Any:
        (kept,) = ctx.saved_tensors
        kept.zero_()
        return upstream[0]


def test_a_target_may_refuse_a_second_backward_pass() -> None:
    def once(q: Any, k: Any, v: Any) -> Any:
        return attention(Once.apply(q), k, v)  # type: ignore[no-untyped-call]

    pullback = subject(once, "attention").pullback(attention_call(), UPSTREAM, ALL)
    assert list(pullback()) == list(ALL)
    with pytest.raises(Breach, match="allows one backward pass") as caught:
        pullback()
    assert caught.value.kind == "declined"


def test_a_function_for_gradients_gives_those_that_are_wanted() -> None:
    def attention_backward(grad_out: Any, q: Any, k: Any, v: Any) -> Any:
        return q, k, v

    mine = subject(attention, "attention", others={"attention_backward": attention_backward})
    call = attention_call()
    found = mine.pullback(call, UPSTREAM, ("k",))()
    assert list(found) == ["k"]
    assert np.array_equal(found["k"], call.arrays["k"])


def test_two_passes_add_up_in_grad() -> None:
    call = attention_call()
    once = subject(attention, "attention").gradients(call, UPSTREAM)
    found = subject(attention, "attention").pullback(call, UPSTREAM, ALL).accumulated()
    assert all(np.array_equal(found[name], 2.0 * once[name]) for name in ALL)


def test_the_derivative_of_a_gradient_is_the_outputs_along_a_direction() -> None:
    """The output is linear in v: along a direction it is what it is of that in place of v."""
    call = attention_call()
    direction = np.cos(np.arange(call.arrays["v"].size)).reshape(call.arrays["v"].shape)
    mine = subject(attention, "attention", dtype="float64")
    call = attention_call("float64")
    found = mine.pullback(call, UPSTREAM, ("v",)).derivative(direction)
    right = mine(call.with_arrays(v=direction))
    assert found.shape == right.shape
    assert np.abs(found - right).max() <= 2.0**-48


def test_gradients_that_have_none_are_declined() -> None:
    def once(q: Any, k: Any, v: Any) -> Any:
        return attention(Once.apply(q.detach()) + q - q.detach(), k, Fixed.apply(v))  # type: ignore[no-untyped-call]

    pullback = subject(once, "attention").pullback(attention_call(), UPSTREAM, ("v",))
    with pytest.raises(Breach, match="gradient") as caught:
        pullback.derivative(np.ones((2, 1, 4, 5)))
    assert caught.value.kind == "declined"


class Fixed(torch.autograd.Function):
    """The identity, whose gradient is given once only."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.clone()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *upstream: Any) -> Any:
        return upstream[0]


def test_a_function_for_gradients_is_called_twice_where_they_add_up() -> None:
    kept: list[Any] = []

    def attention_backward(grad_out: Any, q: Any, k: Any, v: Any) -> Any:
        kept.append(q)
        return q, k, v * len(kept)

    mine = subject(attention, "attention", others={"attention_backward": attention_backward})
    call = attention_call()
    passes = mine.pullback(call, UPSTREAM, ALL)
    found = passes.accumulated()
    assert np.array_equal(found["k"], 2.0 * call.arrays["k"])
    assert np.array_equal(found["v"], 3.0 * call.arrays["v"])
    with pytest.raises(Breach, match="nothing differentiates") as caught:
        passes.derivative(call.arrays["v"])
    assert caught.value.kind == "declined"


def test_an_upstream_that_repeats_along_channels_is_one_number_for_all() -> None:
    seen = []

    class Watched(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, *upstream: Any) -> Any:
            seen.append(upstream[0].stride())
            return upstream[0]

    def watched(q: Any, k: Any, v: Any) -> Any:
        return Watched.apply(attention(q, k, v))  # type: ignore[no-untyped-call]

    upstream = np.repeat(UPSTREAM[..., :1], 5, axis=-1)
    mine, call = subject(watched, "attention"), attention_call()
    one = mine.gradients(call, upstream, upstream_layout="channels-repeated")
    other = mine.gradients(call, upstream)
    assert [strides[-1] for strides in seen] == [0, 1]
    assert all(np.array_equal(one[name], other[name]) for name in ALL)
