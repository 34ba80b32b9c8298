"""Attention that is wrong about memory: its arguments, views, what it returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnspec.impls import attention as right
from attnspec.impls.faults.attention_steps import (
    Functions,
    by_call,
    call,
    products,
    visible,
)
from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.views import overwrite, read_as_contiguous

Arguments = dict[str, Any]
TAIL = 4


def by_reading(names: str, read: Callable[[Tensor], Tensor]) -> Functions:
    """A right attention that reads these tensors in another way."""

    def made(arguments: Arguments) -> Any:
        found: Arguments = {
            name: read(x) if name in names.split() and isinstance(x, Tensor) else x
            for name, x in arguments.items()
        }
        return right.attention(**found)

    return by_call(made)


def by_returning(changed: Callable[[Tensor, Tensor, Arguments], Any]) -> Functions:
    """An attention that returns something else than its right output and log-sum-exp."""

    def made(arguments: Arguments) -> Any:
        # copies, so that what is overwritten afterwards is not what the gradient needs
        copies: Arguments = {
            n: x.clone() if isinstance(x, Tensor) else x for n, x in arguments.items()
        }
        output, lse = right.attention(**{**copies, "return_lse": True})
        return changed(output, lse, arguments)

    return by_call(made)


def returned(output: Tensor, lse: Tensor, arguments: Arguments) -> Any:
    """What was asked for."""
    return (output, lse) if arguments["return_lse"] else output


def _scales_queries(output: Tensor, lse: Tensor, arguments: Arguments) -> Any:
    q = arguments["q"]
    if q.dtype in (torch.float32, torch.float64):
        overwrite(q, q.detach() * call(arguments).factor)
    return returned(output, lse, arguments)


def _fills_bias(output: Tensor, lse: Tensor, arguments: Arguments) -> Any:
    bias, given = arguments["bias"], call(arguments)
    if bias is not None and bias.shape[-2:] == given.lengths:
        hidden = ~visible(given)
        if hidden.shape == bias.shape or hidden.ndim == 2:
            overwrite(bias, bias.detach().masked_fill(hidden, -torch.inf))
    return returned(output, lse, arguments)


def _adds_into_bias(output: Tensor, lse: Tensor, arguments: Arguments) -> Any:
    bias, given = arguments["bias"], call(arguments)
    if bias is not None and given.softcap is None:
        found = products(given).detach()
        if bias.shape == found.shape and bias.dtype == found.dtype:
            overwrite(bias, bias.detach() + found)
    return returned(output, lse, arguments)


def _expanded_tail(x: Tensor) -> Tensor:
    expanded = any(
        step == 0 and size > 1 for size, step in zip(x.shape[:2], x.stride()[:2], strict=True)
    )
    length = x.shape[-2]
    if not expanded or length % TAIL != 1 or length == 1:
        return x
    return torch.cat((x[..., :-1, :], x[..., :1, :]), -2)


def _batch_stride_of_fresh(x: Tensor) -> Tensor:
    # the strides of heads, rows and channels are read, that of the batch is taken for granted
    step = x.shape[1] * x.shape[2] * x.shape[3]
    last = x.storage_offset() + 1 + (x.shape[0] - 1) * step
    last += sum((size - 1) * own for size, own in zip(x.shape[1:], x.stride()[1:], strict=True))
    if x.numel() == 0 or last * x.element_size() > x.untyped_storage().nbytes():
        return x
    return x.as_strided(x.shape, (step, *x.stride()[1:]), x.storage_offset())


def _larger_stride_for_heads(x: Tensor) -> Tensor:
    batch, heads, rows, channels = x.stride()
    if heads >= rows or min(x.shape[1:3]) <= 1:
        return x
    steps = (batch, rows, heads, channels)
    last = x.storage_offset() + 1
    last += sum((size - 1) * step for size, step in zip(x.shape, steps, strict=True))
    if x.numel() == 0 or last * x.element_size() > x.untyped_storage().nbytes():
        return x
    return x.as_strided(x.shape, steps, x.storage_offset())


def _wide(output: Tensor, lse: Tensor, arguments: Arguments) -> Any:
    wide = torch.promote_types(output.dtype, torch.float32)
    return returned(output.to(wide), lse, arguments)


def _queries_when_empty(output: Tensor, lse: Tensor, arguments: Arguments) -> Any:
    return returned(output if output.numel() else arguments["q"], lse, arguments)


def _lse_rows(output: Tensor, lse: Tensor, arguments: Arguments) -> Any:
    return returned(output, lse.unsqueeze(-1), arguments)


def _lse_in_storage(output: Tensor, lse: Tensor, arguments: Arguments) -> Any:
    return returned(output, lse.to(output.dtype), arguments)


def _lse_by_view(output: Tensor, lse: Tensor, arguments: Arguments) -> Any:
    lse = lse.transpose(1, 2).reshape(lse.shape)
    return returned(output, lse, arguments)


FAULTS = (
    Fault(
        id="attention.scales_queries_in_place",
        component="attention",
        kind="K20",
        reason="scales the queries in place: a cast to float32 gives the same memory where they "
        "are float32 already, so that the caller's queries change",
        remedy="Scale into a new tensor.",
        law="attention.inputs_unchanged",
        functions=by_returning(_scales_queries),
        dtypes=("float64", "float32"),
    ),
    Fault(
        id="attention.fills_bias_in_place",
        component="attention",
        kind="K20",
        reason="writes -inf into the caller's bias where keys are hidden",
        remedy="Fill a copy of the bias, or the scores.",
        law="attention.inputs_unchanged",
        functions=by_returning(_fills_bias),
    ),
    Fault(
        id="attention.adds_into_bias",
        component="attention",
        kind="K20",
        reason="uses the caller's bias as the accumulator of the product of query and key where "
        "the shapes allow it",
        remedy="Accumulate into a new tensor.",
        law="attention.inputs_unchanged",
        functions=by_returning(_adds_into_bias),
        dtypes=("float64", "float32"),
    ),
    Fault(
        id="attention.queries_read_as_contiguous",
        component="attention",
        kind="K26",
        reason="takes the strides of fresh queries for granted, so that views are read in the "
        "wrong order",
        remedy="Use the tensor's strides, or copy what isn't contiguous.",
        law="attention.views_equal_copies",
        functions=by_reading("q", read_as_contiguous),
    ),
    Fault(
        id="attention.keys_read_as_contiguous",
        component="attention",
        kind="K26",
        reason="uses the strides of the queries' layout for keys that are views of a larger cache",
        remedy="Hand the strides of keys over too.",
        law="attention.views_equal_copies",
        functions=by_reading("k", read_as_contiguous),
    ),
    Fault(
        id="attention.values_read_as_contiguous",
        component="attention",
        kind="K26",
        reason="uses the strides of fresh values, also where they are a slice of fused ones",
        remedy="Hand the strides of values over too.",
        law="attention.views_equal_copies",
        functions=by_reading("v", read_as_contiguous),
    ),
    Fault(
        id="attention.mask_read_as_contiguous",
        component="attention",
        kind="K26",
        reason="takes the strides of a fresh mask for granted, so that a transposed or sliced one "
        "is read in the wrong order",
        remedy="Use the strides of the mask, 0 along axes that are shared.",
        law="attention.views_equal_copies",
        functions=by_reading("mask bias", read_as_contiguous),
    ),
    Fault(
        id="attention.batch_stride_of_fresh",
        component="attention",
        kind="K26",
        reason="reads the strides of heads, rows and channels but computes that of the batch from "
        "the sizes, which is wrong for a slice",
        remedy="Read the stride of every axis.",
        law="attention.views_equal_copies",
        functions=by_reading("k v", _batch_stride_of_fresh),
    ),
    Fault(
        id="attention.larger_stride_for_heads",
        component="attention",
        kind="K26",
        reason="takes the larger of two strides for that of the heads, which is the rows' in a "
        "view of tokens by heads",
        remedy="Hand the strides of heads and rows over each under its own name.",
        law="attention.views_equal_copies",
        functions=by_reading("q k v", _larger_stride_for_heads),
    ),
    Fault(
        id="attention.expanded_tail",
        component="attention",
        kind="K26",
        reason="loads the last key of keys that are expanded over batch or heads from the first "
        "row, where it's alone in its tile",
        remedy="Use the strides of the last tile as those of the others.",
        law="attention.views_equal_copies",
        functions=by_reading("k v", _expanded_tail),
        report="pytorch/pytorch #191937",
    ),
    Fault(
        id="attention.result_in_float32",
        component="attention",
        kind="K13",
        reason="returns its float32 accumulator; the result has the dtype of the queries",
        remedy="Cast the result back to the dtype of the queries.",
        law="attention.output_form",
        functions=by_returning(_wide),
        dtypes=("bfloat16", "float16"),
    ),
    Fault(
        id="attention.empty_gives_queries",
        component="attention",
        kind="K25",
        reason="returns the queries for an empty batch, whose width is not that of the values",
        remedy="Return an empty tensor of the shape b h t e.",
        law="attention.empty_batch",
        functions=by_returning(_queries_when_empty),
    ),
    Fault(
        id="attention.lse_with_axis",
        component="attention",
        kind="K24",
        reason="returns the log-sum-exp as b h t 1, the shape in which it's subtracted",
        remedy="Drop the last axis where the log-sum-exp leaves.",
        law="attention.lse_matches_oracle",
        functions=by_returning(_lse_rows),
    ),
    Fault(
        id="attention.lse_of_storage_dtype",
        component="attention",
        kind="K13",
        reason="returns the log-sum-exp in half precision, too coarse to merge parts by; it's "
        "float32 or wider",
        remedy="Leave the log-sum-exp in float32.",
        law="attention.lse_matches_oracle",
        functions=by_returning(_lse_in_storage),
        dtypes=("bfloat16", "float16"),
    ),
    Fault(
        id="attention.lse_left_out",
        component="attention",
        kind="K29",
        reason="accepts return_lse and returns the output alone",
        remedy="Return output and log-sum-exp, or refuse the option.",
        law="attention.lse_matches_oracle",
        functions=by_returning(lambda output, lse, arguments: output),
    ),
    Fault(
        id="attention.lse_by_query_and_head",
        component="attention",
        kind="K07",
        reason="stores the log-sum-exp as b t h and hands it out as b h t by a view",
        remedy="Transpose heads and queries; a view doesn't.",
        law="attention.lse_matches_oracle",
        functions=by_returning(_lse_by_view),
    ),
)
