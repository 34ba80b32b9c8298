"""The laws of sinusoidal.

Sources: the claims of `spec/sinusoidal.py` and its neighbours. Positions go far out, as those of
rope do. No law is about the bits of a row among other rows: vectorized sines take a slower way for
a whole vector where one of its angles is large. Allowances are those of the right angles, so that
a law which wrong angles satisfy in exact numbers may still reject larger ones for their roundings.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from attnspec.oracle import calls
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs, Kind, Law
from attnspec.oracle.sinusoidal_checks import (
    angle_addition,
    distinct_positions,
    every_other_pair,
    frequencies_read_off,
    nearer_is_more_similar,
    permuted_positions,
    position_zero,
    product_of_distance,
    shift_is_a_rotation,
    step_is_constant,
    unit_pairs,
)
from attnspec.oracle.sinusoidal_values import base, sinusoidal

Array = np.ndarray[Any, Any]


def row_alone(inputs: Inputs) -> calls.Alone:
    """One position alone."""
    positions = inputs.arrays["positions"]
    place = int(generator(inputs, "row").integers(len(positions)))
    index = slice(place, place + 1)
    return inputs.with_arrays(positions=positions[index]), index


def others(implementation: Implementation, inputs: Inputs) -> list[Inputs]:
    """Other calls: other positions in the same shape, another base, twice as many positions, fewer
    of them, and wider rows."""
    positions = inputs.arrays["positions"]
    index = positions.dtype
    longer = np.concatenate([positions + 7, positions[::-1] + 1]).astype(index)
    between = [
        inputs.with_arrays(positions=(positions + 3).astype(index)),
        inputs.with_arrays(positions=longer),
        inputs.with_arrays(positions=longer[: len(longer) // 4]),
        inputs.with_numbers(dim=inputs.numbers["dim"] + 2),
    ]
    if implementation.accepts("base"):
        options = {**inputs.options, "base": 2.0 * base(inputs)}
        between.append(replace(inputs, options=options, drawn=b""))
    return between


def _law(name: str, says: str, means: str, kind: Kind, check: calls.Check, **more: Any) -> Law:
    family = more.pop("inputs", "sinusoidal")
    claims = tuple(f"sinusoidal.{claim}" for claim in more.pop("claims", ()))
    rejects, blind = (
        tuple(f"sinusoidal.{fault}" for fault in more.pop(field, ()))
        for field in ("rejects", "blind_to")
    )
    return Law(
        f"sinusoidal.{name}", "sinusoidal", says, means, kind, check,
        inputs=family, claims=claims, rejects=rejects, blind_to=blind, **more,
    )  # fmt: skip


LAWS: tuple[Law, ...] = (
    _law(
        "matches_oracle",
        "channels 2i and 2i + 1 are sine and cosine of position * base^(-2i/dim), within the "
        "derived allowance",
        "angles, channels or signs are wrong, or something is rounded where the contract forbids "
        "it",
        "oracle",
        calls.matches_oracle(sinusoidal),
        claims=("definition", "channels", "defined_at_every_position"),
        rejects=(
            "base_ignored",
            "positions_ignored",
            "positions_in_int16",
            "sine_negated",
            "short_circle",
            "angles_in_storage",
            "computed_in_storage",
        ),
    ),
    _law(
        "position_zero",
        "the row of position 0 is 0, 1, 0, 1, ...",
        "positions are offset, sines and cosines change places, or the row stands for padding",
        "exact",
        position_zero,
        inputs="sinusoidal_zero",
        claims=("channels",),
        rejects=(
            "position_plus_one",
            "sine_and_cosine_exchanged",
            "padding_row_zero",
        ),
        blind_to=("base_ignored", "sine_negated", "exponent_positive"),
    ),
    _law(
        "unit_pairs",
        "the squares of a pair's sine and cosine add up to 1",
        "the two have different angles, or a pair is missing",
        "exact",
        unit_pairs,
        claims=("unit_pairs",),
        rejects=(
            "cosine_a_channel_on",
            "exponent_doubled",
            "last_pair_left_out",
            "partial_tile_of_rows",
            "concatenated_layout",
            "table_in_bfloat16",
        ),
        blind_to=("sine_negated", "base_ignored"),
    ),
    _law(
        "frequencies_read_off",
        "from one position to the next pair i turns by base^(-2i/dim): pair 0 by 1, the last by "
        "base^(-(dim-2)/dim)",
        "the exponent of the frequencies is another one, or angles run backwards",
        "probe",
        frequencies_read_off,
        inputs="sinusoidal_first",
        claims=(
            "frequencies",
            "first_frequency",
            "last_frequency",
            "frequencies_fall",
            "slowest_pair",
        ),
        rejects=(
            "exponent_without_two",
            "exponent_odd",
            "frequencies_evenly_spaced",
            "integer_division",
            "frequencies_in_bfloat16",
        ),
        blind_to=("positions_in_bfloat16", "positions_clamped"),
    ),
    _law(
        "every_other_pair",
        "pair i is pair 2i of twice as many channels",
        "the exponent is not the pair over the number of pairs",
        "equivariance",
        every_other_pair,
        inputs="sinusoidal_pairs",
        claims=("frequencies",),
        rejects=("exponent_reaches_one",),
        blind_to=("sine_negated", "frequencies_in_bfloat16"),
    ),
    _law(
        "angle_addition",
        "the row of m + k is that of m, turned by that of k",
        "angles do not grow in proportion to the position",
        "equivariance",
        angle_addition,
        inputs="sinusoidal_pairs",
        claims=("angle_addition", "shift_is_a_rotation"),
        rejects=("positions_modulo_table",),
        blind_to=("sine_negated",),
    ),
    _law(
        "shift_is_a_rotation",
        "one rotation, the same for every position, takes each row to that k positions on",
        "angles do not grow in proportion to the position",
        "equivariance",
        shift_is_a_rotation,
        inputs="sinusoidal_pairs",
        claims=("shift_is_a_rotation", "displacement_from_two_encodings"),
        rejects=("positions_in_float16",),
        blind_to=("sine_negated",),
    ),
    _law(
        "product_of_distance",
        "the product of two rows depends on the distance of their positions alone, and is dim/2 "
        "for one and the same",
        "rows are not of length sqrt(dim/2), or absolute positions get through",
        "equivariance",
        product_of_distance,
        inputs="sinusoidal_pairs",
        claims=("product_of_distance", "product_is_sum_of_cosines", "any_length"),
        rejects=("scaled_by_width",),
        blind_to=("sine_and_cosine_exchanged", "concatenated_layout"),
    ),
    _law(
        "step_is_constant",
        "neighbours are equally far apart at every position",
        "neighbouring positions become the same number, or a table ends",
        "equivariance",
        step_is_constant,
        inputs="sinusoidal_distinct",
        claims=("step_is_constant", "smooth", "neighbors_of_half_positions"),
        rejects=("positions_in_bfloat16",),
        blind_to=("sine_negated", "base_ignored"),
    ),
    _law(
        "nearer_is_more_similar",
        "up to a distance of 3 the nearer of two rows is the more similar one",
        "a pair turns by more than 1 from one position to the next: frequencies rise with the pair",
        "exact",
        nearer_is_more_similar,
        inputs="sinusoidal_pairs",
        claims=("similarity_is_not_monotone", "requirements"),
        rejects=("exponent_positive",),
        blind_to=("position_plus_one", "sine_negated"),
    ),
    _law(
        "distinct_positions",
        "different positions have different rows, unless an allowed rounding makes them equal",
        "positions are clamped, wrap round, or become the same number",
        "exact",
        distinct_positions,
        inputs="sinusoidal_distinct",
        claims=("unique_of_integers", "no_integer_period", "collisions_of_half_precision"),
        rejects=("positions_clamped",),
        blind_to=("position_plus_one", "sine_negated", "base_ignored"),
    ),
    _law(
        "permuted_positions",
        "positions in another order, some of them twice, give the same rows in that order",
        "a row depends on where it stands, or on the positions of others",
        "equivariance",
        permuted_positions,
        guarantee="batch-invariant",
        inputs="sinusoidal_pairs",
        claims=("depends_on_own_index",),
        rejects=("consecutive_from_first", "rows_sorted"),
        blind_to=("sine_negated", "base_ignored"),
    ),
    _law(
        "row_alone",
        "a position alone gives the row that it gives among others",
        "positions are counted from the first of the call",
        "reduced",
        calls.row_alone(sinusoidal, row_alone),
        guarantee="batch-invariant",
        inputs="sinusoidal_pairs",
        claims=("depends_on_own_index",),
        rejects=("positions_from_first",),
        blind_to=("sine_negated", "base_ignored"),
    ),
    *calls.call_laws(
        "sinusoidal",
        sinusoidal,
        others,
        {
            "inputs_unchanged": ("sinusoidal.writes_over_positions",),
            "repeatable": ("sinusoidal.last_pair_races",),
            "views_equal_copies": ("sinusoidal.positions_read_as_contiguous",),
            "no_memory": (
                "sinusoidal.cached_by_length",
                "sinusoidal.table_of_first_base",
                "sinusoidal.rows_of_longest_call",
                "sinusoidal.buffer_handed_out",
            ),
            "output_form": ("sinusoidal.result_in_float32",),
            "empty_batch": ("sinusoidal.largest_of_none",),
        },
        two_runs="sinusoidal_pairs",
    ),
)
