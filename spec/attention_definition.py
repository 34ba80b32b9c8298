"""Attention as expressions: its output, its log-sum-exp, and who sees whom.

Sources: document 000 (1 to 3), document 003 (1 to 3), document 004 (3.1). The order of the steps
(scale, soft cap, bias, mask, softmax), the alignment of queries with keys and what a row without
keys gives are the project's contract.

Query i stands at position i + offset: offset = s - t aligns the last query with the last key, 0
the first with the first. It sees the keys from i + offset - left to i + offset + right.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, reduce

import sympy as sp

from attnspec.spec.definition import Definition, Maximum, choice, either, one_if, rnd, weights
from attnspec.spec.softmax_definition import LOGARITHMS, RESCALING, blocks

_b, _h, _i, _c, _j, _l = sp.symbols("b h i c j l", integer=True, nonnegative=True)
_batch, _heads, _groups, _t, _s, _d, _e = sp.symbols(
    "batch heads groups t s d e", integer=True, positive=True
)
_offset, _left, _right = sp.symbols("offset left right", integer=True)
_scale, _cap = sp.symbols("scale cap", positive=True)
_spread = sp.symbols("bias_b bias_h bias_t bias_s", integer=True, positive=True)
_q = sp.IndexedBase("q", shape=(_batch, _heads, _t, _d), real=True)
_k = sp.IndexedBase("k", shape=(_batch, _groups, _s, _d), real=True)
_v = sp.IndexedBase("v", shape=(_batch, _groups, _s, _e), real=True)
_mask = sp.IndexedBase(sp.Symbol("mask", integer=True), shape=(_batch, _heads, _t, _s))
_bias = sp.IndexedBase(sp.Symbol("bias", extended_real=True), shape=_spread)

HEAD_ORDERS = ("grouped", "tiled")
SCALINGS = ("scores", "query", "key", "both")
EITHER_SIDE = "sides"

STORED_BLOCK = 32
"""Fewest terms of a long sum between two places where it may be stored."""


@dataclass(frozen=True)
class Options:
    """What a call of attention has, beside its sizes."""

    mask: bool = False
    bias: bool = False
    softcap: bool = False
    ranges: bool = False
    """Whether causality or a window hides keys."""
    head_order: str = "grouped"
    scaling: str = "any"
    """Where the scale is applied: one of SCALINGS, or any of them."""

    @property
    def hides(self) -> bool:
        """Whether there can be keys that a query does not see."""
        return self.mask or self.bias or self.ranges


def key_head(order: str) -> sp.Expr:
    """The key head that query head h reads: consecutive query heads share one, or every
    groups-th."""
    return sp.floor(_h * _groups / _heads) if order == "grouped" else sp.Mod(_h, _groups)


def _bias_entry() -> sp.Expr:
    """The bias of a pair; an axis of size 1 counts for all."""
    axes = zip((_b, _h, _i, _j), _spread, strict=True)
    return _bias[tuple(sp.Mod(index, size) for index, size in axes)]


def sees(options: Options) -> sp.Basic:
    """Whether query i sees key j."""
    conditions: list[sp.Basic] = []
    if options.ranges:
        position = _i + _offset
        conditions += [_j <= position + _right, _j >= position - _left]
    if options.mask:
        conditions.append(sp.Ne(_mask[_b, _h, _i, _j], 0))
    if options.bias:
        conditions.append(sp.Ne(_bias_entry(), -sp.oo))
    return sp.And(*conditions)


def _product(form: str, order: str) -> sp.Expr:
    """The scaled product of query i and key j, with the scale where `form` says.

    The scale itself is off by as many roundings of accumulate as forming d^(-1/2), its square
    root and a factor log2(e) of kernels with exponentials to base 2 take, and may be stored.
    Scaled on either side, or on both: each operand is rounded at a scale at which it loses as
    much as in any of the three, underflow included (min(x, sqrt(x)) of the scale x), and what that
    is too much is taken out of the product.
    """
    q, k = _q[_b, _h, _i, _l], _k[_b, key_head(order), _j, _l]
    channels = (_l, 0, _d - 1)

    def factor(x: sp.Expr) -> sp.Expr:
        return rnd(rnd(x, "accumulate", 5), "scores")

    if form == "scores":
        return rnd(rnd(sp.Sum(q * k, channels), "scores") * factor(_scale), "scores")
    if form == EITHER_SIDE:
        both = sp.Min(_scale, sp.sqrt(_scale))
        q, k = (rnd(x * factor(both), "scores") for x in (q, k))
        return rnd(sp.Sum(q * k, channels) * (_scale / both**2), "scores")
    if form == "query":
        q = rnd(q * factor(_scale), "scores")
    elif form == "key":
        k = rnd(k * factor(_scale), "scores")
    else:
        q, k = (rnd(x * factor(sp.sqrt(_scale)), "scores") for x in (q, k))
    return rnd(sp.Sum(q * k, channels), "scores")


def logits(options: Options) -> sp.Expr:
    """What softmax is taken of: scaled, capped and biased scores."""
    forms = ("scores", EITHER_SIDE) if options.scaling == "any" else (options.scaling,)
    z = reduce(either, (_product(form, options.head_order) for form in forms))
    if options.softcap:
        z = rnd(_cap * rnd(sp.tanh(rnd(z / _cap, "scores")), "scores"), "scores")
    return rnd(z + _bias_entry(), "scores") if options.bias else z


@dataclass(frozen=True)
class _Row:
    """The parts of one row of softmax."""

    weight: sp.Expr
    log_sum_exp: sp.Expr


def _row(options: Options) -> _Row:
    """Softmax over the visible keys, as in `spec/softmax_definition.py`: the weight is a quotient
    or the exponential of a difference of logarithms. A running sum is rescaled for each block of
    keys, by an exponential and a product; a row without keys has no weight at all."""
    keys = (_j, 0, _s - 1)
    seen = sees(options)
    some = sp.true
    if options.hides:
        some = sp.Sum(one_if(seen), keys) > 0

    def over(value: sp.Expr, otherwise: sp.Expr) -> sp.Expr:
        return choice(value, seen, otherwise)

    z = logits(options)
    largest = choice(Maximum(over(z, -sp.oo), keys), some, sp.Integer(0))
    shifted = over(rnd(z - largest, "scores"), sp.Integer(0))
    numerator = over(rnd(sp.exp(shifted), "probabilities"), sp.Integer(0))
    running = rnd(numerator, "accumulate", RESCALING * blocks(_s))
    total = choice(rnd(sp.Sum(running, keys), "statistics"), some, sp.Integer(1))
    divided = running * rnd(1 / total, "statistics")
    log_sum_exp = rnd(largest + sp.log(total), "lse", blocks(_s) + LOGARITHMS)
    subtracted = over(sp.exp(rnd(shifted - (log_sum_exp - largest), "scores")), sp.Integer(0))
    weight = rnd(weights(either(divided, subtracted), z, _j, seen), "probabilities")
    return _Row(weight, choice(log_sum_exp, some, -sp.oo))


def _parameters(options: Options, *, value_size: bool) -> tuple[sp.Symbol, ...]:
    found = [_batch, _heads, _groups, _t, _s, _d, *([_e] if value_size else ()), _scale]
    found += [_cap] if options.softcap else []
    found += [_offset, _left, _right] if options.ranges else []
    return (*found, *(_spread if options.bias else ()))


def _arrays(options: Options) -> tuple[sp.IndexedBase, ...]:
    hidden = [_mask] if options.mask else []
    return (_q, _k, _v, *hidden, *([_bias] if options.bias else ()))


_ROWS = ((_b, _batch), (_h, _heads), (_i, _t))


@cache
def attention(options: Options) -> Definition:
    """q[b, h, i, l], k[b, g, j, l], v[b, g, j, c] -> o[b, h, i, c]."""
    value = _v[_b, key_head(options.head_order), _j, _c]
    total = sp.Sum(_row(options).weight * value, (_j, 0, _s - 1))
    stored = rnd(total, "reductions", sp.floor((_s + STORED_BLOCK - 1) / STORED_BLOCK))
    return Definition(
        "attention",
        rnd(rnd(stored, "activations"), "output"),
        (*_ROWS, (_c, _e)),
        _arrays(options),
        _parameters(options, value_size=True),
    )


@cache
def log_sum_exp(options: Options) -> Definition:
    """The logarithm of the sum of a row's exponentials; minus infinity for an empty row."""
    return Definition(
        "attention.log_sum_exp",
        _row(options).log_sum_exp,
        _ROWS,
        tuple(a for a in _arrays(options) if a is not _v),
        _parameters(options, value_size=False),
    )


