"""RoPE at long distances: what a score can reach, and which angles are new.

Sources: document 000 (3), document 004 (3.5, long-term decay and default choice). A rotation
keeps lengths, so the greatest score is the same at every distance.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.claim import Claim, Condition, Counterexample, Source, Step
from attnspec.spec.rope import orthogonal, relative
from attnspec.spec.rope_frequencies import no_parameters
from attnspec.spec.rope_pairs import operations
from attnspec.spec.rotation import block, frequency, plane_kernel, plane_score, turned
from attnspec.spec.shapes import shapes_fit
from attnspec.spec.sums import distributed
from attnspec.spec.symbols import c, d, i, key, q, t, theta

_pairs = (i, 0, d / 2 - 1)


def _unseen_angles() -> tuple[Step, ...]:
    periods = [2 * sp.pi / frequency(sp.Integer(pair), sp.Integer(128)) for pair in range(64)]
    longer = sum(bool(sp.Gt(period, 4096)) for period in periods)
    return (
        *relative(),
        Step("d = 128: 18 of 64 pairs have a period above 4096", sp.Integer(longer) - 18),
        Step("the slowest needs 54410 positions for a turn", sp.floor(periods[-1]) - 54410),
    )


def greatest_score() -> tuple[Step, ...]:
    """The steps of `rope.greatest_score_is_constant`: what is reached, and that it is the most."""
    size = sp.Symbol("d", integer=True, positive=True)
    rotation, vector = sp.MatrixSymbol("R", size, size), sp.MatrixSymbol("k", size, 1)
    own = (rotation * vector).T * rotation * vector
    kept = sp.refine(own.doit(), sp.Q.orthogonal(rotation)).doit()
    kept = kept.subs(rotation.T * rotation, sp.Identity(size)).doit()
    ratio = sp.Symbol("lambda", real=True)
    (a, b), both = sp.symbols("A B", positive=True), sp.Symbol("C", real=True)
    channels = (c, 0, d - 1)
    square = sp.Sum((q[c] - ratio * key[c]) ** 2, channels)
    named = distributed(square).subs(
        {
            sp.Sum(q[c] ** 2, channels): a,
            sp.Sum(key[c] ** 2, channels): b,
            sp.Sum(q[c] * key[c], channels): both,
        }
    )
    return (
        Step("shapes fit", shapes_fit(vector.T, rotation.T, rotation, vector)),
        Step(
            "q = lambda R k scores lambda |k|^2 at every distance, as R is orthogonal: |q||k|",
            (ratio * kept - ratio * vector.T * vector).doit(),
        ),
        Step("squares are not negative", square.function.is_nonnegative),
        Step(
            "sum of (q - lambda k)^2 is A - 2 lambda C + lambda^2 B, with A = |q|^2, B = |k|^2, "
            "C = q.k",
            sp.expand(named - (a - 2 * ratio * both + ratio**2 * b)),
        ),
        Step(
            "at lambda = C/B that is A - C^2/B >= 0: no score is above |q||k|, and |R k| = |k|",
            sp.expand(named.subs(ratio, both / b)) - (a - both**2 / b),
        ),
        *orthogonal()[:3],
    )


def _greatest_at_one() -> Counterexample:
    unit = sp.ImmutableMatrix([1, 0])
    best = block(sp.S.One) * unit
    return Counterexample(
        "d = 2, unit vectors at displacement 1: greatest score over all q and k, stated to have "
        "fallen to cos 1",
        stated=plane_score((1, 0), (1, 0), sp.S.One),
        actual=sp.simplify(best.dot(best)),
    )


def _isotropic() -> tuple[Step, ...]:
    rotation = block(t * theta[i])
    squares = sp.Sum(sum(entry**2 for entry in rotation), _pairs)
    return (
        Step(
            "independent entries of variance 1: q^T R_t k has the variance of R's squared entries "
            "summed, 2 a pair, d at every t",
            sp.Sum(sp.simplify(squares.function), _pairs).doit() - d,
        ),
        Step(
            "its mean is 0 at every t, being linear in q, of mean 0",
            sp.expand(
                sum(a * b for a, b in zip((q[2 * i], q[2 * i + 1]), turned(key, t), strict=True))
            ).subs({q[2 * i]: 0, q[2 * i + 1]: 0}),
        ),
    )


def kernel_rises() -> Counterexample:
    """The kernel of one pair at two distances, the farther of which scores more."""
    return Counterexample(
        "d = 2, q = k = (1, 0): score at distance 6, stated to be at most that at 1",
        stated=plane_score((1, 0), (1, 0), sp.S.One),
        actual=plane_score((1, 0), (1, 0), sp.Integer(6)),
    )


def _default_choice() -> tuple[Step, ...]:
    return (
        *no_parameters(),
        *relative(),
        *operations(),
        *greatest_score(),
        Step(
            "but for the decay: B(6) = cos 6 > B(1) = cos 1 at d = 2",
            plane_kernel(1, 6) > plane_kernel(1, 1),
        ),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="rope.new_angles_beyond_training",
        number="A19",
        statement="RoPE generalizes to context lengths that training never saw.",
        latex=r"\#\{i:2\pi/\theta_i>4096\}=18\ (d=128)",
        source=Source("000", "3 Mechanism", "Unseen context lengths pose no problem."),
        verdict="empirical",
        form="symbolic",
        truth="The map is defined at every position and stays relative there. But at d = 128, 18 "
        "of 64 pairs turn less than once in 4096 positions (the slowest once in 54410), so beyond "
        "that length a model meets angles it never saw. Whether it copes is an experiment.",
        derivation=_unseen_angles,
    ),
    Claim(
        id="rope.greatest_score_is_constant",
        number="C113",
        statement="The greatest possible score shrinks as the distance grows.",
        latex=r"\max_{\|q\|=a,\|k\|=b}q^TR_tk=ab\ \text{for every }t",
        source=Source("004", "3.5 Long-Term Decay", "The largest possible score falls with |m-n|."),
        verdict="corrected",
        form="symbolic",
        truth="Over all q and k of given lengths it is |q||k| at every distance, reached where q "
        "points along R_t k.",
        counterexample=_greatest_at_one,
        derivation=greatest_score,
    ),
    Claim(
        id="rope.no_recency_bias_of_isotropic",
        number="C116",
        statement="RoPE gives a mild preference for near tokens for free.",
        latex=r"E\,q^TR_tk=0,\ \mathrm{Var}\,q^TR_tk=d\ \text{at every }t",
        source=Source("004", "3.5 Long-Term Decay", "A recency bias comes without cost."),
        verdict="empirical",
        form="symbolic",
        truth="Independent isotropic q and k show none: mean 0 and variance d at every distance. "
        "Nearly equal q and k give B(t). Which of these trained vectors are is an experiment.",
        derivation=_isotropic,
    ),
    Claim(
        id="rope.checklist",
        number="C117",
        statement="No parameters, exact relative encoding, natural decay, cheap on GPUs.",
        latex=r"2d\text{ multiplications},\ d\text{ additions}",
        source=Source("004", "3.5 Default Choice", "A list of advantages that RoPE has."),
        verdict="holds-if",
        form="symbolic",
        conditions=(Condition("D1", "natural decay is struck off the list"),),
        counterexample=kernel_rises,
        derivation=_default_choice,
    ),
    Claim(
        id="rope.used_by_models",
        number="C118",
        statement="LLaMA 1 to 3, Mistral, DeepSeek and Qwen use RoPE.",
        latex="",
        source=Source("004", "3.5 Default Choice", "It is the default of named model families."),
        verdict="empirical",
        form="none",
        truth="A fact about models, not mathematics.",
    ),
)
