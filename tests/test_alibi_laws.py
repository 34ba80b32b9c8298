"""What the laws of alibi_slopes and alibi_bias expect, and the references, beside plain loops.

Right functions of other styles pass, and wrong ones that no row of the catalogue has don't.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from attnspec.driving import scope_of
from attnspec.impls import alibi_bias as biases
from attnspec.impls import alibi_slopes as references
from attnspec.loading import load
from attnspec.oracle.alibi_values import bias, first_run, known, penalties, slopes, unrounded_error
from attnspec.oracle.inputs import sampled
from attnspec.oracle.law import Inputs
from attnspec.oracle.precision import snapped
from attnspec.subject import Subject
from attnspec.target import DTYPES, Target
from tests.rejecting import rejections
from tests.relative_positions import papers_exponents

ZERO = {"alibi.row_constant": "zero-diagonal", "alibi.future": "symmetric"}
BY_KEY = {"alibi.row_constant": "free", "alibi.future": "unspecified"}
GEOMETRIC = {"alibi.slopes": "geometric"}


def subject(
    functions: Mapping[str, Callable[..., Any]],
    dtype: str = "float32",
    conventions: Mapping[str, str] | None = None,
    **more: Any,
) -> Subject:
    """The last function of those given, as a law sees it."""
    target = Target(name="own", conventions=dict(conventions or {}), **more)
    return Subject(load({"TARGET": target, **functions}), [*functions][-1], dtype)


def heads_call(n_heads: int, dtype: str = "float32") -> Inputs:
    return Inputs("alibi_slopes", dtype, {}, {"dtype": dtype}, {"n_heads": n_heads})


def bias_call(n_heads: int, t: int, s: int, dtype: str = "float32") -> Inputs:
    numbers = {"n_heads": n_heads, "t": t, "s": s}
    return Inputs("alibi_bias", dtype, {}, {"dtype": dtype}, numbers)


# -- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("heads", [1, 2, 3, 5, 8, 12, 24, 33, 71, 128])
def test_slopes_are_powers_with_the_papers_exponents(heads: int) -> None:
    exact = [2.0 ** float(-e) for e in papers_exponents(heads)]
    geometric = [2.0 ** (-8.0 * (k + 1) / heads) for k in range(heads)]
    one = subject({"alibi_slopes": references.alibi_slopes}, "float64")
    other = subject({"alibi_slopes": references.alibi_slopes_geometric}, "float64", GEOMETRIC)
    for each, plain in ((one, exact), (other, geometric)):
        right = slopes(each, heads_call(heads))
        assert (np.abs(right.value - plain) <= right.allowance).all()
    assert first_run(one, heads_call(heads)) == 2 ** int(math.log2(heads))
    assert first_run(other, heads_call(heads)) == heads


@pytest.mark.parametrize("dtype", DTYPES)
def test_references_round_once(dtype: str) -> None:
    """Both forms of slopes give, in half precision, what rounding the exact ones gives."""
    asked = getattr(torch, dtype)
    for heads in range(1, 65):
        exact = np.array([2.0 ** float(-e) for e in papers_exponents(heads)])
        found = references.alibi_slopes(heads, dtype=asked).double().numpy()
        one = subject({"alibi_slopes": references.alibi_slopes}, dtype)
        off = unrounded_error(one, heads_call(heads, dtype))
        assert (found >= snapped(exact - off, dtype)).all()
        assert (found <= snapped(exact + off, dtype)).all()


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 2, 5), (8, 4, 4), (5, 1, 300)])
def test_bias_is_minus_slope_times_distance_in_loops(shape: tuple[int, int, int]) -> None:
    heads, t, s = shape
    exponents = papers_exponents(heads)
    loops = np.zeros(shape)
    for h, i, j in np.ndindex(shape):
        loops[h, i, j] = -(2.0 ** float(-exponents[h])) * abs(i + s - t - j)
    one = subject({"alibi_bias": biases.alibi_bias}, "float64")
    right = bias(one, bias_call(*shape, "float64"))
    assert (np.abs(right.value - loops) <= right.allowance).all()
    assert (np.abs(one(bias_call(*shape, "float64")) - loops) <= right.allowance).all()


def test_what_is_free_and_what_is_unspecified() -> None:
    """A constant a row is taken from the diagonal, and nothing is expected of keys ahead."""
    exact = biases.alibi_bias(2, 3, 4)
    ahead = biases.offsets(3, 4) > 0

    def other(n_heads: int, t: int, s: int, *, dtype: torch.dtype) -> Tensor:
        return (exact + torch.arange(6.0).reshape(2, 3, 1)).masked_fill(ahead, math.nan)

    one, call = subject({"alibi_bias": other}, conventions=BY_KEY), bias_call(2, 3, 4)
    assert known(one, call)[0].tolist() == (~ahead).tolist()
    given = one(call)
    right, taken = bias(one, call, given), penalties(one, call, given)
    seen = np.broadcast_to(~ahead.numpy(), given.shape)
    assert np.array_equal(right.value[seen], given[seen])
    assert np.isnan(right.value[~seen]).all()
    assert not right.allowance[~seen].any()
    assert np.array_equal(taken.given, np.where(seen, exact.double().numpy(), 0.0))
    restless = subject({"alibi_bias": other}, conventions=BY_KEY, guarantees=())
    assert np.isinf(bias(restless, call, given).allowance[~seen]).all()


def test_a_constant_that_hides_the_penalties_leaves_nothing_to_judge() -> None:
    def far(n_heads: int, t: int, s: int, *, dtype: torch.dtype) -> Tensor:
        return (biases.alibi_bias(n_heads, t, s) + 2.0**20).to(dtype)

    call = bias_call(3, 2, 5, "bfloat16")
    one = subject({"alibi_bias": far}, "bfloat16", {"alibi.row_constant": "free"})
    assert np.isinf(bias(one, call).allowance).all()


def test_an_infinite_constant_is_no_constant() -> None:
    def infinite(n_heads: int, t: int, s: int, *, dtype: torch.dtype) -> Tensor:
        return torch.full((n_heads, t, s), -math.inf, dtype=dtype)

    wrong = subject({"alibi_bias": infinite}, conventions={"alibi.row_constant": "free"})
    assert "matches_oracle" in rejections(wrong, 10)


# -- right ones in other styles -------------------------------------------------------------------


def by_repeated_products(n_heads: int, *, dtype: Any = None, device: Any = None) -> Tensor:
    """As the paper's code has it: lists of Python's numbers."""

    def of_power(n: int) -> list[float]:
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    power = 2 ** math.floor(math.log2(n_heads))
    rest = of_power(2 * power)[0::2][: n_heads - power]
    return torch.tensor(of_power(power) + rest, dtype=dtype or torch.float32)


def by_exponential(n_heads: int, *, dtype: Any = None, device: Any = None) -> Tensor:
    wide = references.working_dtype(dtype)
    exponents = references.slope_exponents(n_heads).to(wide)
    return torch.exp(exponents * math.log(2.0)).to(dtype or torch.float32)


def with_stored_slopes(n_heads: int, t: int, s: int, *, dtype: Any = None) -> Tensor:
    """Eager model code: slopes in the dtype of the bias, one line a query, from the last one on."""
    stored = references.alibi_slopes(n_heads, dtype=dtype)[:, None]
    rows = [(torch.arange(s) - at).abs().neg() for at in range(s - t, s)]
    lines = [(stored.to(references.working_dtype(dtype)) * row).to(stored.dtype) for row in rows]
    return torch.stack(lines, 1)


def about_the_last_key(n_heads: int, t: int, s: int, *, dtype: Any = None) -> Tensor:
    """Slope times (key - last key), and a constant of each row's own."""
    slope = references.alibi_slopes(n_heads)[:, None, None]
    keys = torch.arange(s) - (s - 1)
    return (slope * keys + torch.arange(t)[:, None] * 0.5).to(dtype or torch.float32)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", [by_repeated_products, by_exponential])
