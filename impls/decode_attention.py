"""Attention of the newest token over a cache of keys and values, in its plain form.

Each batch entry has as many valid slots as its length says, the newest token's included; what the
others hold is replaced before it is read, as NaN times zero is NaN. Shazeer, *Fast Transformer
Decoding* (2019), for one query against cached keys. It computes in float32, or in the dtype of `q`
where that is wider, and rounds once, when it returns.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attnspec.impls.attention import DEFAULT, Rules


def decode_attention(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    lengths: Tensor,
    *,
    window: int | None = None,
    scale: float | None = None,
) -> Tensor:
    """`q: b h 1 d`, `k_cache: b g S d`, `v_cache: b g S e`, `lengths: b` (valid keys) to
    `b h 1 e`; `h` is a multiple of `g`. A window shows the newest key and `window` before it.

    Raises ValueError for shapes that don't fit each other, and for a negative window.
    """
    return decoded(q, k_cache, v_cache, lengths, window, scale, DEFAULT)


def decoded(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    lengths: Tensor,
    window: int | None,
    scale: float | None,
    rules: Rules,
) -> Tensor:
    """The same by the rules of some library."""
    check_shapes(q, k_cache, v_cache, lengths)
    if window is not None and window < 0:
        raise ValueError(f"window is {window}; expected a number of keys")
    shown = visible(lengths, k_cache.shape[2], window, total=rules.total_window)
    wide = torch.promote_types(q.dtype, torch.float32)
    stays = shown[:, None, :, None]
    k = torch.where(stays, k_cache, 0).to(wide)
    v = torch.where(stays, v_cache, 0).to(wide)
    k, v = (over_heads(x, q.shape[1], tiled=rules.tiled_heads) for x in (k, v))
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    scores = (q.to(wide) @ k.mT) * factor
    weights = weighed(scores, shown[:, None, None, :], nan_rows=rules.nan_rows)
    return (weights @ v).to(q.dtype)


def visible(lengths: Tensor, slots: int, window: int | None, *, total: bool = False) -> Tensor:
    """Which slots the newest token sees: bool, `b S`."""
    places = torch.arange(slots, device=lengths.device)
    ends = lengths.unsqueeze(-1)
    shown = places < ends
    if window is None:
        return shown
    return shown & (places >= ends - window - (0 if total else 1))


def over_heads(x: Tensor, heads: int, *, tiled: bool = False) -> Tensor:
    """`b g S w` to `b h S w`: for each query head the key head that it reads."""
    group = heads // x.shape[1]
    return x.repeat(1, group, 1, 1) if tiled else x.repeat_interleave(group, 1)


def weighed(scores: Tensor, shown: Tensor, *, nan_rows: bool = False) -> Tensor:
    """Softmax over the slots that are shown; of none, zeros, or NaN."""
    hidden = scores.masked_fill(~shown, -torch.inf)
    if nan_rows:
        return torch.softmax(hidden, -1)
    some = shown.any(-1, keepdim=True)
    return torch.softmax(torch.where(some, hidden, 0.0), -1) * some


def check_shapes(q: Tensor, k_cache: Tensor, v_cache: Tensor, lengths: Tensor) -> None:
    """Raises ValueError for shapes that don't fit each other."""
    b, h, t, d = q.shape
    _, g, slots, _ = k_cache.shape
    fits = (
        t == 1
        and k_cache.shape == (b, g, slots, d)
        and v_cache.shape[:3] == (b, g, slots)
        and lengths.shape == (b,)
    )
    if not fits or h % g:
        given = ", ".join(str(tuple(x.shape)) for x in (q, k_cache, v_cache, lengths))
        raise ValueError(
            f"q, k_cache, v_cache and lengths have the shapes {given}; expected b h 1 d, b g S d, "
            "b g S e and b, with h a multiple of g"
        )
