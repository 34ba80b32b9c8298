"""The laws of decode_attention.

Sources: the claims of `spec/decode_attention.py`: one query, at the newest of each entry's valid
keys, over a cache with room for more.
"""

from __future__ import annotations

from typing import Any

from attnspec.oracle import calls
from attnspec.oracle import decode_attention_checks as checks
from attnspec.oracle.decode_attention_values import decode_attention, gradients
from attnspec.oracle.gradient_laws import gradient_laws
from attnspec.oracle.law import Kind, Law


def _law(name: str, says: str, means: str, kind: Kind, check: calls.Check, **more: Any) -> Law:
    family = f"decode_attention{more.pop('inputs', '')}"
    return Law(f"decode_attention.{name}", "decode_attention", says, means, kind, check,
               inputs=family, **more)  # fmt: skip


_GIVEN: dict[str, tuple[str, ...]] = {
    "inputs_unchanged": ("clears_the_cache", "lengths_counted_on"),
    "repeatable": ("rows_alternate",),
    "views_equal_copies": ("cache_read_as_contiguous",),
    "no_memory": ("longest_mask_kept", "buffer_handed_out"),
    "output_form": ("result_in_float32",),
    "empty_batch": ("empty_gives_cache",),
}
_OF_GRADIENTS: dict[str, tuple[str, ...]] = {
    "gradients_match_oracle": ("gradient_of_first_head", "gradient_without_scale"),
    "zero_upstream": ("gradient_of_ones",),
    "gradients_of_some": ("gradient_lost_without_query",),
    "gradients_of_views": ("gradient_of_strides",),
    "gradient_leaves_output": ("gradient_uses_up_upstream",),
    "gradients_accumulate": ("gradient_adds_to_grad",),
    "gradients_between_calls": ("gradient_of_latest_call",),
}


def _named(rejects: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    return {law: tuple(f"decode_attention.{name}" for name in names)
            for law, names in rejects.items()}  # fmt: skip


def _ids(*names: str) -> tuple[str, ...]:
    return tuple(f"decode_attention.{name}" for name in names)


LAWS: tuple[Law, ...] = (
    _law(
        "matches_oracle",
        "every element is the average of the valid values by their softmax, within its derived "
        "allowance",
        "the function is not attention over the valid slots with these options, or it rounds where "
        "its contract forbids it",
        "oracle",
        calls.matches_oracle(decode_attention),
        claims=("decode_attention.definition", "decode_attention.eq_last_row"),
        rejects=_ids(
            "heads_tiled",
            "scale_dropped",
            "scale_of_value_width",
            "scores_in_storage",
            "cache_in_bfloat16",
            "no_maximum",
            "last_tile_dropped",
            "first_key_twice",
        ),
    ),
    _law(
        "windows_match_oracle",
        "a window shows the newest key and as many before it as it says, at lengths below, at and "
        "above it",
        "the window is counted from another place, or wraps at another length",
        "oracle",
        calls.matches_oracle(decode_attention),
        inputs="_windows",
        options=("window",),
        claims=("decode_attention.window_from_newest",),
        rejects=_ids(
            "window_from_start",
            "window_from_end_of_cache",
            "window_one_wider",
            "window_one_narrower",
            "window_dropped",
            "window_rolls_early",
            "window_of_longest",
        ),
    ),
    _law(
        "edges_read_off",
        "the newest key and the oldest in the window count, and their neighbours outside don't",
        "a length or a window is off by one",
        "probe",
        checks.edges_read_off,
        claims=(
            "decode_attention.definition",
            "decode_attention.slots_beyond_length_are_not_read",
        ),
        rejects=_ids("newest_left_out", "one_key_too_many", "hidden_by_small_number"),
    ),
    _law(
        "anything_in_unused",
        "NaN and infinities in slots that hold no key change nothing",
        "hidden slots are read and weighed by zero: zero times NaN is NaN",
        "exact",
        checks.anything_in_unused,
        inputs="_room",
        claims=("decode_attention.slots_beyond_length_are_not_read",),
        rejects=_ids("hidden_values_times_zero", "hidden_added", "maximum_over_all"),
    ),
    _law(
        "hidden_change_nothing",
        "other numbers in slots that are not seen change no bit",
        "hidden slots have a weight, or take part in the normaliser",
        "exact",
        checks.hidden_change_nothing,
        inputs="_room",
        guarantee="mask-exact",
        claims=("decode_attention.slots_beyond_length_are_not_read",),
        rejects=_ids("hidden_weighed", "mean_of_cache_added"),
    ),
    _law(
        "room_changes_nothing",
        "how many slots a cache has does not matter",
        "something is divided by, or indexed from the end of, the allocated length",
        "reduced",
        checks.room_changes_nothing,
        inputs="_room",
        rejects=_ids("masked_by_zero", "normalised_by_slots", "wraps_at_blocks"),
    ),
    _law(
        "step_by_step",
        "after every chunk the newest query gives what it gives where no later token is there",
        "what is decoded depends on how the cache was filled: decoding differs from prefill",
        "reduced",
        checks.step_by_step,
        inputs="_several",
        claims=("decode_attention.eq_prefill_of_chunks",),
        rejects=_ids("rounds_up_to_block", "lengths_ignored"),
    ),
    _law(
        "slots_in_any_order",
        "what is seen may lie in the cache in any order",
        "positions have a part in it that this function does not have",
        "equivariance",
        checks.slots_in_any_order,
        inputs="_several",
        rejects=_ids(
            "newest_favoured",
        ),
    ),
    _law(
        "entries_in_any_order",
        "batch entries in another order, with their lengths, give the output in that order",
        "one entry's length or cache is taken for another's",
        "equivariance",
        checks.entries_in_any_order,
        inputs="_batch",
        rejects=_ids("length_of_first", "lengths_sorted"),
    ),
    _law(
        "entry_alone",
        "a batch entry alone gives what it gives among others",
        "entries share what each should have of its own: a length, a maximum",
        "reduced",
        calls.row_alone(decode_attention, checks.one_entry),
        inputs="_batch",
        guarantee="batch-invariant",
        rejects=_ids("longest_for_all", "shortest_for_all"),
    ),
    _law(
        "empty_rows",
        "an entry of length zero gives what the target declares, and spoils no other",
        "its row averages slots that hold nothing, or is 0 / 0",
        "oracle",
        calls.matches_oracle(decode_attention),
        inputs="_empty_rows",
        rejects=_ids("empty_row_nan", "empty_row_averages", "empty_row_reads_one"),
    ),
    *calls.call_laws(
        "decode_attention",
        decode_attention,
        checks.others,
        _named(_GIVEN),
        two_runs="decode_attention_two_runs",
    ),
    *gradient_laws(
        "decode_attention",
        gradients,
        _named(_OF_GRADIENTS),
        inputs="decode_attention_gradients",
        claims=("decode_attention.definition",),
        others=checks.others,
    ),
    _law(
        "unused_have_no_gradient",
        "slots that are not seen have no gradient, and NaN in them reaches no other",
        "hidden slots go through the backward pass with a weight, or as zero times NaN",
        "exact",
        checks.unused_have_none,
        inputs="_gradients_room",
        gradients=True,
        claims=("decode_attention.slots_beyond_length_are_not_read",),
        rejects=_ids("gradient_of_hidden_times_zero", "gradient_in_unused_slots"),
    ),
)
