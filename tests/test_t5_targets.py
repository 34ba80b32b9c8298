"""Targets of T5's buckets and bias with NumPy arrays, DLPack objects, int32, or no options."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.dlpack import from_dlpack

from attnspec.driving import out_of_reach, scope_of
from attnspec.impls import t5_bias as references_of_bias
from attnspec.impls import t5_bucket as references
from attnspec.judging import judged
from attnspec.oracle.inputs import sampled
from attnspec.oracle.law import Law
from attnspec.subject import Subject
from tests.stubs import target
from tests.t5_cases import of_biases, of_buckets

Array = np.ndarray[Any, Any]


def wrong(row: Law, subject: Subject, examples: int, seed: int = 3) -> int:
    """In how many calls a law complains."""
    calls = sampled(row.inputs, scope_of(subject), examples, seed)
    return sum(judged(row, subject, inputs).fails for inputs in calls)


def numpy_bucket(
    relative_position: Array,
    *,
    bidirectional: bool = True,
    num_buckets: int = 32,
    max_distance: int = 128,
) -> Array:
    given = torch.from_numpy(relative_position.astype(np.int64))
    return references.t5_bucket(
        given,
        bidirectional=bidirectional,
        num_buckets=num_buckets,
        max_distance=max_distance,
    ).numpy().astype(np.int32)  # fmt: skip


def numpy_bias(
    table: Array, t: int, s: int, *, bidirectional: bool = True, max_distance: int = 128
) -> Array:
    offsets = np.arange(s) - np.arange(s - t, s)[:, None]
    rows = numpy_bucket(
        offsets,
        bidirectional=bidirectional,
        num_buckets=table.shape[0],
        max_distance=max_distance,
    )
    return np.moveaxis(table[rows], -1, 0)


class Exported:
    """An array with the DLPack protocol alone."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def __dlpack__(self, **options: Any) -> Any:
        return self.held.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.held.__dlpack_device__()


def dlpack_bucket(relative_position: Any, **options: Any) -> Any:
    return Exported(references.t5_bucket(from_dlpack(relative_position), **options))


def dlpack_bias(table: Any, t: int, s: int, **options: Any) -> Any:
    return Exported(references_of_bias.t5_bias(from_dlpack(table), t, s, **options))


def plain_bucket(relative_position: Tensor) -> Tensor:
    return references.t5_bucket(relative_position)


def plain_bias(table: Tensor, t: int, s: int) -> Tensor:
    return references_of_bias.t5_bias(table, t, s)


@of_buckets
@pytest.mark.parametrize("kind", ["numpy", "dlpack", "int32", "no options"])
def test_buckets_of_other_kinds_of_targets(kind: str, row: Law) -> None:
    if kind == "int32":
        loaded = target({"index_dtype": "int32"}, t5_bucket=references.t5_bucket)
    elif kind == "no options":
        loaded = target(t5_bucket=plain_bucket)
    else:
        function = numpy_bucket if kind == "numpy" else dlpack_bucket
        loaded = target({"arrays": kind}, t5_bucket=function)
    mine = Subject(loaded, "t5_bucket", "int32" if kind == "int32" else "int64")
    if not out_of_reach(row, mine):
        assert wrong(row, mine, 6) == 0


@of_biases
@pytest.mark.parametrize("kind", ["numpy", "dlpack", "no options"])
def test_biases_of_other_kinds_of_targets(kind: str, row: Law) -> None:
    functions = {
        "numpy": {"t5_bias": numpy_bias, "t5_bucket": numpy_bucket},
        "dlpack": {"t5_bias": dlpack_bias, "t5_bucket": dlpack_bucket},
        "no options": {
            "t5_bias": plain_bias,
            "t5_bucket": plain_bucket,
        },
    }[kind]
    declared = {"arrays": "torch" if kind == "no options" else kind}
    mine = Subject(target(declared, **functions), "t5_bias", "float32")
    if not out_of_reach(row, mine):
        assert wrong(row, mine, 6) == 0
