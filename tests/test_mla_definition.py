"""The definitions of multi-head latent attention against loops: values, enclosures, gradients, the
cache and decoding, and allowances against eager code in several orders of products."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import mpmath
import numpy as np
import pytest
import sympy as sp

from attnspec.oracle.adjoint import gradients
from attnspec.oracle.balls import BALLS, BOTH_FORMS, midpoints, precision, radii
from attnspec.oracle.compiler import compiled
from attnspec.oracle.errors import errors_of
from attnspec.oracle.float64 import FLOAT64
from attnspec.oracle.plan import Plan, planned
from attnspec.oracle.precision import EVALUATION, contract, snapped
from attnspec.oracle.source import source
from attnspec.spec import mla_definition
from attnspec.spec.definition import Definition
from attnspec.spec.exact_values import entry_value
from attnspec.spec.mla_definition import CALLS, mla, mla_absorbed, mla_decode
from attnspec.spec.mla_scores import Options
from tests.emulation import STYLES, Emulated
from tests.mla_loops import WEIGHTS, Sizes, by_loops, drawn, key_of, rotary_keys, shapes

Array = np.ndarray[Any, Any]
DOUBLE = errors_of(contract("float64", {"angles": "float64"}))
"""By default angles may be formed in float32: these tests form them in double precision too."""
ORDERS = (mla, mla_absorbed)
DECODED = ("x", "c_kv", "k_rope", "w_dq", "w_uq", "w_qr", "w_uk", "w_uv", "w_o")


def named(options: Options) -> str:
    seen = "causal" if options.causal else "full"
    return f"{options.layout}-{options.direction}-{seen}"


def run(definition: Definition, sizes: Sizes, arrays: dict[str, Any]) -> tuple[Array, Array]:
    """The value, and how far any evaluation in float64 may be from the exact one."""
    key, tape = key_of(definition, sizes), compiled(definition)
    value = planned(tape, FLOAT64, key)(arrays)
    _, error = planned(tape, DOUBLE, key)(arrays)
    return value, error


def cached(sizes: Sizes, arrays: dict[str, Array], options: Options) -> dict[str, Array]:
    """Arguments of decoding: the last token, and the cache of all."""
    made = {name: arrays[name] for name in DECODED if name in arrays}
    keys = rotary_keys(arrays, sizes, options)
    return {**made, "x": arrays["x"][:, -1:], "c_kv": arrays["x"] @ arrays["w_dkv"], "k_rope": keys}


@pytest.mark.parametrize("options", CALLS, ids=named)
def test_both_orders_are_the_loops(options: Options) -> None:
    for seed in range(4):
        sizes, arrays = drawn(seed)
        right = by_loops(arrays, sizes, options)
        for make in ORDERS:
            value, error = run(make(options), sizes, arrays)
            assert value.shape == right.shape
            # two evaluations in float64 differ by no more than twice what one may be off
            assert (np.abs(value - right) <= 2.0 * error).all()


@pytest.mark.parametrize("scaling", ["scores", "query", "key", "both"])
def test_the_scale_may_stand_anywhere(scaling: str) -> None:
    options = Options(scaling=scaling)
    for seed in range(4):
        sizes, arrays = drawn(seed)
        right = by_loops(arrays, sizes, options)
        for make in ORDERS:
            value, error = run(make(options), sizes, arrays)
            assert (np.abs(value - right) <= 2.0 * error).all()


@pytest.mark.parametrize("options", CALLS[::2], ids=named)
def test_cache_and_decoding(options: Options) -> None:
    """What is cached, and that decoding from it is the last row of prefill."""
    for seed in range(4):
        sizes, arrays = drawn(seed)
        given = cached(sizes, arrays, options)
        made = (mla_definition.cached_latent(), mla_definition.cached_key(options))
        for name, definition in zip(("c_kv", "k_rope"), made, strict=True):
            value, error = run(definition, sizes, arrays)
            assert value.shape == given[name].shape
            assert (np.abs(value - given[name]) <= 2.0 * error).all()
        last = by_loops(arrays, sizes, options)[:, -1:]
        value, error = run(mla_decode(options), sizes, given)
        # the loops' own cache is off, too: its errors enter as those of arrays
        key = key_of(mla_decode(options), sizes)
        pairs = {n: run(d, sizes, arrays) for n, d in zip(("c_kv", "k_rope"), made, strict=True)}
        _, room = planned(compiled(mla_decode(options)), DOUBLE, key)({**given, **pairs})
        assert value.shape == last.shape
        assert (room >= error).all()
        assert (np.abs(value - last) <= 2.0 * room).all()


SMALL: Sizes = {
    "batch": 1, "heads": 2, "length": 3, "width": 3, "query_latent": 2, "latent": 5, "rotary": 4,
    "d": 3, "e": 2, "base": 5.0,
}  # fmt: skip


def small(seed: int) -> dict[str, Array]:
    g = np.random.default_rng(seed)
    return {name: g.standard_normal(shape) for name, shape in shapes(SMALL).items()}


@pytest.mark.parametrize("options", CALLS[::3], ids=named)
def test_enclosures_hold_the_value_in_sixty_digits(options: Options) -> None:
    """Loops over mpmath's numbers; and both forms of each number overlap."""
    arrays = small(1)
    with mpmath.workdps(60):
        exact_sizes = {**SMALL, "base": mpmath.mpf(SMALL["base"])}
        lifted = {name: np.vectorize(mpmath.mpf, otypes=[object])(a) for name, a in arrays.items()}
        right = by_loops(lifted, exact_sizes, options, mpmath)
        for make in ORDERS:
            key = key_of(make(options), SMALL)
            with precision():
                balls = planned(compiled(make(options)), BALLS, key)(arrays)
                planned(compiled(make(options)), BOTH_FORMS, key)(arrays)
                width = radii(balls)
            _, error = planned(compiled(make(options)), DOUBLE, key)(arrays)
            assert (width < 2.0**-20 * error).all()
            for at in np.ndindex(balls.shape):
                middle = mpmath.mpf(balls[at].mid().str(50, radius=False))
                radius = mpmath.mpf(balls[at].rad().str(10, radius=False)) * 2
                assert abs(right[at] - middle) <= radius


