"""The laws of rope as models use it: a part of the channels, a stream beside the content, packed
documents, a cache of keys.

Sources: the claims of `spec/rope_partial.py`, `spec/rope_scores.py` and `spec/mla_streams.py`.
"""

from __future__ import annotations

from typing import Any

from attnspec.oracle.calls import Check
from attnspec.oracle.law import Kind, Law
from attnspec.oracle.rope_streams_checks import (
    cached_keys,
    chunk_by_chunk,
    content_without_position,
    packed_documents,
    partial_eq_narrow_head,
    partial_frequencies,
    rows_eq_shared,
    streams_add_up,
)


def _law(name: str, says: str, means: str, kind: Kind, check: Check, **more: Any) -> Law:
    return Law(f"rope.{name}", "rope", says, means, kind, check, **more)


LAWS: tuple[Law, ...] = (
    _law(
        "partial_frequencies",
        "with rotary_dim r, pair i turns at position 1 by base^(-2i/r): the width is that of the "
        "channels that turn",
        "frequencies are formed with another width, or are those of other pairs",
        "probe",
        partial_frequencies,
        inputs="rope_partial_at_one",
        options=("rotary_dim",),
        claims=("rope.partial_splits", "rope.frequencies"),
        rejects=("rope.frequencies_of_last_pairs", "rope.rotary_dim_counts_pairs"),
    ),
    _law(
        "partial_eq_narrow_head",
        "channels that turn are what they are in a head of rotary_dim channels, all of which turn",
        "the width of the whole head gets into the rotation of a part of it",
        "reduced",
        partial_eq_narrow_head,
        inputs="rope_two_streams",
        options=("rotary_dim",),
        claims=("rope.partial_splits",),
        rejects=(
            "rope.last_channels_turn",
            "rope.partner_half_a_head_away",
            "rope.pairs_spread_over_head",
        ),
        blind_to=("rope.backward", "rope.rest_turns_slowly"),
    ),
    _law(
        "content_without_position",
        "whatever the positions of the tokens, channels that do not turn have the same bits",
        "position gets into the content, and a score of contents depends on where they stand",
        "exact",
        content_without_position,
        inputs="rope_two_streams",
        options=("rotary_dim",),
        claims=("mla.content_without_position", "rope.partial_costs_less"),
        rejects=("rope.rest_turns_slowly", "rope.rest_damped_by_position"),
        blind_to=("rope.backward", "rope.tail_in_bfloat16"),
    ),
    _law(
        "streams_add_up",
        "the score of vectors of content and position is the product of the contents and the "
        "score of the positions' stream, which a common shift doesn't change",
        "the streams are mixed, weighted, or see absolute positions",
        "equivariance",
        streams_add_up,
        inputs="rope_two_streams",
        options=("rotary_dim",),
        claims=("mla.score_adds_streams", "rope.partial_splits", "rope.relative_displacement"),
        rejects=("rope.stream_weighted",),
        blind_to=("rope.backward",),
    ),
    _law(
        "packed_documents",
        "a document packed with others into one row is what it is alone",
        "positions go on, or begin anew, elsewhere than the given ones do",
        "reduced",
        packed_documents,
        inputs="rope_packed",
        claims=("rope.key_turns_by_own_position",),
        rejects=("rope.restarts_overlooked", "rope.rows_of_longest_document"),
        blind_to=("rope.backward",),
        guarantee="batch-invariant",
    ),
    _law(
        "chunk_by_chunk",
        "a sequence that comes in chunks is what it is at once",
        "positions are counted within a call, or the path for few tokens is another one",
        "reduced",
        chunk_by_chunk,
        inputs="rope_chunks",
        claims=("rope.key_turns_by_own_position", "mla.key_turns_once"),
        rejects=("rope.counted_from_last_zero", "rope.token_alone_as_in_first_entry"),
        blind_to=("rope.backward",),
        guarantee="batch-invariant",
    ),
    _law(
        "cached_keys",
        "keys that were rotated as they came have the scores, with a query that comes far later, "
        "that they have when all are rotated anew",
        "a later call turns by what an earlier one left behind, or a table ends too early",
        "equivariance",
        cached_keys,
        inputs="rope_chunks",
        claims=("rope.key_turns_by_own_position", "mla.key_turns_once", "rope.only_displacement"),
        rejects=("rope.table_of_first_call", "rope.steps_on_from_last_call"),
        blind_to=("rope.backward",),
    ),
    _law(
        "rows_eq_shared",
        "positions of shape b n, all rows alike, give what positions of shape n give",
        "the path for positions of each entry loses an option, or has a table of its own",
        "reduced",
        rows_eq_shared,
        inputs="rope_shared",
        rejects=("rope.rows_lose_base", "rope.rows_clamped"),
        blind_to=("rope.backward",),
        guarantee="batch-invariant",
    ),
)
