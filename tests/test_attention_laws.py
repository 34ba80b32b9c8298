"""Laws of attention on functions made for one of them: what no fault of the catalogue shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import attnspec
from attnspec.driving import out_of_reach, scope_of
from attnspec.impls.attention import attention
from attnspec.impls.attention_conventions import attention_per_query
from attnspec.judging import Judgement, judged
from attnspec.loading import load
from attnspec.oracle.attention import LAWS
from attnspec.oracle.attention_calls import changed, key_heads, promised_rows, taken
from attnspec.oracle.attention_heads import merged
from attnspec.oracle.attention_scores import hadamard
from attnspec.oracle.attention_visibility import other_content
from attnspec.oracle.inputs import sampled
from attnspec.oracle.law import Inputs, Law
from attnspec.oracle.precision import FORMATS
from attnspec.subject import Subject

ROWS = {row.id.removeprefix("attention."): row for row in LAWS}
FORWARD = [row for row in LAWS if not row.gradients]
NAN = {"attention.masked_nan": "ignored", "attention.visible_nan": "propagates"}


def subject(function: Callable[..., Any], dtype: str = "float32", **declared: Any) -> Subject:
    declaration = attnspec.Target(**{"name": "mine", **declared})
    return Subject(
        load(SimpleNamespace(TARGET=declaration, attention=function)), "attention", dtype
    )


def judgements(row: Law, mine: Subject, examples: int = 20) -> Iterator[Judgement]:
    if out_of_reach(row, mine):
        return
    for inputs in sampled(row.inputs, scope_of(mine), examples, 3):
        yield judged(row, mine, inputs)


def failing(name: str, mine: Subject, examples: int = 20) -> int:
    return sum(judgement.fails for judgement in judgements(ROWS[name], mine, examples))


def compared(name: str, mine: Subject) -> bool:
    return any(judgement.comparisons for judgement in judgements(ROWS[name], mine))


def cleaned(q: Any, k: Any, v: Any, **options: Any) -> Any:
    """Takes NaN for zero."""
    return attention(*(torch.nan_to_num(x) for x in (q, k, v)), **options)


def spread(q: Any, k: Any, v: Any, **options: Any) -> Any:
    """NaN anywhere reaches every row."""
    given = (x.isnan().any() for x in (q, k, v))
    result = attention_per_query(q, k, v, **options)
    nan = torch.nan if any(given) else 0.0
    return tuple(x + nan for x in result) if isinstance(result, tuple) else result + nan


NAN_LIMITS: Mapping[str, Any] = {"t": (1, 33), "s": (1, 33), "d": (1, 16), "e": (1, 16)}


@pytest.mark.parametrize("name", ["hidden_nan_ignored", "visible_nan_propagates"])
def test_nan_is_only_judged_where_something_is_declared(name: str) -> None:
    assert "does not declare" in out_of_reach(ROWS[name], subject(attention))
    right = subject(attention_per_query, conventions=NAN, limits=NAN_LIMITS)
    assert compared(name, right)
    assert failing(name, right) == 0


def test_a_hidden_nan_that_is_multiplied_by_zero_is_seen() -> None:
    assert failing("hidden_nan_ignored", subject(attention, conventions=NAN)) > 0


@pytest.mark.parametrize("function", [cleaned, spread])
def test_a_nan_that_is_swallowed_or_spread_is_seen(function: Callable[..., Any]) -> None:
    declared = {"attention.visible_nan": "propagates"}
    mine = subject(function, conventions=declared, limits=NAN_LIMITS)
    assert failing("visible_nan_propagates", mine) > 0


def plain(q: Any, k: Any, v: Any) -> Any:
    return attention(q, k, v)


@pytest.mark.parametrize("row", FORWARD, ids=lambda row: row.id)
def test_a_function_without_options_is_called_without(row: Law) -> None:
    mine = subject(plain)
    if row.options or row.inputs in ("attention_causal", "attention_window", "attention_hidden",
                                     "attention_empty_rows"):  # fmt: skip
        return
    assert [j.breach or j.worst for j in judgements(row, mine, 10) if j.fails] == []


LIMITS: Mapping[str, Any] = {
    "b": (1, 2),
    "h": {4},
    "g": {2, 4},
    "t": (1, 9),
    "s": {4, 8},
    "d": {8},
    "e": {8},
}


def limited(q: Any, k: Any, v: Any, **options: Any) -> Any:
    """Complains of any size beyond the limits."""
    shapes = zip(("bhtd", "bgsd", "bgse"), (q, k, v), strict=True)
    for letters, x in shapes:
        for letter, size in zip(letters, x.shape, strict=True):
            limit = LIMITS[letter]
            legal = size in limit if isinstance(limit, set) else limit[0] <= size <= limit[1]
            assert legal, f"{letter} is {size}"
    return attention(q, k, v, **options)


@pytest.mark.parametrize("row", FORWARD, ids=lambda row: row.id)
def test_laws_stay_within_the_limits(row: Law) -> None:
    if row.id == "attention.empty_batch":
        return
    found = list(judgements(row, subject(limited, limits=LIMITS), 10))
    assert [j.breach or j.worst for j in found if j.fails] == []


def anything(q: Any, k: Any, v: Any, **options: Any) -> Any:
    """Rows without keys are 7."""
    result = attention(q, k, v, **{**options, "return_lse": True})
    empty = result[1] == -torch.inf
    output = result[0].masked_fill(empty[..., None], 7.0)
    lse = result[1].masked_fill(empty, 7.0)
    return (output, lse) if options.get("return_lse") else output


@pytest.mark.parametrize("row", FORWARD, ids=lambda row: row.id)
def test_nothing_is_said_about_empty_rows_that_are_unspecified(row: Law) -> None:
    mine = subject(anything, conventions={"attention.empty_row": "unspecified"})
    if row.inputs == "attention_empty_rows":
        with pytest.raises(ValueError, match="unspecified"):
            list(judgements(row, mine))
        return
    assert [j.breach or j.worst for j in judgements(row, mine, 10) if j.fails] == []


def call(**arrays: Any) -> Inputs:
    rng = np.random.default_rng(0)
    shapes = {"q": (2, 6, 3, 4), "k": (2, 3, 5, 4), "v": (2, 3, 5, 2)}
    values: dict[str, Any] = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    return Inputs("attention", "float64", {**values, **arrays}, {"causal": True, "scale": 0.5})


def test_entries_are_taken_where_an_array_has_them() -> None:
    mask = np.arange(15).reshape(3, 5) > 3
    bias = np.arange(6.0).reshape(1, 6, 1, 1)
    part = taken(call(mask=mask, bias=bias), b=[1], h=[4, 5], g=[2], t=[0, 2], s=[3, 1, 0])
    shapes = {name: values.shape for name, values in part.arrays.items()}
    assert shapes == {
        "q": (1, 2, 2, 4),
        "k": (1, 1, 3, 4),
        "v": (1, 1, 3, 2),
        "mask": (2, 3),
        "bias": (1, 2, 1, 1),
    }
    assert part.arrays["mask"].tolist() == mask[[0, 2]][:, [3, 1, 0]].tolist()
    assert part.arrays["bias"].ravel().tolist() == [4.0, 5.0]


def test_none_takes_an_option_or_an_array_away() -> None:
    other = changed(call(mask=np.ones((3, 5), bool)), {"causal": None, "softcap": 2.0}, mask=None)
    assert dict(other.options) == {"scale": 0.5, "softcap": 2.0}
    assert list(other.arrays) == ["q", "k", "v"]


def test_query_heads_read_the_key_head_of_the_convention() -> None:
    assert key_heads(subject(attention), call()).tolist() == [0, 0, 1, 1, 2, 2]
    tiled = subject(attention, conventions={"gqa.head_order": "tiled"})
    assert key_heads(tiled, call()).tolist() == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize("order", [1, 2, 16, 64])
def test_rows_of_a_hadamard_matrix_are_orthogonal(order: int) -> None:
    matrix = hadamard(order)
    assert (matrix @ matrix.T).tolist() == (order * np.eye(order)).tolist()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("name", ["q", "k"])
def test_other_content_leaves_scores_finite(dtype: str, name: str) -> None:
    for seed in range(20):
        large = call(q=np.full((2, 6, 3, 4), 300.0), k=np.full((2, 3, 5, 4), -900.0))
        inputs = Inputs("attention", dtype, large.arrays, {"scale": 4.0}, seed=seed)
        other = {**inputs.arrays, name: other_content(inputs, name)}
        size = np.abs(other["q"]).max() * np.abs(other["k"]).max() * 4 * 4.0
        assert np.abs(other[name]).max() > 0.0
        assert size < FORMATS[dtype].overflow


def test_merged_parts_are_as_far_off_as_they_say() -> None:
    """Outputs and logarithms moved to the ends of their errors, in every combination of signs."""
    rng = np.random.default_rng(1)
    o, x = rng.standard_normal((3, 50, 2)), rng.standard_normal((3, 50)) * 3.0
    x[2, :10] = -np.inf
    e, d = 0.1 * rng.random(o.shape), 0.3 * rng.random(x.shape)
    e[2, :10], d[2, :10] = 0.0, 0.0
    exact, _, log, _ = merged(o, 0.0 * e, x, 0.0 * d)
    worst = 0.0
    for _ in range(200):
        signs = rng.choice([-1.0, 1.0], size=x.shape)
        found, error, lse, moved = merged(
            o + e * rng.choice([-1, 1], size=e.shape), e, x + signs * d, d
        )
        assert (np.abs(found - exact) <= error).all()
        assert (np.abs(lse - log) <= moved).all()
        worst = max(worst, float((np.abs(found - exact) / error).max()))
    assert worst > 0.25, "the bound says too little"


def stores_scores(q: Any, k: Any, v: Any, *, mask: Any = None, bias: Any = None) -> Any:
    """Eager code that stores its scores, and hides by minus infinity or by the mask."""
    scores = (q @ k.mT) * q.shape[-1] ** -0.5 + (0.0 if bias is None else bias)
    scores = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
    return torch.softmax(scores.float(), -1).to(v.dtype) @ v


def test_a_hidden_score_that_overflows_promises_nothing_of_its_row() -> None:
    """In half precision it is infinite before minus infinity is added to it."""
    q, k = np.zeros((1, 1, 2, 4)), np.zeros((1, 1, 2, 4))
    q[0, 0, 0, 0], k[0, 0, 0, 0] = 6.0, 16376.0
    arrays = {"q": q, "k": k, "v": np.ones((1, 1, 2, 4)), "mask": np.array([[False, True]] * 2)}
    inputs = Inputs("attention", "float16", arrays)
    half = subject(stores_scores, "float16")
    assert promised_rows(half, inputs).tolist() == [[[False, True]]]
    verdict = judged(ROWS["bool_mask_eq_infinite_bias"], half, inputs)
    assert verdict.breach is None
    assert not verdict.fails
    hidden = changed(inputs, mask=None, bias=np.where(arrays["mask"], 0.0, -np.inf))
    assert np.isnan(half(hidden)[0, 0, 0]).all()
