"""Attention with scores of another size: scale and softcap."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from attnspec.impls.faults.attention_steps import (
    Call,
    Functions,
    allowed,
    averaged,
    before,
    biased,
    by_arguments,
    by_products,
    by_results,
    by_scores,
    capped,
    hidden,
    in_window,
    offsets,
    products,
    visible,
    weighted,
)
from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.softmax import LOG2_E


def by_default_scale(scale: Callable[[Call], float]) -> Functions:
    """An attention with another scale where none is given."""
    return by_arguments(
        lambda given: given if given.scale is not None else replace(given, scale=scale(given))
    )


def by_any_scale(scale: Callable[[Call], float]) -> Functions:
    """An attention with another scale, given or not."""
    return by_arguments(lambda given: replace(given, scale=scale(given)))


def by_cap(cap: Callable[[Tensor, float], Tensor]) -> Functions:
    """An attention with another softcap: `cap(scaled scores, size)`."""

    def made(given: Call) -> Tensor:
        found = products(given)
        return biased(given, found if given.softcap is None else cap(found, given.softcap))

    return by_scores(made)


def width(given: Call) -> int:
    """Channels of a query."""
    return given.q.shape[-1]


def _times_default(given: Call) -> Call:
    default = float(width(given) ** -0.5)
    return replace(given, scale=default if given.scale is None else given.scale * default)


def _on_both(given: Call) -> Call:
    return replace(given, q=given.q * given.factor)


def _last_of_group_by_default(given: Call) -> Tensor:
    found = products(given)
    heads = torch.arange(found.shape[1], device=found.device)
    ratio = max(found.shape[1] // max(given.k.shape[1], 1), 1)
    last = (heads % ratio == ratio - 1) & (ratio > 1) & (given.scale is not None)
    back = width(given) ** -0.5 / given.factor if given.factor else 1.0
    return torch.where(last[:, None, None], found * back, found)


def _cap_first(given: Call) -> Tensor:
    found = products(replace(given, scale=1.0))
    return biased(given, capped(given, found) * given.factor)


def _cap_after_mask(given: Call) -> tuple[Tensor, Tensor]:
    if given.softcap is None or given.mask is None:
        found = hidden(capped(given, products(given)), visible(given))
        return averaged(given, *weighted(biased(given, found)))
    masked = products(given).masked_fill(~given.mask, -1e30)
    rest = replace(given, mask=None)
    distance = offsets(given)
    seen = allowed(rest) & before(given, distance) & in_window(given, distance)
    return averaged(given, *weighted(hidden(biased(given, capped(given, masked)), seen)))


def _cap_not_with_bias(given: Call) -> Call:
    return given if given.bias is None else replace(given, softcap=None)


def _capped_in_base_two(found: Tensor, size: float) -> Tensor:
    return size * (found * LOG2_E / size).tanh() / LOG2_E


FAULTS = (
    Fault(
        id="attention.scale_of_rounded_root",
        component="attention",
        kind="K05",
        reason="takes the root of the head size in integers, which is too small unless the size is "
        "a square",
        remedy="Use d ** -0.5 in floating point.",
        law="attention.scale_read",
        functions=by_default_scale(lambda given: 1.0 / math.isqrt(width(given))),
    ),
    Fault(
        id="attention.scale_of_two_digits",
        component="attention",
        kind="K05",
        reason="rounds the scale to two digits after the point, which is up to seven percent off "
        "for usual head sizes",
        remedy="Use d ** -0.5 as it is.",
        law="attention.scale_read",
        functions=by_default_scale(lambda given: max(round(width(given) ** -0.5, 2), 0.01)),
    ),
    Fault(
        id="attention.scale_one_percent_small",
        component="attention",
        kind="K05",
        reason="adds a small number to the head size under the root, so that scores are one "
        "percent too small; there's nothing to guard against",
        remedy="Drop the small number.",
        law="attention.scale_read",
        functions=by_default_scale(lambda given: (1.02 * width(given)) ** -0.5),
    ),
    Fault(
        id="attention.scale_of_value_width",
        component="attention",
        kind="K05",
        reason="takes the scale from the value head size; it's that of queries and keys",
        remedy="Take d from the last axis of the queries.",
        law="attention.matches_oracle",
        functions=by_default_scale(lambda given: max(given.v.shape[-1], 1) ** -0.5),
    ),
    Fault(
        id="attention.scale_of_model_width",
        component="attention",
        kind="K05",
        reason="takes the scale from the width of all heads together; it's that of one head",
        remedy="Take d from the last axis after the heads are split.",
        law="attention.matches_oracle",
        functions=by_default_scale(lambda given: (max(given.q.shape[1], 1) * width(given)) ** -0.5),
        report="lucidrains/vit-pytorch #65",
    ),
    Fault(
        id="attention.scale_of_padded_width",
        component="attention",
        kind="K05",
        reason="takes the scale from the head size after padding to a multiple of eight; zero "
        "channels change no score",
        remedy="Take the scale from the head size before it's padded.",
        law="attention.scale_read",
        functions=by_default_scale(lambda given: (-(-width(given) // 8) * 8) ** -0.5),
        report="intel/ipex-llm #12619",
    ),
    Fault(
        id="attention.scale_by_width",
        component="attention",
        kind="K05",
        reason="divides by the head size and not by its root",
        remedy="Use d ** -0.5, or pass a scale of 1 / d where that's meant.",
        law="attention.mean_square_of_scores",
        functions=by_default_scale(lambda given: 1.0 / width(given)),
    ),
    Fault(
        id="attention.scale_left_out",
        component="attention",
        kind="K05",
        reason="leaves the scores unscaled where no scale is given; the default is d ** -0.5",
        remedy="Multiply by d ** -0.5 when `scale` is None.",
        law="attention.mean_square_of_scores",
        functions=by_default_scale(lambda given: 1.0),
    ),
    Fault(
        id="attention.scale_ignored",
        component="attention",
        kind="K29",
        reason="accepts a scale and uses d ** -0.5 all the same",
        remedy="Use the scale that is given.",
        law="attention.scale_moves",
        functions=by_any_scale(lambda given: float(width(given) ** -0.5)),
    ),
    Fault(
        id="attention.scale_times_default",
        component="attention",
        kind="K05",
        reason="multiplies a given scale by d ** -0.5; it takes the place of the default",
        remedy="Use either the given scale or the default.",
        law="attention.matches_oracle",
        functions=by_arguments(_times_default),
        report="nntile/nntile #356",
    ),
    Fault(
        id="attention.scale_twice",
        component="attention",
        kind="K05",
        reason="scales the queries and then the scores once more",
        remedy="Scale in one place, or by the root of the scale in each of two.",
        law="attention.scale_moves",
        functions=by_arguments(_on_both),
    ),
    Fault(
        id="attention.scale_missing_in_last_head",
        component="attention",
        kind="K05",
        reason="hands a given scale to all heads of a group but the last, which keeps the default",
        remedy="Apply the scale to every query head.",
        law="attention.matches_oracle",
        functions=by_products(_last_of_group_by_default),
    ),
    Fault(
        id="attention.softcap_ignored",
        component="attention",
        kind="K29",
        reason="accepts a softcap and ignores it",
        remedy="Cap the scaled scores, or refuse the option.",
        law="attention.softcap_limits",
        functions=by_arguments(lambda given: replace(given, softcap=None)),
        report="sgl-project/sglang #33915",
    ),
    Fault(
        id="attention.softcap_ignored_with_bias",
        component="attention",
        kind="K29",
        reason="takes another path when a bias is passed, one without the softcap",
        remedy="Cap the scaled scores on every path.",
        law="attention.softcap_limits",
        functions=by_arguments(_cap_not_with_bias),
    ),
    Fault(
        id="attention.softcap_after_mask",
        component="attention",
        kind="K04",
        reason="caps the scores after the mask has filled them with a large negative number, which "
        "becomes the finite -softcap: hidden keys get weight",
        remedy="Cap first, mask last.",
        law="attention.hidden_keys_change_nothing",
        functions=by_results(_cap_after_mask),
    ),
    Fault(
        id="attention.softcap_before_scale",
        component="attention",
        kind="K05",
        reason="caps the plain product of query and key and scales afterwards; the scale comes "
        "first",
        remedy="Scale, then cap.",
        law="attention.matches_oracle",
        functions=by_scores(_cap_first),
    ),
    Fault(
        id="attention.softcap_without_factor",
        component="attention",
        kind="K05",
        reason="takes tanh(x / cap) and doesn't multiply by the cap, so that scores stay between "
        "-1 and 1",
        remedy="Multiply the tanh by the cap.",
        law="attention.softcap_limits",
        functions=by_cap(lambda found, size: (found / size).tanh()),
    ),
    Fault(
        id="attention.softcap_clamps",
        component="attention",
        kind="K05",
        reason="clamps the scores at the cap; the softcap is cap * tanh(x / cap)",
        remedy="Use the tanh.",
        law="attention.matches_oracle",
        functions=by_cap(lambda found, size: found.clamp(-size, size)),
    ),
    Fault(
        id="attention.softcap_in_base_two",
        component="attention",
        kind="K05",
        reason="converts the scores for exp2 before they are capped, so that the cap is too small "
        "by log2(e)",
        remedy="Cap in natural units, and convert afterwards.",
        law="attention.matches_oracle",
        functions=by_cap(_capped_in_base_two),
    ),
)
