"""Attention over a cache step by step: what its faults exchange one step of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from attnspec.impls import decode_attention as right
from attnspec.impls.faults.fault import Fault

Functions = Callable[[], Mapping[str, Callable[..., Any]]]


def _read(cache: Tensor, shown: Tensor) -> Tensor:
    return torch.where(shown[:, None, :, None], cache, 0)


def _factor(q: Tensor, v: Tensor, scale: float | None) -> float:
    return float(q.shape[-1] ** -0.5 if scale is None else scale)


def _scores(q: Tensor, k: Tensor, factor: float) -> Tensor:
    return (q @ k.mT) * factor


def _weigh(scores: Tensor, shown: Tensor) -> Tensor:
    return right.weighed(scores, shown)


def _finish(output: Tensor, _v: Tensor, _shown: Tensor) -> Tensor:
    return output


@dataclass(frozen=True)
class Steps:
    """The right ones."""

    shown: Callable[[Tensor, int, int | None], Tensor] = right.visible
    """Lengths, slots and window to bool, `b S`."""
    read_keys: Callable[[Tensor, Tensor], Tensor] = _read
    """A cache and what is shown to what is read."""
    read_values: Callable[[Tensor, Tensor], Tensor] = _read
    heads: Callable[[Tensor, int], Tensor] = right.over_heads
    factor: Callable[[Tensor, Tensor, float | None], float] = _factor
    scores: Callable[[Tensor, Tensor, float], Tensor] = _scores
    weigh: Callable[[Tensor, Tensor], Tensor] = _weigh
    """Scores and what is shown, bool `b 1 1 S`, to weights."""
    finish: Callable[[Tensor, Tensor, Tensor], Tensor] = _finish
    """Output, values of each head and what is shown."""


def run(steps: Steps, *arguments: Any, window: Any = None, scale: Any = None) -> Tensor:
    """One call by these steps."""
    q, k_cache, v_cache, lengths = arguments
    shown = steps.shown(lengths, k_cache.shape[2], window)
    wide = torch.promote_types(q.dtype, torch.float32)
    k = steps.heads(steps.read_keys(k_cache, shown).to(wide), q.shape[1])
    v = steps.heads(steps.read_values(v_cache, shown).to(wide), q.shape[1])
    scores = steps.scores(q.to(wide), k, steps.factor(q, v_cache, scale))
    weights = steps.weigh(scores, shown[:, None, None, :])
    return steps.finish(weights @ v, v, shown).to(q.dtype)


def by_steps(**exchanged: Any) -> Functions:
    """The right function but for some steps."""
    steps = replace(Steps(), **exchanged)

    def decode_attention(
        q: Tensor,
        k_cache: Tensor,
        v_cache: Tensor,
        lengths: Tensor,
        *,
        window: int | None = None,
        scale: float | None = None,
    ) -> Tensor:
        return run(steps, q, k_cache, v_cache, lengths, window=window, scale=scale)

    return lambda: {"decode_attention": decode_attention}


def fault(
    name: str,
    kind: str,
    reason: str,
    remedy: str,
    law: str,
    functions: Functions,
    **more: Any,
) -> Fault:
    """A row of the table, with the component's name filled in."""
    return Fault(
        f"decode_attention.{name}", "decode_attention", kind, reason, remedy,
        f"decode_attention.{law}", functions, **more,
    )  # fmt: skip
