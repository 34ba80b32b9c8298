"""LayerNormalization of ONNX by its reference evaluator, in float16. By its attribute stash_type,
which is left at float32, the statistics are to be formed there; they are formed in float16."""

from __future__ import annotations

from attnspec.impls.targets.onnx_norms import layer_norm
from attnspec.target import Target

__all__ = ["TARGET", "layer_norm"]

TARGET = Target(
    name="onnx.layer_norm_half",
    dtypes=("float16",),
    arrays="numpy",
    requires={"onnx": "onnx"},
)
