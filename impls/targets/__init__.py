"""The built-in targets: the references of this package, and public libraries.

A target's library is imported inside the function that needs it.
"""

from __future__ import annotations

from collections.abc import Mapping

TARGETS: Mapping[str, str] = {
    "torch": "attnspec.impls.targets.torch_reference",
    "torch.online": "attnspec.impls.targets.torch_online",
    "torch.complex": "attnspec.impls.targets.torch_complex",
    "torch.matrix": "attnspec.impls.targets.torch_matrix",
    "torch.half": "attnspec.impls.targets.torch_half",
    "torch.tiled": "attnspec.impls.targets.torch_tiled",
    "torch.split": "attnspec.impls.targets.torch_split",
    "torch.per_query": "attnspec.impls.targets.torch_per_query",
    "torch.top_left": "attnspec.impls.targets.torch_top_left",
    "torch.total_window": "attnspec.impls.targets.torch_total_window",
    "torch.tiled_heads": "attnspec.impls.targets.torch_tiled_heads",
    "torch.nan_rows": "attnspec.impls.targets.torch_nan_rows",
    "torch.rms_by_blocks": "attnspec.impls.targets.torch_rms_by_blocks",
    "torch.rms_one_plus": "attnspec.impls.targets.torch_rms_one_plus",
    "torch.rms_outside": "attnspec.impls.targets.torch_rms_outside",
    "torch.rms_clamped": "attnspec.impls.targets.torch_rms_clamped",
    "torch.rms_without_eps": "attnspec.impls.targets.torch_rms_without_eps",
    "torch.by_logarithm": "attnspec.impls.targets.torch_by_logarithm",
    "torch.sdpa": "attnspec.impls.targets.torch_sdpa",
    "torch.sdpa_flash": "attnspec.impls.targets.torch_sdpa_flash",
    "torch.sdpa_flash_lse": "attnspec.impls.targets.torch_sdpa_flash_lse",
    "torch.sdpa_math": "attnspec.impls.targets.torch_sdpa_math",
    "torch.flex": "attnspec.impls.targets.torch_flex",
    "torch.functional": "attnspec.impls.targets.torch_functional",
    "torch.embedding": "attnspec.impls.targets.torch_embedding",
    "transformers.half": "attnspec.impls.targets.transformers_half",
    "transformers.interleaved": "attnspec.impls.targets.transformers_interleaved",
    "transformers.gptj": "attnspec.impls.targets.transformers_gptj",
    "transformers.deepseek": "attnspec.impls.targets.transformers_deepseek",
    "transformers.deepseek_complex": "attnspec.impls.targets.transformers_deepseek_complex",
    "transformers.opt": "attnspec.impls.targets.transformers_opt",
    "transformers.eager": "attnspec.impls.targets.transformers_eager",
    "transformers.sdpa": "attnspec.impls.targets.transformers_sdpa",
    "x-transformers": "attnspec.impls.targets.x_transformers",
    "x-transformers.flash": "attnspec.impls.targets.x_transformers_flash",
    "x-transformers.positions": "attnspec.impls.targets.x_transformers_positions",
    "rotary-embedding-torch": "attnspec.impls.targets.rotary_embedding_torch",
    "rotary-embedding-torch.offset": "attnspec.impls.targets.rotary_embedding_torch_offset",
    "x-transformers.sinusoidal": "attnspec.impls.targets.x_transformers_sinusoidal",
    "transformers.sinusoidal": "attnspec.impls.targets.transformers_sinusoidal",
    "transformers.added": "attnspec.impls.targets.transformers_added",
    "positional-encodings": "attnspec.impls.targets.positional_encodings",
    "positional-encodings.cast": "attnspec.impls.targets.positional_encodings_cast",
    "mlx.sinusoidal": "attnspec.impls.targets.mlx_sinusoidal",
    "mlx.sinusoidal_wide": "attnspec.impls.targets.mlx_sinusoidal_wide",
    "mlx": "attnspec.impls.targets.mlx",
    "mlx.default": "attnspec.impls.targets.mlx_default",
    "mlx.half": "attnspec.impls.targets.mlx_half",
    "jax.lowest_bias": "attnspec.impls.targets.jax_lowest_bias",
    "openvino": "attnspec.impls.targets.openvino",
    "jax": "attnspec.impls.targets.jax",
    "onnxruntime": "attnspec.impls.targets.onnxruntime",
    "onnx.reference": "attnspec.impls.targets.onnx_reference",
    "onnx.broadcast": "attnspec.impls.targets.onnx_broadcast",
}
"""Name to the module that is the target."""

KNOWN_TO_FAIL: Mapping[str, str] = {
    "rotary-embedding-torch.offset": "positions are rounded to the dtype of x",
    "torch.sdpa_flash_lse": "the log-sum-exp of a row that sees no key is 0",
    "onnx.broadcast": "causality and a mask that all queries share are that of the first query",
    "x-transformers.flash": "more queries than keys: causality is top-left, but not beside a mask",
    "jax.lowest_bias": "a finite bias can lie below what hides a key",
    "positional-encodings.cast": "positions and frequencies are rounded to the dtype of the model",
    "mlx.sinusoidal_wide": "the logarithms of wide rows' frequencies are differences",
    "mlx.default": "rows in half precision are summed in half precision",
}
"""Targets with a defect of their library, each a row of BUGS.md. A run over all targets expects
them to fail, and complains when they no longer do."""
