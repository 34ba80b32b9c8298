"""T5's buckets: the counted definition against a search in exact fractions, at every kind of size,
and against the usual recipe with its floating-point logarithm."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mpmath import mp

from attnspec.oracle.balls import BALLS, midpoints, precision, radii
from attnspec.oracle.compiler import compiled
from attnspec.oracle.errors import errors_of
from attnspec.oracle.float64 import FLOAT64
from attnspec.oracle.plan import Plan
from attnspec.oracle.precision import contract
from attnspec.oracle.rationals import RATIONALS
from attnspec.oracle.source import source
from attnspec.spec.definition import Definition
from attnspec.spec.t5_bucket_definition import FINENESS, t5_bucket, t5_bucket_by_logarithm
from tests.relative_positions import bucket

Array = np.ndarray[Any, Any]

SIZES = (
    (32, 128),
    (32, 20),
    (2, 8),
    (3, 5),
    (4, 4096),
    (7, 19),
    (12, 1029),
    (33, 100),
    (64, 50000),
)
"""Of num_buckets and max_distance; odd counts leave a bucket over."""
NEXT_TO_A_THRESHOLD = {
    # both directions, num_buckets, max_distance: the distance, its bucket, and that of the recipe
    (True, 12, 1029): (21, 4, 3),
    (True, 32, 1461): (762, 14, 15),
    (False, 36, 50): (30, 27, 26),
    (False, 32, 939): (728, 30, 31),
}
"""Where the usual recipe in single precision gives another bucket than exact numbers do."""


def run(
    definition: Definition, positions: Array, size: tuple[int, int], algebra: Any = FLOAT64
) -> Any:
    """The buckets of all positions."""
    parameters = dict(zip(("num_buckets", "max_distance"), size, strict=True))
    plan = Plan(compiled(definition), algebra, {"count": len(positions), **parameters})
    return plan({"relative_position": positions})


def by_logarithm(positions: Array, size: tuple[int, int], both: bool, dtype: Any) -> Array:
    """The usual recipe, step by step in one floating-point type."""
    buckets, longest = size
    first: Any = 0
    if both:
        buckets //= 2
        first = np.where(positions > 0, buckets, 0)
        distance = np.abs(positions)
    else:
        distance = np.maximum(-positions, 0)
    single = buckets // 2
    with np.errstate(divide="ignore"):
        logarithm = np.log(distance.astype(dtype) / dtype(single))
    share = logarithm / dtype(math.log(longest / single)) * dtype(buckets - single)
    wide = single + np.where(np.isfinite(share), share, 0).astype(np.int64)
    result: Array = first + np.where(distance < single, distance, np.minimum(wide, buckets - 1))
    return result


def positions_for(size: tuple[int, int]) -> Array:
    """All near 0 and near the longest distance, and some far beyond."""
    near = np.arange(-300, 301)
    longest = np.arange(size[1] - 3, size[1] + 4)
    far = np.array([10**4, 2**20 + 1, 2**40])
    return np.concatenate([near, longest, -longest, far, -far])


@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize("size", SIZES)
def test_buckets_are_those_found_one_by_one(size: tuple[int, int], both: bool) -> None:
    if both and size[0] < 4:
        size = (2 * size[0], size[1])
    positions = positions_for(size)
    found = run(t5_bucket(bidirectional=both), positions, size)
    expected = [bucket(int(p), *size, both) for p in positions]
    assert found.tolist() == expected
    assert found.min() >= 0
    assert found.max() < size[0]


@pytest.mark.parametrize("both", [True, False])
def test_one_bucket_a_side(both: bool) -> None:
    found = run(t5_bucket(bidirectional=both), np.arange(-3, 4), (2 if both else 1, 9))
    assert found.tolist() == ([0, 0, 0, 0, 1, 1, 1] if both else [0] * 7)


def test_a_longest_distance_among_the_single_ones_ends_the_wide_buckets() -> None:
    """No logarithm exists there: every distance past the single ones is in the last bucket."""
    found = run(t5_bucket(bidirectional=False), -np.arange(12), (8, 3))
    assert found.tolist() == [0, 1, 2, 3] + [7] * 8


@pytest.mark.parametrize("both", [True, False])
def test_every_algebra_gives_the_same_integers(both: bool) -> None:
    positions, size = np.arange(-200, 201), (32, 128)
    definition = t5_bucket(bidirectional=both)
    found = run(definition, positions, size)
    assert [int(x) for x in run(definition, positions, size, RATIONALS)] == found.tolist()
    with precision():
        balls = run(definition, positions, size, BALLS)
        high, low = midpoints(balls)
        assert not radii(balls).any()
    assert np.array_equal(high, found)
    assert not low.any()
    value, error = run(definition, positions, size, errors_of(contract("bfloat16")))
    assert np.array_equal(value, found)
    assert not np.any(error)


def test_defaults_by_hand() -> None:
    """Thresholds at the defaults, solved by hand: both ways a distance a >= 8 lies
    floor(2 log2(a / 8)) above bucket 8, with halves at 8, 8 sqrt(2), 16, ..."""
    starts = [8, 12, 16, 23, 32, 46, 64, 91]
    distances = np.arange(0, 500)
    by_hand = [d if d < 8 else 7 + sum(d >= s for s in starts) for d in distances.tolist()]
    both = t5_bucket(bidirectional=True)
    assert run(both, -distances, (32, 128)).tolist() == by_hand
    later = [b + 16 if d else 0 for b, d in zip(by_hand, distances.tolist(), strict=True)]
    assert run(both, distances, (32, 128)).tolist() == later
    one = run(t5_bucket(bidirectional=False), -distances, (32, 128))
    assert int(np.argmax(one == 31)) == 113
    assert one[64] == 26


def near_a_threshold(size: tuple[int, int], both: bool) -> Array:
    """Distances at the thresholds and beside them."""
    buckets = size[0] // 2 if both else size[0]
    single = buckets // 2
    ratio = size[1] / single
    at = {round(single * ratio ** (k / (buckets - single))) for k in range(buckets - single + 1)}
    return np.array(sorted({max(0, a + b) for a in at for b in (-2, -1, 0, 1, 2)}))


@pytest.mark.parametrize("both", [True, False])
def test_a_single_precision_logarithm_stays_in_its_range(both: bool) -> None:
    """At many sizes, next to every threshold: the recipe is never outside of the two buckets that
    the definition grants it, and in the one bucket wherever it grants only one."""
    least, most = t5_bucket_by_logarithm(bidirectional=both)
    rng = np.random.default_rng(0)
    slips = apart = 0
    for _ in range(60):
        buckets = 2 * int(rng.integers(2, 40))
        size = (buckets, int(rng.integers(buckets, 3000)))
        positions = -near_a_threshold(size, both)
        low, high = run(least, positions, size), run(most, positions, size)
        exact = run(t5_bucket(bidirectional=both), positions, size)
        recipe = by_logarithm(positions, size, both, np.float32)
        assert (low <= exact).all()
        assert (exact <= high).all()
        assert (high <= low + 1).all()
        assert (low <= recipe).all()
        assert (recipe <= high).all()
        slips += int((recipe != exact).sum())
        apart += int((low != high).sum())
    assert apart
    assert slips <= apart


@pytest.mark.parametrize("case", NEXT_TO_A_THRESHOLD)
def test_where_the_usual_recipe_slips(case: tuple[bool, int, int]) -> None:
    """Exact integers decide which bucket is right; the recipe's is the other of the two granted."""
    both, *size = case
    distance, right, slipped = NEXT_TO_A_THRESHOLD[case]
    buckets = size[0] // 2 if both else size[0]
    single = buckets // 2
    wide = buckets - single
    above = max(right, slipped) - single
    reached = distance**wide >= size[1] ** above * single ** (wide - above)
    assert reached == (right > slipped)
    positions, given = np.array([-distance]), (size[0], size[1])
    assert run(t5_bucket(bidirectional=both), positions, given)[0] == right
    assert bucket(-distance, *given, both) == right
    least, most = t5_bucket_by_logarithm(bidirectional=both)
    ends = {int(run(d, positions, given)[0]) for d in (least, most)}
    assert ends == {right, slipped}


