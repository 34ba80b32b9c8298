"""The catalogue of wrong implementations, which measures the suite."""

from __future__ import annotations

from attnspec.impls.faults import (
    alibi_bias,
    alibi_slopes,
    attention,
    attention_axes,
    attention_bias,
    attention_calls,
    attention_causal,
    attention_gradient_memory,
    attention_gradient_options,
    attention_gradient_storage,
    attention_gradient_sums,
    attention_gradients,
    attention_heads,
    attention_hidden,
    attention_masks,
    attention_memory,
    attention_parts,
    attention_precision,
    attention_promises,
    attention_scale,
    attention_tiles,
    attention_window,
    layer_norm,
    layer_norm_gradients,
    learned_positions,
    learned_positions_gradients,
    rms_norm,
    rms_norm_gradients,
    rope,
    rope_angles,
    rope_apply,
    rope_apply_gradients,
    rope_gradients,
    rope_memory,
    rope_positions,
    rope_streams,
    sinusoidal,
    sinusoidal_memory,
    sinusoidal_positions,
    softmax,
    softmax_gradients,
    softmax_memory,
    softmax_shape,
    t5_bias,
    t5_bucket,
)
from attnspec.impls.faults.fault import Fault

FAULTS: tuple[Fault, ...] = (
    *softmax.FAULTS,
    *softmax_shape.FAULTS,
    *softmax_memory.FAULTS,
    *softmax_gradients.FAULTS,
    *sinusoidal.FAULTS,
    *sinusoidal_positions.FAULTS,
    *sinusoidal_memory.FAULTS,
    *learned_positions.FAULTS,
    *learned_positions_gradients.FAULTS,
    *t5_bucket.FAULTS,
    *t5_bias.FAULTS,
    *alibi_slopes.FAULTS,
    *alibi_bias.FAULTS,
    *rope.FAULTS,
    *rope_angles.FAULTS,
    *rope_positions.FAULTS,
    *rope_memory.FAULTS,
    *rope_streams.FAULTS,
    *rope_apply.FAULTS,
    *rope_gradients.FAULTS,
    *rope_apply_gradients.FAULTS,
    *layer_norm.FAULTS,
    *layer_norm_gradients.FAULTS,
    *rms_norm.FAULTS,
    *rms_norm_gradients.FAULTS,
    *attention_causal.FAULTS,
    *attention_window.FAULTS,
    *attention_masks.FAULTS,
    *attention_bias.FAULTS,
    *attention_hidden.FAULTS,
    *attention_scale.FAULTS,
    *attention.FAULTS,
    *attention_heads.FAULTS,
    *attention_axes.FAULTS,
    *attention_tiles.FAULTS,
    *attention_parts.FAULTS,
    *attention_memory.FAULTS,
    *attention_calls.FAULTS,
    *attention_precision.FAULTS,
    *attention_promises.FAULTS,
    *attention_gradients.FAULTS,
    *attention_gradient_options.FAULTS,
    *attention_gradient_sums.FAULTS,
    *attention_gradient_storage.FAULTS,
    *attention_gradient_memory.FAULTS,
)


def fault(name: str) -> Fault:
    """The fault with this id. Raises KeyError, with ids that resemble it."""
    for candidate in FAULTS:
        if candidate.id == name:
            return candidate
    from difflib import get_close_matches

    near = get_close_matches(name, [candidate.id for candidate in FAULTS])
    hint = f"; near it: {', '.join(near)}" if near else ""
    raise KeyError(f"no fault {name!r}{hint}")
