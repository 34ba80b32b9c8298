"""RoPE: which channels form a pair, as a matrix, channel by channel and in both layouts.

Sources: document 000 (4), document 003 (2), document 004 (3.5, implementation).
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.claim import Claim, Condition, Counterexample, Source, Step
from attnspec.spec.rotation import block, turned
from attnspec.spec.shapes import shapes_fit
from attnspec.spec.sums import difference, reduced
from attnspec.spec.symbols import c, d, i, m, theta, x

_angle = sp.Symbol("alpha", real=True)


def _picked(channel: sp.Expr) -> sp.Expr:
    """Entry of the identity in column c."""
    return sp.KroneckerDelta(c, channel, (0, d - 1))


def _rows(vector: sp.IndexedBase, position: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """Rows 2i and 2i+1 of the d x d block-diagonal matrix times a vector: a sum over all columns,
    of which two are not zero."""
    cosine, sine = sp.cos(position * theta[i]), sp.sin(position * theta[i])
    first = cosine * _picked(2 * i) - sine * _picked(2 * i + 1)
    second = sine * _picked(2 * i) + cosine * _picked(2 * i + 1)

    def product(row: sp.Expr) -> sp.Expr:
        terms = sp.Add.make_args(sp.expand(row * vector[c]))
        return sp.Add(*(sp.Sum(term, (c, 0, d - 1)).doit() for term in terms))

    return product(first), product(second)


def _block_diagonal() -> tuple[Step, ...]:
    first, second = _rows(x, m)
    return (
        Step(
            "row 2i of the d x d matrix gives channel 2i, for every pair of symbolic d",
            sp.expand(first - turned(x, m)[0]),
        ),
        Step("and row 2i+1 channel 2i+1", sp.expand(second - turned(x, m)[1])),
    )


def _only_first_block() -> tuple[Step, ...]:
    blocks = sp.diag(block(m * theta[0]), block(m * theta[1]))
    third = sp.ImmutableMatrix([0, 0, 1, 0])
    shown = sp.diag(block(m * theta[0]), sp.zeros(2, 2))
    return (
        *_block_diagonal(),
        Step(
            "for d = 2 the one block is all",
            (
                block(m * theta[0]) * sp.ImmutableMatrix([x[0], x[1]])
                - sp.ImmutableMatrix([part.subs(i, 0) for part in turned(x, m)])
            ).applyfunc(sp.expand),
        ),
        Step(
            "d = 4, x = e_3: the shown block has only zeros to turn",
            sp.ImmutableMatrix(shown * third),
        ),
        Step(
            "but the vector keeps its norm",
            sp.simplify((blocks * third).dot(blocks * third) - 1),
        ),
    )


def _third_channel() -> Counterexample:
    third = sp.ImmutableMatrix([0, 0, 1, 0])
    shown = sp.diag(block(sp.S.One), sp.zeros(2, 2)) * third
    actual = sp.diag(block(sp.S.One), block(sp.Rational(1, 100))) * third
    return Counterexample(
        "d = 4, m = 1, x = (0, 0, 1, 0): squared norm of R x, where the block that is shown acts "
        "on the first two channels",
        stated=shown.dot(shown),
        actual=sp.simplify(actual.dot(actual)),
    )


def _listing() -> tuple[Step, ...]:
    odd = 2 * sp.Symbol("p", integer=True, nonnegative=True) + 1
    at_zero = turned(x, sp.S.Zero)
    first, second = turned(x, m)
    pairs = (i, 0, d / 2 - 1)
    return (
        *_block_diagonal(),
        Step("position 0 leaves the first channel of each pair", at_zero[0] - x[2 * i]),
        Step("and the second", at_zero[1] - x[2 * i + 1]),
        Step(
            "norms are kept",
            difference(
                sp.Sum(first**2 + second**2, pairs),
                sp.Sum(x[2 * i] ** 2 + x[2 * i + 1] ** 2, pairs),
            ),
        ),
        Step("an even dim has 2 (dim // 2) = dim entries a row", 2 * sp.floor(d / 2) - d),
        Step("an odd one has one entry too many", 2 * sp.floor(odd / 2) - odd + 1),
    )


def _odd_size() -> Counterexample:
    size = sp.Integer(7)
    return Counterexample(
        "dim = 7: entries a row after splitting into dim // 2 pairs, stated to be dim",
        stated=size,
        actual=2 * sp.floor(size / 2),
    )


def _silent_listing() -> tuple[Step, ...]:
    unit = sp.ImmutableMatrix([1, 0])
    wrong = block(-_angle) * unit
    return (
        Step(
            "with every angle's sign wrong the shape is the same, and nothing else is printed",
            sp.Integer(wrong.rows - (block(_angle) * unit).rows),
        ),
        Step("so is the norm", sp.simplify(wrong.dot(wrong) - 1)),
        Step(
            "but the second channel is off by 2 sin(alpha)",
            (block(_angle) * unit - wrong)[1] - 2 * sp.sin(_angle),
        ),
    )


def _layouts() -> tuple[Step, ...]:
    half = d / 2
    size = sp.Symbol("d", integer=True, positive=True)
    y = sp.IndexedBase("y", real=True)
    cosine, sine = sp.cos(m * theta[i]), sp.sin(m * theta[i])
    in_halves = (x[i] * cosine - x[i + half] * sine, x[i] * sine + x[i + half] * cosine)
    gathered = tuple(
        part.subs({y[2 * i]: x[i], y[2 * i + 1]: x[i + half]}) for part in turned(y, m)
    )
    permutation = sp.MatrixSymbol("P", size, size)
    query, key = (sp.MatrixSymbol(name, size, 1) for name in ("q", "k"))
    permuted = ((permutation * query).T * (permutation * key)).doit()
    kept = permuted.subs(permutation.T * permutation, sp.Identity(size)).doit()
    one, hundredth = sp.S.One, sp.Rational(1, 100)
    halves = sp.ImmutableMatrix([0, sp.cos(hundredth), 0, sp.sin(hundredth)])
    pairs = sp.ImmutableMatrix([-sp.sin(one), sp.cos(one), 0, 0])
    return (
        *_block_diagonal(),
        Step(
            "the half-split layout is the same map after y[2i] = x[i], y[2i+1] = x[i + d/2]: "
            "first channel",
            in_halves[0] - gathered[0],
        ),
        Step("and second channel of each pair", in_halves[1] - gathered[1]),
        Step("shapes fit", shapes_fit(query.T, permutation.T, permutation, key)),
        Step(
            "P^T P = I: the same permutation on queries and keys keeps every score",
            (kept - query.T * key).doit(),
        ),
        Step(
            "with half-split queries and interleaved keys it isn't kept: q = k = e_2 of d = 4 at "
            "the same position 1 scores cos(1/100) cos(1)",
            halves.dot(pairs) - sp.cos(hundredth) * sp.cos(one),
        ),
        Step("where it should score 1", sp.Lt(halves.dot(pairs), 1)),
    )


def operations() -> tuple[Step, ...]:
    """The steps of `rope.no_matrix_needed`."""
    pairs = (i, 0, d / 2 - 1)
    cosine, sine = sp.symbols("c s", real=True)
    read = {sp.cos(m * theta[i]): cosine, sp.sin(m * theta[i]): sine}
    pair = [channel.subs(read) for channel in turned(x, m)]
    products = sum(len(term.args) - 1 for each in pair for term in each.args if term.is_Mul)
    products -= sum(int(term.could_extract_minus_sign()) for each in pair for term in each.args)
    sums = sum(len(each.args) - 1 for each in pair)
    return (
        Step("4 multiplications a pair: 2d", sp.Sum(sp.Integer(products), pairs).doit() - 2 * d),
        Step("2 additions a pair: d", sp.Sum(sp.Integer(sums), pairs).doit() - d),
        Step(
            "the dense matrix takes d^2 multiplications",
            sp.Sum(sp.S.One, (c, 0, d - 1), (m, 0, d - 1)).doit() - d**2,
        ),
        Step(
            "which is more for every even d above 2",
            sp.expand((d**2 - 2 * d).subs(d, 2 * sp.Symbol("p", positive=True) + 2)).is_positive,
        ),
        Step("and for d = 2 as many", (d**2 - 2 * d).subs(d, 2)),
        Step("the pairwise form is the matrix's product", _block_diagonal()[0].residual),
        Step("in both channels", reduced(_block_diagonal()[1].residual)),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="rope.listing_is_block_diagonal",
        number="A23",
        statement="The listing's function is the block-diagonal rotation and keeps the shape.",
        latex=r"(R_mx)_{2i}=x_{2i}\cos m\theta_i-x_{2i+1}\sin m\theta_i",
        source=Source("000", "4 Code", "A function that rotates an array of any dimension."),
        verdict="holds-if",
        form="symbolic",
        conditions=(Condition("D1", "dim is even; else reshaping raises an error"),),
        counterexample=_odd_size,
        derivation=_listing,
    ),
    Claim(
        id="rope.listing_checks_nothing",
        number="A24",
        statement="The listing's message that the rotation succeeded shows that it did.",
        latex=r"R(-\alpha)\ne R(\alpha)",
        source=Source("000", "4 Code", "After printing a shape it prints that all went well."),
        verdict="empirical",
        form="fixed",
        truth="It asserts nothing: a wrong sign prints the same. The laws of displacement, norm "
        "and basis planes decide.",
        derivation=_silent_listing,
    ),
    Claim(
        id="rope.blocks_of_all_pairs",
        number="B05",
        statement="The d-dimensional rotation is one 2 x 2 block on the first two channels.",
        latex=r"R^d_{\Theta,m}=\mathrm{diag}(R(m\theta_1),\dots,R(m\theta_{d/2}))",
        source=Source(
            "003", "2 Formulations", "The d-dimensional rotation equals the block with theta_1."
        ),
        verdict="corrected",
        form="symbolic",
        truth="That is the case d = 2. In general there are d/2 blocks on the diagonal, block i "
        "with theta_i.",
        counterexample=_third_channel,
        derivation=_only_first_block,
    ),
    Claim(
        id="rope.components",
        number="C111",
        statement="Channel by channel, consecutive pairs turn as the block-diagonal matrix says.",
        latex=r"(x_{2i}\cos m\theta_i-x_{2i+1}\sin m\theta_i,\ x_{2i}\sin m\theta_i+x_{2i+1}"
        r"\cos m\theta_i)",
        source=Source("004", "3.5 Implementation", "A vector of the turned channels, pairwise."),
        verdict="holds",
        form="symbolic",
        truth="This is the interleaved layout. The half-split one is a fixed permutation of it, "
        "and scores agree only where queries and keys use the same.",
        derivation=_layouts,
    ),
    Claim(
        id="rope.no_matrix_needed",
        number="C112",
        statement="Multiplications and additions do it, without building a matrix.",
        latex=r"2d\ \text{multiplications},\ d\ \text{additions},\ d^2\text{ for the matrix}",
        source=Source("004", "3.5 Implementation", "Element-wise arithmetic replaces the matrix."),
        verdict="holds",
        form="symbolic",
        derivation=operations,
    ),
)
