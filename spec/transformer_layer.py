"""A Llama-style layer: its chain of steps, and where position enters.

Source: document 004 (3.9).
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.claim import Claim, Condition, Counterexample, Source, Step
from attnspec.spec.definition import Definition, choice, unmarked
from attnspec.spec.norm_forms import d, row_of
from attnspec.spec.norm_forms import weight as norm_weight
from attnspec.spec.rms_norm_definition import rms_norm
from attnspec.spec.rope import relative
from attnspec.spec.rotation import block
from attnspec.spec.sums import reduced
from attnspec.spec.symbols import c, j, n, s
from attnspec.spec.symbols import x as row_entry
from attnspec.spec.transformer_layer_definition import LayerOptions, silu, transformer_layer

_angle = sp.Symbol("theta", real=True)
_position = sp.Symbol("m", integer=True, nonnegative=True)


def _stages() -> dict[str, Definition]:
    return {stage.result: stage.definition for stage in transformer_layer(LayerOptions())}


def silu_forms() -> tuple[Step, ...]:
    """That each way to the sigmoid is 1 / (1 + exp(-x))."""
    x = sp.Symbol("x", real=True)
    by_exponential, by_tangent = (unmarked(form) for form in silu(x).args[0].args)
    return (
        Step(
            "the form that is evaluated is x / (1 + exp(-x))",
            by_exponential - x / (1 + sp.exp(-x)),
        ),
        Step(
            "x (1 + tanh(x / 2)) / 2 is the same",
            sp.simplify(by_tangent.rewrite(sp.exp) - by_exponential),
        ),
        Step(
            "as exp(-x) grows beyond all bounds, the value vanishes",
            sp.limit(by_exponential, x, -sp.oo),
        ),
    )


def definition() -> tuple[Step, ...]:
    """That the stages are the chain: norm, attention, sum, norm, feed-forward network, sum."""
    stages = _stages()
    first, last = stages["normed"], stages["y"]
    (b, _), (i, _), (w, width) = last.axes
    x, attended, gain, w_gate, w_up, w_down = last.arrays
    f = sp.Symbol("f", integer=True, nonnegative=True)
    hidden = w_gate.shape[1]

    norm = row_of(rms_norm()).xreplace({c: w, d: width})

    def normed(row: sp.Expr, weight: sp.IndexedBase) -> sp.Expr:
        return norm.xreplace({norm_weight[w]: weight[w], row_entry[w]: row})

    entry = x[b, i, w]
    middle = entry + attended[b, i, w]
    gate, up = (
        sp.Sum(normed(middle, gain) * weight[w, f], (w, 0, width - 1)) for weight in (w_gate, w_up)
    )
    network = sp.Sum(unmarked(silu(gate)) * up * w_down[f, w], (f, 0, hidden - 1))
    return (
        *silu_forms(),
        Step(
            "attention is given RMSNorm of the stream",
            unmarked(first.expression) - normed(entry, first.arrays[1]),
        ),
        Step(
            "the result is h + (silu(n w_gate) * (n w_up)) w_down, with h the stream plus "
            "attention's output and n RMSNorm of h",
            unmarked(last.expression) - middle - network,
        ),
    )


def _array(definition: Definition, name: str) -> sp.IndexedBase:
    return next(array for array in definition.arrays if str(array.label) == name)


def _attended(*, zero: str) -> sp.Expr:
    """Attention's output, without marks, where one array is zero. With w_q for it every score is
    zero, and nothing is left of what only enters into scores."""
    attention = _stages()["attended"]
    gone = _array(attention, zero)

    def vanishes(node: sp.Basic) -> bool:
        if isinstance(node, choice):
            return bool(node.args[0] == node.args[2])
        return isinstance(node, sp.Sum) and bool(node.function == 0)

    entries = [node for node in attention.expression.atoms(sp.Indexed) if node.base == gone]
    plain = unmarked(attention.expression.xreplace(dict.fromkeys(entries, sp.S.Zero)))
    return plain.replace(
        vanishes, lambda node: node.args[0] if isinstance(node, choice) else sp.S.Zero
    )


def _chain() -> tuple[Step, ...]:
    attention = _stages()["attended"]
    still = _attended(zero="w_q")
    turned = (sp.cos, sp.sin)
    moved = block((n + s) * _angle) - block(s * _angle) * block(n * _angle)
    half_turn = block(sp.pi) * sp.ImmutableMatrix([1, 0])
    return (
        *definition(),
        *relative(),
        Step(
            "rotations enter into attention's output",
            sp.Integer(bool(attention.expression.atoms(*turned))) - 1,
        ),
        Step(
            "but through the scores alone: with zero queries none is left, so no value is turned",
            sp.Integer(len(still.atoms(*turned))),
        ),
        Step(
            "unturned values: weights are functions of displacements, so a common shift of all "
            "positions changes no output; turned values at shifted positions are R_(n+s) v = "
            "R_s R_n v",
            moved.applyfunc(reduced),
        ),
        Step(
            "so the weighted sum o becomes R_s o: after half a turn, o = (1, 0) is (-1, 0)",
            half_turn - sp.ImmutableMatrix([-1, 0]),
        ),
    )


def _uses_of_place(definition: Definition) -> sp.Expr:
    """1 if the index of the token is used other than as that of an array's row, else 0."""
    (_, _), (i, _), *_ = definition.axes
    row = sp.Symbol("row", real=True)
    plain = unmarked(definition.expression).replace(
        lambda node: isinstance(node, sp.Indexed), lambda _: row
    )
    return sp.Integer(len({i} & plain.free_symbols))


