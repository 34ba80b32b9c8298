"""What the documents say, and what mathematics says about it: one record a statement.

`CLAIMS` is the register. A derivation runs on demand, none on import.
"""

from __future__ import annotations

from attnspec.spec import (
    alibi_bias,
    alibi_bias_weights,
    alibi_slopes,
    attention,
    attention_causal,
    attention_cost,
    attention_formula,
    attention_gradient_sums,
    attention_gradients,
    attention_masks,
    attention_merging,
    attention_reach,
    attention_saturation,
    attention_scaling,
    attention_scores,
    attention_softcap,
    attention_symmetry,
    attention_temperature,
    decode_attention,
    gqa,
    gqa_cache,
    gqa_gradients,
    gqa_groups,
    hadamard,
    hadamard_energy,
    hadamard_forms,
    hadamard_scores,
    indexer_scores,
    kv_cache,
    kv_cache_bytes,
    layer_norm,
    layer_norm_tokens,
    learned_positions,
    longformer_attention,
    mla,
    mla_costs,
    mla_formula,
    mla_orders,
    mla_rank,
    mla_rotation,
    mla_sizes,
    mla_streams,
    multi_head_attention,
    multi_head_attention_blocks,
    multi_head_attention_heads,
    multi_head_attention_listing,
    norm_gradients,
    norm_invariances,
    quantize_int8,
    residual_block,
    rms_norm,
    rope,
    rope_decay,
    rope_frequencies,
    rope_gradients,
    rope_layouts,
    rope_pairs,
    rope_partial,
    rope_reach,
    rope_scores,
    select_top_k,
    simple_encodings,
    sinusoidal,
    sinusoidal_addition,
    sinusoidal_precision,
    sinusoidal_shifts,
    sinusoidal_smoothness,
    sinusoidal_walkthrough,
    softmax,
    softmax_gradients,
    softmax_saturation,
    softmax_scaling,
    sparse_attention,
    t5_bias,
    t5_bias_gradients,
    t5_bucket,
    transformer_layer,
    window,
    window_reach,
)
from attnspec.spec.claim import Claim

CLAIMS: tuple[Claim, ...] = (
    softmax.CLAIMS
    + softmax_scaling.CLAIMS
    + softmax_saturation.CLAIMS
    + rope.CLAIMS
    + rope_scores.CLAIMS
    + rope_frequencies.CLAIMS
    + rope_pairs.CLAIMS
    + rope_layouts.CLAIMS
    + rope_reach.CLAIMS
    + rope_decay.CLAIMS
    + rope_partial.CLAIMS
    + softmax_gradients.CLAIMS
    + attention_gradients.CLAIMS
    + attention_gradient_sums.CLAIMS
    + gqa_gradients.CLAIMS
    + rope_gradients.CLAIMS
    + attention_formula.CLAIMS
    + attention.CLAIMS
    + attention_scores.CLAIMS
    + attention_reach.CLAIMS
    + attention_scaling.CLAIMS
    + attention_temperature.CLAIMS
    + attention_masks.CLAIMS
    + attention_causal.CLAIMS
    + attention_softcap.CLAIMS
    + attention_symmetry.CLAIMS
    + attention_saturation.CLAIMS
    + attention_merging.CLAIMS
    + sinusoidal.CLAIMS
    + sinusoidal_shifts.CLAIMS
    + sinusoidal_walkthrough.CLAIMS
    + sinusoidal_precision.CLAIMS
    + sinusoidal_addition.CLAIMS
    + learned_positions.CLAIMS
    + gqa.CLAIMS
    + gqa_groups.CLAIMS
    + gqa_cache.CLAIMS
    + attention_cost.CLAIMS
    + window.CLAIMS
    + window_reach.CLAIMS
    + longformer_attention.CLAIMS
    + mla_formula.CLAIMS
    + mla_orders.CLAIMS
    + mla_sizes.CLAIMS
    + multi_head_attention.CLAIMS
    + multi_head_attention_blocks.CLAIMS
    + multi_head_attention_listing.CLAIMS
    + multi_head_attention_heads.CLAIMS
    + decode_attention.CLAIMS
    + kv_cache.CLAIMS
    + kv_cache_bytes.CLAIMS
    + hadamard.CLAIMS
    + hadamard_forms.CLAIMS
    + hadamard_energy.CLAIMS
    + hadamard_scores.CLAIMS
    + quantize_int8.CLAIMS
    + indexer_scores.CLAIMS
    + select_top_k.CLAIMS
    + sparse_attention.CLAIMS
    + mla.CLAIMS
    + mla_rank.CLAIMS
    + simple_encodings.CLAIMS
    + sinusoidal_smoothness.CLAIMS
    + t5_bucket.CLAIMS
    + t5_bias.CLAIMS
    + t5_bias_gradients.CLAIMS
    + alibi_slopes.CLAIMS
    + alibi_bias.CLAIMS
    + alibi_bias_weights.CLAIMS
    + layer_norm.CLAIMS
    + layer_norm_tokens.CLAIMS
    + rms_norm.CLAIMS
    + norm_invariances.CLAIMS
    + norm_gradients.CLAIMS
    + residual_block.CLAIMS
    + transformer_layer.CLAIMS
    + mla_costs.CLAIMS
    + mla_streams.CLAIMS
    + mla_rotation.CLAIMS
)


def claim(claim_id: str) -> Claim:
    """The claim of that id. Raises ValueError, with the component's ids, for an unknown one."""
    for entry in CLAIMS:
        if entry.id == claim_id:
            return entry
    component = claim_id.partition(".")[0]
    near = [entry.id for entry in CLAIMS if entry.id.startswith(f"{component}.")]
    if near:
        raise ValueError(f"no claim {claim_id!r}; of {component} there are {', '.join(near)}")
    components = sorted({entry.id.partition(".")[0] for entry in CLAIMS})
    raise ValueError(f"no claim {claim_id!r}; components with claims: {', '.join(components)}")
