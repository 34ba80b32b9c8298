"""The laws of residual_block's gradients.

Sources: the claims of `spec/residual_block.py`. A pre-norm block goes back by I + J^T, J being the
derivative of its branch; a post-norm one goes back through the norm first. Layers that are exact
are linear, and their derivatives are exact too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnspec.oracle.callee import Moved
from attnspec.oracle.calls import Check, alike, close, same
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.expected import Expected
from attnspec.oracle.gradient_laws import gradient_laws
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs, Law
from attnspec.oracle.layer_norm_jacobians import row
from attnspec.oracle.residual_block_checks import BLOCKS, with_own_norm
from attnspec.oracle.residual_block_inputs import SMALL
from attnspec.oracle.residual_block_values import (
    along_x,
    gradients,
    moved_of,
    others,
    placement_of,
    residual_block,
)
from attnspec.oracle.rounding import added, formed
from attnspec.oracle.upstream import upstream_of

Array = np.ndarray[Any, Any]


def blocked(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Where the sublayer gives zeros whatever it is given, the upstream comes back as it is from a
    pre-norm block, and through the norm from a post-norm one, to the bit."""
    upstream = upstream_of(inputs)
    actual = implementation.gradients(inputs, upstream)["x"]
    norm = moved_of(inputs, "norm")
    wanted = upstream if placement_of(inputs) == "pre" else norm.transposed(upstream)
    return [same("gradient of x past a blocked sublayer", actual, wanted, implementation.dtype)]


