"""Multi-head latent attention as the suite evaluates it: that its expressions are the documents'
formulas.

Sources: document 000 (2), document 004 (3.1 on latents, 3.6 on the position stream). That both
orders of products give the same numbers is in `mla_orders`.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec import mla_definition
from attnspec.spec.claim import Claim, Source, Step
from attnspec.spec.definition import choice, unmarked
from attnspec.spec.mla_definition import SCALE, Tokens
from attnspec.spec.mla_scores import Options, Stream, attended, logits
from attnspec.spec.normal import normal
from attnspec.spec.reading import any_shift, named, shift
from attnspec.spec.rope_definition import DIRECTIONS, LAYOUTS, frequency
from attnspec.spec.rope_layouts import places
from attnspec.spec.rotation import block
from attnspec.spec.shapes import shapes_fit

PLAIN = Options(scaling="scores")
"""The scale on the product, as documents write it."""

_logit, _value, _entry = (sp.IndexedBase(name, real=True) for name in ("z", "v", "y"))
_numerator = sp.IndexedBase("E", nonnegative=True)
_after = sp.Symbol("s", integer=True, nonnegative=True)


def tokens() -> Tokens:
    """What prefill forms attention from."""
    return mla_definition.prefill(PLAIN)


def content() -> sp.Expr:
    """The content's product of query i and key j in head h, with the key built."""
    read = tokens()
    query = mla_definition.content_query(read.query_latent)
    key = mla_definition.content_key(read.latent)
    at = named(query)
    return unmarked(sp.Sum(query * key, (at["l"], 0, at["d"] - 1)))


def _matrix_entry(factors: tuple[str, ...], row: sp.Symbol, column: sp.Expr) -> sp.Expr:
    """The entry of a product of the token's rows x with arrays of the definition, by name."""
    arrays = {str(a.label): a for a in mla_definition.mla(PLAIN).arrays}
    _, length, width = arrays["x"].shape
    x = sp.MatrixSymbol("x", length, width)
    matrices = [sp.MatrixSymbol(name, *arrays[name].shape) for name in factors]
    if not shapes_fit(x, *matrices):
        raise ValueError(f"no product: {factors}")

    def indexed(node: sp.Expr) -> sp.Expr:
        name, *place = node.args
        lead = (named(content())["b"],) if name == x else ()
        return arrays[name.name][*lead, *place]

    entry = sp.MatMul(x, *matrices)[row, column]
    return entry.replace(
        lambda node: isinstance(node, sp.matrices.expressions.matexpr.MatrixElement), indexed
    )


def _at_rest(rotated: sp.Expr) -> sp.Expr:
    """A rotated channel at an angle of zero."""
    plain = unmarked(rotated)
    return plain.replace(sp.cos, lambda _: sp.S.One).replace(sp.sin, lambda _: sp.S.Zero)


def projections() -> tuple[Step, ...]:
    """The definitions' projections, entry by entry: latents, queries, keys, values."""
    read = tokens()
    asking = unmarked(read.query_latent)
    queries = unmarked(mla_definition.content_query(read.query_latent))
    keys = unmarked(mla_definition.content_key(read.latent))
    values = unmarked(mla_definition.head_value(read.latent))
    asked = _at_rest(mla_definition.rotary_query(read.query_latent, sp.S.Zero, PLAIN))
    keyed = _at_rest(mla_definition.rotary_key(PLAIN))
    at = {**named(content()), **named(values), **named(asked)}
    channel = at["h"] * at["d"] + at["l"]
    products: tuple[tuple[str, sp.Expr, tuple[str, ...], str, sp.Expr], ...] = (
        ("the query latent is x W_dq", asking, ("w_dq",), "i", at["g"]),
        ("the latent is x W_dkv", unmarked(read.latent), ("w_dkv",), "j", at["f"]),
        ("channel l of query h is column h d + l of x W_dq W_uq", queries, ("w_dq", "w_uq"), "i",
         channel),
        ("channel l of key h is column h d + l of x W_dkv W_uk", keys, ("w_dkv", "w_uk"), "j",
         channel),
        ("channel c of value h is column h e + c of x W_dkv W_uv", values, ("w_dkv", "w_uv"), "j",
         at["h"] * at["e"] + at["c"]),
        ("channel u of rotary query h, before it turns, is column h p + u of x W_dq W_qr", asked,
         ("w_dq", "w_qr"), "i", at["h"] * at["rotary"] + at["u"]),
        ("channel u of the rotary key is column u of x W_kr", keyed, ("w_kr",), "j", at["u"]),
    )  # fmt: skip
    return tuple(
        Step(says, normal(made - _matrix_entry(factors, at[row], column), {}))
        for says, made, factors, row, column in products
    )


