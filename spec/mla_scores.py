"""Attention whose scores are the sum of two products: what multi-head latent attention makes of
`attention_definition`.

Sources: document 004 (3.6, decoupled RoPE): a score is a product of content and one of position.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import sympy as sp

from attnspec.spec import attention_definition
from attnspec.spec.definition import one_if, rnd
from attnspec.spec.substitution import substituted

_i, _j = sp.symbols("i j", integer=True, nonnegative=True)
"""Query and key, as attention has them."""


@dataclass(frozen=True)
class Options:
    """The conventions and options of a call."""

    layout: str = "interleaved"
    direction: str = "forward"
    causal: bool = True
    scaling: str = "any"
    """Where the scale is applied, as in `attention_definition`."""


@dataclass(frozen=True)
class Stream:
    """One of the two parts of a score: a query's and a key's channels, and how many there are."""

    query: sp.Expr
    key: sp.Expr
    channel: sp.Symbol
    size: sp.Expr


def entries_of(array: sp.IndexedBase) -> Callable[[sp.Basic], bool]:
    """Whether a node is an entry of the array."""
    return lambda node: isinstance(node, sp.Indexed) and node.base == array


def _attention(options: Options) -> attention_definition.Options:
    return attention_definition.Options(ranges=options.causal, scaling=options.scaling)


def logits(content: Stream, position: Stream, scale: sp.Expr, options: Options) -> sp.Expr:
    """What softmax is taken of: attention's scaled scores, with the sum of both streams' products
    for a product of vectors.

    Implementations store both products, or concatenate the streams and sum d + p terms: each
    stream's product is charged for the other's terms.
    """
    asked = _attention(options)
    q, k, *_ = attention_definition.attention(asked).arrays

    def dotted(total: sp.Sum, stream: Stream, further: sp.Expr) -> sp.Expr:
        query = rnd(stream.query, "accumulate", further)
        summand = total.function.replace(entries_of(q), lambda _: query)
        summand = summand.replace(entries_of(k), lambda _: stream.key)
        return rnd(sp.Sum(summand, (stream.channel, 0, stream.size - 1)), "scores")

    def both(total: sp.Sum) -> sp.Expr:
        return dotted(total, content, position.size) + dotted(total, position, content.size)

    scaled = attention_definition.logits(asked).replace(lambda node: isinstance(node, sp.Sum), both)
    (parameter,) = (p for p in scaled.free_symbols if p.name == "scale")
    return substituted(scaled, {parameter: scale})


def attended(
    z: sp.Expr, value: sp.Expr, channel: sp.Symbol, length: sp.Expr, options: Options
) -> sp.Basic:
    """softmax of the logits over the keys that a query sees, times values: [b, h, i, channel]."""
    asked = _attention(options)
    formula = attention_definition.attention(asked)
    *_, (old_channel, _) = formula.axes
    names = {size: length for size in formula.parameters if size.name in ("t", "s")}
    given = formula.expression.args[0].replace(entries_of(formula.arrays[2]), lambda _: value)
    replaced = {attention_definition.logits(asked): z, old_channel: channel, **names}
    if options.causal:
        seen = attention_definition.sees(asked)
        (keys,) = (size for size in names if size.name == "s")
        counted = sp.Sum(one_if(seen), (_j, 0, keys - 1))
        # every query sees the first key
        replaced |= {seen: sp.Le(_j, _i), counted > 0: sp.true}
    return substituted(given, replaced)