def test_right_slopes_pass(function: Callable[..., Tensor], dtype: str) -> None:
    assert rejections(subject({"alibi_slopes": function}, dtype), 25) == {}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize(
    ("function", "conventions"), [(with_stored_slopes, ZERO), (about_the_last_key, BY_KEY)]
)
def test_right_biases_pass(
    function: Callable[..., Tensor], conventions: Mapping[str, str], dtype: str
) -> None:
    assert rejections(subject({"alibi_bias": function}, dtype, conventions), 15) == {}


# -- wrong ones that no row of the catalogue has --------------------------------------------------


def _of_width(n_heads: int) -> Tensor:
    return torch.exp2(-8.0 * torch.arange(1, n_heads + 1) / max(n_heads, 8))


def _natural(n_heads: int) -> Tensor:
    return torch.exp(references.slope_exponents(n_heads)).float()


def _swapped_pair(n_heads: int) -> Tensor:
    found = references.alibi_slopes(n_heads)
    return torch.cat((found[1:2], found[:1], found[2:])) if n_heads > 1 else found


@pytest.mark.parametrize(
    ("function", "laws"),
    [
        (_of_width, {"matches_oracle", "powers_of_two"}),
        (_natural, {"matches_oracle", "powers_of_two"}),
        (_swapped_pair, {"matches_oracle", "order", "products"}),
    ],
)
def test_wrong_slopes_are_rejected(function: Callable[..., Tensor], laws: set[str]) -> None:
    assert laws <= {*rejections(subject({"alibi_slopes": function}))}


