"""The laws of rope about parts of a head, documents and caches, on functions that are in no
catalogue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from attnspec.driving import scope_of
from attnspec.impls.rope import rope, rope_half, turned, turning_angles
from attnspec.oracle.inputs import sampled
from attnspec.oracle.law import Inputs
from attnspec.oracle.rope_streams import LAWS
from attnspec.oracle.rope_streams_checks import MOST_CALLS, _documents, _edges
from attnspec.oracle.rope_streams_inputs import ROOM
from attnspec.subject import Subject
from tests import stubs
from tests.rejecting import rejections

Rope = Callable[..., Any]
ROWS = {row.id.removeprefix("rope."): row for row in LAWS}


def subject(function: Rope, dtype: str = "float32", **declared: Any) -> Subject:
    return stubs.subject(function, "rope", dtype=dtype, **declared)


def calls(mine: Subject, family: str, many: int = 60) -> list[Inputs]:
    return list(sampled(family, scope_of(mine), many, 5))


def rejected(mine: Subject, many: int = 40) -> set[str]:
    """Last names of the laws that find something."""
    return {*rejections(mine, many, laws=LAWS)}


def grown_table() -> Rope:
    """Right, with a table that grows and is kept."""
    tables: dict[tuple[int, float], Tensor] = {}

    def function(
        x: Tensor, positions: Tensor, *, base: float = 10000.0, rotary_dim: int | None = None
    ) -> Tensor:
        width = x.shape[-1] if rotary_dim is None else rotary_dim
        rows = int(positions.max()) + 1 if positions.numel() else 0
        if len(tables.get((width, base), ())) < rows:
            x_of_width = torch.zeros(1, 1, rows, width)
            tables[width, base] = turning_angles(x_of_width, torch.arange(rows), base, None)
        if not positions.numel():
            return x.clone()
        angles = tables[width, base][positions]
        return turned(x, angles.cos(), angles.sin())

    return function


def token_by_token(
    x: Tensor, positions: Tensor, *, base: float = 10000.0, rotary_dim: int | None = None
) -> Tensor:
    """Right, with a call for each token."""
    tokens = range(x.shape[2])
    parts = [
        rope(x[:, :, i : i + 1], positions[..., i : i + 1], base=base, rotary_dim=rotary_dim)
        for i in tokens
    ]
    return torch.cat(parts, 2) if parts else x.clone()


def without_options(x: Tensor, positions: Tensor) -> Tensor:
    """Right, of all channels."""
    return rope(x, positions)


@pytest.mark.parametrize(
    ("function", "declared"),
    [
        (rope, {}),
        (rope, {"index_dtype": "int32", "limits": {"n": (0, 5), "d": {8, 16}}}),
        (rope_half, {"conventions": {"rope.layout": "half"}}),
        (grown_table(), {}),
        (token_by_token, {"guarantees": ("batch-invariant",)}),
        (without_options, {}),
    ],
)
def test_right_code_of_another_style_keeps_every_law(
    function: Rope, declared: dict[str, Any]
) -> None:
    assert rejected(subject(function, **declared)) == set()


def shorter_rows(x: Tensor, positions: Tensor, **options: Any) -> Tensor:
    """Counts from where each row's positions begin, for two-dimensional ones alone."""
    if positions.ndim == 2:
        positions = positions - positions[:, :1]
    return rope(x, positions, **options)


def last_document_alone(x: Tensor, positions: Tensor, **options: Any) -> Tensor:
    """Counts documents' tokens from the end of the row."""
    places = torch.arange(positions.shape[-1])
    return rope(x, (positions[..., -1:] - positions.shape[-1] + 1 + places).abs(), **options)


def one_token_at_zero(x: Tensor, positions: Tensor, **options: Any) -> Tensor:
    """A single token doesn't turn."""
    return rope(x, positions if x.shape[2] > 1 else positions * 0, **options)


def width_of_half(
    x: Tensor, positions: Tensor, *, base: float = 10000.0, rotary_dim: int | None = None
) -> Tensor:
    """Frequencies of a head of twice the rotary width."""
    return rope(x, positions, base=base if rotary_dim is None else base**0.5, rotary_dim=rotary_dim)


