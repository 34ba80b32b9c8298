"""The expression of the Hadamard transform that is evaluated: what it is, and its two forms.

Source: document 004 (3.7, DSA). Lemmas of our own, on which values and allowances rest.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.claim import Claim, Source, Step
from attnspec.spec.definition import either, unmarked
from attnspec.spec.hadamard_definition import hadamard, sign, split
from attnspec.spec.hadamard_matrices import corner
from attnspec.spec.symbols import i, j

_bits = sp.Symbol("bits", integer=True, nonnegative=True)


def _recursion() -> tuple[Step, ...]:
    low, high = corner()
    common, half = sp.symbols("p h", integer=True)
    entry = sign(i, j, _bits).replace(sp.Sum, lambda *_: common)
    room = sp.Symbol("r", integer=True, nonnegative=True)
    place = sp.Symbol("k", integer=True, positive=True)
    digit = sp.Function("f", integer=True)
    share = i / (i + 1 + room)
    return (
        Step("H_1 = 1", sign(sp.S.Zero, sp.S.Zero, sp.S.Zero).doit() - 1),
        Step("below place k the digits of l + a 2^k are those of l", low),
        Step("l / 2^k with l < 2^k is not negative", share.is_nonnegative),
        Step("and below 1, so that it is rounded down to 0", sp.factor(1 - share).is_positive),
        Step("then the digit at place k is that of a", high),
        Step(
            "the count of common digits grows by a a' at place k: by 1 for a = a' = 1, else by 0",
            sp.simplify(
                sp.Sum(digit(j), (j, 0, place))
                - sp.Sum(digit(j), (j, 0, place - 1))
                - sp.Sum(digit(j), (j, place, place))
            ),
        ),
        Step(
            "a = a' = 1 adds one: an even count becomes odd, and the entry changes sign",
            entry.subs(common, 2 * half + 1) + entry.subs(common, 2 * half),
        ),
        Step(
            "an odd one even, and it does too",
            entry.subs(common, 2 * half + 2) + entry.subs(common, 2 * half + 1),
        ),
    )


def _forms(scaling: str) -> tuple[sp.Expr, sp.Expr]:
    """Both forms of the definition, without marks."""
    (both,) = hadamard(scaling).expression.atoms(either)
    first, last = (unmarked(form) for form in both.args)
    return first, last


def _definition() -> tuple[Step, ...]:
    first, _ = _forms("orthonormal")
    plain, _ = _forms("none")
    row, column = (axis for axis, _ in hadamard("none").axes)
    ((entry, _, last),) = plain.limits
    (x,) = (node.base for node in plain.atoms(sp.Indexed))
    bits = hadamard("none").parameters[-1]
    mine = sp.Sum(sign(entry, column, bits) * x[row, entry], (entry, 0, last))
    return (
        Step("without marks the unscaled result is the sum of s_lc x_l over l", plain - mine),
        Step(
            "the orthonormal one is it over the root of n",
            sp.factor_terms(first) - mine / sp.sqrt(last + 1),
        ),
        *_recursion(),
    )


def _apart() -> tuple[Step, ...]:
    first, second = (_forms(scaling) for scaling in ("none", "orthonormal"))
    entry = sp.Symbol("x", real=True)
    terms = {
        (value, way): split(sp.Integer(way), value)
        for value in (sp.Symbol("p", nonnegative=True), sp.Symbol("m", negative=True))
        for way in (1, -1)
    }
    apart = split(sp.Symbol("s"), entry)
    bits = hadamard("none").parameters[-1]
    sums = {node for node in first[1].atoms(sp.Sum) if node.has(sp.Indexed)}
    summands = {node.function for node in sums}
    (((index, *_),),) = {node.limits for node in sums}
    by_term = first[1].xreplace({node: node.function for node in sums})
    (read,) = by_term.atoms(sp.Indexed)
    added, taken = split(sign(index, hadamard("none").axes[1][0], bits), read)
    chosen, left, room = sp.symbols("P_1 P_2 N_1", nonnegative=True)
    rest = sp.Symbol("N_2", nonnegative=True)
    return (
        Step(
            "the definition's sums are of the terms of one entry: four kinds",
            sp.Integer(len(summands) - len(apart[0] + apart[1])),
        ),
        Step(
            "term by term the second form is the positive parts less the negative ones",
            sp.expand(by_term - unmarked(sp.Add(*added) - sp.Add(*taken))),
        ),
        *(
            Step(
                f"an entry {'at least' if value.is_nonnegative else 'below'} 0 of sign {way}: "
                "positive minus negative part is the signed entry",
                sp.Add(*above) - sp.Add(*below) - way * value,
            )
            for (value, way), (above, below) in terms.items()
        ),
        Step(
            "no part is negative",
            all(sp.Add(*part).is_nonnegative for parts in terms.values() for part in parts),
        ),
        Step(
            "the orthonormal form is the unscaled one times 1/sqrt(n)",
            second[1] - first[1] / sp.sqrt(hadamard("none").parameters[1]),
        ),
        Step(
            "P = P_1 + P_2, N = N_1 + N_2: what some terms add up to, P_1 - N_1, is at most P",
            (chosen + left - (chosen - room)).is_nonnegative,
        ),
        Step("and at least -N", (chosen - room + room + rest).is_nonnegative),
    )


def _gradient() -> tuple[Step, ...]:
    first, _ = _forms("orthonormal")
    row, column = (axis for axis, _ in hadamard("orthonormal").axes)
    n, bits = hadamard("orthonormal").parameters[1:]
    (x,) = (node.base for node in first.atoms(sp.Indexed))
    (entry,) = (total.limits[0][0] for total in first.atoms(sp.Sum) if total.has(x))
    place = sp.Symbol("m", integer=True, nonnegative=True)
    upstream = sp.IndexedBase("g", real=True)
    slope = sp.diff(first, x[row, place]).doit()
    inside = slope.replace(sp.Piecewise, lambda *branches: branches[0][0])
    turned = first.replace(
        lambda node: isinstance(node, sp.Indexed), lambda node: upstream[node.indices]
    ).xreplace({column: place})
    summed = sp.Sum(upstream[row, entry] * inside.xreplace({column: entry}), (entry, 0, n - 1))
    return (
        Step("signs are symmetric in row and column", sign(i, j, bits) - sign(j, i, bits)),
        Step(
            "the slope of entry c in x_m is s_mc / sqrt(n)",
            inside - sign(place, column, bits) / sp.sqrt(n),
        ),
        Step(
            "the sum over c of g_c times it is entry m of the transform of g",
            sp.factor_terms(summed) - sp.factor_terms(turned),
        ),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="hadamard.definition",
        number="",
        statement="The expression that the suite evaluates is x times Sylvester's matrix.",
        latex=r"(-1)^{|l\wedge c|},\quad H_{2n}=\begin{pmatrix}H_n&H_n\\H_n&-H_n\end{pmatrix}",
        source=Source("004", "3.7 DSA", "Prints the matrices of sizes 2 and 4."),
        verdict="holds",
        form="symbolic",
        derivation=_definition,
    ),
    Claim(
        id="hadamard.positive_minus_negative",
        number="",
        statement="Positive and negative terms added up apart give the same, and every partial "
        "sum lies between them.",
        latex=r"\textstyle\sum_l s_lx_l=P-N,\quad-N\le\sum_{l\in S}s_lx_l\le P",
        source=Source("004", "3.7 DSA", "The transform mixes the entries of a vector."),
        verdict="holds",
        form="symbolic",
        derivation=_apart,
    ),
    Claim(
        id="hadamard.gradient_eq_transform",
        number="",
        statement="The gradient is the transform of the upstream.",
        latex=r"\nabla_x\langle g,Hx\rangle=H^Tg=Hg",
        source=Source("004", "3.7 DSA", "Prints symmetric matrices."),
        verdict="holds",
        form="symbolic",
        derivation=_gradient,
    ),
)
