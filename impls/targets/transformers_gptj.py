"""The rotation of GPT-J: adjacent pairs of the first channels, by a table of a fixed length."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor

TARGET = Target(
    name="transformers.gptj",
    # angle, sine and cosine are formed in float32 for every dtype
    precision={"float64": {"tables": "float32"}},
    requires={"torch": "torch", "transformers": "transformers"},
)
ROWS = 2**15
"""Of the table, which the model makes once: positions beyond are declined."""


def rope(x: Tensor, positions: Tensor, *, rotary_dim: int | None = None) -> Tensor:
    """`apply_rotary_pos_emb` on the channels that turn, as GPT-J's attention calls it, with the
    tables of a rotary module made from a config."""
    import torch
    from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb

    if (positions >= ROWS).any():
        raise NotImplementedError(f"the table ends at position {ROWS - 1}")
    width = x.shape[-1] if rotary_dim is None else rotary_dim
    sin, cos = _gptj(width)(x, positions if positions.ndim == 2 else positions.unsqueeze(0))
    # the model has the heads behind the tokens here
    tokens = x.transpose(1, 2)
    turned = apply_rotary_pos_emb(tokens[..., :width], sin, cos)
    result: Tensor = torch.cat((turned, tokens[..., width:]), -1).transpose(1, 2)
    return result


@lru_cache(maxsize=16)
def _gptj(width: int) -> Any:
    from transformers import GPTJConfig
    from transformers.models.gptj.modeling_gptj import GPTJRotaryEmbedding

    return GPTJRotaryEmbedding(GPTJConfig(n_positions=ROWS, rotary_dim=width))
