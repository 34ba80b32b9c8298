"""A call as text runs, and makes the call that it was written from."""

from __future__ import annotations

from itertools import islice
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from attnspec.oracle.family import UNIFORM
from attnspec.oracle.inputs import FAMILIES, LAYOUTS, Scope, sampled
from attnspec.oracle.law import Inputs
from attnspec.oracle.literal import Upstream, literal
from attnspec.oracle.precision import NUMPY_TYPES, snapped
from tests.stubs import attention, attention_call
from tests.test_arrays import STRIDES

Array = np.ndarray[Any, Any]


def run(text: str, function: str) -> SimpleNamespace:
    """What a stub of the function was called with."""
    calls: list[SimpleNamespace] = []

    def stub(*arguments: Any, **options: Any) -> None:
        calls.append(SimpleNamespace(arguments=arguments, options=options))

    exec(text, {function: stub})
    (call,) = calls
    return call


def float64(tensor: Any) -> Array:
    if isinstance(tensor, torch.Tensor):
        tensor = tensor.double().numpy() if tensor.is_floating_point() else tensor.numpy()
    return np.asarray(tensor).astype(np.float64)


def small_draws(family: str, dtype: str, many: int) -> list[Inputs]:
    """Calls of which every array is short enough to be written out."""
    accepts = frozenset({"dim", "base", "rotary_dim"})
    scope = Scope(component=FAMILIES[family].component, dtype=dtype, accepts=accepts)
    drawn = sampled(family, scope, 1000, seed=11)
    short = (i for i in drawn if all(values.size <= 64 for values in i.arrays.values()))
    return list(islice(short, many))


@pytest.mark.parametrize("arrays", ["torch", "numpy"])
@pytest.mark.parametrize("dtype", NUMPY_TYPES)
@pytest.mark.parametrize(
    "family",
    ["softmax", "softmax_some_minus_infinity", "softmax_empty", "rope", "rope_empty", "rope_apply"],
)
def test_the_text_makes_the_call(family: str, dtype: str, arrays: str) -> None:
    for inputs in small_draws(family, dtype, 20):
        call = run(literal(inputs, "under_test", arrays), "under_test")
        assert call.options == inputs.options
        assert len(call.arguments) == len(inputs.arrays)
        for given, (name, values) in zip(call.arguments, inputs.arrays.items(), strict=True):
            if arrays == "torch":
                stored = dtype if values.dtype.kind == "f" else values.dtype.name
                assert str(given.dtype) == f"torch.{stored}", name
            else:
                kind = NUMPY_TYPES[dtype] if values.dtype.kind == "f" else values.dtype
                assert given.dtype == kind, name
            assert np.array_equal(float64(given), values.astype(np.float64)), name
            same_sign = np.signbit(float64(given)) == np.signbit(values.astype(np.float64))
            assert same_sign.all(), name


def of_layout(layout: str) -> Inputs:
    x = np.broadcast_to(np.arange(12.0).reshape(1, 3, 4), (2, 3, 4)).copy()
    return Inputs(component="softmax", dtype="float32", arrays={"x": x}, layout=layout)


