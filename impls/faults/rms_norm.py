"""RMSNorm with wrong statistics or another eps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from attnspec.impls import layer_norm, rms_norm
from attnspec.impls.faults.fault import Fault

Functions = Callable[[], Mapping[str, Callable[..., Any]]]
Normalise = Callable[[Tensor, float], Tensor]
"""The normalised rows from those in the dtype of the computation, and eps."""

LAYER_NORM_EPS = 1e-5
LEAST = 1e-12
"""What some implementations clamp to."""


def by_rows(normalise: Normalise, **beside: Callable[..., Any]) -> Functions:
    """RMSNorm whose rows are normalised otherwise; the gain is right. `beside` is what else the
    target has."""

    def function(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
        return rms_norm.gained(normalise(rms_norm.widened(x), eps), weight, x)

    return lambda: {"rms_norm": function, **beside}


def by_call(function: Callable[..., Tensor]) -> Functions:
    """RMSNorm without memory."""
    return lambda: {"rms_norm": function}


def normalised(wide: Tensor, square: Tensor, eps: float) -> Tensor:
    """Rows over the root of `square` and eps."""
    return wide * torch.rsqrt(square + eps)


def by_square(square: Callable[[Tensor], Tensor], **beside: Callable[..., Any]) -> Functions:
    """RMSNorm with something else in the place of the mean square."""
    return by_rows(lambda wide, eps: normalised(wide, square(wide), eps), **beside)


def _one_less(wide: Tensor) -> Tensor:
    return (wide * wide).sum(-1, keepdim=True) / max(wide.shape[-1] - 1, 1)


def _padded(wide: Tensor) -> Tensor:
    width = -(-wide.shape[-1] // 8) * 8
    return (wide * wide).sum(-1, keepdim=True) / width


def _without_small(wide: Tensor, eps: float) -> Tensor:
    square = rms_norm.mean_square(wide)
    small = square < torch.finfo(wide.dtype).tiny
    return normalised(wide, square, eps).masked_fill(small, 0.0)


def _eps_in_half(wide: Tensor, eps: float) -> Tensor:
    small = torch.tensor(eps, dtype=torch.float16, device=wide.device)
    return normalised(wide, rms_norm.mean_square(wide), float(small))


def _eps_of_first_call() -> Mapping[str, Callable[..., Any]]:
    first: list[float] = []

    def function(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
        first.append(eps)
        return rms_norm.rms_norm(x, weight, eps=first[0])

    return {"rms_norm": function}


def _other_default(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
    # what a configuration that names no eps ends up with
    return rms_norm.rms_norm(x, weight, eps=LAYER_NORM_EPS if eps == 1e-6 else eps)


def _outside_in_training(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
    wanted = x.requires_grad and torch.is_grad_enabled()
    return (rms_norm.rms_norm_outside if wanted else rms_norm.rms_norm)(x, weight, eps=eps)


def _fault(identity: str, kind: str, reason: str, remedy: str, law: str, made: Functions,
           **more: Any) -> Fault:  # fmt: skip
    return Fault(
        f"rms_norm.{identity}", "rms_norm", kind, reason, remedy, f"rms_norm.{law}", made, **more
    )


FAULTS = (
    _fault(
        "mean_subtracted",
        "K30",
        "subtracts the mean before it forms squares, as LayerNorm does",
        "Take the root mean square of the row as it is.",
        "equal_entries",
        by_rows(lambda wide, eps: rms_norm.rms_norm(wide - wide.mean(-1, keepdim=True), eps=eps)),
    ),
    _fault(
        "deviation",
        "K30",
        "divides by the standard deviation in place of the root mean square, so that a row with "
        "a mean comes back too large",
        "Use the mean of the squares, from which no mean is subtracted.",
        "equal_entries",
        by_square(lambda wide: wide.var(-1, keepdim=True, correction=0)),
    ),
    _fault(
        "one_less",
        "K30",
        "divides the sum of squares by one less than the number of channels, as an unbiased "
        "variance does",
        "Divide by the number of channels.",
        "eq_layer_norm_of_centred",
        by_square(_one_less, layer_norm=layer_norm.layer_norm),
    ),
    _fault(
        "sum_of_squares",
        "K30",
        "divides by the length of the row, the root of the sum of squares, in place of the root "
        "mean square",
        "Divide the sum of squares by the number of channels before the root.",
        "mean_square",
        by_square(lambda wide: (wide * wide).sum(-1, keepdim=True)),
    ),
    _fault(
        "mean_of_sizes",
        "K30",
        "divides by the mean of the absolute values",
        "Square, take the mean, and then the root.",
        "mean_square",
        by_square(lambda wide: wide.abs().mean(-1, keepdim=True) ** 2),
    ),
    _fault(
        "padding_counted",
        "K25",
        "divides the sum of squares by the width rounded up to a multiple of eight",
        "Divide by the number of channels, not by that of lanes.",
        "mean_square",
        by_square(_padded),
    ),
    _fault(
        "root_forgotten",
        "K30",
        "divides by the mean square and eps, without the root",
        "Take the root before dividing.",
        "scaled_alike",
        by_rows(lambda wide, eps: wide / (rms_norm.mean_square(wide) + eps)),
    ),
    _fault(
        "root_twice",
        "K30",
        "takes the inverse root of what is the root already",
        "Take one root.",
        "scaled_alike",
        by_rows(lambda wide, eps: wide * (rms_norm.mean_square(wide) + eps).sqrt().rsqrt()),
    ),
    _fault(
        "eps_missing",
        "K19",
        "divides by the root mean square alone, so that a row of zeros becomes NaN",
        "Add eps to the mean square, or declare that there is none.",
        "zeros_stay",
        by_rows(lambda wide, eps: rms_norm.rms_norm_without_eps(wide)),
    ),
    _fault(
        "eps_outside",
        "K19",
        "adds eps to the root mean square in place of the mean square",
        "Add eps below the root, or declare where it stands.",
        "eps_read_off",
        by_rows(lambda wide, eps: rms_norm.rms_norm_outside(wide, eps=eps)),
        report="NVIDIA/TransformerEngine #364",
    ),
    _fault(
        "eps_clamped",
        "K19",
        "takes the larger of mean square and eps in place of their sum",
        "Add eps, or declare that it is a lower bound.",
        "eps_read_off",
        by_rows(lambda wide, eps: rms_norm.rms_norm_clamped(wide, eps=eps)),
    ),
    _fault(
        "eps_ignored",
        "K19",
        "has 1e-6 for eps, whatever the call says",
        "Use the eps of the call.",
        "eps_read_off",
        by_rows(lambda wide, eps: normalised(wide, rms_norm.mean_square(wide), 1e-6)),
        report="NVIDIA/cutlass #1112",
    ),
    _fault(
        "eps_of_layer_norm",
        "K19",
        "has the default of LayerNorm's eps, 1e-5",
        "Use 1e-6 where a call names no eps.",
        "eps_read_off",
        by_call(_other_default),
        report="NVIDIA-NeMo/Megatron-Bridge #5712",
    ),
    _fault(
        "eps_of_first_call",
        "K29",
        "keeps the eps of the first call",
        "Use the eps of each call.",
        "no_memory",
        _eps_of_first_call,
    ),
    _fault(
        "eps_on_sum",
        "K19",
        "adds eps to the sum of squares, before it is divided by the number of channels",
        "Add eps to the mean.",
        "eps_read_off",
        by_rows(
            lambda wide, eps: normalised(wide, rms_norm.mean_square(wide), eps / wide.shape[-1])
        ),
    ),
    _fault(
        "eps_of_length",
        "K19",
        "takes the larger of the row's length and 1e-12, as a normalisation to unit length does, "
        "and has no eps",
        "Add the eps of the call to the mean square.",
        "small_numbers",
        by_rows(
            lambda wide, eps: (
                torch.nn.functional.normalize(wide, dim=-1, eps=LEAST) * wide.shape[-1] ** 0.5
            )
        ),
    ),
    _fault(
        "eps_in_half",
        "K13",
        "rounds eps to float16, which holds 1e-6 to one part in forty and 1e-8 not at all",
        "Add eps in the format of the statistics.",
        "eps_read_off",
        by_rows(_eps_in_half),
    ),
    _fault(
        "small_rows_dropped",
        "K14",
        "takes a row whose mean square underflows for a row of zeros; it has a length, and eps "
        "to divide it by",
        "Divide every row by the root of its mean square and eps.",
        "small_numbers",
        by_rows(_without_small),
        # in float32 no square of a float16 underflows
        dtypes=("float64", "float32", "bfloat16"),
    ),
    _fault(
        "outside_in_training",
        "K29",
        "takes another path where gradients are wanted, which adds eps to the root",
        "Use one formula for training and inference.",
        "same_with_gradients",
        by_call(_outside_in_training),
    ),
)
