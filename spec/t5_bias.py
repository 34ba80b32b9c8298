"""T5's bias: a learned number for each head and bucket, added to the score.

Source: document 004 (3.4, T5).
"""

from __future__ import annotations

from functools import cache

import sympy as sp

from attnspec.spec.claim import Claim, Counterexample, Source, Step
from attnspec.spec.definition import Definition
from attnspec.spec.shapes import shapes_fit
from attnspec.spec.t5_bias_definition import displacement, t5_bias
from attnspec.spec.t5_bucket import SIZES, always_defined, rising, value
from attnspec.spec.t5_bucket_definition import bucket

_shift, _row = sp.symbols("c r", integer=True, nonnegative=True)
_apart = sp.Symbol("delta", integer=True)
_FIRST_BOTH = (*range(8), 8, 12, 16, 23, 32, 46, 64, 91)
_FIRST_ONE = (*range(16), 16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113)
"""The first distance of each bucket of a side, at the defaults."""
_WAYS = ((True, "both directions"), (False, "one direction"))


def _axes(definition: Definition) -> tuple[sp.Symbol, sp.Symbol, sp.Symbol, sp.Symbol]:
    """The query's and the key's index, and how many of each there are."""
    _, (i, t), (j, s) = definition.axes
    return i, j, t, s


@cache
def relative() -> tuple[Step, ...]:
    """The steps of `t5_bias.of_displacement`: the entry, and what moves it."""
    steps: list[Step] = []
    for both, name in _WAYS:
        made = t5_bias(bidirectional=both)
        i, j, t, s = _axes(made)
        table, head = made.arrays[0], made.axes[0][0]
        entry = made.expression
        moved = entry.subs({i: i + _shift, j: j + _shift}, simultaneous=True)
        at = entry.subs(j, _apart + i + s - t)
        steps += [
            Step(f"{name}: moving query and key on together reads the same entry", moved - entry),
            Step(
                f"{name}: a key delta after its query reads the entry of bucket(delta), whatever "
                "the query's index",
                at - table[bucket(_apart, bidirectional=both), head],
            ),
        ]
    return tuple(steps)


def _definition() -> tuple[Step, ...]:
    made = t5_bias(bidirectional=True)
    i, j, t, s = _axes(made)
    return (
        *relative(),
        Step("the last query, i = t - 1, sits at the last key, j = s - 1",
             displacement(t - 1, s - 1, t, s)),
        Step("and each query before it one key earlier",
             displacement(i, j, t, s) - displacement(i + 1, j + 1, t, s)),
    )  # fmt: skip


def _of_distance() -> tuple[Step, ...]:
    signs = [value(x, bidirectional=True) for x in (1, -1)]
    return (
        *relative(),
        Step(
            "both directions: a key 1 after the query is in bucket 17, one 1 before it in bucket 1",
            sp.Matrix(signs) - sp.Matrix([17, 1]),
        ),
        Step(
            "one direction: every later key is in bucket 0, with the query's own",
            sp.Matrix([value(x, bidirectional=False) for x in (0, 1, 2, 128)]),
        ),
    )


def _parameters() -> tuple[Step, ...]:
    made = t5_bias(bidirectional=True)
    rows, heads = made.arrays[0].shape
    entries = sp.Sum(1, (_row, 0, rows - 1), (_shift, 0, heads - 1)).doit()
    both = {value(sign * x, bidirectional=True) for x in _FIRST_BOTH for sign in (-1, 1)}
    one = {value(-x, bidirectional=False) for x in _FIRST_ONE}
    return (
        Step("no array but the table enters", sp.Integer(len(made.arrays) - 1)),
        Step("which has an entry a bucket and head", sp.expand(entries - rows * heads)),
        Step("32 h at the default", entries.subs(SIZES).simplify() - 32 * heads),
        Step("one direction reads all 32 of a head", one == set(range(32))),
        Step("both directions all but 16", both == set(range(32)) - {16}),
        *rising(),
        Step(
            "and earlier keys end at 15, later ones start at 17",
            sp.Matrix([value(-128, bidirectional=True), value(1, bidirectional=True)])
            - sp.Matrix([15, 17]),
        ),
    )


def _scale_in_weights() -> tuple[Step, ...]:
    tokens, width, head = sp.symbols("n_t d_m d_k", integer=True, positive=True)
    x, bias = sp.MatrixSymbol("X", tokens, width), sp.MatrixSymbol("B", tokens, tokens)
    w_q, w_k = (sp.MatrixSymbol(name, width, head) for name in ("W_Q", "W_K"))
    plain = ((x * w_q) * (x * w_k).T + bias).doit()
    root = sp.sqrt(head)
    scaled = ((x * (root * w_q)) * (x * w_k).T / root + bias).doit()
    return (
        Step("the shapes of X W_Q W_K^T X^T fit", shapes_fit(x, w_q, w_k.T, x.T)),
        Step(
            "T5 scores X W_Q W_K^T X^T + B; with sqrt(d_k) W_Q in place of W_Q the scaled scores "
            "plus the same bias are those",
            (plain - scaled).doit(),
        ),
        Step(
            "with the same weights they differ: q = k = (1, 1, 1, 1) score 4 in T5",
            _product() - 4,
        ),
        Step("and 2 scaled", _product() / sp.sqrt(4) - 2),
    )