def test_both_orders_of_decoding_overlap() -> None:
    sizes, arrays = drawn(2)
    given = cached(sizes, arrays, Options())
    with precision():
        balls = planned(compiled(mla_decode(Options())), BOTH_FORMS,
                        key_of(mla_decode(Options()), sizes))(given)  # fmt: skip
        high, _ = midpoints(balls)
    value, error = run(mla_decode(Options()), sizes, given)
    assert (np.abs(high - value) <= error).all()


def test_conventions_differ() -> None:
    """Values tell the conventions apart: a test in which two agreed would see no difference."""
    arrays = small(8)
    found = [run(mla(options), SMALL, arrays) for options in CALLS]
    for (first, room), (second, _) in combinations(found, 2):
        assert np.abs(first - second).max() > 2.0**20 * room.max()


@pytest.mark.parametrize("options", CALLS[1::3], ids=named)
@pytest.mark.parametrize("make", ORDERS)
def test_gradients_are_those_of_a_complex_step(make: Any, options: Options) -> None:
    sizes, arrays = drawn(11)
    g = np.random.default_rng(12)
    upstream = g.standard_normal(arrays["x"].shape)
    names = ("x", *WEIGHTS)
    tape = gradients(make(options), names)
    results = planned(tape, DOUBLE, key_of(make(options), sizes))({**arrays, "upstream": upstream})
    step = 2.0**-100
    for name, (value, error) in zip(names, results, strict=True):
        assert value.shape == arrays[name].shape
        for at in {tuple(int(g.integers(size)) for size in value.shape) for _ in range(3)}:
            moved = {key: array.astype(complex) for key, array in arrays.items()}
            moved[name][at] += 1j * step
            slope = float((by_loops(moved, sizes, options).imag / step * upstream).sum())
            assert abs(slope - value[at]) <= 2.0 * error[at], name


