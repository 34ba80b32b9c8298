"""RMSNorm that mixes rows up, or is wrong about memory: views, buffers, earlier calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from attnspec.impls import rms_norm
from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.rms_norm import Functions, by_call, by_rows, normalised
from attnspec.impls.faults.views import overwrite, read_as_contiguous

TILE = 4
"""Rows of a tile, or channels of a block."""


def as_rows(wide: Tensor) -> Tensor:
    """The leading axes as one."""
    return wide.reshape(-1, wide.shape[-1])


def _over(axes: Callable[[Tensor], tuple[int, ...]]) -> Functions:
    """Normalised over other axes."""

    def normalise(wide: Tensor, eps: float) -> Tensor:
        return normalised(wide, (wide * wide).mean(axes(wide), keepdim=True), eps)

    return by_rows(normalise)


def _partial_tile(wide: Tensor, eps: float) -> Tensor:
    rows = as_rows(rms_norm.rms_norm(wide, eps=eps))
    full = len(rows) // TILE * TILE or len(rows)
    reached = torch.arange(len(rows), device=rows.device) < full
    return rows.masked_fill(~reached[:, None], 0.0).reshape(wide.shape)


def _first_of_two(wide: Tensor, eps: float) -> Tensor:
    rows = as_rows(wide)
    square = rms_norm.mean_square(rows)
    first = torch.arange(len(rows), device=rows.device) // 2 * 2
    return normalised(rows, square[first], eps).reshape(wide.shape)


def _past_the_end(wide: Tensor, eps: float) -> Tensor:
    rows = as_rows(wide)
    more = -rows.shape[-1] % TILE
    # behind the last row lies memory of nobody, which is taken for zeros here
    behind = torch.nn.functional.pad(rows[1:], (0, 0, 0, min(1, len(rows))))[:, :more]
    square = rms_norm.mean_square(rows) + (behind * behind).sum(-1, keepdim=True) / rows.shape[-1]
    return normalised(rows, square, eps).reshape(wide.shape)


def _unequal_scale(wide: Tensor, eps: float) -> Tensor:
    # a common scale against overflow, which must be taken out of eps again
    scale = wide.detach().abs().amax() if wide.numel() else wide.new_ones(())
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    return rms_norm.rms_norm(wide / scale, eps=eps)


def _in_place(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
    result = rms_norm.rms_norm(x, weight, eps=eps)
    if x.dtype in (torch.float32, torch.float64):
        overwrite(x, rms_norm.rms_norm(x.detach(), eps=eps))
    return result


def _x_as_contiguous(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
    return rms_norm.rms_norm(read_as_contiguous(x), weight, eps=eps)


def _weight_as_contiguous(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
    read = None if weight is None else read_as_contiguous(weight)
    return rms_norm.rms_norm(x, read, eps=eps)


def _in_float32(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
    result = rms_norm.rms_norm(rms_norm.widened(x), eps=eps)
    return result if weight is None else result * rms_norm.checked(weight, x)


def _empty_flattened(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
    result = rms_norm.rms_norm(x, weight, eps=eps)
    return result if x.numel() else result.flatten()


def _buffer_handed_out() -> Mapping[str, Callable[..., Any]]:
    buffers: dict[tuple[torch.Size, torch.dtype, torch.device], Tensor] = {}

    def function(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
        result = rms_norm.rms_norm(x, weight, eps=eps)
        if result.requires_grad:
            return result
        buffer = buffers.setdefault((x.shape, x.dtype, x.device), torch.empty_like(result))
        return buffer.copy_(result)

    return {"rms_norm": function}


def _sum_not_cleared() -> Mapping[str, Callable[..., Any]]:
    sums: dict[tuple[torch.Size, torch.dtype, torch.device], Tensor] = {}

    def function(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
        wide = rms_norm.widened(x)
        square = rms_norm.mean_square(wide)
        place = (x.shape, x.dtype, x.device)
        square = square + sums.get(place, torch.zeros_like(square))
        sums[place] = square.detach()
        return rms_norm.gained(normalised(wide, square, eps), weight, x)

    return {"rms_norm": function}


def _widest_call() -> Mapping[str, Callable[..., Any]]:
    widest = 0

    def function(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
        nonlocal widest
        widest = max(widest, x.shape[-1])
        wide = rms_norm.widened(x)
        square = (wide * wide).sum(-1, keepdim=True) / widest
        return rms_norm.gained(normalised(wide, square, eps), weight, x)

    return {"rms_norm": function}


def _fault(identity: str, kind: str, reason: str, remedy: str, law: str, made: Functions,
           **more: Any) -> Fault:  # fmt: skip
    return Fault(
        f"rms_norm.{identity}", "rms_norm", kind, reason, remedy, f"rms_norm.{law}", made, **more
    )


FAULTS = (
    _fault(
        "over_two_axes",
        "K30",
        "takes the mean square over the last two axes, so that the rows of an entry share it",
        "Take the mean over the last axis alone.",
        "leading_axes",
        _over(lambda wide: (-2, -1) if wide.ndim > 1 else (-1,)),
    ),
    _fault(
        "over_axis_before",
        "K30",
        "takes the mean square along the axis before the last",
        "Take the mean over the last axis.",
        "mean_square",
        _over(lambda wide: (-2,) if wide.ndim > 1 else (-1,)),
    ),
    _fault(
        "over_first_axis_too",
        "K30",
        "takes the mean square over all axes but the first, as if the input had two",
        "Take the mean over the last axis alone.",
        "leading_axes",
        _over(lambda wide: tuple(range(1, wide.ndim)) or (0,)),
    ),
    _fault(
        "partial_tile_of_rows",
        "K25",
        "counts tiles of four rows by rounding down, so that rows past the last full tile stay "
        "zero",
        "Round the number of tiles up, and mask the rows beyond the end.",
        "mean_square",
        by_rows(_partial_tile),
    ),
    _fault(
        "row_of_tile",
        "K25",
        "normalises the two rows of a tile by the mean square of the first",
        "Keep one mean square for each row.",
        "row_alone",
        by_rows(_first_of_two),
    ),
    _fault(
        "past_the_end",
        "K04",
        "reads a row in blocks of four channels and does not mask the last one, so that the first "
        "channels of the next row count",
        "Mask the lanes beyond the end of the row.",
        "others_change_nothing",
        by_rows(_past_the_end),
    ),
    _fault(
        "scale_of_all_rows",
        "K19",
        "divides all rows by their largest number against overflow and adds eps as it is, so that "
        "a row depends on the others",
        "Scale eps along, or square in a format that holds the squares.",
        "row_alone",
        by_rows(_unequal_scale),
    ),
    _fault(
        "in_place",
        "K20",
        "normalises in place: a cast to float32 gives the same memory where the input is float32 "
        "already, so that the residual that is added later is the normalised row",
        "Write to a new tensor.",
        "inputs_unchanged",
        by_call(_in_place),
        dtypes=("float64", "float32"),
        report="GeeeekExplorer/nano-vllm #170",
    ),
    _fault(
        "x_as_contiguous",
        "K26",
        "takes the strides of a fresh tensor for granted, so that rows of a view are read in the "
        "wrong order",
        "Use the tensor's strides, or copy what isn't contiguous.",
        "views_equal_copies",
        by_call(_x_as_contiguous),
    ),
    _fault(
        "weight_as_contiguous",
        "K26",
        "takes it for granted that weights lie next to each other",
        "Use the weight's stride, or copy it.",
        "views_equal_copies",
        by_call(_weight_as_contiguous),
    ),
    _fault(
        "result_in_float32",
        "K13",
        "returns its float32 intermediate; the result has the dtype of the input",
        "Cast the result back to the input's dtype.",
        "output_form",
        by_call(_in_float32),
        dtypes=("bfloat16", "float16"),
    ),
    _fault(
        "empty_flattened",
        "K25",
        "returns a flat tensor where there are no rows",
        "Return an empty tensor of the input's shape.",
        "empty_batch",
        by_call(_empty_flattened),
    ),
    _fault(
        "buffer_handed_out",
        "K29",
        "returns a buffer that the next call of the same shape writes again",
        "Return a new tensor, or copy out of the buffer.",
        "no_memory",
        _buffer_handed_out,
    ),
    _fault(
        "sum_not_cleared",
        "K29",
        "adds to mean squares that an earlier call of the same shape left behind",
        "Start every sum at zero.",
        "repeatable",
        _sum_not_cleared,
    ),
    _fault(
        "width_of_widest_call",
        "K29",
        "divides sums of squares by the width of the widest call so far",
        "Take the width from the arguments of each call.",
        "no_memory",
        _widest_call,
    ),
)
