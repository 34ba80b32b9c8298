"""Laws of sinusoidal on functions made for them: right ones in other styles, and wrong ones that no
fault of the catalogue shows."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import attnspec
from attnspec.driving import Effort, outcome_of, scope_of
from attnspec.impls.sinusoidal import sinusoidal, sinusoidal_complex, sinusoidal_concatenated
from attnspec.judging import judged
from attnspec.loading import Loaded, load
from attnspec.oracle.inputs import families, sampled
from attnspec.oracle.law import Inputs
from attnspec.oracle.sinusoidal import LAWS
from attnspec.outcome import Outcome
from attnspec.shares import untested
from attnspec.subject import Subject
from tests.rejecting import rejections

ROWS = {row.id.removeprefix("sinusoidal."): row for row in LAWS}
DTYPES = ("float64", "float32", "bfloat16", "float16")
REFERENCES = (sinusoidal, sinusoidal_concatenated, sinusoidal_complex)


def target(function: Callable[..., Any], **declared: Any) -> Loaded:
    declaration = attnspec.Target(**{"name": "mine", **declared})
    return load(SimpleNamespace(TARGET=declaration, sinusoidal=function))


def outcome(name: str, loaded: Loaded, dtype: str = "float32") -> Outcome:
    return outcome_of(ROWS[name], loaded, dtype, "cpu", Effort(tier="smoke"))


def draws(family: str, many: int = 200) -> list[Inputs]:
    scope = scope_of(Subject(target(sinusoidal), "sinusoidal", "float32"))
    return list(sampled(family, scope, many, 7))


# right ones


def by_division(positions: Tensor, dim: int, *, base: float = 10000.0) -> Tensor:
    """Wavelengths, by which positions are divided, one row after the other."""
    wavelengths = torch.tensor([base ** (2 * pair / dim) for pair in range(dim // 2)])
    rows = torch.zeros(len(positions), dim)
    for place, position in enumerate(positions):
        rows[place, 0::2] = torch.sin(position / wavelengths)
        rows[place, 1::2] = torch.cos(position / wavelengths)
    return rows


def by_exponential(
    positions: Tensor, dim: int, *, dtype: torch.dtype | None = None, device: Any = None
) -> Tensor:
    """The table of many tutorials, up to the largest position."""
    if not len(positions):
        return torch.zeros(0, dim, dtype=dtype, device=device)
    steps = torch.arange(0, dim, 2).float()
    turns = torch.exp(steps * (-math.log(10000.0) / dim))
    first = int(positions.min())
    every = torch.arange(first, int(positions.max()) + 1).float().unsqueeze(1)
    table = torch.zeros(len(every), dim)
    table[:, 0::2], table[:, 1::2] = torch.sin(every * turns), torch.cos(every * turns)
    return table[positions - first].to(dtype or torch.float32)


def in_numpy(positions: Any, dim: int, *, base: float = 10000.0, dtype: Any = None) -> Any:
    """A sine of every channel, moved on by a quarter turn for cosines, in float64."""
    channels = np.arange(dim)
    angles = positions[:, None] * float(base) ** (-(channels // 2) * 2.0 / dim)
    return np.sin(angles + channels % 2 * (np.pi / 2.0)).astype(dtype or np.float32)


def unlike_others(positions: Any, dim: int, **options: Any) -> Any:
    """On DLPack objects, of which torch makes tensors of its own."""
    options.pop("device", None)
    if isinstance(name := options.pop("dtype", None), str):
        options["dtype"] = getattr(torch, name)
    return sinusoidal(torch.utils.dlpack.from_dlpack(positions), dim, **options)


RIGHT = {
    "sinusoidal": target(sinusoidal),
    "complex": target(sinusoidal_complex, precision="strict"),
    "concatenated": target(
        sinusoidal_concatenated, conventions={"sinusoidal.layout": "concatenated"}
    ),
    "int32": target(sinusoidal, index_dtype="int32"),
    "division": target(by_division, limits={"n": (0, 20)}),
    "exponential": target(by_exponential, precision={"float64": {"tables": "float32"}}),
    "numpy": target(in_numpy, arrays="numpy"),
    "dlpack": target(unlike_others, arrays="dlpack"),
    "narrow": target(sinusoidal, limits={"dim": {2}, "n": (1, 7, 3)}),
    "wide": target(sinusoidal, limits={"dim": (512, 1024, 512), "n": {33}}),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", RIGHT)
def test_right_ones_keep_every_law(name: str, dtype: str) -> None:
    assert rejections(Subject(RIGHT[name], "sinusoidal", dtype), 12, seed=3) == {}


def test_what_limits_leave_out_is_said() -> None:
    assert outcome("empty_batch", RIGHT["narrow"]).reason.startswith("no legal call")
    # twice as many channels are never legal
    assert outcome("every_other_pair", RIGHT["narrow"]).status == "not-tested"


# wrong ones


def turned(positions: Tensor, dim: int, base: float) -> Tensor:
    pairs = torch.arange(dim // 2)
    return positions.float().unsqueeze(1) * base ** (-2.0 * pairs / dim)


def joined(sines: Tensor, cosines: Tensor) -> Tensor:
    return torch.stack((sines, cosines), -1).flatten(1)


def in_degrees(positions: Tensor, dim: int, *, base: float = 10000.0) -> Tensor:
    angles = turned(positions, dim, base) * (math.pi / 180.0)
    return joined(angles.sin(), angles.cos())


def frequency_outside(positions: Tensor, dim: int, *, base: float = 10000.0) -> Tensor:
    turns = turned(positions[:1] * 0 + 1, dim, base)
    there = positions.float().unsqueeze(1)
    return joined(there.sin() * turns, there.cos() * turns)


def cosine_of_next_pair(positions: Tensor, dim: int, *, base: float = 10000.0) -> Tensor:
    angles = turned(positions, dim, base)
    return joined(angles.sin(), angles.roll(-1, 1).cos())


def channels_reversed(positions: Tensor, dim: int, *, base: float = 10000.0) -> Tensor:
    angles = turned(positions, dim, base).flip(1)
    return joined(angles.sin(), angles.cos())


def stretched(positions: Tensor, dim: int, *, base: float = 10000.0) -> Tensor:
    """Positions beyond a trained length are squeezed into it, as interpolation does."""
    factor = max(1.0, float(positions.max()) / 1024.0) if len(positions) else 1.0
    angles = turned(positions, dim, base) / factor
    return joined(angles.sin(), angles.cos())


def one_row_early(positions: Tensor, dim: int, *, base: float = 10000.0) -> Tensor:
    """Its last row is that of the position before."""
    angles = turned(positions, dim, base)
    angles = torch.cat((angles[:-1], turned(positions[-1:] - 1, dim, base)))
    return joined(angles.sin(), angles.cos())


def unit_length(positions: Tensor, dim: int, *, base: float = 10000.0) -> Tensor:
    rows = sinusoidal(positions, dim, base=base)
    return rows / rows.square().sum(1, keepdim=True).sqrt()


@pytest.mark.parametrize(
    ("wrong", "law"),
    [
        (in_degrees, "frequencies_read_off"),
        (frequency_outside, "unit_pairs"),
        (cosine_of_next_pair, "unit_pairs"),
        (channels_reversed, "frequencies_read_off"),
        (stretched, "step_is_constant"),
        (one_row_early, "permuted_positions"),
        (unit_length, "product_of_distance"),
    ],
    ids=lambda given: given if isinstance(given, str) else given.__name__,
)
def test_wrong_ones_are_rejected(wrong: Callable[..., Tensor], law: str) -> None:
    mine, named = Subject(target(wrong), "sinusoidal", "float32"), {law, "matches_oracle"}
    laws = [row for name, row in ROWS.items() if name in named]
    found = rejections(mine, 25, seed=3, laws=laws)
    assert found.keys() == named
    assert min(found.values()) >= 3


def test_the_other_layout_is_named() -> None:
    found = outcome("matches_oracle", target(sinusoidal_concatenated))
    assert found.status == "fail"
    assert found.diagnosis[0] == "convention:sinusoidal.layout=concatenated"
    assert 'declare conventions={"sinusoidal.layout": "concatenated"}' in found.text


def test_a_declared_layout_is_held() -> None:
    declared = target(sinusoidal, conventions={"sinusoidal.layout": "concatenated"})
    found = outcome("unit_pairs", declared)
    assert found.diagnosis[0] == "convention:sinusoidal.layout=interleaved"


def test_half_precision_is_blamed_for_equal_rows_only_where_it_must_be() -> None:
    """1 and 711 have equal rows of two channels in bfloat16, 256 and 257 have not."""
    loaded = target(sinusoidal, dtypes=("bfloat16",))
    mine = Subject(loaded, "sinusoidal", "bfloat16")
    asked = {"dtype": "bfloat16"}

    def rows(*positions: int) -> Inputs:
        return Inputs("sinusoidal", "bfloat16", {"positions": np.array(positions)}, asked,
                      numbers={"dim": 2})  # fmt: skip

    one, other = mine(rows(1, 711))
    assert (one == other).all()
    assert not judged(ROWS["distinct_positions"], mine, rows(1, 711)).fails
    clamped = target(lambda positions, *rest, **more: sinusoidal(positions.clamp(max=256), *rest,
                                                                 **more))  # fmt: skip
    wrong = Subject(clamped, "sinusoidal", "bfloat16")
    assert judged(ROWS["distinct_positions"], wrong, rows(256, 257)).fails


# inputs


def test_families_are_what_they_say() -> None:
    assert set(families("sinusoidal")) == {row.inputs for row in LAWS}
    for inputs in draws("sinusoidal_pairs"):
        positions = inputs.arrays["positions"]
        assert len(positions) > 1
        assert (positions < 2**16).all()
    for inputs in draws("sinusoidal_zero"):
        assert not inputs.arrays["positions"].any()
    for inputs in draws("sinusoidal_first"):
        assert set(inputs.arrays["positions"].tolist()) <= {1, 2}
    for inputs in draws("sinusoidal_distinct"):
        positions = inputs.arrays["positions"]
        assert len(set(positions.tolist())) == len(positions) > 1
    for inputs in draws("sinusoidal_empty"):
        assert not inputs.arrays["positions"].size


def test_positions_and_widths_are_drawn_widely() -> None:
    every = draws("sinusoidal", 1000)
    positions = np.concatenate([inputs.arrays["positions"] for inputs in every])
    for edge in (255, 256, 257, 258, 2047, 2048, 2049, 65535, 65536, 65537, 131071):
        assert sum(edge in inputs.arrays["positions"] for inputs in every) >= 3, edge
    assert positions.min() == 0
    assert 2**19 < positions.max() <= 2**20
    dims = [inputs.numbers["dim"] for inputs in every]
    assert min(dims) == 2
    assert max(dims) == 256
    # an odd number of pairs shows what even ones hide
    assert sum(dim % 4 == 2 and dim > 2 for dim in dims) > 200
    assert sum("base" in inputs.options for inputs in every) > 400


# references


@pytest.mark.parametrize("reference", REFERENCES)
def test_references_refuse_what_they_cannot_read(reference: Callable[..., Tensor]) -> None:
    with pytest.raises(ValueError, match="one axis"):
        reference(torch.zeros(1, 2, dtype=torch.int64), 4)
    for dim in (0, 3, -2):
        with pytest.raises(ValueError, match="even number"):
            reference(torch.arange(2), dim)


@pytest.mark.parametrize("reference", REFERENCES)
def test_references_stay_on_the_device_of_the_call(reference: Callable[..., Tensor]) -> None:
    there = torch.arange(3, device="meta")
    assert reference(there, 4).device.type == "meta"
    assert reference(torch.arange(3), 4, device="meta").device.type == "meta"
    assert reference(torch.arange(3), 4, dtype=torch.float16).dtype == torch.float16
    assert reference(torch.arange(0), 4).shape == (0, 4)


def test_reference_on_numbers_written_out() -> None:
    rows = sinusoidal(torch.tensor([0, 3]), 4, base=16.0, dtype=torch.float64)
    wanted = [[0.0, 1.0, 0.0, 1.0], [math.sin(3), math.cos(3), math.sin(0.75), math.cos(0.75)]]
    torch.testing.assert_close(rows, torch.tensor(wanted, dtype=torch.float64))


def test_gradients_of_what_has_none_are_not_missed() -> None:
    found = untested(RIGHT["numpy"], (), ("sinusoidal",))
    assert [row.option for row in found if row.component == "sinusoidal"] == ["device"]
