"""T5's buckets: which distances share one, and that every distance has one.

Source: document 004 (3.4, T5). The numbers 32 and 128 are the defaults of the paper's code.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.claim import Claim, Counterexample, Source, Step
from attnspec.spec.exact_values import entry_value
from attnspec.spec.t5_bucket_definition import (
    Side,
    max_distance,
    num_buckets,
    t5_bucket,
)

_distance = sp.Symbol("a", integer=True, positive=True)
_single, _wide, _half = sp.symbols("m K p", integer=True, positive=True)
_more, _beyond = sp.symbols("r y", nonnegative=True)
_t, _left = sp.symbols("t u", integer=True, nonnegative=True)

SIZES = {num_buckets: 32, max_distance: 128}
BOTH, ONE = Side(sp.Integer(16)), Side(sp.Integer(32))
"""The buckets of one direction at the defaults: half of them, or all."""


def value(position: int, *, bidirectional: bool) -> sp.Expr:
    """The definition's bucket of a relative position, at the defaults."""
    sizes = {"count": 1, **{str(size): given for size, given in SIZES.items()}}
    definition = t5_bucket(bidirectional=bidirectional)
    return entry_value(definition, sizes, {"relative_position": [position]}, (0,))


def _named(expression: sp.Expr) -> sp.Expr:
    """Of the first 2p buckets of a side, m = p and K = p."""
    return expression.subs({_single: _half, _wide: _half})


def threshold(t: sp.Expr) -> sp.Expr:
    """What a^K must reach for t buckets above m, in the symbols of this file."""
    return max_distance**t * _single ** (_wide - t)


def _tied() -> Step:
    return Step(
        "threshold t is max_distance^t m^(K-t)",
        Side(2 * _half).threshold(_t) - _named(threshold(_t)),
    )


def _sides() -> tuple[Step, ...]:
    even, odd = Side(2 * _half), Side(2 * _half + 1)
    both, one = (t5_bucket(bidirectional=way) for way in (True, False))
    entry = both.arrays[0][both.axes[0][0]]
    half = Side(sp.floor(num_buckets / 2))
    few = {num_buckets: 2 * _half}
    return (
        Step("2p buckets a side: m = p, K = p", sp.Matrix([even.single, even.wide]) - sp.Matrix(
            [_half, _half])),
        Step("2p + 1: m = p, K = p + 1", sp.Matrix([odd.single, odd.wide]) - sp.Matrix(
            [_half, _half + 1])),
        _tied(),
        Step(
            "both directions: a key a > 0 before the query has its side's bucket of a",
            both.expression.subs(entry, -_distance) - half.bucket(_distance),
        ),
        Step(
            "one after it that of a, and the other half's first bucket on top",
            both.expression.subs(entry, _distance)
            - half.bucket(_distance)
            - sp.floor(num_buckets / 2),
        ),
        Step(
            "one direction: a before the query has the bucket of a",
            one.expression.subs(entry, -_distance) - Side(num_buckets).bucket(_distance),
        ),
        Step(
            "after it or at it bucket 0",
            sp.Matrix([one.expression.subs(few).subs(entry, x) for x in (_distance, 0)]),
        ),
        Step("at the query both ways 0 too", both.expression.subs(num_buckets, 4 * _half).subs(
            entry, 0)),
    )  # fmt: skip


def definition() -> tuple[Step, ...]:
    """The steps of `t5_bucket.definition`."""
    far, longest, first = sp.symbols("a D m", positive=True)
    count, place = sp.symbols("n t", integer=True, nonnegative=True)
    power = sp.log(far**_wide) - sp.log(threshold(_t)).subs({max_distance: longest, _single: first})
    quotients = _wide * sp.log(far / first) - _t * sp.log(longest / first)
    rest = _beyond / (1 + _beyond)
    return (
        *_sides(),
        Step(
            "log a^K - log of threshold t is K log(a/m) - t log(D/m), with D = max_distance",
            sp.expand(sp.expand_log(power - quotients)),
        ),
        Step(
            "D > m, so log(D/m) > 0: a^K meets the threshold iff t <= x = K log(a/m) / log(D/m)",
            sp.log(sp.expand((first + far) / first)).is_positive,
        ),
        Step("x = n + f with f = y / (1 + y), 0 <= f < 1: t = n is met", rest.is_nonnegative),
        Step("t = n + 1 isn't", sp.cancel(1 - rest).is_positive),
        Step(
            "so floor(x) thresholds are met, or all K - 1 if there are fewer",
            sp.Sum(sp.S.One, (place, 1, count)).doit() - count,
        ),
    )


