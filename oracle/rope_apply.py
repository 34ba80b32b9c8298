"""The laws of rope_apply: the rotation by tables that the caller gives.

Sources: document 004 (3.5, practical implementation); `spec/rope_definition.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnspec.oracle import calls
from attnspec.oracle.calls import alike
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs, Kind, Law
from attnspec.oracle.precision import snapped
from attnspec.oracle.rope_values import one_entry, paired, rope, rope_apply


def own_angles(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """With tables of rope's own angles, rope_apply gives what rope gives."""
    x = inputs.arrays["x"]
    _, _, n, d = x.shape
    rng = generator(inputs, "positions")
    whole = rng.integers(0, 2048, size=n)
    sibling = implementation.sibling("rope")
    if sibling is None:
        return []
    turned = Inputs("rope", inputs.dtype, {"x": x, "positions": whole}, layout=inputs.layout)
    if not sibling.legal(turned):
        return []
    # (1, 0) in every pair turns to cosine and sine of the pair's angle
    ones = np.zeros((1, 1, n, d))
    paired(implementation, ones, d)[0][...] = 1.0
    cos, sin = paired(implementation, rope(sibling, turned.with_arrays(x=ones)).value[0, 0], d)
    if implementation.conventions["rope.direction"] == "backward":
        sin = -sin
    dtype = implementation.dtype
    applied = inputs.with_arrays(cos=snapped(cos, dtype), sin=snapped(sin, dtype))
    by_tables, by_positions = rope_apply(implementation, applied), rope(sibling, turned)
    # the tables were rounded: both sides are moved to the exact values of their own inputs
    right = sibling(turned) + (by_tables.value - by_positions.value)
    allowance = by_tables.allowance + by_positions.allowance
    return [alike("output", implementation(applied), right, allowance, dtype)]


def row_alone(inputs: Inputs) -> calls.Alone:
    """One batch entry, one head or one row of the tables alone."""
    index, at, axis = one_entry(inputs)
    tables = {name: inputs.arrays[name] for name in ("cos", "sin")}
    if axis == 2:
        tables = {k: v[..., at : at + 1, :] for k, v in tables.items()}
    elif axis == 0 and tables["cos"].ndim == 3:
        tables = {k: v[at : at + 1] for k, v in tables.items()}
    return inputs.with_arrays(x=inputs.arrays["x"][index], **tables), index


def others(implementation: Implementation, inputs: Inputs) -> list[Inputs]:
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
    return Law(
        f"rope_apply.{name}", "rope_apply", says, means, kind, check, inputs="rope_apply", **more
    )


LAWS: tuple[Law, ...] = (
    _law(
        "matches_oracle",
        "channel pairs turn by the tables that are given, within the derived allowance",
        "pairs or signs are wrong, or something is rounded where the contract forbids it",
        "oracle",
        calls.matches_oracle(rope_apply),
        claims=("rope.components",),
        rejects=("rope_apply.tables_exchanged", "rope_apply.partial_tile_of_tokens"),
    ),
    _law(
        "own_angles",
        "with tables of rope's own angles it gives what rope gives",
        "the tables are read in another order than rope's",
        "reduced",
        own_angles,
        claims=("rope.listed_frequencies",),
        rejects=("rope_apply.half_layout",),
    ),
    _law(
        "row_alone",
        "a batch entry, head or position alone gives what it gives among others",
        "entries share something that each should have of its own",
        "reduced",
        calls.row_alone(rope_apply, row_alone),
        guarantee="batch-invariant",
        rejects=("rope_apply.first_rows_tables",),
    ),
    *calls.call_laws(
        "rope_apply",
        rope_apply,
        others,
        {
            "inputs_unchanged": ("rope_apply.negates_table",),
            "repeatable": ("rope_apply.copy_races_with_rotation",),
            "views_equal_copies": ("rope_apply.tables_read_as_contiguous",),
            "no_memory": ("rope_apply.copy_races_with_rotation",),
            "output_form": ("rope_apply.result_in_float32",),
            "empty_batch": ("rope_apply.empty_batch_flattened",),
        },
    ),
)
