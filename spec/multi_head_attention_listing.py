"""The listing of document 003: multi-head causal attention, and no positions.

Source: document 003 (4). Its linear layers multiply by transposed weights, and its views split and
join the packed axis. That both are blocks of the definition is in `multi_head_attention_blocks`.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.attention_sums import any_function, entry_difference, over_keys, relabelling
from attnspec.spec.claim import Claim, Counterexample, Source, Step
from attnspec.spec.definition import choice
from attnspec.spec.exact_values import entry_value
from attnspec.spec.multi_head_attention import (
    b,
    beyond,
    c,
    column,
    count,
    h,
    i,
    j,
    l,
    o,
    output,
    output_matrix,
    projections,
    size,
    tokens,
    value_size,
    width,
)
from attnspec.spec.multi_head_attention_blocks import concatenation, views
from attnspec.spec.multi_head_attention_definition import (
    MultiHead,
    multi_head_attention,
    projection_parameters,
)
from attnspec.spec.reading import shift
from attnspec.spec.symbols import N

_any_value = sp.Function("v", real=True)
_groups = sp.Symbol("groups", integer=True, positive=True)
_numerator = sp.IndexedBase("E", nonnegative=True)
_SAME_SIZES = {_groups: count, value_size: size}
"""As many key heads as query heads, and values of the size of keys."""
_BEHIND = j - i >= 1
"""Where the listing's upper triangle, from the first diagonal on, has minus infinity."""


def _score() -> sp.Expr:
    """The listing's score of two tokens in head h."""
    query, keyed = (
        projections[f"w_{name}"][b, token, h * size + l] for name, token in (("q", i), ("k", j))
    )
    return sp.Sum(query * keyed, (l, 0, size - 1)) / sp.sqrt(size)


def _listing() -> sp.Expr:
    """The listing's result, by the numerators of softmax."""
    keys = (j, 0, tokens - 1)
    weight = _numerator[h, j] / sp.Sum(_numerator[h, j], keys)
    head = sp.Sum(weight * projections["w_v"][b, j, h * size + c], keys)
    packed = head * output_matrix()[h * size + c, o]
    return sp.Sum(packed, (h, 0, count - 1), (c, 0, size - 1)).xreplace(_SAME_SIZES)


def _by_numerators(call: MultiHead) -> tuple[sp.Expr, sp.Expr]:
    """The definition's result by the numerators of softmax, in a row that sees some key, and the
    numerator itself."""
    whole = output(call).xreplace(_SAME_SIZES)
    some = dict.fromkeys(whole.atoms(sp.StrictGreaterThan), sp.true)
    whole = whole.xreplace(some)
    kind = choice if call.causal else sp.exp
    (numerator,) = (
        node
        for node in whole.atoms(kind)
        if isinstance(node, sp.exp) or isinstance(node.args[0], sp.exp)
    )
    return whole.xreplace({numerator: _numerator[h, j]}), numerator


def _transposed() -> Step:
    """What a linear layer without bias does."""
    x, weight = sp.MatrixSymbol("X", tokens, width), sp.MatrixSymbol("A", column + 1, width)
    index = sp.Symbol("w", integer=True, nonnegative=True)
    rows = sp.Sum(x[i, index] * weight[column, index], (index, 0, width - 1))
    return Step(
        "a linear layer's row is x A^T: with W = A^T it is X W",
        entry_difference((x * weight.T)[i, column].doit(), rows),
    )


def _causal_attention() -> tuple[Step, ...]:
    whole, numerator = _by_numerators(MultiHead(causal=True))
    seen = numerator.args[1]
    after, before = {j: i + 1 + beyond}, {i: j + beyond}
    return (
        _transposed(),
        *views(),
        Step("a key after the query's own is in the triangle", _BEHIND.subs(after) == sp.true),
        Step("and hidden by the definition", seen.subs(after) == sp.false),
        Step("its own and those before are not in it", _BEHIND.subs(before) == sp.false),
        Step("and seen", seen.subs(before) == sp.true),
        Step(
            "where a key is seen both have the numerator exp(q.k / sqrt(d_k) + 0 - M)",
            numerator.xreplace({seen: sp.true}) - sp.exp(_score() + 0 - shift),
        ),
        Step(
            "and where it is hidden 0",
            numerator.xreplace({seen: sp.false}) - sp.exp(_score() + -sp.oo - shift),
        ),
        Step(
            "by the numerators both are the same: averages of values, heads, rows of W_o",
            whole - _listing(),
        ),
        *concatenation(),
    )


def _without_positions(call: MultiHead) -> bool:
    """Whether a result has no position of a token in it, but to say whose entries are read."""
    entries = output(call).replace(
        lambda node: isinstance(node, sp.Indexed), lambda node: sp.Symbol(f"{node.base}")
    )
    summands = entries.replace(
        lambda node: isinstance(node, sp.Sum) and node.limits[0][0] == j, lambda node: node.function
    )
    return not summands.has(i, j)


_TOKENS = [[[1, 1], [1, -1]]]
"""Two tokens of the same query and key, and opposite values."""
_FIRST, _SECOND, _ALL = [[1, 0], [0, 0]], [[0, 0], [0, 1]], [[1, 0], [0, 1]]


