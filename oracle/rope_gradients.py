"""The laws of the gradients of rope and rope_apply.

Sources: the claims of `spec/closed_gradients.py` on RoPE: a rotation's gradient is the rotation by
the opposite angle; a table's gradient is a sum over heads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnspec.oracle import rope as turning
from attnspec.oracle import rope_apply as applied
from attnspec.oracle.calls import close, same
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.expected import Expected, expected_gradients
from attnspec.oracle.gradient_laws import gradient_laws
from attnspec.oracle.gradient_passes import Along, Part, along_axis, index_of, one_of_axis
from attnspec.oracle.inner_products import paired
from attnspec.oracle.law import Implementation, Inputs, Law
from attnspec.oracle.precision import FORMATS, snapped
from attnspec.oracle.rope_values import call_of_rope, call_of_rope_apply, rope, rope_apply
from attnspec.oracle.rope_values import paired as paired_channels
from attnspec.oracle.upstream import upstream_of

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


def along_x(implementation: Implementation, inputs: Inputs, direction: Array) -> Expected:
    """A rotation is linear: its derivative along a direction is the direction, turned."""
    return rope(implementation, inputs, direction)


def along_each(name: str) -> Along:
    """rope_apply is linear in x, and in both tables at once."""

    def along(implementation: Implementation, inputs: Inputs, direction: Array) -> Expected:
        given = inputs.arrays
        nothing = {} if name == "x" else {n: np.zeros_like(given[n]) for n in ("cos", "sin")}
        moved = inputs.with_arrays(**{**nothing, name: direction})
        return rope_apply(implementation, moved)

    return along


def vector(implementation: Implementation, inputs: Inputs) -> Part:
    """One batch entry, head or position, and the entries of x that it does not depend on."""
    shape = inputs.arrays["x"].shape
    at, others = one_of_axis(inputs, shape, (0, 1, 2))
    return index_of(others, at), {"x": along_axis(others, at, shape)}


def vector_and_tables(implementation: Implementation, inputs: Inputs) -> Part:
    """The same, and the entries of the tables, which heads share, and batch entries may."""
    shape, table = inputs.arrays["x"].shape, inputs.arrays["cos"].shape
    at, others = one_of_axis(inputs, shape, (0, 1, 2))
    found = {"x": along_axis(others, at, shape)}
    own = {0: 0, 2: 1} if len(table) == 3 else {2: 0}
    if at in own:
        found |= {name: along_axis(others, own[at], table) for name in ("cos", "sin")}
    return index_of(others, at), found


def long_sums(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Vectors of ones, and from the first head an upstream so large that half precision holds no 1
    beside it, from the others ones: a table's gradient counts the heads all the same. Whole
    numbers, whose sums are exact in any order where sums are promised in float32."""
    x, wide = inputs.arrays["x"], FORMATS["float32"].width
    width = FORMATS[inputs.dtype].width
    upstream = np.ones_like(x)
    upstream[:, :1] = 2.0**width if width < wide else 1.0
    call = inputs.with_arrays(x=np.zeros_like(x))
    paired_channels(implementation, call.arrays["x"], x.shape[-1])[0][...] = 1.0
    actual = implementation.gradients(call, upstream, layout="contiguous")
    right = rope_apply_gradients(implementation, call, upstream)
    places = (implementation.contract.format(place) for place in ("accumulate", "reductions"))
    exact, found = all(place.width >= wide for place in places), []
    for name in ("cos", "sin"):
        what, dtype = f"gradient of {name}, a sum over heads", implementation.dtype
        whole = snapped(right[name].value, dtype)
        found.append(
            same(what, actual[name], whole, dtype)
            if exact
            else close(what, actual[name], right[name], dtype)
        )
    return found


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
            "gradients_between_calls": ("rope.gradient_of_latest_call",),
            "gradient_leaves_output": ("rope.gradient_overwrites_upstream",),
            "gradients_accumulate": ("rope.gradient_added_to_grad",),
            "gradients_of_gradients": ("rope.gradient_of_gradient_turned_back",),
            "gradients_stay_apart": ("rope.gradient_carried_over",),
        },
        inputs="rope",
        others=turning.others,
        of_mean=lambda inputs: True,
        jacobians={"x": along_x},
        parts=vector,
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
            "gradients_of_some": ("rope_apply.gradient_of_tables_with_x",),
            "gradients_between_calls": ("rope_apply.gradient_of_latest_call",),
            "gradient_leaves_output": ("rope_apply.gradient_overwrites_upstream",),
            "gradients_accumulate": ("rope_apply.gradient_added_to_grad",),
            "gradients_of_gradients": ("rope_apply.gradient_of_gradient_turned_back",),
            "gradients_stay_apart": ("rope_apply.gradient_carried_over",),
        },
        inputs="rope_apply",
        others=applied.others,
        of_mean=lambda inputs: True,
        jacobians={name: along_each(name) for name in ("x", "cos", "sin")},
        parts=vector_and_tables,
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
    Law(
        "rope_apply.gradients_long_sums",
        "rope_apply",
        "the gradients of the tables add up over all heads that share them, large terms and small",
        "a sum over heads is kept in half precision, where it stops growing",
        "gradient",
        long_sums,
        inputs="rope_apply",
        claims=("rope_apply.gradient_of_tables",),
        rejects=("rope_apply.gradient_of_tables_in_storage",),
        gradients=True,
    ),
)
