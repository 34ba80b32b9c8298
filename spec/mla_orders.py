"""Multi-head latent attention in two orders of products, and token by token.

Sources: document 004 (3.1 on absorption). What is equal at every size is proved on the expressions
that the suite evaluates.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec import mla_definition
from attnspec.spec.claim import Claim, Source, Step
from attnspec.spec.definition import unmarked, weights
from attnspec.spec.mla_formula import PLAIN, content, tokens
from attnspec.spec.mla_scores import Options, attended
from attnspec.spec.normal import normal
from attnspec.spec.reading import any_shift, named

_logit, _value = (sp.IndexedBase(name, real=True) for name in ("z", "v"))
_weight = sp.IndexedBase("P", nonnegative=True)
_after = sp.Symbol("s", integer=True, nonnegative=True)


def absorbed_content(form: int = 0) -> sp.Expr:
    """The same in the space of the latent: by way of the head's channels, or by the product of
    both up-projections."""
    read = tokens()
    query = mla_definition.latent_query(read.query_latent).args[0].args[form]
    at = named(read.latent * query)
    (latents,) = (s for s in mla_definition.cached_latent().parameters if s.name == "latent")
    return unmarked(sp.Sum(query * read.latent, (at["f"], 0, latents - 1)))


def _with_weights(expression: sp.Expr) -> sp.Expr:
    """Without marks, with any numbers P_hij for the weights."""
    at = named(expression)
    given = _weight[at["h"], at["i"], at["j"]]
    return unmarked(expression.replace(lambda node: isinstance(node, weights), lambda _: given))


def _logits_of(expression: sp.Expr) -> sp.Expr:
    """What the weights are softmax of."""
    (weight,) = expression.atoms(weights)
    return unmarked(weight.args[1])


def _weights_of(expression: sp.Expr) -> sp.Expr:
    """The weight's expression, with z_j for the logits."""
    (weight,) = expression.atoms(weights)
    logits, index = weight.args[1:3]
    return weight.xreplace({logits: _logit[index]})


def _absorbed() -> tuple[Step, ...]:
    naive = mla_definition.mla(PLAIN).expression
    absorbed = mla_definition.mla_absorbed(PLAIN).expression
    by_channels, by_product = (_with_weights(form) for form in absorbed.args[0].args)
    return (
        Step(
            "the content's product with the key built is that of the absorbed query with the "
            "latent, at every size",
            normal(content() - absorbed_content(), {}),
        ),
        Step(
            "and with the product of both up-projections the same",
            normal(absorbed_content() - absorbed_content(1), {}),
        ),
        Step(
            "so are the logits, with the same position stream",
            normal(sp.expand(_logits_of(naive) - _logits_of(absorbed)), {}),
        ),
        Step(
            "the weights are one function of the logits in both",
            _weights_of(naive) == _weights_of(absorbed),
        ),
        Step(
            "for any weights, summing values and then projecting is summing latents and then "
            "projecting",
            normal(_with_weights(naive) - by_channels, {}),
        ),
        Step(
            "and the product of value up-projection and output projection gives the same",
            normal(by_channels - by_product, {}),
        ),
    )


def _last_row() -> tuple[Step, ...]:
    read, newest = tokens(), mla_definition.decoding(PLAIN)
    decode, whole = mla_definition.mla_decode(PLAIN), mla_definition.mla(PLAIN)
    at = named(whole.expression)
    i, j, last, x = at["i"], at["j"], at["length"] - 1, whole.arrays[0]
    cached = (mla_definition.cached_latent(), mla_definition.cached_key(PLAIN))
    stored = (read.latent, read.position.key)
    where = ((at["b"], at["j"], at["f"]), (at["b"], at["j"], at["u"]))
    entries = [array[place] for array, place in zip(decode.arrays[1:3], where, strict=True)]

    def from_last(expression: sp.Expr) -> sp.Expr:
        """With the last of all tokens for the newest."""
        return unmarked(expression).replace(
            lambda node: isinstance(node, sp.Indexed) and node.base == decode.arrays[0],
            lambda node: x[node.indices[0], last, node.indices[2]],
        )

    def rows(options: Options) -> sp.Expr:
        return any_shift(attended(_logit[j], _value[j, at["c"]], at["c"], at["length"], options))

    seen = sp.Le(j, i)
    causal = rows(PLAIN).xreplace({seen: sp.true}).xreplace({i: last})
    return (
        Step(
            "the newest token's query latent is that of the last",
            from_last(newest.query_latent) - unmarked(read.query_latent).subs(i, last),
        ),
        Step(
            "its rotary query turns by the last position",
            sp.expand(
                from_last(newest.position.query) - unmarked(read.position.query).subs(i, last)
            ),
        ),
        Step(
            "attention reads the cache entry by entry",
            sp.ImmutableMatrix([newest.latent, newest.position.key]) - sp.ImmutableMatrix(entries),
        ),
        Step(
            "of which the one array is the latents, the other the rotated keys",
            sp.ImmutableMatrix(
                [
                    sp.expand(unmarked(array.expression) - unmarked(entry))
                    for array, entry in zip(cached, stored, strict=True)
                ]
            ),
        ),
        Step("the last query sees every key", seen.subs(j, last - _after).subs(i, last)),
        Step(
            "so its row of causal attention is attention over the whole cache",
            causal - rows(Options(causal=False)),
        ),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="mla.absorbed_eq_naive",
        number="",
        statement="Attention over latents, with absorbed queries, gives the numbers of attention "
        "over built keys and values.",
        latex=r"(c^QW_{UQ})(c\,W_{UK})^T=(c^QW_{UQ}W_{UK}^T)c^T,\quad"
        r"(P\,cW_{UV})W_O=(P\,c)(W_{UV}W_O)",
        source=Source("004", "3.1 MLA", "Keys need not be rebuilt, nor values."),
        verdict="holds",
        form="symbolic",
        derivation=_absorbed,
    ),
    Claim(
        id="mla.decode_eq_last_row",
        number="",
        statement="Decoding a token from the cached latents and rotated keys gives the last row of "
        "causal attention over all tokens.",
        latex=r"y_n=\mathrm{decode}(x_n,c_{1:n},k^R_{1:n})",
        source=Source("004", "3.1 MLA", "The cached latent is all that attention reads."),
        verdict="holds",
        form="symbolic",
        derivation=_last_row,
    ),
)
