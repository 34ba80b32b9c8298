"""The laws of mla_cache: what decoding stores, c + p numbers a token.

Sources: the claims of `spec/mla_sizes.py`, `spec/mla_rotation.py` and `spec/mla_orders.py`.
"""

from __future__ import annotations

from typing import Any

from attnspec.oracle import calls
from attnspec.oracle import mla_cache_checks as checks
from attnspec.oracle.gradient_laws import gradient_laws
from attnspec.oracle.law import Kind, Law
from attnspec.oracle.mla_calls import one_entry, others
from attnspec.oracle.mla_values import cached_latent, gradients


def _law(name: str, says: str, means: str, kind: Kind, check: calls.Check, **more: Any) -> Law:
    family = f"mla_cache{more.pop('inputs', '')}"
    return Law(f"mla_cache.{name}", "mla_cache", says, means, kind, check, inputs=family, **more)


LAWS: tuple[Law, ...] = (
    _law(
        "matches_oracle",
        "the latent is x w_dkv and the key x w_kr, rotated by its position, within the derived "
        "allowance",
        "something else is cached, or it is rounded where the contract forbids it",
        "oracle",
        checks.caches_match,
        claims=("mla.latent_is_projection", "mla.cache_has_key_too", "mla.key_turns_once"),
        rejects=(
            "mla_cache.key_not_rotated",
            "mla_cache.key_rotated_twice",
            "mla_cache.base_ignored",
            "mla_cache.positions_from_one",
            "mla_cache.latent_in_half",
            "mla_cache.keys_of_all_heads",
        ),
    ),
    _law(
        "tokens_are_appended",
        "the cache of the first tokens is the first part of the cache of all",
        "what is cached of a token depends on how many follow it",
        "reduced",
        checks.tokens_are_appended,
        inputs="_several",
        claims=("mla.decode_eq_last_row",),
        rejects=("mla_cache.positions_from_end", "mla_cache.latent_of_mean"),
    ),
    _law(
        "latents_without_position",
        "the latents of tokens in another order come in that order",
        "the latent is rotated, so that no one matrix absorbs any more",
        "equivariance",
        checks.latents_without_position,
        inputs="_several",
        claims=("mla.content_without_position", "mla.no_one_matrix", "mla.rope_in_the_way"),
        rejects=("mla_cache.latent_rotated",),
    ),
    _law(
        "keys_turn_in_pairs",
        "with every pair of w_kr turned by a right angle, keys are turned by one",
        "other channels are a pair than the layout says, or a pair is not turned as a whole",
        "equivariance",
        checks.keys_turn_in_pairs,
        claims=("mla.key_turns_once",),
        rejects=("mla_cache.halves", "mla_cache.second_channels_left"),
    ),
    _law(
        "first_key_at_rest",
        "at position 0 nothing turns, whatever the base",
        "positions do not start at 0",
        "equivariance",
        checks.first_key_at_rest,
        inputs="_several",
        rejects=("mla_cache.positions_shifted_far",),
    ),
    _law(
        "entry_alone",
        "a batch entry alone gives what it gives among others",
        "batch entries share something that each should have of its own",
        "reduced",
        calls.row_alone(cached_latent, one_entry),
        inputs="_batch",
        guarantee="batch-invariant",
        rejects=("mla_cache.entries_mixed",),
    ),
    *calls.call_laws(
        "mla_cache",
        cached_latent,
        others,
        {
            "inputs_unchanged": ("mla_cache.in_place",),
            "no_memory": ("mla_cache.buffer_handed_out",),
            "output_form": (
                "mla_cache.key_not_cached",
                "mla_cache.result_in_float32",
            ),
            "empty_batch": ("mla_cache.empty_flattened",),
        },
    ),
    *gradient_laws(
        "mla_cache",
        gradients,
        {
            "gradients_match_oracle": ("mla_cache.gradient_of_weight_missing",),
            "zero_upstream": ("mla_cache.gradient_with_decay",),
        },
        inputs="mla_cache",
        claims=("mla.latent_is_projection",),
    ),
)
