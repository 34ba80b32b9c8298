"""The laws of rope.

Sources: the claims of `spec/rope.py` and its neighbours. Positions go far out: the documents'
claims hold at every position, and so must an implementation, within what float32 angles allow.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from attnspec.oracle import calls
from attnspec.oracle.calls import alike, close, same
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs, Kind, Law
from attnspec.oracle.precision import snapped
from attnspec.oracle.rope_values import DEFAULT_BASE, one_entry, paired, rope, width

Array = np.ndarray[Any, Any]


def _scores(q: Array, k: Array) -> Array:
    return q @ np.swapaxes(k, -1, -2)


def relative_displacement(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The scores of all pairs of tokens, before and after one shift of all positions."""
    positions = inputs.arrays["positions"]
    room = 2**17 - int(positions.max(initial=0))
    steps = [s for s in (1, 16, 256, 2048, 65536, 131071) if s <= room] or [1]
    shift = steps[generator(inputs, "shift").integers(len(steps))]
    later = inputs.with_arrays(positions=(positions + shift).astype(positions.dtype))
    unit = _unit(inputs)
    first, second = implementation(inputs) * unit, implementation(later) * unit
    errors = [rope(implementation, one).allowance * unit for one in (inputs, later)]
    allowance = sum(
        2.0 * _scores(np.abs(y), e) + _scores(e, e)
        for y, e in zip((first, second), errors, strict=True)
    )
    allowance = np.maximum(allowance, np.swapaxes(allowance, -1, -2))
    what = f"scores after a shift by {shift}"
    return [alike(what, _scores(second, second), _scores(first, first), allowance, "float64")]


def _unit(inputs: Inputs) -> float:
    """The power of two that brings the largest channel to about 1, so that squares, which are
    formed in float64 here, neither overflow nor vanish."""
    largest = float(np.abs(inputs.arrays["x"]).max(initial=0.0))
    return 2.0 ** -np.frexp(largest)[1] if largest > 2.0**-1000 else 1.0