def rising() -> tuple[Step, ...]:
    """The steps of `t5_bucket.rises_with_distance`."""
    longest = _single + _more
    longer = sp.Symbol("b", positive=True)
    ratio = threshold(_t + 1) / threshold(_t)
    return (
        _tied(),
        Step("each threshold is max_distance / m times the one before", sp.simplify(
            ratio - max_distance / _single)),
        Step("which is 1 + r/m, at least 1", sp.expand(longest / _single - 1).is_nonnegative),
        Step(
            "a distance that is longer by a factor 1 + y has a power that is no smaller: it meets "
            "whatever threshold the shorter one meets",
            (_wide * sp.log(1 + _beyond)).is_nonnegative,
        ),
        Step("as log (b (1 + y))^K - log b^K says", sp.expand(sp.expand_log(
            sp.log((longer * (1 + _beyond)) ** _wide) - sp.log(longer**_wide)
            - _wide * sp.log(1 + _beyond)))),
        Step("single distances a < m, so a = m - 1 - u, come before all of these",
             (_single - (_single - 1 - _left)).is_positive),
    )  # fmt: skip


def _reached(side: Side, distance: int) -> bool:
    """Whether a distance meets a side's last threshold at the defaults, in integers."""
    last = side.threshold(side.wide - 1).subs(SIZES)
    return bool(sp.Integer(distance) ** side.wide >= last)


def _last_bucket() -> tuple[Step, ...]:
    even, odd = Side(2 * _half), Side(2 * _half + 1)
    return (
        *rising(),
        Step(
            "so the last bucket, m + K - 1 = buckets - 1, is that of a^K >= max_distance^(K-1) m: "
            "its threshold is the greatest",
            sp.Matrix([x.single + x.wide - x.buckets for x in (even, odd)]),
        ),
        Step("both ways that is a^8 >= 128^7 8", BOTH.threshold(BOTH.wide - 1).subs(SIZES)
             - sp.Integer(128) ** 7 * 8),
        Step("which 91 meets", _reached(BOTH, 91)),
        Step("and 90 doesn't", not _reached(BOTH, 90)),
        Step("one way a^16 >= 128^15 16", ONE.threshold(ONE.wide - 1).subs(SIZES)
             - sp.Integer(128) ** 15 * 16),
        Step("which 113 meets", _reached(ONE, 113)),
        Step("and 112 doesn't", not _reached(ONE, 112)),
        Step(
            "both ways distances 64, 90, 91, 128 are in buckets 14, 14, 15, 15",
            sp.Matrix([value(-a, bidirectional=True) for a in (64, 90, 91, 128)])
            - sp.Matrix([14, 14, 15, 15]),
        ),
        Step(
            "one way distances 64, 112, 113, 128 in buckets 26, 30, 31, 31",
            sp.Matrix([value(-a, bidirectional=False) for a in (64, 112, 113, 128)])
            - sp.Matrix([26, 30, 31, 31]),
        ),
        *_clamped(),
    )  # fmt: skip


def _sixty_four() -> Counterexample:
    return Counterexample(
        "32 buckets for both directions, max_distance 128: bucket of a key 64 before the query, "
        "stated to be the last of its side",
        stated=BOTH.buckets - 1,
        actual=value(-64, bidirectional=True),
    )


