"""Softmax that is wrong about memory: views, buffers, earlier calls, what is returned."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attnspec.impls import softmax as right
from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.softmax import by_call, normalised, shifted
from attnspec.impls.faults.views import overwrite, read_as_contiguous


def _writes_over_input(x: Tensor, *, dim: int = -1) -> Tensor:
    result = right.softmax(x, dim=dim)
    if x.numel() and x.dtype in (torch.float32, torch.float64):
        overwrite(x, x.detach() - x.detach().amax(dim, keepdim=True))
    return result


def _reads_as_contiguous(x: Tensor, *, dim: int = -1) -> Tensor:
    return right.softmax(read_as_contiguous(x), dim=dim)


def _result_in_float32(x: Tensor, *, dim: int = -1) -> Tensor:
    return right.softmax(x.to(torch.promote_types(x.dtype, torch.float32)), dim=dim)


def _empty_flattened(x: Tensor, *, dim: int = -1) -> Tensor:
    return right.softmax(x, dim=dim) if x.numel() else x.flatten()


def _buffer_handed_out() -> Callable[..., Tensor]:
    buffers: dict[tuple[torch.Size, torch.dtype, torch.device], Tensor] = {}

    def softmax(x: Tensor, *, dim: int = -1) -> Tensor:
        result = right.softmax(x, dim=dim)
        if result.requires_grad:
            return result
        buffer = buffers.setdefault((x.shape, x.dtype, x.device), torch.empty_like(result))
        return buffer.copy_(result)

    return softmax


def _normaliser_not_cleared() -> Callable[..., Tensor]:
    buffers: dict[tuple[torch.Size, torch.device], Tensor] = {}

    def softmax(x: Tensor, *, dim: int = -1) -> Tensor:
        if x.numel() == 0:
            return x.clone()
        wide = x.to(torch.promote_types(x.dtype, torch.float32)).movedim(dim, -1)
        numerators = shifted(wide).exp()
        total = numerators.sum(-1, keepdim=True)
        place = (total.shape, total.device)
        if place in buffers:
            total = total + buffers[place].to(total.dtype)
        buffers[place] = total.detach()
        return (numerators / total).movedim(-1, dim).to(x.dtype)

    return softmax


def _padded_to_longest_call() -> Callable[..., Tensor]:
    longest = 0

    def softmax(x: Tensor, *, dim: int = -1) -> Tensor:
        nonlocal longest
        if x.numel() == 0:
            return x.clone()
        wide = x.to(torch.promote_types(x.dtype, torch.float32)).movedim(dim, -1)
        length = wide.shape[-1]
        longest = max(longest, length)
        padded = torch.nn.functional.pad(wide, (0, longest - length))
        weights = normalised(shifted(padded).exp())[..., :length]
        return weights.movedim(-1, dim).to(x.dtype)

    return softmax


def _odd_row_stale() -> Callable[..., Tensor]:
    rows_left: dict[int, Tensor] = {}

    def softmax(x: Tensor, *, dim: int = -1) -> Tensor:
        if x.numel() == 0:
            return x.clone()
        weights = right.softmax(x.movedim(dim, -1))
        rows = weights.reshape(-1, weights.shape[-1])
        if len(rows) > 1 and len(rows) % 2:
            length = rows.shape[-1]
            stale = rows_left.get(length, torch.zeros_like(rows[-1]))
            rows_left[length] = rows[0].detach().clone()
            rows = torch.cat((rows[:-1], stale.to(rows)[None]))
        return rows.reshape(weights.shape).movedim(-1, dim)

    return softmax


FAULTS = (
    Fault(
        id="softmax.writes_over_input",
        component="softmax",
        kind="K20",
        reason="subtracts the maximum in place: a cast to float32 gives the same memory where the "
        "input is float32 already, so that the caller's logits change",
        remedy="Subtract into a new tensor.",
        law="softmax.inputs_unchanged",
        functions=by_call(_writes_over_input),
        report="GeeeekExplorer/nano-vllm #170",
        dtypes=("float64", "float32"),
    ),
    Fault(
        id="softmax.reads_as_contiguous",
        component="softmax",
        kind="K26",
        reason="takes the strides of a fresh tensor for granted, so that views are read in the "
        "wrong order",
        remedy="Use the tensor's strides, or copy what isn't contiguous.",
        law="softmax.views_equal_copies",
        functions=by_call(_reads_as_contiguous),
    ),
    Fault(
        id="softmax.result_in_float32",
        component="softmax",
        kind="K13",
        reason="returns its float32 intermediate; the result has the dtype of the input",
        remedy="Cast the result back to the input's dtype.",
        law="softmax.output_form",
        functions=by_call(_result_in_float32),
        dtypes=("bfloat16", "float16"),
    ),
    Fault(
        id="softmax.empty_batch_flattened",
        component="softmax",
        kind="K25",
        reason="returns early for an empty batch, without the other axes",
        remedy="Return an empty tensor of the input's shape.",
        law="softmax.empty_batch",
        functions=by_call(_empty_flattened),
    ),
    Fault(
        id="softmax.buffer_handed_out",
        component="softmax",
        kind="K29",
        reason="returns a buffer that the next call of the same shape writes again, so that an "
        "earlier result changes in the caller's hands",
        remedy="Return a new tensor, or copy out of the buffer.",
        law="softmax.no_memory",
        functions=lambda: {"softmax": _buffer_handed_out()},
    ),
    Fault(
        id="softmax.normaliser_not_cleared",
        component="softmax",
        kind="K29",
        reason="adds to a buffer of row sums that isn't set to zero between calls",
        remedy="Clear the buffer at the start of every call.",
        law="softmax.repeatable",
        functions=lambda: {"softmax": _normaliser_not_cleared()},
    ),
    Fault(
        id="softmax.padded_to_longest_call",
        component="softmax",
        kind="K29",
        reason="keeps the row length of the longest call, pads shorter rows with zeros up to it "
        "and counts them",
        remedy="Take the row length from the arguments of each call.",
        law="softmax.no_memory",
        functions=lambda: {"softmax": _padded_to_longest_call()},
    ),
    Fault(
        id="softmax.odd_row_stale",
        component="softmax",
        kind="K04",
        reason="handles two rows at a time and leaves the last of an odd number unwritten, with "
        "what an earlier call left there",
        remedy="Mask the second row of the last pair in place of leaving the pair out.",
        law="softmax.matches_oracle",
        functions=lambda: {"softmax": _odd_row_stale()},
    ),
)
