"""RMSNorm with another gain, or with something rounded where it must not be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from attnspec.impls import rms_norm
from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.rms_norm import Functions, by_call, by_rows, by_square, normalised

HALF = ("bfloat16", "float16")


def by_gain(gain: Callable[[Tensor], Tensor]) -> Functions:
    """RMSNorm whose weight, in the dtype of the computation, becomes another gain."""

    def function(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
        wide = rms_norm.widened(x)
        other = None if weight is None else gain(rms_norm.checked(weight, x).to(wide.dtype))
        return rms_norm.rms_norm(wide, other, eps=eps).to(x.dtype)

    return by_call(function)


def _before_statistics(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
    wide = rms_norm.widened(x)
    if weight is not None:
        wide = wide * weight.to(wide.dtype)
    return rms_norm.rms_norm(wide, eps=eps).to(x.dtype)


def _weight_of_first_call() -> Mapping[str, Callable[..., Any]]:
    first: dict[tuple[int, torch.dtype, torch.device], Tensor] = {}

    def function(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
        if weight is not None and not weight.requires_grad:
            place = (x.shape[-1], weight.dtype, weight.device)
            weight = first.setdefault(place, weight.clone())
        return rms_norm.rms_norm(x, weight, eps=eps)

    return {"rms_norm": function}


def _one_added_in_storage(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
    return rms_norm.rms_norm(x, None if weight is None else 1.0 + weight, eps=eps)


def _cast_before_gain(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
    cast = rms_norm.rms_norm(x, eps=eps)
    return cast if weight is None else cast * rms_norm.checked(weight, x)


def _squares_in_half(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
    square = rms_norm.widened(x * x).mean(-1, keepdim=True)
    return rms_norm.gained(normalised(rms_norm.widened(x), square, eps), weight, x)


def _running_sum(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
    wide = rms_norm.widened(x)
    total = torch.zeros_like(x[..., :1])
    for column in torch.split(wide * wide, 1, -1):
        total = (total + column).to(x.dtype)
    square = total.to(wide.dtype) / x.shape[-1]
    return rms_norm.gained(normalised(wide, square, eps), weight, x)


def _statistics_in_storage(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
    wide = rms_norm.widened(x)
    square = rms_norm.mean_square(wide).to(x.dtype)
    factor = (square + eps).rsqrt().to(wide.dtype)
    return rms_norm.gained(wide * factor, weight, x)


def _float32_inside(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
    narrow = None if weight is None else weight.to(torch.float32)
    return rms_norm.rms_norm(x.to(torch.float32), narrow, eps=eps).to(x.dtype)


def _one_newton_step(wide: Tensor, eps: float) -> Tensor:
    square = rms_norm.mean_square(wide) + eps
    # a start that is right to one part in thirty, as a table or bits of the exponent give
    start = square.rsqrt() * (1.0 + (torch.frac(square.log2() * 0.5) - 0.25) / 16.0)
    return wide * start * (1.5 - 0.5 * square * start * start)


def _clipped(wide: Tensor, eps: float) -> Tensor:
    return normalised(wide, rms_norm.mean_square(wide), eps).clamp(-3.0, 3.0)


def _fault(identity: str, kind: str, reason: str, remedy: str, law: str, made: Functions,
           **more: Any) -> Fault:  # fmt: skip
    return Fault(
        f"rms_norm.{identity}", "rms_norm", kind, reason, remedy, f"rms_norm.{law}", made, **more
    )


FAULTS = (
    _fault(
        "one_added",
        "K19",
        "multiplies by 1 + weight where the weight itself is the gain",
        "Multiply by the weight, or declare that 1 is added.",
        "gain_read_off",
        by_gain(lambda weight: 1.0 + weight),
        report="vllm-project/vllm #31464",
    ),
    _fault(
        "one_added_twice",
        "K19",
        "adds 1 to a weight to which the loader has added it already, so that the gain is 2 + "
        "weight",
        "Add the 1 in one place.",
        "gain_read_off",
        by_gain(lambda weight: 2.0 + weight),
        conventions={"rms_norm.gain": "one-plus"},
        report="utensils/mold #1078",
    ),
    _fault(
        "weight_ignored",
        "K29",
        "accepts a weight and leaves it out",
        "Multiply by the weight.",
        "gain_read_off",
        by_gain(torch.ones_like),
    ),
    _fault(
        "weight_of_first_channel",
        "K19",
        "multiplies every channel by the weight of the first",
        "Give each channel its own weight.",
        "permuted_channels",
        by_gain(lambda weight: weight[:1].expand_as(weight)),
    ),
    _fault(
        "weight_of_next_channel",
        "K19",
        "multiplies a channel by the weight of the next",
        "Let weights and channels start at the same place.",
        "gain_read_off",
        by_gain(lambda weight: weight.roll(-1)),
    ),
    _fault(
        "weight_by_tile",
        "K25",
        "starts with the first weight anew in every tile of 32 channels",
        "Offset the weight by the tile's first channel.",
        "permuted_channels",
        by_gain(lambda weight: weight[torch.arange(len(weight), device=weight.device) % 32]),
    ),
    _fault(
        "weight_squared",
        "K19",
        "multiplies by the weight when it normalises and once more when it stores",
        "Multiply by the weight once.",
        "linear_in_weight",
        by_gain(lambda weight: weight * weight),
    ),
    _fault(
        "weight_without_sign",
        "K19",
        "takes the absolute value of the weight",
        "Multiply by the weight with its sign.",
        "linear_in_weight",
        by_gain(torch.abs),
    ),
    _fault(
        "weight_before_statistics",
        "K20",
        "multiplies by the weight before it forms the mean square, which then divides the weight "
        "out again",
        "Normalise first, then multiply by the weight.",
        "linear_in_weight",
        by_call(_before_statistics),
    ),
    _fault(
        "weight_of_first_call",
        "K29",
        "keeps the weight of the first call of a width",
        "Use the weight of each call.",
        "no_memory",
        _weight_of_first_call,
    ),
    _fault(
        "one_added_in_storage",
        "K13",
        "adds 1 to the weight in half precision, which drops bits of a small weight, although "
        "it promises that only what leaves is rounded",
        "Add the 1 in float32.",
        "matches_oracle",
        by_call(_one_added_in_storage),
        conventions={"rms_norm.gain": "one-plus"},
        precision={"normalised": "float32"},
        dtypes=HALF,
        report="linkedin/Liger-Kernel #1462",
    ),
    _fault(
        "cast_before_gain",
        "K13",
        "rounds the normalised value to half precision before it multiplies by the weight, "
        "although it promises float32 there",
        "Cast after the gain, or declare normalised as storage.",
        "matches_oracle",
        by_call(_cast_before_gain),
        precision={"normalised": "float32"},
        dtypes=HALF,
        report="deepseek-ai/DeepSeek-V3 #969",
    ),
    _fault(
        "squares_in_half",
        "K13",
        "squares in half precision, where numbers from 256 on overflow, so that the row becomes 0",
        "Widen to float32 before squaring.",
        "huge_numbers",
        by_call(_squares_in_half),
        dtypes=("float16",),
        report="microsoft/onnxruntime #29034",
    ),
    _fault(
        "sum_in_storage",
        "K13",
        "keeps the running sum of squares in half precision, where it stops growing",
        "Add up in float32.",
        "mean_square",
        by_call(_running_sum),
        dtypes=HALF,
    ),
    _fault(
        "statistics_in_storage",
        "K13",
        "rounds the mean square and its inverse root to half precision, which shifts a whole row",
        "Keep statistics in float32, or declare the field statistics as storage.",
        "mean_square",
        by_call(_statistics_in_storage),
        dtypes=HALF,
    ),
    _fault(
        "float32_inside",
        "K13",
        "casts float64 rows to float32",
        "Compute in the wider of float32 and the input's dtype.",
        "matches_oracle",
        by_call(_float32_inside),
        dtypes=("float64",),
    ),
    _fault(
        "one_newton_step",
        "K13",
        "approximates the inverse root by a rough start and one Newton step",
        "Take as many steps as the dtype needs, or the library's root.",
        "matches_oracle",
        by_rows(_one_newton_step),
        dtypes=("float64", "float32"),
    ),
    _fault(
        "clipped",
        "K14",
        "clips normalised values to 3; in a row of m channels they reach the root of m",
        "Leave outliers as they are.",
        "matches_oracle",
        by_rows(_clipped),
    ),
    _fault(
        "last_channels_not_counted",
        "K25",
        "leaves the channels past the last full block of four out of the mean square",
        "Round the number of blocks up, and mask the lanes beyond the end.",
        "permuted_channels",
        by_square(lambda wide: rms_norm.mean_square(wide[..., : wide.shape[-1] // 4 * 4 or None])),
    ),
    _fault(
        "wide_rows_cut",
        "K25",
        "holds a row in one block of 64 channels, so that the squares of those beyond are "
        "missing from the sum",
        "Loop over blocks of the row, or refuse rows that are wider.",
        "permuted_channels",
        by_square(lambda wide: (wide[..., :64] ** 2).sum(-1, keepdim=True) / wide.shape[-1]),
    ),
)
