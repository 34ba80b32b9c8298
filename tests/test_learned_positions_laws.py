"""The laws of learned_positions on functions that are in no catalogue, and both references beside
plain loops."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from attnspec.driving import scope_of
from attnspec.impls.learned_positions import learned_positions, learned_positions_one_hot
from attnspec.judging import judged
from attnspec.oracle import LAWS
from attnspec.oracle.inputs import sampled, strategy
from attnspec.oracle.law import Inputs
from attnspec.oracle.learned_positions_inputs import READINGS
from attnspec.oracle.learned_positions_values import readers
from attnspec.subject import Subject
from attnspec.target import DTYPES
from tests import stubs
from tests.rejecting import rejections

Lookup = Callable[..., Any]
ROWS = {row.id.split(".")[1]: row for row in LAWS if row.component == "learned_positions"}
REFERENCES = (learned_positions, learned_positions_one_hot)


def subject(function: Lookup, dtype: str = "float32", **declared: Any) -> Subject:
    return stubs.subject(function, "learned_positions", dtype=dtype, **declared)


def calls(mine: Subject, family: str = "learned_positions", many: int = 60) -> list[Inputs]:
    return list(sampled(family, scope_of(mine), many, 5))


def rejected(mine: Subject, many: int = 40) -> set[str]:
    """Last names of the laws that find something."""
    return {*rejections(mine, many)}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reference", REFERENCES)
def test_a_reference_keeps_every_law(reference: Lookup, dtype: str) -> None:
    assert rejected(subject(reference, dtype, precision="strict")) == set()


@pytest.mark.parametrize("reference", REFERENCES)
def test_a_reference_is_what_loops_give(reference: Lookup) -> None:
    g = np.random.default_rng(2)
    table = torch.tensor(g.standard_normal((5, 3)), requires_grad=True)
    positions, upstream = [4, 0, 0, 2, 4, 4], g.standard_normal((6, 3))
    found = reference(torch.tensor(positions), table)
    assert found.tolist() == [table[p].tolist() for p in positions]
    (gradient,) = torch.autograd.grad(found, (table,), torch.tensor(upstream))
    for row in range(5):
        read = [i for i, p in enumerate(positions) if p == row]
        for c in range(3):
            exact = sum(Fraction(float(upstream[i, c])) for i in read)
            size = sum(abs(Fraction(float(upstream[i, c]))) for i in read)
            off = abs(Fraction(float(gradient[row, c])) - exact)
            assert off <= size * len(read) * Fraction(1, 2**53)
    assert not gradient[[1, 3]].any()


@pytest.mark.parametrize("index", [torch.int64, torch.int32])
@pytest.mark.parametrize("position", [5, 10, -1, -5, 2**30])
@pytest.mark.parametrize("reference", REFERENCES)
def test_a_reference_refuses_what_the_table_lacks(
    reference: Lookup, position: int, index: torch.dtype
) -> None:
    with pytest.raises((IndexError, RuntimeError)):
        reference(torch.tensor([0, position, 1], dtype=index), torch.ones(5, 2))


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("shapes", [((2, 3), (4, 2)), ((3,), (4,)), ((), (4, 2))])
def test_a_reference_refuses_other_shapes(
    reference: Lookup, shapes: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    positions, table = (torch.zeros(shape) for shape in shapes)
    with pytest.raises(ValueError, match=r"ha(ve|s) shape"):
        reference(positions.long(), table)


def one_hot_product(positions: Tensor, table: Tensor) -> Tensor:
    """A matrix product, as on machines without a gather; its positions are checked by one_hot."""
    wide = table.double()
    named = torch.nn.functional.one_hot(positions.long(), len(table)).double()
    return (named @ wide).to(table.dtype)


def row_by_row(positions: Tensor, table: Tensor) -> Tensor:
    """A list of slices."""
    rows = [torch.narrow(table, 0, p, 1) for p in positions.tolist() if p >= 0]
    if len(rows) < len(positions):
        raise ValueError("negative")
    return torch.cat(rows) if rows else table[:0]


def numpy_take(positions: Any, table: Any) -> Any:
    if (positions < 0).any():
        raise IndexError("negative")
    return table.take(positions, axis=0)


@pytest.mark.parametrize(
    ("function", "declared"),
    [
        (one_hot_product, {}),
        (row_by_row, {"dtypes": ("float32", "float64")}),
        (numpy_take, {"arrays": "numpy"}),
        (numpy_take, {"arrays": "numpy", "index_dtype": "int32"}),
        (one_hot_product, {"index_dtype": "int32", "limits": {"L": (3, 9), "n": (0, 5)}}),
    ],
)
def test_right_code_of_another_style_keeps_every_law(
    function: Lookup, declared: dict[str, Any]
) -> None:
    assert rejected(subject(function, **declared)) == set()


def wraps(positions: Tensor, table: Tensor) -> Tensor:
    return table[positions]


def one_row_for_all(positions: Tensor, table: Tensor) -> Tensor:
    """A broadcast that goes unseen where all tokens are at one position."""
    return learned_positions(positions, table)[:1].expand(len(positions), -1).clone()


def wide_positions_wrong(positions: Tensor, table: Tensor) -> Tensor:
    """A table that was cut at 512 rows."""
    return learned_positions(positions.clamp_max(511) if len(table) > 512 else positions, table)


def channels_reversed(positions: Tensor, table: Tensor) -> Tensor:
    return learned_positions(positions, table).flip(-1)


def detached_row(positions: Tensor, table: Tensor) -> Tensor:
    """The last token's row has no gradient."""
    found = learned_positions(positions, table)
    return torch.cat((found[:-1], found[-1:].detach()))


