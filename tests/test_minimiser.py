"""The minimiser keeps a call failing, stays within its budget and reaches simple numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from attnspec.oracle.inputs import FAMILIES, Scope, sampled
from attnspec.oracle.law import Inputs
from attnspec.oracle.minimiser import simplified
from attnspec.oracle.precision import snapped
from tests.stubs import attention_call

Array = np.ndarray[Any, Any]


class Counted:
    """A predicate that counts its calls and keeps every call that it was given."""

    def __init__(self, predicate: Callable[[Inputs], bool]) -> None:
        self.predicate = predicate
        self.seen: list[Inputs] = []

    def __call__(self, inputs: Inputs) -> bool:
        self.seen.append(inputs)
        return self.predicate(inputs)


def softmax(x: Array, scale: float = 1.0) -> Array:
    weights = np.exp(scale * (x - x.max(axis=-1, keepdims=True)))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def logits(shape: tuple[int, ...] = (3, 17), seed: int = 3, **fields: Any) -> Inputs:
    x = snapped(2.0 * np.random.default_rng(seed).standard_normal(shape), "bfloat16")
    return Inputs(
        component="softmax",
        dtype="bfloat16",
        arrays={"x": x},
        **{"pattern": "normal", "signed": True, "seed": seed, **fields},
    )


def wrong_scale(inputs: Inputs) -> bool:
    x = inputs.arrays["x"]
    return bool((np.abs(softmax(x, 1.1) - softmax(x)) > 2.0**-8 * softmax(x) + 1e-3).any())


def test_a_scale_fault_ends_in_two_simple_numbers() -> None:
    for layout in ("contiguous", "transposed", "expanded"):
        start = logits(layout=layout, seed=4)
        assert wrong_scale(start)
        fails = Counted(wrong_scale)
        simple = simplified(start, fails)
        assert len(fails.seen) <= 16
        assert wrong_scale(simple)
        assert simple.layout == "contiguous"
        assert np.count_nonzero(simple.arrays["x"]) == 1
        assert set(np.unique(simple.arrays["x"])) <= {0.0, 1.0, -1.0}
        assert simple.pattern == "simplified"
        assert not simple.signed


@pytest.mark.parametrize("budget", [0, 1, 2, 5, 16, 40])
@pytest.mark.parametrize("family", ["softmax", "softmax_some_minus_infinity", "rope", "rope_apply"])
def test_it_keeps_failing_within_the_budget(family: str, budget: int) -> None:
    component = FAMILIES[family].component
    scope = Scope(component=component, dtype="float16", accepts=frozenset({"dim", "base"}))
    for start in sampled(family, scope, 25, seed=budget):
        fails = Counted(_arbitrary)
        simple = simplified(start, fails, budget)
        assert len(fails.seen) <= budget
        assert simple is start or _arbitrary(simple)
        assert simplified(start, _arbitrary, budget).arrays.keys() == simple.arrays.keys()
        for trial in fails.seen:
            assert trial.options == start.options
            for name, values in trial.arrays.items():
                assert values.shape == start.arrays[name].shape
                assert values.dtype == start.arrays[name].dtype
                if values.dtype.kind == "i":
                    assert (values >= 0).all()
                    assert values.max(initial=0) <= start.arrays[name].max(initial=0)
                    continue
                assert np.array_equal(snapped(values, "float16"), values)
                gained = np.isneginf(values) & ~np.isneginf(start.arrays[name])
                assert not gained.any()
                if trial.layout == "expanded":
                    assert (values == values[:1]).all()


def _arbitrary(inputs: Inputs) -> bool:
    """Fails for a reason that depends on many bits of the call."""
    x = np.where(np.isfinite(inputs.arrays["x"]), inputs.arrays["x"], -1.0)
    return bool(x.ravel()[x.size // 2] * 3.0 >= x.sum() / (1 + x.size))


def test_the_budget_bounds_a_predicate_that_always_fails() -> None:
    fails = Counted(lambda _: True)
    simple = simplified(logits(layout="offset"), fails)
    assert not simple.arrays["x"].any()
    assert len(fails.seen) == 2


def test_one_element_is_found_by_halving() -> None:
    start = logits((4, 16), seed=9)
    value = start.arrays["x"][2, 5]
    simple = simplified(start, lambda i: bool(i.arrays["x"][2, 5] == value), budget=24)
    assert np.flatnonzero(simple.arrays["x"]).tolist() == [2 * 16 + 5]
    assert simple.arrays["x"][2, 5] == value


def test_two_elements_are_kept() -> None:
    def fails(inputs: Inputs) -> bool:
        x = inputs.arrays["x"]
        return bool(abs(x[0, 3]) > 0.9 and abs(x[2, 7]) > 0.9)

    start = logits((3, 9), seed=1)
    start = start.with_arrays(x=np.where(np.abs(start.arrays["x"]) < 1.0, 1.5, start.arrays["x"]))
    simple = simplified(start, fails, budget=40)
    assert np.flatnonzero(simple.arrays["x"]).tolist() == [3, 2 * 9 + 7]
    assert set(np.unique(np.abs(simple.arrays["x"]))) == {0.0, 1.0}


def test_minus_infinity_goes_unless_it_matters() -> None:
    x = logits((2, 8)).arrays["x"].copy()
    x[0, :3] = -np.inf
    start = logits().with_arrays(x=x)
    assert np.isfinite(simplified(start, lambda i: True).arrays["x"]).all()
    kept = simplified(start, lambda i: bool(np.isneginf(i.arrays["x"]).any()))
    assert np.isneginf(kept.arrays["x"]).sum() == 3
    assert not kept.arrays["x"][np.isfinite(kept.arrays["x"])].any()


def rope(positions: Any, pattern: str = "normal", dtype: str = "float32") -> Inputs:
    held = np.asarray(positions, np.int64)
    shape = (2, 3, held.shape[-1], 4)
    x = np.random.default_rng(0).standard_normal(shape)
    return Inputs(
        component="rope",
        dtype=dtype,
        arrays={"x": snapped(x, dtype), "positions": held},
        pattern=pattern,
        layout="row-step",
    )


def test_positions_become_simple() -> None:
    anything = simplified(rope([900, 17, 17, 4]), lambda i: True)
    assert anything.arrays["positions"].tolist() == [0, 1, 2, 3]
    nonzero = simplified(
        rope([[900, 800], [17, 16]]), lambda i: bool((i.arrays["positions"] > 0).all())
    )
    assert nonzero.arrays["positions"].tolist() == [[1, 1], [1, 1]]
    edge = simplified(rope([1000, 17, 16]), lambda i: bool((i.arrays["positions"] > 256).any()))
    assert len(set(edge.arrays["positions"].tolist())) == 1
    assert 256 < edge.arrays["positions"][0] <= 500
    apart = simplified(
        rope([1000, 17, 500]), lambda i: bool(np.diff(i.arrays["positions"])[0] < -300)
    )
    assert apart.arrays["positions"].min() == 0


def test_what_a_law_rests_on_stays() -> None:
    zero = simplified(rope([0, 0, 0]), lambda i: True)
    assert not zero.arrays["positions"].any()
    basis = simplified(rope([3, 3, 3], pattern="basis; positions: all 3"), lambda i: True)
    assert (basis.arrays["x"] == rope([3, 3, 3]).arrays["x"]).all()
    assert basis.layout == "contiguous"
    kept = simplified(rope([30, 3, 3]), lambda i: True, keep=("positions",))
    assert kept.arrays["positions"].tolist() == [30, 3, 3]
    assert not kept.arrays["x"].any()


def test_an_empty_call_is_left_alone() -> None:
    empty = logits((0, 5))
    assert simplified(empty, lambda i: True) is empty


HIDDEN = np.array([[True, False, True, True], [True, True, False, True], [False, True, True, True]])


def of_mask(predicate: Callable[[Array, Array], bool], **fields: Any) -> Inputs:
    """What is left of a masked and biased call of which mask and bias decide whether it fails."""
    bias = np.where(HIDDEN, 0.25, -np.inf)
    call = attention_call(mask=HIDDEN, bias=bias, layout="transposed", **fields)
    return simplified(call, lambda i: predicate(i.arrays["mask"], i.arrays["bias"]), budget=40)


def test_what_is_hidden_is_shown_where_that_does_not_matter() -> None:
    found = of_mask(lambda mask, bias: True)
    assert found.arrays["mask"].all()
    assert found.arrays["mask"].dtype == np.bool_
    assert found.layout == "contiguous"
    for name in ("q", "k", "v"):
        assert not found.arrays[name].any()


def test_a_bias_keeps_what_it_hides() -> None:
    found = of_mask(lambda mask, bias: True).arrays["bias"]
    assert np.array_equal(np.isneginf(found), ~HIDDEN)
    assert not found[HIDDEN].any()


def test_no_more_is_hidden_than_matters() -> None:
    found = of_mask(lambda mask, bias: not mask[1, 2]).arrays["mask"]
    assert np.argwhere(~found).tolist() == [[1, 2]]
    # never anything that was not hidden before
    tried: list[Array] = []

    def all_of_them(mask: Array, bias: Array) -> bool:
        tried.append(mask)
        return bool((mask == HIDDEN).all())

    assert np.array_equal(of_mask(all_of_them).arrays["mask"], HIDDEN)
    assert all(mask[HIDDEN].all() for mask in tried)


def test_an_empty_mask_is_left_alone() -> None:
    empty = attention_call(mask=np.ones((0, 4), bool))
    assert simplified(empty, lambda i: True).arrays["mask"].shape == (0, 4)
