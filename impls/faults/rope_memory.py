"""RoPE that is wrong about memory: views, tables and buffers kept, what is returned."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import torch
from torch import Tensor

from attnspec.impls import rope as right
from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.rope import by_rotation, rotated
from attnspec.impls.faults.views import overwrite, read_as_contiguous
from attnspec.impls.rope import turning_angles

Rope = Callable[..., Tensor]

TRAINED_LENGTH = 256


def _writes_over_input(x: Tensor, angles: Tensor) -> Tensor:
    result = rotated(x, angles)
    overwrite(x, result.detach())
    return result


def with_kept_angles(kept: Callable[[], Callable[..., Tensor]]) -> Callable[[], dict[str, Rope]]:
    """A RoPE with angles from a function with memory, called as `turning_angles` is."""

    def functions() -> dict[str, Rope]:
        angles = kept()

        def rope(
            x: Tensor, positions: Tensor, *, base: float = 10000.0, rotary_dim: int | None = None
        ) -> Tensor:
            return rotated(x, angles(x, positions, base, rotary_dim))

        return {"rope": rope}

    return functions


def _cached_by_length() -> Callable[..., Tensor]:
    tables: dict[tuple[object, ...], Tensor] = {}

    def angles(x: Tensor, positions: Tensor, base: float, rotary_dim: int | None) -> Tensor:
        fresh = turning_angles(x, positions, base, rotary_dim)
        return tables.setdefault((fresh.shape, fresh.dtype, fresh.device, base), fresh)

    return angles


def _base_of_first_call() -> Callable[..., Tensor]:
    bases: list[float] = []

    def angles(x: Tensor, positions: Tensor, base: float, rotary_dim: int | None) -> Tensor:
        if not bases:
            bases.append(base)
        return turning_angles(x, positions, bases[0], rotary_dim)

    return angles


def _longer_base_kept() -> Callable[..., Tensor]:
    longest = torch.tensor(TRAINED_LENGTH)

    def angles(x: Tensor, positions: Tensor, base: float, rotary_dim: int | None) -> Tensor:
        nonlocal longest
        here = turning_angles(x, positions, base, rotary_dim)
        stretch = longest.to(here) / TRAINED_LENGTH
        if positions.numel():
            longest = torch.maximum(longest.to(positions.device), positions.max())
        pairs = torch.arange(here.shape[-1], device=here.device) / max(here.shape[-1], 1)
        return here * stretch.pow(-pairs.to(here.dtype))

    return angles


def _tables_of_longest_call() -> Callable[..., Tensor]:
    longest: dict[tuple[object, ...], Tensor] = {}

    def angles(x: Tensor, positions: Tensor, base: float, rotary_dim: int | None) -> Tensor:
        fresh = turning_angles(x, positions, base, rotary_dim)
        place = (fresh.shape[:-2], fresh.shape[-1], fresh.dtype, fresh.device, base)
        if place not in longest or longest[place].shape[-2] <= fresh.shape[-2]:
            longest[place] = fresh
        return longest[place][..., : fresh.shape[-2], :]

    return angles


def _race() -> Callable[[], dict[str, Rope]]:
    def functions() -> dict[str, Rope]:
        calls = count()

        def rope(
            x: Tensor, positions: Tensor, *, base: float = 10000.0, rotary_dim: int | None = None
        ) -> Tensor:
            angles = turning_angles(x, positions, base, rotary_dim)
            # every second time the copy of all channels comes after the rotated ones
            return rotated(x, angles[..., :-1] if next(calls) % 2 else angles)

        return {"rope": rope}

    return functions


def _buffer_handed_out() -> dict[str, Rope]:
    buffers: dict[tuple[object, ...], Tensor] = {}

    def rope(
        x: Tensor, positions: Tensor, *, base: float = 10000.0, rotary_dim: int | None = None
    ) -> Tensor:
        result = right.rope(x, positions, base=base, rotary_dim=rotary_dim)
        if result.requires_grad:
            return result
        buffer = buffers.setdefault((x.shape, x.dtype, x.device), torch.empty_like(result))
        return buffer.copy_(result)

    return {"rope": rope}


FAULTS = (
    Fault(
        id="rope.writes_over_input",
        component="rope",
        kind="K20",
        reason="rotates in place, so that the caller's queries or keys change",
        remedy="Write the result to a new tensor.",
        law="rope.inputs_unchanged",
        functions=by_rotation(_writes_over_input),
        report="GeeeekExplorer/nano-vllm #170",
    ),
    Fault(
        id="rope.reads_as_contiguous",
        component="rope",
        kind="K26",
        reason="takes the strides of a fresh tensor for granted, so that views are read in the "
        "wrong order",
        remedy="Use the tensor's strides, or copy what isn't contiguous.",
        law="rope.views_equal_copies",
        functions=by_rotation(lambda x, angles: rotated(read_as_contiguous(x), angles)),
    ),
    Fault(
        id="rope.result_in_float32",
        component="rope",
        kind="K13",
        reason="returns its float32 intermediate; the result has the dtype of the input",
        remedy="Cast the result back to the input's dtype.",
        law="rope.output_form",
        functions=by_rotation(
            lambda x, angles: rotated(x.to(torch.promote_types(x.dtype, torch.float32)), angles)
        ),
        dtypes=("bfloat16", "float16"),
    ),
    Fault(
        id="rope.empty_batch_flattened",
        component="rope",
        kind="K25",
        reason="returns early for an empty batch, without the other axes",
        remedy="Return an empty tensor of the input's shape.",
        law="rope.empty_batch",
        functions=by_rotation(lambda x, angles: rotated(x, angles) if x.numel() else x.flatten()),
    ),
    Fault(
        id="rope.tables_cached_by_length",
        component="rope",
        kind="K29",
        reason="keeps sine and cosine by the number of tokens, whatever their positions are",
        remedy="Keep a table of all positions and index it, or don't keep one.",
        law="rope.group_law",
        functions=with_kept_angles(_cached_by_length),
    ),
    Fault(
        id="rope.base_of_first_call",
        component="rope",
        kind="K29",
        reason="keeps the frequencies of the first call, whatever base later calls ask for",
        remedy="Keep one table for each base.",
        law="rope.no_memory",
        functions=with_kept_angles(_base_of_first_call),
    ),
    Fault(
        id="rope.longer_base_kept",
        component="rope",
        kind="K29",
        reason="raises the base once a position is beyond the trained length of 256, and never "
        "comes back, so that short calls after a long one turn by other angles",
        remedy="Derive the base from the arguments of each call.",
        law="rope.no_memory",
        functions=with_kept_angles(_longer_base_kept),
        report="huggingface/transformers #25306",
    ),
    Fault(
        id="rope.tables_of_longest_call",
        component="rope",
        kind="K29",
        reason="rebuilds its tables for a longer call only, and gives shorter ones the first rows, "
        "which belong to other positions",
        remedy="Build the tables by position, or for every call.",
        law="rope.no_memory",
        functions=with_kept_angles(_tables_of_longest_call),
    ),
    Fault(
        id="rope.copy_races_with_rotation",
        component="rope",
        kind="K04",
        reason="copies all channels and writes the turned ones over them from elsewhere, so that "
        "the last pair comes out turned or not, from call to call",
        remedy="Give every channel one writer.",
        law="rope.repeatable",
        functions=_race(),
        report="1CatAI/1Cat-vLLM #162",
    ),
    Fault(
        id="rope.buffer_handed_out",
        component="rope",
        kind="K29",
        reason="returns a buffer that the next call of the same shape writes again, so that an "
        "earlier result changes in the caller's hands",
        remedy="Return a new tensor, or copy out of the buffer.",
        law="rope.no_memory",
        functions=_buffer_handed_out,
    ),
)
