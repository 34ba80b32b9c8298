"""Attention in a window, layer upon layer: how far a token can count.

Source: document 004 (3.7: sliding window, and what DSA is to mend). What no layer sees directly
may still arrive: L layers pass it on by L windows.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.claim import Claim, Condition, Counterexample, Source, Step
from attnspec.spec.softmax import two_way
from attnspec.spec.window import at
from attnspec.spec.window_definition import LEFT, REACH, RIGHT, reaches

_w, _layers = sp.symbols("w L", integer=True, positive=True)
_u, _e, _f, _r = sp.symbols("u e f r", integer=True, nonnegative=True)
"""A distance, what there is to spare of two, and how far the layers below reach."""
_WINDOW = sp.Integer(4096)
"""Mistral's."""
_FAR = sp.Integer(100_000)
_MISSED = sp.Integer(1_000_000) - 700_000


def _reach() -> sp.Expr:
    """Tokens to one side after so many layers, each of which adds w."""
    found = sp.Function("r")
    return sp.rsolve(found(_layers + 1) - found(_layers) - _w, found(_layers), {found(0): 0})


def _field(length: int, layers: int, left: int, right: int) -> sp.Integer:
    """The tokens that count in the middle one, by the definition of the reach."""
    (query, _), (key, _) = REACH.axes
    sizes = {REACH.parameters[1]: layers, LEFT: left, RIGHT: right, query: length // 2}
    row = REACH.expression.subs(sizes, simultaneous=True)
    return sp.Integer(sum(row.subs(key, j) for j in range(length)))


def _within(distance: sp.Expr) -> sp.Basic:
    """Whether a token so far back is within the definition's reach of L layers."""
    (query, _), (key, _) = REACH.axes
    sizes = {REACH.parameters[1]: _layers, LEFT: _w, RIGHT: _w, query: _u, key: _u - distance}
    return reaches().subs(sizes, simultaneous=True)


def hops() -> tuple[Step, ...]:
    """That L layers reach L w to either side, and no further: r by the layers below, w more by the
    last."""
    first, second = sp.symbols("x y", real=True)
    beyond = _r + _w + 1 + _e
    return (
        Step("the last layer sees the key w back", at(-_w, _w, _w) == sp.true),
        Step(
            "to which tokens e further back have come, e <= r: so they are e + w back",
            at(-_e, _e + _f, _e + _f) == sp.true,
        ),
        Step("nearer ones are in the window", at(-_u, _u + _e, _u + _e) == sp.true),
        Step("and layers below keep their own token", at(sp.S.Zero, _r, _r) == sp.true),
        Step(
            "from r + w + 1 + e back, a hop of w - f leaves r + 1 + e + f",
            sp.expand(beyond - (_w - _f) - (_r + 1 + _e + _f)),
        ),
        Step("which is beyond r", at(-(_r + 1 + _e + _f), _r, _r) == sp.false),
        Step(
            "weights are positive, and so are their products: no path is undone by another",
            (two_way(first) * two_way(second)).is_positive,
        ),
        Step(
            "r(L + 1) = r(L) + w with r(0) = 0: L w on each side",
            sp.expand(_reach() - _layers * _w),
        ),
        Step("the definition's reach has the token L w back", _within(_layers * _w) == sp.true),
        Step("and none further back", _within(_layers * _w + 1 + _e) == sp.false),
    )


def _field_size() -> tuple[Step, ...]:
    both = sp.Sum(sp.S.One, (_u, -_layers * _w, _layers * _w)).doit()
    square = sp.Sum(_u**2, (_u, -_w, _w)).doit() / (2 * _w + 1)
    spread = _layers * sp.factor(sp.expand(square))
    deep = {_w: _WINDOW, _layers: 32}
    return (
        *hops(),
        Step("2 L w + 1 tokens with both sides", sp.expand(both - (2 * _layers * _w + 1))),
        Step("3 layers of w = 2 among 15, counted", _field(15, 3, 2, 2) - both.subs(
            {_layers: 3, _w: 2})),
        Step("and with w back only", _field(15, 3, 2, 0) - 7),
        Step("32 layers of 4096 back: 131072", _reach().subs(deep) - 131072),
        Step(
            "of 4096 with the own one: 131040 back, with itself 131041",
            _reach().subs({_w: _WINDOW - 1, _layers: 32}) + 1 - 131041,
        ),
        Step(
            "weights all alike spread by the square root of L w (w + 1)/3",
            sp.expand(spread - _layers * _w * (_w + 1) / 3),
        ),
        Step(
            "which is 13379 tokens, rounded down",
            sp.floor(sp.sqrt(spread.subs(deep))) - 13379,
        ),
    )  # fmt: skip


def _five_tokens() -> Counterexample:
    return Counterexample(
        "L = 2, w = 1, token 4 of 9: tokens that count in it, stated to be L w",
        stated=sp.Integer(2),
        actual=_field(9, 2, 1, 1),
    )


def _layers_to(distance: sp.Integer) -> sp.Expr:
    """The first number of layers that reach so far, by windows of 4096."""
    return sp.ceiling(distance / _WINDOW)


def _arrives(distance: sp.Integer, layers: int) -> tuple[Step, ...]:
    reached = _reach().subs(_w, _WINDOW)
    return (
        Step(f"{layers} layers", _layers_to(distance) - layers),
        Step(f"reach {distance} back", reached.subs(_layers, layers) >= distance),
        Step(f"and {layers - 1} don't", reached.subs(_layers, layers - 1) < distance),
    )


def _far_token() -> tuple[Step, ...]:
    return (
        Step(
            "a key at w + 1 + e back is in no layer's window",
            at(-_w - 1 - _e, _w, _w) == sp.false,
        ),
        Step("4096 is below 100000", _FAR > _WINDOW),
        *hops(),
        *_arrives(_FAR, 25),
    )


def _reached(distance: sp.Integer, says: str) -> Counterexample:
    layers = _layers_to(distance)
    return Counterexample(
        f"w = 4096, {layers} layers: tokens back that count, stated to be fewer than {says}, so "
        f"at most {distance - 1}",
        stated=distance - 1,
        actual=_reach().subs({_w: _WINDOW, _layers: layers}),
    )


def _missed_token() -> tuple[Step, ...]:
    return (
        Step("1000000 - 700000 = 300000", _MISSED - 300_000),
        Step(
            "a key at w + 1 + e back is in no layer's window",
            at(-_w - 1 - _e, _w, _w) == sp.false,
        ),
        Step("4096 is below 300000", _MISSED > _WINDOW),
        *hops(),
        *_arrives(_MISSED, 74),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="window.reach",
        number="C139",
        statement="A layer sees w neighbors; after L layers the receptive field is about L w.",
        latex=r"|m-n|\le Lw,\quad2Lw+1\text{ tokens}",
        source=Source(
            "004", "3.7 Sliding Window", "Layers hand tokens on, so that the field grows to L w."
        ),
        verdict="holds-if",
        form="symbolic",
        conditions=(
            Condition("D1", "w and L w are counted on one side of a token, not its own included"),
        ),
        truth="On both sides a layer sees 2w neighbors, and L layers 2 L w + 1 tokens. Mistral's "
        "32 layers of 4096 reach 131072 back, or 131040 where a window counts its own token. "
        "That is the limit: equal weights spread by sqrt(L w (w + 1)/3), there 13379.",
        counterexample=_five_tokens,
        derivation=_field_size,
    ),
    Claim(
        id="window.far_token_never_direct",
        number="C140",
        statement="A token 100000 positions away is in no window, whatever the number of layers.",
        latex=r"\lceil100000/4096\rceil=25",
        source=Source("004", "3.7 Sliding Window", "No number of layers brings it into a window."),
        verdict="holds-if",
        form="symbolic",
        conditions=(
            Condition("D1", "one layer's own window is meant, not what layers pass on"),
            Condition("D2", "w is below 100000"),
        ),
        truth="What it says arrives all the same, after 25 layers of w = 4096: the same section "
        "says so of L w.",
        counterexample=lambda: _reached(_FAR, "100000"),
        derivation=_far_token,
    ),
    Claim(
        id="window.far_position_missed",
        number="C143",
        statement="From position 1000000 a fixed window misses position 700000.",
        latex=r"10^6-7\cdot10^5=3\cdot10^5>w,\quad\lceil3\cdot10^5/4096\rceil=74",
        source=Source("004", "3.7 DSA", "One relevant token is far outside the window."),
        verdict="holds-if",
        form="symbolic",
        conditions=(
            Condition("D1", "one layer's own window is meant, not what layers pass on"),
            Condition("D2", "w is below 300000, and position 700000 is no global token"),
        ),
        truth="It arrives after 74 layers of w = 4096, or two with a global token.",
        counterexample=lambda: _reached(_MISSED, "300000"),
        derivation=_missed_token,
    ),
)
