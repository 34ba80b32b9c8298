"""The gradient of T5's table: a sum over the pairs of each bucket.

Source: our own derivation; document 004 (3.4, T5) says that the numbers are learned.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.claim import Claim, Source, Step
from attnspec.spec.definition import Definition, choice
from attnspec.spec.t5_bias_definition import displacement, t5_bias
from attnspec.spec.t5_bucket_definition import bucket

_row, _above = sp.symbols("r u", integer=True, nonnegative=True)
_other = sp.Symbol("g", integer=True, nonnegative=True)
_bucket = sp.Symbol("b", integer=True, nonnegative=True)
_WAYS = ((True, "both directions"), (False, "one direction"))


def table_gradient(*, bidirectional: bool) -> Definition:
    """upstream[h, i, j] -> the gradient of table[r, h]: the upstream of every pair in bucket r."""
    made = t5_bias(bidirectional=bidirectional)
    (h, heads), (i, t), (j, s) = made.axes
    upstream = sp.IndexedBase("upstream", shape=(heads, t, s), real=True)
    read = bucket(displacement(i, j, t, s), bidirectional=bidirectional)
    named = choice(upstream[h, i, j], sp.Eq(read, _row), sp.Integer(0))
    rows, _ = made.arrays[0].shape
    return Definition(
        f"t5_bias.{'both' if bidirectional else 'one'}.table",
        sp.Sum(named, (j, 0, s - 1), (i, 0, t - 1)),
        ((_row, rows), (h, heads)),
        (upstream,),
        made.parameters,
    )


def _added_up() -> tuple[Step, ...]:
    steps: list[Step] = []
    for both, name in _WAYS:
        made, closed = t5_bias(bidirectional=both), table_gradient(bidirectional=both)
        table, (h, _) = made.arrays[0], made.axes[0]
        total = closed.expression
        (entry,) = made.expression.atoms(sp.Indexed)
        read, head = entry.indices
        # that bucket of the pair, whichever it is
        of_bucket = made.expression.xreplace({read: _bucket})
        term = total.function.xreplace({read: _bucket})
        (_, i, j) = (axis for axis, _ in made.axes)
        upstream = closed.arrays[0][h, i, j]
        steps += [
            Step(
                f"{name}: an entry of the bias is the table's own of its bucket and head",
                made.expression - table[read, head],
            ),
            Step(
                f"{name}: its slope in table[r, g] is 1 where r is its bucket and g its head",
                sp.diff(of_bucket, table[_row, _other])
                - sp.KroneckerDelta(_bucket, _row) * sp.KroneckerDelta(h, _other),
            ),
            Step(f"{name}: a term is the upstream where the bucket is r",
                 term.subs(_row, _bucket) - upstream),
            Step(f"{name}: nothing where it is below", term.subs(_row, _bucket + 1 + _above)),
            Step(f"{name}: nor above", term.subs(_bucket, _row + 1 + _above)),
            Step(
                f"{name}: over all queries and keys",
                sp.Matrix([
                    bound - wanted
                    for limit, (_, size) in zip(total.limits, (made.axes[2], made.axes[1]),
                                                strict=True)
                    for bound, wanted in zip(limit[1:], (0, size - 1), strict=True)
                ]),
            ),
        ]  # fmt: skip
    return tuple(steps)


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="t5_bias.table_gradient",
        number="",
        statement="The gradient of an entry of the table is the sum of the gradients of the pairs "
        "whose distance is in its bucket; of a bucket without a pair it is 0.",
        latex=r"\partial\ell/\partial\beta_{h,r}=\sum_{i,j:\,\mathrm{bucket}(j-i)=r}u_{hij}",
        source=Source("004", "3.4 T5", "Learned parameters by head and bucket."),
        verdict="holds",
        form="symbolic",
        derivation=_added_up,
    ),
)
