"""ALiBi of MPT: slope times how far a key is before the last one, in float32."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attnspec.target import Target

if TYPE_CHECKING:
    import torch
    from torch import Tensor

TARGET = Target(
    name="transformers.mpt",
    dtypes=("float32",),
    conventions={"alibi.row_constant": "free", "alibi.future": "unspecified"},
    requires={"torch": "torch", "transformers": "transformers"},
)


def alibi_bias(n_heads: int, t: int, s: int, *, device: torch.device | str | None = None) -> Tensor:
    """`build_mpt_alibi_tensor`, whose row all queries share."""
    from transformers.models.mpt import modeling_mpt

    made: Any = modeling_mpt.build_mpt_alibi_tensor
    row: Tensor = made(n_heads, s, device=device)
    return row.expand(n_heads, t, s)
