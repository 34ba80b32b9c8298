"""A Llama-style layer: norm, attention, sum, norm, gated feed-forward network, sum.

Sources: document 004 (3.9), and 3.8 for the norms, which stand before each sublayer. Attention is
the definition of multi-head attention, causal, of normalised rows. The feed-forward network is
(silu(x w_gate) * (x w_up)) w_down, the project's contract; the document leaves it open.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import sympy as sp

from attnspec.spec.composition import Composition, Stage
from attnspec.spec.definition import Definition, either, rnd
from attnspec.spec.moments import PLACEMENTS, eps
from attnspec.spec.multi_head_attention_definition import MultiHead, inside, multi_head_attention
from attnspec.spec.residual_block_definition import block
from attnspec.spec.rms_norm_definition import GAINS, Entry, gain_of, rms_normalised

_b, _i, _w, _f = sp.symbols("b i w f", integer=True, nonnegative=True)
_batch, _n, _width, _hidden = sp.symbols("batch n width hidden", integer=True, positive=True)
_AXES = ((_b, _batch), (_i, _n), (_w, _width))


@dataclass(frozen=True)
class LayerOptions:
    """The conventions and options of a call."""

    layout: str | None = "interleaved"
    """Which channels RoPE pairs; None without RoPE."""
    direction: str = "forward"
    head_order: str = "grouped"
    scaling: str = "any"
    eps_placement: str = "inside"
    gain: str = "plain"


def _array(name: str, *shape: sp.Expr) -> sp.IndexedBase:
    return sp.IndexedBase(name, shape=shape, real=True)


_x, _attended = (_array(name, _batch, _n, _width) for name in ("x", "attended"))
_norm_attention, _norm_feed_forward = (
    _array(name, _width) for name in ("norm_attention", "norm_feed_forward")
)
_w_gate, _w_up = (_array(name, _width, _hidden) for name in ("w_gate", "w_up"))
_w_down = _array("w_down", _hidden, _width)


def silu(x: sp.Expr) -> sp.Expr:
    """x sigmoid(x). The sigmoid comes from an exponential, or from a hyperbolic tangent: that both
    are one number is the claim `transformer_layer.silu_forms`. Where exp(-x) overflows, its inverse
    is 0, and so is the sigmoid below what its format holds."""
    sigmoids = (1 / (1 + sp.exp(-x)), (1 + sp.tanh(x / 2)) / 2)
    forms = (x * rnd(sigmoid, "activations") for sigmoid in sigmoids)
    return rnd(either(*forms), "activations")


def _normed(row: Entry, weight: sp.IndexedBase, options: LayerOptions) -> Entry:
    """RMSNorm of a row, as a tensor between two steps."""
    value = rms_normalised(
        row,
        _w,
        _width,
        placement=options.eps_placement,
        gain=lambda at: gain_of(weight[at], options.gain),
    )
    return lambda at: rnd(value(at), "activations")


def feed_forward(row: Entry) -> Entry:
    """(silu(x w_gate) * (x w_up)) w_down of a row."""

    def times(weight: sp.IndexedBase) -> sp.Expr:
        return rnd(sp.Sum(row(_w) * weight[_w, _f], (_w, 0, _width - 1)), "activations")

    hidden = rnd(silu(times(_w_gate)) * times(_w_up), "activations")
    return lambda at: rnd(sp.Sum(hidden * _w_down[_f, at], (_f, 0, _hidden - 1)), "activations")


def stream(row: Entry, options: LayerOptions) -> tuple[Entry, Entry]:
    """The sum after attention, and the one after the feed-forward network, for attention's output
    as an array: two pre-norm blocks."""
    after_attention = block("pre", row, lambda _: lambda at: _attended[_b, _i, at], lambda x: x)

    def middle(at: sp.Expr) -> sp.Expr:
        return rnd(after_attention(at), "activations")

    after = block("pre", middle, feed_forward, lambda x: _normed(x, _norm_feed_forward, options))
    return middle, after


def _row(at: sp.Expr) -> sp.Expr:
    return _x[_b, _i, at]


def _small(options: LayerOptions) -> tuple[sp.Symbol, ...]:
    return () if options.eps_placement == "none" else (eps,)


def _first_norm(options: LayerOptions) -> Definition:
    """x[b, i, w], norm_attention[w] -> the rows that attention is given."""
    return Definition(
        "transformer_layer.normed",
        _normed(_row, _norm_attention, options)(_w),
        _AXES,
        (_x, _norm_attention),
        (_batch, _n, _width, *_small(options)),
    )


def _attention(options: LayerOptions) -> Definition:
    """Multi-head attention of `normed`, causal, with the projections."""
    whole = multi_head_attention(
        MultiHead(
            causal=True,
            layout=options.layout,
            direction=options.direction,
            head_order=options.head_order,
            scaling=options.scaling,
        )
    )
    x, *weights = whole.arrays
    normed = sp.IndexedBase("normed", shape=x.shape, real=True)
    read = [node for node in whole.expression.atoms(sp.Indexed) if node.base == x]
    return Definition(
        "transformer_layer.attended",
        inside(whole.expression).xreplace({node: normed[node.indices] for node in read}),
        whole.axes,
        (normed, *weights),
        whole.parameters,
    )


def _rest(options: LayerOptions) -> Definition:
    """x[b, i, w], attended[b, i, w] and the weights after attention -> y[b, i, w]."""
    _, after = stream(_row, options)
    return Definition(
        "transformer_layer",
        rnd(after(_w), "output"),
        _AXES,
        (_x, _attended, _norm_feed_forward, _w_gate, _w_up, _w_down),
        (_batch, _n, _width, _hidden, *_small(options)),
    )


@cache
def transformer_layer(options: LayerOptions) -> Composition:
    """x[b, i, w] and nine weights -> y[b, i, w]."""
    return (
        Stage("normed", _first_norm(options)),
        Stage("attended", _attention(options)),
        Stage("y", _rest(options)),
    )


CALLS = tuple(
    LayerOptions(layout=layout, eps_placement=placement, gain=gain)
    for layout in ("interleaved", "half", None)
    for placement in PLACEMENTS
    for gain in GAINS
)
"""Conventions of rotation and norm; definitions are made on demand."""


@cache
def definitions() -> tuple[Definition, ...]:
    """The stages under the default conventions, made when they are asked for."""
    return tuple(stage.definition for stage in transformer_layer(LayerOptions()))
