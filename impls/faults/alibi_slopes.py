"""Wrong implementations of alibi_slopes: exponents, the rule, order, precision, memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from attnspec.impls.alibi_slopes import alibi_slopes as right
from attnspec.impls.alibi_slopes import working_dtype
from attnspec.impls.faults.fault import Fault

Device = torch.device | str | None
Functions = Callable[[], Mapping[str, Callable[..., Any]]]


def by_exponents(exponents: Callable[[Tensor, int], Tensor]) -> Functions:
    """Slopes 2^-e, with e from the heads counted from 0, in float64, and their number."""

    def alibi_slopes(
        n_heads: int, *, dtype: torch.dtype | None = None, device: Device = None
    ) -> Tensor:
        head = torch.arange(n_heads, dtype=torch.float64, device=device)
        slopes = torch.exp2(-exponents(head, n_heads).to(working_dtype(dtype)))
        return slopes.to(dtype or torch.float32)

    return lambda: {"alibi_slopes": alibi_slopes}


def by_change(change: Callable[[Tensor], Tensor]) -> Functions:
    """Right slopes, wide, with one thing done to them before they are rounded."""

    def alibi_slopes(
        n_heads: int, *, dtype: torch.dtype | None = None, device: Device = None
    ) -> Tensor:
        slopes = right(n_heads, dtype=working_dtype(dtype), device=device)
        return change(slopes).to(dtype or torch.float32)

    return lambda: {"alibi_slopes": alibi_slopes}


def _power(heads: int) -> int:
    """The greatest power of two up to the number of heads."""
    return 1 << (heads.bit_length() - 1)


def with_left_over(exponents: Callable[[Tensor, int], Tensor], *, first: bool = False) -> Functions:
    """Right ones up to the power of two, and exponents of one's own, from 0 on, beyond it."""

    def every(head: Tensor, heads: int) -> Tensor:
        power = _power(heads)
        own = (head[:power] + 1) * 8 / power
        rest = exponents(head[: heads - power], power)
        return torch.cat((rest, own) if first else (own, rest))

    return by_exponents(every)


def _rounded_logarithm(head: Tensor, heads: int) -> Tensor:
    # a little below 3 for 8 heads, below 6 for 64 and below 7 for 128
    power = 2 ** int(math.log(heads) * (1.0 / math.log(2.0)))
    below = (head + 1) * 8 / power
    return torch.where(head < power, below, (2 * (head - power) + 1) * 4 / power)


def _powers_in_storage(
    n_heads: int, *, dtype: torch.dtype | None = None, device: Device = None
) -> Tensor:
    slopes = right(n_heads, dtype=dtype, device=device)
    power = _power(n_heads)
    first = slopes[:1].expand(power).cumprod(0)
    return torch.cat((first, slopes[power:]))


def _in_bfloat16(slopes: Tensor) -> Tensor:
    return slopes.to(torch.bfloat16)


def _evenly_spaced(slopes: Tensor) -> Tensor:
    power = _power(len(slopes))
    ends = torch.linspace(
        float(slopes[0]), 2.0**-8, power, dtype=slopes.dtype, device=slopes.device
    )
    return torch.cat((ends, slopes[power:])) if power > 1 else slopes


def _longest_kept() -> Mapping[str, Callable[..., Any]]:
    kept: list[Tensor] = []

    def alibi_slopes(
        n_heads: int, *, dtype: torch.dtype | None = None, device: Device = None
    ) -> Tensor:
        if not kept or len(kept[0]) < n_heads:
            kept[:] = [right(n_heads, dtype=torch.float64, device=device)]
        return kept[0][:n_heads].to(dtype or torch.float32)

    return {"alibi_slopes": alibi_slopes}


def _dtype_of_first_call() -> Mapping[str, Callable[..., Any]]:
    kept: dict[int, Tensor] = {}

    def alibi_slopes(
        n_heads: int, *, dtype: torch.dtype | None = None, device: Device = None
    ) -> Tensor:
        if n_heads not in kept:
            kept[n_heads] = right(n_heads, dtype=dtype, device=device)
        return kept[n_heads].clone()

    return {"alibi_slopes": alibi_slopes}


