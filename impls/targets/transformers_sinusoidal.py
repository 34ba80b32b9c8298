"""transformers: the table of GPT-J, all sines first."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from attnspec.impls.targets.table_rows import rows_of
from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor

TARGET = Target(
    name="transformers.sinusoidal",
    conventions={"sinusoidal.layout": "concatenated"},
    requires={"torch": "torch", "transformers": "transformers"},
)


def sinusoidal(positions: Tensor, dim: int) -> Tensor:
    """`create_sinusoidal_positions`, indexed by position."""
    from transformers.models.gptj.modeling_gptj import create_sinusoidal_positions

    table = partial(create_sinusoidal_positions, dim=dim)
    return rows_of(positions, dim, lambda rows: table(rows).to(positions.device))
