"""The laws of attention's gradients.

Sources: the claims of `spec/attention_gradients.py`; FlashAttention-2 (Dao, 2023) for what fused
backward passes do. dq, dk, dv and the gradient of the bias are those of the definition with all
its options.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnspec.oracle.attention import others
from attnspec.oracle.attention_calls import changed
from attnspec.oracle.attention_jacobians import along_values, head_or_query
from attnspec.oracle.attention_values import attention, gradients, visible
from attnspec.oracle.calls import close, same
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.gradient_laws import gradient_laws, match_oracle, same_with_gradients
from attnspec.oracle.inner_products import paired, vanishing
from attnspec.oracle.law import Implementation, Inputs, Kind, Law
from attnspec.oracle.upstream import upstream_of

Array = np.ndarray[Any, Any]


def of_empty_rows(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Every gradient of a call in which some row sees no key."""
    return match_oracle(gradients)(implementation, inputs)


def values_adjoint(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The output is linear in v: <G, O> = <dv, v>, for each batch entry."""
    upstream = upstream_of(inputs)
    output, right = implementation(inputs), attention(implementation, inputs)
    actual = implementation.gradients(inputs, upstream)["v"]
    room = gradients(implementation, inputs, upstream)["v"].allowance
    left = upstream, output, right.allowance
    return [paired("<G, O> = <dv, v>", left, (inputs.arrays["v"], actual, room), 1)]


def scores_adjoint(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Scores are linear in q and in k alike: <dq, q> = <dk, k>, for each batch entry."""
    upstream = upstream_of(inputs)
    actual = implementation.gradients(inputs, upstream)
    right = gradients(implementation, inputs, upstream)
    q, k = ((inputs.arrays[name], actual[name], right[name].allowance) for name in ("q", "k"))
    return [paired("<dq, q> = <dk, k>", q, k, 1)]


def with_whole_bias(inputs: Inputs) -> Inputs:
    """The same call with a bias of full shape, zeros where it has none."""
    full = (*inputs.arrays["q"].shape[:3], inputs.arrays["k"].shape[2])
    bias = inputs.arrays.get("bias", np.zeros(()))
    return changed(inputs, bias=np.broadcast_to(bias, full).copy())


def bias_rows_vanish(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """A constant added to a row of the bias changes nothing, so its gradient's rows add up to
    0."""
    call = with_whole_bias(inputs)
    upstream = upstream_of(call)
    actual = implementation.gradients(call, upstream)["bias"]
    room = gradients(implementation, call, upstream)["bias"].allowance
    what = "sum of a row of the bias's gradient: its positive part against its negative part"
    return [vanishing(what, actual, room, -1, implementation.dtype)]


def hidden_are_zero(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Keys and values that no query sees, queries that see nothing, and biases of hidden pairs
    have no gradient, where nothing can overflow on the way."""
    call = with_whole_bias(inputs) if "bias" in inputs.arrays else inputs
    upstream = upstream_of(call)
    actual = implementation.gradients(call, upstream)
    right = gradients(implementation, call, upstream)
    seen = visible(implementation, call)
    b, g, s = call.arrays["k"].shape[:3]
    unseen = np.broadcast_to(~np.asarray(seen.any(axis=(1, 2)))[:, None], (b, g, s))
    places = {
        "k": ("gradient of a key that no query sees", unseen),
        "v": ("gradient of a value that no query sees", unseen),
        "q": ("gradient of a query that sees nothing", ~seen.any(axis=-1)),
        "bias": ("gradient of a hidden pair's bias", ~seen),
    }
    found = []
    for name, wanted in right.items():
        what, hidden = places[name]
        values = actual[name][hidden][wanted.allowance[hidden] == 0.0]
        if values.size:
            found.append(same(what, values, np.zeros_like(values), implementation.dtype))
    return found


def long_sums(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Scores of zero and an upstream of ones: every weight is 1/s, and each gradient is a sum of
    equal terms: dv, dk and that of a shared bias over rows and heads (values of one at the first
    key, queries of one, keys of zero), dq over keys (keys and values of one sign each, queries of
    zero). A sum that is kept in half precision stops growing."""
    q, k, v = (np.zeros_like(inputs.arrays[name]) for name in "qkv")
    bare = changed(inputs, {"causal": None, "window": None}, mask=None, bias=None)
    signs = np.where(np.arange(k.shape[2]) % 2, -1.0, 1.0)[:, None]
    first = np.where(np.arange(v.shape[2]) == 0, 1.0, 0.0)[:, None]
    shared = np.zeros((1, 1, 1, k.shape[2])) if implementation.accepts("bias") else None
    over_rows = changed(bare, q=np.ones_like(q), k=k, v=v + first, bias=shared)
    over_keys = changed(bare, q=q, k=k + signs, v=v + signs)
    rows = [name for name in ("k", "v", "bias") if name in over_rows.arrays]
    found = []
    for call, names in ((over_rows, rows), (over_keys, ["q", "v"])):
        upstream = np.ones_like(upstream_of(call))
        actual = implementation.gradients(call, upstream)
        right = gradients(implementation, call, upstream)
        found += [
            close(f"gradient of {name}, a sum of equal terms", actual[name], right[name],
                  implementation.dtype)
            for name in names
        ]  # fmt: skip
    return found


def _law(name: str, says: str, means: str, kind: Kind, check: Any, **more: Any) -> Law:
    family = more.pop("inputs", "attention_gradients")
    return Law(
        f"attention.{name}", "attention", says, means, kind, check, inputs=family,
        gradients=True, **more,
    )  # fmt: skip


LAWS: tuple[Law, ...] = (
    *gradient_laws(
        "attention",
        gradients,
        {
            "gradients_match_oracle": (
                "attention.gradient_row_term_of_first_head",
                "attention.gradient_row_term_is_mean",
                "attention.gradient_of_bias_scaled",
                "attention.gradient_of_keys_by_view",
                "attention.gradient_top_left",
                "attention.gradient_without_row_term_with_lse",
                "attention.gradient_without_bias",
                "attention.gradient_with_default_scale",
                "attention.gradient_without_softcap",
                "attention.gradient_of_bias_through_softcap",
                "attention.gradient_of_first_width",
                "attention.gradient_of_values_missing",
                "attention.gradient_of_bias_missing",
                "attention.gradient_of_bias_of_last",
                "attention.gradient_of_bias_of_first_entry",
                "attention.gradient_of_bias_mean",
                "attention.gradient_heads_tiled",
                "attention.gradient_accumulates",
                "attention.gradient_clipped",
                "attention.gradient_of_keys_transposed",
            ),
            "zero_upstream": ("attention.gradient_upstream_ignored",),
            "gradients_of_views": (
                "attention.gradient_upstream_as_contiguous",
                "attention.gradient_of_sum_assumed",
                "attention.gradient_first_of_expanded",
                "attention.gradient_in_order_of_memory",
            ),
            "gradients_repeatable": ("attention.gradient_order_alternates",),
            "gradients_of_some": ("attention.gradient_scaled_with_queries",),
            "gradients_between_calls": (
                "attention.gradient_row_term_of_latest_call",
                "attention.gradient_converts_saved_lse",
            ),
            "gradient_leaves_output": (
                "attention.gradient_overwrites_upstream",
                "attention.gradient_overwrites_queries",
            ),
            "gradients_accumulate": ("attention.gradient_added_to_grad",),
            "gradients_of_gradients": ("attention.gradient_of_gradient_with_opposite_scores",),
            "gradients_stay_apart": ("attention.gradient_carried_over",),
        },
        inputs="attention_gradients",
        others=others,
        of_mean=lambda inputs: True,
        jacobians={"v": along_values},
        parts=head_or_query,
        claims=(
            "attention.gradient_of_queries",
            "attention.gradient_of_keys",
            "attention.gradient_of_values",
            "attention.gradient_of_bias",
        ),
    ),
    _law(
        "same_with_gradients",
        "the output is the same whether or not gradients will be asked for",
        "training takes another path, with other options or with dropout",
        "reduced",
        same_with_gradients(attention),
        inputs="attention_two_runs",
        claims=("attention.masked_formula",),
        rejects=(
            "attention.softcap_not_in_training",
            "attention.window_causal_in_training",
            "attention.dropout_in_training",
        ),
    ),
    _law(
        "gradients_of_empty_rows",
        "a row that sees no key has no gradient, and leaves those of the others alone",
        "0/0 in a row without keys reaches the gradients of every key",
        "gradient",
        of_empty_rows,
        inputs="attention_empty_rows",
        claims=("attention.gradients_are_of_definition",),
        conventions={"attention.empty_row": "zero"},
        rejects=(
            "attention.empty_row_nan_gradient",
            "attention.gradient_empty_row",
        ),
    ),
    _law(
        "gradients_of_values_adjoint",
        "linear in v: the inner product of upstream and output is that of dv and v",
        "the backward pass uses other weights than the forward pass, or loses rows or heads",
        "gradient",
        values_adjoint,
        claims=("attention.values_adjoint",),
        rejects=(
            "attention.gradient_of_numerators",
            "attention.gradient_of_values_from_scores",
            "attention.gradient_lse_in_bfloat16",
            "attention.gradient_of_values_first_of_group",
            "attention.gradient_group_mean",
            "attention.gradient_writes_shared_keys",
            "attention.gradient_query_tail_lost",
        ),
    ),
    _law(
        "gradients_of_scores_adjoint",
        "scores are linear in q and in k: <dq, q> = <dk, k>",
        "dq and dk come from different gradients of the scores",
        "gradient",
        scores_adjoint,
        claims=("attention.scores_adjoint",),
        rejects=(
            "attention.gradient_of_queries_unscaled",
            "attention.gradient_of_keys_unscaled",
            "attention.gradient_of_keys_zero",
            "attention.gradient_of_keys_last_of_group",
            "attention.gradient_without_last_key",
        ),
    ),
    _law(
        "bias_gradient_rows_vanish",
        "every row of the bias's gradient adds up to 0",
        "the row's own term (the sum of P dP, or of O dO) is missing or is that of another row",
        "gradient",
        bias_rows_vanish,
        options=("bias",),
        claims=("attention.gradient_rows_vanish",),
        rejects=(
            "attention.gradient_without_row_term",
            "attention.gradient_row_term_added",
            "attention.gradient_row_term_of_next_row",
        ),
    ),
    _law(
        "hidden_gradients_zero",
        "what no query sees has a gradient of exactly 0",
        "the backward pass forgets the mask, causality or the window",
        "exact",
        hidden_are_zero,
        inputs="attention_hidden",
        claims=("attention.gradient_of_masked_keys_vanishes",),
        rejects=(
            "attention.gradient_without_mask",
            "attention.gradient_without_causal",
            "attention.gradient_without_window",
        ),
    ),
    _law(
        "gradients_of_tiles",
        "gradients are right where queries and keys are more than a tile holds",
        "a tile of the backward pass starts or ends at the wrong query or key",
        "gradient",
        match_oracle(gradients),
        inputs="attention_gradients_tiles",
        rejects=("attention.gradient_of_keys_without_diagonal",),
    ),
    _law(
        "long_sums",
        "equal scores and an upstream of ones: every gradient is a sum of equal terms, dv the "
        "number of rows over the number of keys",
        "a long sum over rows or heads is kept in half precision, or part of it is lost",
        "gradient",
        long_sums,
        inputs="attention_long",
        claims=("attention.long_sum_of_equal_weights",),
        rejects=(
            "attention.gradient_last_tile_only",
            "attention.gradient_of_values_in_storage",
            "attention.gradient_group_in_storage",
            "attention.gradient_of_keys_in_storage",
            "attention.gradient_of_queries_in_storage",
            "attention.gradient_of_bias_in_storage",
        ),
    ),
)
