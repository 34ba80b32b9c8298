"""Decoding over a cache: the newest query gets what it would get among all tokens.

Source: document 004 (3.1, KV cache). The cache may have more slots than keys; slots from a
sequence's length on are not read. Windows and rows without keys are the project's contract.
"""

from __future__ import annotations

from functools import cache

import sympy as sp

from attnspec.spec.attention_definition import Options, attention, key_head, sees
from attnspec.spec.attention_sums import a, any_function, at_places, count, gathering, places
from attnspec.spec.claim import Claim, Source, Step
from attnspec.spec.decode_attention_definition import decode_attention
from attnspec.spec.definition import choice
from attnspec.spec.reading import any_shift, named, shift
from attnspec.spec.symbols import j as keys

_beyond, _back = sp.symbols("u w", integer=True, nonnegative=True)
_past, _length = sp.symbols("p n", integer=True, positive=True)
_numerator = sp.IndexedBase("E", nonnegative=True)
_values = sp.IndexedBase("y", real=True)


@cache
def decoded(*, window: bool = False) -> sp.Expr:
    """The definition for a sequence of n tokens."""
    plain = any_shift(decode_attention(window=window).expression)
    lengths = {node for node in plain.atoms(sp.Indexed) if str(node.base) == "lengths"}
    return plain.xreplace({**dict.fromkeys(lengths, _length), named(plain)["i"]: sp.S.Zero})


@cache
def last_row() -> sp.Expr:
    """The last row of causal attention over n tokens, read from the cache."""
    plain = any_shift(attention(Options(ranges=True)).expression)
    given = {"s": _length, "t": _length, "offset": 0, "left": sp.oo, "right": 0, "i": _length - 1}
    row = plain.xreplace({symbol: sp.sympify(given[name]) for name, symbol in named(plain).items()
                          if name in given})  # fmt: skip
    caches = {str(node.base): node.base for node in decoded().atoms(sp.Indexed)}

    def cached(node: sp.Indexed) -> sp.Expr:
        batch, head, _, channel = node.indices
        if str(node.base) == "q":
            return caches["q"][batch, head, 0, channel]
        return caches[f"{node.base}_cache"][node.indices]

    return row.replace(lambda node: isinstance(node, sp.Indexed), cached)


def _in_some_row(expression: sp.Expr) -> sp.Expr:
    """For a row that sees some key."""
    return expression.xreplace(dict.fromkeys(expression.atoms(sp.StrictGreaterThan), sp.true))


def _exponential(expression: sp.Expr) -> sp.Expr:
    """The numerator of softmax: an exponential where the key is seen, else 0."""
    (numerator,) = (
        node for node in _in_some_row(expression).atoms(choice) if isinstance(node.args[0], sp.exp)
    )
    return numerator


def _value(expression: sp.Expr) -> sp.Expr:
    """What the weight of slot j is multiplied by."""
    (value,) = (
        factor for factor in sp.Mul.make_args(expression.function) if not factor.has(sp.exp)
    )
    return value


def _by_numerators(expression: sp.Expr) -> sp.Expr:
    """In a row that sees some key, with names for the numerators and for what meets them."""
    j = _slot()
    by_name = _in_some_row(expression).xreplace({_exponential(expression): _numerator[j]})
    return by_name.xreplace({_value(expression): _values[j]})


def _slot() -> sp.Symbol:
    return named(decoded())["j"]


def _averaged(slots: sp.Expr) -> sp.Expr:
    """The average of the values over so many slots, by the numerators."""
    keys = (_slot(), 0, slots - 1)
    total = sp.Sum(_numerator[_slot()], keys)
    return sp.Sum(_numerator[_slot()] * _values[_slot()] / total, keys)


def _score(slot: sp.Expr) -> sp.Expr:
    """The numerator that the formula gives to a slot: exp(scale q.k - M)."""
    names = named(decoded())
    bases = {str(node.base): node.base for node in decoded().atoms(sp.Indexed)}
    b, h, channel = (names[name] for name in ("b", "h", "l"))
    cached = bases["k_cache"][b, key_head("grouped"), slot, channel]
    product = bases["q"][b, h, 0, channel] * cached
    scaled = names["scale"] * sp.Sum(product, (channel, 0, names["d"] - 1))
    return sp.exp(scaled - shift)


def _slots() -> tuple[Step, ...]:
    """That a decoding query sees the slots below the length, and reads no other."""
    j = _slot()
    numerator, value = _exponential(decoded()), _value(decoded())
    inside, beyond = {_length: j + 1 + _beyond}, {j: _length + _beyond}
    cached = {node for node in decoded().atoms(sp.Indexed) if "cache" in str(node.base)}
    reads = [node for node in decoded().atoms(choice) if node.args[0] in cached]
    return (
        Step("a key and a value are read, under a condition each", len(cached) == len(reads) == 2),
        Step(
            "at a slot n + u neither is: 0 stands for it",
            sp.Matrix([node.subs(beyond) for node in reads]),
        ),
        Step("and the slot's numerator is 0", numerator.subs(beyond)),
        Step(
            "a slot j <= n - 1 is seen: its numerator is exp(scale q.k - M)",
            numerator.subs(inside) - _score(j),
        ),
        Step(
            "and its value is the cached one",
            value.subs(inside) - value.args[0],
        ),
    )


def _first_slots() -> Step:
    return Step(
        "where the places are the first n of all slots, such a sum is one over n keys",
        at_places(any_function(keys), count).replace(lambda node: node == places[a], lambda _: a)
        - sp.Sum(any_function(a), (a, 0, count - 1)),
    )


