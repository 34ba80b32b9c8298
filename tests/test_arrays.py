"""The crossing between NumPy and a target's arrays: placement in memory, and results back."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from attnspec import arrays, memory
from attnspec.oracle.family import UNIFORM
from attnspec.oracle.inputs import LAYOUTS
from attnspec.oracle.law import Breach
from attnspec.oracle.precision import INDEX_TYPES, NUMPY_TYPES, snapped
from attnspec.target import DTYPES

Array = np.ndarray[Any, Any]
SHAPES = [(), (3,), (2, 3), (2, 3, 4, 5), (0, 3), (2, 0, 4), (2, 3, 0)]


def values(shape: tuple[int, ...], dtype: str) -> Array:
    """Distinct numbers along every axis but the leading one, as an expanded layout needs."""
    entry = snapped(np.arange(1, 1 + math.prod(shape[1:])).reshape(shape[1:]), dtype)
    return np.broadcast_to(entry, shape).copy()


def handed(
    array: Array, dtype: str, layout: str, kind: str = "torch", device: str = "cpu"
) -> tuple[Any, Array, memory.Plan]:
    item = (np.dtype(dtype) if dtype in memory.POISON else NUMPY_TYPES[dtype]).itemsize
    where = memory.planned(array, layout, item)
    flat = memory.buffer(array, dtype, where)
    thing, _ = arrays.crossing(kind).hand(flat, where, dtype, device)
    return thing, flat, where


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_go_over_and_come_back(shape: tuple[int, ...], dtype: str, layout: str) -> None:
    given = values(shape, dtype)
    for kind in arrays.KINDS:
        thing, flat, _ = handed(given, dtype, layout, kind)
        back = arrays.crossing(kind).take(thing, arrays.Due(shape, (dtype,), "cpu"))
        assert back.dtype == np.float64
        assert np.array_equal(back, given)
        assert not np.shares_memory(back, flat)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_everything_around_the_values_is_nan(dtype: str, layout: str) -> None:
    given = values((2, 3, 4), dtype)
    _, flat, where = handed(given, dtype, layout)
    cells = flat.view(NUMPY_TYPES[dtype]).astype(np.float64)
    stored = given[0].size if layout == "expanded" else given.size
    assert np.isfinite(cells).sum() == stored
    guard = memory.GUARD // NUMPY_TYPES[dtype].itemsize
    assert np.isnan(cells[: where.start]).all()
    assert np.isnan(cells[-guard:]).all()


@pytest.mark.parametrize("dtype", [*DTYPES, "int64", "int32"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_buffers_and_guards_are_multiples_of_the_alignment(dtype: str, layout: str) -> None:
    given = np.ones((3, 5, 7), np.int64 if dtype.startswith("int") else np.float64)
    _, flat, where = handed(given, dtype, layout)
    assert flat.ctypes.data % memory.ALIGNMENT == 0
    assert flat.nbytes % memory.ALIGNMENT == 0
    start = where.start * flat.itemsize
    assert start >= memory.GUARD
    assert start % memory.ALIGNMENT == (flat.itemsize if layout == "offset" else 0)


STRIDES = {
    "contiguous": (12, 4, 1),
    "transposed": (12, 1, 3),
    "row-step": (24, 8, 1),
    "column-step": (24, 8, 2),
    "expanded": (0, 4, 1),
    "offset": (12, 4, 1),
    "heads-inside": (4, 8, 1),
    "heads-repeated": (12, 4, 1),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_strides_of_each_layout(layout: str, dtype: str) -> None:
    given = values((2, 3, 4), dtype)
    tensor, _, _ = handed(given, dtype, layout)
    assert tensor.stride() == STRIDES[layout]
    view, _, _ = handed(given, dtype, layout, "numpy")
    assert tuple(s // view.itemsize for s in view.strides) == STRIDES[layout]
    assert view.dtype == NUMPY_TYPES[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
def test_heads_lie_inside_of_tokens_or_are_repeated(dtype: str) -> None:
    given = np.arange(48.0).reshape(2, 2, 3, 4)
    tensor, _, _ = handed(given, dtype, "heads-inside")
    assert tensor.stride() == (24, 4, 8, 1)
    assert tensor.transpose(1, 2).is_contiguous()
    assert tensor.tolist() == given.tolist()
    same = np.broadcast_to(given[:, :1], given.shape).copy()
    repeated, flat, _ = handed(same, dtype, "heads-repeated")
    assert repeated.stride() == (12, 0, 4, 1)
    assert repeated.tolist() == same.tolist()
    assert np.isfinite(flat.view(NUMPY_TYPES[dtype]).astype(np.float64)).sum() == 24
    assert handed(given, dtype, "heads-repeated")[0].is_contiguous()


def test_entries_that_differ_cannot_be_expanded() -> None:
    given = np.arange(6.0).reshape(2, 3)
    tensor, _, _ = handed(given, "float32", "expanded")
    assert tensor.stride() == (3, 1)
    assert tensor.tolist() == given.tolist()


def test_one_number_is_stored_once() -> None:
    tensor, flat, _ = handed(np.full((2, 3), 0.5), "float32", UNIFORM)
    assert tensor.stride() == (0, 0)
    assert np.isfinite(flat).sum() == 1
    other, _, _ = handed(np.arange(6.0).reshape(2, 3), "float32", UNIFORM)
    assert other.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    for shape in ((), (0, 3)):
        empty, _, _ = handed(np.zeros(shape), "float32", UNIFORM)
        assert tuple(empty.shape) == shape


def test_a_layout_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match="unknown layout 'diagonal'"):
        memory.plan((2, 3), "diagonal", 4)


@pytest.mark.parametrize("dtype", INDEX_TYPES)
def test_integers_lie_among_poison(dtype: str) -> None:
    given = np.arange(5)
    for kind in ("torch", "numpy"):
        thing, flat, _ = handed(given, dtype, "contiguous", kind)
        assert str(thing.dtype).removeprefix("torch.") == dtype
        assert thing.tolist() == [0, 1, 2, 3, 4]
        assert (flat == memory.POISON[dtype]).sum() == flat.size - 5


def test_writing_to_what_was_handed_over_shows_in_the_buffer() -> None:
    for kind in ("torch", "numpy"):
        thing, flat, where = handed(values((2, 3), "float32"), "float32", "row-step", kind)
        thing[1, 2] = 7.0
        assert flat[where.start + where.strides[0] + 2 * where.strides[1]] == 7.0


def test_special_numbers_keep_their_bits() -> None:
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 2.0**-133])
    for dtype in ("float64", "float32", "bfloat16"):
        tensor, _, _ = handed(special, dtype, "contiguous")
        back = arrays.crossing("torch").take(tensor, arrays.Due(special.shape, (dtype,), "cpu"))
        assert np.array_equal(back, special, equal_nan=True)
        assert np.signbit(back[1])


ONES = torch.ones(2, 3)


@pytest.mark.parametrize(
    ("result", "kind", "said"),
    [
        (None, "type", "returned None; expected a torch tensor"),
        ((ONES, ONES), "type", "returned a tuple of 2; expected a torch tensor"),
        (np.ones((2, 3), np.float32), "type", "an object of type numpy.ndarray"),
        (ONES.to_sparse(), "type", "returned a tensor of layout torch.sparse_coo"),
        (ONES.T, "shape", "returned shape (3, 2); expected shape (2, 3)"),
        (ONES.double(), "dtype", "returned dtype float64; expected dtype float32"),
        (ONES.to("meta"), "device", "returned device meta; expected device cpu"),
    ],
)
def test_a_torch_result_of_the_wrong_kind(result: Any, kind: str, said: str) -> None:
    with pytest.raises(Breach, match=r".") as caught:
        arrays.crossing("torch").take(result, arrays.Due((2, 3), ("float32",), "cpu"))
    assert caught.value.kind == kind
    assert said in str(caught.value)


def test_a_torch_result_with_a_graph_is_read() -> None:
    result = ONES.requires_grad_() * 2
    assert (
        arrays.crossing("torch").take(result, arrays.Due((2, 3), ("float32",), "cpu")).tolist()
        == [[2.0] * 3] * 2
    )


@pytest.mark.parametrize(
    ("result", "kind", "said"),
    [
        (None, "type", "returned None; expected a numpy array"),
        (ONES, "type", "torch.Tensor; expected a numpy array"),
        (np.ones((3, 2), np.float32), "shape", "returned shape (3, 2); expected shape (2, 3)"),
        (np.ones((2, 3)), "dtype", "returned dtype float64; expected dtype float32"),
        (np.ones((2, 3), ml_dtypes.bfloat16), "dtype", "returned dtype bfloat16"),
    ],
)
def test_a_numpy_result_of_the_wrong_kind(result: Any, kind: str, said: str) -> None:
    with pytest.raises(Breach, match=r".") as caught:
        arrays.crossing("numpy").take(result, arrays.Due((2, 3), ("float32",), "cpu"))
    assert caught.value.kind == kind
    assert said in str(caught.value)


class Broken:
    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("not exportable")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class Elsewhere(Broken):
    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)


@pytest.mark.parametrize(
    ("result", "kind", "said"),
    [
        ([1.0], "type", "returned a list of 1; expected one with __dlpack__"),
        (Broken(), "type", "whose __dlpack__ cannot be read: not exportable"),
        (Elsewhere(), "device", "DLPack device type 2; expected device cpu"),
        (np.ones((3, 2), np.float32), "shape", "returned shape (3, 2)"),
        (np.ones((2, 3)), "dtype", "returned dtype float64"),
    ],
)
def test_a_dlpack_result_of_the_wrong_kind(result: Any, kind: str, said: str) -> None:
    with pytest.raises(Breach, match=r".") as caught:
        arrays.crossing("dlpack").take(result, arrays.Due((2, 3), ("float32",), "cpu"))
    assert caught.value.kind == kind
    assert said in str(caught.value)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_dlpack_hands_over_can_be_read_by_others(layout: str) -> None:
    given = values((2, 3, 4), "float32")
    thing, _, _ = handed(given, "float32", layout, "dlpack")
    assert not hasattr(thing, "shape")
    assert np.array_equal(np.from_dlpack(thing), given)
    assert torch.utils.dlpack.from_dlpack(thing).tolist() == given.tolist()


def test_bfloat16_crosses_dlpack() -> None:
    given = values((2, 3), "bfloat16")
    thing, _, _ = handed(given, "bfloat16", "transposed", "dlpack")
    tensor = torch.utils.dlpack.from_dlpack(thing)
    assert tensor.dtype is torch.bfloat16
    back = arrays.crossing("dlpack").take(tensor, arrays.Due((2, 3), ("bfloat16",), "cpu"))
    assert np.array_equal(back, given)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_same_on_cuda(layout: str, dtype: str) -> None:
    given = values((2, 3, 4), dtype)
    where = memory.planned(given, layout, NUMPY_TYPES[dtype].itemsize)
    flat = memory.buffer(given, dtype, where)
    crossing = arrays.crossing("torch")
    tensor, now = crossing.hand(flat, where, dtype, "cuda")
    assert tensor.stride() == STRIDES[layout]
    assert np.array_equal(crossing.take(tensor, arrays.Due(given.shape, (dtype,), "cuda")), given)
    assert np.array_equal(now().view(np.uint8), flat.view(np.uint8))
    with pytest.raises(Breach, match="returned device cuda:0; expected device cpu"):
        crossing.take(tensor, arrays.Due(given.shape, (dtype,), "cpu"))


def test_devices_are_told_apart() -> None:
    with pytest.raises(Breach, match="expected device cuda"):
        arrays.crossing("torch").take(ONES, arrays.Due((2, 3), ("float32",), "cuda"))