def _buffer_handed_out() -> Mapping[str, Callable[..., Any]]:
    buffers: dict[object, Tensor] = {}

    def alibi_slopes(
        n_heads: int, *, dtype: torch.dtype | None = None, device: Device = None
    ) -> Tensor:
        slopes = right(n_heads, dtype=dtype, device=device)
        key = slopes.dtype, slopes.device
        if key not in buffers or len(buffers[key]) < n_heads:
            buffers[key] = slopes.new_empty(2 * n_heads)
        return buffers[key][:n_heads].copy_(slopes)

    return {"alibi_slopes": alibi_slopes}


def _halved_in_place() -> Mapping[str, Callable[..., Any]]:
    kept: dict[object, Tensor] = {}

    def alibi_slopes(
        n_heads: int, *, dtype: torch.dtype | None = None, device: Device = None
    ) -> Tensor:
        slopes = kept.setdefault((n_heads, dtype), right(n_heads, dtype=dtype, device=device))
        result = slopes.clone()
        slopes.mul_(0.5)
        return result

    return {"alibi_slopes": alibi_slopes}


def _fault(name: str, kind: str, law: str, functions: Functions, **more: Any) -> Fault:
    return Fault(
        id=f"alibi_slopes.{name}",
        component="alibi_slopes",
        kind=kind,
        law=f"alibi_slopes.{law}",
        functions=functions,
        **more,
    )


