"""Scaled dot-product attention in its plain form, and what its other forms share with it.

Scores are scaled, capped, biased and masked, in this order, and weigh the values by their softmax:
Vaswani et al., *Attention Is All You Need* (2017), section 3.2; groups of query heads that share
a key head: Ainslie et al., *GQA* (2023); the cap: Gemma Team, *Gemma 2* (2024). All forms compute
in float32, or in the dtype of `q` where that is wider, and round once, when they return.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

Result = Tensor | tuple[Tensor, Tensor]
"""`b h t e`; with `return_lse` also the log-sum-exp of the scores, `b h t`."""


@dataclass(frozen=True)
class Rules:
    """What libraries do differently. The defaults are those of the contract."""

    top_left: bool = False
    """Query i sits at position i, not at i + s - t."""
    total_window: bool = False
    """A window counts keys from the query's own backwards, not those on each side."""
    tiled_heads: bool = False
    """Query head i reads key head i % g, not i // (h / g)."""
    nan_rows: bool = False
    """A row that sees no key is 0 / 0, not zero."""


DEFAULT = Rules()


@dataclass(frozen=True)
class Grouped:
    """One call, with an axis for the `r = h / g` query heads that read the same key head."""

    q: Tensor
    """`b g r t d`"""
    k: Tensor
    """`b g 1 s d`"""
    v: Tensor
    """`b g 1 s e`"""
    visible: Tensor
    """Who sees whom: bool, broadcasts to `b g r t s`."""
    bias: Tensor | None
    """Broadcasts to `b g r t s`."""
    scale: float
    softcap: float | None
    rules: Rules


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    window: int | None = None,
    softcap: float | None = None,
    scale: float | None = None,
    return_lse: bool = False,
) -> Result:
    """`q: b h t d`, `k: b g s d`, `v: b g s e` to `b h t e`, by the whole matrix of weights.

    `mask` is True where a query may see a key, and a bias of -inf hides one as well. A row that
    sees no key is zero, its log-sum-exp is -inf, and all its gradients are zero. Raises
    ValueError for shapes that don't fit together.
    """
    call = grouped(
        q, k, v, mask=mask, bias=bias, causal=causal, window=window, softcap=softcap, scale=scale
    )
    return returned(call, *weighted(call), return_lse=return_lse)


def grouped(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    window: int | None = None,
    softcap: float | None = None,
    scale: float | None = None,
    rules: Rules = DEFAULT,
) -> Grouped:
    """The call, checked, in the dtypes in which it came."""
    _check_shapes(q, k, v)
    groups, length, keys = k.shape[1], q.shape[2], k.shape[2]
    shape = (*q.shape[:3], keys)
    visible = visible_by_position(
        length, keys, causal=causal, window=window, rules=rules, device=q.device
    )
    if mask is not None:
        visible = visible & _grouped_heads(_four_axes("mask", mask, shape), groups, rules)
    if bias is not None:
        bias = _grouped_heads(_four_axes("bias", bias, shape), groups, rules)
        visible = visible & (bias != -torch.inf)
    return Grouped(
        q=_split_heads(q, groups, rules),
        k=k.unsqueeze(2),
        v=v.unsqueeze(2),
        visible=visible,
        bias=bias,
        scale=q.shape[3] ** -0.5 if scale is None else scale,
        softcap=softcap,
        rules=rules,
    )


def visible_by_position(
    t: int,
    s: int,
    *,
    causal: bool,
    window: int | None,
    rules: Rules = DEFAULT,
    device: torch.device | None = None,
) -> Tensor:
    """Which keys each query sees for their places alone: bool, `t s`."""
    queries = torch.arange(t, device=device) + (0 if rules.top_left else s - t)
    back = queries.unsqueeze(-1) - torch.arange(s, device=device)
    visible = torch.ones_like(back, dtype=torch.bool)
    if causal:
        visible = visible & (back >= 0)
    if window is not None and rules.total_window:
        visible = visible & (back >= 0) & (back < window)
    elif window is not None:
        visible = visible & (back.abs() <= window)
    return visible


def weighted(call: Grouped) -> tuple[Tensor, Tensor]:
    """Outputs `b g r t e` and log-sum-exps `b g r t`, neither of them rounded to storage."""
    weights, lse = weights_of(masked_scores(call), nan_rows=call.rules.nan_rows)
    if not call.rules.nan_rows:
        # already 0 there, but the gradient at a hidden value may be infinite, and 0 * inf is NaN
        weights = weights.masked_fill(~call.visible, 0.0)
    return weights @ widened(call.v), lse


