"""Wrong implementations of residual_block: dtypes, memory, shapes, and what is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from attnspec.impls import residual_block as right
from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.residual_block import Functions, by_placement
from attnspec.impls.faults.views import overwrite, read_as_contiguous
from attnspec.impls.residual_block import Layer


def _stream_in_half(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    return (x.to(torch.float16).to(x.dtype)) + sublayer(norm(x))


def _stream_cast(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    return x + sublayer(norm(x).to(torch.float64)).to(x.dtype)


def _flat_rows(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    total = x + sublayer(x.reshape(-1, x.shape[-1])).reshape(x.shape)
    return norm(total)


def _added_into_branch(x: Tensor, branch: Tensor) -> Tensor:
    total = x + branch
    overwrite(branch, total.detach())
    return total


def _adds_into_stream(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    branch = sublayer(norm(x))
    total = x + branch
    overwrite(x, total.detach())
    return total


def _in_float32(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    wide = torch.promote_types(x.dtype, torch.float32)
    return x.to(wide) + sublayer(norm(x)).to(wide)


def _as_contiguous(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    return read_as_contiguous(x) + sublayer(norm(x))


def _flattened(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    return norm(x + sublayer(x)) if x.numel() else x.reshape(-1)


def _skip_of_first_call() -> Mapping[str, Callable[..., Any]]:
    kept: dict[tuple[object, ...], Tensor] = {}

    def residual_block(x: Tensor, sublayer: Layer, norm: Layer, *, placement: str) -> Tensor:
        if placement != "pre":
            return right.residual_block(x, sublayer, norm, placement=placement)
        first = kept.setdefault((x.shape, x.dtype, x.device), x.detach().clone())
        return (x - x.detach() + first) + sublayer(norm(x))

    return {"residual_block": residual_block}


def _running_stream() -> Mapping[str, Callable[..., Any]]:
    seen: dict[tuple[object, ...], Tensor] = {}

    def residual_block(x: Tensor, sublayer: Layer, norm: Layer, *, placement: str) -> Tensor:
        key = (x.shape, x.dtype, x.device)
        before = seen.get(key)
        seen[key] = x.detach().clone()
        stream = x if before is None else x + 0.125 * before
        return right.residual_block(stream, sublayer, norm, placement=placement)

    return {"residual_block": residual_block}


def _layers_kept() -> Mapping[str, Callable[..., Any]]:
    kept: dict[str, tuple[Layer, Layer]] = {}

    def residual_block(x: Tensor, sublayer: Layer, norm: Layer, *, placement: str) -> Tensor:
        # nothing is called of what is kept where there is nothing to go through
        layers = kept.setdefault(placement, (sublayer, norm))
        return right.residual_block(x, *layers, placement=placement)

    return {"residual_block": residual_block}


def _fault(name: str, reason: str, remedy: str, law: str, made: Functions, **more: Any) -> Fault:
    return Fault(
        f"residual_block.{name}", "residual_block", more.pop("kind", "K20"), reason, remedy,
        f"residual_block.{law}", made, **more,
    )  # fmt: skip


FAULTS = (
    _fault(
        "stream_in_half",
        "casts the stream to float16 on its way past the sublayer",
        "Keep the stream in its dtype; cast what the sublayer gives, if anything.",
        "zero_sublayer",
        by_placement(pre=_stream_in_half),
        kind="K13",
        dtypes=("float64", "float32"),
    ),
    _fault(
        "stream_cast",
        "casts the normalised rows to float64 for the sublayer, whose weights are in the dtype of "
        "the stream",
        "Hand over rows in the dtype of x.",
        "handed_form",
        by_placement(pre=_stream_cast),
        kind="K13",
        dtypes=("float32", "float16", "bfloat16"),
    ),
    _fault(
        "sublayer_of_flat_rows",
        "flattens all leading axes before the sublayer, to which tokens of all sequences are then "
        "one sequence",
        "Hand over rows in the shape of x.",
        "handed_form",
        by_placement(post=_flat_rows),
    ),
    _fault(
        "adds_in_place",
        "adds x into what the sublayer returned, which may be x itself",
        "Add into a new tensor.",
        "returned_layers",
        by_placement(
            pre=lambda x, sublayer, norm: _added_into_branch(x, sublayer(norm(x))),
            post=lambda x, sublayer, norm: norm(_added_into_branch(x, sublayer(x))),
        ),
    ),
    _fault(
        "adds_into_stream",
        "adds the branch into the memory of x, which the caller may still need",
        "Add into a new tensor.",
        "inputs_unchanged",
        by_placement(pre=_adds_into_stream),
    ),
    _fault(
        "stream_in_float32",
        "returns the stream in float32 for rows in half precision",
        "Return the dtype of x.",
        "output_form",
        by_placement(pre=_in_float32),
        kind="K13",
        dtypes=("float16", "bfloat16"),
    ),
    _fault(
        "skip_read_as_contiguous",
        "reads the skip as if its rows followed each other in memory",
        "Step through x by its strides.",
        "views_equal_copies",
        by_placement(pre=_as_contiguous),
        kind="K26",
    ),
    _fault(
        "empty_batch_flattened",
        "gives back an empty stream without its axes",
        "Return the shape of x, whatever its sizes.",
        "empty_batch",
        by_placement(post=_flattened),
        kind="K25",
    ),
    _fault(
        "skip_of_first_call",
        "keeps the stream of the first call of each shape, and adds every later branch to that",
        "Add the branch to the stream of the same call.",
        "telescopes",
        _skip_of_first_call,
        kind="K29",
    ),
    _fault(
        "running_stream",
        "adds an eighth of the stream of the call before",
        "Keep nothing from one call to the next.",
        "repeatable",
        _running_stream,
        kind="K29",
    ),
    _fault(
        "layers_kept",
        "keeps norm and sublayer of the first call of each placement, and runs them in all later "
        "ones",
        "Run the layers that are handed over.",
        "no_memory",
        _layers_kept,
        kind="K29",
    ),
)
