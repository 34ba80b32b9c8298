"""transformers: the table of Whisper's encoder.

As tensor2tensor's, it spreads the exponents from 0 to 1 with both ends, which is no option of the
contract; but the slowest frequency is an argument. M2M100, XGLM and Speech2Text fix that at
1/10000, so that at no width above 2 they have the documents' frequencies: they are no targets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnspec.impls.targets.table_rows import rows_of
from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor

TARGET = Target(
    name="transformers.whisper",
    conventions={"sinusoidal.layout": "concatenated"},
    # it divides by the number of pairs less one
    limits={"dim": (4, 4096)},
    requires={"torch": "torch", "transformers": "transformers"},
)


def sinusoidal(positions: Tensor, dim: int, *, base: float = 10000.0) -> Tensor:
    """`sinusoids` down to the frequency that the last pair has by the documents' formula."""
    from transformers.models.whisper.modeling_whisper import sinusoids

    slowest = base ** ((dim - 2) / dim)
    return rows_of(positions, dim, lambda rows: sinusoids(rows, dim, slowest).to(positions.device))
