"""Gradients of a target's function: how they are taken, and what is told where they are wrong."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from attnspec.oracle.inputs import LAYOUTS
from attnspec.oracle.law import Breach, Inputs
from attnspec.target import DTYPES
from tests.stubs import attention, attention_call, subject

UPSTREAM = (np.arange(30.0).reshape(2, 1, 3, 5) % 5 - 2.0) / 2.0
LOWER = np.tril(np.ones((3, 4), bool), 1)


def right(call: Inputs, upstream: Any = UPSTREAM) -> dict[str, Any]:
    """What autograd gives in float64."""
    tensors = {
        name: torch.tensor(values, requires_grad=values.dtype == np.float64)
        for name, values in call.arrays.items()
    }
    keywords: dict[str, Any] = {n: x for n, x in tensors.items() if n in ("mask", "bias")}
    result = attention(tensors["q"], tensors["k"], tensors["v"], **keywords, **call.options)
    result = result[0] if isinstance(result, tuple) else result
    (result * torch.tensor(upstream)).sum().backward()
    return {n: x.grad.numpy() for n, x in tensors.items() if x.grad is not None}


def same(found: dict[str, Any], wanted: dict[str, Any], within: float = 1e-5) -> bool:
    return list(found) == list(wanted) and all(
        found[n].shape == x.shape and np.allclose(found[n], x, atol=within, rtol=within)
        for n, x in wanted.items()
    )


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("upstream_layout", LAYOUTS)
def test_autograd_in_every_layout(layout: str, upstream_layout: str) -> None:
    call = attention_call(layout=layout)
    mine = subject(attention, "attention")
    upstream = np.broadcast_to(UPSTREAM[:1], UPSTREAM.shape).copy()
    found = mine.gradients(call, upstream, upstream_layout=upstream_layout)
    assert same(found, right(call, upstream))
    assert all(x.dtype == np.float64 for x in found.values())
    record = mine.memory()
    assert np.array_equal(record.before, record.after)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_and_several_results(dtype: str) -> None:
    call = attention_call(dtype, options={"return_lse": True})
    found = subject(attention, "attention", dtype=dtype).gradients(call, UPSTREAM)
    assert same(found, right(call), 1e-5 if dtype in ("float64", "float32") else 0.05)


@pytest.mark.parametrize("shape", [(3, 4), (4,), (1, 1, 3, 1), (2, 1, 1, 4)], ids=str)
def test_a_bias_has_a_gradient_of_its_own_shape(shape: tuple[int, ...]) -> None:
    call = attention_call(bias=np.linspace(-1.0, 1.0, np.prod(shape)).reshape(shape), mask=LOWER)
    found = subject(attention, "attention").gradients(call, UPSTREAM)
    assert list(found) == ["q", "k", "v", "bias"]
    assert same(found, right(call))


def test_what_the_target_is_given_requires_grad_and_lies_as_asked() -> None:
    seen = []

    def looks(q: Any, k: Any, v: Any, *, mask: Any = None) -> Any:
        seen.append([(x.requires_grad, x.is_leaf, x.stride()) for x in (q, k, v, mask)])
        return attention(q, k, v, mask=mask)

    mine = subject(looks, "attention")
    call = attention_call(mask=LOWER)
    mine.gradients(call, UPSTREAM, layout="row-step")
    mine(call)
    assert [grad for grad, _, _ in seen[0]] == [True, True, True, False]
    assert all(leaf for _, leaf, _ in seen[0])
    assert seen[0][0][2] == (12, 12, 4, 1)
    assert not any(grad for grad, _, _ in seen[1])


def test_gradients_are_taken_whatever_the_caller_has_switched_off() -> None:
    with torch.no_grad():
        found = subject(attention, "attention").gradients(attention_call(), UPSTREAM)
    assert same(found, right(attention_call()))


def test_an_output_of_which_gradients_could_be_asked() -> None:
    seen = []

    def looks(q: Any, k: Any, v: Any) -> Any:
        seen.append(q.requires_grad)
        return attention(q, k, v)

    mine = subject(looks, "attention")
    recorded = mine.recorded(attention_call())
    assert np.array_equal(recorded, mine(attention_call()))
    assert seen == [True, False]
    assert by_numpy().recorded(attention_call()).shape == (2, 1, 3, 5)


def gone(name: str) -> Callable[..., Any]:
    def function(q: Any, k: Any, v: Any) -> Any:
        tensors = {"q": q, "k": k, "v": v}
        tensors[name] = tensors[name].detach()
        return attention(**tensors)

    return function


class Backward(torch.autograd.Function):
    """The values as they are, cut to the queries, and a backward pass to be overridden."""

    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, v: Any) -> Any:
        return v[:, :, :3] + 0.0


class Raising(Backward):
    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise ValueError("no memory left")


class Declining(Backward):
    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise NotImplementedError("not on Tuesdays")


class Misshapen(Backward):
    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0], grads[0], grads[0]


class Writing(Backward):
    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (grad,) = grads
        grad[0, 0, 1, 2] = 9.0
        warnings.warn("in place", stacklevel=1)
        return grad.new_zeros(2, 1, 3, 2), grad.new_zeros(2, 1, 4, 2), grad.new_zeros(2, 1, 4, 5)


@pytest.mark.parametrize(
    ("function", "kind", "said"),
    [
        (gone("k"), "gradient", "gives no gradient of k: it is None"),
        (lambda q, k, v: attention(q, k, v).detach(), "gradient",
         "returned an output that does not require grad"),
        (Misshapen.apply, "gradient", "returned an invalid gradient"),
        (Raising.apply, "raises", "raised ValueError in its backward pass: no memory left"),
        (Declining.apply, "declined", "NotImplementedError: not on Tuesdays"),
        (lambda q, k, v: attention(q, k, v)[0], "shape", "returned shape (1, 3, 5)"),
        (lambda q, k, v: attention(q, k, v).double(), "dtype", "returned dtype float64"),
        (lambda q, k, v: None, "type", "returned None"),
    ],
)  # fmt: skip
def test_gradients_that_are_missing_or_wrong(
    function: Callable[..., Any], kind: str, said: str
) -> None:
    mine = subject(function, "attention")
    with pytest.raises(Breach, match=r".") as caught:
        mine.gradients(attention_call(), UPSTREAM)
    assert caught.value.kind == kind
    assert said in str(caught.value)


def test_an_exception_in_a_backward_pass_is_told_with_its_line() -> None:
    def raising(q: Any, k: Any, v: Any) -> Any:
        return Raising.apply(q, k, v)  # type: ignore[no-untyped-call]

    mine = subject(raising, "attention")
    with pytest.raises(Breach, match=r"\(test_subject_gradients.py, line \d+, in backward: raise"):
        mine.gradients(attention_call(), UPSTREAM)


def test_memory_has_the_upstream_gradient() -> None:
    mine = subject(Writing.apply, "attention")
    mine.gradients(attention_call(), UPSTREAM, upstream_layout="row-step")
    record = mine.memory()
    assert (record.before != record.after).any()
    assert mine.written() == "upstream changed at [0, 0, 1, 2]: was 0, is 9"


def attention_backward(grad_out: Any, q: Any, k: Any, v: Any, **options: Any) -> Any:
    """By autograd, for functions of any arrays."""
    bias = options.pop("bias", None)
    tensors = [
        torch.tensor(np.asarray(x), requires_grad=True) for x in (q, k, v, bias) if x is not None
    ]
    if "mask" in options:
        options["mask"] = torch.tensor(np.asarray(options["mask"]))
    if bias is not None:
        options["bias"] = tensors[3]
    result = attention(*tensors[:3], **options)
    grads = torch.autograd.grad(result, tensors, torch.tensor(np.asarray(grad_out)))
    return tuple(x.numpy() for x in grads)


def numpy_attention(q: Any, k: Any, v: Any, **options: Any) -> Any:
    return attention(*(torch.tensor(x) for x in (q, k, v)), **options).numpy()


def by_numpy(backward: Callable[..., Any] | None = attention_backward, **declared: Any) -> Any:
    others = {} if backward is None else {"attention_backward": backward}
    return subject(numpy_attention, "attention", arrays="numpy", others=others, **declared)


@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
def test_a_backward_pass_of_its_own(layout: str) -> None:
    call = attention_call(layout=layout, mask=LOWER, bias=np.linspace(0.0, 1.0, 12).reshape(3, 4))
    mine = by_numpy()
    assert same(mine.gradients(call, UPSTREAM), right(call))
    assert mine.written() == ""
    assert (mine.tally.calls, mine.tally.answered) == (1, 1)


def test_what_chooses_further_results_is_not_passed_to_a_backward_pass() -> None:
    call = attention_call(options={"return_lse": True, "scale": 0.25})
    seen = {}

    def backward(grad_out: Any, q: Any, k: Any, v: Any, **options: Any) -> Any:
        seen.update(options)
        return attention_backward(grad_out, q, k, v, **options)

    assert same(by_numpy(backward).gradients(call, UPSTREAM), right(call))
    assert seen == {"scale": 0.25}


def test_a_backward_pass_goes_before_autograd() -> None:
    zeros = lambda grad_out, *tensors: [torch.zeros_like(x) for x in tensors]  # noqa: E731
    mine = subject(attention, "attention", others={"attention_backward": zeros})
    assert not any(x.any() for x in mine.gradients(attention_call(), UPSTREAM).values())


@pytest.mark.parametrize(
    ("backward", "kind", "said"),
    [
        (lambda g, q, k, v: (q, k), "gradient",
         "a tuple of 2 from its backward pass; expected a tuple of the gradients of (q, k, v)"),
        (lambda g, q, k, v: q, "gradient", "returned an object of type numpy.ndarray from its"),
        (lambda g, q, k, v: (q, None, v), "gradient", "gives no gradient of k: it is None"),
        (lambda g, q, k, v: (q, k, k), "gradient",
         "returned a gradient of v of shape (2, 1, 4, 2); expected shape (2, 1, 4, 5)"),
        (lambda g, q, k, v: (q, k.astype(np.float64), v), "gradient",
         "returned a gradient of k of dtype float64; expected dtype float32"),
        (lambda g, q, k, v: (q, k, "v"), "gradient",
         "returned an object of type str as a gradient of v; expected a numpy array"),
        (lambda g, q: (q,), "raises", "raised TypeError in its backward pass: "),
        (None, "gradient", "gives no gradients: there is no function attention_backward"),
    ],
)  # fmt: skip
def test_a_backward_pass_that_is_wrong(
    backward: Callable[..., Any] | None, kind: str, said: str
) -> None:
    with pytest.raises(Breach, match=r".") as caught:
        by_numpy(backward, gradients=True).gradients(attention_call(), UPSTREAM)
    assert caught.value.kind == kind
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ({}, True),
        ({"gradients": False}, False),
        ({"gradients": ("attention",)}, True),
        ({"gradients": ("softmax",)}, False),
        ({"arrays": "numpy"}, False),
        ({"arrays": "dlpack"}, False),
        ({"arrays": "numpy", "gradients": True}, True),
        ({"arrays": "numpy", "others": {"attention_backward": attention_backward}}, True),
        ({"others": {"attention_backward": attention_backward}, "gradients": False}, False),
    ],
)
def test_whether_there_are_gradients(declared: dict[str, Any], expected: bool) -> None:
    assert subject(attention, "attention", **declared).differentiable == expected


def test_gradients_through_dlpack() -> None:
    def forward(q: Any, k: Any, v: Any) -> Any:
        return attention(*(torch.utils.dlpack.from_dlpack(x) for x in (q, k, v)))

    def backward(grad_out: Any, q: Any, k: Any, v: Any) -> Any:
        tensors = [torch.utils.dlpack.from_dlpack(x).requires_grad_() for x in (q, k, v)]
        return torch.autograd.grad(
            attention(*tensors), tensors, torch.utils.dlpack.from_dlpack(grad_out)
        )

    others = {"attention_backward": backward}
    for dtype in ("float32", "bfloat16"):
        mine = subject(forward, "attention", arrays="dlpack", dtype=dtype, others=others)
        found = mine.gradients(attention_call(dtype), UPSTREAM)
        assert same(found, right(attention_call(dtype)), 0.05)