def _example(call: MultiHead, tokens_given: list[list[list[int]]], position: int) -> sp.Expr:
    """The second channel at a position, for one head of two channels."""
    sizes = {"batch": 1, "heads": 1, "groups": 1, "n": 2, "width": 2, "d": 2, "e": 2}
    arrays = {"x": tokens_given, "w_q": _FIRST, "w_k": _FIRST, "w_v": _SECOND, "w_o": _ALL}
    given = sizes | {"base": 10000}
    value = entry_value(multi_head_attention(call), given, arrays, (0, position, 1))
    return sp.together(value.subs(sp.sin(1) ** 2, 1 - sp.cos(1) ** 2))


def _no_positions() -> tuple[Step, ...]:
    plain, turning = MultiHead(), MultiHead(layout="interleaved")
    swapped = [_TOKENS[0][::-1]]
    ratio = sp.exp(sp.expand((sp.cos(1) - 1) / sp.sqrt(2)))
    return (
        *_causal_attention(),
        Step(
            "without the mask no position of a token is in what it computes",
            _without_positions(plain),
        ),
        Step("with RoPE positions are", not _without_positions(turning)),
        *relabelling(),
        Step(
            "so a query's sum of exponentials times values is that of shuffled tokens: outputs are "
            "shuffled alike",
            over_keys(sp.exp(any_function(j)) * _any_value(j))
            - sp.Sum(sp.exp(any_function(j)) * _any_value(j), (j, 0, N - 1)),
        ),
        Step(
            "two tokens with the same query and key: without the mask their outputs are swapped "
            "with them",
            _example(plain, _TOKENS, 0) - _example(plain, swapped, 1),
        ),
        Step(
            "with the mask the second weighs both alike, values 1 and -1: 0",
            _example(MultiHead(causal=True), _TOKENS, 1),
        ),
        Step(
            "with RoPE the farther one has r = exp((cos(1) - 1) / sqrt(2)) times the weight of the "
            "nearer: (r - 1) / (r + 1)",
            _example(MultiHead(causal=True, layout="interleaved"), _TOKENS, 1)
            - (ratio - 1) / (ratio + 1),
        ),
    )


def _step_left_out() -> Counterexample:
    return Counterexample(
        "one head of two channels, W_Q = W_K = diag(1, 0), W_V = diag(0, 1), tokens (1, 1) and "
        "(1, -1): second channel of the last output, stated to be that with RoPE",
        stated=_example(MultiHead(causal=True, layout="interleaved"), _TOKENS, 1),
        actual=_example(MultiHead(causal=True), _TOKENS, 1),
    )


def parameters(**sizes: sp.Expr | int) -> sp.Expr:
    """How many weights the projections have, with some sizes given."""
    definition = projection_parameters()
    names = {str(p): p for p in definition.parameters}
    return definition.expression.subs({names[name]: given for name, given in sizes.items()})


def _four_squares() -> tuple[Step, ...]:
    own = parameters(groups=count, e=size)
    return (
        Step(
            "q, k, v and output have D h d_k weights each: with D = h d_k in all 4 D^2, whatever "
            "h is",
            sp.expand(own.subs(width, count * size) - 4 * (count * size) ** 2),
        ),
        Step(
            "so the number of heads doesn't show: h heads of D / h channels",
            sp.simplify(own.subs(size, width / count) - 4 * width**2),
        ),
        Step(
            "h = 1 and h = D, at D = 12",
            sp.Matrix(
                [parameters(groups=n, heads=n, e=12 // n, d=12 // n, width=12) for n in (1, 12)]
            )
            - sp.Matrix([576, 576]),
        ),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="multi_head_attention.listing_is_causal_attention",
        number="B11",
        statement="The listing computes multi-head causal attention.",
        latex=r"Y=\sum_a\mathrm{softmax}\bigl(Q_aK_a^T/\sqrt{d_k}+M\bigr)V_aW_O^{(a)}",
        source=Source("003", "4 Code", "A module that is called causal multi-head attention."),
        verdict="holds",
        form="symbolic",
        truth="For float32 and wider; its mask has a dtype of its own.",
        derivation=_causal_attention,
    ),
    Claim(
        id="multi_head_attention.listing_lacks_positions",
        number="B12",
        statement="The listing carries out the four steps that the document names before it.",
        latex=r"\mathrm{listing}(PX)=P\,\mathrm{listing}(X)\text{ without the mask}",
        source=Source("003", "4 Code", "Code for the mechanism, one step of which is RoPE."),
        verdict="corrected",
        form="symbolic",
        truth="It carries out three: queries and keys are not turned. Positions enter by "
        "the causal mask alone; without it, shuffled tokens give shuffled outputs.",
        counterexample=_step_left_out,
        derivation=_no_positions,
    ),
    Claim(
        id="multi_head_attention.parameters_of_listing",
        number="B13",
        statement="Four maps of D to D without bias: 4 D^2 parameters, for every number of heads "
        "that divides D.",
        latex=r"3D\,hd_k+hd_kD=4D^2,\quad hd_k=D",
        source=Source("003", "4 Code", "Four square linear layers without a bias."),
        verdict="holds",
        form="symbolic",
        derivation=_four_squares,
    ),
)
