"""What explains a failure of layer_norm."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnspec.driving import Effort, outcome_of
from attnspec.impls import layer_norm as references
from attnspec.impls.faults.table import fault
from tests.stubs import SMALL, law_of_id, target


def test_eps_beside_the_root_is_named() -> None:
    mine = target(layer_norm=references.layer_norm_outside)
    found = outcome_of(law_of_id("layer_norm.matches_oracle"), mine, "float32", "cpu", SMALL)
    assert found.diagnosis[0] == "convention:layer_norm.eps=outside"


def test_a_variance_in_one_pass_is_named() -> None:
    def one_pass(
        x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float = 1e-5
    ) -> Tensor:
        mean = x.mean(-1, keepdim=True)
        spread = (x * x).mean(-1, keepdim=True) - mean * mean
        return references.affine((x - mean) / (spread + eps).sqrt(), weight, bias)

    law = law_of_id("layer_norm.moments")
    found = outcome_of(law, target(layer_norm=one_pass), "float32", "cpu", Effort(tier="smoke"))
    assert "layer_norm.one_pass" in found.diagnosis


def test_a_gradient_of_zeros_is_not_like_one_that_is_a_little_off() -> None:
    """Beside zeros no allowance is small, so that once nothing was compared."""
    rounded = fault("layer_norm.gradient_summed_in_storage").functions()["layer_norm"]
    mine = target(layer_norm=rounded)
    law = law_of_id("layer_norm.gradients_match_oracle")
    found = outcome_of(law, mine, "bfloat16", "cpu", Effort(tier="smoke"))
    assert found.diagnosis == ("layer_norm.gradient_summed_in_storage",)


def test_a_hypothesis_under_which_less_is_known_is_no_error() -> None:
    """Two casts of the rows: their gradients are added in half precision. Of some rows nothing is
    known if statistics are kept there."""

    def cast_twice(x: Tensor, **options: Any) -> Tensor:
        wide = torch.float32
        c = x.to(wide) - x.to(wide).mean(-1, keepdim=True)
        eps = options.get("eps", 1e-5)
        hat = c * torch.rsqrt(c.square().mean(-1, keepdim=True) + eps)
        return references.affine(hat, options.get("weight"), options.get("bias")).to(x.dtype)

    mine = target({"precision": "strict"}, layer_norm=cast_twice)
    law = law_of_id("layer_norm.gradient_rows_vanish")
    found = outcome_of(law, mine, "bfloat16", "cpu", Effort(tier="smoke"))
    assert found.status == "fail"
    assert not found.error
