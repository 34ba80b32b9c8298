"""Attention against a recurrence: how far a word is, and what it costs to have all at hand.

Sources: document 003 (5), document 004 (3.1: why self-attention).
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.attention import value_slope
from attnspec.spec.claim import Claim, Condition, Counterexample, Source, Step
from attnspec.spec.symbols import c, i, j

_state = sp.Symbol("n", integer=True, positive=True)
_decay = sp.Symbol("a", real=True)


def _influence() -> sp.Expr:
    """How much the first input still counts in state n of h_n = a h_(n-1) + x_n."""
    share = sp.Function("g")
    return sp.rsolve(share(_state + 1) - _decay * share(_state), share(_state), {share(1): 1})


def _relay() -> tuple[Step, ...]:
    return (
        Step(
            "a recurrence h_n = a h_(n-1) + x_n passes word 1 on once a word, with a factor a: 99 "
            "times until word 100",
            sp.degree(_influence().subs(_state, 100), _decay) - 99,
        ),
        *value_slope(),
    )


def _fading() -> tuple[Step, ...]:
    more, time = sp.symbols("e t", positive=True)
    return (
        Step(
            "h_n = a h_(n-1) + x_n: word 1 counts a^(n-1) in state n",
            sp.simplify(_influence() - _decay ** (_state - 1)),
        ),
        Step("a^99 at word 100", _influence().subs(_state, 100) - _decay**99),
        Step("|a| = 1/(1 + e) < 1 fades", sp.limit((1 + more) ** (-time), time, sp.oo)),
        Step("a = 1 doesn't", _influence().subs({_decay: 1, _state: 100}) - 1),
        Step(
            "|a| = 1 + e > 1 grows beyond bounds",
            sp.Eq(sp.limit((1 + more) ** time, time, sp.oo), sp.oo),
        ),
    )


def _kept() -> Counterexample:
    return Counterexample(
        "h_n = h_(n-1) + x_n: how much word 1 counts at word 100, stated to have faded",
        stated=sp.S.Zero,
        actual=_influence().subs({_decay: 1, _state: 100}),
    )


def _quadratic() -> tuple[Step, ...]:
    length, width = sp.symbols("T D", integer=True, positive=True)
    tokens, channels = (i, 0, length - 1), (c, 0, width - 1)
    projections = 4 * sp.Sum(2, (j, 0, width - 1), channels, tokens).doit()
    pairs = 2 * sp.Sum(2, channels, tokens, (j, 0, length - 1)).doit()
    cost = projections + pairs
    causal = sp.Sum(j + 1, (j, 0, length - 1)).doit()
    crossing = sp.solve(sp.Eq(projections, pairs), length)
    return (
        Step(
            "a product and a sum for each of D^2 T terms, in Q, K, V and the last projection, and "
            "of T^2 D terms, in scores and averages: 8 T D^2 + 4 T^2 D",
            sp.expand(cost - 8 * length * width**2 - 4 * length**2 * width),
        ),
        Step(
            "per T^2 that goes to 4 D",
            sp.limit(cost / length**2, length, sp.oo) - 4 * width,
        ),
        Step(
            "twice the length goes to four times the cost",
            sp.limit(cost.subs(length, 2 * length) / cost, length, sp.oo) - 4,
        ),
        Step(
            "the part in T^2 is the larger from T = 2 D on",
            sp.Matrix(crossing) - sp.Matrix([2 * width]),
        ),
        Step(
            "causal rows see T (T + 1) / 2 pairs",
            sp.expand(causal - length * (length + 1) / 2),
        ),
        Step(
            "which is still quadratic: half of T^2",
            sp.limit(causal / length**2, length, sp.oo) - sp.Rational(1, 2),
        ),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="attention.relay_of_recurrence",
        number="C001",
        statement="In a recurrence word 1 reaches word 100 in 99 steps; attention takes one.",
        latex=r"\#\{1\to100\}=99,\quad\partial o_i/\partial v_j=p_{ij}>0",
        source=Source(
            "004", "3.1 Why Self-Attention", "Word 1 goes through 99 hands before word 100."
        ),
        verdict="holds",
        form="symbolic",
        derivation=_relay,
    ),
    Claim(
        id="attention.fading_of_recurrence",
        number="C002",
        statement="In a recurrence information fades over long distances.",
        latex=r"h_n=a\,h_{n-1}+x_n\Rightarrow\partial h_n/\partial x_1=a^{n-1}",
        source=Source("004", "3.1 Why Self-Attention", "Far words get lost on the way."),
        verdict="holds-if",
        form="symbolic",
        conditions=(Condition("D1", "the recurrence contracts: |a| < 1"),),
        truth="It is kept for |a| = 1, as by an orthogonal recurrence, and explodes for |a| > 1.",
        counterexample=_kept,
        derivation=_fading,
    ),
    Claim(
        id="attention.cost_is_quadratic",
        number="B16",
        statement="The cost of self-attention is quadratic in the length of the sequence.",
        latex=r"8TD^2+4T^2D=\Theta(T^2)",
        source=Source("003", "5 Checkpoint", "Asks for the complexity in T."),
        verdict="holds",
        form="symbolic",
        truth="For a fixed width D: the part in T^2 leads from T = 2 D on, and a causal mask "
        "halves it.",
        derivation=_quadratic,
    ),
)
