"""The laws of rope and rope_apply.

Sources: `spec/rope.py` and `spec/rope_definition.py`. Positions go far out: the documents' claims hold at
every position, and so must an implementation, within what float32 angles allow.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnspec.oracle import calls
from attnspec.oracle.calls import alike, close, same
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.expected import Expected, expected
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs, Kind, Law
from attnspec.oracle.precision import snapped
from attnspec.spec import rope_definition

Array = np.ndarray[Any, Any]

DEFAULT_BASE = 10000.0

_ROPE = {
    (layout, direction): rope_definition.rope(layout, direction)
    for layout in rope_definition.LAYOUTS
    for direction in rope_definition.DIRECTIONS
}
_APPLY = {
    (layout, direction): rope_definition.rope_apply(layout, direction)
    for layout in rope_definition.LAYOUTS
    for direction in rope_definition.DIRECTIONS
}


def rope(implementation: Implementation, inputs: Inputs, x: Any = None) -> Expected:
    """The rotated x, of shape b h n d. `x` may be a pair (values, errors) in place of the call's."""
    values = inputs.arrays["x"]
    b, h, n, d = values.shape
    parameters = {
        "batch": b,
        "heads": h,
        "length": n,
        "d": d,
        "r": width(inputs),
        "base": float(inputs.options.get("base", DEFAULT_BASE)),
    }
    arrays = {
        "x": values if x is None else x,
        "positions": np.broadcast_to(inputs.arrays["positions"], (b, n)),
    }
    return expected(_ROPE[_conventions(implementation)], parameters, arrays, implementation.contract)


