"""Targets of T5's buckets and bias with NumPy arrays, DLPack objects, int32, or no options."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.dlpack import from_dlpack

from attnspec.driving import out_of_reach
from attnspec.impls import t5_bias as references_of_bias
from attnspec.impls import t5_bucket as references
from attnspec.oracle import LAWS
from attnspec.subject import Subject
from tests.rejecting import rejections
from tests.stubs import target

Array = np.ndarray[Any, Any]


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


def bucket_of(kind: str) -> Subject:
    if kind == "int32":
        loaded = target({"index_dtype": "int32"}, t5_bucket=references.t5_bucket)
    elif kind == "no options":
        loaded = target(t5_bucket=plain_bucket)
    else:
        function = numpy_bucket if kind == "numpy" else dlpack_bucket
        loaded = target({"arrays": kind}, t5_bucket=function)
    return Subject(loaded, "t5_bucket", "int32" if kind == "int32" else "int64")


def bias_of(kind: str) -> Subject:
    functions = {
        "numpy": {"t5_bias": numpy_bias, "t5_bucket": numpy_bucket},
        "dlpack": {"t5_bias": dlpack_bias, "t5_bucket": dlpack_bucket},
        "no options": {"t5_bias": plain_bias, "t5_bucket": plain_bucket},
    }[kind]
    declared = {"arrays": "torch" if kind == "no options" else kind}
    return Subject(target(declared, **functions), "t5_bias", "float32")


@pytest.mark.parametrize("kind", ["numpy", "dlpack", "int32", "no options"])
def test_buckets_of_other_kinds_of_targets(kind: str) -> None:
    assert rejections(bucket_of(kind), 6, seed=3) == {}


@pytest.mark.parametrize("kind", ["numpy", "dlpack", "no options"])
def test_biases_of_other_kinds_of_targets(kind: str) -> None:
    assert rejections(bias_of(kind), 6, seed=3) == {}


def test_no_law_is_left_out_but_for_what_these_lack() -> None:
    def left_out(mine: Subject) -> set[str]:
        own = (law for law in LAWS if law.component == mine.component)
        return {reason for law in own if (reason := out_of_reach(law, mine))}

    assert left_out(bucket_of("numpy")) == left_out(bucket_of("int32")) == set()
    assert left_out(bucket_of("no options")) == {"t5_bucket does not accept bidirectional"}
    assert left_out(bias_of("dlpack")) == {"the target has no gradients of t5_bias"}
    assert left_out(bias_of("no options")) <= {"t5_bias does not accept bidirectional"}
