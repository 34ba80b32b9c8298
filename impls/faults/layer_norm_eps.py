"""Wrong implementations of layer_norm: where eps stands, and what statistics are kept in."""

from __future__ import annotations

import torch
from torch import Tensor

from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.layer_norm import Normalise, by_inverse, by_normalised


def _rounded(dtype: torch.dtype) -> Normalise:
    """Mean and variance are kept in another dtype."""

    def normalise(x: Tensor, eps: float) -> Tensor:
        mean = x.mean(dim=-1, keepdim=True).to(dtype).to(x.dtype)
        variance = (x - mean).square().mean(dim=-1, keepdim=True).to(dtype).to(x.dtype)
        return (x - mean) * torch.rsqrt(variance + eps)

    return normalise


FAULTS = (
    Fault(
        id="layer_norm.eps_missing",
        component="layer_norm",
        kind="K19",
        reason="adds no eps, so that a constant row is 0 / 0",
        remedy="Add eps to the variance, under the root.",
        law="layer_norm.constant_gives_bias",
        functions=by_inverse(lambda variance, eps: torch.rsqrt(variance)),
    ),
    Fault(
        id="layer_norm.eps_outside",
        component="layer_norm",
        kind="K19",
        reason="adds eps to the root of the variance, and doesn't say so; it stands under the root",
        remedy="Add eps to the variance, or declare the convention layer_norm.eps=outside.",
        law="layer_norm.eps_read_off",
        functions=by_inverse(lambda variance, eps: 1.0 / (variance.sqrt() + eps)),
    ),
    Fault(
        id="layer_norm.eps_clamps",
        component="layer_norm",
        kind="K19",
        reason="takes eps in place of smaller variances, and adds nothing to larger ones",
        remedy="Add eps to every variance.",
        law="layer_norm.eps_read_off",
        functions=by_inverse(lambda variance, eps: torch.rsqrt(variance.clamp_min(eps))),
    ),
    Fault(
        id="layer_norm.eps_squared",
        component="layer_norm",
        kind="K19",
        reason="adds the square of eps to the variance, as if eps were a deviation",
        remedy="Add eps itself.",
        law="layer_norm.eps_read_off",
        functions=by_inverse(lambda variance, eps: torch.rsqrt(variance + eps * eps)),
    ),
    Fault(
        id="layer_norm.eps_ignored",
        component="layer_norm",
        kind="K29",
        reason="accepts `eps` and adds 1e-5 whatever it says",
        remedy="Hand eps on, or refuse other values.",
        law="layer_norm.scale_invariance",
        functions=by_inverse(lambda variance, eps: torch.rsqrt(variance + 1e-5)),
    ),
    Fault(
        id="layer_norm.mean_and_variance_in_bfloat16",
        component="layer_norm",
        kind="K13",
        reason="keeps mean and variance in bfloat16; they are kept in the precision of sums",
        remedy="Keep statistics in float32, or declare the field statistics as storage.",
        law="layer_norm.matches_oracle",
        functions=by_normalised(_rounded(torch.bfloat16)),
    ),
    Fault(
        id="layer_norm.variance_in_float16",
        component="layer_norm",
        kind="K13",
        reason="keeps mean and variance in float16, where a variance from 65520 on is infinite and "
        "gives zeros",
        remedy="Keep statistics in float32.",
        law="layer_norm.scale_invariance",
        functions=by_normalised(_rounded(torch.float16)),
        report="microsoft/onnxruntime #17692",
    ),
)
