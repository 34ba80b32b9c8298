"""Multi-head latent attention as expressions: `mla`, `mla_absorbed`, `mla_cache`, `mla_decode`.

Sources: document 000 (2), document 004 (3.1 on latents, 3.6 on the position stream). Query heads
come from a latent of r numbers, keys and values from one of c numbers; p further channels of each
query head and of one key that all heads share carry RoPE. The scale (d + p)^(-1/2), heads as the
outer factor of packed axes and positions from 0 are the project's contract.

`mla` builds every key and value. `mla_absorbed` turns a query into the latent's space instead and
leaves it there until the weights are applied: the same numbers in another order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

import sympy as sp

from attnspec.spec.definition import Definition, either, rnd
from attnspec.spec.mla_scores import Options, Stream, attended, entries_of, logits
from attnspec.spec.multi_head_attention_definition import without_piecewise
from attnspec.spec.rope_definition import DIRECTIONS, LAYOUTS, rope

_b, _h, _i, _j, _l, _c = sp.symbols("b h i j l c", integer=True, nonnegative=True)
"""Batch, head, query, key, content channel and value channel, as attention has them."""
_u, _f, _g, _k, _w = sp.symbols("u f g k w", integer=True, nonnegative=True)
"""Rotary channel, latent, query latent, and model channel of the input and of the output."""
_batch, _heads, _length, _width, _query_latent, _latent, _rotary, _d, _e = sp.symbols(
    "batch heads length width query_latent latent rotary d e", integer=True, positive=True
)
_base = sp.Symbol("base", positive=True)

_x = sp.IndexedBase("x", shape=(_batch, _length, _width), real=True)
_newest = sp.IndexedBase("x", shape=(_batch, 1, _width), real=True)
_w_dq = sp.IndexedBase("w_dq", shape=(_width, _query_latent), real=True)
_w_uq = sp.IndexedBase("w_uq", shape=(_query_latent, _heads * _d), real=True)
_w_qr = sp.IndexedBase("w_qr", shape=(_query_latent, _heads * _rotary), real=True)
_w_dkv = sp.IndexedBase("w_dkv", shape=(_width, _latent), real=True)
_w_uk = sp.IndexedBase("w_uk", shape=(_latent, _heads * _d), real=True)
_w_uv = sp.IndexedBase("w_uv", shape=(_latent, _heads * _e), real=True)
_w_kr = sp.IndexedBase("w_kr", shape=(_width, _rotary), real=True)
_w_o = sp.IndexedBase("w_o", shape=(_heads * _e, _width), real=True)
_c_kv = sp.IndexedBase("c_kv", shape=(_batch, _length, _latent), real=True)
_k_rope = sp.IndexedBase("k_rope", shape=(_batch, _length, _rotary), real=True)

SCALE = (_d + _rotary) ** sp.Rational(-1, 2)
"""Of scores, whatever the order of products."""

_QUERY_WEIGHTS = (_w_dq, _w_uq, _w_qr)
_SIZES = (_batch, _heads, _length, _width, _query_latent, _latent, _rotary, _d, _e, _base)


@dataclass(frozen=True)
class Tokens:
    """What attention is formed from."""

    query_latent: sp.Expr
    """c_q[b, i, g] of the tokens that ask, for the content."""
    latent: sp.Expr
    """c_kv[b, j, f] of the tokens that are seen."""
    position: Stream
    """The rotated channels of both."""


# -- projections, each of which may be stored --------------------------------------------------


def query_latent(entry: sp.Expr) -> sp.Expr:
    """c_q[b, i, g] of the tokens of which x[b, i, k] is an entry."""
    return rnd(sp.Sum(entry * _w_dq[_k, _g], (_k, 0, _width - 1)), "activations")


def key_latent() -> sp.Expr:
    """c_kv[b, j, f]: the latent of token j, from which all heads' keys and values come."""
    return rnd(sp.Sum(_x[_b, _j, _k] * _w_dkv[_k, _f], (_k, 0, _width - 1)), "activations")


