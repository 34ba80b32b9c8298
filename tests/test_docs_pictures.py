"""Pictures: the numbers in their tables, computed in another way."""

from __future__ import annotations

import cmath
import math
import re
from itertools import accumulate

import pytest

from attnspec.docs.gallery import DRAWINGS
from attnspec.docs.picture import Picture, ranges
from attnspec.spec import CLAIMS
from tests.relative_positions import bucket


@pytest.fixture(scope="module")
def gallery() -> dict[str, Picture]:
    made = [drawing.made() for drawing in DRAWINGS]
    assert len({picture.id for picture in made}) == len(made)
    return {picture.id: picture for picture in made}


def test_pictures_use_the_colors_of_the_page(gallery: dict[str, Picture]) -> None:
    for picture in gallery.values():
        assert re.findall(r"#[0-9a-f]{6}\b", picture.svg) == [], picture.id
        assert "<image" not in picture.svg
        own = re.findall(r'\bid="([^"]+)"', picture.svg)
        assert own
        assert [name for name in own if not name.startswith(f"{picture.id}-")] == []
        assert {len(row) for row in picture.rows} == {len(picture.columns)}


def test_pictures_show_claims_that_there_are(gallery: dict[str, Picture]) -> None:
    ids = {claim.id for claim in CLAIMS}
    assert [c for picture in gallery.values() for c in picture.claims if c not in ids] == []


def near(text: str, value: float) -> bool:
    """Whether a number of a table is that value, to the digits that it shows."""
    return plain(text) == f"{value:.5g}"


def plain(text: str) -> str:
    """The number as Python writes it: with hyphens for minus signs."""
    assert "-" not in text
    return text.replace("\N{MINUS SIGN}", "-")


def test_kernel_by_cosines(gallery: dict[str, Picture]) -> None:
    angles = [10000 ** (-i / 64) for i in range(64)]
    for t, (place, score, common, partial) in enumerate(gallery["rope-kernel"].rows):
        assert place == str(t)
        cos, sin = (sum(f(t * a) for a in angles) / 64 for f in (math.cos, math.sin))
        assert near(score, cos)
        assert near(common, math.hypot(cos, sin))
        sums = list(accumulate(cmath.rect(1.0, t * a) for a in angles))
        assert near(partial, sum(map(abs, sums)) / sum(range(1, 65)))
    assert "t = 11" in gallery["rope-kernel"].svg


def test_frequencies_by_powers(gallery: dict[str, Picture]) -> None:
    picture = gallery["rope-frequencies"]
    for i, (pair, angle, turn) in enumerate(picture.rows):
        assert pair == str(i)
        assert near(angle, 10000 ** (-i / 64))
        assert near(turn, 2 * math.pi * 10000 ** (i / 64))
    slow = sum(2 * math.pi * 10000 ** (i / 64) > 4096 for i in range(64))
    assert f"{slow} of the 64 pairs" in picture.caption


def test_saturation_by_logistic(gallery: dict[str, Picture]) -> None:
    for gap, one, many, bound in gallery["softmax-saturation"].rows:
        for text, others in ((one, 1), (many, 1000)):
            odds = math.exp(-float(gap)) * others
            assert near(text, odds / (1 + odds) ** 2)
        assert near(bound, math.exp(-float(gap)))


def test_masks_by_loops(gallery: dict[str, Picture]) -> None:
    for i, row in enumerate(gallery["window-masks"].rows):
        both = [abs(i - j) <= 2 for j in range(12)]
        back = [0 <= i - j <= 2 for j in range(12)]
        total = [0 <= i - j < 2 for j in range(12)]
        assert row == (str(i), ranges(both), ranges(back), ranges(total))
    for i, row in enumerate(gallery["causal-alignment"].rows):
        assert row == (str(i), ranges([j <= i + 4 for j in range(9)]),
                       ranges([j <= i for j in range(9)]))  # fmt: skip
    for i, row in enumerate(gallery["longformer-mask"].rows):
        seen = [abs(i - j) <= 2 or i in (0, 9) or j in (0, 9) for j in range(16)]
        assert row == (str(i), ranges(seen))


def test_ranges() -> None:
    assert ranges([True, True, False, True]) == "0-1, 3"
    assert ranges([False]) == "none"


def test_buckets_by_whole_numbers(gallery: dict[str, Picture]) -> None:
    assert "distance 91 where both directions count, at 113" in gallery["t5-buckets"].caption
    for place, both, earlier in gallery["t5-buckets"].rows:
        p = int(plain(place))
        assert int(both) == bucket(p, 32, 128, both=True)
        assert int(earlier) == bucket(p, 32, 128, both=False)


def test_slopes_by_powers(gallery: dict[str, Picture]) -> None:
    for h, (_, few, paper, geometric) in enumerate(gallery["alibi-slopes"].rows):
        assert few == ("" if h >= 8 else f"{2.0 ** -(h + 1):.5g}")
        assert near(paper, 2.0 ** -(h + 1) if h < 8 else 2.0 ** (-0.5 * (2 * (h - 8) + 1)))
        assert near(geometric, 2.0 ** (-8 * (h + 1) / 12))


def test_caches_by_counting(gallery: dict[str, Picture]) -> None:
    counted = [row[1] for row in gallery["cache-sizes"].rows]
    assert counted == [f"{n:,}" for n in (2 * 128 * 128, 2 * 8 * 128, 2 * 128, 512 + 64)]


def test_transform_by_signs(gallery: dict[str, Picture]) -> None:
    rows = gallery["hadamard-spread"].rows
    x = [float(plain(before)) for _, before, _ in rows]
    for c, (_, _, after) in enumerate(rows):
        terms = (-v if (c & e).bit_count() % 2 else v for e, v in enumerate(x))
        assert near(after, sum(terms) / 4)
