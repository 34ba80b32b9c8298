"""What the laws of t5_bucket and t5_bias expect, and the references, beside plain loops."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from mpmath import mp

from attnspec.impls import t5_bias as references_of_bias
from attnspec.impls import t5_bucket as references
from attnspec.oracle.expected import value_of
from attnspec.oracle.law import Inputs
from attnspec.oracle.precision import snapped
from attnspec.oracle.t5_bucket import FIRST_OF_LAST
from attnspec.oracle.t5_values import (
    Setting,
    bias,
    bias_gradients,
    bucket_range,
    displacements,
    exact_buckets,
    settled,
    settled_pairs,
)
from attnspec.spec.t5_bucket_definition import t5_bucket_by_logarithm
from tests.relative_positions import bucket
from tests.t5_cases import SETTINGS, subject

Array = np.ndarray[Any, Any]


def offsets_for(setting: Setting) -> Array:
    """All near 0 and near the longest distance, and some far beyond."""
    longest = setting.max_distance
    far = np.array([10**4, 2**20, 2**20 + 1])
    near = np.arange(longest - 4, longest + 5)
    return np.concatenate([np.arange(-150, 151), near, -near, far, -far])


@pytest.mark.parametrize("setting", SETTINGS)
def test_expected_buckets_are_those_of_plain_loops_and_of_the_references(setting: Setting) -> None:
    both, count, longest = setting
    offsets = offsets_for(setting)
    loops = np.array([bucket(int(x), count, longest, both) for x in offsets])
    least, most = bucket_range(offsets, setting)
    assert np.array_equal(exact_buckets(offsets, setting), loops)
    assert (least <= loops).all()
    assert (loops <= most).all()
    assert (most - least <= 1).all()
    options: dict[str, Any] = {"bidirectional": both, "num_buckets": count, "max_distance": longest}
    given = torch.from_numpy(offsets)
    assert references.t5_bucket(given, **options).tolist() == loops.tolist()
    assert references.t5_bucket(given.int(), **options).tolist() == loops.tolist()
    by_logarithm = references.t5_bucket_by_logarithm(given, **options).numpy()
    assert (least <= by_logarithm).all()
    assert (by_logarithm <= most).all()
    assert loops.max() == setting.last


@pytest.mark.parametrize("both", [True, False])
def test_at_the_defaults_a_logarithm_is_off_nowhere(both: bool) -> None:
    """Its range has one bucket but at thresholds that are met exactly, and there it isn't off:
    buckets rise, so that nothing is left beyond 2^17, where the last one is long reached."""
    setting = Setting(both, 32, 128)
    offsets = np.arange(-(2**17), 2**17 + 1)
    assert settled(offsets, setting).all()
    least, most = (
        value_of(
            definition,
            {"count": offsets.size, "num_buckets": 32, "max_distance": 128},
            {"relative_position": offsets},
        )
        for definition in t5_bucket_by_logarithm(bidirectional=both)
    )
    met = np.abs(offsets[least != most])
    assert set(met.tolist()) == ({16, 32, 64} if both else set())
    with mp.workprec(24):
        logarithms = [Fraction(float(mp.log(quotient))) for quotient in (2, 4, 8, 16)]
    assert [x / logarithms[0] for x in logarithms] == [1, 2, 3, 4]


@pytest.mark.parametrize("both", [True, False])
def test_the_last_bucket_starts_where_the_law_says(both: bool) -> None:
    distances = range(300)
    reached = [d for d in distances if bucket(-d, 32, 128, both) == (15 if both else 31)]
    assert reached[0] == FIRST_OF_LAST[both]


@pytest.mark.parametrize("sizes", [(2, 128, True), (1, 128, False), (32, 8, True), (8, 3, False)])
def test_references_refuse_sizes_without_a_logarithm(sizes: tuple[int, int, bool]) -> None:
    count, longest, both = sizes
    assert not Setting(both, count, longest).legal
    for function in (references.t5_bucket, references.t5_bucket_by_logarithm):
        with pytest.raises(ValueError, match="a distance beyond the single ones"):
            function(torch.arange(3), bidirectional=both, num_buckets=count, max_distance=longest)


def test_references_refuse_more_queries_than_keys() -> None:
    for function in (references_of_bias.t5_bias, references_of_bias.t5_bias_by_offset):
        with pytest.raises(ValueError, match="expected t from 0 to s"):
            function(torch.zeros(32, 2), 3, 2)


def bias_call(setting: Setting, t: int, s: int, dtype: str = "float32") -> Inputs:
    table = np.random.default_rng(5).standard_normal((setting.num_buckets, 3))
    return Inputs(
        component="t5_bias",
        dtype=dtype,
        arrays={"table": snapped(table, dtype)},
        numbers={"t": t, "s": s},
        options={"bidirectional": setting.both, "max_distance": setting.max_distance},
    )


UNSETTLED = (Setting(False, 10, 160), Setting(True, 12, 1029), Setting(True, 34, 90))


@pytest.mark.parametrize("setting", [Setting(True, 32, 128), Setting(False, 7, 19), *UNSETTLED])
def test_expected_bias_and_gradient_are_those_of_plain_loops(setting: Setting) -> None:
    t, s = 5, 170
    call = bias_call(setting, t, s)
    table, right = call.arrays["table"], bias(subject(), call)
    upstream = np.random.default_rng(6).integers(-4, 5, (3, t, s)).astype(float)
    gradient = bias_gradients(subject(), call, upstream)["table"]
    known = settled_pairs(call)
    assert known.all() == (setting not in UNSETTLED[:2])
    ends = bucket_range(displacements(call), setting)
    for buckets in (b.astype(int) for b in ends):
        summed = np.zeros_like(table)
        for i, j in np.ndindex(t, s):
            row = buckets[i, j]
            if known[i, j]:
                assert row == bucket(j - (i + s - t), *setting[1:], setting.both)
            summed[row] += upstream[:, i, j]
        entries = np.moveaxis(table[buckets], -1, 0)
        assert (np.abs(entries - right.value) <= right.allowance).all()
        assert (np.abs(summed - gradient.value) <= gradient.allowance).all()
    assert not right.allowance[:, known].any()
    unread = np.ones(len(table), bool)
    unread[np.concatenate([b.astype(int).ravel() for b in ends])] = False
    assert not gradient.value[unread].any()
    assert not gradient.allowance[unread].any()
