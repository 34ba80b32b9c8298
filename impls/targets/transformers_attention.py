"""What the attention functions of transformers are given by its models."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def visible(q: Tensor, k: Tensor, causal: bool, window: int | None, *, skip: bool) -> Any:
    """The library's mask `b 1 t s` of causality and window, the newest query at the newest key;
    None where it has none, or leaves it to `is_causal` (which `skip` allows)."""
    from transformers import masking_utils

    if not causal:
        # its windows on both sides count in another way than its causal ones
        return None
    function = masking_utils.causal_mask_function
    if window is not None:
        function = masking_utils.sliding_window_causal_mask_function(window)
    t, s = q.shape[-2], k.shape[-2]
    return masking_utils.sdpa_mask(
        q.shape[0],
        t,
        s,
        q_offset=s - t,
        mask_function=function,
        local_size=window,
        allow_is_causal_skip=skip,
        device=q.device,
    )


def module(q: Tensor, k: Tensor, *, causal: bool) -> Any:
    """What they read of the attention layer that calls them."""
    groups = q.shape[1] // k.shape[1]
    return SimpleNamespace(num_key_value_groups=groups, is_causal=causal, training=False)
