"""Attention that remembers earlier calls, or does something else when gradients are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attnspec.impls import attention as right
from attnspec.impls.faults.attention_steps import (
    Call,
    Functions,
    Results,
    allowed,
    attended,
    averaged,
    by_call,
    by_results,
    call,
    hidden,
    largest,
    mean,
    normalised,
    repeated,
    scores,
    visible,
    weighted,
)
from attnspec.impls.faults.fault import Fault


def with_memory(made: Callable[[], Callable[[Call], Results]]) -> Functions:
    """An attention whose steps keep something from call to call; it starts without."""

    def functions() -> Mapping[str, Callable[..., Any]]:
        return by_results(made())()

    return functions


def _first_positions_of_lengths() -> Callable[[Call], Results]:
    seen: dict[tuple[int, int, torch.device], Tensor] = {}

    def results(given: Call) -> Results:
        by_place = visible(replace(given, mask=None, bias=None))
        place = (*given.lengths, given.q.device)
        kept = seen.setdefault(place, by_place)
        return averaged(given, *weighted(hidden(scores(given), allowed(given) & kept)))

    return results


def _mask_of_earlier_call() -> Callable[[Call], Results]:
    masks: dict[torch.Size, Tensor] = {}

    def results(given: Call) -> Results:
        if given.mask is None:
            return attended(given)
        kept = masks.setdefault(given.mask.shape, given.mask.clone()).to(given.q.device)
        return attended(replace(given, mask=kept))

    return results


def _first_softcap() -> Callable[[Call], Results]:
    caps: list[float | None] = []

    def results(given: Call) -> Results:
        caps.append(given.softcap)
        return attended(replace(given, softcap=caps[0]))

    return results


def _first_scale_of_width() -> Callable[[Call], Results]:
    factors: dict[int, float] = {}

    def results(given: Call) -> Results:
        factor = factors.setdefault(given.q.shape[-1], given.factor)
        return attended(replace(given, scale=factor))

    return results


def _normaliser_not_cleared() -> Callable[[Call], Results]:
    buffers: dict[tuple[torch.Size, torch.device], Tensor] = {}

    def results(given: Call) -> Results:
        masked = hidden(scores(given), visible(given))
        weights, lse = weighted(masked)
        place = (lse.shape, lse.device)
        before = buffers.get(place, torch.zeros_like(lse)).to(lse.dtype)
        total = (masked - largest(masked)).exp().sum(-1)
        buffers[place] = total.detach()
        share = total / (total + before).masked_fill(total == 0, 1.0)
        return mean(given, weights * share.unsqueeze(-1)), lse

    return results


def _longest_keys_kept() -> Callable[[Call], Results]:
    longest = 0

    def results(given: Call) -> Results:
        nonlocal longest
        masked = hidden(scores(given), visible(given))
        length = masked.shape[-1]
        longest = max(longest, length)
        seen = (masked > -torch.inf).any(-1)
        padded = torch.nn.functional.pad(masked, (0, longest - length))
        weights, lse = normalised(padded, largest(padded))
        weights = weights[..., :length] * seen.unsqueeze(-1)
        return averaged(given, weights, lse.masked_fill(~seen, -torch.inf))

    return results


def _odd_row_stale() -> Callable[[Call], Results]:
    rows_left: dict[int, Tensor] = {}

    def results(given: Call) -> Results:
        output, lse = attended(given)
        length, width = output.shape[-2:]
        if length < 2 or length % 2 == 0 or output.numel() == 0:
            return output, lse
        stale = rows_left.get(width, torch.zeros_like(output[0, 0, 0]))
        rows_left[width] = output[0, 0, 0].detach().clone()
        last = stale.to(output).expand_as(output[..., -1:, :])
        return torch.cat((output[..., :-1, :], last), -2), lse

    return results


def _buffer_handed_out() -> Mapping[str, Callable[..., Any]]:
    buffers: dict[tuple[torch.Size, torch.dtype, torch.device], Tensor] = {}

    def made(arguments: dict[str, Any]) -> Any:
        result = right.attention(**arguments)
        output = result[0] if isinstance(result, tuple) else result
        if output.requires_grad:
            return result
        place = (output.shape, output.dtype, output.device)
        buffer = buffers.setdefault(place, torch.empty_like(output)).copy_(output)
        return (buffer, result[1]) if isinstance(result, tuple) else buffer

    return by_call(made)()


def _order_alternates() -> Callable[[Call], Results]:
    calls = 0

    def results(given: Call) -> Results:
        nonlocal calls
        calls += 1
        weights, lse = weighted(hidden(scores(given), visible(given)))
        values = repeated(given.v, given.q.shape[1])
        keys = list(range(values.shape[-2]))
        output = torch.zeros_like(weights[..., :1]) * torch.zeros_like(values[..., :1, :])
        for key in keys if calls % 2 else reversed(keys):
            output = output + weights[..., key, None] * values[..., key, None, :]
        return output, lse

    return results


def _without_softcap_in_training(arguments: dict[str, Any]) -> Any:
    trains = any(isinstance(x, Tensor) and x.requires_grad for x in arguments.values())
    return right.attention(**{**arguments, "softcap": None} if trains else arguments)


def _window_back_in_training(arguments: dict[str, Any]) -> Any:
    trains = any(isinstance(x, Tensor) and x.requires_grad for x in arguments.values())
    given = call(arguments)
    late = trains and given.window is not None and not given.causal
    return right.attention(**{**arguments, "causal": True} if late else arguments)


def _dropout_in_training(arguments: dict[str, Any]) -> Any:
    trains = any(isinstance(x, Tensor) and x.requires_grad for x in arguments.values())
    result = right.attention(**arguments)
    if not trains:
        return result
    output, *lse = result if isinstance(result, tuple) else (result,)
    # a tenth of the channels is dropped, and the rest scaled up
    kept = torch.arange(output.shape[-1], device=output.device) % 10 != 3
    output = output * kept / 0.9
    return (output.to(arguments["q"].dtype), *lse) if lse else output.to(arguments["q"].dtype)


FAULTS = (
    Fault(
        id="attention.first_positions_kept",
        component="attention",
        kind="K29",
        reason="keeps who sees whom by position for each pair of lengths, whatever `causal` and "
        "window the first call had",
        remedy="Make `causal` and window part of the key, or the mask anew.",
        law="attention.no_memory",
        functions=with_memory(_first_positions_of_lengths),
    ),
    Fault(
        id="attention.mask_of_earlier_call",
        component="attention",
        kind="K29",
        reason="keeps the first mask of each shape and uses it for later calls",
        remedy="Read the mask of the call.",
        law="attention.no_memory",
        functions=with_memory(_mask_of_earlier_call),
    ),
    Fault(
        id="attention.first_softcap_kept",
        component="attention",
        kind="K29",
        reason="compiles the softcap of the first call into the kernel and keeps it",
        remedy="Compile one kernel for each softcap, or pass it at run time.",
        law="attention.no_memory",
        functions=with_memory(_first_softcap),
    ),
    Fault(
        id="attention.first_scale_kept",
        component="attention",
        kind="K29",
        reason="keeps the scale of the first call for each head size",
        remedy="Take the scale from the arguments of each call.",
        law="attention.no_memory",
        functions=with_memory(_first_scale_of_width),
    ),
    Fault(
        id="attention.normaliser_not_cleared",
        component="attention",
        kind="K29",
        reason="adds to a buffer of row sums that isn't set to zero between calls",
        remedy="Clear the buffer at the start of every call.",
        law="attention.repeatable",
        functions=with_memory(_normaliser_not_cleared),
    ),
    Fault(
        id="attention.longest_keys_kept",
        component="attention",
        kind="K29",
        reason="keeps the number of keys of the longest call, pads shorter ones up to it with the "
        "score 0 and counts them",
        remedy="Take the number of keys from the arguments of each call.",
        law="attention.no_memory",
        functions=with_memory(_longest_keys_kept),
    ),
    Fault(
        id="attention.odd_row_stale",
        component="attention",
        kind="K04",
        reason="works on two queries at a time and leaves the last of an odd number unwritten, "
        "with what an earlier call left there",
        remedy="Mask the second query of the last pair in place of leaving the pair out.",
        law="attention.matches_oracle",
        functions=with_memory(_odd_row_stale),
    ),
    Fault(
        id="attention.buffer_handed_out",
        component="attention",
        kind="K29",
        reason="returns a buffer that the next call of the same shape writes again, so that an "
        "earlier result changes in the caller's hands",
        remedy="Return a new tensor, or copy out of the buffer.",
        law="attention.no_memory",
        functions=_buffer_handed_out,
    ),
    Fault(
        id="attention.order_alternates",
        component="attention",
        kind="K04",
        reason="adds keys in an order that changes from call to call, so that equal calls give "
        "other bits",
        remedy="Fix the order of the sum, or don't promise repeatable results.",
        law="attention.repeatable",
        functions=with_memory(_order_alternates),
    ),
    Fault(
        id="attention.softcap_not_in_training",
        component="attention",
        kind="K23",
        reason="takes another path when gradients are asked for, one without the softcap",
        remedy="Give both paths the same options.",
        law="attention.same_with_gradients",
        functions=by_call(_without_softcap_in_training),
    ),
    Fault(
        id="attention.window_causal_in_training",
        component="attention",
        kind="K23",
        reason="takes another path when gradients are asked for, whose window looks back only",
        remedy="Give both paths the same options.",
        law="attention.same_with_gradients",
        functions=by_call(_window_back_in_training),
    ),
    Fault(
        id="attention.dropout_in_training",
        component="attention",
        kind="K23",
        reason="takes tensors that need gradients for training and drops channels",
        remedy="Drop only where the caller asks for it.",
        law="attention.same_with_gradients",
        functions=by_call(_dropout_in_training),
    ),
)
