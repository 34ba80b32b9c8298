"""RoPE's kernel: what of the decay with distance is true.

Sources: document 000 (3), document 004 (3.5, long-term decay). The kernel B(t), the sum of
cos(t theta_i), is the score of two all-ones pairs in phase. It has mean zero over the distances
and an upper envelope that falls; neither says anything of other vectors.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.claim import Claim, Condition, Counterexample, Source, Step
from attnspec.spec.exact_values import rounded
from attnspec.spec.rope_reach import greatest_score, kernel_rises
from attnspec.spec.rotation import block, plane_kernel, plane_score
from attnspec.spec.sums import reduced
from attnspec.spec.symbols import d, i, t
from attnspec.spec.turns import UNIT, kernel, partial_sum_means

_angle = sp.Symbol("theta", real=True)
_length = sp.Symbol("T", integer=True, positive=True)
_pairs = (i, 0, d / 2 - 1)


def _mean_over_distances() -> tuple[Step, ...]:
    r, position = sp.Symbol("r", complex=True), sp.Symbol("t", integer=True)
    geometric = sp.Sum(r**position, (position, 0, _length - 1)).doit().args[1].expr
    squared = (2 - 2 * sp.cos(_length * _angle)) / (2 - 2 * sp.cos(_angle))
    return (
        Step(
            "sum of r^t over t < T is (1 - r^T) / (1 - r) for r other than 1",
            sp.simplify(geometric - (1 - r**_length) / (1 - r)),
        ),
        Step(
            "|1 - exp(i a)|^2 = 2 - 2 cos(a)",
            sp.simplify(
                sp.expand((1 - sp.exp(sp.I * _angle)) * (1 - sp.exp(-sp.I * _angle)))
                - (2 - 2 * sp.cos(_angle)).rewrite(sp.exp)
            ),
        ),
        Step(
            "so with r = exp(i theta) its squared size is sin(T theta/2)^2 / sin(theta/2)^2",
            sp.simplify(squared - sp.sin(_length * _angle / 2) ** 2 / sp.sin(_angle / 2) ** 2),
        ),
        Step(
            "at most 1 / sin(theta/2)^2, as 1 - sin^2 = cos^2 >= 0",
            reduced(1 - sp.sin(t) ** 2 - sp.cos(t) ** 2),
        ),
        Step(
            "and 0 < theta_i <= 1 < 2 pi, so sin(theta_i/2) isn't 0: the mean over t < T, at most "
            "1 / (T sin(theta_i/2)) in size, goes to 0, that of all d/2 pairs with it",
            sp.limit(1 / (_length * sp.sin(sp.Rational(1, 2))), _length, sp.oo),
        ),
    )


def _returns() -> tuple[Step, ...]:
    turns = sp.Symbol("j", integer=True, nonzero=True)
    fineness = sp.Symbol("Q", positive=True)
    return (
        Step(
            "B(t) < B(0) for integers t != 0: cos(t theta_0) = cos(t) = 1 needs t = 2 pi j, which "
            "is irrational",
            (2 * sp.pi * turns).is_irrational,
        ),
        Step(
            "some t <= Q^(d/2) has every t theta_i within 2 pi/Q of a whole turn (Dirichlet), so "
            "B(t) >= d/2 cos(2 pi/Q), which comes as close to B(0) = d/2 as one likes",
            sp.limit(d / 2 * sp.cos(2 * sp.pi / fineness), fineness, sp.oo) - d / 2,
        ),
        Step("d = 2: B(710) > 1 - 2/10^9", plane_kernel(1, 710) > 1 - sp.Rational(2, 10**9)),
        Step("d = 4: B(71000) > 2 - 2/10^5", plane_kernel(2, 71000) > 2 - sp.Rational(2, 10**5)),
    )


def _envelope() -> tuple[Step, ...]:
    h, partial = sp.Function("h"), sp.Function("S")
    last = sp.Symbol("M", integer=True, positive=True)
    by_parts = sp.expand(h(i) * (partial(i + 1) - partial(i)) + partial(i + 1) * (h(i + 1) - h(i)))
    telescoping = h(i + 1) * partial(i + 1) - h(i) * partial(i)
    means = partial_sum_means(64, tuple(range(20)))
    shown = partial_sum_means(64, (0, 10, 100, 256))
    hundredths = [{rounded(sp.Rational(end, 64 * UNIT), 2) for end in ends} for ends in shown]
    return (
        Step(
            "Abel: h_i (S_(i+1) - S_i) + S_(i+1) (h_(i+1) - h_i) telescopes",
            sp.expand(by_parts - telescoping),
        ),
        Step(
            "so with S_0 = 0 the sum of h_i (S_(i+1) - S_i) over i < M is h_M S_M minus the sum of "
            "S_(i+1) (h_(i+1) - h_i): at most max |h_(i+1) - h_i| times the sum of |S_j|, h_M = 0",
            sp.Sum(telescoping, (i, 0, last - 1)).doit()
            - (h(last) * partial(last) - h(0) * partial(0)),
        ),
        Step(
            "d = 128: the mean of |S_j| at t = 0, 10, 100, 256 is 32.50, 17.95, 10.23, 6.54",
            hundredths == [{3250}, {1795}, {1023}, {654}],
        ),
        Step(
            "it falls up to t = 18",
            all(means[a + 1][1] < means[a][0] for a in range(18)),
        ),
        Step("and rises to t = 19: an envelope, no law", means[19][0] > means[18][1]),
    )


def _phase() -> tuple[Step, ...]:
    size_q, size_k = sp.symbols("a b", positive=True)
    at_q, at_k = sp.symbols("u v", real=True)
    query = size_q * sp.ImmutableMatrix([[sp.cos(at_q), sp.sin(at_q)]])
    vector = size_k * sp.ImmutableMatrix([sp.cos(at_k), sp.sin(at_k)])
    value = (query * block(t * _angle) * vector)[0]
    return (
        Step(
            "a pair of lengths a, b and angles u, v adds a b cos(t theta + v - u)",
            reduced(value - size_q * size_k * sp.cos(t * _angle + at_k - at_q)),
        ),
        Step(
            "in phase and of unit length it adds cos(t theta)",
            reduced(value.subs({size_q: 1, size_k: 1, at_q: at_k})) - sp.cos(t * _angle),
        ),
        Step(
            "with the key a quarter turn behind it adds a b sin(t theta), which rises from t = 0",
            sp.simplify(
                sp.diff(value, t).subs(t, 0).subs(at_k, at_q - sp.pi / 2) - size_q * size_k * _angle
            ),
        ),
    )


def _no_decay() -> tuple[Step, ...]:
    lengths = kernel(64, 4096)
    short = kernel(32, 6)
    falls = all(lengths[a + 1][1] < lengths[a][0] for a in range(11))
    signs_known = all(low > 0 or high < 0 for low, high in lengths)
    return (
        *_phase(),
        Step("d = 2: B(6) = cos 6 > B(1) = cos 1", plane_kernel(1, 6) > plane_kernel(1, 1)),
        Step("d = 2: B(710) > B(1)", plane_kernel(1, 710) > plane_kernel(1, 1)),
        Step("d = 128: B falls up to t = 11", falls),
        Step("and rises to t = 12", lengths[12][0] > lengths[11][1]),
        Step(
            "d = 64: it first rises after t = 5",
            all(short[a + 1][1] < short[a][0] for a in range(5)) and short[6][0] > short[5][1],
        ),
        Step("d = 128: every sign up to t = 4096 is certain", signs_known),
        Step(
            "and B is negative at 420 of the 4097 distances",
            sp.Integer(sum(high < 0 for _, high in lengths)) - 420,
        ),
        *_returns(),
        *_mean_over_distances(),
        *_envelope(),
    )


def _out_of_phase() -> Counterexample:
    return Counterexample(
        "one pair with theta = 1, q = (1, 0), k = (0, 1), displacement 1: its term, stated as "
        "cos(theta)",
        stated=sp.cos(1),
        actual=plane_score((1, 0), (0, 1), sp.S.One),
    )


def _mean_square() -> tuple[Step, ...]:
    a, b = sp.symbols("a b", real=True)
    return (
        *_mean_over_distances(),
        Step("cos(a)^2 = 1/2 + cos(2a)/2", sp.simplify(sp.cos(a) ** 2 - (1 + sp.cos(2 * a)) / 2)),
        Step(
            "2 cos(a) cos(b) = cos(a-b) + cos(a+b)",
            reduced(2 * sp.cos(a) * sp.cos(b) - sp.cos(a - b) - sp.cos(a + b)),
        ),
        Step(
            "2 theta_i and theta_i +- theta_j lie between -2 pi and 2 pi and aren't 0, so their "
            "cosines have mean 0 too: the mean square of B is 1/2 a pair, d/4",
            sp.Sum(sp.Rational(1, 2), _pairs).doit() - d / 4,
        ),
        *_returns(),
        *greatest_score(),
    )


def _achieved_far_away() -> Counterexample:
    far = sp.Integer(3)
    best = block(far) * sp.ImmutableMatrix([1, 0])
    return Counterexample(
        "d = 2, unit vectors at displacement 3: achievable score, stated to be pulled down to "
        "cos 3",
        stated=plane_score((1, 0), (1, 0), far),
        actual=sp.simplify(best.dot(best)),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="rope.kernel_is_not_monotone",
        number="A20",
        statement="The RoPE score decays with relative distance.",
        latex=r"B(t)=\sum_i\cos\theta_it:\ B(t)<B(0),\ \limsup B=d/2,\ "
        r"\tfrac1T\bigl|\sum_{t<T}\cos\theta t\bigr|\le\tfrac1{T|\sin(\theta/2)|}",
        source=Source("000", "3 Mechanism", "Scores fall off with distance by nature."),
        verdict="corrected",
        form="symbolic",
        truth="One pair adds a b cos(t theta + phi), which may rise. In-phase pairs give B(t), "
        "which rises first after t = 11 at d = 128 and returns arbitrarily close to d/2. True: "
        "B(t) < B(0), its mean over t is 0, and an upper envelope (Abel's bound) falls off, not "
        "monotonely either.",
        counterexample=kernel_rises,
        derivation=_no_decay,
    ),
    Claim(
        id="rope.pair_term_has_phase",
        number="C114",
        statement="Each pair contributes cos(omega_i (m - n)).",
        latex=r"a_ib_i\cos(\theta_it+\varphi_i)",
        source=Source("004", "3.5 Long-Term Decay", "Each frequency adds a cosine of m - n."),
        verdict="holds-if",
        form="block",
        conditions=(Condition("D1", "the pairs of q and k have unit length and are in phase"),),
        truth="In general its amplitude is the product of the lengths, and its phase the angle "
        "between the two.",
        counterexample=_out_of_phase,
        derivation=_phase,
    ),
    Claim(
        id="rope.interference_lowers_the_mean",
        number="C115",
        statement="Destructive interference pulls the achievable score down at large distance.",
        latex=r"\overline{B}=0,\ \overline{B^2}=d/4,\ \max q^TR_tk=\|q\|\|k\|",
        source=Source("004", "3.5 Long-Term Decay", "Cosines out of step cancel at a distance."),
        verdict="corrected",
        form="symbolic",
        truth="It lowers B(t), the score of fixed in-phase pairs, on average: mean 0 and mean "
        "square d/4 over the distances. The achievable score stays, and B returns to near d/2.",
        counterexample=_achieved_far_away,
        derivation=_mean_square,
    ),
)
