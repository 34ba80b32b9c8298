"""Claims about sparse attention, against plain fractions and loops."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from tests.registered import numbers


def test_output_is_off_where_weight_is_left_out() -> None:
    """C162: two keys of weight 1/2 each, values 0 and 1, the first alone."""
    values = [Fraction(0), Fraction(1)]
    means = tuple(sum(seen, Fraction(0)) / len(seen) for seen in (values, values[:1]))
    assert numbers("sparse_attention.error_eq_weight_left_out") == means


def test_error_is_the_weight_left_out_times_the_difference() -> None:
    """C162: rational exponentials, several channels, exactly; and the bound by the diameter."""
    g = np.random.default_rng(0)
    for _ in range(100):
        n = int(g.integers(2, 9))
        kept = sorted(g.permutation(n)[: int(g.integers(1, n))].tolist())
        left = [j for j in range(n) if j not in kept]
        e = [Fraction(int(x), 16) for x in g.integers(1, 100, n)]
        v = [[Fraction(int(x), 8) for x in row] for row in g.integers(-50, 50, (n, 3))]

        def output(
            keys: list[int], e: list[Fraction] = e, v: list[list[Fraction]] = v
        ) -> list[Fraction]:
            total = sum((e[j] for j in keys), Fraction(0))
            return [sum((e[j] * v[j][c] for j in keys), Fraction(0)) / total for c in range(3)]

        whole, mine, others = output(list(range(n))), output(kept), output(left)
        share = sum((e[j] for j in left), Fraction(0)) / sum(e, Fraction(0))
        off = [a - b for a, b in zip(whole, mine, strict=True)]
        assert off == [share * (a - b) for a, b in zip(others, mine, strict=True)]
        diameter = max(sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) for x in v for y in v)
        assert sum(x * x for x in off) <= share**2 * diameter


def test_pairs_and_cost() -> None:
    """C160: counted one by one."""
    for n, k in ((1, 1), (5, 2), (40, 7)):
        scored = sum(1 for t in range(n) for s in range(n) if s <= t)
        attended = sum(min(t + 1, k) for t in range(n))
        assert scored == n * (n + 1) // 2
        assert attended == n * k - k * (k - 1) // 2
    index, full = 64 * 128, 128 * (576 + 512)
    assert full == 17 * index
    for n in (2048, 10**6):
        dense, sparse = full * n * (n + 1) // 2, index * n * (n + 1) // 2 + full * n * 2048
        assert dense < 17 * sparse


def test_cache() -> None:
    """C161: latents of two bytes, index keys of one and a scale of four."""
    latent = np.zeros(512 + 64, np.float16).nbytes
    key = np.zeros(128, np.int8).nbytes + np.zeros(1, np.float32).nbytes
    assert (latent, key) == (1152, 132)
    assert Fraction(key, latent) == Fraction(11, 96)