def pair_norms(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The squared length of every pair, before and after."""
    r, unit = width(inputs), _unit(inputs)
    actual = implementation(inputs) * unit
    allowance = rope(implementation, inputs).allowance * unit

    def squares(values: Array) -> Array:
        first, second = paired(implementation, values, r)
        result: Array = first**2 + second**2
        return result

    first, second = paired(implementation, np.abs(actual), r)
    e0, e1 = paired(implementation, allowance, r)
    room = 2.0 * (first * e0 + second * e1) + e0**2 + e1**2
    before = squares(inputs.arrays["x"] * unit)
    return [alike("squared length of a pair", squares(actual), before, room, "float64")]


def group_law(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Turning twice is turning by the sum of the positions."""
    positions = inputs.arrays["positions"]
    rng = generator(inputs, "second")
    more = rng.integers(0, 300, size=positions.shape).astype(positions.dtype)
    once = implementation(inputs)
    then = inputs.with_arrays(x=once, positions=more)
    both = inputs.with_arrays(positions=positions + more)
    one = rope(implementation, inputs)
    second = rope(implementation, then, x=(once, one.allowance))
    allowance = second.allowance + rope(implementation, both).allowance
    layout = "contiguous"
    twice = implementation(then, layout=layout)
    return [
        alike(
            "turned twice",
            twice,
            implementation(both, layout=layout),
            allowance,
            implementation.dtype,
        )
    ]


def linearity(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The rotation of a sum is the sum of the rotations."""
    x, dtype = inputs.arrays["x"], implementation.dtype
    rng = generator(inputs, "summand")
    drawn: Array = rng.standard_normal(x.shape)
    total = snapped(x + snapped(drawn, dtype), dtype)
    other = snapped(total - x, dtype)
    # a summand that the dtype cannot hold exactly is left out
    other = np.where(x + other == total, other, 0.0)
    total = x + other
    calls_ = [inputs.with_arrays(x=values) for values in (x, other, total)]
    one, two, both = (implementation(c, layout="contiguous") for c in calls_)
    allowance = sum(rope(implementation, c).allowance for c in calls_)
    return [alike("rotation of a sum", both, one + two, np.asarray(allowance), dtype)]


def position_zero_is_identity(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """At position 0 nothing turns."""
    return [same("output", implementation(inputs), inputs.arrays["x"], implementation.dtype)]


def untouched_channels(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Channels beyond the rotary width come back as they were."""
    r = width(inputs)
    actual = implementation(inputs)
    return [
        same(
            f"channels {r} and on",
            actual[..., r:],
            inputs.arrays["x"][..., r:],
            implementation.dtype,
        )
    ]


def batch_positions(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Entries of a batch at positions of their own are what they are alone."""
    x, positions = inputs.arrays["x"], inputs.arrays["positions"]
    allowance = rope(implementation, inputs).allowance
    whole = implementation(inputs, layout="contiguous")
    result = []
    for row in range(x.shape[0]):
        part = inputs.with_arrays(x=x[row : row + 1], positions=positions[row])
        alone = implementation(part, layout="contiguous")
        both = 2.0 * allowance[row : row + 1]
        what = f"batch entry {row}"
        result.append(alike(what, whole[row : row + 1], alone, both, implementation.dtype))
    return result


def basis_planes(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """A basis vector turns in the plane of one partner: all other channels stay zero, and in the
    plane stand the cosine and the sine of its pair's angle."""
    right = rope(implementation, inputs)
    actual = implementation(inputs)
    outside = right.value == 0.0
    outside &= np.broadcast_to(_out_of_plane(implementation, inputs), outside.shape)
    zero = np.zeros(int(outside.sum()))
    return [
        same("outside of the plane", actual[outside], zero, implementation.dtype),
        close("cosine and sine", actual, right, implementation.dtype),
    ]


def _out_of_plane(implementation: Implementation, inputs: Inputs) -> Array:
    """Where a basis vector's image must vanish: [..., n, d], row n being basis vector n."""
    d, r = inputs.arrays["x"].shape[-1], width(inputs)
    pair = np.full(d, -1)
    first, second = paired(implementation, np.arange(d), r)
    pair[first] = pair[second] = np.arange(r // 2)
    together: Array = (pair[:, None] == pair[None, :]) & (pair[:, None] >= 0)
    return np.logical_not(together | np.eye(d, dtype=bool))


def token_alone(inputs: Inputs) -> calls.Alone:
    """One batch entry, one head or one position alone."""
    x, positions = inputs.arrays["x"], inputs.arrays["positions"]
    index, at, axis = one_entry(inputs)
    if axis == 2:
        positions = positions[..., at : at + 1]
    elif axis == 0 and positions.ndim == 2:
        positions = positions[at : at + 1]
    return inputs.with_arrays(x=x[index], positions=positions), index


def others(implementation: Implementation, inputs: Inputs) -> list[Inputs]:
    """Other calls: other positions in the same shape, other options, twice as many tokens."""
    x, positions = inputs.arrays["x"], inputs.arrays["positions"]
    longer = np.concatenate([positions + 7, positions + 1], axis=-1)
    options = dict(inputs.options)
    if implementation.accepts("base"):
        options["base"] = 2.0 * float(options.get("base", DEFAULT_BASE))
    if implementation.accepts("rotary_dim"):
        options["rotary_dim"] = 2
    return [
        inputs.with_arrays(x=-x, positions=(positions + 3).astype(positions.dtype)),
        replace(inputs, options=options),
        inputs.with_arrays(
            x=np.concatenate([-x, x[..., ::-1, :]], axis=2),
            positions=longer.astype(positions.dtype),
        ),
    ]


def _law(name: str, says: str, means: str, kind: Kind, check: calls.Check, **more: Any) -> Law:
    family = more.pop("inputs", "rope")
    return Law(f"rope.{name}", "rope", says, means, kind, check, inputs=family, **more)


LAWS: tuple[Law, ...] = (
    _law(
        "matches_oracle",
        "channel pairs turn by position * base^(-2i/r), within the derived allowance",
        "angles, pairs or signs are wrong, or something is rounded where the contract forbids it",
        "oracle",
        calls.matches_oracle(rope),
    ),
    _law(
        "relative_displacement",
        "the score of two tokens depends on their positions only through the difference",
        "absolute positions get through: angles are not position times frequency",
        "equivariance",
        relative_displacement,
        inputs="rope_pairs",
    ),
    _law(
        "pair_norms",
        "the length of every channel pair stays",
        "the two partners turn by different angles, or a table is no cosine and sine of one angle",
        "exact",
        pair_norms,
    ),
    _law(
        "group_law",
        "turning by m and then by n is turning by m + n",
        "angles do not grow in proportion to the position",
        "equivariance",
        group_law,
        inputs="rope_pairs",
    ),
    _law(
        "linearity",
        "the rotation of a sum is the sum of the rotations",
        "the result depends on the values other than by rotating them",
        "equivariance",
        linearity,
    ),
    _law(
        "position_zero_is_identity",
        "at position 0 the input comes back",
        "positions are offset, or the tables are not exact where the angle is 0",
        "exact",
        position_zero_is_identity,
        inputs="rope_zero",
    ),
    _law(
        "untouched_channels",
        "channels beyond rotary_dim come back to the bit",
        "the rotary width is ignored, or the rest is copied through a narrower format",
        "exact",
        untouched_channels,
        inputs="rope_partial",
        options=("rotary_dim",),
    ),
    _law(
        "batch_positions",
        "entries of a batch at positions of their own are what they are alone",
        "positions of one entry of the batch are used for the others",
        "reduced",
        batch_positions,
        inputs="rope_batch",
    ),
    _law(
        "basis_planes",
        "a basis vector turns in the plane of its partner and leaves every other channel zero",
        "channels are paired in another layout than the declared one",
        "probe",
        basis_planes,
        inputs="rope_basis",
    ),
    _law(
        "row_alone",
        "a batch entry, head or position alone gives what it gives among others",
        "entries share something that each should have of its own",
        "reduced",
        calls.row_alone(rope, token_alone),
        guarantee="batch-invariant",
    ),
    _law(
        "others_change_nothing",
        "other content at the other places changes no bit of an entry",
        "entries share something that each should have of its own",
        "exact",
        calls.others_change_nothing(token_alone),
        guarantee="mask-exact",
    ),
    *calls.call_laws("rope", rope, others),
)