def content_query(latent: sp.Expr) -> sp.Expr:
    """q[b, h, i, l]: the content channels of head h."""
    from_latent = latent * _w_uq[_g, _h * _d + _l]
    return rnd(sp.Sum(from_latent, (_g, 0, _query_latent - 1)), "activations")


def content_key(latent: sp.Expr) -> sp.Expr:
    """k[b, h, j, l]: the content channels of head h's key."""
    return rnd(sp.Sum(latent * _w_uk[_f, _h * _d + _l], (_f, 0, _latent - 1)), "activations")


def head_value(latent: sp.Expr) -> sp.Expr:
    """v[b, h, j, c]: the value of head h."""
    return rnd(sp.Sum(latent * _w_uv[_f, _h * _e + _c], (_f, 0, _latent - 1)), "activations")


def rotated(channels: Callable[[sp.Expr], sp.Expr], position: sp.Expr, options: Options) -> sp.Expr:
    """Rotary channel u of a vector of p channels at a position, as `rope_definition` turns it. The
    vector is a function of the channel."""
    formula = rope(options.layout, options.direction)
    *_, (channel, _) = formula.axes
    values, positions = formula.arrays
    width, base = formula.parameters[4:]
    (turned, _), _ = formula.expression.args
    chosen = without_piecewise(turned.args[0])
    named = chosen.xreplace({channel: _u, width: _rotary, base: _base})
    placed = named.replace(entries_of(positions), lambda _: position)
    return rnd(
        placed.replace(entries_of(values), lambda node: channels(node.indices[-1])), "activations"
    )


def rotary_query(latent: sp.Expr, position: sp.Expr, options: Options) -> sp.Expr:
    """The rotated channels of query head h."""

    def channels(u: sp.Expr) -> sp.Expr:
        from_latent = latent * _w_qr[_g, _h * _rotary + u]
        return rnd(sp.Sum(from_latent, (_g, 0, _query_latent - 1)), "activations")

    return rotated(channels, position, options)


def rotary_key(options: Options) -> sp.Expr:
    """The rotated channels of token j's key, which all heads share."""

    def channels(u: sp.Expr) -> sp.Expr:
        return rnd(sp.Sum(_x[_b, _j, _k] * _w_kr[_k, u], (_k, 0, _width - 1)), "activations")

    return rotated(channels, _j, options)


# -- both orders ----------------------------------------------------------------------------


def _used_apart(value: sp.Expr) -> sp.Expr:
    """The value under a mark at which nothing is rounded: its uses in both forms of a number have
    one gradient, beside that of its use elsewhere."""
    return rnd(value, "accumulate")


def built(tokens: Tokens, options: Options) -> sp.Expr:
    """The model channel w of the output: keys and values of all heads are built."""
    query, key = content_query(tokens.query_latent), content_key(tokens.latent)
    z = logits(Stream(query, key, _l, _d), tokens.position, SCALE, options)
    heads = attended(z, head_value(tokens.latent), _c, _length, options)
    return sp.Sum(heads * _w_o[_h * _e + _c, _w], (_c, 0, _e - 1), (_h, 0, _heads - 1))


def latent_query(query_latent: sp.Expr) -> sp.Expr:
    """The content query of head h in the space of the latent, [b, h, i, f]: by way of its d
    channels, or by the product of both up-projections."""
    by_channels = sp.Sum(content_query(query_latent) * _w_uk[_f, _h * _d + _l], (_l, 0, _d - 1))
    merged = sp.Sum(_w_uq[_g, _h * _d + _l] * _w_uk[_f, _h * _d + _l], (_l, 0, _d - 1))
    by_product = sp.Sum(query_latent * rnd(merged, "activations"), (_g, 0, _query_latent - 1))
    return rnd(either(by_channels, by_product), "activations")


def from_latents(latents: sp.Expr) -> sp.Expr:
    """The model channel w from each head's weighted latents [b, h, i, f]: by way of its e value
    channels, or by the product of value up-projection and output projection."""
    latent, up, out = (_f, 0, _latent - 1), _w_uv[_f, _h * _e + _c], _w_o[_h * _e + _c, _w]
    channels, heads = (_c, 0, _e - 1), (_h, 0, _heads - 1)
    by_channels = sp.Sum(rnd(sp.Sum(latents * up, latent), "activations") * out, channels, heads)
    merged = rnd(sp.Sum(up * out, channels), "activations")
    return either(by_channels, sp.Sum(latents * merged, latent, heads))


