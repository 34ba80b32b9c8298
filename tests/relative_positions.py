"""T5's buckets and ALiBi's exponents in whole numbers and fractions, for tests: second programs
that know nothing of the definitions."""

from __future__ import annotations

from fractions import Fraction


def bucket(offset: int, buckets: int, longest: int, both: bool) -> int:
    """The bucket of a key's position minus its query's."""
    if not both:
        return side_bucket(max(0, -offset), buckets, longest)
    half = buckets // 2
    return side_bucket(abs(offset), half, longest) + (half if offset > 0 else 0)


def side_bucket(distance: int, buckets: int, longest: int) -> int:
    """A bucket of one side. Thresholds of the wide ones are looked for one by one: the next is met
    while (distance / single)^wide is no less than (longest / single)^(above + 1)."""
    single = buckets // 2
    if distance < single or buckets < 2:
        return min(distance, buckets - 1)
    wide, above = buckets - single, 0
    while above + 1 < wide and (
        distance**wide >= longest ** (above + 1) * single ** (wide - above - 1)
    ):
        above += 1
    return single + above


def papers_exponents(heads: int) -> list[Fraction]:
    """Exponents of ALiBi's slopes, by the recursion of the paper's code: of a power of two the
    multiples of 8/n; else those of the power below, and every other of the one above."""
    if heads & (heads - 1) == 0:
        return [Fraction(8 * k, heads) for k in range(1, heads + 1)]
    below = 1 << (heads.bit_length() - 1)
    return papers_exponents(below) + papers_exponents(2 * below)[0::2][: heads - below]
