"""Multi-head latent attention: the stream that carries positions beside the content.

Sources: document 000 (3), document 004 (3.6, decoupled RoPE). Why rotations don't go through the
latent is in `mla_rotation`.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec import mla_definition
from attnspec.spec.claim import Claim, Condition, Counterexample, Source, Step
from attnspec.spec.definition import unmarked
from attnspec.spec.mla_formula import PLAIN, content, tokens, two_streams
from attnspec.spec.mla_orders import absorbed_content
from attnspec.spec.mla_sizes import V2, by_latent, c, d, numbers, p, r
from attnspec.spec.normal import normal
from attnspec.spec.reading import named
from attnspec.spec.rope import relative
from attnspec.spec.shapes import shapes_fit
from attnspec.spec.symbols import m, n, s

_up_q, _up_k = sp.MatrixSymbol("W_UQ", r, d), sp.MatrixSymbol("W_UK", c, d)


def _streams() -> tuple[Step, ...]:
    sizes = sp.symbols("n_q n_k", integer=True, positive=True)
    q, q_r = sp.MatrixSymbol("q", sizes[0], d), sp.MatrixSymbol("q_R", sizes[0], p)
    k, k_r = sp.MatrixSymbol("k", sizes[1], d), sp.MatrixSymbol("k_R", sizes[1], p)
    queries, keys = sp.BlockMatrix([[q, q_r]]), sp.BlockMatrix([[k.T], [k_r.T]])
    made, wanted = two_streams()
    i, j = sp.symbols("i j", integer=True, positive=True)
    size = d + p
    second = sp.Sum(sp.KroneckerDelta(i, j, (1, size)), (j, 1, size), (i, 1, size)).doit()
    return (
        Step("the shapes fit", shapes_fit(queries, keys)),
        Step(
            "the product of concatenated vectors is the sum of the streams' products",
            sp.block_collapse(queries * keys) - (q * k.T + q_r * k_r.T),
        ),
        Step(
            "the score that the suite evaluates is that sum over sqrt(d + p)",
            normal(sp.expand(made - wanted), {}),
        ),
        Step(
            "which has variance 1 for independent entries of mean 0 and variance 1",
            sp.simplify(second / sp.sqrt(size) ** 2 - 1),
        ),
        Step(
            "rotary queries differ by head and come from the query latent, as the suite has them",
            {"h", "w_qr", "w_dq"} <= set(named(tokens().position.query)),
        ),
        Step(
            "and the rotary key comes from the token and is one for all heads",
            {"w_kr", "x"} <= set(named(tokens().position.key))
            and not {"h", "w_dkv"} & set(named(tokens().position.key)),
        ),
    )


def _unit_streams() -> Counterexample:
    product = (numbers(d) + numbers(p)).subs({d: 2, p: 2})
    return Counterexample(
        "two channels in each stream, all entries 1, position 0: the score, stated as the sum of "
        "both products",
        stated=product,
        actual=product / sp.sqrt(product),
    )


def _latents_of_v2() -> Counterexample:
    return Counterexample(
        "DeepSeek-V2: width of the latent from which content queries come, stated as that of W_DKV",
        stated=numbers(c).subs(V2),
        actual=numbers(r).subs(V2),
    )


def _split() -> tuple[Step, ...]:
    query, latent = tokens().query_latent, tokens().latent
    return (
        Step(
            "content queries come from x W_DQ and not from the latent",
            "w_dq" in named(query) and "w_dkv" not in named(query),
        ),
        Step(
            "content keys and values from x W_DKV",
            {"w_dkv"} == {name for name in named(latent) if name.startswith("w_")},
        ),
        *_streams(),
        *relative(),
    )


def _content_alone() -> tuple[Step, ...]:
    at = named(content())
    x = mla_definition.mla(PLAIN).arrays[0]
    rows = {at["i"]: sp.IndexedBase("asks", real=True), at["j"]: sp.IndexedBase("seen", real=True)}

    def by_vector(expression: sp.Expr) -> sp.Expr:
        """With a vector of its own for each of the two tokens."""
        return unmarked(expression).replace(
            lambda node: isinstance(node, sp.Indexed) and node.base == x,
            lambda node: rows[node.indices[1]][node.indices[2]],
        )

    position = by_vector(tokens().position.key)
    return (
        Step(
            "for given vectors of both tokens, the content's product has no position left",
            by_vector(content()).free_symbols.isdisjoint(rows),
        ),
        Step("nor has the latent", by_vector(tokens().latent).free_symbols.isdisjoint(rows)),
        Step("the rotated key has the key's", rows.keys() & position.free_symbols == {at["j"]}),
        Step(
            "the content keeps the absorption",
            normal(content() - absorbed_content(1), {}),
        ),
        *relative(),
    )


def _without_key() -> tuple[Step, ...]:
    bias = sp.Function("b", real=True)
    queries, latents = sp.MatrixSymbol("q", 1, r), sp.MatrixSymbol("c", 1, c)
    token = sp.MatrixSymbol("x", 1, sp.Symbol("d_m", integer=True, positive=True))
    down, narrow = sp.MatrixSymbol("W_DKV", token.cols, c), sp.MatrixSymbol("W", c, p)
    absorbed = queries * (_up_q * _up_k.T) * latents.T
    return (
        Step(
            "a bias of the displacement is added after the product: it doesn't change when both "
            "tokens move",
            sp.expand(bias(sp.expand((n + s) - (m + s))) - bias(n - m)),
        ),
        Step(
            "so the content keeps its one A",
            ((queries * _up_q) * (latents * _up_k).T - absorbed).doit(),
        ),
        Step("and nothing but d_c numbers is cached: p fewer", by_latent() - numbers(c) - p),
        Step("the shapes of x W_DKV W fit", shapes_fit(token, down, narrow)),
        Step(
            "a rotary key projected from the latent can be formed from the cache",
            (token * (down * narrow) - (token * down) * narrow).doit(),
        ),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="mla.content_and_position",
        number="A21",
        statement="Queries and keys split into content, compressed by W_DKV, and position, rotated "
        "by RoPE.",
        latex=r"[q^C,q^R]\cdot[k^C,k^R]=q^C\cdot k^C+q^R\cdot k^R",
        source=Source(
            "000", "3 Mechanism", "Splits both into latent content and rotated position."
        ),
        verdict="holds-if",
        form="symbolic",
        conditions=(
            Condition("D1", "W_DKV compresses keys and values; queries have W_DQ, of another rank"),
            Condition("D2", "the score is divided by sqrt(d_h + d_r), the size of both streams"),
        ),
        truth="In DeepSeek-V2 the query latent has 1536 numbers, the latent 512.",
        counterexample=_latents_of_v2,
        derivation=_split,
    ),
    Claim(
        id="mla.score_adds_streams",
        number="C124",
        statement="The score is the sum of the content's product and the position stream's.",
        latex=r"z=\frac{q\cdot k+q^R\cdot k^R}{\sqrt{d_h+d_r}}",
        source=Source("004", "3.6 Decoupled RoPE", "The score adds content and position."),
        verdict="holds-if",
        form="symbolic",
        conditions=(
            Condition("D1", "the sum is divided by sqrt(d_h + d_r), the size of both streams"),
            Condition("D2", "rotary queries differ by head and, in DeepSeek-V2, come from c^Q"),
        ),
        truth="It is the product of the concatenated vectors, scaled for their size.",
        counterexample=_unit_streams,
        derivation=_streams,
    ),
    Claim(
        id="mla.content_without_position",
        number="C125",
        statement="The content keeps the absorption, and the position stream has all positions.",
        latex=r"\partial_m(q\cdot k)=\partial_n(q\cdot k)=0",
        source=Source(
            "004", "3.6 Decoupled RoPE", "Content keeps its savings, position is in its stream."
        ),
        verdict="holds",
        form="symbolic",
        truth="Within a layer, for given vectors: above the first, vectors carry positions too.",
        derivation=_content_alone,
    ),
    Claim(
        id="mla.position_key_avoidable",
        number="C127",
        statement="That the rotary key is cached is unavoidable.",
        latex=r"c^QA\,c^T+b(n-m)",
        source=Source("004", "3.6 Decoupled RoPE", "The extra cache can't be avoided."),
        verdict="empirical",
        form="symbolic",
        truth="A choice of design. Biases of the displacement (ALiBi, T5) leave one A and add "
        "nothing to the cache; a rotary key that is projected from the latent can be formed anew.",
        derivation=_without_key,
    ),
)
