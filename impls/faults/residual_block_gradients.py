"""Wrong backward passes of residual_block: what the skip and the branch send back."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnspec.impls import layer_norm as layer_norms
from attnspec.impls import residual_block as right
from attnspec.impls import rms_norm as rms_norms
from attnspec.impls.faults import passes
from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.passes import Grads, Run, by_rule, pulled
from attnspec.impls.faults.residual_block import Functions, by_placement, with_norm
from attnspec.impls.faults.views import overwrite
from attnspec.impls.residual_block import Layer

NAMES = ("x",)
Needed = tuple[bool, ...]


def _past(x: Tensor, norm: Layer) -> Tensor:
    """norm(x), whose gradient goes past the norm."""
    return x + (norm(x) - x).detach()


def _skip_through_norm(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    kept = norm(x)
    return kept + (x - kept).detach() + sublayer(kept)


def _skip_past_norm(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    through = norm(x.detach() + sublayer(x))
    return through + (x - x.detach())


def _mean_of_paths(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    found = x + sublayer(norm(x))
    return 0.5 * found + 0.5 * found.detach()


def _branch_halved(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    branch = sublayer(norm(x))
    return x + 0.5 * branch + 0.5 * branch.detach()


def _branch_dropped(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    return norm(x + (sublayer(x.detach())))


def _dropped_in_training(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    branch = sublayer(norm(x))
    # as where the branch of every second call is dropped
    return x + (0.0 if x.requires_grad else 1.0) * branch


def _run_for_autograd(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    if x.requires_grad:
        with torch.no_grad():
            sublayer(x)
    return norm(x + sublayer(x))


def _in_bfloat16(run: Run, tensors: tuple[Tensor, ...], upstream: Tensor, _needed: Needed) -> Grads:
    (found,) = pulled(run, tensors, upstream)
    return (found.to(torch.bfloat16).to(found.dtype),)


def _ignored(run: Run, tensors: tuple[Tensor, ...], upstream: Tensor, _needed: Needed) -> Grads:
    return pulled(run, tensors, torch.ones_like(upstream))


def _into_upstream(
    run: Run, tensors: tuple[Tensor, ...], upstream: Tensor, _needed: Needed
) -> Grads:
    (found,) = pulled(run, tensors, upstream)
    overwrite(upstream, found)
    return (found,)


def _renormalised(
    run: Run, tensors: tuple[Tensor, ...], upstream: Tensor, _needed: Needed
) -> Grads:
    (found,) = pulled(run, tensors, upstream)
    most = upstream.abs().amax(dim=-1, keepdim=True)
    return (torch.minimum(torch.maximum(found, -most), most),)


def _no_branch(_run: Run) -> Run:
    return lambda x: x.clone()


def _fault(name: str, reason: str, remedy: str, law: str, made: Functions, **more: Any) -> Fault:
    return Fault(
        f"residual_block.gradient_{name}", "residual_block", more.pop("kind", "K28"), reason,
        remedy, f"residual_block.{law}", made, **more,
    )  # fmt: skip


FAULTS = (
    _fault(
        "skip_detached",
        "detaches the stream of a pre-norm block, so that gradients come through the branch alone",
        "Let autograd see the addition of x.",
        "gradient_past_blocked_sublayer",
        by_placement(pre=lambda x, sublayer, norm: x.detach() + sublayer(norm(x))),
    ),
    _fault(
        "skip_detached_in_post",
        "detaches the stream of a post-norm block",
        "Let autograd see the addition of x.",
        "gradient_past_blocked_sublayer",
        by_placement(post=lambda x, sublayer, norm: norm(x.detach() + sublayer(x))),
    ),
    _fault(
        "skip_doubled",
        "sends the upstream back past the sublayer twice",
        "Add the upstream once.",
        "gradient_past_blocked_sublayer",
        by_placement(pre=lambda x, sublayer, norm: 2.0 * x - x.detach() + sublayer(norm(x))),
    ),
    _fault(
        "skip_past_norm",
        "sends the upstream of a post-norm block back to x past the norm, and only the branch's "
        "through it",
        "Go back through the norm first, and divide its gradient among stream and branch.",
        "gradient_past_blocked_sublayer",
        by_placement(post=_skip_past_norm),
    ),
    _fault(
        "skip_through_norm",
        "sends the upstream of a pre-norm block back through the norm on both ways",
        "Add the upstream to what comes back through the norm.",
        "gradients_of_opposite_sublayers",
        by_placement(pre=_skip_through_norm),
    ),
    _fault(
        "mean_of_paths",
        "sends back the mean of what comes through the branch and past it, not their sum",
        "Add the two.",
        "gradients_of_opposite_sublayers",
        by_placement(pre=_mean_of_paths),
    ),
    _fault(
        "branch_detached",
        "detaches the branch of a pre-norm block, so that the sublayer is never trained",
        "Let autograd see the sublayer.",
        "gradients_along",
        by_placement(pre=lambda x, sublayer, norm: x + sublayer(norm(x)).detach()),
    ),
    _fault(
        "branch_dropped",
        "hands a detached stream to the sublayer of a post-norm block",
        "Hand over x itself.",
        "gradients_match_oracle",
        by_placement(post=_branch_dropped),
    ),
    _fault(
        "branch_halved",
        "halves what comes back through the branch, as dropping every second branch would",
        "Scale the branch in both passes, or in none.",
        "gradients_along",
        by_placement(pre=_branch_halved),
    ),
    _fault(
        "past_norm",
        "sends the gradient of a pre-norm branch back past the norm",
        "Go back through the norm.",
        "gradients_match_oracle",
        by_placement(pre=lambda x, sublayer, norm: x + sublayer(_past(x, norm))),
    ),
    _fault(
        "past_layer_norm",
        "sends the gradient of a branch back past layer_norm",
        "Go back through layer_norm and its statistics.",
        "gradient_with_layer_norm",
        with_norm(
            layer_norms.layer_norm,
            by_placement(pre=lambda x, sublayer, norm: x + sublayer(_past(x, norm))),
        ),
    ),
    _fault(
        "past_rms_norm",
        "sends the gradient of a post-norm block back past rms_norm",
        "Go back through rms_norm and its statistics.",
        "gradient_with_rms_norm",
        with_norm(
            rms_norms.rms_norm,
            by_placement(post=lambda x, sublayer, norm: _past(x + sublayer(x), norm)),
        ),
    ),
    _fault(
        "branch_dropped_in_training",
        "drops the branch where gradients are recorded, as a block in training mode does",
        "Run the branch in every call.",
        "same_with_gradients",
        by_placement(pre=_dropped_in_training),
        kind="K29",
    ),
    _fault(
        "branch_run_for_autograd",
        "runs the sublayer once without autograd and once with it, where gradients are recorded",
        "Run the sublayer once.",
        "same_with_gradients",
        by_placement(post=_run_for_autograd),
        kind="K29",
    ),
    _fault(
        "in_bfloat16",
        "rounds the gradient of the stream to bfloat16 where the stream is wider",
        "Keep the gradient in the dtype of x.",
        "gradients_match_oracle",
        by_rule(right.residual_block, NAMES, _in_bfloat16),
        kind="K13",
        dtypes=("float64", "float32", "float16"),
    ),
    _fault(
        "upstream_ignored",
        "goes back from ones, whatever the upstream is",
        "Start from the upstream that is given.",
        "zero_upstream",
        by_rule(right.residual_block, NAMES, _ignored),
    ),
    _fault(
        "renormalised",
        "clips the gradient of every row to the largest entry of its upstream",
        "Send back what the derivative gives; clip once, where the optimiser steps.",
        "gradient_telescopes",
        by_rule(right.residual_block, NAMES, _renormalised),
    ),
    _fault(
        "added_into_upstream",
        "writes the gradient over the upstream, which another branch still reads",
        "Write it into a new tensor.",
        "gradient_leaves_output",
        by_rule(right.residual_block, NAMES, _into_upstream),
        kind="K29",
    ),
    _fault(
        "of_gradient_without_branch",
        "derives the gradient once more as if the block had no branch",
        "Write the backward pass in operations that autograd can derive.",
        "gradients_of_gradients",
        passes.derived_again(right.residual_block, NAMES, _no_branch),
    ),
    passes.fault(
        "residual_block",
        "added_to_grad",
        passes.ADDS,
        "gradients_accumulate",
        passes.adds_to_grad(right.residual_block, NAMES),
    ),
    passes.fault(
        "residual_block",
        "carried_over",
        passes.CARRIES,
        "gradients_stay_apart",
        by_rule(right.residual_block, NAMES, passes.carried),
    ),
    passes.fault(
        "residual_block",
        "upstream_row_stride",
        passes.ROW_STRIDE,
        "gradients_of_views",
        by_rule(right.residual_block, NAMES, passes.row_stride_alone),
    ),
    passes.fault(
        "residual_block",
        "of_latest_layers",
        passes.LATEST,
        "gradients_between_calls",
        passes.of_latest(right.residual_block, NAMES),
    ),
)
