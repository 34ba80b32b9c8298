"""Wrong implementations of residual_block: where norm, sublayer and skip stand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from attnspec.impls import layer_norm as layer_norms
from attnspec.impls import residual_block as right
from attnspec.impls import rms_norm as rms_norms
from attnspec.impls.faults.fault import Fault
from attnspec.impls.residual_block import Layer

Functions = Callable[[], Mapping[str, Callable[..., Any]]]
Wired = Callable[[Tensor, Layer, Layer], Tensor]
"""Of the stream, the sublayer and the norm."""


def by_placement(pre: Wired | None = None, post: Wired | None = None) -> Functions:
    """The right block, but for the placements for which another is given."""

    def residual_block(x: Tensor, sublayer: Layer, norm: Layer, *, placement: str) -> Tensor:
        wired = {"pre": pre, "post": post}.get(placement)
        if wired is None:
            return right.residual_block(x, sublayer, norm, placement=placement)
        return wired(x, sublayer, norm)

    return lambda: {"residual_block": residual_block}


def _skip_of_normed(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    kept = norm(x)
    return kept + sublayer(kept)


def _norm_called_twice(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    norm(x)
    return x + sublayer(norm(x))


def _sublayer_called_twice(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    return norm(x + 0.5 * sublayer(x) + 0.5 * sublayer(x))


def _sum_in_bfloat16(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    return (x + sublayer(norm(x))).to(torch.bfloat16).to(x.dtype)


def _row_before(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    rows = x.reshape(-1, x.shape[-1]).roll(1, 0).reshape(x.shape)
    return rows + sublayer(norm(x))


def _mean_removed(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    rows = x.reshape(-1, x.shape[-1])
    return norm((rows - rows.mean(dim=0) + rows[:1]).reshape(x.shape) + sublayer(x))


def with_norm(norm: Callable[..., Any], functions: Functions) -> Functions:
    """The right norm of the same target beside it."""
    return lambda: {**functions(), norm.__name__: norm}


def _fault(name: str, reason: str, remedy: str, law: str, made: Functions, **more: Any) -> Fault:
    return Fault(
        f"residual_block.{name}", "residual_block", more.pop("kind", "K20"), reason, remedy,
        f"residual_block.{law}", made, **more,
    )  # fmt: skip


FAULTS = (
    _fault(
        "skip_of_normed",
        "adds the branch of a pre-norm block to the normalised rows, not to x",
        "Keep x before the norm, and add the branch to it.",
        "zero_sublayer",
        by_placement(pre=_skip_of_normed),
        report="pytorch/pytorch #61165",
    ),
    _fault(
        "skip_of_normed_with_layer_norm",
        "adds the branch to the rows that layer_norm gave, where x is due",
        "Add the branch to the stream as it was before layer_norm.",
        "with_layer_norm",
        with_norm(layer_norms.layer_norm, by_placement(pre=_skip_of_normed)),
        report="SHI-Labs/Compact-Transformers #25",
    ),
    _fault(
        "norm_of_branch",
        "normalises the branch of a post-norm block alone: x + norm(sublayer(x))",
        "Add x first, and normalise the sum.",
        "matches_oracle",
        by_placement(post=lambda x, sublayer, norm: x + norm(sublayer(x))),
        report="ml-explore/mlx #1327",
    ),
    _fault(
        "norm_of_branch_with_rms_norm",
        "normalises what the sublayer gave by rms_norm, and adds x to it as it is",
        "Hand the sum of both to rms_norm.",
        "with_rms_norm",
        with_norm(
            rms_norms.rms_norm, by_placement(post=lambda x, sublayer, norm: x + norm(sublayer(x)))
        ),
    ),
    _fault(
        "norm_before_sum",
        "normalises the stream of a post-norm block, then adds the branch: norm(x) + sublayer(x)",
        "Hand the sum to the norm.",
        "norm_is_given",
        by_placement(post=lambda x, sublayer, norm: norm(x) + sublayer(x)),
    ),
    _fault(
        "norm_after_sum",
        "normalises the sum of a pre-norm block besides, so that no stream passes unnormalised",
        "Leave the sum of a pre-norm block as it is.",
        "zero_sublayer",
        by_placement(pre=lambda x, sublayer, norm: norm(x + sublayer(norm(x)))),
    ),
    _fault(
        "norm_on_both_sides",
        "normalises x before the sublayer of a post-norm block too",
        "Hand x itself to the sublayer.",
        "sublayer_is_given",
        by_placement(post=lambda x, sublayer, norm: norm(x + sublayer(norm(x)))),
    ),
    _fault(
        "sublayer_of_stream",
        "hands x to the sublayer of a pre-norm block, and normalises what it gives: "
        "x + norm(sublayer(x))",
        "Normalise first.",
        "sublayer_is_given",
        by_placement(pre=lambda x, sublayer, norm: x + norm(sublayer(x))),
    ),
    _fault(
        "skip_dropped",
        "returns the branch of a pre-norm block alone",
        "Add x.",
        "zero_sublayer",
        by_placement(pre=lambda _x, sublayer, norm: sublayer(norm(_x))),
    ),
    _fault(
        "skip_doubled",
        "adds x once more to the sum of a post-norm block, as where the sublayer has a skip of "
        "its own",
        "Add x in one place.",
        "zero_sublayer",
        by_placement(post=lambda x, sublayer, norm: norm(x + (x + sublayer(x)))),
    ),
    _fault(
        "skip_scaled",
        "halves the sum of stream and branch, to keep its size",
        "Add the two as they are.",
        "zero_sublayer",
        by_placement(pre=lambda x, sublayer, norm: 0.5 * (x + sublayer(norm(x)))),
    ),
    _fault(
        "branch_subtracted",
        "subtracts the branch of a post-norm block from x",
        "Add it.",
        "matches_oracle",
        by_placement(post=lambda x, sublayer, norm: norm(x - sublayer(x))),
    ),
    _fault(
        "placement_ignored",
        "builds a pre-norm block for either placement",
        "Build norm(x + sublayer(x)) for post.",
        "matches_oracle",
        by_placement(post=lambda x, sublayer, norm: x + sublayer(norm(x))),
        kind="K29",
    ),
    _fault(
        "placements_exchanged",
        "builds a post-norm block for `pre`, and a pre-norm one for `post`",
        "Exchange the two.",
        "matches_oracle",
        by_placement(
            pre=lambda x, sublayer, norm: norm(x + sublayer(x)),
            post=lambda x, sublayer, norm: x + sublayer(norm(x)),
        ),
        kind="K29",
    ),
    _fault(
        "sum_in_bfloat16",
        "rounds the sum to bfloat16 where the stream is wider",
        "Form and keep the sum in the dtype of x.",
        "matches_oracle",
        by_placement(pre=_sum_in_bfloat16),
        kind="K13",
        dtypes=("float64", "float32", "float16"),
    ),
    _fault(
        "norm_called_twice",
        "runs the norm twice and throws one result away",
        "Keep what the norm gave.",
        "called_once",
        by_placement(pre=_norm_called_twice),
    ),
    _fault(
        "sublayer_called_twice",
        "runs the sublayer twice and takes the mean of both results",
        "Run the sublayer once.",
        "called_once",
        by_placement(post=_sublayer_called_twice),
    ),
    _fault(
        "skip_of_row_before",
        "adds the branch of every token to the stream of the token before it",
        "Index stream and branch alike.",
        "row_alone",
        by_placement(pre=_row_before),
        kind="K26",
    ),
    _fault(
        "mean_over_rows_removed",
        "centres the stream over the tokens on its way past the sublayer",
        "Let the skip carry x as it is.",
        "others_change_nothing",
        by_placement(post=_mean_removed),
        kind="K30",
    ),
)
