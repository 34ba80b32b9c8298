"""The laws of learned_positions.

Sources: the claims of `spec/learned_positions.py`. A lookup computes nothing: rows come back to
the bit, and only the gradient of the table has an allowance. What is stored in rows that no token
reads is finite in every call: a one-hot product, which is a good implementation, would turn a NaN
there into one everywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnspec.oracle import calls
from attnspec.oracle.calls import close, same
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.expected import Expected
from attnspec.oracle.gradient_laws import gradient_laws
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs, Kind, Law
from attnspec.oracle.learned_positions_values import learned_positions, readers, table_gradient
from attnspec.oracle.precision import FORMATS
from attnspec.oracle.upstream import upstream_of

Array = np.ndarray[Any, Any]


def row_read_off(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """In a table of which every row holds its number, the number that a token gets back is that
    of the row it read."""
    positions, table = inputs.arrays["positions"], inputs.arrays["table"]
    wanted = np.broadcast_to(positions[:, None], (len(positions), table.shape[1])) * 1.0
    actual = implementation(inputs)
    return [same("number of the row that was read", actual, wanted, implementation.dtype)]


def other_rows_change_nothing(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Other numbers in the rows that no token reads."""
    unread = readers(inputs) == 0
    if not unread.any():
        return []
    other = inputs.arrays["table"].copy()
    other[unread] = np.where(other[unread] == 0.0, 1.0, -other[unread])
    layout = "contiguous"
    plain = implementation(inputs, layout=layout)
    among = implementation(inputs.with_arrays(table=other), layout=layout)
    return [same("rows beside others of other content", among, plain, implementation.dtype)]


