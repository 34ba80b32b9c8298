"""RoPE that turns by wrong angles."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from attnspec.impls.faults.fault import Fault
from attnspec.impls.rope import frequencies, turned, turning_width

Functions = Callable[[], Mapping[str, Callable[..., Any]]]


def by_angles(angles: Callable[[Tensor, Tensor, int, float], Tensor]) -> Functions:
    """A RoPE whose angles come from `x`, positions, turning width and base."""

    def rope(
        x: Tensor, positions: Tensor, *, base: float = 10000.0, rotary_dim: int | None = None
    ) -> Tensor:
        width = turning_width(x, positions, rotary_dim)
        turning = angles(x, positions, width, base)
        return turned(x, turning.cos(), turning.sin())

    return lambda: {"rope": rope}


def products(x: Tensor, positions: Tensor, turns: Tensor) -> Tensor:
    """Positions times frequencies, as precise as they should be for `x`."""
    dtype = torch.promote_types(x.dtype, torch.float32)
    return positions.to(dtype).unsqueeze(-1) * turns.to(dtype)


def right_frequencies(x: Tensor, positions: Tensor, width: int, base: float) -> Tensor:
    """Frequencies as precise as they should be for `x`."""
    dtype = torch.promote_types(x.dtype, torch.float32)
    return frequencies(width, base, dtype=dtype, device=positions.device)


def at_positions(moved: Callable[[Tensor], Tensor]) -> Functions:
    """A RoPE with right frequencies at other positions."""

    def angles(x: Tensor, positions: Tensor, width: int, base: float) -> Tensor:
        return products(x, moved(positions), right_frequencies(x, positions, width, base))

    return by_angles(angles)


def with_exponents(exponents: Callable[[Tensor, int], Tensor]) -> Functions:
    """A RoPE with powers of the base to minus `exponents(pair numbers, turning width)`."""

    def angles(x: Tensor, positions: Tensor, width: int, base: float) -> Tensor:
        dtype = torch.promote_types(x.dtype, torch.float32)
        pairs = torch.arange(width // 2, dtype=dtype, device=positions.device)
        return products(x, positions, torch.pow(base, -exponents(pairs, width)))

    return by_angles(angles)


def _bfloat16_frequencies(x: Tensor, positions: Tensor, width: int, base: float) -> Tensor:
    turns = right_frequencies(x, positions, width, base)
    return products(x, positions, turns.to(torch.bfloat16))


def _angles_in_storage(x: Tensor, positions: Tensor, width: int, base: float) -> Tensor:
    turns = right_frequencies(x, positions, width, base)
    return products(x, positions, turns).to(x.dtype)


def _short_circle(x: Tensor, positions: Tensor, width: int, base: float) -> Tensor:
    turning = products(x, positions, right_frequencies(x, positions, width, base))
    return turning - (turning / (2.0 * math.pi)).round() * 6.2832


def _over_model_width(x: Tensor, positions: Tensor, width: int, base: float) -> Tensor:
    model = width * x.shape[1]
    return products(x, positions, right_frequencies(x, positions, model, base)[: width // 2])


def _over_head_width(x: Tensor, positions: Tensor, width: int, base: float) -> Tensor:
    turns = right_frequencies(x, positions, x.shape[-1], base)
    return products(x, positions, turns[: width // 2])


def _base_ignored(x: Tensor, positions: Tensor, width: int, base: float) -> Tensor:
    return products(x, positions, right_frequencies(x, positions, width, 10000.0))


FAULTS = (
    Fault(
        id="rope.positions_in_bfloat16",
        component="rope",
        kind="K12",
        reason="stores positions in bfloat16, where neighbours beyond 256 become the same number; "
        "positions are integers or float32",
        remedy="Keep positions as integers until they meet the frequencies in float32.",
        law="rope.matches_oracle",
        functions=at_positions(lambda positions: positions.to(torch.bfloat16)),
        report="nkalyanv99/UNI-D2 #6",
    ),
    Fault(
        id="rope.positions_in_float16",
        component="rope",
        kind="K12",
        reason="stores positions in float16, where neighbours beyond 2048 become the same number; "
        "positions are integers or float32",
        remedy="Keep positions as integers until they meet the frequencies in float32.",
        law="rope.relative_displacement",
        functions=at_positions(lambda positions: positions.to(torch.float16)),
    ),
    Fault(
        id="rope.positions_in_int16",
        component="rope",
        kind="K12",
        reason="stores positions in sixteen bits, so that they wrap round to negative ones from "
        "32768 on",
        remedy="Keep positions in 32 bits or more.",
        law="rope.matches_oracle",
        functions=at_positions(lambda positions: positions.to(torch.int16)),
    ),
    Fault(
        id="rope.frequencies_in_bfloat16",
        component="rope",
        kind="K12",
        reason="rounds the frequencies to bfloat16, as a cast of the whole model does to a buffer, "
        "so that the error of the angle grows with the position",
        remedy="Keep the frequencies in float32 whatever the model is cast to.",
        law="rope.matches_oracle",
        functions=by_angles(_bfloat16_frequencies),
        report="huggingface/transformers #25681",
    ),
    Fault(
        id="rope.angles_in_storage",
        component="rope",
        kind="K12",
        reason="rounds the angle to half precision before sine and cosine; only their values may "
        "be rounded",
        remedy="Form angles in float32, take sine and cosine, and then cast.",
        law="rope.matches_oracle",
        functions=by_angles(_angles_in_storage),
        report="EleutherAI/gpt-neox #1003",
        dtypes=("bfloat16", "float16"),
    ),
    Fault(
        id="rope.short_circle",
        component="rope",
        kind="K12",
        reason="reduces large angles by multiples of 6.2832 in place of 2 pi, so that every turn "
        "adds an error of 0.00001",
        remedy="Use a sine with a full range reduction, or reduce with two or three constants.",
        law="rope.matches_oracle",
        functions=by_angles(_short_circle),
    ),
    Fault(
        id="rope.exponent_without_two",
        component="rope",
        kind="K11",
        reason="uses base ** (-i/d) for pair i; the exponent is -2i/d",
        remedy="Count channels, not pairs, in the exponent: arange(0, d, 2) / d.",
        law="rope.matches_oracle",
        functions=with_exponents(lambda pairs, width: pairs / width),
    ),
    Fault(
        id="rope.exponent_odd",
        component="rope",
        kind="K11",
        reason="uses base ** (-(2i+1)/d) for pair i; the first pair turns by the position itself",
        remedy="Start the exponents at zero.",
        law="rope.matches_oracle",
        functions=with_exponents(lambda pairs, width: (2 * pairs + 1) / width),
    ),
    Fault(
        id="rope.exponent_reaches_one",
        component="rope",
        kind="K11",
        reason="spreads the exponents from 0 to 1 with both ends; the last one is (d-2)/d",
        remedy="Divide by the number of pairs, not by that number less one.",
        law="rope.matches_oracle",
        functions=with_exponents(lambda pairs, width: pairs / max(width // 2 - 1, 1)),
    ),
    Fault(
        id="rope.integer_division",
        component="rope",
        kind="K11",
        reason="divides the channel by the width as integers, so that every exponent is zero and "
        "all pairs turn alike",
        remedy="Divide as floating-point numbers.",
        law="rope.matches_oracle",
        functions=with_exponents(lambda pairs, width: pairs.mul(2).div(width).floor()),
        report="xlite-dev/LeetCUDA #289",
    ),
    Fault(
        id="rope.exponent_over_model_width",
        component="rope",
        kind="K11",
        reason="divides by the width of all heads together; the exponent counts within one head",
        remedy="Divide by the number of channels of a head that turn.",
        law="rope.matches_oracle",
        functions=by_angles(_over_model_width),
    ),
    Fault(
        id="rope.frequencies_of_head_width",
        component="rope",
        kind="K11",
        reason="with a part of the channels turning, divides by the whole head's width; the "
        "frequencies are those of the turning width",
        remedy="Divide the exponent by rotary_dim.",
        law="rope.matches_oracle",
        functions=by_angles(_over_head_width),
        report="pie-project/pie #602",
    ),
    Fault(
        id="rope.base_ignored",
        component="rope",
        kind="K29",
        reason="accepts `base` and uses 10000 whatever it says",
        remedy="Hand the base on to the frequencies, or refuse other values.",
        law="rope.matches_oracle",
        functions=by_angles(_base_ignored),
    ),
)