def _definition() -> tuple[Step, ...]:
    slots = named(decoded())["slots"]
    seen = decoded().atoms(sp.StrictGreaterThan)
    return (
        *_slots(),
        Step(
            "the output is the sum of numerators times values, over that of the numerators",
            _by_numerators(decoded()) - _averaged(slots),
        ),
        *gathering(),
        _first_slots(),
        Step(
            "for n = 0 no slot is seen",
            sp.Matrix([node.lhs.subs(_length, 0).doit() for node in seen]),
        ),
        Step("and the output is 0", decoded().subs(_length, 0).doit()),
    )


def _as_last_row() -> tuple[Step, ...]:
    inside = {_length: _slot() + 1 + _beyond}
    slots = named(decoded())["slots"]
    return (
        *_slots(),
        Step(
            "row n - 1 of causal attention over n tokens has the same numerators",
            _exponential(last_row()).subs(inside) - _exponential(decoded()).subs(inside),
        ),
        Step(
            "and the same values",
            _value(last_row()) - _value(decoded()).subs(inside),
        ),
        Step(
            "both are averages by the numerators: over n keys",
            _by_numerators(last_row()) - _averaged(_length),
        ),
        Step("and over the slots", _by_numerators(decoded()) - _averaged(slots)),
        *gathering(),
        _first_slots(),
    )


def _chunks() -> tuple[Step, ...]:
    seen = sees(Options(ranges=True))
    names = named(seen)
    i, j, offset = names["i"], names["j"], names["offset"]
    right = {names["right"]: sp.S.Zero}
    in_chunk = seen.subs(right).subs(offset, (_past + _length) - _length)
    in_all = seen.subs(right).subs({offset: sp.S.Zero, i: _past + i}, simultaneous=True)
    row = {_length: i + 1 + _beyond}
    return (
        Step(
            "query i of t new tokens after p cached stands at i + s - t with s = p + t, which is "
            "p + i, and sees what row p + i of all tokens sees: with any window",
            in_chunk == in_all,
        ),
        Step(
            "its keys are there already: the last that it sees, p + i, is below p + t",
            sp.expand((_past + _length).subs(row) - (_past + i)).is_positive,
        ),
        Step("a later key is hidden from it", in_all.subs(j, _past + i + 1 + _back) == sp.false),
        *_as_last_row(),
    )


def _windows() -> tuple[Step, ...]:
    numerator, j = _exponential(decoded(window=True)), _slot()
    left = named(decoded(window=True))["left"]
    plain = _exponential(decoded())
    near = {j: _length - 1 - _back, left: _back + _beyond}
    return (
        Step(
            "a key w <= left before the newest is seen as without a window",
            (numerator.subs(near) - plain.subs(near)).subs(_length, _back + 1 + _beyond),
        ),
        Step("one further back is not", numerator.subs(j, _length - 2 - left - _beyond)),
        Step("nor is a slot from the length on", numerator.subs(j, _length + _beyond)),
        Step(
            "a window that counts the newest key itself has left = w - 1: w = 1 shows it alone",
            numerator.subs(left, 0).subs(j, _length - 2 - _beyond),
        ),
    )


_CACHE = Source("004", "3.1 KV Cache", "Keys and values are stored once and read at every step.")

CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="decode_attention.definition",
        number="",
        statement="Decoding is attention of the newest query over the first keys of a cache, as "
        "many as the sequence has; without any it gives 0.",
        latex=r"o=\frac{\sum_{j<n}e^{z_j}v_j}{\sum_{j<n}e^{z_j}}",
        source=_CACHE,
        verdict="holds",
        form="symbolic",
        truth="Zero without keys is a convention.",
        derivation=_definition,
    ),
    Claim(
        id="decode_attention.eq_last_row",
        number="C031",
        statement="Keys and values that are computed once and stored give what computing them anew "
        "gives: the last row of causal attention.",
        latex=r"\mathrm{decode}(q_{n-1},K_{<n},V_{<n})=\mathrm{Attn}_{\mathrm{causal}}(Q,K,V)_{n-1}",
        source=Source("004", "3.1 KV Cache", "Computes K and V once and reuses them."),
        verdict="holds",
        form="symbolic",
        derivation=_as_last_row,
    ),
    Claim(
        id="decode_attention.eq_prefill_of_chunks",
        number="",
        statement="Tokens that are taken in chunks of any lengths, after those that are cached, "
        "get the rows of causal attention over all of them.",
        latex=r"i+s-t=p+i,\quad s=p+t",
        source=_CACHE,
        verdict="holds",
        form="symbolic",
        truth="With the last query aligned with the last key.",
        derivation=_chunks,
    ),
    Claim(
        id="decode_attention.slots_beyond_length_are_not_read",
        number="",
        statement="Slots from the length on may hold anything: no output reads them.",
        latex=r"j\ge n\Rightarrow\partial o/\partial k_j=\partial o/\partial v_j=0",
        source=_CACHE,
        verdict="holds",
        form="symbolic",
        derivation=_slots,
    ),
    Claim(
        id="decode_attention.window_from_newest",
        number="",
        statement="A window shows the newest key and as many as it says before it, and no slot "
        "beyond the length.",
        latex=r"n-1-w\le j\le n-1",
        source=_CACHE,
        verdict="holds",
        form="symbolic",
        truth="A window that counts the newest key shows one fewer before it.",
        derivation=_windows,
    ),
)