@cache
def scores(options: Options) -> Definition:
    """What softmax is taken of, hidden keys too."""
    return Definition(
        "attention.scores",
        logits(options),
        (*_ROWS, (_j, _s)),
        tuple(a for a in _arrays(options) if a not in (_v, _mask)),
        _parameters(options, value_size=False),
    )


@cache
def visible(options: Options) -> Definition:
    """1 where query i sees key j, else 0."""
    limits = (_offset, _left, _right) if options.ranges else ()
    return Definition(
        "attention.visible",
        one_if(sees(options)),
        (*_ROWS, (_j, _s)),
        tuple(a for a in _arrays(options) if a in (_mask, _bias)),
        (_batch, _heads, _t, _s, *limits, *(_spread if options.bias else ())),
    )


@cache
def key_heads(order: str) -> Definition:
    """The key head that each query head reads."""
    return Definition(
        "attention.key_heads", key_head(order), ((_h, _heads),), (), (_heads, _groups), order
    )


@cache
def definitions() -> tuple[Definition, ...]:
    """Those that are worth reading: the options add their parts."""
    return (
        attention(Options()),
        attention(Options(mask=True, bias=True, softcap=True, ranges=True)),
        log_sum_exp(Options()),
        visible(Options(ranges=True)),
        *(key_heads(order) for order in HEAD_ORDERS),
    )