@pytest.mark.parametrize("arrays", ["torch", "numpy"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_text_lays_memory_out(layout: str, arrays: str) -> None:
    text = literal(of_layout(layout), "f", arrays)
    x = run(text, "f").arguments[0]
    stride = x.stride() if arrays == "torch" else tuple(s // x.itemsize for s in x.strides)
    assert stride == STRIDES[layout]
    if arrays == "torch":
        assert (x.storage_offset() > 0) == (layout == "offset")
    plain = ("contiguous", "heads-repeated")
    assert (layout in text.split("\n", 1)[1]) == (layout not in plain)


@pytest.mark.parametrize("arrays", ["torch", "numpy"])
def test_the_text_repeats_heads(arrays: str) -> None:
    x = np.broadcast_to(np.arange(24.0).reshape(2, 1, 3, 4), (2, 2, 3, 4)).copy()
    inputs = Inputs("softmax", "float32", {"x": x}, layout="heads-repeated")
    text = literal(inputs, "f", arrays)
    laid = run(text, "f").arguments[0]
    assert (laid.stride() if arrays == "torch" else laid.strides)[1] == 0
    assert np.array_equal(np.asarray(laid), x)


MASK = np.array([[True, False, True, True], [True, True, False, True], [False, True, True, True]])


@pytest.mark.parametrize("arrays", ["torch", "numpy"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(), (4,), (3, 1), (2, 1, 3, 4)], ids=str)
def test_tensors_passed_by_keyword(shape: tuple[int, ...], layout: str, arrays: str) -> None:
    bias = np.where(np.arange(np.prod(shape)) % 3 == 2, -np.inf, 0.5).reshape(shape)
    inputs = attention_call(mask=MASK, bias=bias, layout=layout, options={"causal": True})
    call = run(literal(inputs, "f", arrays), "f")
    assert len(call.arguments) == 3
    assert list(call.options) == ["mask", "bias", "causal"]
    assert str(call.options["mask"].dtype).endswith("bool")
    assert np.array_equal(float64(call.options["mask"]), MASK)
    assert np.array_equal(float64(call.options["bias"]), bias)
    assert call.options["bias"].shape == shape


def test_the_text_of_a_masked_call() -> None:
    text = literal(attention_call(mask=MASK[:1], bias=np.array(-np.inf)), "f")
    assert "mask = torch.tensor([[True, False, True, True]], dtype=torch.bool)\n" in text
    assert "bias = torch.tensor(-inf, dtype=torch.float32)\n" in text
    assert text.endswith("\nf(q, k, v, mask=mask, bias=bias)")
    assert "from math import inf\n" in text
    large = np.ones((10, 10), bool)
    large[3, 4] = False
    text = literal(attention_call(mask=large), "f", "numpy")
    assert "mask = np.full((10, 10), True, dtype=bool)\nmask[3, 4] = False\n" in text


@pytest.mark.parametrize("arrays", ["torch", "numpy"])
def test_an_upstream_of_one_number_is_stored_once(arrays: str) -> None:
    upstream = Upstream(np.full((2, 1, 3, 5), 0.5), UNIFORM, own_backward=True)
    text = literal(attention_call(), "f", arrays, upstream)
    given = run(text.replace("f_backward", "f"), "f").arguments[0]
    stride = given.stride() if arrays == "torch" else given.strides
    assert set(stride) == {0}
    assert np.array_equal(float64(given), upstream.values)


def test_the_text_of_gradients() -> None:
    inputs = attention_call(mask=MASK, bias=np.zeros(4), options={"return_lse": True})
    upstream = np.ones((2, 1, 3, 5))
    text = literal(inputs, "attention", upstream=Upstream(upstream, "expanded"))
    space: dict[str, Any] = {"attention": attention}
    exec(text.replace("torch.autograd", "found = torch.autograd"), space)
    assert [tuple(g.shape) for g in space["found"]] == [
        (2, 1, 3, 2),
        (2, 1, 4, 2),
        (2, 1, 4, 5),
        (4,),
    ]
    assert space["upstream"].stride()[0] == 0
    text = literal(inputs, "f", "numpy", Upstream(upstream, own_backward=True))
    assert text.endswith("\nf_backward(upstream, q, k, v, mask=mask, bias=bias, return_lse=True)")


def test_the_text_of_a_small_call() -> None:
    inputs = Inputs(
        component="rope",
        dtype="bfloat16",
        arrays={
            "x": snapped(np.asarray([[[[0.1, -0.0], [1e30, 3.0]]]]), "bfloat16"),
            "positions": np.asarray([255, 256], np.int32),
        },
        options={"base": 500000.0},
        pattern="normal; positions: from an edge",
        seed=7,
    )
    assert literal(inputs) == (
        "# x 1 x 1 x 2 x 2, positions 2, base=500000.0; bfloat16; normal; positions: from an edge;"
        " contiguous; seed 7\n"
        "import torch\n"
        "x = torch.tensor([[[[0.1, -0.0], [1e+30, 3.0]]]], dtype=torch.bfloat16)\n"
        "positions = torch.tensor([255, 256], dtype=torch.int32)\n"
        "rope(x, positions, base=500000.0)"
    )


def test_long_arrays() -> None:
    x = np.zeros((2, 3, 5, 8))
    x[1, 2, 0, 7] = -1.0
    positions = np.arange(100, 105)
    inputs = Inputs(
        component="rope", dtype="float16", arrays={"x": x, "positions": positions}, seed=12
    )
    text = literal(inputs, "f")
    assert "x = torch.full((2, 3, 5, 8), 0.0, dtype=torch.float16)" in text
    assert "x[1, 2, 0, 7] = -1.0" in text
    assert "positions = torch.arange(100, 105, dtype=torch.int64)" in text
    assert np.array_equal(float64(run(text, "f").arguments[0]), x)
    many = inputs.with_arrays(x=np.arange(240.0).reshape(x.shape))
    assert "# x: 2 x 3 x 5 x 8, float16, too long to write out" in literal(many, "f")
    assert "seed 12" in literal(many, "f")


@pytest.mark.parametrize("arrays", ["torch", "numpy"])
def test_infinity_and_nan(arrays: str) -> None:
    x = np.asarray([np.inf, -np.inf, np.nan, 1.0])
    inputs = Inputs(component="softmax", dtype="float32", arrays={"x": x})
    text = literal(inputs, "inference", arrays)
    assert np.array_equal(float64(run(text, "inference").arguments[0]), x, equal_nan=True)
    finite = literal(inputs.with_arrays(x=np.ones(4)), "inference", arrays)
    assert "import inf" not in finite
    assert "import nan" not in finite


@pytest.mark.parametrize("dtype", NUMPY_TYPES)
def test_numbers_are_short_and_exact(dtype: str) -> None:
    finfo: Any = ml_dtypes.finfo
    edges = [float(finfo(NUMPY_TYPES[dtype]).max), float(finfo(NUMPY_TYPES[dtype]).tiny), 1 / 3]
    x = snapped(np.asarray(edges), dtype)
    inputs = Inputs(component="softmax", dtype=dtype, arrays={"x": x})
    text = literal(inputs, "f", "numpy")
    assert np.array_equal(float64(run(text, "f").arguments[0]), x)
    digits = {"bfloat16": "0.334,", "float16": "0.3333,", "float32": "0.33333334,"}
    assert digits.get(dtype, "0.3333333333333333,")[:-1] in text
