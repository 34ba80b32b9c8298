"""Attention's mask: hiding keys is leaving them out, and it comes after the scale.

Sources: document 003 (2, 4). A mask is minus infinity on the scores, or a boolean; which keys are
left is said by places, as in `attention_sums`.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.attention_definition import Options, sees
from attnspec.spec.attention_sums import a, any_function, at_places, gathering, places, u, v
from attnspec.spec.claim import Claim, Counterexample, Source, Step
from attnspec.spec.softmax import two_way
from attnspec.spec.symbols import N, j, z

_logit = sp.Symbol("z", real=True)
_first = sp.Symbol("n_1", integer=True, positive=True)


def hidden() -> tuple[Step, ...]:
    """What minus infinity added to a logit does to its exponential."""
    bias = sp.Symbol("b", real=True)
    return (
        Step(
            "exp(z + b) goes to 0 times exp(z) as b goes to minus infinity",
            sp.limit(sp.exp(_logit + bias), bias, -sp.oo),
        ),
        Step("and is 0 at minus infinity, for every finite z", sp.exp(_logit + -sp.oo)),
        Step("exp(z + 0) is 1 times exp(z)", sp.exp(_logit + 0) - sp.exp(_logit)),
    )


def _subset() -> tuple[Step, ...]:
    hit = sp.KroneckerDelta(j, places[a], (0, N - 1))
    counts = sp.Sum(hit, (j, 0, N - 1)).doit()
    return (
        *hidden(),
        *gathering(),
        Step("each place is one key: m sums to the number of the places", counts - 1),
        Step(
            "where the first n_1 keys are the seen ones, the sum's slope in a later logit is 0",
            sp.diff(sp.Sum(sp.exp(z[j]) * v[j], (j, 0, _first - 1)), z[_first + u]).doit(),
        ),
        Step(
            "and so is that in a later value",
            sp.diff(sp.Sum(sp.exp(z[j]) * v[j], (j, 0, _first - 1)), v[_first + u]).doit(),
        ),
    )


def visible(key: sp.Expr, position: sp.Expr) -> sp.Basic:
    """Whether a query at a position sees a key, as the definition has it, by distances that are
    written out: where causal, right is 0."""
    query = sp.Symbol("i", integer=True, nonnegative=True)
    offset = sp.Symbol("offset", integer=True)
    shown = sees(Options(ranges=True)).subs({j: key, query: position - offset})
    apart = [
        condition.func(sp.expand(condition.lhs - condition.rhs), 0) for condition in shown.args
    ]
    return sp.And(*apart, evaluate=False)


def _blocks() -> tuple[Step, ...]:
    start, block = sp.symbols("o r", integer=True, nonnegative=True)
    row = sp.Symbol("i", integer=True, nonnegative=True)
    length = sp.Symbol("n", integer=True, positive=True)
    shifted = sp.Sum(any_function(start + a), (a, 0, length - 1))
    return (
        *hidden(),
        *gathering(),
        Step(
            "a row of the block that begins at o sees the places o + a: these are the sums of "
            "attention over that block alone",
            at_places(any_function(j), length).replace(
                lambda node: node == places[a], lambda _: start + a
            )
            - shifted,
        ),
        Step(
            "and a causal mask or a window goes along: o + j is as far from o + i as j from i",
            sp.Eq(visible(start + block, start + row), visible(block, row)),
        ),
    )


def _order() -> tuple[Step, ...]:
    value, score, other, divisor = sp.symbols("M x y tau", positive=True)
    after = (score / divisor + value) - other / divisor
    before = (score + value) / divisor - other / divisor
    example = {score: other, value: 2 * sp.log(2), divisor: sp.sqrt(4)}
    limit = sp.exp((_logit + -sp.oo) / divisor)
    return (
        *hidden(),
        *gathering(),
        Step(
            "minus infinity hides before the scale as well: (z - oo) / tau is minus infinity",
            limit,
        ),
        Step(
            "a finite M is a gap of M after the scale",
            sp.expand(after - (score - other) / divisor - value),
        ),
        Step(
            "and of M / tau before it",
            sp.expand(before - (score - other) / divisor - value / divisor),
        ),
        Step(
            "which differ unless tau = 1",
            sp.Matrix(sp.solve(sp.expand(after - before), divisor)) - sp.Matrix([1]),
        ),
        Step(
            "d_k = 4, equal scores, M = (2 log 2, 0): weight 4/5 after the scale",
            sp.simplify(two_way(after.subs(example))) - sp.Rational(4, 5),
        ),
        Step(
            "2/3 before it",
            sp.simplify(two_way(before.subs(example))) - sp.Rational(2, 3),
        ),
    )


def _window() -> tuple[Step, ...]:
    t, s = sp.symbols("t s", integer=True, positive=True)
    row, key, room, left, above = sp.symbols("i j e f g", integer=True, nonnegative=True)
    # i <= t - 1 and j <= s - 1
    queries, keys = {t: row + 1 + left}, {s: key + 1 + above}
    bottom_right = (row + s - t).subs(queries).subs(keys)
    back = bottom_right - key
    return (
        Step(
            "query i at position i + s - t: i + s - t - j <= s - 1, as i <= t - 1 and 0 <= j",
            ((s - 1).subs(keys) - back - (left + key)).expand(),
        ),
        Step("is no less than 0", (left + key).is_nonnegative),
        Step(
            "so w >= s - 1 keys back hide none: w = s - 1 + e",
            sp.expand((s - 1 + room).subs(keys) - back).is_nonnegative,
        ),
        Step(
            "and w >= t - 1 keys ahead neither: j - (i + s - t) <= t - 1",
            sp.expand((t - 1 + room).subs(queries) + back).is_nonnegative,
        ),
        Step(
            "a window of w >= s keys that counts the query's own reaches s - 1 back",
            sp.expand((s + room - 1).subs(keys) - back).is_nonnegative,
        ),
        Step(
            "with queries at position i, i - j <= t - 1 and j - i <= s - 1",
            sp.expand((t - 1 + room).subs(queries) - (row - key)).is_nonnegative
            and sp.expand((s - 1 + room).subs(keys) - (key - row)).is_nonnegative,
        ),
    )


def _bits(*widths: int) -> sp.Expr:
    """Bits of the sum of floating numbers of these widths: promotion takes the widest."""
    return sp.Max(*widths)


def _dtypes() -> tuple[Step, ...]:
    return (
        Step("16-bit scores plus a 32-bit mask have 32 bits", _bits(16, 32) - 32),
        Step(
            "so do their weights, which then meet values of 16: a matrix product takes one dtype",
            sp.Ne(_bits(16, 32), 16),
        ),
        Step("a mask in the scores' dtype keeps it", _bits(16, 16) - 16),
        Step(
            "and loses nothing: 0 and minus infinity are numbers of every floating dtype, with "
            "exp(z + 0) = exp(z)",
            sp.exp(_logit + 0) - sp.exp(_logit),
        ),
        Step("and exp(z - oo) = 0", sp.exp(_logit - sp.oo)),
    )


def _promoted() -> Counterexample:
    return Counterexample(
        "float16 input and a mask created without a dtype, in float32: bits of a weight, "
        "stated to be the values' own",
        stated=sp.Integer(16),
        actual=_bits(16, 32),
    )


_FORMULA = Source("003", "2 Formulations", "Adds a mask M of 0 and minus infinity to the scores.")

CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="attention.masked_formula",
        number="B03",
        statement="Masked attention is softmax(Q K^T / sqrt(d_k) + M) V.",
        latex=r"\mathrm{softmax}\bigl(QK^T/\sqrt{d_k}+M\bigr)V",
        source=Source("003", "2 Formulations", "The formula: scaled scores, plus M, softmax, V."),
        verdict="holds",
        form="symbolic",
        truth="A finite M belongs after the scale, else it is scaled too; 0 and minus infinity "
        "stay what they are.",
        derivation=_order,
    ),
    Claim(
        id="attention.mask_in_dtype_of_scores",
        number="B14",
        statement="The listing's mask, created in float32, serves every floating dtype.",
        latex=r"\mathrm{dtype}(S_{16}+M_{32})=32\ne16=\mathrm{dtype}(V)",
        source=Source("003", "4 Code", "Creates the mask without the dtype of the scores."),
        verdict="refuted",
        form="exact",
        truth="With 16-bit inputs it makes the scores 32-bit, whose product with V raises. The "
        "mask must be created in the scores' dtype.",
        counterexample=_promoted,
        derivation=_dtypes,
    ),
    Claim(
        id="attention.bool_mask_eq_infinite_bias",
        number="",
        statement="A boolean mask and a bias of 0 and minus infinity are the same.",
        latex=r"m_je^{z_j}=e^{z_j+b_j},\ b_j=0\text{ or }-\infty",
        source=_FORMULA,
        verdict="holds",
        form="symbolic",
        derivation=hidden,
    ),
    Claim(
        id="attention.mask_eq_subset",
        number="",
        statement="Hiding keys is attention over the others alone.",
        latex=r"\sum_jm_jf(j)=\sum_af(\phi_a),\quad m_j=\sum_a\delta_{j,\phi_a}",
        source=_FORMULA,
        verdict="holds",
        form="symbolic",
        derivation=_subset,
    ),
    Claim(
        id="attention.block_diagonal_eq_separate",
        number="",
        statement="Sequences packed behind each other, each hidden from the others, are attention "
        "over each alone.",
        latex=r"\sum_jm_{ij}f(j)=\sum_{a<n}f(o+a)\text{ for the block at }o\text{ of row }i",
        source=_FORMULA,
        verdict="holds",
        form="symbolic",
        derivation=_blocks,
    ),
    Claim(
        id="attention.window_ge_length_eq_all",
        number="",
        statement="A window no shorter than the sequences hides nothing.",
        latex=r"w\ge\max(s,t)-1\Rightarrow|i+s-t-j|\le w",
        source=_FORMULA,
        verdict="holds",
        form="symbolic",
        derivation=_window,
    ),
)