def test_gradients_of_decoding_are_differences_in_balls() -> None:
    """Central differences at 400 bits with a step of 2^-120: right to 2^-200 of the values."""
    import flint

    options, g = Options(), np.random.default_rng(3)
    given = cached(SMALL, small(5), options)
    definition = mla_decode(options)
    key, tape = key_of(definition, SMALL), compiled(definition)
    upstream = g.standard_normal((SMALL["batch"], 1, SMALL["width"]))
    step = flint.arb(2) ** -120
    with precision(400):
        right = planned(gradients(definition, DECODED), BALLS, key)({**given, "upstream": upstream})
        lifted = {name: BALLS.lift(array) for name, array in given.items()}
        weights = BALLS.lift(upstream)
        for name, gradient in zip(DECODED, right, strict=True):
            assert gradient.shape == given[name].shape
            at = tuple(int(g.integers(size)) for size in gradient.shape)
            ends = []
            for sign in (1, -1):
                moved = lifted[name].copy()
                moved[at] = moved[at] + sign * step
                ends.append(np.sum(planned(tape, BALLS, key)({**given, name: moved}) * weights))
            slope = (ends[0] - ends[1]) / (2 * step)
            assert abs(float(slope - gradient[at])) <= 2.0**-120, name


@pytest.mark.parametrize("make", ORDERS)
def test_exact_entries_are_those_of_the_tape(make: Any) -> None:
    """The evaluation by sympy, on whole numbers."""
    sizes: Sizes = {
        "batch": 1, "heads": 2, "length": 2, "width": 2, "query_latent": 1, "latent": 1,
        "rotary": 2, "d": 1, "e": 1, "base": 3,
    }  # fmt: skip
    arrays = {
        "x": [[[1, 2], [-1, 1]]], "w_dq": [[1], [2]], "w_uq": [[1, -1]], "w_qr": [[1, 0, 1, 2]],
        "w_dkv": [[1], [1]], "w_uk": [[2, 1]], "w_uv": [[1, 3]], "w_kr": [[1, 0], [0, 1]],
        "w_o": [[1, 2], [0, 1]],
    }  # fmt: skip
    definition = make(Options(scaling="scores"))
    given = {name: np.array(values, float) for name, values in arrays.items()}
    value, error = run(definition, sizes, given)
    for at in np.ndindex(value.shape):
        exact = entry_value(definition, sizes, arrays, at)
        assert abs(sp.N(exact, 30) - sp.Float(float(value[at]), 30)) <= 2.0 * error[at]


@pytest.mark.parametrize("make", [*ORDERS, mla_decode])
def test_printed_source_computes_what_the_tape_does(make: Any) -> None:
    sizes, arrays = drawn(5)
    definition = make(Options())
    given = cached(sizes, arrays, Options()) if make is mla_decode else arrays
    text = source(compiled(definition))
    scope: dict[str, Any] = {"np": np}
    exec(text, scope)  # the text is ours: running it is the test
    order = [given[str(a.label)] for a in definition.arrays]
    printed = scope[definition.name](*order, **dict(key_of(definition, sizes)))
    value, error = run(definition, sizes, given)
    assert (np.abs(printed - value) <= 2.0 * error).all()
    assert "may be rounded as activations" in text


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("make", ORDERS)
def test_no_emulated_rounding_leaves_the_allowance(make: Any, dtype: str) -> None:
    """Each mark and operation rounded at random and as badly as possible."""
    g = np.random.default_rng(7)
    rules, definition = contract(dtype), make(Options())
    tape = compiled(definition)
    for seed in range(6):
        sizes, arrays = drawn(seed)
        given = {name: snapped(array, dtype) for name, array in arrays.items()}
        key = key_of(definition, sizes)
        v, e = planned(tape, errors_of(rules), key)(given)
        for style in STYLES:
            actual = Plan(tape, Emulated(rules, g, style), dict(key))(given)
            assert (np.abs(actual - v) <= e * (1 + EVALUATION)).all(), style
