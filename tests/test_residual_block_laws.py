"""Laws of residual_block on functions that are in no catalogue."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.checkpoint import checkpoint

from attnspec.impls.layer_norm import layer_norm
from attnspec.impls.rms_norm import rms_norm
from attnspec.oracle.callee import Callee, Moved, Own
from attnspec.oracle.law import Inputs
from attnspec.oracle.residual_block_values import gradients
from attnspec.subject import Subject
from tests.rejecting import rejections
from tests.stubs import target

DTYPES = ("float64", "float32", "bfloat16", "float16")


def mine(function: Callable[..., Any], dtype: str = "float32", **more: Any) -> Subject:
    declared: Mapping[str, Any] = more.pop("declared", {})
    return Subject(target(declared, residual_block=function, **more), "residual_block", dtype)


def checkpointed(x: Any, sublayer: Any, norm: Any, *, placement: str) -> Any:
    """The branch is run again in the backward pass."""
    if placement == "pre":
        return checkpoint(lambda y: sublayer(norm(y)), x, use_reentrant=False).add(x)
    return norm(torch.add(checkpoint(sublayer, x, use_reentrant=False), x))


def into_its_own(x: Any, sublayer: Any, norm: Any, *, placement: str) -> Any:
    """In place, in memory of its own."""
    if placement == "pre":
        return x.clone().add_(sublayer(norm(x)))
    return norm(x.clone().add_(sublayer(x)))


def wide(x: Any, sublayer: Any, norm: Any, *, placement: str) -> Any:
    """Sums in float32 or wider, which are handed over in the dtype of x."""
    kind = torch.promote_types(x.dtype, torch.float32)
    branch = sublayer(norm(x)) if placement == "pre" else sublayer(x)
    total = (x.to(kind) + branch.to(kind)).to(x.dtype)
    return total if placement == "pre" else norm(total)


def fused(x: Any, sublayer: Any, norm: Any, *, placement: str) -> Any:
    """As `wide`, with sums that stay wide for the norm."""
    if placement == "pre":
        return wide(x, sublayer, norm, placement=placement)
    kind = torch.promote_types(x.dtype, torch.float32)
    return norm(x.to(kind) + sublayer(x).to(kind)).to(x.dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("block", [checkpointed, into_its_own, wide])
def test_other_styles_pass(block: Callable[..., Any], dtype: str) -> None:
    assert rejections(mine(block, dtype), 12) == {}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_wide_sum_may_be_handed_over_where_it_is_declared(dtype: str) -> None:
    declared = {"precision": {"activations": "float32"}}
    assert rejections(mine(fused, dtype, declared=declared), 12) == {}
    found = rejections(mine(fused, dtype), 12)
    assert found.keys() == (set() if dtype == "float32" else {"handed_form"})


def fused_norm(x: Any, weight: Any = None, bias: Any = None, *, eps: float = 1e-5) -> Any:
    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, eps)


def fused_rms(x: Any, weight: Any = None, *, eps: float = 1e-6) -> Any:
    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)


def plain(x: Any, sublayer: Any, norm: Any, *, placement: str) -> Any:
    return x + sublayer(norm(x)) if placement == "pre" else norm(x + sublayer(x))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "norms",
    [{"layer_norm": fused_norm, "rms_norm": fused_rms},
     {"layer_norm": layer_norm, "rms_norm": rms_norm}],
    ids=["fused", "plain"],
)  # fmt: skip
def test_norms_of_targets_pass(norms: dict[str, Any], dtype: str) -> None:
    assert rejections(mine(plain, dtype, **norms), 20, laws=_own()) == {}


def _own() -> list[Any]:
    from attnspec.oracle import LAWS

    return [law for law in LAWS if law.id.startswith("residual_block.") and "_norm" in law.inputs]


@pytest.mark.parametrize("arrays", ["numpy", "dlpack"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_other_arrays_pass(arrays: str, dtype: str) -> None:
    libraries: dict[str, Callable[[Any], Any]] = {
        "numpy": np.asarray,
        "dlpack": torch.utils.dlpack.from_dlpack,
    }
    taken = libraries[arrays]

    def block(x: Any, sublayer: Any, norm: Any, *, placement: str) -> Any:
        if placement == "pre":
            return taken(x) + taken(sublayer(norm(x)))
        return norm(taken(x) + taken(sublayer(x)))

    subject = mine(block, dtype, declared={"arrays": arrays})
    assert rejections(subject, 12) == {}


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_skip_and_readings_of_a_norm_may_be_added_in_any_order(dtype: str) -> None:
    """Where an outlier leaves little to the others the gradient of RMSNorm is small, and what is
    rounded has the size of the skip: once for each reading of x."""
    generator = np.random.default_rng(5)
    x = generator.standard_normal((3, 65)) * 0.125
    x[:, 7] = 512.0
    values = torch.tensor(x).to(getattr(torch, dtype)).double().numpy()
    callees: dict[str, Callee] = {"sublayer": Moved(), "norm": Own("rms_norm", 1e-6)}
    inputs = Inputs("residual_block", dtype, {"x": values}, {"placement": "pre"}, callees=callees)
    subject, most = mine(plain, dtype, rms_norm=rms_norm), 0.0
    for _ in range(20):
        upstream = torch.tensor(generator.standard_normal(x.shape)).to(getattr(torch, dtype))
        right = gradients(subject, inputs, upstream.double().numpy())["x"]
        actual = subject.gradients(inputs, upstream.double().numpy())["x"]
        rest = 0.0 if right.residual is None else right.residual
        most = max(most, float((np.abs(actual - right.value - rest) / right.allowance).max()))
    assert 0.2 < most <= 1.0


def sandwich(x: Any, sublayer: Any, norm: Any, *, placement: str) -> Any:
    return x + norm(sublayer(norm(x))) if placement == "pre" else norm(x + sublayer(x))


def parallel(x: Any, sublayer: Any, norm: Any, *, placement: str) -> Any:
    return x + sublayer(norm(x)) if placement == "pre" else norm(x) + norm(sublayer(x))


def scaled_stream(x: Any, sublayer: Any, norm: Any, *, placement: str) -> Any:
    total = 2.0**0.5 * x + sublayer(norm(x) if placement == "pre" else x)
    return total if placement == "pre" else norm(total)


def no_gradient_to_norm(x: Any, sublayer: Any, norm: Any, *, placement: str) -> Any:
    if placement == "pre":
        return x + sublayer(norm(x.detach()))
    return norm(x + sublayer(x))


def halved_upstream(x: Any, sublayer: Any, norm: Any, *, placement: str) -> Any:
    found = plain(x, sublayer, norm, placement=placement)
    return found.detach() + 0.5 * (found - found.detach())


@pytest.mark.parametrize(
    ("block", "wanted"),
    [
        (sandwich, {"matches_oracle", "called_once"}),
        # exact layers are linear, so that no sum tells norm(a + b) from norm(a) + norm(b)
        (parallel, {"norm_is_given", "called_once"}),
        (scaled_stream, {"zero_sublayer", "matches_oracle", "telescopes"}),
        (no_gradient_to_norm, {"gradients_match_oracle", "gradients_along"}),
        (halved_upstream, {"gradient_past_blocked_sublayer", "gradients_of_opposite_sublayers"}),
    ],
)
def test_wrong_blocks_outside_the_catalogue_are_rejected(
    block: Callable[..., Any], wanted: set[str]
) -> None:
    assert wanted <= rejections(mine(block), 25).keys()


def test_a_layer_that_is_never_called_or_called_with_other_rows() -> None:
    def never(x: Any, sublayer: Any, norm: Any, *, placement: str) -> Any:
        return x if placement == "pre" else norm(x)

    def first_row(x: Any, sublayer: Any, norm: Any, *, placement: str) -> Any:
        return x + sublayer(norm(x[..., :1, :])) if x.ndim > 1 else x + sublayer(norm(x))

    assert {"called_once", "sublayer_is_given"} <= rejections(mine(never), 20).keys()
    assert {"norm_is_given", "handed_form"} <= rejections(mine(first_row), 20).keys()
