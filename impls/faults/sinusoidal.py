"""Sinusoidal positions by another formula: exponents, bases, channels."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from attnspec.impls.faults.fault import Fault
from attnspec.impls.sinusoidal import encoding_angles

Functions = Callable[[], Mapping[str, Callable[..., Any]]]
Joined = Callable[[Tensor, Tensor], Tensor]


def by_turns(sines: Tensor, cosines: Tensor) -> Tensor:
    """Sines and cosines in the places where they belong."""
    return torch.stack((sines, cosines), dim=-1).flatten(-2)


def by_table(
    angles: Callable[[Tensor, int, float, torch.dtype], tuple[Tensor, Tensor]],
    joined: Joined = by_turns,
) -> Functions:
    """Encodings whose angles, of sines and of cosines, come from positions, dim, base and the
    dtype of the result."""

    def sinusoidal(
        positions: Tensor,
        dim: int,
        *,
        base: float = 10000.0,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> Tensor:
        there = positions if device is None else positions.to(device)
        asked = dtype or torch.float32
        of_sine, of_cosine = angles(there, dim, base, asked)
        return joined(of_sine.sin(), of_cosine.cos()).to(asked)

    return lambda: {"sinusoidal": sinusoidal}


def joined_by(joined: Joined) -> Functions:
    """Encodings with right angles, made of sines and cosines in a way of their own."""
    return by_table(lambda *call: (angle := right_angles(*call), angle), joined)


def right_angles(positions: Tensor, dim: int, base: float, dtype: torch.dtype) -> Tensor:
    """The angles as they should be."""
    return encoding_angles(positions, dim, base, dtype=dtype)


def with_frequencies(turns: Callable[[Tensor, int, float], Tensor]) -> Functions:
    """Encodings with frequencies from the numbers of the pairs, dim and base."""

    def angles(
        positions: Tensor, dim: int, base: float, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        wide = torch.promote_types(dtype, torch.float32)
        pairs = torch.arange(dim // 2, dtype=wide, device=positions.device)
        angle = positions.to(wide).unsqueeze(-1) * turns(pairs, dim, base).to(wide)
        return angle, angle

    return by_table(angles)


def with_exponents(*exponents: Callable[[Tensor, int], Tensor]) -> Functions:
    """Encodings with powers of the base to minus the exponents, of sines and then of cosines."""

    def angles(
        positions: Tensor, dim: int, base: float, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        wide = torch.promote_types(dtype, torch.float32)
        pairs = torch.arange(dim // 2, dtype=wide, device=positions.device)
        there = positions.to(wide).unsqueeze(-1)
        each = [there * torch.pow(base, -exponent(pairs, dim)) for exponent in exponents]
        return each[0], each[-1]

    return by_table(angles)


def _evenly_spaced(pairs: Tensor, dim: int, base: float) -> Tensor:
    return 1.0 - pairs * (1.0 - 1.0 / base) * (2.0 / dim)


def _short_circle(
    positions: Tensor, dim: int, base: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    angle = right_angles(positions, dim, base, dtype)
    angle = angle - (angle / (2.0 * math.pi)).round() * 6.2832
    return angle, angle


def _base_ignored(
    positions: Tensor, dim: int, _base: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    angle = right_angles(positions, dim, 10000.0, dtype)
    return angle, angle


def _without_last_pair(sines: Tensor, cosines: Tensor) -> Tensor:
    last = torch.arange(sines.shape[-1], device=sines.device) == sines.shape[-1] - 1
    return by_turns(sines.masked_fill(last, 0.0), cosines.masked_fill(last, 0.0))


def _partial_tile(sines: Tensor, cosines: Tensor) -> Tensor:
    rows = torch.arange(len(sines), device=sines.device)
    tail = (rows >= len(sines) // 4 * 4).unsqueeze(-1)
    return by_turns(sines, cosines).masked_fill(tail, 0.0)


def _scaled(sines: Tensor, cosines: Tensor) -> Tensor:
    return by_turns(sines, cosines) / math.sqrt(2 * sines.shape[-1])


FAULTS = (
    Fault(
        id="sinusoidal.exponent_without_two",
        component="sinusoidal",
        kind="K18",
        reason="uses base ** (-i/dim) for pair i; the exponent is -2i/dim",
        remedy="Count channels, not pairs, in the exponent: arange(0, dim, 2) / dim.",
        law="sinusoidal.frequencies_read_off",
        functions=with_exponents(lambda pairs, dim: pairs / dim),
    ),
    Fault(
        id="sinusoidal.exponent_doubled",
        component="sinusoidal",
        kind="K18",
        reason="walks over even channels c and doubles them once more, 2c/dim for the sine and "
        "2(c+1)/dim for the cosine; both exponents are c/dim",
        remedy="Double the number of the pair, or count in channels, not both; and use one "
        "frequency for both channels.",
        law="sinusoidal.unit_pairs",
        functions=with_exponents(
            lambda pairs, dim: 4 * pairs / dim, lambda pairs, dim: (4 * pairs + 2) / dim
        ),
        report="SamLynnEvans/Transformer #25",
    ),
    Fault(
        id="sinusoidal.cosine_a_channel_on",
        component="sinusoidal",
        kind="K18",
        reason="takes each channel's own number as exponent, so that a cosine has (2i+1)/dim where "
        "its sine has 2i/dim",
        remedy="Use one frequency for both channels of a pair.",
        law="sinusoidal.unit_pairs",
        functions=with_exponents(
            lambda pairs, dim: 2 * pairs / dim, lambda pairs, dim: (2 * pairs + 1) / dim
        ),
        report="maxjcohen/transformer #62",
    ),
    Fault(
        id="sinusoidal.exponent_odd",
        component="sinusoidal",
        kind="K18",
        reason="uses base ** (-(2i+1)/dim) for pair i; the first pair turns by the position itself",
        remedy="Start the exponents at zero.",
        law="sinusoidal.frequencies_read_off",
        functions=with_exponents(lambda pairs, dim: (2 * pairs + 1) / dim),
    ),
    Fault(
        id="sinusoidal.exponent_reaches_one",
        component="sinusoidal",
        kind="K18",
        reason="spreads the exponents from 0 to 1 with both ends, i / (dim/2 - 1); the last one is "
        "(dim-2)/dim",
        remedy="Divide by the number of pairs, not by that number less one.",
        law="sinusoidal.every_other_pair",
        functions=with_exponents(lambda pairs, dim: pairs / max(dim // 2 - 1, 1)),
    ),
    Fault(
        id="sinusoidal.integer_division",
        component="sinusoidal",
        kind="K18",
        reason="divides the channel by the width as integers, so that every exponent is zero and "
        "all pairs turn alike",
        remedy="Divide as floating-point numbers.",
        law="sinusoidal.frequencies_read_off",
        functions=with_exponents(lambda pairs, dim: pairs.mul(2).div(dim).floor()),
    ),
    Fault(
        id="sinusoidal.exponent_positive",
        component="sinusoidal",
        kind="K18",
        reason="multiplies by base ** (2i/dim) in place of dividing, so that frequencies rise with "
        "the pair",
        remedy="Divide the position by the power, or negate the exponent.",
        law="sinusoidal.nearer_is_more_similar",
        functions=with_exponents(lambda pairs, dim: -2 * pairs / dim),
    ),
    Fault(
        id="sinusoidal.frequencies_evenly_spaced",
        component="sinusoidal",
        kind="K18",
        reason="spaces the frequencies evenly from 1 down to 1/base; they are a geometric sequence",
        remedy="Space the exponents evenly, and take powers.",
        law="sinusoidal.frequencies_read_off",
        functions=with_frequencies(_evenly_spaced),
    ),
    Fault(
        id="sinusoidal.base_ignored",
        component="sinusoidal",
        kind="K29",
        reason="accepts `base` and uses 10000 whatever it says",
        remedy="Hand the base on to the frequencies, or do not accept it.",
        law="sinusoidal.matches_oracle",
        functions=by_table(_base_ignored),
    ),
    Fault(
        id="sinusoidal.short_circle",
        component="sinusoidal",
        kind="K12",
        reason="reduces large angles by multiples of 6.2832 in place of 2 pi, so that every turn "
        "adds an error of 0.00001",
        remedy="Use a sine with a full range reduction, or reduce with two or three constants.",
        law="sinusoidal.matches_oracle",
        functions=by_table(_short_circle),
    ),
    Fault(
        id="sinusoidal.sine_negated",
        component="sinusoidal",
        kind="K18",
        reason="takes the sine of minus the angle: the exponent's sign has reached the position",
        remedy="Multiply positions by positive frequencies.",
        law="sinusoidal.matches_oracle",
        functions=joined_by(lambda sines, cosines: by_turns(-sines, cosines)),
    ),
    Fault(
        id="sinusoidal.sine_and_cosine_exchanged",
        component="sinusoidal",
        kind="K18",
        reason="has the cosine first in each pair; the sine is in the even channel",
        remedy="Put the sine first.",
        law="sinusoidal.position_zero",
        functions=joined_by(lambda sines, cosines: by_turns(cosines, sines)),
    ),
    Fault(
        id="sinusoidal.concatenated_layout",
        component="sinusoidal",
        kind="K18",
        reason="puts all sines first and then all cosines, which is another convention than the "
        "declared one",
        remedy='Declare conventions={"sinusoidal.layout": "concatenated"}, or interleave the two.',
        law="sinusoidal.unit_pairs",
        functions=joined_by(lambda sines, cosines: torch.cat((sines, cosines), dim=-1)),
    ),
    Fault(
        id="sinusoidal.last_pair_left_out",
        component="sinusoidal",
        kind="K25",
        reason="stops one pair early, so that the last two channels stay zero",
        remedy="Fill all dim/2 pairs.",
        law="sinusoidal.unit_pairs",
        functions=joined_by(_without_last_pair),
    ),
    Fault(
        id="sinusoidal.partial_tile_of_rows",
        component="sinusoidal",
        kind="K25",
        reason="fills whole tiles of four rows only, so that the rest stays zero",
        remedy="Launch one more tile, and mask what is beyond the end.",
        law="sinusoidal.unit_pairs",
        functions=joined_by(_partial_tile),
    ),
    Fault(
        id="sinusoidal.scaled_by_width",
        component="sinusoidal",
        kind="K18",
        reason="divides the rows by sqrt(dim); a row has the squared length dim/2",
        remedy="Return sines and cosines as they are, and scale where they are added.",
        law="sinusoidal.product_of_distance",
        functions=joined_by(_scaled),
    ),
)
