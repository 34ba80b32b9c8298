"""A cache of keys and values: how many bytes it takes, and how they compare with its flops.

Source: document 004 (3.1, KV cache). 1 GB is 10^9 bytes.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.attention_cost_definition import ATTENTION_FLOPS, PROJECTION_FLOPS
from attnspec.spec.claim import Claim, Counterexample, Source, Step
from attnspec.spec.decode_attention_definition import decode_attention
from attnspec.spec.definition import Definition, choice
from attnspec.spec.kv_cache import sees_all
from attnspec.spec.kv_cache_definition import elements, held_bytes
from attnspec.spec.multi_head_attention_listing import parameters

_layers, _batch, _heads, _groups, _n, _d, _e, _bits = sp.symbols(
    "layers batch heads groups n d e bits", integer=True, positive=True
)


def counted(definition: Definition, **sizes: sp.Expr | int) -> sp.Expr:
    """A number of things with some sizes given, where all sequences of a batch are n long."""
    names = {str(p): p for p in definition.parameters} | {"n": _n}
    equal = definition.expression.replace(
        lambda node: isinstance(node, sp.Indexed), lambda _: _n
    ).doit()
    return equal.subs({names[name]: given for name, given in sizes.items()})


def _by_arrays() -> tuple[Step, ...]:
    """That the elements are those of the arrays that decoding reads."""
    _, keys, values, _ = decode_attention().arrays
    slots = next(p for p in decode_attention().parameters if str(p) == "slots")
    in_arrays = sp.prod(keys.shape) + sp.prod(values.shape)
    return (
        Step(
            "a layer has as many elements as the arrays of keys and values of full length",
            sp.expand(counted(elements(), layers=1) - in_arrays.subs(slots, _n)),
        ),
        Step(
            "bytes are bits / 8, rounded up: 3 numbers of 4 bits, on 1 layer of d = 2, e = 1, take "
            "2",
            counted(held_bytes(), layers=1, batch=1, groups=1, d=2, e=1, bits=4, n=1) - 2,
        ),
    )


def _stated(
    n: sp.Expr | int, heads: sp.Expr | int, e: sp.Expr | int, wide: sp.Expr | int
) -> sp.Expr:
    """The document's number of bytes: 2 n h d_v times those of an element."""
    return sp.sympify(2 * n * heads * e * wide)


def _layers_count() -> tuple[Step, ...]:
    held = counted(elements(), batch=1, groups=_heads)
    wide = _bits / 8
    stated = _stated(_n, _heads, _e, wide)
    return (
        *_by_arrays(),
        Step(
            "L layers of h heads hold L n h (d_k + d_v) numbers",
            sp.expand(held - _layers * _n * _heads * (_d + _e)),
        ),
        Step(
            "with d_k = d_v that is L times what is stated",
            sp.simplify(held.subs(_d, _e) * wide / stated - _layers),
        ),
        Step(
            "with d_k other than d_v a layer differs by n h (d_k - d_v) numbers",
            sp.expand(held.subs(_layers, 1) * wide - stated - _n * _heads * (_d - _e) * wide),
        ),
        Step(
            "and B sequences take B times as much",
            sp.simplify(counted(elements(), groups=_heads) / held - _batch),
        ),
        Step(
            "in bytes of 16-bit numbers: 2 L n h (d_k + d_v)",
            sp.expand(counted(held_bytes(), batch=1, groups=_heads, bits=16) - 2 * held),
        ),
    )


_SMALL = {"batch": 1, "groups": 1, "d": 1, "e": 1, "n": 1}


def _two_layers() -> Counterexample:
    return Counterexample(
        "two layers of one head, d_k = d_v = 1, one token of 16-bit numbers: bytes",
        stated=_stated(1, 1, 1, 2),
        actual=counted(held_bytes(), layers=2, bits=16, **_SMALL),
    )


def _half_precision() -> tuple[Step, ...]:
    sign, exponent, fraction = sp.Integer(1), sp.Integer(5), sp.Integer(10)
    bits = sign + exponent + fraction
    numbers = counted(elements(), layers=1, **_SMALL)
    return (
        Step("a sign, 5 bits of exponent and 10 of fraction are 16", bits - 16),
        Step("which are 2 bytes of 8", bits / 8 - 2),
        Step(
            "so a cache has 2 bytes a number",
            counted(held_bytes(), layers=1, bits=bits, **_SMALL) / numbers - 2,
        ),
    )


_MILLION = sp.Integer(10) ** 6
_HUNDRED_GB = sp.Integer(10) ** 11


def _million(layers: int = 1, channels: int = 128, n: sp.Integer = _MILLION) -> sp.Expr:
    """Bytes of the document's example: a million tokens, 128 heads, 16-bit numbers."""
    sizes = {"layers": layers, "batch": 1, "groups": 128, "d": channels, "e": channels}
    return counted(held_bytes(), **sizes, bits=16, n=n)


