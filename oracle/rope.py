"""The laws of rope.

Sources: the claims of `spec/rope.py` and its neighbours. Positions go far out: the documents'
claims hold at every position, and so must an implementation, within what float32 angles allow.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from attnspec.oracle import calls
from attnspec.oracle.law import Implementation, Inputs, Kind, Law
from attnspec.oracle.rope_checks import (
    basis_planes,
    batch_positions,
    group_law,
    linearity,
    pair_norms,
    position_zero_is_identity,
    relative_displacement,
    untouched_channels,
)
from attnspec.oracle.rope_values import DEFAULT_BASE, one_entry, rope

Array = np.ndarray[Any, Any]


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
        inputs="rope_alike",
        claims=("rope.definition", "rope.components"),
        rejects=(
            "rope.backward",
            "rope.last_pair_left_out",
            "rope.wide_heads_cut",
            "rope.partial_tile_of_tokens",
            "rope.tables_in_storage",
            "rope.positions_in_bfloat16",
            "rope.positions_in_int16",
            "rope.frequencies_in_bfloat16",
            "rope.angles_in_storage",
            "rope.short_circle",
            "rope.exponent_without_two",
            "rope.exponent_odd",
            "rope.exponent_reaches_one",
            "rope.integer_division",
            "rope.exponent_over_model_width",
            "rope.frequencies_of_head_width",
            "rope.base_ignored",
            "rope.positions_ignored",
            "rope.consecutive_from_first",
            "rope.positions_from_first",
            "rope.positions_clamped",
            "rope.token_axis_guessed",
        ),
    ),
    _law(
        "relative_displacement",
        "the score of two tokens depends on their positions only through the difference",
        "absolute positions get through: angles are not position times frequency",
        "equivariance",
        relative_displacement,
        inputs="rope_pairs",
        claims=("rope.relative_displacement",),
        rejects=("rope.positions_in_float16",),
        blind_to=("rope.backward", "rope.last_pair_left_out"),
    ),
    _law(
        "pair_norms",
        "the length of every channel pair stays",
        "the two partners turn by different angles, or a table is no cosine and sine of one angle",
        "exact",
        pair_norms,
        inputs="rope_pairs",
        claims=("rope.orthogonal",),
        rejects=(
            "rope.half_table_on_pairs",
            "rope.sine_sign",
            "rope.second_from_turned_first",
            "rope.amplitude",
            "rope.offset_swapped",
        ),
        blind_to=("rope.backward",),
    ),
    _law(
        "group_law",
        "turning by m and then by n is turning by m + n",
        "angles do not grow in proportion to the position",
        "equivariance",
        group_law,
        inputs="rope_pairs",
        claims=("rope.group_law",),
        rejects=("rope.tables_cached_by_length",),
        blind_to=("rope.backward",),
    ),
    _law(
        "linearity",
        "the rotation of a sum is the sum of the rotations",
        "the result depends on the values other than by rotating them",
        "equivariance",
        linearity,
        claims=("rope.components",),
        rejects=("rope.channels_clipped",),
        blind_to=("rope.backward", "rope.sine_sign"),
    ),
    _law(
        "position_zero_is_identity",
        "at position 0 the input comes back",
        "positions are offset, or the tables are not exact where the angle is 0",
        "exact",
        position_zero_is_identity,
        inputs="rope_zero",
        claims=("rope.group_law",),
        rejects=("rope.float32_inside", "rope.position_plus_one"),
        blind_to=(
            "rope.half_layout",
            "rope.backward",
            "rope.exponent_without_two",
            "rope.base_ignored",
            "rope.frequencies_in_bfloat16",
        ),
    ),
    _law(
        "untouched_channels",
        "channels beyond rotary_dim come back to the bit",
        "the rotary width is ignored, or the rest is copied through a narrower format",
        "exact",
        untouched_channels,
        inputs="rope_partial",
        options=("rotary_dim",),
        claims=("rope.partial_splits",),
        rejects=("rope.rotary_dim_ignored", "rope.tail_in_bfloat16"),
    ),
    _law(
        "batch_positions",
        "entries of a batch at positions of their own are what they are alone",
        "positions of one entry of the batch are used for the others",
        "reduced",
        batch_positions,
        inputs="rope_batch",
        rejects=("rope.first_rows_positions",),
    ),
    _law(
        "basis_planes",
        "a basis vector turns in the plane of its partner and leaves every other channel zero",
        "channels are paired in another layout than the declared one",
        "probe",
        basis_planes,
        inputs="rope_basis",
        claims=("rope.blocks_of_all_pairs",),
        rejects=("rope.half_layout", "rope.pair_table_on_halves"),
    ),
    _law(
        "row_alone",
        "a batch entry, head or position alone gives what it gives among others",
        "entries share something that each should have of its own",
        "reduced",
        calls.row_alone(rope, token_alone),
        guarantee="batch-invariant",
        inputs="rope_pairs",
        rejects=("rope.head_major_positions",),
    ),
    _law(
        "others_change_nothing",
        "other content at the other places changes no bit of an entry",
        "entries share something that each should have of its own",
        "exact",
        calls.others_change_nothing(token_alone),
        guarantee="mask-exact",
        rejects=("rope.copy_races_with_rotation",),
    ),
    *calls.call_laws(
        "rope",
        rope,
        others,
        {
            "inputs_unchanged": ("rope.writes_over_input",),
            "repeatable": ("rope.copy_races_with_rotation",),
            "views_equal_copies": ("rope.reads_as_contiguous", "rope.positions_read_as_contiguous"),
            "no_memory": (
                "rope.base_of_first_call",
                "rope.longer_base_kept",
                "rope.tables_of_longest_call",
                "rope.buffer_handed_out",
            ),
            "output_form": ("rope.result_in_float32",),
            "empty_batch": ("rope.empty_batch_flattened",),
        },
        two_runs="rope_pairs",
    ),
)
