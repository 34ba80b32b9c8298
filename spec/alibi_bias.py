"""ALiBi's bias: a penalty that grows by the slope with each step of distance.

Source: document 004 (3.4, ALiBi; 3.10), which writes mu (n - m) with mu < 0 for a query at m and a
key at n <= m, three times: neither factor is positive, so that is a bonus. What it says of the bias
is true of -|mu| (m - n). What the bias does to weights is in `alibi_bias_weights`.
"""

from __future__ import annotations

from functools import cache

import sympy as sp

from attnspec.spec.alibi_definition import ROW_CONSTANTS, alibi_bias, slope
from attnspec.spec.claim import Claim, Condition, Counterexample, Source, Step
from attnspec.spec.definition import unmarked

sigma = sp.Symbol("sigma", positive=True)
"""|mu|."""
_back, _shift, _row = sp.symbols("u c r", integer=True, nonnegative=True)
_at = sp.Symbol("m", integer=True, nonnegative=True)


def printed(mu: sp.Expr, m: sp.Expr, n: sp.Expr) -> sp.Expr:
    """The bias as the document has it."""
    return mu * (n - m)


def axes(row_constant: str) -> tuple[sp.Symbol, sp.Symbol, sp.Symbol, sp.Symbol]:
    """The query's and the key's index, and how many of each there are."""
    _, (i, t), (j, s) = alibi_bias("paper", row_constant).axes
    return i, j, t, s


def entry(row_constant: str = "zero-diagonal") -> sp.Expr:
    """The definition's bias without its marks, with sigma for the slope of its head."""
    made = alibi_bias("paper", row_constant)
    head, heads = made.axes[0]
    return unmarked(made.expression).subs(unmarked(slope(head, heads, "paper")), sigma)


def behind(steps: sp.Expr) -> sp.Expr:
    """The definition's bias of a key so many steps before its query."""
    i, j, t, s = axes("zero-diagonal")
    return entry().subs(j, i + s - t - steps)


@cache
def linear() -> tuple[Step, ...]:
    """The steps of `alibi_bias.definition`."""
    i, j, t, s = axes("zero-diagonal")
    constant = alibi_bias("paper", "free").arrays[0]
    head = alibi_bias("paper", "free").axes[0][0]
    return (
        Step("query i sits at i + s - t; a key u steps before it has -sigma u",
             behind(_back) + sigma * _back),
        Step("one u steps after it too", behind(-_back) + sigma * _back),
        Step("with a free constant a row the entries differ by that constant alone",
             entry("free") - entry() - constant[head, i]),
        Step("the last query, i = t - 1, has 0 at the last key, j = s - 1",
             entry().subs({i: t - 1, j: s - 1}, simultaneous=True)),
    )  # fmt: skip


def penalty() -> tuple[Step, ...]:
    """The steps of `alibi_bias.falls_with_distance`: the repaired sign, and the printed one."""
    bonus = printed(-sigma, _at, _at - _back)
    return (
        *linear(),
        Step("no entry is positive", behind(_back).is_nonpositive),
        Step("and one step further back costs sigma", sp.expand(
            behind(_back) - behind(_back + 1) - sigma)),
        Step("-|mu| (m - n) with n = m - u is that entry",
             -sigma * (_at - (_at - _back)) - behind(_back)),
        Step("the printed mu (n - m) is sigma u", sp.expand(bonus - sigma * _back)),
        Step("which is never negative", sp.expand(bonus).is_nonnegative),
        Step("the two differ by 2 sigma u: only on the diagonal they agree",
             sp.expand(bonus - behind(_back) - 2 * sigma * _back)),
    )  # fmt: skip


def _bonus() -> Counterexample:
    mu, m, n = sp.Rational(-1, 2), sp.Integer(2), sp.Integer(0)
    return Counterexample(
        "mu = -1/2, query 2, key 0: mu (n - m), stated to be a penalty of |mu| a step",
        stated=-abs(mu) * (m - n),
        actual=printed(mu, m, n),
    )


def _quick_reference_bonus() -> Counterexample:
    mu, m, n = sp.Rational(-1, 4), sp.Integer(8), sp.Integer(0)
    return Counterexample(
        "mu = -1/4, query 8, key 0: what is added to the score, stated to lower it",
        stated=-abs(mu) * (m - n),
        actual=printed(mu, m, n),
    )


def _diagonal() -> tuple[Step, ...]:
    return (
        *penalty(),
        Step("a query's own key is 0 steps back and has 0", behind(sp.S.Zero)),
        Step("every earlier one, u + 1 steps back, less than 0", behind(_back + 1).is_negative),
        Step("with the printed sign more", sp.expand(printed(-sigma, _at, _at - _back - 1))
             .is_positive),
    )  # fmt: skip


