"""What a cache holds, against arrays; and tokens projected without one, counted one by one."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from attnspec.oracle.balls import BALLS, precision
from attnspec.oracle.compiler import compiled
from attnspec.oracle.float64 import FLOAT64
from attnspec.oracle.plan import planned
from attnspec.oracle.rationals import RATIONALS
from attnspec.spec import attention_cost_definition, multi_head_attention_definition
from attnspec.spec.definition import Definition
from attnspec.spec.kv_cache_definition import (
    definitions,
    elements,
    held_bytes,
    projected_tokens,
)

DTYPES = {64: np.float64, 32: np.float32, 16: ml_dtypes.bfloat16, 8: np.int8}


def counted(definition: Definition, lengths: list[int] | None = None, **sizes: int) -> int:
    """The number, which is the same in exact arithmetic, in float64 and in balls."""
    key = tuple((str(p), sizes[str(p)]) for p in definition.parameters)
    arrays = {} if lengths is None else {"lengths": np.array(lengths)}
    exact = planned(compiled(definition), RATIONALS, key)(arrays).item()
    assert planned(compiled(definition), FLOAT64, key)(arrays).item() == exact
    with precision():
        assert planned(compiled(definition), BALLS, key)(arrays).item() == int(exact)
    assert exact.denominator == 1
    return int(exact)


@pytest.mark.parametrize("bits", DTYPES)
def test_bytes_are_those_of_arrays(bits: int) -> None:
    g = np.random.default_rng(bits)
    for _ in range(12):
        layers, batch, groups, d, e = (int(n) for n in g.integers(1, 6, 5))
        lengths = g.integers(0, 9, batch).tolist()
        arrays = [
            np.zeros((groups, length, size), DTYPES[bits])
            for _ in range(layers)
            for length in lengths
            for size in (d, e)
        ]
        sizes = {"layers": layers, "batch": batch, "groups": groups, "d": d, "e": e, "bits": bits}
        assert counted(elements(), lengths, **sizes) == sum(a.size for a in arrays)
        assert counted(held_bytes(), lengths, **sizes) == sum(a.nbytes for a in arrays)


@pytest.mark.parametrize("bits", [1, 3, 4, 6])
def test_packed_bits_fill_bytes(bits: int) -> None:
    sizes = {"layers": 1, "batch": 1, "groups": 1, "d": 2, "e": 1, "bits": bits}
    for length in range(9):
        ones = np.ones(3 * length * bits, np.uint8)
        assert counted(held_bytes(), [length], **sizes) == np.packbits(ones).nbytes


@pytest.mark.parametrize("n", [1, 2, 3, 10, 257])
def test_every_step_projects_all_tokens(n: int) -> None:
    found = 0
    for step in range(1, n + 1):
        for _ in range(step):
            found += 1
    assert counted(projected_tokens(), n=n) == found


def test_projections_cost_two_flops_a_parameter_and_token() -> None:
    """The count of operations and the count of weights are written apart."""
    g = np.random.default_rng(0)
    weights = multi_head_attention_definition.projection_parameters()
    flops = attention_cost_definition.PROJECTION_FLOPS
    for _ in range(12):
        names = ("batch", "heads", "groups", "t", "d", "e", "m")
        sizes: dict[str, Any] = {name: int(g.integers(1, 9)) for name in names}
        own = counted(weights, **{**sizes, "width": sizes["m"]})
        assert counted(flops, **sizes) == 2 * sizes["batch"] * sizes["t"] * own


def test_names_of_definitions() -> None:
    names = [definition.name for definition in definitions()]
    assert names == ["kv_cache.elements", "kv_cache.bytes", "kv_cache.projected_tokens"]