def outside_is_an_error(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """One token outside of the table, among tokens within it or alone. On the CPU: elsewhere a
    check takes the device to a stop, or costs a transfer, and kernels leave it out."""
    if implementation.device != "cpu":
        return []
    positions, rows = inputs.arrays["positions"], len(inputs.arrays["table"])
    rng = generator(inputs, "outside")
    beyond = (rows, -1, rows + 5, -rows, 2 * rows, -rows - 1, 2**30)
    position = beyond[int(rng.integers(len(beyond)))]
    moved = positions.copy()
    moved[int(rng.integers(len(moved)))] = position
    what = f"position {position} in a table of {rows} rows"
    return calls.refused(implementation, inputs.with_arrays(positions=moved), what)


def gradient_counts_readers(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """From an upstream of ones, which every dtype counts exactly as far as these calls go."""
    table = inputs.arrays["table"]
    ones = np.ones((len(inputs.arrays["positions"]), table.shape[1]))
    actual = implementation.gradients(inputs, ones)["table"]
    wanted = np.broadcast_to(readers(inputs)[:, None], table.shape) * 1.0
    return [same("tokens that read the row", actual, wanted, implementation.dtype)]


def gradient_of_unread_rows(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Exactly zero."""
    unread = readers(inputs) == 0
    if not unread.any():
        return []
    actual = implementation.gradients(inputs, upstream_of(inputs))["table"][unread]
    what = "gradient of rows that no token read"
    return [same(what, actual, np.zeros_like(actual), implementation.dtype)]


def along(implementation: Implementation, inputs: Inputs, direction: Array) -> Expected:
    """Rows are read, so that the derivative along a direction of the table is what is read in it:
    to the bit."""
    return learned_positions(implementation, inputs.with_arrays(table=direction))


def long_sums(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """From the first token of every row an upstream so large that half precision holds no 1 beside
    it, from the others ones, which are counted all the same."""
    positions, width = inputs.arrays["positions"], FORMATS[inputs.dtype].width
    upstream = np.ones((len(positions), inputs.arrays["table"].shape[1]))
    _, first = np.unique(positions, return_index=True)
    upstream[first] = 2.0**width if width < FORMATS["float32"].width else 1.0
    actual = implementation.gradients(inputs, upstream)["table"]
    right = table_gradient(implementation, inputs, upstream)["table"]
    return [close("gradient of the table, a long sum", actual, right, implementation.dtype)]


def others(implementation: Implementation, inputs: Inputs) -> list[Inputs]:
    """Other calls: another table of the same shape, other positions, a longer table."""
    positions, table = inputs.arrays["positions"], inputs.arrays["table"]
    return [
        inputs.with_arrays(table=np.ascontiguousarray(-table[::-1])),
        inputs.with_arrays(positions=np.ascontiguousarray(len(table) - 1 - positions)),
        inputs.with_arrays(
            positions=np.concatenate([positions, positions + len(table)]),
            table=np.concatenate([table, -table]),
        ),
    ]


def _law(name: str, says: str, means: str, kind: Kind, check: calls.Check, **more: Any) -> Law:
    family = more.pop("inputs", "learned_positions")
    return Law(
        f"learned_positions.{name}", "learned_positions", says, means, kind, check,
        inputs=family, **more,
    )  # fmt: skip


LAWS: tuple[Law, ...] = (
    _law(
        "matches_oracle",
        "a token at position p gets row p of the table, to the bit",
        "other rows are read, or their numbers are changed on the way",
        "oracle",
        calls.matches_oracle(learned_positions),
        claims=("learned_positions.definition",),
        rejects=(
            "learned_positions.positions_ignored",
            "learned_positions.last_row_out_of_reach",
            "learned_positions.positions_in_bytes",
            "learned_positions.positions_in_bfloat16",
            "learned_positions.table_in_bfloat16",
            "learned_positions.float32_inside",
            "learned_positions.scaled",
            "learned_positions.wide_rows_cut",
        ),
    ),
    _law(
        "row_read_off",
        "in a table whose rows hold their numbers, every token gets back its position",
        "positions are counted from elsewhere, or tokens are exchanged",
        "probe",
        row_read_off,
        inputs="learned_positions_numbered",
        claims=("learned_positions.definition",),
        rejects=(
            "learned_positions.sorted",
            "learned_positions.position_plus_one",
            "learned_positions.reserved_rows_not_skipped",
        ),
        blind_to=("learned_positions.table_in_bfloat16", "learned_positions.float32_inside"),
    ),
    _law(
        "other_rows_change_nothing",
        "other numbers in the rows that no token reads change no bit",
        "the table is changed as a whole before it is read",
        "exact",
        other_rows_change_nothing,
        claims=("learned_positions.definition",),
        rejects=("learned_positions.table_centred",),
        blind_to=("learned_positions.scaled",),
    ),
    _law(
        "outside_is_an_error",
        "a position outside of 0 to L-1 raises an exception, negative ones too",
        "a position that the table lacks is moved into it, and nobody sees that it is wrong",
        "form",
        outside_is_an_error,
        claims=("learned_positions.table_ends",),
        rejects=(
            "learned_positions.negative_wraps",
            "learned_positions.clamped",
            "learned_positions.modulo_length",
            "learned_positions.zeros_outside",
            "learned_positions.last_free",
        ),
        blind_to=("learned_positions.scaled",),
    ),
    *calls.call_laws(
        "learned_positions",
        learned_positions,
        others,
        {
            "inputs_unchanged": ("learned_positions.rescaled_in_place",),
            "repeatable": ("learned_positions.dropout_left_on",),
            "views_equal_copies": ("learned_positions.table_read_as_contiguous",),
            "no_memory": ("learned_positions.first_table_kept",),
            "output_form": ("learned_positions.result_in_float32",),
            "empty_batch": ("learned_positions.empty_flattened",),
        },
    ),
    *gradient_laws(
        "learned_positions",
        table_gradient,
        {
            "gradients_match_oracle": (
                "learned_positions.gradient_missing",
                "learned_positions.gradient_of_first_row_zero",
                "learned_positions.gradient_summed_in_storage",
            ),
            "zero_upstream": ("learned_positions.gradient_decayed",),
            "gradients_of_views": ("learned_positions.gradient_upstream_as_contiguous",),
            "gradients_between_calls": ("learned_positions.gradient_of_latest_call",),
            "gradient_leaves_output": ("learned_positions.gradient_overwrites_upstream",),
            "gradients_accumulate": ("learned_positions.gradient_added_to_grad",),
            "gradients_along": (
                "learned_positions.gradient_of_first_row_zero",
                "learned_positions.gradient_by_index",
            ),
            "gradients_of_gradients": ("learned_positions.gradient_of_gradient_rows_reversed",),
        },
        inputs="learned_positions",
        claims=("learned_positions.table_gradient",),
        others=others,
        of_mean=lambda inputs: True,
        jacobians={"table": along},
    ),
    _law(
        "gradient_counts_readers",
        "from an upstream of ones the gradient of a row is the number of tokens that read it",
        "tokens at one position overwrite each other, or are averaged",
        "gradient",
        gradient_counts_readers,
        inputs="learned_positions_repeated",
        claims=("learned_positions.table_gradient",),
        rejects=(
            "learned_positions.gradient_of_last_reader",
            "learned_positions.gradient_mean",
            "learned_positions.gradient_last_token_left_out",
        ),
        gradients=True,
    ),
    _law(
        "gradient_of_unread_rows",
        "the gradient of a row that no token read is exactly zero",
        "the backward pass writes to other rows than the forward pass read",
        "gradient",
        gradient_of_unread_rows,
        claims=("learned_positions.table_gradient",),
        rejects=(
            "learned_positions.gradient_by_index",
            "learned_positions.gradient_on_every_row",
        ),
        gradients=True,
    ),
    _law(
        "gradients_long_sums",
        "the gradient of a row adds up over all tokens that read it, large terms and small",
        "a sum over tokens is kept in half precision, where it stops growing",
        "gradient",
        long_sums,
        inputs="learned_positions_repeated",
        claims=("learned_positions.table_gradient",),
        rejects=("learned_positions.gradient_summed_in_storage",),
        gradients=True,
    ),
)
