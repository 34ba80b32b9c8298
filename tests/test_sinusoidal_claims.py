"""Claims on sinusoidal positions, checked by numbers that know nothing of the
derivations: counterexamples by plain arithmetic, true statements on random inputs."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise, permutations, product
from typing import Any

import ml_dtypes
import mpmath
import numpy as np
import pytest

from attnspec.spec.sinusoidal_precision import BFLOAT16, FLOAT16, first_collision, rounded
from attnspec.spec.turns import UNIT
from tests.registered import shown

Array = np.ndarray[Any, Any]
DIGITS = 50
SIZES = (2, 4, 6, 10, 64)


def frequency(i: int, d: int) -> Any:
    """1 / 10000^(2i/d) by repeated roots and products: no power function."""
    with mpmath.workdps(DIGITS):
        return 1 / mpmath.root(mpmath.mpf(10000) ** (2 * i), d)


def encoding(m: Any, d: int) -> Any:
    """The document's formula, interleaved, in 50 digits."""
    with mpmath.workdps(DIGITS):
        row = []
        for i in range(d // 2):
            row += [mpmath.sin(frequency(i, d) * m), mpmath.cos(frequency(i, d) * m)]
        return row


def dot(a: Any, b: Any) -> Any:
    with mpmath.workdps(DIGITS):
        return mpmath.fdot(zip(a, b, strict=True))


def close(a: Any, b: Any, size: Any = 1) -> bool:
    """Whether two numbers of a given size, computed in 50 digits, agree in 30."""
    return bool(abs(a - b) <= mpmath.mpf(10) ** -30 * size)


# -- counterexamples -----------------------------------------------------------------------------


def test_last_frequency() -> None:
    """At d = 4 there are the frequencies 1 and w with w^2 = 1/10000, not 1/10000."""
    found = shown("sinusoidal.last_frequency")
    assert Fraction(int(found.actual.p), int(found.actual.q)) ** 2 == Fraction(1, 10000)
    assert Fraction(int(found.stated.p), int(found.stated.q)) == Fraction(1, 10000)


def test_an_odd_size_leaves_a_channel() -> None:
    found = shown("sinusoidal.channels")
    filled = {2 * i + k for i in range(5 // 2) for k in (0, 1)}
    assert len(filled) == int(found.actual)
    assert len(set(range(5)) - filled) == int(found.stated) - int(found.actual) == 1


def test_slowest_pair_of_four_channels() -> None:
    """The last frequency w of d = 4 has w^2 = 1/10000, so 1000 w squared is 100."""
    found = shown("sinusoidal.slowest_pair")
    assert int(found.actual) ** 2 == 1000**2 // 10000
    assert Fraction(int(found.stated.p), int(found.stated.q)) == 1000 * Fraction(1, 10000)
    assert int(found.actual) > 2 * math.pi > float(found.stated)


def test_whole_turns_share_an_encoding() -> None:
    found = shown("sinusoidal.unique_of_integers")
    with mpmath.workdps(DIGITS):
        first, second = encoding(0, 4), encoding(200 * mpmath.pi, 4)
        same = all(close(a, b) for a, b in zip(first, second, strict=True))
    assert int(found.stated) == len({0, 1})
    assert int(found.actual) == (1 if same else 2) == 1


def number(exact: Any) -> Any:
    """A counterexample's number in 50 digits."""
    with mpmath.workdps(DIGITS):
        return mpmath.mpf(str(exact.evalf(DIGITS)))


def test_one_channel_read_knows_both_positions() -> None:
    found = shown("sinusoidal.relative_of_commuting_projections")
    with mpmath.workdps(DIGITS):
        scores = []
        for place in (0, 1):
            pair, read = encoding(place, 2), (1, 0)
            scores.append(sum(pair[i] * read[i] * pair[i] for i in range(2)))
        assert scores[0] == number(found.stated) == 0
        assert close(scores[1], number(found.actual))


def softmax_outputs(tokens: list[Any], *, causal: bool) -> list[Any]:
    """Attention with q = k = v = the tokens, one channel each."""
    rows = []
    for i, q in enumerate(tokens):
        seen = tokens[: i + 1] if causal else tokens
        weights = [mpmath.exp(q * k) for k in seen]
        rows.append(mpmath.fdot(zip(weights, seen, strict=True)) / mpmath.fsum(weights))
    return rows


def test_causal_attention_is_not_blind_to_order() -> None:
    found = shown("attention.order_blind_of_no_mask")
    with mpmath.workdps(DIGITS):
        assert close(sum(softmax_outputs([0, 1], causal=True)), number(found.stated))
        assert close(sum(softmax_outputs([1, 0], causal=True)), number(found.actual))
        tokens = [mpmath.mpf(x) for x in np.random.default_rng(2).standard_normal(3).tolist()]
        plain = softmax_outputs(tokens, causal=False)
        for order in permutations(range(3)):
            shuffled = softmax_outputs([tokens[place] for place in order], causal=False)
            assert all(close(shuffled[k], plain[place]) for k, place in enumerate(order))


# -- what is true --------------------------------------------------------------------------------


@pytest.mark.parametrize("d", SIZES)
def test_frequencies(d: int) -> None:
    """From 1, by a constant ratio below 1, to 10000^(-1 + 2/d), which is above 1/10000."""
    found = [frequency(i, d) for i in range(d // 2)]
    with mpmath.workdps(DIGITS):
        last = mpmath.root(mpmath.mpf(10000) ** 2, d) / 10000
        assert found[0] == 1
        assert close(found[-1], last)
        assert found[-1] > mpmath.mpf(1) / 10000
        for before, after in pairwise(found):
            assert after < before
            assert close(after / before, 1 / mpmath.root(mpmath.mpf(10000) ** 2, d))


def test_last_frequency_in_numbers() -> None:
    assert mpmath.nstr(10000 * frequency(255, 512), 5) == "1.0366"
    with mpmath.workdps(DIGITS):
        assert mpmath.nstr(5000 * frequency(255, 512), 3) == "0.518"
        assert mpmath.nstr(mpmath.cos(5000 * frequency(255, 512)), 3) == "0.869"
        assert mpmath.nstr(1000 * frequency(1, 4) / (2 * mpmath.pi), 3) == "1.59"


@pytest.mark.parametrize("d", SIZES)
def test_products_shifts_and_steps(d: int) -> None:
    """Random positions: the product is the kernel of the distance; moving on is one matrix; each
    step is as long as the first; norms are d/2."""
    g = np.random.default_rng(d)
    for m, n in g.integers(0, 10**6, (6, 2)).tolist():
        first, second = encoding(m, d), encoding(n, d)
        with mpmath.workdps(DIGITS):
            kernel = mpmath.fsum(mpmath.cos(frequency(i, d) * (m - n)) for i in range(d // 2))
            assert close(dot(first, second), kernel, d)
            assert close(dot(first, first), mpmath.mpf(d) / 2, d)
            assert close(dot(encoding(m + 17, d), encoding(n + 17, d)), kernel, d)
            assert close(dot(first, encoding(m + 1, d)), dot(second, encoding(n + 1, d)), d)
            for i in range(d // 2):
                (s, c), (x, y) = first[2 * i : 2 * i + 2], second[2 * i : 2 * i + 2]
                turn = frequency(i, d) * (n - m)
                assert close(mpmath.cos(turn) * s + mpmath.sin(turn) * c, x)
                assert close(mpmath.cos(turn) * c - mpmath.sin(turn) * s, y)
                assert close(x * c - y * s, mpmath.sin(turn))


def test_a_near_position_need_not_be_the_most_similar() -> None:
    """The document's own example, positions 5, 6 and 5000: it fails at d = 4, holds at d = 16."""
    for d, holds in ((4, False), (16, True)):
        near, far = (dot(encoding(5, d), encoding(n, d)) for n in (6, 5000))
        assert bool(near > far) is holds
    assert mpmath.nstr(dot(encoding(5, 4), encoding(6, 4)), 5) == "1.5403"
    assert mpmath.nstr(dot(encoding(5, 4), encoding(5000, 4)), 5) == "1.9419"


def test_swings_of_the_walkthrough() -> None:
    rows = [encoding(m, 4) for m in range(4)]
    ranges = [max(column) - min(column) for column in zip(*rows, strict=True)]
    assert [f"{float(x):.5f}" for x in ranges] == ["0.90930", "1.98999", "0.03000", "0.00045"]


def test_integer_positions_differ_on_the_first_pair() -> None:
    """To within float64's own error of sine and cosine, all of 0 to 2000 are apart."""
    positions = np.arange(2001.0)
    pairs = np.stack([np.sin(positions), np.cos(positions)])
    apart = ((pairs[:, :, None] - pairs[:, None, :]) ** 2).sum(0)
    np.fill_diagonal(apart, np.inf)
    assert apart.min() > 1e-9


def stored(table: Array, dtype: str) -> Array:
    """The table in a half-precision format, as bits."""
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.float16
    return table.astype(np.float64).astype(np.float32).astype(kind).view(np.uint16)


@pytest.mark.parametrize(
    ("d", "dtype", "pair"),
    [
        (2, "bfloat16", (1, 711)),
        (2, "float16", (2, 712)),
        (4, "bfloat16", (7, 84830)),
        (4, "float16", None),
    ],
)
def test_first_collisions(d: int, dtype: str, pair: tuple[int, int] | None) -> None:
    """By numpy's sines and the formats' own casts, rather than integers with proved errors."""
    positions = np.arange(84831.0)
    angles = positions[:, None] * 10000.0 ** -(np.arange(0, d, 2) / d)
    bits = stored(np.concatenate([np.sin(angles), np.cos(angles)], 1) + 0.0, dtype)
    bits = np.where(bits == 0x8000, 0, bits)
    seen: dict[bytes, int] = {}
    found = None
    for position, row in enumerate(bits):
        if seen.setdefault(row.tobytes(), position) != position:
            found = seen[row.tobytes()], position
            break
    assert found == pair
    form = BFLOAT16 if dtype == "bfloat16" else FLOAT16
    assert first_collision(d // 2, 84830, form) == pair


def test_rounding_of_known_numbers() -> None:
    """Integers in units of 2^-96 round as the formats' own casts do; an open case is refused."""
    g = np.random.default_rng(5)
    values = g.uniform(-1.0, 1.0, 300) * 2.0 ** g.integers(-16, 1, 300)
    for form, kind in ((BFLOAT16, ml_dtypes.bfloat16), (FLOAT16, np.float16)):
        for value in values.astype(np.float32).astype(np.float64).tolist():
            found = Fraction(rounded(int(Fraction(value) * UNIT), 0, form), UNIT)
            assert found == Fraction(float(np.float32(value).astype(kind)))
    with pytest.raises(ValueError, match="isn't known well enough"):
        rounded(UNIT + (UNIT >> 8), 1, BFLOAT16)


@pytest.mark.parametrize(("kind", "significant"), [(ml_dtypes.bfloat16, 8), (np.float16, 11)])
def test_positions_in_half_precision(kind: Any, significant: int) -> None:
    edge = 2**significant
    whole = np.arange(edge + 2)
    kept = whole.astype(np.float32).astype(kind).astype(np.int64) == whole
    assert kept[:-1].all()
    assert int(np.float32(edge + 1).astype(kind)) == edge


@pytest.mark.parametrize("seed", range(4))
def test_score_of_sums_has_four_terms(seed: int) -> None:
    """In integers, exactly."""
    g = np.random.default_rng(seed)
    d, head = 5, 3
    x_m, x_n, p_m, p_n = g.integers(-9, 10, (4, d))
    w_q, w_k = g.integers(-9, 10, (2, d, head))
    score = int((x_m + p_m) @ w_q @ w_k.T @ (x_n + p_n))
    terms = [int(a @ w_q @ w_k.T @ b) for a, b in product((x_m, p_m), (x_n, p_n))]
    assert score == sum(terms)
    assert len({score, terms[0], terms[0] + terms[3]}) == 3


@pytest.mark.parametrize("seed", range(4))
def test_which_projections_keep_the_displacement(seed: int) -> None:
    """a I + b J on each pair does; a change of one entry, or an entry between pairs, doesn't."""
    g = np.random.default_rng(seed)
    d = 6
    kept = np.zeros((d, d))
    for pair in range(d // 2):
        a, b = g.standard_normal(2)
        kept[2 * pair : 2 * pair + 2, 2 * pair : 2 * pair + 2] = [[a, b], [-b, a]]
    table = np.array([[float(x) for x in encoding(m, d)] for m in range(12)])

    def moved(matrix: Array) -> float:
        """The largest change of a term of positions when both move on by one."""
        scores = table @ matrix @ table.T
        return float(np.abs(scores[1:, 1:] - scores[:-1, :-1]).max())

    # sums of d^2 products of at most 4, in float64
    noise = d**4 * 4.0 * 2.0**-53
    assert moved(kept) <= noise
    for row, column in ((0, 0), (1, 0), (3, 2), (0, 3), (4, 1)):
        changed = kept.copy()
        changed[row, column] += 0.5
        assert moved(changed) > 1e6 * noise