def rope_apply(implementation: Implementation, inputs: Inputs) -> Expected:
    """x rotated by the tables of the call."""
    x = inputs.arrays["x"]
    b, h, n, d = x.shape
    tables = {
        name: np.broadcast_to(inputs.arrays[name], (b, n, d // 2)) for name in ("cos", "sin")
    }
    return expected(
        _APPLY[_conventions(implementation)],
        {"batch": b, "heads": h, "length": n, "d": d},
        {"x": x, **tables},
        implementation.contract,
    )


def width(inputs: Inputs) -> int:
    """How many channels turn."""
    return int(inputs.options.get("rotary_dim") or inputs.arrays["x"].shape[-1])


def _conventions(implementation: Implementation) -> tuple[str, str]:
    followed = implementation.conventions
    return followed["rope.layout"], followed["rope.direction"]


def _paired(implementation: Implementation, values: Array, r: int) -> tuple[Array, Array]:
    """The first and the second channels of the pairs."""
    if implementation.conventions["rope.layout"] == "interleaved":
        return values[..., 0:r:2], values[..., 1:r:2]
    return values[..., : r // 2], values[..., r // 2 : r]


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
        first, second = _paired(implementation, values, r)
        return first**2 + second**2

    first, second = _paired(implementation, np.abs(actual), r)
    e0, e1 = _paired(implementation, allowance, r)
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
    total = snapped(x + snapped(rng.standard_normal(x.shape), dtype), dtype)
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
    first, second = _paired(implementation, np.arange(d), r)
    pair[first] = pair[second] = np.arange(r // 2)
    together = (pair[:, None] == pair[None, :]) & (pair[:, None] >= 0)
    return ~(together | np.eye(d, dtype=bool))


def own_angles(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """With tables of rope's own angles, rope_apply gives what rope gives."""
    x = inputs.arrays["x"]
    _, _, n, d = x.shape
    rng = generator(inputs, "positions")
    whole = rng.integers(0, 2048, size=n)
    sibling = implementation.sibling("rope")
    if sibling is None:
        return []
    angles = whole[:, None] * DEFAULT_BASE ** (-2.0 * np.arange(d // 2) / d)
    dtype = implementation.dtype
    tables = {"cos": snapped(np.cos(angles), dtype), "sin": snapped(np.sin(angles), dtype)}
    applied = inputs.with_arrays(**tables)
    turned = Inputs("rope", inputs.dtype, {"x": x, "positions": whole}, layout=inputs.layout)
    by_tables, by_positions = rope_apply(implementation, applied), rope(sibling, turned)
    # the tables were rounded: both sides are moved to the exact values of their own inputs
    right = sibling(turned) + (by_tables.value - by_positions.value)
    allowance = by_tables.allowance + by_positions.allowance
    return [alike("output", implementation(applied), right, allowance, dtype)]


def token_alone(inputs: Inputs) -> calls.Alone:
    """One batch entry, one head or one position alone."""
    x, positions = inputs.arrays["x"], inputs.arrays["positions"]
    index, at, axis = _one(inputs)
    if axis == 2:
        positions = positions[..., at : at + 1]
    elif axis == 0 and positions.ndim == 2:
        positions = positions[at : at + 1]
    return inputs.with_arrays(x=x[index], positions=positions), index


def table_row_alone(inputs: Inputs) -> calls.Alone:
    """One batch entry, one head or one row of the tables alone."""
    index, at, axis = _one(inputs)
    tables = {name: inputs.arrays[name] for name in ("cos", "sin")}
    if axis == 2:
        tables = {k: v[..., at : at + 1, :] for k, v in tables.items()}
    elif axis == 0 and tables["cos"].ndim == 3:
        tables = {k: v[at : at + 1] for k, v in tables.items()}
    return inputs.with_arrays(x=inputs.arrays["x"][index], **tables), index


def _one(inputs: Inputs) -> tuple[tuple[Any, ...], int, int]:
    x = inputs.arrays["x"]
    rng = generator(inputs, "row")
    axes = [a for a in range(3) if x.shape[a] > 1] or [0]
    axis = axes[rng.integers(len(axes))]
    at = int(rng.integers(x.shape[axis]))
    index: list[Any] = [slice(None)] * 4
    index[axis] = slice(at, at + 1)
    return tuple(index), at, axis


def others(inputs: Inputs) -> list[Inputs]:
    """Other calls: other positions in the same shape, and twice as many tokens."""
    x, positions = inputs.arrays["x"], inputs.arrays["positions"]
    longer = np.concatenate([positions + 7, positions + 1], axis=-1)
    return [
        inputs.with_arrays(x=-x, positions=(positions + 3).astype(positions.dtype)),
        inputs.with_arrays(
            x=np.concatenate([-x, x[..., ::-1, :]], axis=2),
            positions=longer.astype(positions.dtype),
        ),
    ]


def others_apply(inputs: Inputs) -> list[Inputs]:
    """Other calls: other tables in the same shape, and twice as many tokens."""
    x, cos, sin = (inputs.arrays[name] for name in ("x", "cos", "sin"))
    return [
        inputs.with_arrays(x=-x, cos=sin, sin=cos),
        inputs.with_arrays(
            x=np.concatenate([-x, x[..., ::-1, :]], axis=2),
            cos=np.concatenate([sin, sin], axis=-2),
            sin=np.concatenate([cos, cos], axis=-2),
        ),
    ]


def _law(name: str, says: str, means: str, kind: Kind, check: calls.Check, **more: Any) -> Law:
    component, _ = name.split(".")
    family = more.pop("inputs", component)
    return Law(name, component, says, means, kind, check, inputs=family, **more)


LAWS: tuple[Law, ...] = (
    _law(
        "rope.matches_oracle",
        "channel pairs turn by position * base^(-2i/r), within the derived allowance",
        "angles, pairs or signs are wrong, or something is rounded where the contract forbids it",
        "oracle",
        calls.matches_oracle(rope),
    ),
    _law(
        "rope.relative_displacement",
        "the score of two tokens depends on their positions only through the difference",
        "absolute positions get through: angles are not position times frequency",
        "equivariance",
        relative_displacement,
        inputs="rope_pairs",
    ),
    _law(
        "rope.pair_norms",
        "the length of every channel pair stays",
        "the two partners turn by different angles, or a table is no cosine and sine of one angle",
        "exact",
        pair_norms,
    ),
    _law(
        "rope.group_law",
        "turning by m and then by n is turning by m + n",
        "angles do not grow in proportion to the position",
        "equivariance",
        group_law,
        inputs="rope_pairs",
    ),
    _law(
        "rope.linearity",
        "the rotation of a sum is the sum of the rotations",
        "the result depends on the values other than by rotating them",
        "equivariance",
        linearity,
    ),
    _law(
        "rope.position_zero_is_identity",
        "at position 0 the input comes back",
        "positions are offset, or the tables are not exact where the angle is 0",
        "exact",
        position_zero_is_identity,
        inputs="rope_zero",
    ),
    _law(
        "rope.untouched_channels",
        "channels beyond rotary_dim come back to the bit",
        "the rotary width is ignored, or the rest is copied through a narrower format",
        "exact",
        untouched_channels,
        inputs="rope_partial",
        options=("rotary_dim",),
    ),
    _law(
        "rope.batch_positions",
        "entries of a batch at positions of their own are what they are alone",
        "positions of one entry of the batch are used for the others",
        "reduced",
        batch_positions,
        inputs="rope_batch",
    ),
    _law(
        "rope.basis_planes",
        "a basis vector turns in the plane of its partner and leaves every other channel zero",
        "channels are paired in another layout than the declared one",
        "probe",
        basis_planes,
        inputs="rope_basis",
    ),
    _law(
        "rope.row_alone",
        "a batch entry, head or position alone gives what it gives among others",
        "entries share something that each should have of its own",
        "reduced",
        calls.row_alone(rope, token_alone),
        guarantee="batch-invariant",
    ),
    _law(
        "rope.others_change_nothing",
        "other content at the other places changes no bit of an entry",
        "entries share something that each should have of its own",
        "exact",
        calls.others_change_nothing(token_alone),
        guarantee="mask-exact",
    ),
    *calls.call_laws("rope", rope, others),
    _law(
        "rope_apply.matches_oracle",
        "channel pairs turn by the tables that are given, within the derived allowance",
        "pairs or signs are wrong, or something is rounded where the contract forbids it",
        "oracle",
        calls.matches_oracle(rope_apply),
    ),
    _law(
        "rope_apply.own_angles",
        "with tables of rope's own angles it gives what rope gives",
        "the tables are read in another order than rope's",
        "reduced",
        own_angles,
    ),
    _law(
        "rope_apply.row_alone",
        "a batch entry, head or position alone gives what it gives among others",
        "entries share something that each should have of its own",
        "reduced",
        calls.row_alone(rope_apply, table_row_alone),
        guarantee="batch-invariant",
    ),
    *calls.call_laws("rope_apply", rope_apply, others_apply),
)