def _clamped() -> tuple[Step, ...]:
    far = max_distance * (1 + _beyond)
    margin = sp.expand_log(sp.log(far**_wide) - sp.log(threshold(_t)))
    ratio = sp.Symbol("l", nonnegative=True)
    named = sp.expand(margin).subs(sp.log(max_distance), ratio + sp.log(_single))
    return (
        Step(
            "log a^K - log of threshold t is K log(1 + y) + (K - t) l for a = max_distance (1 + y) "
            "and l = log(max_distance / m)",
            sp.expand(named - _wide * sp.log(1 + _beyond) - (_wide - _t) * ratio),
        ),
        Step(
            "not negative for t <= K, t = K - u: from max_distance on all thresholds are met",
            (_wide * sp.log(1 + _beyond) + _left * ratio).is_nonnegative,
        ),
    )


def always_defined() -> tuple[Step, ...]:
    """The steps of `t5_bucket.defined_at_every_distance`."""
    even, odd = Side(2 * _half), Side(2 * _half + 1)
    none, all_met = (
        side.single + sp.Sum(met, (_t, 0, side.wide - 2)).doit()
        for side, met in ((even, sp.S.Zero), (even, sp.S.One))
    )
    most_odd = odd.single + sp.Sum(sp.S.One, (_t, 0, odd.wide - 2)).doit()
    return (
        _tied(),
        *_clamped(),
        Step("where no threshold is met the bucket is m", none - even.single),
        Step("where all are it is the last", sp.Matrix([all_met - (even.buckets - 1),
                                                       most_odd - (odd.buckets - 1)])),
        Step(
            "of both directions the last is 2 floor(n/2) - 1, for n = 2p, 2p + 1 not above n - 1",
            sp.Matrix([2 * sp.floor(n / 2) - 1 - (2 * _half - 1) for n in
                       (2 * _half, 2 * _half + 1)]),
        ),
        Step(
            "at the defaults distances 128, 129 and 10^9 have the last one, either way",
            sp.Matrix([
                [value(-a, bidirectional=True) - 15, value(a, bidirectional=True) - 31,
                 value(-a, bidirectional=False) - 31]
                for a in (128, 129, 10**9)
            ]),
        ),
    )  # fmt: skip


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="t5_bucket.definition",
        number="",
        statement="Counting thresholds gives the bucket m + floor(K log(a/m) / log(D/m)), at most "
        "the last, for a distance a >= m.",
        latex=r"a^K\ge D^tm^{K-t}\iff t\le K\frac{\log(a/m)}{\log(D/m)}",
        source=Source("004", "3.4 T5", "Distances are put into buckets that share a value."),
        verdict="holds",
        form="symbolic",
        truth="In exact numbers. The usual recipe takes the logarithm in floating point and is one "
        "off where it misses a threshold: at 21 for 12 buckets, both directions and max_distance "
        "1029; at no distance for the defaults.",
        derivation=definition,
    ),
    Claim(
        id="t5_bucket.rises_with_distance",
        number="",
        statement="On either side a longer distance is in the same bucket or a later one.",
        latex=r"a\le a'\Rightarrow\mathrm{bucket}(a)\le\mathrm{bucket}(a')",
        source=Source("004", "3.4 T5", "Distances are put into buckets that share a value."),
        verdict="holds",
        form="symbolic",
        derivation=rising,
    ),
    Claim(
        id="t5_bucket.last_bucket",
        number="C090",
        statement="With 128 the longest distance of training, 64 to 128 share the last bucket.",
        latex=r"a^K\ge D^{K-1}m:\quad a\ge91\ (8,8),\quad a\ge113\ (16,16)",
        source=Source("004", "3.4 T5", "An example of distances that share one bucket."),
        verdict="corrected",
        form="symbolic",
        truth="At T5's defaults the last bucket starts at 91 where both directions count, at 113 "
        "where one does, and has no end. Distance 64 is in bucket 14 or 26.",
        counterexample=_sixty_four,
        derivation=_last_bucket,
    ),
    Claim(
        id="t5_bucket.defined_at_every_distance",
        number="C091",
        statement="Longer distances than those of training fall into the last bucket; none lacks "
        "one.",
        latex=r"a\ge D\Rightarrow a^K\ge D^tm^{K-t}\ (t\le K)",
        source=Source("004", "3.4 T5", "Longer distances share the last bucket."),
        verdict="holds",
        form="symbolic",
        derivation=always_defined,
    ),
)