def _share(position: sp.Expr) -> sp.Expr:
    """The weight of the first token, with zero queries: one of position + 1 visible keys."""
    return 1 / sp.Sum(sp.exp(sp.S.Zero), (j, 0, position)).doit()


def _first_weight(place: int, length: int = 3) -> sp.Expr:
    """What attention's definition weighs the first token with at a place, with zero queries."""
    attention = _stages()["attended"]
    whole = _attended(zero="w_q")
    (over_keys,) = {
        node
        for node in whole.atoms(sp.Sum)
        if [str(limit[0]) for limit in node.limits] == ["j"] and node.has(_array(attention, "w_v"))
    }
    own, size = over_keys.limits[0][0], over_keys.limits[0][2] + 1
    weight = sp.Mul(
        *(factor for factor in over_keys.function.args if not factor.has(_array(attention, "w_v")))
    )
    row = attention.axes[1][0]
    return weight.subs({size: length}).subs({row: place}).subs({own: 0}).doit()


def _position_enters() -> tuple[Step, ...]:
    stages = _stages()
    return (
        Step(
            "before attention a token's place enters nowhere: norms see its row alone",
            _uses_of_place(stages["normed"]),
        ),
        Step("nor after attention", _uses_of_place(stages["y"])),
        Step(
            "in attention it does: by angles, by the mask", _uses_of_place(stages["attended"]) - 1
        ),
        Step(
            "there, with zero queries, the first of m + 1 visible tokens weighs 1/(m + 1)",
            sp.simplify(_share(_position) - 1 / (_position + 1)),
        ),
        Step(
            "as in the definition at the places 0, 1 and 2 of three",
            sp.Matrix([_first_weight(place) - _share(sp.Integer(place)) for place in range(3)]),
        ),
        Step(
            "no two places share that: what attention adds to equal embeddings tells their places",
            sp.simplify(_share(_position) - _share(_position + 1)).is_positive,
        ),
    )


def _equal_words() -> Counterexample:
    return Counterexample(
        "three tokens with zero queries, the last two with equal embeddings, value 1 of the first "
        "token and 0 of the others: what attention adds to the stream of the third token, stated "
        "to be what it adds to the second, as their meaning is the same",
        stated=_first_weight(1),
        actual=_first_weight(2),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="transformer_layer.definition",
        number="",
        statement="The stages that the suite evaluates are a pre-norm attention block and a "
        "pre-norm feed-forward block with a gate.",
        latex=r"h=x+\mathrm{Attn}(\mathrm{RMS}(x)),\quad "
        r"y=h+\bigl(\mathrm{silu}(nW_g)\odot nW_u\bigr)W_d,\ n=\mathrm{RMS}(h)",
        source=Source("004", "3.9 Synthesis", "Six steps, of which the network is left open."),
        verdict="holds",
        form="symbolic",
        derivation=definition,
    ),
    Claim(
        id="transformer_layer.silu_forms",
        number="",
        statement="The gate's function by an exponential and by a hyperbolic tangent is the same.",
        latex=r"\frac x{1+e^{-x}}=\tfrac x2\bigl(1+\tanh\tfrac x2\bigr)",
        source=Source("004", "3.9 Synthesis", "A feed-forward network, unwritten."),
        verdict="holds",
        form="symbolic",
        derivation=silu_forms,
    ),
    Claim(
        id="transformer_layer.chain",
        number="C179",
        statement="A layer is RMSNorm, attention with rotated queries and keys, a sum, RMSNorm, a "
        "feed-forward network, a sum. Values are not rotated.",
        latex=r"\sum_jp_{ij}v_j\ \text{is free of a common shift},\quad"
        r"\sum_jp_{ij}R_{j+s}v_j=R_s\sum_jp_{ij}R_jv_j",
        source=Source(
            "004", "3.9 Synthesis", "Six steps in order, the rotation on queries and keys."
        ),
        verdict="holds",
        form="symbolic",
        derivation=_chain,
    ),
    Claim(
        id="transformer_layer.position_enters_in_attention",
        number="C181",
        statement="Position enters inside attention; the embedding is about meaning alone.",
        latex=r"\partial/\partial\,\text{place}=0\text{ outside of attention},\quad "
        r"p_{m0}=\tfrac1{m+1}",
        source=Source(
            "004", "3.9 Synthesis", "The word embedding carries no position; attention adds it."
        ),
        verdict="holds-if",
        form="symbolic",
        conditions=(Condition("D1", "the embedding that enters the first layer is meant"),),
        truth="From the first attention on the stream knows positions: even without any rotation "
        "the causal mask counts the tokens that are seen.",
        counterexample=_equal_words,
        derivation=_position_enters,
    ),
)