def _million_tokens() -> tuple[Step, ...]:
    return (
        Step("2 10^6 128 128 2 = 65.536 10^9", _million() - 65536 * _MILLION),
        Step(
            "which the stated formula gives too",
            _million() - _stated(_MILLION, 128, 128, 2),
        ),
        Step("half of it with d_v = 64", _million(channels=64) - 32768 * _MILLION),
        Step(
            "and not 100 GB with a million that is 2^20",
            _million(n=sp.Integer(2) ** 20) < _HUNDRED_GB,
        ),
        Step("100 GB need d_v = 196", _million(channels=196) >= _HUNDRED_GB),
        Step("195 is too small", _million(channels=195) < _HUNDRED_GB),
        Step("or 2 layers", _million(layers=2) >= _HUNDRED_GB),
        Step("15 layers stay below 1000 GB", _million(layers=15) < 10 * _HUNDRED_GB),
        Step("16 don't", _million(layers=16) >= 10 * _HUNDRED_GB),
        Step("60 layers take 3.93216 10^12", _million(layers=60) - 3932160 * _MILLION),
    )


def _one_layer() -> Counterexample:
    return Counterexample(
        "a million tokens, 128 heads, d_k = d_v = 128, 16-bit numbers: bytes of one layer, which "
        "the formula counts, stated to be hundreds of 10^9, 10^11 at least",
        stated=_HUNDRED_GB,
        actual=_million(),
    )


def _intensity() -> tuple[Step, ...]:
    names = {str(p): p for p in ATTENTION_FLOPS.parameters}
    newest = {"t": 1, "s": _n, "offset": _n - 1, "right": 0, "left": sp.oo}
    step = ATTENTION_FLOPS.expression.subs({names[name]: given for name, given in newest.items()})
    flops = step.replace(lambda node: isinstance(node, choice), lambda node: node.args[0]).doit()
    read = counted(held_bytes(), layers=1, bits=16)
    sizes = {str(p): p for p in PROJECTION_FLOPS.parameters}
    projected = PROJECTION_FLOPS.expression.subs(sizes["t"], 1)
    weights = parameters(width=sizes["m"])
    return (
        *sees_all(),
        Step(
            "a step takes 2 flops for each channel of key and value that a query head reads",
            sp.expand(flops - 2 * _batch * _heads * _n * (_d + _e)),
        ),
        Step(
            "and reads the cache once: with 16 bits h / g flops a byte, whatever the batch and the "
            "length",
            sp.simplify(flops / read - _heads / _groups),
        ),
        Step(
            "1 with a key head for every query head",
            sp.simplify((flops / read).subs(_groups, _heads) - 1),
        ),
        Step(
            "weights of 16 bits are read once for a batch: as many flops a byte as sequences",
            sp.simplify(projected / (2 * weights) - _batch),
        ),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="kv_cache.elements_of_arrays",
        number="",
        statement="A cache holds d + e numbers for each layer, sequence, key head and token.",
        latex=r"L\,g\,(d+e)\sum_bn_b",
        source=Source("004", "3.1 KV Cache", "Keys and values are held in memory."),
        verdict="holds",
        form="symbolic",
        derivation=_by_arrays,
    ),
    Claim(
        id="kv_cache.bytes_of_all_layers",
        number="C033",
        statement="A cache across all heads and all layers takes 2 n h d_v times the bytes of a "
        "number.",
        latex=r"L\,n\,h\,(d_k+d_v)\cdot\mathrm{bytes}",
        source=Source("004", "3.1 KV Cache", "A formula for the cache of every head and layer."),
        verdict="corrected",
        form="symbolic",
        truth="L n h (d_k + d_v) numbers for each sequence of a batch: the formula leaves out the "
        "layers and the batch, and has d_v for d_k.",
        counterexample=_two_layers,
        derivation=_layers_count,
    ),
    Claim(
        id="kv_cache.two_bytes_of_float16",
        number="C034",
        statement="A number of FP16 takes 2 bytes.",
        latex=r"(1+5+10)/8=2",
        source=Source("004", "3.1 KV Cache", "Gives 2 bytes as an example, for FP16."),
        verdict="holds",
        form="exact",
        derivation=_half_precision,
    ),
    Claim(
        id="kv_cache.bytes_of_million_tokens",
        number="C035",
        statement="With a million tokens and 128 heads the formula gives hundreds of gigabytes.",
        latex=r"2\cdot10^6\cdot128\cdot128\cdot2=65.536\cdot10^9",
        source=Source("004", "3.1 KV Cache", "Hundreds of gigabytes at 1M tokens, 128 heads."),
        verdict="corrected",
        form="exact",
        truth="65.5 GB with d_v = 128, 32.8 GB with 64. Hundreds need d_v of 196 or more, or 2 to "
        "15 layers; 60 layers take 3.93 TB.",
        counterexample=_one_layer,
        derivation=_million_tokens,
    ),
    Claim(
        id="kv_cache.flops_per_byte",
        number="C036",
        statement="The cache, not arithmetic, is the bottleneck of serving long contexts.",
        latex=r"\frac{2h(d+e)n}{2g(d+e)n}=\frac hg",
        source=Source("004", "3.1 KV Cache", "Sees the bottleneck in the cache, not in compute."),
        verdict="empirical",
        form="symbolic",
        truth="Which is slower is a matter of the machine. Attention over a cache of 16-bit "
        "numbers does h / g flops for each byte that it reads, 1 in MHA, at any batch and length; "
        "with weights a batch shares the reading.",
        derivation=_intensity,
    ),
)
