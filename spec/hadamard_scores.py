"""Scores of queries and keys that are both turned by a Hadamard matrix.

Source: document 004 (3.7, DSA). An orthonormal matrix leaves products as they are; roundings and
quantization afterwards do not.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.claim import Claim, Condition, Counterexample, Source, Step
from attnspec.spec.hadamard_energy import product_kept
from attnspec.spec.hadamard_matrices import matrix, printed_two, size
from attnspec.spec.quantize_int8 import exact_scale, the_integers
from attnspec.spec.rotation import block
from attnspec.spec.sums import reduced
from attnspec.spec.symbols import i

_q, _k = (sp.MatrixSymbol(name, size, 1) for name in ("q", "k"))


def _kept() -> tuple[Step, ...]:
    theta, shift = sp.symbols("theta phi", real=True)
    two, printed = matrix(1, "orthonormal"), printed_two()
    entries = sp.ImmutableMatrix(2, 2, sp.symbols("g:4", real=True))
    units = [sp.ImmutableMatrix([1, 0]), sp.ImmutableMatrix([0, 1])]
    query, key = (sp.ImmutableMatrix(sp.symbols(names, real=True)) for names in ("q:2", "k:2"))
    turn = block(theta)
    return (
        *product_kept(_q, _k),
        Step(
            "for all q and k only then: unit vectors read off every entry of H^T H",
            sp.ImmutableMatrix(2, 2, lambda a, b: (units[a].T * entries * units[b])[0]) - entries,
        ),
        Step(
            "with the printed H_2 every score doubles",
            sp.expand(((printed * query).T * (printed * key) - 2 * query.T * key)[0]),
        ),
        Step(
            "turning the query alone gives q^T H^T k, which takes the root of 1/2 from q = k = "
            "(1, 0)",
            ((two * units[0]).T * units[0])[0] - 1 / sp.sqrt(2),
        ),
        Step(
            "a rotary turn after H goes the other way in its plane: H R(theta) H = R(-theta)",
            (two * turn * two - block(-theta)).applyfunc(reduced),
        ),
        Step(
            "as H and R(theta) do not commute: H R - R H has sqrt(2) sin(theta) at its corner",
            reduced((two * turn - turn * two)[0, 0] - sp.sqrt(2) * sp.sin(theta)),
        ),
        Step(
            "before H both turns are kept: (H R(phi) q)^T (H R(theta) k) = q^T R(theta - phi) k",
            reduced(
                (
                    (two * block(shift) * query).T * (two * turn * key)
                    - query.T * block(theta - shift) * key
                )[0]
            ),
        ),
    )


def _doubled() -> Counterexample:
    unit = sp.ImmutableMatrix([1, 0])
    turned = printed_two() * unit
    return Counterexample(
        "q = k = (1, 0), both turned by the printed H_2: score, stated to be q^T k",
        stated=unit.dot(unit),
        actual=turned.dot(turned),
    )


def _quantized_score() -> sp.Expr:
    """(2, 1, 0, 0) turned by H_4 and quantized, multiplied by itself."""
    turned = matrix(2, "orthonormal") * sp.ImmutableMatrix([2, 1, 0, 0])
    back = the_integers(tuple(turned)) * exact_scale(tuple(turned))
    return back.dot(back)


def _no_effect() -> tuple[Step, ...]:
    tiny = sp.Rational(1, 2**26)
    q, k, off, wrong = sp.symbols("q k delta epsilon", real=True)
    sizes = sp.symbols("a b u v", nonnegative=True)
    left, right = sp.symbols("r t", nonnegative=True)
    a, b, u, v = sizes
    h, g = u + left, v + right
    margin = sp.expand((a * g + h * b + h * g) - (a * v + u * b + u * v))
    term = sp.IndexedBase("m", nonnegative=True)
    return (
        *product_kept(_q, _k),
        Step(
            "float32 has steps of 2^-23 above 1: 1 + 2^-26 is stored as 1",
            sp.Integer(round((1 + tiny) * 2**23)) - 2**23,
        ),
        Step(
            "and of 2^-24 below: 1 - 2^-26 too",
            sp.Integer(round((1 - tiny) * 2**24)) - 2**24,
        ),
        Step(
            "so that of (1, 2^-26), turned by the unscaled H_2 and stored, the square 2^-51 of "
            "the second entry is missing from the score",
            (1 + tiny) ** 2 + (1 - tiny) ** 2 - (1 + 1) - sp.Rational(1, 2**51),
        ),
        Step(
            "entries off by delta and epsilon move a product by q epsilon + delta k + delta "
            "epsilon",
            sp.expand((q + off) * (k + wrong) - q * k - (q * wrong + off * k + off * wrong)),
        ),
        Step(
            "errors of sizes u <= h and v <= g: a product of sizes a and b moves by at most "
            "a g + h b + h g",
            margin.is_nonnegative,
        ),
        Step(
            "so a score by at most g ||q||_1 + h ||k||_1 + n h g, as a sum of margins is not "
            "negative",
            sp.Sum(term[i], (i, 0, size - 1)).is_nonnegative,
        ),
        Step(
            "(2, 1, 0, 0) turned by H_4 and quantized has the score 161037/32258 with itself",
            _quantized_score() - sp.Rational(161037, 32258),
        ),
    )


def _quantized_pair() -> Counterexample:
    row = sp.ImmutableMatrix([2, 1, 0, 0])
    return Counterexample(
        "q = k = (2, 1, 0, 0), turned by H_4 and quantized: score, stated to be q^T k",
        stated=row.dot(row),
        actual=_quantized_score(),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="hadamard.joint_turn_keeps_scores",
        number="C158",
        statement="Turning query and key by H leaves their product: q^T k = (Hq)^T (Hk).",
        latex=r"(Hq)^T(Hk)=q^TH^THk=q^Tk",
        source=Source("004", "3.7 DSA", "The product of both turned vectors is the old one."),
        verdict="holds-if",
        form="symbolic",
        conditions=(
            Condition("D1", "H^T H = I, with the factor 1/sqrt(n)"),
            Condition("D2", "the same H turns query and key, and rotary embedding comes before it"),
        ),
        truth="The printed H_2 has no factor, and doubles every score.",
        counterexample=_doubled,
        derivation=_kept,
    ),
    Claim(
        id="hadamard.no_effect_of_exact",
        number="C159",
        statement="The transform has no effect at all on what attention computes.",
        latex=r"|\hat q^T\hat k-q^Tk|\le g\|q\|_1+h\|k\|_1+nhg",
        source=Source("004", "3.7 DSA", "Turning is a matter of numerics, with no effect."),
        verdict="holds-if",
        form="symbolic",
        conditions=(
            Condition("D1", "no sum or product is rounded"),
            Condition("D2", "the turned vectors are not quantized"),
        ),
        truth="Where entries of q and k are off by at most h and g, a score is off by at most "
        "g ||q||_1 + h ||k||_1 + n h g; INT8 has h = (1/2 + 2^-15) steps.",
        counterexample=_quantized_pair,
        derivation=_no_effect,
    ),
)
