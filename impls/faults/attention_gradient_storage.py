"""Attention whose gradients are added up in half precision, or laid out by shape alone."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attnspec.impls.faults.attention_backward import Known, by_backward, of_keys
from attnspec.impls.faults.fault import Fault

HALVES = ("bfloat16", "float16")


def _added(known: Known, parts: list[Tensor], like: Tensor) -> Tensor:
    """Parts added one after another in storage."""
    total = torch.zeros_like(like, dtype=known.given.storage)
    for part in parts:
        total = (total + part).to(known.given.storage)
    return total.to(like.dtype)


def _keys_by_row(known: Known, dc: Tensor) -> Tensor:
    q, factor = known.given.q, known.given.factor
    rows = range(dc.shape[-2])
    parts = [dc[..., row, :, None] * q[..., row, None, :] * factor for row in rows]
    return _added(known, parts, of_keys(known, dc))


def _queries_by_key(known: Known, dc: Tensor) -> Tensor:
    keys, factor = known.keys, known.given.factor
    columns = range(dc.shape[-1])
    parts = [dc[..., key, None] * keys[..., key, None, :] * factor for key in columns]
    return _added(known, parts, torch.zeros_like(known.given.q, dtype=dc.dtype))


def _bias_by_row(known: Known, ds: Tensor) -> Tensor | None:
    bias = known.given.bias
    if bias is None or bias.ndim < 2 or bias.shape[-2] > 1:
        return None if bias is None else ds.sum_to_size(bias.shape)
    parts = [row.sum_to_size(bias.shape) for row in torch.split(ds, 1, -2)]
    return _added(known, parts, torch.zeros_like(bias, dtype=ds.dtype))


def _transposed_when_square(known: Known, dc: Tensor) -> Tensor:
    found = of_keys(known, dc)
    return found.mT if found.shape[-1] == found.shape[-2] else found


def _fault(name: str, reason: str, remedy: str, law: str, **steps: Callable[..., object]) -> Fault:
    in_halves = law == "long_sums"
    return Fault(
        id=f"attention.gradient_{name}",
        component="attention",
        kind="K13" if in_halves else "K07",
        reason=reason,
        remedy=remedy,
        law=f"attention.{law}",
        functions=by_backward(**steps),
        dtypes=HALVES if in_halves else None,
    )


FAULTS = (
    _fault(
        "of_keys_in_storage",
        "adds up the gradient of the keys over the queries in half precision, where it stops "
        "growing",
        "Accumulate in float32, or declare reductions in storage.",
        "long_sums",
        of_keys=_keys_by_row,
    ),
    _fault(
        "of_queries_in_storage",
        "adds key after key to a gradient of the queries that is kept in half precision",
        "Accumulate in float32, or declare reductions in storage.",
        "long_sums",
        of_queries=_queries_by_key,
    ),
    _fault(
        "of_bias_in_storage",
        "adds up the gradient of a bias that all queries share in half precision",
        "Accumulate in float32, or declare reductions in storage.",
        "long_sums",
        of_bias=_bias_by_row,
    ),
    _fault(
        "of_keys_transposed",
        "lays the gradient of the keys out with channels before keys where there are as many of "
        "both, so that no shape gives it away",
        "Transpose by name and not by shape.",
        "gradients_match_oracle",
        of_keys=_transposed_when_square,
    ),
)
