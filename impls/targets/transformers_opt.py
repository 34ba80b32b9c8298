"""The learned positions of OPT, whose table begins with two rows that no position reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor

TARGET = Target(
    name="transformers.opt",
    # the gradient's running sums are rounded to the table's dtype
    precision={"bfloat16": {"reductions": "storage"}, "float16": {"reductions": "storage"}},
    requires={"torch": "torch", "transformers": "transformers"},
)
RESERVED = 2


def learned_positions(positions: Tensor, table: Tensor) -> Tensor:
    """`OPTLearnedPositionalEmbedding` with the table behind its reserved rows."""
    import torch
    from torch.func import functional_call
    from transformers.models.opt.modeling_opt import OPTLearnedPositionalEmbedding

    if ((positions < 0) & (positions >= -RESERVED)).any():
        raise NotImplementedError("OPT keeps rows for padding, which is at the positions -1 and -2")
    rows, width = table.shape
    with torch.device("meta"):
        module = OPTLearnedPositionalEmbedding(rows, width)
    weight = torch.cat((table.new_full((RESERVED, width), torch.nan), table))
    seen = torch.ones_like(positions).unsqueeze(0)
    arguments = {"position_ids": positions.unsqueeze(0)}
    found: Tensor = functional_call(module, {"weight": weight}, (seen,), arguments)
    return found[0]
