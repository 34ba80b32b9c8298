"""ALiBi with geometric slopes for every head count, and a bias that knows the key alone."""

from __future__ import annotations

from attnspec.impls.alibi_bias import alibi_bias_by_key as alibi_bias
from attnspec.impls.alibi_slopes import alibi_slopes_geometric as alibi_slopes
from attnspec.impls.attention import attention
from attnspec.target import Target

__all__ = ["TARGET", "alibi_bias", "alibi_slopes", "attention"]

TARGET = Target(
    name="torch.by_key",
    conventions={
        "alibi.slopes": "geometric",
        "alibi.row_constant": "free",
        "alibi.future": "unspecified",
    },
    precision="strict",
    requires={"torch": "torch"},
)
