"""The laws of the gradients of rope and rope_apply.

Sources: the claims of `spec/closed_gradients.py` on RoPE: a rotation's gradient is the rotation by
the opposite angle; a table's gradient is a sum over heads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnspec.oracle.comparison import Comparison
from attnspec.oracle.expected import Expected, expected_gradients
from attnspec.oracle.gradient_laws import gradient_laws, paired, upstream_of
from attnspec.oracle.law import Implementation, Inputs, Law
from attnspec.oracle.rope_values import call_of_rope, call_of_rope_apply, rope, rope_apply

Array = np.ndarray[Any, Any]


def rope_gradients(
    implementation: Implementation, inputs: Inputs, upstream: Array
) -> dict[str, Expected]:
    """The gradient of x, b h n d."""
    definition, parameters, arrays = call_of_rope(implementation, inputs)
    (right,) = expected_gradients(
        definition, ("x",), parameters, {**arrays, "upstream": upstream}, implementation.contract
    )
    return {"x": right}


def rope_apply_gradients(
    implementation: Implementation, inputs: Inputs, upstream: Array
) -> dict[str, Expected]:
    """The gradients of x, and of the tables, which are summed over what shares them."""
    definition, parameters, arrays = call_of_rope_apply(implementation, inputs)
    names = ("x", "cos", "sin")
    right = expected_gradients(
        definition, names, parameters, {**arrays, "upstream": upstream}, implementation.contract
    )
    given = inputs.arrays
    return {n: r.reshaped(given[n].shape) for n, r in zip(names, right, strict=True)}


def rope_adjoint(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """A rotation is linear: <G, rope(x)> = <dx, x>, in each batch entry."""
    upstream = upstream_of(inputs)
    output, right = implementation(inputs), rope(implementation, inputs)
    dx = implementation.gradients(inputs, upstream)["x"]
    room = rope_gradients(implementation, inputs, upstream)["x"].allowance
    x = inputs.arrays["x"]
    return [paired("<G, y> = <dx, x>", (upstream, output, right.allowance), (x, dx, room), 1)]


def rope_apply_adjoint(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Linear in x and in the tables: <G, y> = <dx, x> = <dcos, cos> + <dsin, sin>."""
    upstream = upstream_of(inputs)
    output, right = implementation(inputs), rope_apply(implementation, inputs)
    actual = implementation.gradients(inputs, upstream)
    wanted = rope_apply_gradients(implementation, inputs, upstream)
    rooms = {name: wanted[name].allowance for name in wanted}
    given = inputs.arrays
    left = upstream, output, right.allowance
    both = [np.concatenate([a["cos"].ravel(), a["sin"].ravel()]) for a in (given, actual, rooms)]
    flat = tuple(a.ravel() for a in left)
    return [
        paired("<G, y> = <dx, x>", left, (given["x"], actual["x"], rooms["x"]), 1),
        paired(
            "<G, y> = <dcos, cos> + <dsin, sin>",
            (flat[0], flat[1], flat[2]),
            (both[0], both[1], both[2]),
            0,
        ),
    ]


LAWS: tuple[Law, ...] = (
    *gradient_laws(
        "rope",
        rope_gradients,
        {
            "gradients_match_oracle": (
                "rope.gradient_missing",
                "rope.gradient_tail_zero",
                "rope.gradient_of_first_positions",
                "rope.gradient_partial_tile_zero",
                "rope.gradient_tables_in_bfloat16",
            ),
            "zero_upstream": ("rope.gradient_upstream_ignored",),
            "gradients_of_views": ("rope.gradient_upstream_as_contiguous",),
            "gradient_leaves_output": ("rope.gradient_overwrites_upstream",),
        },
        inputs="rope",
        two_runs="rope_pairs",
        claims=("rope.gradient_is_opposite_rotation",),
    ),
    Law(
        "rope.gradients_adjoint",
        "rope",
        "the rotation is linear: the inner product of upstream and output is that of dx and x",
        "the backward pass is not the transpose of the forward pass",
        "gradient",
        rope_adjoint,
        inputs="rope_pairs",
        claims=("rope.gradient_is_opposite_rotation",),
        rejects=(
            "rope.gradient_same_direction",
            "rope.gradient_without_partner",
            "rope.gradient_of_token_before",
        ),
        gradients=True,
    ),
    *gradient_laws(
        "rope_apply",
        rope_apply_gradients,
        {
            "gradients_match_oracle": (
                "rope_apply.gradient_of_tables_missing",
                "rope_apply.gradient_of_sine_zero",
                "rope_apply.gradient_of_sine_negated",
                "rope_apply.gradient_of_tables_by_result",
                "rope_apply.gradient_of_tables_last_head",
                "rope_apply.gradient_of_tables_mean",
                "rope_apply.gradient_of_tables_last_entry",
            ),
            "zero_upstream": ("rope_apply.gradient_upstream_ignored",),
            "gradients_of_views": ("rope_apply.gradient_upstream_as_contiguous",),
            "gradient_leaves_output": ("rope_apply.gradient_overwrites_upstream",),
        },
        inputs="rope_apply",
        claims=("rope_apply.gradient_of_tables",),
    ),
    Law(
        "rope_apply.gradients_adjoint",
        "rope_apply",
        "linear in x and in the tables: the inner product of upstream and output is that of each "
        "with its gradient",
        "the backward pass is not the transpose of the forward pass",
        "gradient",
        rope_apply_adjoint,
        inputs="rope_apply",
        claims=("rope_apply.gradient_of_tables",),
        rejects=("rope_apply.gradient_same_direction",),
        gradients=True,
    ),
)