FAULTS = (
    _fault(
        "exponent_from_zero", "K17", "inside_the_unit_interval",
        by_exponents(lambda head, heads: torch.where(
            head < _power(heads), head * 8 / _power(heads),
            (head - _power(heads)) * 8 / _power(heads))),
        reason="counts exponents from 0, so that the first head has slope 1 and the last one not "
        "2^-8",
        remedy="Count the heads from 1 in the exponent.",
        report="paiml/aprender #2143",
    ),
    _fault(
        "halved_from_head_to_head", "K17", "powers_of_two",
        by_exponents(lambda head, heads: head + 1),
        reason="halves the slope from head to head whatever their number; the ratio is 2^(-8/P), "
        "which is one half for 8 heads alone",
        remedy="Divide 8 by the number of heads to get the step of the exponent.",
    ),
    _fault(
        "geometric_for_every_count", "K17", "matches_oracle",
        by_exponents(lambda head, heads: (head + 1) * 8 / heads),
        reason="takes 2^(-8k/h) at head counts that are no power of two too, where the paper's "
        "code takes the slopes of the power of two below and fills up",
        remedy="Follow the paper's rule, or declare alibi.slopes=geometric.",
        report="ml-explore/mlx #3071",
    ),
    _fault(
        "left_over_first", "K17", "every_other_of_twice",
        with_left_over(lambda head, power: (2 * head + 1) * 4 / power, first=True),
        reason="puts the slopes of the heads beyond the power of two before the others",
        remedy="Append them: the first P heads have the slopes of P heads.",
    ),
    _fault(
        "left_over_consecutive", "K17", "every_other_of_twice",
        with_left_over(lambda head, power: (head + 1) * 4 / power),
        reason="gives the heads beyond the power of two the first slopes of twice as many heads, "
        "one after the other; it must be every second of them, or slopes come twice",
        remedy="Take the slopes of 2P heads at 0, 2, 4 and so on.",
    ),
    _fault(
        "left_over_repeat_the_first", "K17", "matches_oracle",
        with_left_over(lambda head, power: (head + 1) * 8 / power),
        reason="gives the heads beyond the power of two the first slopes over again",
        remedy="Take the slopes of 2P heads at 0, 2, 4 and so on.",
    ),
    _fault(
        "power_rounded_up", "K17", "every_other_of_twice",
        by_exponents(lambda head, heads: (head + 1) * 8 / (1 << (heads - 1).bit_length())),
        reason="rounds the number of heads up to a power of two and takes the first of its slopes",
        remedy="Take the power of two at or below the number of heads, and fill up.",
    ),
    _fault(
        "logarithm_rounded_down", "K17", "matches_oracle",
        by_exponents(_rounded_logarithm),
        reason="finds the power of two by a quotient of logarithms, which comes out a little below "
        "a whole number, so that powers of two take the rule for other head counts",
        remedy="Find the power of two in whole numbers, by the bit length.",
    ),
    _fault(
        "integer_division", "K17", "inside_the_unit_interval",
        by_exponents(lambda head, heads: (head + 1) * (8 // heads)),
        reason="divides 8 by the number of heads in whole numbers, so that more than 8 heads all "
        "have slope 1",
        remedy="Divide as floating-point numbers.",
    ),
    _fault(
        "negative", "K17", "inside_the_unit_interval",
        by_change(torch.neg),
        reason="returns the slopes with the sign of the bias; they are magnitudes",
        remedy="Return positive slopes, and subtract slope times distance.",
    ),
    _fault(
        "reversed", "K17", "order",
        by_change(lambda slopes: slopes.flip(0)),
        reason="gives the last head the steepest slope",
        remedy="Give the first head the largest slope.",
    ),
    _fault(
        "sorted", "K17", "order",
        by_change(lambda slopes: slopes.sort(descending=True).values),
        reason="sorts the slopes of a head count that is no power of two; the paper's are two "
        "falling runs",
        remedy="Leave the slopes of the heads beyond the power of two at the end.",
    ),
    _fault(
        "evenly_spaced", "K17", "products",
        by_change(_evenly_spaced),
        reason="spaces the slopes evenly between the first and the last; their logarithms are",
        remedy="Space the exponents evenly.",
    ),
    _fault(
        "computed_in_bfloat16", "K13", "matches_oracle",
        by_change(_in_bfloat16),
        reason="computes slopes in bfloat16 whatever dtype is asked for",
        remedy="Compute in float32 and cast what is returned.",
        dtypes=("float64", "float32", "float16"),
    ),
    _fault(
        "powers_in_storage", "K13", "matches_oracle",
        lambda: {"alibi_slopes": _powers_in_storage},
        reason="rounds the first slope to half precision and multiplies it up there, so that the "
        "error grows from head to head",
        remedy="Compute in float32 and cast what is returned.",
        dtypes=("bfloat16", "float16"),
    ),
    _fault(
        "result_in_float32", "K13", "output_form",
        lambda: {"alibi_slopes": lambda n_heads, *, dtype=None, device=None: right(
            n_heads, device=device)},
        reason="returns float32 whatever dtype is asked for",
        remedy="Cast the result to the dtype that was asked for.",
        dtypes=("float64", "bfloat16", "float16"),
    ),
    _fault(
        "longest_kept", "K29", "no_memory",
        _longest_kept,
        reason="keeps the slopes of the largest head count and gives smaller ones the first of "
        "them, which belong to that count alone",
        remedy="Keep slopes by the number of heads, or don't keep any.",
    ),
    _fault(
        "dtype_of_first_call", "K29", "no_memory",
        _dtype_of_first_call,
        reason="keeps slopes by the number of heads alone, in the dtype that the first call asked "
        "for",
        remedy="Have dtype and device in the key of what is kept.",
    ),
    _fault(
        "buffer_handed_out", "K29", "no_memory",
        _buffer_handed_out,
        reason="returns a part of a buffer that the next call writes again, so that an earlier "
        "result changes in the caller's hands",
        remedy="Return a new tensor, or copy out of the buffer.",
    ),
    _fault(
        "halved_in_place", "K29", "repeatable",
        _halved_in_place,
        reason="keeps the slopes and changes them in place, so that the second of two equal calls "
        "gives other ones",
        remedy="Leave what is kept as it is: mul, not mul_.",
    ),
)  # fmt: skip
