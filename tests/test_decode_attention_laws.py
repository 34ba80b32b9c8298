"""The laws of decode_attention on functions that are in no catalogue: right ones of other styles,
which pass, and wrong ones, which don't; and the oracle beside plain loops."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from attnspec.driving import scope_of
from attnspec.impls.attention import Rules
from attnspec.impls.decode_attention import decode_attention, decoded
from attnspec.oracle.calls import close
from attnspec.oracle.comparison import verdict
from attnspec.oracle.decode_attention_inputs import ANY, lengths_of
from attnspec.oracle.decode_attention_values import decode_attention as oracle
from attnspec.oracle.inputs import sampled
from attnspec.oracle.law import Inputs
from attnspec.subject import Subject
from attnspec.target import DTYPES
from tests import stubs
from tests.rejecting import rejections

Decode = Callable[..., Tensor]
Array = np.ndarray[Any, Any]


def subject(function: Decode, dtype: str = "float32", **declared: Any) -> Subject:
    return stubs.subject(function, "decode_attention", dtype=dtype, **declared)


def by_rules(rules: Rules) -> Decode:
    def function(
        q: Tensor, k_cache: Tensor, v_cache: Tensor, lengths: Tensor, *,
        window: int | None = None, scale: float | None = None,
    ) -> Tensor:  # fmt: skip
        return decoded(q, k_cache, v_cache, lengths, window, scale, rules)

    return function


CONVENTIONS: dict[str, tuple[Decode, dict[str, str]]] = {
    "defaults": (decode_attention, {}),
    "total window": (by_rules(Rules(total_window=True)), {"attention.window": "total"}),
    "tiled heads": (by_rules(Rules(tiled_heads=True)), {"gqa.head_order": "tiled"}),
    "nan rows": (by_rules(Rules(nan_rows=True)), {"attention.empty_row": "nan"}),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CONVENTIONS)
def test_a_reference_keeps_every_law_under_its_convention(name: str, dtype: str) -> None:
    function, conventions = CONVENTIONS[name]
    mine = subject(function, dtype, conventions=conventions, precision="strict")
    assert rejections(mine, 4) == {}


@pytest.mark.parametrize("name", list(CONVENTIONS)[1:])
def test_a_convention_that_is_not_declared_is_rejected(name: str) -> None:
    assert rejections(subject(CONVENTIONS[name][0], precision="strict"), 15)


def by_loops(inputs: Inputs, *, total: bool) -> Array:
    """One key after another, in Python's numbers."""
    q, k, v, lengths = (inputs.arrays[name] for name in ("q", "k_cache", "v_cache", "lengths"))
    (b, h, _, d), (_, g, _, e) = q.shape, v.shape
    window, scale = inputs.options.get("window"), inputs.options.get("scale", d**-0.5)
    output = np.zeros((b, h, 1, e))
    for entry, head in np.ndindex(b, h):
        length, read = int(lengths[entry]), head // (h // g)
        oldest = 0 if window is None else max(0, length - window - (0 if total else 1))
        slots = range(oldest, length)
        scores = [math.fsum(q[entry, head, 0] * k[entry, read, j]) * scale for j in slots]
        sizes = [math.exp(score - max(scores)) for score in scores]
        for channel in range(e):
            parts = [x * v[entry, read, j, channel] for x, j in zip(sizes, slots, strict=True)]
            output[entry, head, 0, channel] = math.fsum(parts) / math.fsum(sizes)
    return output


@pytest.mark.parametrize("family", ["decode_attention_room", "decode_attention_windows"])
@pytest.mark.parametrize("followed", ["radius", "total"])
def test_the_oracle_is_the_loop_over_the_seen_slots(family: str, followed: str) -> None:
    mine = subject(
        decode_attention, "float64", conventions={"attention.window": followed}, precision="strict"
    )
    compared = 0
    for inputs in sampled(family, scope_of(mine), 40, 7):
        # a loop over no slots has no largest score; and Python is slow
        if (inputs.arrays["lengths"] == 0).any() or inputs.arrays["q"].size > 200:
            continue
        # its sums are exact, so that it rounds less than what the allowance is for
        loops = by_loops(inputs, total=followed == "total")
        found = verdict(close("loops", loops, oracle(mine, inputs), "float64"))
        assert found.holds
        compared += found.judged == found.elements
    assert compared >= 10


def test_lengths_lie_about_a_window_and_within_the_slots() -> None:
    rng, found = np.random.default_rng(1), set()
    for way in ANY:
        for _ in range(60):
            drawn = lengths_of(rng, way, 4, 20, 5)
            assert ((drawn >= (0 if way.empty else 1)) & (drawn <= 20)).all()
            found |= set(drawn.tolist())
    assert {0, 1, 4, 5, 6, 7, 10, 20} <= found


