"""Subjects and laws of T5's buckets and bias, for tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from torch import Tensor

from attnspec.impls import t5_bias as references_of_bias
from attnspec.impls import t5_bucket as references
from attnspec.oracle import LAWS
from attnspec.oracle.law import Inputs
from attnspec.oracle.positions import Array
from attnspec.oracle.t5_inputs import SIZES
from attnspec.oracle.t5_values import Setting, setting_of, settled
from attnspec.subject import Subject
from tests.stubs import target

Reading = Callable[..., Tensor]

SETTINGS = [
    setting
    for both in (True, False)
    for count, longest in ((None, None), *SIZES)
    if (setting := Setting(both, count or 32, longest or 128)).legal
]
of_buckets = pytest.mark.parametrize(
    "row", [row for row in LAWS if row.component == "t5_bucket"], ids=lambda row: row.id
)
of_biases = pytest.mark.parametrize(
    "row", [row for row in LAWS if row.component == "t5_bias"], ids=lambda row: row.id
)

BUCKETS = Subject(target(t5_bucket=references.t5_bucket), "t5_bucket", "int64")


def subject(dtype: str = "float32") -> Subject:
    """The plain bias."""
    return Subject(target(t5_bias=references_of_bias.t5_bias), "t5_bias", dtype)


def settled_offsets(inputs: Inputs) -> Array:
    """Where an offset of a call has one bucket."""
    return settled(inputs.arrays["relative_position"], setting_of(inputs))
