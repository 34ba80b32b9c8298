"""Multi-head attention: how many parameters heads have, and what keeps them apart.

Source: document 004 (3.1, MHA).
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.claim import Claim, Condition, Counterexample, Source, Step
from attnspec.spec.multi_head_attention import (
    b,
    count,
    h,
    i,
    output,
    projections,
    size,
    value_size,
    w,
    width,
)
from attnspec.spec.multi_head_attention_definition import MultiHead
from attnspec.spec.multi_head_attention_listing import parameters
from attnspec.spec.symbols import j

_head, _loss = sp.Function("f"), sp.Function("F")
_w1, _w2, _o1, _o2, _rate = sp.symbols("w_1 w_2 o_1 o_2 eta", real=True)
_SAME = {_w2: _w1, _o2: _o1}
_DOCUMENT = {"width": 512, "heads": 8, "groups": 8, "d": 64, "e": 64}


def _equal_heads() -> tuple[Step, ...]:
    """Two heads of the same weights, w_1 = w_2 and o_1 = o_2, in any loss F of their sum."""
    total = _loss(_head(_w1) * _o1 + _head(_w2) * _o2)

    def slope(parameter: sp.Symbol) -> sp.Expr:
        return total.diff(parameter).doit().subs(_SAME).doit()

    return (
        *_read_apart(),
        Step(
            "two heads that have the same weights have the same gradient of their projections",
            slope(_w1) - slope(_w2),
        ),
        Step("and of their rows of W_O", slope(_o1) - slope(_o2)),
        Step(
            "so a step of gradient descent leaves them equal, at any rate",
            sp.expand((_w1 - _rate * slope(_w1)) - (_w2.subs(_SAME) - _rate * slope(_w2))),
        ),
    )


def _read_apart() -> tuple[Step, ...]:
    """That a head is one function of its own columns and rows, the same for all heads."""
    groups = sp.Symbol("groups", integer=True, positive=True)
    whole = output(MultiHead()).subs(groups, count)
    found = whole.atoms(sp.Indexed)
    summand = whole.function.replace(
        lambda node: isinstance(node, sp.Indexed), lambda node: sp.Symbol(f"{node.base}_own")
    )
    return (
        Step(
            "channels are counted from the head's first column, or row of W_O",
            not any(_channel(node).has(h) for node in found),
        ),
        Step("by its own columns and rows every head is the same function", not summand.has(h)),
    )


def _channel(node: sp.Indexed) -> sp.Expr:
    """The place on the packed axis that is read, less that at which the head begins."""
    packed = {
        "Xw_q": (2, size),
        "Xw_k": (2, size),
        "Xw_v": (2, value_size),
        "w_o": (0, value_size),
    }
    axis, channels = packed[str(node.base)]
    return sp.expand(node.indices[axis] - h * channels)


def _sizes() -> tuple[Step, ...]:
    wide, count_of_heads = sp.Integer(_DOCUMENT["width"]), sp.Integer(_DOCUMENT["heads"])
    return (
        Step("512 / 8 = 64", wide / count_of_heads - 64),
        Step(
            "heads of that size have as many parameters as one of size 512 with its W_O: 4 512^2",
            parameters(**_DOCUMENT) - parameters(width=512, heads=1, groups=1, d=512, e=512),
        ),
        Step("which are 1048576", parameters(**_DOCUMENT) - 1048576),
    )


def _without_output(**sizes: sp.Expr | int) -> sp.Expr:
    """Parameters of the projections of q, k and v alone."""
    return parameters(**sizes) - sizes["heads"] * sizes["e"] * sizes["width"]


def _single_head() -> tuple[Step, ...]:
    single = {"heads": sp.S.One, "groups": sp.S.One, "d": width, "e": width, "width": width}
    own = parameters(groups=count)
    equal = own.subs(value_size, size)
    return (
        Step(
            "h heads have 2 h d (d_k + d_v) parameters",
            sp.expand(own - 2 * count * width * (size + value_size)),
        ),
        Step("a single wide head with W_O has 4 d^2", parameters(**single) - 4 * width**2),
        Step(
            "as many, where h d_k = h d_v = d",
            sp.simplify(equal.subs(size, width / count) - parameters(**single)),
        ),
        Step(
            "and with d_k = d_v only there: the difference is 4 d (h d_k - d)",
            sp.expand(equal - parameters(**single) - 4 * width * (count * size - width)),
        ),
        Step(
            "a single head without W_O has 3 d^2, so that h heads have 4/3 as many",
            sp.simplify(
                equal.subs(size, width / count) / _without_output(**single) - sp.Rational(4, 3)
            ),
        ),
        Step("d = 512, h = 8, d_k = 64: 1048576", parameters(**_DOCUMENT) - 1048576),
    )


def _no_output_matrix() -> Counterexample:
    single = {"heads": 1, "groups": 1, "d": 512, "e": 512, "width": 512}
    return Counterexample(
        "d = 512, h = 8, d_k = d_v = 64: parameters, stated to be those of a single head of size "
        "512 that has no W_O",
        stated=sp.Integer(_without_output(**single)),
        actual=parameters(**_DOCUMENT),
    )


def _shared_tokens() -> tuple[Step, ...]:
    first, second = (sp.IndexedBase(name, real=True) for name in ("a", "b"))
    hit = sp.KroneckerDelta(w, j, (0, width - 1))
    mixed = sp.Sum(first[w] * second[j] * hit, (j, 0, width - 1), (w, 0, width - 1)).doit()
    read = {
        (str(node.base), *node.indices[:2])
        for node in output(MultiHead()).atoms(sp.Indexed)
        if node.base in projections.values()
    }
    return (
        *_read_apart(),
        Step(
            "all heads read the same tokens: only columns depend on the head",
            read == {("Xw_q", b, i), ("Xw_k", b, j), ("Xw_v", b, j)},
        ),
        Step(
            "tokens of independent entries of mean 0 and variance 1, columns a and b of two heads: "
            "E (x.a)(x.b) = sum of a_w b_j delta_wj = a.b",
            mixed - sp.Sum(first[w] * second[w], (w, 0, width - 1)),
        ),
        Step(
            "for equal columns that is the variance: heads can be the same",
            mixed.subs(second, first) - sp.Sum(first[w] ** 2, (w, 0, width - 1)),
        ),
        Step(
            "whose terms are no less than 0, so that it is 0 for a = 0 alone",
            (first[w] ** 2).is_nonnegative,
        ),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="multi_head_attention.equal_heads_stay_equal",
        number="C025",
        statement="One attention learns one kind of relationship, and each head another.",
        latex=r"\theta_1=\theta_2\Rightarrow\partial\mathcal L/\partial\theta_1"
        r"=\partial\mathcal L/\partial\theta_2",
        source=Source("004", "3.1 MHA", "Heads may specialize, each on a kind of relationship."),
        verdict="empirical",
        form="block",
        truth="What training makes of heads is no matter of mathematics. Nothing but their "
        "weights tells heads apart: equal ones have equal gradients and stay equal.",
        derivation=_equal_heads,
    ),
    Claim(
        id="multi_head_attention.head_size_of_512_in_8",
        number="C026",
        statement="A width of 512 in 8 heads gives 64 channels a head.",
        latex=r"512/8=64",
        source=Source("004", "3.1 MHA", "Gives d = 512, h = 8 and d_k = d_v = 64 as usual."),
        verdict="holds",
        form="exact",
        derivation=_sizes,
    ),
    Claim(
        id="multi_head_attention.parameters_eq_single_head",
        number="C027",
        statement="Heads together have as many parameters as a single wide head.",
        latex=r"2hd(d_k+d_v)=4d^2\iff hd_k=d\quad(d_k=d_v)",
        source=Source("004", "3.1 MHA", "The number of parameters stays similar to one head's."),
        verdict="holds-if",
        form="symbolic",
        conditions=(
            Condition("D1", "h d_k = h d_v = d"),
            Condition("D2", "the single head, of d_k = d_v = d, has an output matrix too"),
        ),
        truth="Then the numbers are equal, 4 d^2; without the single head's W_O they are 4 to 3.",
        counterexample=_no_output_matrix,
        derivation=_single_head,
    ),
    Claim(
        id="multi_head_attention.heads_share_tokens",
        number="C028",
        statement="Eight heads are eight independent perspectives.",
        latex=r"\mathrm E\,(x\cdot a)(x\cdot b)=a\cdot b",
        source=Source("004", "3.1 MHA", "Speaks of 8 independent views in place of one."),
        verdict="empirical",
        form="symbolic",
        truth="Heads have weights of their own and read the same tokens. In a model of random "
        "tokens two columns are uncorrelated only if they are orthogonal, and equal heads agree.",
        derivation=_shared_tokens,
    ),
)