def normed_content(
    x: Tensor, positions: Tensor, *, base: float = 10000.0, rotary_dim: int | None = None
) -> Tensor:
    """Halves the content."""
    found = rope(x, positions, base=base, rotary_dim=rotary_dim)
    width = x.shape[-1] if rotary_dim is None else rotary_dim
    return torch.cat((found[..., :width], found[..., width:] / 2), -1)


def with_options(function: Rope) -> Rope:
    """Under the full signature."""

    def rope(
        x: Tensor, positions: Tensor, *, base: float = 10000.0, rotary_dim: int | None = None
    ) -> Any:
        return function(x, positions, base=base, rotary_dim=rotary_dim)

    return rope


@pytest.mark.parametrize(
    ("function", "laws"),
    [
        (with_options(shorter_rows), {"rows_eq_shared", "chunk_by_chunk", "packed_documents"}),
        (with_options(last_document_alone), {"packed_documents", "chunk_by_chunk"}),
        (with_options(one_token_at_zero), {"chunk_by_chunk", "cached_keys", "packed_documents"}),
        (width_of_half, {"partial_frequencies", "partial_eq_narrow_head"}),
        (normed_content, {"streams_add_up"}),
    ],
)
def test_wrong_code_is_rejected(function: Rope, laws: set[str]) -> None:
    assert laws <= rejected(subject(function), 60)


def test_bits_are_compared_where_batches_are_promised_not_to_matter() -> None:
    def last_bit(x: Tensor, positions: Tensor) -> Tensor:
        """Another rounding for few tokens."""
        found = rope(x, positions)
        return found * (1.0 + 2.0**-23) if x.shape[2] < 3 else found

    assert "chunk_by_chunk" not in rejected(subject(last_bit))
    promising = subject(last_bit, guarantees=("batch-invariant",))
    assert "chunk_by_chunk" in rejected(promising)


def test_families_are_what_they_say() -> None:
    mine = subject(rope)
    for inputs in calls(mine, "rope_packed", 200):
        positions = np.atleast_2d(inputs.arrays["positions"])
        assert (np.diff(positions) != 1).any(axis=1).all(), "every row has several documents"
    for family in ("rope_packed", "rope_chunks"):
        drawn = calls(mine, family, 200)
        assert all(i.arrays["x"].shape[2] > 1 for i in drawn)
        assert all(i.arrays["positions"].max() < ROOM for i in drawn)
        assert {i.arrays["positions"].ndim for i in drawn} == {1, 2}
    for family in ("rope_two_streams", "rope_partial_at_one"):
        for inputs in calls(mine, family, 200):
            assert inputs.options["rotary_dim"] < inputs.arrays["x"].shape[3]
    assert all((i.arrays["positions"] == 1).all() for i in calls(mine, "rope_partial_at_one"))
    for inputs in calls(mine, "rope_shared", 100):
        assert inputs.arrays["positions"].ndim == 1
        assert len(inputs.arrays["x"]) > 1


def test_documents_are_runs_of_positions() -> None:
    x = np.zeros((2, 1, 5, 4))
    shared = Inputs("rope", "float32", {"x": x, "positions": np.array([0, 1, 0, 1, 2])})
    assert _documents(shared) == [(None, 0, 2), (None, 2, 5)]
    rows = shared.with_arrays(positions=np.array([[0, 1, 2, 3, 0], [7, 8, 3, 4, 5]]))
    assert _documents(rows) == [(0, 0, 4), (0, 4, 5), (1, 0, 2), (1, 2, 5)]


def test_chunks_cover_the_sequence() -> None:
    mine = subject(rope)
    sizes, empty, single = set(), 0, 0
    for inputs in calls(mine, "rope_chunks", 300):
        edges = _edges(mine, inputs)
        assert (edges[0], edges[-1]) == (0, inputs.arrays["x"].shape[2])
        lengths = np.diff(edges)
        assert (lengths >= 0).all()
        assert len(lengths) <= MOST_CALLS
        sizes.add(len(lengths))
        empty += 0 in lengths
        single += 1 in lengths
    assert len(sizes) > 3
    assert empty > 30
    assert single > 100


def test_no_chunk_is_empty_where_a_call_must_have_tokens() -> None:
    mine = subject(rope, limits={"n": (1, 40)})
    for inputs in calls(mine, "rope_chunks", 100):
        assert (np.diff(_edges(mine, inputs)) > 0).all()