# -- right ones of other styles --------------------------------------------------------------------


def by_entry(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, lengths: Tensor, *,
    window: int | None = None, scale: float | None = None,
) -> Tensor:  # fmt: skip
    """Every entry's cache cut to what is seen."""
    if not len(q):
        return q.new_zeros(*q.shape[:3], v_cache.shape[3])
    rows = []
    for row, length in enumerate(lengths.tolist()):
        first = 0 if window is None else max(0, length - 1 - window)
        k, v = (x[row : row + 1, :, first:length] for x in (k_cache, v_cache))
        count = lengths.new_tensor([length - first])
        rows.append(decode_attention(q[row : row + 1], k, v, count, scale=scale))
    return torch.cat(rows)


def merged(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, lengths: Tensor, *,
    window: int | None = None, scale: float | None = None, block: int = 4,
) -> Tensor:  # fmt: skip
    """Parts of the slots, merged by their maxima and normalisers."""
    slots, group = k_cache.shape[2], q.shape[1] // k_cache.shape[1]
    ends = lengths[:, None]
    places = torch.arange(slots, device=q.device)
    shown = (places < ends) & (True if window is None else places >= ends - 1 - window)
    held = (torch.where(shown[:, None, :, None], x, 0) for x in (k_cache, v_cache))
    wide = torch.promote_types(q.dtype, torch.float32)
    k, v = (x.to(wide).repeat_interleave(group, 1) for x in held)
    scores = (q.to(wide) @ k.mT) * (q.shape[-1] ** -0.5 if scale is None else scale)
    scores = scores.masked_fill(~shown[:, None, None], -torch.inf)
    most = torch.full_like(scores[..., :1], -torch.inf)
    total, sums = torch.zeros_like(most), torch.zeros_like(most) * v[:, :, :1]
    for start in range(0, slots, block):
        part, of = scores[..., start : start + block], v[:, :, start : start + block]
        new = torch.maximum(most, part.amax(-1, keepdim=True))
        safe = torch.where(new.isinf(), 0.0, new)
        kept, sizes = (most - safe).exp(), (part - safe).exp()
        total, sums = total * kept + sizes.sum(-1, keepdim=True), sums * kept + sizes @ of
        most = new
    return torch.where(total == 0, 0.0, sums / torch.where(total == 0, 1.0, total)).to(q.dtype)


@pytest.mark.parametrize("block", [0, 1, 4])
def test_right_functions_of_other_styles_pass(block: int) -> None:
    """Entry by entry, and in parts of one slot and of four."""
    function = partial(merged, block=block) if block else by_entry
    assert rejections(subject(function, gradients=False, precision="strict"), 10) == {}


# -- wrong ones ------------------------------------------------------------------------------------


def newest_written_last(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, lengths: Tensor, *, scale: float | None = None
) -> Tensor:
    """The newest key is taken from the last slot."""
    slots = k_cache.shape[2]
    at = torch.arange(slots, device=q.device) == (lengths - 1)[:, None]
    k = torch.where(at[:, None, :, None], k_cache[:, :, -1:], k_cache)
    return decode_attention(q, k, v_cache, lengths, scale=scale)


def axes_exchanged(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, lengths: Tensor, *, scale: float | None = None
) -> Tensor:
    """Values of slots and heads are exchanged."""
    b, g, slots, e = v_cache.shape
    mixed = v_cache.reshape(b, slots, g, e).transpose(1, 2)
    return decode_attention(q, k_cache, mixed, lengths, scale=scale)


def all_but_first_entry(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, lengths: Tensor, *, scale: float | None = None
) -> Tensor:
    """Every entry reads the first one's keys."""
    return decode_attention(q, k_cache[:1].expand_as(k_cache), v_cache, lengths, scale=scale)


def stale_slot(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, lengths: Tensor, *, scale: float | None = None
) -> Tensor:
    """The value before the newest counts twice."""
    at = torch.arange(v_cache.shape[2], device=q.device) == (lengths - 1)[:, None]
    v = torch.where(at[:, None, :, None], v_cache.roll(1, 2), v_cache)
    return decode_attention(q, k_cache, v, lengths, scale=scale)


def eight_at_most(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, lengths: Tensor, *, scale: float | None = None
) -> Tensor:
    """What goes beyond eight keys is left out."""
    return decode_attention(q, k_cache, v_cache, lengths.clamp(max=8), scale=scale)


@pytest.mark.parametrize(
    "function",
    [newest_written_last, axes_exchanged, all_but_first_entry, stale_slot, eight_at_most],
)
def test_wrong_functions_are_rejected(function: Decode) -> None:
    found = rejections(subject(function, gradients=False, precision="strict"), 20)
    assert found.get("matches_oracle", 0) >= 2