def _rotations() -> tuple[Step, ...]:
    position = named(content())["i"]
    steps = []
    for layout in LAYOUTS:
        first, second, width = places(layout, _after, named(_turned(Options()))["rotary"])
        for direction in DIRECTIONS:
            turned = _turned(Options(layout, direction))
            at = named(turned)
            sign = 1 if direction == "forward" else -1
            angle = sign * position * frequency(_after, width, at["base"])
            wanted = block(angle) * sp.ImmutableMatrix([_entry[first], _entry[second]])
            made = [turned.subs(at["rotary"], width).subs(at["u"], c) for c in (first, second)]
            steps.append(
                Step(
                    f"{layout}, {direction}: pair s of the position stream turns by its position "
                    "times base^(-2s/p)",
                    sp.ImmutableMatrix(
                        [sp.simplify(m - w) for m, w in zip(made, wanted, strict=True)]
                    ),
                )
            )
    return tuple(steps)


def _turned(options: Options) -> sp.Expr:
    """Channel u of a rotated vector y at position i."""
    position = named(content())["i"]
    return unmarked(mla_definition.rotated(lambda channel: _entry[channel], position, options))


def two_streams(scaling: str = "scores") -> tuple[sp.Expr, sp.Expr]:
    """The logits of queries q, r and keys k, s in the streams, and (q.k + r.s) / sqrt(d + p)."""
    at = {**named(content()), **named(_turned(Options()))}
    q, k, r, s = (sp.IndexedBase(name, real=True) for name in ("q", "k", "r", "s"))
    first = Stream(q[at["l"]], k[at["l"]], at["l"], at["d"])
    second = Stream(r[at["u"]], s[at["u"]], at["u"], at["rotary"])
    made = unmarked(logits(first, second, SCALE, Options(scaling=scaling)))
    products = [
        sp.Sum(stream.query * stream.key, (stream.channel, 0, stream.size - 1))
        for stream in (first, second)
    ]
    return made, sp.Add(*products) / sp.sqrt(at["d"] + at["rotary"])


def _softmax() -> tuple[Step, ...]:
    at = named(mla_definition.mla(PLAIN).expression)
    i, j, keys = at["i"], at["j"], (at["j"], 0, at["length"] - 1)
    logit, value = _logit[j], _value[j, at["c"]]
    seen = sp.Le(j, i)
    row = any_shift(attended(logit, value, at["c"], at["length"], PLAIN))
    every = any_shift(attended(logit, value, at["c"], at["length"], Options(causal=False)))
    numerator = choice(sp.exp(choice(logit - shift, seen, sp.S.Zero)), seen, sp.S.Zero)
    total = sp.Sum(_numerator[j], keys)
    weighed = sp.Sum(_numerator[j] / total * value, keys)
    return (
        Step(
            "a head's output is the sum of E_j v_j over the sum of E_j",
            row.xreplace({numerator: _numerator[j]}) - weighed,
        ),
        Step(
            "where E_j is exp(z_j - M) for a key at or before the query",
            numerator.subs(j, i - _after) - sp.exp(_logit[i - _after] - shift),
        ),
        Step("and 0 for a later one", numerator.subs(j, i + 1 + _after)),
        Step("the first key is seen by every query, so there is a sum", seen.subs(j, 0)),
        Step(
            "and without causality E_j is exp(z_j - M) for every key",
            every.xreplace({sp.exp(logit - shift): _numerator[j]}) - weighed,
        ),
    )


def _definition() -> tuple[Step, ...]:
    read, key = tokens(), named(mla_definition.rotary_key(PLAIN))
    scores = [(scaling, *two_streams(scaling)) for scaling in ("scores", "query", "key", "both")]
    return (
        *projections(),
        *_rotations(),
        Step("the rotary key has no head: all share it", "h" not in key and "j" in key),
        Step("that of a query has", "h" in named(read.position.query)),
        *(
            Step(
                f"with the scale on {scaling}: (q.k + q^R.k^R) / sqrt(d + p)",
                normal(sp.powsimp(sp.expand(made - wanted)), {}),
            )
            for scaling, made, wanted in scores
        ),
        *_softmax(),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="mla.definition",
        number="",
        statement="The expression that the suite evaluates projects, rotates, scores and weighs as "
        "the documents' formulas do, with the scale of both streams.",
        latex=r"z_{ij}=\frac{q_i\cdot k_j+q^R_i\cdot k^R_j}{\sqrt{d+p}},\quad "
        r"k_j=x_jW_{DKV}W_{UK},\ v_j=x_jW_{DKV}W_{UV}",
        source=Source("004", "3.6 Decoupled RoPE", "Content and position add up to a score."),
        verdict="holds",
        form="symbolic",
        derivation=_definition,
    ),
)
