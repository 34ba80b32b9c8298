"""RoPE that joins, turns or leaves alone the wrong channels, or rounds them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from attnspec.impls import rope as right
from attnspec.impls.faults.fault import Fault
from attnspec.impls.rope import turned, turned_halves, turning_angles

Functions = Callable[[], Mapping[str, Callable[..., Any]]]

TILE = 16


def by_rotation(rotation: Callable[[Tensor, Tensor], Tensor]) -> Functions:
    """A RoPE that does something else with `x` and the right angles."""

    def rope(
        x: Tensor, positions: Tensor, *, base: float = 10000.0, rotary_dim: int | None = None
    ) -> Tensor:
        return rotation(x, turning_angles(x, positions, base, rotary_dim))

    return lambda: {"rope": rope}


def rotated(x: Tensor, turning: Tensor) -> Tensor:
    """What a right rotation makes of them."""
    return turned(x, turning.cos(), turning.sin())


def without_last_tile(x: Tensor, result: Tensor) -> Tensor:
    """The result, and `x` itself for the tokens past the last full tile."""
    length = x.shape[-2]
    full = length // TILE * TILE or length
    return torch.cat((result[..., :full, :], x[..., full:, :]), -2)


def _by_pairs(x: Tensor, pairs: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]) -> Tensor:
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    return torch.stack(pairs(wide[..., 0::2], wide[..., 1::2]), -1).flatten(-2).to(x.dtype)


def _tail_kept(x: Tensor, turning: Tensor, front: Callable[[Tensor], Tensor]) -> Tensor:
    width = 2 * turning.shape[-1]
    return torch.cat((front(x[..., :width]), x[..., width:]), -1)


def _half_table_on_pairs(x: Tensor, turning: Tensor) -> Tensor:
    doubled = torch.cat((turning, turning), -1).unsqueeze(-3)
    first, second = doubled[..., 0::2], doubled[..., 1::2]
    return _tail_kept(
        x,
        turning,
        lambda front: _by_pairs(
            front,
            lambda a, b: (
                a * first.cos() - b * first.sin(),
                a * second.sin() + b * second.cos(),
            ),
        ),
    )


def _pair_table_on_halves(x: Tensor, turning: Tensor) -> Tensor:
    width = 2 * turning.shape[-1]
    doubled = turning.repeat_interleave(2, -1).unsqueeze(-3)
    wide = x[..., :width].to(doubled.dtype)
    partner = torch.cat((-wide[..., width // 2 :], wide[..., : width // 2]), -1)
    front = wide * doubled.cos() + partner * doubled.sin()
    return torch.cat((front.to(x.dtype), x[..., width:]), -1)


def _sine_sign(x: Tensor, turning: Tensor) -> Tensor:
    cos, sin = turning.cos().unsqueeze(-3), turning.sin().unsqueeze(-3)
    return _tail_kept(
        x,
        turning,
        lambda front: _by_pairs(front, lambda a, b: (a * cos + b * sin, a * sin + b * cos)),
    )


def _second_from_turned(x: Tensor, turning: Tensor) -> Tensor:
    cos, sin = turning.cos().unsqueeze(-3), turning.sin().unsqueeze(-3)

    def pairs(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        a = a * cos - b * sin
        return a, a * sin + b * cos

    return _tail_kept(x, turning, lambda front: _by_pairs(front, pairs))


def _last_pair_left_out(x: Tensor, turning: Tensor) -> Tensor:
    return rotated(x, turning[..., :-1])


def _rotary_dim_ignored(
    x: Tensor, positions: Tensor, *, base: float = 10000.0, rotary_dim: int | None = None
) -> Tensor:
    return right.rope(x, positions, base=base)


def _tail_in_bfloat16(x: Tensor, turning: Tensor) -> Tensor:
    width = 2 * turning.shape[-1]
    tail = x[..., width:].to(torch.bfloat16).to(x.dtype)
    return torch.cat((rotated(x[..., :width], turning), tail), -1)


def _amplitude(x: Tensor, turning: Tensor) -> Tensor:
    factor = 1.1386  # 0.1 ln 4 + 1, that of a context four times as long
    return turned(x, factor * turning.cos(), factor * turning.sin())


def _tables_in_storage(x: Tensor, turning: Tensor) -> Tensor:
    return turned(x, turning.cos().to(x.dtype), turning.sin().to(x.dtype))


def _float32_inside(x: Tensor, turning: Tensor) -> Tensor:
    width = 2 * turning.shape[-1]
    front = rotated(x[..., :width].to(torch.float32), turning.to(torch.float32))
    return torch.cat((front.to(x.dtype), x[..., width:]), -1)


def _wide_heads_cut(x: Tensor, angles: Tensor) -> Tensor:
    return torch.cat((rotated(x, angles)[..., :128], x[..., 128:]), -1)


FAULTS = (
    Fault(
        id="rope.half_layout",
        component="rope",
        kind="K10",
        reason="joins channels i and i + d/2, which is the half-split layout, without declaring "
        "it; weights trained with adjacent pairs give other scores",
        remedy="Join channels 2i and 2i + 1, or declare the layout.",
        law="rope.basis_planes",
        functions=by_rotation(lambda x, angles: turned_halves(x, angles.cos(), angles.sin())),
        report="huggingface/transformers #39687",
    ),
    Fault(
        id="rope.half_table_on_pairs",
        component="rope",
        kind="K10",
        reason="joins adjacent channels, but lays the angles out for halves, so that the two "
        "channels of a pair turn by different angles",
        remedy="Repeat each angle twice in a row for adjacent pairs.",
        law="rope.pair_norms",
        functions=by_rotation(_half_table_on_pairs),
    ),
    Fault(
        id="rope.pair_table_on_halves",
        component="rope",
        kind="K10",
        reason="lays the angles out for adjacent pairs, but joins channels half the width apart, "
        "so that the two channels of a pair turn by different angles",
        remedy="Join adjacent channels, or lay the angles out for halves and declare the layout.",
        law="rope.basis_planes",
        functions=by_rotation(_pair_table_on_halves),
        report="raiyanyahya/how-to-train-your-gpt #7",
    ),
    Fault(
        id="rope.sine_sign",
        component="rope",
        kind="K10",
        reason="adds both sine terms; the first channel of a pair takes its sine term with a minus",
        remedy="Negate the sine term of the first channel.",
        law="rope.pair_norms",
        functions=by_rotation(_sine_sign),
    ),
    Fault(
        id="rope.backward",
        component="rope",
        kind="K10",
        reason="turns by the negative angle without declaring it",
        remedy="Exchange the signs of the two sine terms, or declare the direction.",
        law="rope.matches_oracle",
        functions=by_rotation(lambda x, angles: rotated(x, -angles)),
    ),
    Fault(
        id="rope.second_from_turned_first",
        component="rope",
        kind="K20",
        reason="overwrites the first channel of a pair before it computes the second from it",
        remedy="Read both channels before writing either.",
        law="rope.pair_norms",
        functions=by_rotation(_second_from_turned),
    ),
    Fault(
        id="rope.last_pair_left_out",
        component="rope",
        kind="K25",
        reason="stops one pair before the end, which stays unturned",
        remedy="Let the loop run over all d/2 pairs.",
        law="rope.matches_oracle",
        functions=by_rotation(_last_pair_left_out),
    ),
    Fault(
        id="rope.wide_heads_cut",
        component="rope",
        kind="K25",
        reason="has room for heads of 128 channels; those beyond stay unturned",
        remedy="Loop over the channels, or refuse heads that are wider.",
        law="rope.matches_oracle",
        functions=by_rotation(_wide_heads_cut),
    ),
    Fault(
        id="rope.rotary_dim_ignored",
        component="rope",
        kind="K11",
        reason="accepts rotary_dim and turns the whole head",
        remedy="Hand rotary_dim on to where the channels are split.",
        law="rope.untouched_channels",
        functions=lambda: {"rope": _rotary_dim_ignored},
        report="AI-Hypercomputer/maxtext #4616",
    ),
    Fault(
        id="rope.tail_in_bfloat16",
        component="rope",
        kind="K13",
        reason="rounds the channels that don't turn to bfloat16; they come back bit by bit",
        remedy="Copy those channels in their own dtype.",
        law="rope.untouched_channels",
        functions=by_rotation(_tail_in_bfloat16),
        dtypes=("float64", "float32", "float16"),
    ),
    Fault(
        id="rope.channels_clipped",
        component="rope",
        kind="K20",
        reason="clips the channels to -8..8 on the way; a rotation is linear",
        remedy="Clip outside of the rotation, where it's visible.",
        law="rope.linearity",
        functions=by_rotation(
            lambda x, angles: _tail_kept(
                x, angles, lambda front: rotated(front.clamp(-8, 8), angles)
            )
        ),
    ),
    Fault(
        id="rope.amplitude",
        component="rope",
        kind="K05",
        reason="multiplies sine and cosine by the attention factor of a stretched context; a "
        "rotation keeps norms",
        remedy="Put the factor into the attention scale, or set it to one.",
        law="rope.pair_norms",
        functions=by_rotation(_amplitude),
    ),
    Fault(
        id="rope.partial_tile_of_tokens",
        component="rope",
        kind="K25",
        reason="turns full tiles of sixteen tokens only; those past the last one stay as they are",
        remedy="Round the number of tiles up, and mask the tokens beyond the end.",
        law="rope.matches_oracle",
        functions=by_rotation(lambda x, angles: without_last_tile(x, rotated(x, angles))),
    ),
    Fault(
        id="rope.tables_in_storage",
        component="rope",
        kind="K13",
        reason="rounds sine and cosine to half precision, although it promises them in float32",
        remedy="Multiply by float32 tables, or drop the promise.",
        law="rope.matches_oracle",
        functions=by_rotation(_tables_in_storage),
        # where products may be rounded too, no one can tell which of them was
        precision={"tables": "float32", "activations": "float32"},
        dtypes=("bfloat16", "float16"),
    ),
    Fault(
        id="rope.float32_inside",
        component="rope",
        kind="K13",
        reason="turns float64 channels in float32; even at position 0 they come back changed",
        remedy="Rotate in the wider of float32 and the input's dtype.",
        law="rope.position_zero_is_identity",
        functions=by_rotation(_float32_inside),
        dtypes=("float64",),
    ),
)