def _last_key_free(n_heads: int, t: int, s: int) -> Tensor:
    found = biases.alibi_bias(n_heads, t, s)
    found[..., 0] = 0.0
    return found


def _two_a_step_far_away(n_heads: int, t: int, s: int) -> Tensor:
    found = biases.alibi_bias(n_heads, t, s)
    return torch.where(biases.offsets(t, s).abs() > 20, 2.0 * found, found)


def _rows_in_reverse(n_heads: int, t: int, s: int) -> Tensor:
    return biases.alibi_bias(n_heads, t, s).flip(1)


@pytest.mark.parametrize(
    ("function", "laws"),
    [
        (_last_key_free, {"matches_oracle", "falls_with_distance", "longer_text"}),
        (_two_a_step_far_away, {"matches_oracle", "linear_in_distance"}),
        (_rows_in_reverse, {"matches_oracle", "zero_diagonal", "moved_together"}),
    ],
)
def test_wrong_biases_are_rejected(function: Callable[..., Tensor], laws: set[str]) -> None:
    assert laws <= {*rejections(subject({"alibi_bias": function}))}
    assert "matches_oracle" in rejections(subject({"alibi_bias": function}, conventions=BY_KEY))


# -- calls ----------------------------------------------------------------------------------------


def test_limits_keep_queries_at_most_as_many_as_keys() -> None:
    limited = subject({"alibi_bias": biases.alibi_bias}, limits={"t": {7}, "s": (3, 9)})
    drawn = list(islice(sampled("alibi_bias", scope_of(limited), 40), 40))
    assert {inputs.numbers["t"] for inputs in drawn} == {7}
    assert {inputs.numbers["s"] for inputs in drawn} <= {7, 8, 9}
    nothing = subject({"alibi_bias": biases.alibi_bias}, limits={"t": {9}, "s": (3, 7)})
    with pytest.raises(ValueError, match="no call with t <= s is legal"):
        list(sampled("alibi_bias", scope_of(nothing), 1))


def test_a_target_that_names_no_dtype_is_asked_for_none() -> None:
    plain = subject({"alibi_slopes": _of_width})
    drawn = sampled("alibi_slopes", scope_of(plain), 40)
    assert {tuple(inputs.options) for inputs in drawn} == {()}


@pytest.mark.parametrize("n_heads", [0, -1])
def test_references_refuse_no_heads(n_heads: int) -> None:
    for function in (references.alibi_slopes, references.alibi_slopes_geometric):
        with pytest.raises(ValueError, match="expected 1 or more"):
            function(n_heads)
    with pytest.raises(ValueError, match="more than 2 keys"):
        biases.alibi_bias(1, 3, 2)
