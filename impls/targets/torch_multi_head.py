"""`torch.nn.functional.multi_head_attention_forward`, what `torch.nn.MultiheadAttention` calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor

TARGET = Target(
    name="torch.multi_head",
    # heads are parts of the width of the model: one width is judged
    limits={"multi_head_attention": {"m": {12}, "h": {3}, "d": {4}, "e": {4}}},
    requires={"torch": "torch"},
)


def multi_head_attention(
    x: Tensor,
    w_q: Tensor,
    w_k: Tensor,
    w_v: Tensor,
    w_o: Tensor,
    *,
    n_heads: int,
    causal: bool = False,
) -> Tensor:
    """It takes tokens before batch entries, and weights with a row for each output. Raises
    NotImplementedError where heads are not parts of the model's width, or the batch is empty."""
    import torch

    m = x.shape[2]
    if not (w_q.shape[1] == w_v.shape[1] == m):
        raise NotImplementedError("heads must be parts of the width of the model")
    mask = None
    if causal:
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
    tokens = x.transpose(0, 1)
    output, _ = torch.nn.functional.multi_head_attention_forward(
        tokens, tokens, tokens, m, n_heads, None, None, None, None, False, 0.0, w_o.mT, None,
        training=False, need_weights=False, attn_mask=mask, use_separate_proj_weight=True,
        q_proj_weight=w_q.mT, k_proj_weight=w_k.mT, v_proj_weight=w_v.mT,
    )  # fmt: skip
    return output.transpose(0, 1)
