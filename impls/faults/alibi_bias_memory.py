"""Wrong implementations of alibi_bias that keep something, and one that ignores the dtype."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from attnspec.impls.alibi_bias import alibi_bias as right
from attnspec.impls.faults.alibi_bias import Device, Functions
from attnspec.impls.faults.fault import Fault

Made = Callable[..., Tensor]
"""From heads, t, s, dtype and device, by position, to a bias."""


def with_memory(made: Callable[[], Made]) -> Functions:
    """A bias from a function that keeps something, made anew each time."""

    def functions() -> Mapping[str, Callable[..., Any]]:
        bias = made()

        def alibi_bias(
            n_heads: int, t: int, s: int, *, dtype: torch.dtype | None = None, device: Device = None
        ) -> Tensor:
            return bias(n_heads, t, s, dtype, device)

        return {"alibi_bias": alibi_bias}

    return functions


def _first_length_kept() -> Made:
    kept: dict[object, Tensor] = {}

    def bias(n_heads: int, t: int, s: int, dtype: torch.dtype | None, device: Device) -> Tensor:
        square = kept.setdefault((n_heads, dtype), right(n_heads, s, s, dtype=dtype, device=device))
        if square.shape[-1] < s:
            square = kept[n_heads, dtype] = right(n_heads, s, s, dtype=dtype, device=device)
        # the last rows, but the first keys: right for the length that was kept alone
        return square[:, square.shape[1] - t :, :s].clone()

    return bias


def _dtype_of_first_call() -> Made:
    kept: dict[object, Tensor] = {}

    def bias(n_heads: int, t: int, s: int, dtype: torch.dtype | None, device: Device) -> Tensor:
        key = n_heads, t, s
        if key not in kept:
            kept[key] = right(*key, dtype=dtype, device=device)
        return kept[key].clone()

    return bias


def _buffer_handed_out() -> Made:
    buffers: dict[object, Tensor] = {}

    def bias(n_heads: int, t: int, s: int, dtype: torch.dtype | None, device: Device) -> Tensor:
        fresh = right(n_heads, t, s, dtype=dtype, device=device)
        key = fresh.dtype, fresh.device
        if key not in buffers or buffers[key].numel() < fresh.numel():
            buffers[key] = fresh.new_empty(4 * fresh.numel())
        return buffers[key][: fresh.numel()].view(fresh.shape).copy_(fresh)

    return bias


def _changed_in_place() -> Made:
    kept: dict[object, Tensor] = {}

    def bias(n_heads: int, t: int, s: int, dtype: torch.dtype | None, device: Device) -> Tensor:
        key = n_heads, t, s, dtype
        if key not in kept:
            kept[key] = right(n_heads, t, s, dtype=dtype, device=device)
        result = kept[key].clone()
        kept[key].sub_(1.0)
        return result

    return bias


def _float32(n_heads: int, t: int, s: int, dtype: torch.dtype | None, device: Device) -> Tensor:
    return right(n_heads, t, s, device=device)


def _fault(name: str, kind: str, law: str, functions: Functions, **more: Any) -> Fault:
    return Fault(
        id=f"alibi_bias.{name}",
        component="alibi_bias",
        kind=kind,
        law=f"alibi_bias.{law}",
        functions=functions,
        **more,
    )


FAULTS = (
    _fault(
        "first_length_kept", "K29", "no_memory",
        with_memory(_first_length_kept),
        reason="keeps the bias of the longest text and cuts shorter ones out of it with the last "
        "rows and the first keys, which belong to other positions",
        remedy="Cut rows and keys at the same end.",
    ),
    _fault(
        "dtype_of_first_call", "K29", "no_memory",
        with_memory(_dtype_of_first_call),
        reason="keeps biases by their sizes alone, in the dtype that the first call asked for",
        remedy="Have dtype and device in the key of what is kept.",
    ),
    _fault(
        "buffer_handed_out", "K29", "no_memory",
        with_memory(_buffer_handed_out),
        reason="returns a part of a buffer that the next call writes again, so that an earlier "
        "result changes in the caller's hands",
        remedy="Return a new tensor, or copy out of the buffer.",
    ),
    _fault(
        "changed_in_place", "K29", "repeatable",
        with_memory(_changed_in_place),
        reason="keeps the bias and changes it in place, so that the second of two equal calls "
        "gives another one",
        remedy="Leave what is kept as it is: sub, not sub_.",
    ),
    _fault(
        "result_in_float32", "K13", "output_form",
        with_memory(lambda: _float32),
        reason="returns float32 whatever dtype is asked for",
        remedy="Cast the result to the dtype that was asked for.",
        dtypes=("float64", "bfloat16", "float16"),
    ),
)  # fmt: skip
