"""T5's buckets by the logarithm of the paper's code, and its bias with one row an offset."""

from __future__ import annotations

from attnspec.impls.t5_bias import t5_bias_by_offset as t5_bias
from attnspec.impls.t5_bucket import t5_bucket_by_logarithm as t5_bucket
from attnspec.target import Target

__all__ = ["TARGET", "t5_bias", "t5_bucket"]

TARGET = Target(name="torch.by_logarithm", precision="strict", requires={"torch": "torch"})