def masked_scores(call: Grouped) -> Tensor:
    """Scaled, capped and biased scores, -inf where a key is hidden: `b g r t s`."""
    return finished_scores(call, widened(call.q) @ widened(call.k).mT)


def finished_scores(call: Grouped, products: Tensor) -> Tensor:
    """From `q k` to what the softmax takes."""
    scores = products * call.scale
    if call.softcap is not None:
        # a hidden key may have given inf or NaN, and that would survive in the cap's gradient
        scores = scores.masked_fill(~call.visible, 0.0)
        scores = call.softcap * torch.tanh(scores / call.softcap)
    if call.bias is not None:
        scores = scores + widened(call.bias)
    return scores.masked_fill(~call.visible, -torch.inf)


def weights_of(scores: Tensor, *, nan_rows: bool = False) -> tuple[Tensor, Tensor]:
    """Softmax along the last axis, and its log-sum-exp; zeros for a row of nothing but -inf."""
    numerators, shift = shifted(scores)
    normaliser = numerators.sum(-1, keepdim=True)
    if nan_rows:
        return numerators / normaliser, (shift + normaliser.log()).squeeze(-1)
    empty = normaliser == 0.0
    normaliser = normaliser.masked_fill(empty, 1.0)
    lse = (shift + normaliser.log()).masked_fill(empty, -torch.inf)
    return numerators / normaliser, lse.squeeze(-1)


def shifted(scores: Tensor) -> tuple[Tensor, Tensor]:
    """`exp(scores - shift)`, and the shift: the row's maximum, 0 where that is -inf."""
    if scores.shape[-1] == 0:
        return scores, scores.new_zeros((*scores.shape[:-1], 1))
    # neither the weights nor the log-sum-exp depend on the shift, so no gradient flows through it
    maximum = scores.detach().amax(-1, keepdim=True)
    shift = maximum.masked_fill(maximum == -torch.inf, 0.0)
    return (scores - shift).exp(), shift


def returned(call: Grouped, output: Tensor, lse: Tensor, *, return_lse: bool) -> Result:
    """With the heads in one axis again, and the one rounding."""
    output = _joined_heads(output, call.rules).to(call.q.dtype)
    return (output, _joined_heads(lse, call.rules)) if return_lse else output


def widened(x: Tensor) -> Tensor:
    """In the dtype of the computation."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _split_heads(x: Tensor, groups: int, rules: Rules) -> Tensor:
    """`b h ...` to `b g r ...`."""
    # without key heads there are no query heads either, and any r will do
    members = x.shape[1] // groups if groups else 1
    if rules.tiled_heads:
        return x.reshape(x.shape[0], members, groups, *x.shape[2:]).transpose(1, 2)
    return x.reshape(x.shape[0], groups, members, *x.shape[2:])


def _joined_heads(x: Tensor, rules: Rules) -> Tensor:
    """`b g r ...` to `b h ...`."""
    return (x.transpose(1, 2) if rules.tiled_heads else x).flatten(1, 2)


def _grouped_heads(x: Tensor, groups: int, rules: Rules) -> Tensor:
    """As `_split_heads`, for what may be the same for all heads."""
    return x.unsqueeze(1) if x.shape[1] == 1 else _split_heads(x, groups, rules)


def _four_axes(name: str, x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """With axes of size 1 in front, so that it has four."""
    wide = x[(None,) * (4 - x.ndim)]
    if x.ndim > 4 or any(
        given not in (1, full) for given, full in zip(wide.shape, shape, strict=True)
    ):
        raise ValueError(
            f"{name} has shape {tuple(x.shape)}, which does not broadcast to b h t s = {shape}"
        )
    return wide


def _check_shapes(q: Tensor, k: Tensor, v: Tensor) -> None:
    shapes = f"q, k and v have shapes {tuple(q.shape)}, {tuple(k.shape)} and {tuple(v.shape)}"
    if not q.ndim == k.ndim == v.ndim == 4:
        raise ValueError(f"{shapes}; expected four axes each")
    if k.shape[:3] != v.shape[:3] or q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3]:
        raise ValueError(f"{shapes}; expected b h t d, b g s d and b g s e")
    heads, groups = q.shape[1], k.shape[1]
    if heads % groups if groups else heads:
        raise ValueError(f"{shapes}; the {heads} query heads are no multiple of {groups} key heads")