def _product() -> sp.Expr:
    ones = sp.ImmutableMatrix.ones(1, 4)
    return (ones * ones.T)[0]


def _unscaled() -> Counterexample:
    return Counterexample(
        "d_k = 4, q = k = (1, 1, 1, 1), bias 0: T5's score, stated to be divided by sqrt(d_k)",
        stated=_product() / sp.sqrt(4),
        actual=_product(),
    )


def _far_alike() -> tuple[Step, ...]:
    last = [value(-a, bidirectional=True) for a in (91, 128, 10**4, 10**6)]
    return (
        *always_defined(),
        Step(
            "at the defaults 91, 128, 10^4 and 10^6 before the query read one entry",
            sp.Integer(len(set(last)) - 1),
        ),
    )


def _one_row() -> tuple[Step, ...]:
    steps = []
    for both, name in _WAYS:
        made = t5_bias(bidirectional=both)
        i, _, t, s = _axes(made)
        whole = made.expression.subs({t: s, i: s - 1}, simultaneous=True)
        alone = made.expression.subs({t: 1, i: 0}, simultaneous=True)
        some = made.expression.subs(i, _row)
        among = made.expression.subs({t: s, i: _row + s - t}, simultaneous=True)
        steps += [
            Step(f"{name}: the row of one new query is the last row of all", alone - whole),
            Step(f"{name}: row r of the last t is row r + s - t of all", some - among),
        ]
    return tuple(steps)


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="t5_bias.definition",
        number="",
        statement="The expression that the suite evaluates is the table's entry of the bucket of "
        "the key's position minus the query's, with the last query at the last key.",
        latex=r"b_h(i,j)=\beta_{h,\mathrm{bucket}(j-(i+s-t))}",
        source=Source("004", "3.4 T5", "A bias is looked up by the bucket of a distance."),
        verdict="holds",
        form="symbolic",
        derivation=_definition,
    ),
    Claim(
        id="t5_bias.added_to_unscaled_scores",
        number="C087",
        statement="T5 adds its bias to scores that were divided by sqrt(d_k).",
        latex=r"\mathrm{score}(m,n)=q_m\cdot k_n+b(m,n)",
        source=Source("004", "3.4 T5", "The formula of T5's score divides by sqrt(d_k)."),
        verdict="corrected",
        form="symbolic",
        truth="T5 doesn't divide: its initialization has the factor instead. With sqrt(d_k) W_Q "
        "for W_Q the formula gives T5's scores, with the same weights it doesn't.",
        counterexample=_unscaled,
        derivation=_scale_in_weights,
    ),
    Claim(
        id="t5_bias.of_displacement",
        number="C088",
        statement="The bias depends on query and key only through the bucket of their distance.",
        latex=r"b(m+c,n+c)=b(m,n)=\beta_{\mathrm{bucket}(n-m)}",
        source=Source("004", "3.4 T5", "Distances are put into buckets that share a value."),
        verdict="holds",
        form="symbolic",
        truth="Of the distance with its sign: both directions have buckets of their own, or later "
        "keys share bucket 0. T5's code takes the key's position minus the query's.",
        derivation=_of_distance,
    ),
    Claim(
        id="t5_bias.parameters",
        number="C089",
        statement="There is one learned number for each head and bucket.",
        latex=r"\mathrm{num\_buckets}\cdot h=32h",
        source=Source("004", "3.4 T5", "Learned parameters by head and bucket."),
        verdict="holds",
        form="symbolic",
        truth="32 h at the default. Where both directions count 31 h of them are ever read: no "
        "distance is in bucket 16.",
        derivation=_parameters,
    ),
    Claim(
        id="t5_bias.far_distances_alike",
        number="C092",
        statement="T5's bias generalizes imperfectly far beyond the lengths of training.",
        latex=r"a,a'\ge D\Rightarrow b(a)=b(a')",
        source=Source("004", "3.4 T5", "What the learned bias is still limited by."),
        verdict="empirical",
        form="symbolic",
        truth="All distances from max_distance on have the same bias and can't be told apart by "
        "it. How much that costs is an experiment.",
        derivation=_far_alike,
    ),
    Claim(
        id="t5_bias.decode_row",
        number="",
        statement="The bias of the last queries alone is the last rows of the bias of all.",
        latex=r"b^{(t,s)}_{r,j}=b^{(s,s)}_{r+s-t,j}",
        source=Source("004", "3.4 T5", "A bias is looked up by the bucket of a distance."),
        verdict="holds",
        form="symbolic",
        derivation=_one_row,
    ),
)