def opposites(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """What comes back through the branch changes its sign with the sublayer, and what comes back
    past it does not: the sum of both gradients is twice the upstream in a pre-norm block."""
    upstream = upstream_of(inputs)
    sublayer = moved_of(inputs, "sublayer")
    negative = Moved(tuple(-factor for factor in sublayer.factors), sublayer.shift)
    calls = inputs.with_callees(sublayer=sublayer), inputs.with_callees(sublayer=negative)
    one, other = (implementation.gradients(call, upstream)["x"] for call in calls)
    rooms = [gradients(implementation, call, upstream)["x"].allowance for call in calls]
    total, lost = added(one, other)
    room = rooms[0] + rooms[1] + np.where(lost, formed(np.abs(one) + np.abs(other), 1), 0.0)
    what = "gradients with a sublayer and with its negative, added up"
    return [alike(what, total, 2.0 * upstream, room, implementation.dtype)]


def telescopes(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Back through several pre-norm blocks an upstream becomes itself and what came back through
    each branch: u_0 = u_L + sum of J_l^T u_(l+1)."""
    places = generator(inputs, "blocks").integers(len(SMALL), size=BLOCKS - 1)
    calls = [inputs, *(inputs.with_callees(**SMALL[int(place)]._asdict()) for place in places)]
    upstream = upstream_of(inputs)
    total, size, room = np.array(upstream), np.abs(upstream), np.zeros(upstream.shape)
    lost = np.zeros(upstream.shape, np.bool_)
    for call in calls:
        back = moved_of(call, "norm").transposed(moved_of(call, "sublayer").transposed(upstream))
        room = room + gradients(implementation, call, upstream)["x"].allowance
        total, inexact = added(total, back)
        size, lost = size + np.abs(back), lost | inexact
        upstream = implementation.gradients(call, upstream)["x"]
    room = room + np.where(lost, formed(size, BLOCKS), 0.0)
    what = f"upstream after {BLOCKS} blocks"
    return [alike(what, upstream, total, room, implementation.dtype)]


def own_norm(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """With the target's own norm, every element of the gradient within its allowance."""
    found = with_own_norm(implementation, inputs)
    if found is None:
        return []
    upstream = upstream_of(found)
    actual = implementation.gradients(found, upstream)["x"]
    right: Expected = gradients(implementation, found, upstream)["x"]
    return [close("gradient of x", actual, right, implementation.dtype)]


def recorded(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Where gradients will be asked for, norm and sublayer are called as where not, and the output
    is what it should be."""
    actual = implementation.recorded(inputs)
    names = [once.name for once in implementation.seen()]
    counts = np.array([float(names.count(name)) for name in inputs.callees])
    right = residual_block(implementation, inputs)
    return [
        close("output where gradients are recorded", actual, right, implementation.dtype),
        same(f"how often {' and '.join(inputs.callees)} are called", counts,
             np.ones(len(inputs.callees)), "float64"),
    ]  # fmt: skip


def _repeats(inputs: Inputs) -> bool:
    return inputs.arrays["x"].ndim > 1


def _law(name: str, says: str, means: str, check: Check, **more: Any) -> Law:
    return Law(
        f"residual_block.{name}", "residual_block", says, means, "gradient", check,
        gradients=True, claims=("residual_block.prenorm_trains_stably",), **more,
    )  # fmt: skip


LAWS: tuple[Law, ...] = (
    *gradient_laws(
        "residual_block",
        gradients,
        {
            "gradients_match_oracle": (
                "residual_block.gradient_past_norm",
                "residual_block.gradient_in_bfloat16",
                "residual_block.gradient_branch_dropped",
            ),
            "zero_upstream": ("residual_block.gradient_upstream_ignored",),
            "gradients_of_views": ("residual_block.gradient_upstream_row_stride",),
            "gradients_between_calls": ("residual_block.gradient_of_latest_layers",),
            "gradient_leaves_output": ("residual_block.gradient_added_into_upstream",),
            "gradients_accumulate": ("residual_block.gradient_added_to_grad",),
            "gradients_along": (
                "residual_block.gradient_branch_detached",
                "residual_block.gradient_branch_halved",
            ),
            "gradients_of_gradients": ("residual_block.gradient_of_gradient_without_branch",),
            "gradients_stay_apart": ("residual_block.gradient_carried_over",),
        },
        inputs="residual_block",
        claims=("residual_block.prenorm_trains_stably",),
        expands=_repeats,
        others=others,
        of_mean=_repeats,
        jacobians={"x": along_x},
        parts=row,
    ),
    _law(
        "gradient_past_blocked_sublayer",
        "past a sublayer that gives zeros the upstream comes back as it is in a pre-norm block, "
        "and through the norm in a post-norm one, to the bit",
        "the skip is cut off from autograd, goes back through something else, or counts twice",
        blocked,
        inputs="residual_block_blocked",
        rejects=(
            "residual_block.gradient_skip_detached",
            "residual_block.gradient_skip_detached_in_post",
            "residual_block.gradient_skip_doubled",
            "residual_block.gradient_skip_past_norm",
        ),
        blind_to=("residual_block.gradient_branch_detached",),
    ),
    _law(
        "same_with_gradients",
        "where gradients will be asked for, the output is the same, and norm and sublayer are "
        "called once each",
        "training takes another way: a branch is dropped, scaled or run twice",
        recorded,
        inputs="residual_block",
        rejects=(
            "residual_block.gradient_branch_dropped_in_training",
            "residual_block.gradient_branch_run_for_autograd",
        ),
    ),
    _law(
        "gradients_of_opposite_sublayers",
        "the gradients with a sublayer and with its negative add up to twice the upstream in a "
        "pre-norm block",
        "what comes back past the branch is not the upstream",
        opposites,
        inputs="residual_block_stream",
        rejects=(
            "residual_block.gradient_skip_through_norm",
            "residual_block.gradient_mean_of_paths",
        ),
        blind_to=(
            "residual_block.gradient_branch_detached",
            "residual_block.gradient_branch_halved",
        ),
    ),
    _law(
        "gradient_telescopes",
        "back through several pre-norm blocks an upstream becomes itself and what came back "
        "through each branch",
        "gradients are scaled or clipped on their way from block to block",
        telescopes,
        inputs="residual_block_stream",
        rejects=("residual_block.gradient_renormalised",),
    ),
    _law(
        "gradient_with_layer_norm",
        "with the target's layer_norm as norm, every element of the gradient is within its derived "
        "allowance",
        "the gradient goes past the norm, or past its statistics",
        own_norm,
        inputs="residual_block_layer_norm_gradients",
        conventions={"layer_norm.eps": "inside"},
        rejects=("residual_block.gradient_past_layer_norm",),
    ),
    _law(
        "gradient_with_rms_norm",
        "with the target's rms_norm as norm, every element of the gradient is within its derived "
        "allowance",
        "the gradient goes past the norm, or past its statistics",
        own_norm,
        inputs="residual_block_rms_norm_gradients",
        conventions={"rms_norm.eps": "inside"},
        rejects=("residual_block.gradient_past_rms_norm",),
    ),
)