def test_even_in_double_precision_it_slips_where_a_threshold_is_met_exactly() -> None:
    """log 2 / log 32 is a fifth, but not among the doubles, even if each step is rounded well, as
    not every library's logarithm is."""
    distances = (10, 20, 40, 80)
    exact = run(t5_bucket(bidirectional=False), -np.array(distances), (10, 160))
    assert exact.tolist() == [6, 7, 8, 9]
    with mp.workprec(53):
        shares = [mp.log(mp.mpf(a) / 5) / mp.log(mp.mpf(160) / 5) * 5 for a in distances]
    assert [5 + int(share) for share in shares] == [5, 6, 8, 8]


def test_the_recipe_in_torch_gives_one_of_the_two_there() -> None:
    """Which of the two depends on the processor: its vector instructions have logarithms of their
    own."""
    torch = pytest.importorskip("torch")
    for (both, buckets, longest), (distance, right, slipped) in NEXT_TO_A_THRESHOLD.items():
        side = buckets // 2 if both else buckets
        single = side // 2
        x = torch.tensor([distance])
        share = torch.log(x.float() / single) / math.log(longest / single) * (side - single)
        assert int(torch.clamp(single + share.to(torch.long), max=side - 1)) in (right, slipped)


def test_at_the_defaults_the_recipe_is_right() -> None:
    for both in (True, False):
        positions = np.arange(-5000, 5001)
        exact = run(t5_bucket(bidirectional=both), positions, (32, 128))
        for dtype in (np.float32, np.float64):
            assert np.array_equal(by_logarithm(positions, (32, 128), both, dtype), exact)


def test_fineness_covers_the_recipes_roundings() -> None:
    """u (1 + 7 L) up to quotients of exp(18), which no 64-bit distances in use exceed."""
    assert Fraction(1, int(FINENESS)) > Fraction(1 + 7 * 18, 2**24)


@pytest.mark.parametrize("both", [True, False])
def test_printed_source_computes_what_the_tape_does(both: bool) -> None:
    definition = t5_bucket(bidirectional=both)
    scope: dict[str, Any] = {"np": np}
    exec(source(compiled(definition)), scope)  # the text is ours: running it is the test
    positions = np.arange(-150, 151)
    printed = scope["t5_bucket"](positions, count=301, num_buckets=32, max_distance=128)
    assert np.array_equal(printed, run(definition, positions, (32, 128)))
