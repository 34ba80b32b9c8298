"""The laws of residual_block.

Sources: the claims of `spec/residual_block.py`. Norm and sublayer are handed over, so that they can
be exact: then a block rounds a single sum, and what they are given can be compared to the bit.
"""

from __future__ import annotations

from typing import Any

from attnspec.oracle import calls
from attnspec.oracle.law import Kind, Law
from attnspec.oracle.residual_block_checks import (
    called_once,
    handed_form,
    norm_is_given,
    own_norm,
    returned_layers,
    sublayer_is_given,
    telescopes,
    zero_sublayer,
)
from attnspec.oracle.residual_block_values import one_row, others, residual_block


def _law(name: str, says: str, means: str, kind: Kind, check: calls.Check, **more: Any) -> Law:
    family = more.pop("inputs", "residual_block")
    return Law(
        f"residual_block.{name}", "residual_block", says, means, kind, check, inputs=family,
        claims=more.pop("claims", ("residual_block.placements",)), **more,
    )  # fmt: skip


LAWS: tuple[Law, ...] = (
    _law(
        "matches_oracle",
        "x + sublayer(norm(x)) for pre-norm, norm(x + sublayer(x)) for post-norm, within the "
        "derived allowance",
        "norm or sublayer stand elsewhere, something is added twice or not at all, or the sum is "
        "rounded further than its dtype",
        "oracle",
        calls.matches_oracle(residual_block),
        rejects=(
            "residual_block.placement_ignored",
            "residual_block.placements_exchanged",
            "residual_block.branch_subtracted",
            "residual_block.sum_in_bfloat16",
            "residual_block.norm_of_branch",
        ),
        blind_to=(
            "residual_block.norm_called_twice",
            "residual_block.sublayer_called_twice",
        ),
    ),
    _law(
        "zero_sublayer",
        "a sublayer that gives zeros leaves x in a pre-norm block, and norm(x) in a post-norm one, "
        "to the bit",
        "the skip does not carry x: it carries the normalised rows, twice x, or nothing",
        "exact",
        zero_sublayer,
        inputs="residual_block_blocked",
        claims=("residual_block.placements", "residual_block.norm_after_sublayer"),
        rejects=(
            "residual_block.skip_of_normed",
            "residual_block.skip_dropped",
            "residual_block.skip_doubled",
            "residual_block.norm_after_sum",
            "residual_block.stream_in_half",
            "residual_block.skip_scaled",
        ),
        blind_to=("residual_block.branch_subtracted",),
    ),
    _law(
        "sublayer_is_given",
        "the sublayer is given norm(x) in a pre-norm block, and x in a post-norm one, to the bit",
        "the sublayer reads what was not normalised, or was normalised where it should not be",
        "exact",
        sublayer_is_given,
        rejects=(
            "residual_block.sublayer_of_stream",
            "residual_block.norm_on_both_sides",
        ),
    ),
    _law(
        "norm_is_given",
        "the norm is given x in a pre-norm block, and x + sublayer(x) in a post-norm one",
        "the norm reads the branch alone, the stream alone, or a sum that was rounded further",
        "exact",
        norm_is_given,
        rejects=("residual_block.norm_before_sum",),
    ),
    _law(
        "called_once",
        "norm and sublayer are called once each, in the order of the placement",
        "a layer is run twice, which costs time and, for one that draws or counts, is another "
        "function; or it is not run at all",
        "exact",
        called_once,
        rejects=(
            "residual_block.norm_called_twice",
            "residual_block.sublayer_called_twice",
        ),
    ),
    _law(
        "handed_form",
        "norm and sublayer are given what has the shape, dtype and device of x",
        "the stream is cast or flattened on its way to a layer, whose weights may not take that",
        "form",
        handed_form,
        rejects=(
            "residual_block.stream_cast",
            "residual_block.sublayer_of_flat_rows",
        ),
    ),
    _law(
        "telescopes",
        "through several pre-norm blocks a stream becomes its start and all that the sublayers "
        "gave",
        "a block adds to something else than the stream that it is given",
        "reduced",
        telescopes,
        inputs="residual_block_stream",
        rejects=("residual_block.skip_of_first_call",),
    ),
    _law(
        "with_layer_norm",
        "with the target's layer_norm as norm, every element is within its derived allowance",
        "norm and block do not fit together: the sum is rounded further, or is normalised anew",
        "oracle",
        own_norm,
        inputs="residual_block_layer_norm",
        conventions={"layer_norm.eps": "inside"},
        rejects=("residual_block.skip_of_normed_with_layer_norm",),
    ),
    _law(
        "with_rms_norm",
        "with the target's rms_norm as norm, every element is within its derived allowance",
        "norm and block do not fit together: the sum is rounded further, or is normalised anew",
        "oracle",
        own_norm,
        inputs="residual_block_rms_norm",
        conventions={"rms_norm.eps": "inside"},
        rejects=("residual_block.norm_of_branch_with_rms_norm",),
    ),
    _law(
        "returned_layers",
        "a layer may return the object that it is given: x stays as it is, and the output right",
        "what a layer returned is written over, which may be x itself",
        "exact",
        returned_layers,
        inputs="residual_block_returned",
        rejects=("residual_block.adds_in_place",),
    ),
    _law(
        "row_alone",
        "a row alone gives what it gives among others",
        "rows share something that each should have of its own",
        "reduced",
        calls.row_alone(residual_block, one_row),
        inputs="residual_block_rows",
        guarantee="batch-invariant",
        claims=(),
        rejects=("residual_block.skip_of_row_before",),
    ),
    _law(
        "others_change_nothing",
        "other content of the other rows changes no bit of a row",
        "rows share something that each should have of its own",
        "exact",
        calls.others_change_nothing(one_row),
        inputs="residual_block_rows",
        guarantee="mask-exact",
        claims=(),
        rejects=("residual_block.mean_over_rows_removed",),
    ),
    *calls.call_laws(
        "residual_block",
        residual_block,
        others,
        {
            "inputs_unchanged": ("residual_block.adds_into_stream",),
            "repeatable": ("residual_block.running_stream",),
            "views_equal_copies": ("residual_block.skip_read_as_contiguous",),
            "no_memory": ("residual_block.layers_kept",),
            "output_form": ("residual_block.stream_in_float32",),
            "empty_batch": ("residual_block.empty_batch_flattened",),
        },
        two_runs="residual_block_rows",
    ),
)  # fmt: skip