@pytest.mark.parametrize(
    ("function", "law"),
    [
        (wraps, "outside_is_an_error"),
        (one_row_for_all, "row_read_off"),
        (wide_positions_wrong, "matches_oracle"),
        (channels_reversed, "matches_oracle"),
        (detached_row, "gradient_counts_readers"),
    ],
)
def test_wrong_code_is_rejected(function: Lookup, law: str) -> None:
    assert law in rejected(subject(function), 80)


def test_wrapping_is_all_that_is_wrong_with_indexing() -> None:
    assert rejected(subject(wraps, precision={"float32": {"reductions": "storage"}})) == {
        "outside_is_an_error"
    }


def test_outside_is_asked_for_on_the_cpu_alone() -> None:
    mine = subject(wraps)
    mine.device = "cuda"
    row = ROWS["outside_is_an_error"]
    assert not any(judged(row, mine, inputs).comparisons for inputs in calls(mine, many=5))


def test_families_are_what_they_say() -> None:
    mine = subject(learned_positions)
    drawn = calls(mine, many=400)
    assert {inputs.pattern.split(": ")[1] for inputs in drawn} == {r.name for r in READINGS}
    for inputs in drawn:
        positions, table = inputs.arrays["positions"], inputs.arrays["table"]
        assert ((positions >= 0) & (positions < len(table))).all()
    alike = sum(len(np.unique(i.arrays["table"], axis=0)) < len(i.arrays["table"]) for i in drawn)
    assert alike < 80, "tables with equal rows"
    assert sum((readers(i) > 1).any() for i in drawn) > 150, "a row that is read twice"
    assert sum((readers(i) == 0).any() for i in drawn) > 150, "a row that is not read"
    assert sum(len(i.arrays["table"]) - 1 in i.arrays["positions"] for i in drawn) > 100
    for inputs in calls(mine, "learned_positions_numbered"):
        table = inputs.arrays["table"]
        assert (table == np.arange(len(table))[:, None]).all()
        assert len(table) <= 257
    counted = calls(mine, "learned_positions_repeated")
    assert all(1 < len(i.arrays["positions"]) <= 256 for i in counted)
    assert all(not len(i.arrays["positions"]) for i in calls(mine, "learned_positions_empty"))


def test_a_limit_that_demands_tokens_leaves_no_empty_call() -> None:
    mine = subject(learned_positions, limits={"n": (1, 9)})
    with pytest.raises(ValueError, match="no empty axis"):
        strategy("learned_positions_empty", scope_of(mine))
    assert calls(subject(learned_positions, limits={"n": {0, 3}}), "learned_positions_empty")