def _own_key() -> Counterexample:
    return Counterexample(
        "mu = -1/2, m = n = 0: sign of the bias, stated to be negative always",
        stated=sp.S.NegativeOne,
        actual=sp.sign(printed(sp.Rational(-1, 2), sp.S.Zero, sp.S.Zero)),
    )


def _first_step_back() -> Counterexample:
    mu, m = sp.Rational(-1, 2), sp.Integer(2)
    change = printed(mu, m, m - 1) - printed(mu, m, m)
    return Counterexample(
        "printed sign, mu = -1/2: change of the bias from a query's own key to the one before, "
        "stated to be harsher by |mu|",
        stated=mu,
        actual=change,
    )


def _moved() -> tuple[Step, ...]:
    steps = []
    for kind in ROW_CONSTANTS:
        made = alibi_bias("paper", kind)
        i, j, t, s = axes(kind)
        row = made.arrays[0][made.axes[0][0], i] if made.arrays else sp.S.Zero
        bare = entry(kind) - row
        moved = bare.subs({i: i + _shift, j: j + _shift}, simultaneous=True)
        at = bare.subs({t: s, i: _row + s - t}, simultaneous=True)
        steps += [
            Step(f"{kind}: moving query and key on together changes nothing", moved - bare),
            Step(f"{kind}: row r of the last t queries is row r + s - t of all",
                 bare.subs(i, _row) - at),
        ]  # fmt: skip
    return tuple(steps)


SIGN = Condition("D1", "the sign is corrected: the bias is -|mu| (m - n)")

CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="alibi_bias.definition",
        number="",
        statement="The expression that the suite evaluates is minus the slope times the distance, "
        "with the last query at the last key.",
        latex=r"b_h(i,j)=-\sigma_h\,|i+s-t-j|",
        source=Source("004", "3.4 ALiBi", "A fixed penalty, linear in distance."),
        verdict="holds",
        form="symbolic",
        derivation=linear,
    ),
    Claim(
        id="alibi_bias.falls_with_distance",
        number="C093",
        statement="ALiBi adds mu (n - m) with mu < 0, which is a penalty.",
        latex=r"-|\mu|(m-n)\le0,\quad\mu(n-m)=|\mu|(m-n)\ge0",
        source=Source("004", "3.4 ALiBi", "The score with its bias, and the sign of the slope."),
        verdict="corrected",
        form="symbolic",
        truth="For keys up to the query that is a bonus, which grows with distance. The penalty is "
        "-|mu| (m - n). The printed sign stands three times: in the score, in the bias alone, and "
        "in the summary of 3.10.",
        counterexample=_bonus,
        derivation=penalty,
    ),
    Claim(
        id="alibi_bias.zero_on_diagonal",
        number="C094",
        statement="As n - m is negative, the bias is always negative.",
        latex=r"b(m,m)=0,\quad b(m,n)=-|\mu|(m-n)<0\ (n<m)",
        source=Source("004", "3.4 ALiBi", "The sign of the bias, from that of n - m."),
        verdict="corrected",
        form="symbolic",
        truth="It is 0 at the query's own key and negative at every earlier one, once the sign is "
        "corrected. As printed it is positive there.",
        counterexample=_own_key,
        derivation=_diagonal,
    ),
    Claim(
        id="alibi_bias.step_costs_slope",
        number="C095",
        statement="The farther back a key, the harsher its penalty.",
        latex=r"b(m,n)-b(m,n-1)=|\mu|",
        source=Source("004", "3.4 ALiBi", "Older tokens are punished more."),
        verdict="holds-if",
        form="symbolic",
        conditions=(SIGN,),
        counterexample=_first_step_back,
        derivation=penalty,
    ),
    Claim(
        id="alibi_bias.quick_reference",
        number="C185",
        statement="The summary's score adds mu (n - m) with mu < 0.",
        latex=r"\frac{q_m\cdot k_n}{\sqrt{d_k}}-|\mu|(m-n)",
        source=Source("004", "3.10 Quick Reference", "ALiBi's score once more."),
        verdict="corrected",
        form="symbolic",
        truth="The sign is that of a bonus, as in 3.4: it must be -|mu| (m - n).",
        counterexample=_quick_reference_bonus,
        derivation=penalty,
    ),
    Claim(
        id="alibi_bias.translation",
        number="",
        statement="The bias is unchanged when query and key move together, and the last queries "
        "alone have the last rows of all.",
        latex=r"b(m+c,n+c)=b(m,n),\quad b^{(t,s)}_{r,j}=b^{(s,s)}_{r+s-t,j}",
        source=Source("004", "3.4 ALiBi", "A fixed penalty, linear in distance."),
        verdict="holds",
        form="symbolic",
        truth="Up to the constant a row that an implementation may add.",
        derivation=_moved,
    ),
)