def absorbed(tokens: Tokens, options: Options) -> sp.Expr:
    """The model channel w of the output: no key or value of a head is built."""
    query, key = latent_query(tokens.query_latent), _used_apart(tokens.latent)
    position = replace(tokens.position, key=_used_apart(tokens.position.key))
    z = logits(Stream(query, key, _f, _latent), position, SCALE, options)
    return from_latents(attended(z, tokens.latent, _f, _length, options))


# -- the components --------------------------------------------------------------------------------


def prefill(options: Options) -> Tokens:
    """All tokens ask, and are seen."""
    asking = query_latent(_x[_b, _i, _k])
    position = Stream(rotary_query(asking, _i, options), rotary_key(options), _u, _rotary)
    return Tokens(_used_apart(asking), key_latent(), position)


def decoding(options: Options) -> Tokens:
    """The newest token asks, at the last position; the cache is seen."""
    asking = query_latent(_newest[_b, _i, _k])
    turned = rotary_query(asking, _length - 1, options)
    position = Stream(turned, _k_rope[_b, _j, _u], _u, _rotary)
    return Tokens(_used_apart(asking), _c_kv[_b, _j, _f], position)


def _over_tokens(name: str, expression: sp.Expr) -> Definition:
    return Definition(
        name,
        rnd(expression, "output"),
        ((_b, _batch), (_i, _length), (_w, _width)),
        (_x, *_QUERY_WEIGHTS, _w_dkv, _w_uk, _w_uv, _w_kr, _w_o),
        _SIZES,
    )


@cache
def mla(options: Options) -> Definition:
    """x[b, i, k] and weights -> y[b, i, w], with every key and value built."""
    return _over_tokens("mla", built(prefill(options), options))


@cache
def mla_absorbed(options: Options) -> Definition:
    """x[b, i, k] and weights -> y[b, i, w] without building keys or values: `mla` again."""
    return _over_tokens("mla_absorbed", absorbed(prefill(options), options))


@cache
def cached_latent() -> Definition:
    """x[b, j, k] -> c_kv[b, j, f], which decoding stores."""
    return Definition(
        "mla_cache.c_kv",
        rnd(key_latent().args[0], "output"),
        ((_b, _batch), (_j, _length), (_f, _latent)),
        (_x, _w_dkv),
        (_batch, _length, _width, _latent),
    )


@cache
def cached_key(options: Options) -> Definition:
    """x[b, j, k] -> k_rope[b, j, u], rotated, which decoding stores beside the latent."""
    return Definition(
        "mla_cache.k_rope",
        rnd(rotary_key(options).args[0], "output"),
        ((_b, _batch), (_j, _length), (_u, _rotary)),
        (_x, _w_kr),
        (_batch, _length, _width, _rotary, _base),
    )


@cache
def mla_decode(options: Options) -> Definition:
    """x[b, 0, k], c_kv[b, j, f], k_rope[b, j, u] and weights -> y[b, 0, w]: the newest token, which
    sees all that is cached, in either order of products."""
    tokens, seeing = decoding(options), replace(options, causal=False)
    return Definition(
        "mla_decode",
        rnd(either(absorbed(tokens, seeing), built(tokens, seeing)), "output"),
        ((_b, _batch), (_i, sp.S.One), (_w, _width)),
        (_newest, _c_kv, _k_rope, *_QUERY_WEIGHTS, _w_uk, _w_uv, _w_o),
        _SIZES,
    )


CALLS = tuple(Options(*call) for call in product(LAYOUTS, DIRECTIONS, (True, False)))
"""Every convention. Definitions are made on demand: sympy takes most of a second for each."""


@cache
def definitions() -> tuple[Definition, ...]:
    """Those that are worth reading, made when they are asked for."""
    plain = Options(scaling="scores")
    return (
        mla(plain),
        mla_absorbed(plain),
        cached_latent(),
        cached_key(plain),
        mla_decode(plain),
    )
