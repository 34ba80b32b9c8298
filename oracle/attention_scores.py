"""The checks of attention's laws about the scores: they are read off through logarithms of weights.

Sources: `spec/attention_definition.py`; softmax weights have the ratio exp(z_a - z_b), so that
ln(w_a / w_b) is the difference of two scores. No sampling: queries run over the rows of a Hadamard
matrix where unit variance of the scaled scores is at stake (document 000).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from attnspec.oracle.attention_calls import changed, key_heads, plain, sizes, two_runs
from attnspec.oracle.attention_probes import reading, signs_of
from attnspec.oracle.attention_values import attention, log_sum_exp, scale_of
from attnspec.oracle.calls import alike
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.expected import Expected
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs
from attnspec.oracle.precision import FORMATS, snapped
from attnspec.oracle.rounding import formed
from attnspec.oracle.spread import spread_of_log

Array = np.ndarray[Any, Any]

ORDERS = (2, 4, 8, 16, 32, 64, 128)
"""Of the Hadamard matrices that queries run over."""


def _power_of_two(value: float) -> float:
    """The smallest power of two that is not below a positive number."""
    fraction, exponent = math.frexp(value)
    return 2.0 ** (exponent - 1 if fraction == 0.5 else exponent)


def _log_ratio(actual: Array, right: Expected) -> tuple[Array, Array]:
    """ln(w_0 / w_1) of the weights in the first two channels, and how far it may be off."""
    with np.errstate(all="ignore"):
        logs = np.log(actual[..., :2])
        room = spread_of_log(right.value[..., :2], logs, right.allowance[..., :2], 0.0)
        ratio: Array = logs[..., 0] - logs[..., 1]
    size = np.abs(np.log(np.maximum(right.value[..., :2], FORMATS["float64"].normal)))
    return ratio, room.sum(axis=-1) + formed(size.sum(axis=-1), 4)


def _short(dtype: str) -> bool:
    """Whether numbers far below 1 leave the range of the dtype, as in float16."""
    return FORMATS[dtype].normal > 2.0**-100


def _two_of(inputs: Inputs) -> Array:
    """Two drawn keys, in any order."""
    return generator(inputs, "two keys").permutation(sizes(inputs)[3])[:2]


def _queries_and_keys(
    implementation: Implementation, inputs: Inputs, keys: Array
) -> tuple[Array, Array]:
    """Queries and keys of which two are to be told apart. Scores are normal numbers of order 1,
    or 8 where they are stored wide enough and weights as small are numbers of the dtype. Where
    they are stored in half precision they are about 1 and -1, from one drawn channel, as the
    roundings of more leave too little to be seen."""
    rng = generator(inputs, "scores")
    shapes, d = [inputs.arrays[name].shape for name in ("q", "k")], inputs.arrays["q"].shape[-1]
    if implementation.contract.format("scores").roundoff > 2.0**-20:
        size, only = scale_of(inputs) ** -0.5, np.arange(d) == rng.integers(d)
        q, k = (rng.uniform(0.75, 1.5, size=n) * rng.choice([-1.0, 1.0], size=n) for n in shapes)
        k[:, :, keys[1]] = -k[:, :, keys[0]]
        return snapped(q * only * size, inputs.dtype), snapped(k * only * size, inputs.dtype)
    size = (scale_of(inputs) * math.sqrt(d)) ** -0.5
    wide = 1.0 if _short(inputs.dtype) else rng.choice([1.0, 8.0])
    q, k = (np.clip(rng.standard_normal(shape), -3.0, 3.0) for shape in shapes)
    return snapped(q * size, inputs.dtype), snapped(k * size * wide, inputs.dtype)


def scale_read(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The weights of two keys have the logarithmic ratio scale * q.(k_a - k_b)."""
    scale, d = scale_of(inputs), inputs.arrays["q"].shape[-1]
    if sizes(inputs)[3] < 2:
        return []
    keys = _two_of(inputs)
    q, k = _queries_and_keys(implementation, inputs, keys)
    call = reading(implementation, changed(plain(inputs), q=q, k=k), keys)
    if call is None:
        return []
    actual, room = _log_ratio(implementation(call), attention(implementation, call))
    pair = k[:, key_heads(implementation, inputs)][:, :, keys]
    products = np.einsum("bhtd,bhpd->bhtp", q, pair) * scale
    size = np.einsum("bhtd,bhpd->bhtp", np.abs(q), np.abs(pair)).sum(axis=-1) * scale
    step = products[..., 0] - products[..., 1]
    room += formed(size, d + 4)
    return [alike("ln of a ratio of weights", actual, step, room, "float64")]


def hadamard(order: int) -> Array:
    """The Sylvester matrix of an order that is a power of two, entries 1 and -1."""
    matrix = np.ones((1, 1))
    while len(matrix) < order:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix


def mean_square_of_scores(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """With queries over the rows of a Hadamard matrix of order d and a key of signs the scaled
    scores have mean square 1 exactly, as their squares add up to d |k|^2 / d."""
    b, h, _, s = sizes(inputs)
    g, e = inputs.arrays["k"].shape[1], inputs.arrays["v"].shape[-1]
    rng = generator(inputs, "Hadamard")

    def call(order: int, q: Array, k: Array) -> Inputs:
        arrays = {"q": np.broadcast_to(q, (b, h, order, order)),
                  "k": np.broadcast_to(k, (b, g, s, order))}  # fmt: skip
        return changed(plain(inputs), {"scale": None}, v=np.zeros((b, g, s, e)), **arrays)

    zero = np.zeros((1, 1))
    legal = [order for order in ORDERS if implementation.legal(call(order, zero, zero))]
    if not legal:
        return []
    # mostly one of the smallest; as the roundings of d channels add up, bfloat16 says little of
    # more than four
    coarse = FORMATS[inputs.dtype].roundoff > 2.0**-10
    order = int(rng.choice(legal[: 2 if coarse else 4 if rng.integers(4) else None]))
    keys = _two_of(inputs)
    signs = signs_of(inputs, "signs", (b, g, 1, order))
    k = np.broadcast_to(signs, (b, g, s, order))
    return _squares(implementation, call(order, hadamard(order), k), keys)


def _squares(implementation: Implementation, call: Inputs, keys: Array) -> list[Comparison]:
    """The mean square of the scores of keys that are all the same: from their log-sum-exp, and
    from the weights of two keys that are half of it, once with the other sign."""
    k, s = call.arrays["k"], sizes(call)[3]
    result = []
    if len(keys) > 1:
        halves = np.zeros_like(k)
        halves[:, :, keys[0]], halves[:, :, keys[1]] = 0.5 * k[:, :, 0], -0.5 * k[:, :, 0]
        weighed = reading(implementation, changed(call, k=halves), keys)
        if weighed is not None:
            right = attention(implementation, weighed)
            scores, room = _log_ratio(implementation(weighed), right)
            result.append(_mean_square("from weights", scores, room))
    if implementation.accepts("return_lse"):
        logs = changed(call, {"return_lse": True})
        scores = implementation.parts(logs)[1] - math.log(s)
        room = log_sum_exp(implementation, logs).allowance + formed(np.abs(scores) + 4.0, 4)
        result.append(_mean_square("from lse", scores, room))
    return result


def _mean_square(how: str, scores: Array, room: Array) -> Comparison:
    squares = (scores**2).mean(axis=-1)
    allowance = ((2.0 * np.abs(scores) + room) * room).mean(axis=-1)
    allowance = allowance + formed(squares, scores.shape[-1] + 2)
    what = f"mean square of the scaled scores {how}"
    return alike(what, squares, np.ones_like(squares), allowance, "float64")


def scale_moves(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """A factor of the queries is a factor of the scale."""
    q, scale = inputs.arrays["q"], scale_of(inputs)
    for factor in 2.0 ** generator(inputs, "factor").permutation([-2, -1, 1, 2]):
        if np.array_equal(snapped(q * factor, inputs.dtype), q * factor):
            other = changed(inputs, {"scale": scale / factor}, q=q * factor)
            what = f"{factor:g} times the queries, scale over {factor:g}"
            return two_runs(what, implementation, changed(inputs), other)
    return []


def softcap_limits(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """No two weights differ by more than twice the cap, in logarithms, and far above the cap they
    nearly do; far below the cap there is none."""
    call = plain(inputs)
    # low enough for the quotient of a score and the cap to be a normal number of the dtype
    distant = 2.0**6 if _short(inputs.dtype) else 2.0**20
    capped = changed(call, {"softcap": distant})
    none, some = attention(implementation, call), attention(implementation, capped)
    first, second = implementation(call), implementation(capped)
    # little is left of the cap there, and that is known
    first = first + (some.value - none.value)
    allowance = none.allowance + some.allowance + formed(np.abs(first), 3)
    what = f"softcap={distant:g} beside none"
    beside = alike(what, second, first, allowance, implementation.dtype)
    return [beside, *_saturated(implementation, call, scale_of(inputs))]


def _saturated(implementation: Implementation, call: Inputs, scale: float) -> list[Comparison]:
    """One key four to eight caps above zero and one as far below; beside a bias too, the same for
    all keys of a row, which moves no ratio."""
    if sizes(call)[3] < 2:
        return []
    d, cap = call.arrays["q"].shape[-1], 2.0 ** generator(call, "cap").integers(-1, 2)
    size = _power_of_two(4.0 * cap / (d * scale))
    signs = signs_of(call, "direction", (d,))
    q = np.broadcast_to(signs * size, call.arrays["q"].shape).copy()
    k = np.zeros_like(call.arrays["k"])
    keys = _two_of(call)
    k[:, :, keys[0]], k[:, :, keys[1]] = signs, -signs
    capped = changed(call, {"softcap": cap}, q=q, k=k)
    if generator(call, "beside a bias").integers(2):
        capped = _with_row_bias(implementation, capped)
    read = reading(implementation, capped, keys)
    if read is None:
        return []
    actual, room = _log_ratio(implementation(read), attention(implementation, read))
    right = np.full_like(actual, 2.0 * cap * math.tanh(scale * d * size / cap))
    return [alike("ln of a ratio of capped weights", actual, right, room, "float64")]


def _with_row_bias(implementation: Implementation, call: Inputs) -> Inputs:
    """The call with one number for all keys of a row as its bias, if it may have one."""
    if not implementation.accepts("bias"):
        return call
    b, h, t, s = sizes(call)
    numbers = generator(call, "bias of rows").choice([-1.0, -0.5, 0.5, 1.0], size=(b, h, t, 1))
    return changed(call, bias=np.broadcast_to(numbers, (b, h, t, s)).copy())
