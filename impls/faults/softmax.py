"""Softmax with wrong weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from attnspec.impls import softmax as right
from attnspec.impls.faults.fault import Fault

Functions = Callable[[], Mapping[str, Callable[..., Any]]]
LOG2_E = math.log2(math.e)
"""By which exponents to base two are the larger."""


def by_rows(weights: Callable[[Tensor], Tensor]) -> Functions:
    """A softmax whose rows, along the last axis and in the dtype of the sum, get `weights`."""

    def softmax(x: Tensor, *, dim: int = -1) -> Tensor:
        if x.numel() == 0:
            return x.clone()
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        return weights(wide.movedim(dim, -1)).movedim(-1, dim).to(x.dtype)

    return lambda: {"softmax": softmax}


def by_call(softmax: Callable[..., Tensor]) -> Functions:
    """A softmax without memory."""
    return lambda: {"softmax": softmax}


def shifted(rows: Tensor) -> Tensor:
    """Logits below the maximum of their row."""
    return rows - rows.detach().amax(-1, keepdim=True)


def normalised(numerators: Tensor) -> Tensor:
    """Numerators over their row's sum."""
    return numerators / numerators.sum(-1, keepdim=True)


def _maximum_of_all_rows(rows: Tensor) -> Tensor:
    return normalised((rows - rows.detach().amax()).exp())


def _exp_interpolated(rows: Tensor) -> Tensor:
    exponents = shifted(rows) * LOG2_E
    steps = 16
    below = (exponents.detach() * steps).floor() / steps
    slope = steps * (2.0 ** (1 / steps) - 1.0)
    numerators = torch.exp2(below) * (1.0 + slope * (exponents - below))
    return normalised(numerators.masked_fill(rows == -torch.inf, 0.0))


def _sum_in_storage(x: Tensor, *, dim: int = -1) -> Tensor:
    if x.numel() == 0:
        return x.clone()
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    numerators = (wide - wide.detach().amax(dim, keepdim=True)).exp()
    total = torch.zeros_like(numerators.narrow(dim, 0, 1), dtype=x.dtype)
    for entry in torch.split(numerators, 1, dim):
        total = (total + entry).to(x.dtype)
    return (numerators / total).to(x.dtype)


def _float32_inside(x: Tensor, *, dim: int = -1) -> Tensor:
    return right.softmax(x.to(torch.float32), dim=dim).to(x.dtype)


def _ten_thousand(rows: Tensor) -> Tensor:
    return normalised(shifted(rows.masked_fill(rows == -torch.inf, -10000.0)).exp())


def _small_dropped(rows: Tensor) -> Tensor:
    weights = normalised(shifted(rows).exp())
    return weights.masked_fill(weights < 1e-6, 0.0)


def _order_reversed(rows: Tensor) -> Tensor:
    finite = rows.masked_fill(rows == -torch.inf, torch.inf)
    return normalised((finite.detach().amin(-1, keepdim=True) - finite).exp())


FAULTS = (
    Fault(
        id="softmax.no_maximum",
        component="softmax",
        kind="K14",
        reason="exponentiates the logits as they are, so that large ones overflow and a row of "
        "very negative ones has the sum zero; the row maximum should be subtracted first",
        remedy="Subtract the maximum of each row before the exponential.",
        law="softmax.shift_invariance",
        functions=by_rows(lambda rows: normalised(rows.exp())),
        report="deeplearning4j/deeplearning4j #6039",
    ),
    Fault(
        id="softmax.maximum_of_all_rows",
        component="softmax",
        kind="K14",
        reason="subtracts the maximum of the whole tensor, so that a row far below it underflows "
        "to 0/0; each row has its own maximum",
        remedy="Reduce the maximum along the softmax axis only, and keep that axis.",
        law="softmax.row_alone",
        functions=by_rows(_maximum_of_all_rows),
    ),
    Fault(
        id="softmax.logits_clamped",
        component="softmax",
        kind="K14",
        reason="clamps the logits to -60..60 against overflow, so that larger differences vanish; "
        "subtracting the row maximum avoids overflow and changes nothing",
        remedy="Subtract the row maximum in place of clamping.",
        law="softmax.shift_invariance",
        functions=by_rows(lambda rows: normalised(rows.clamp(-60.0, 60.0).exp())),
    ),
    Fault(
        id="softmax.exp_interpolated",
        component="softmax",
        kind="K13",
        reason="interpolates the exponential between sixteen points an octave, with a relative "
        "error of up to 2**-12; it should be as good as the accumulation dtype",
        remedy="Use an exponential that is right to a few ulp, or declare a narrower dtype.",
        law="softmax.matches_oracle",
        functions=by_rows(_exp_interpolated),
        dtypes=("float64", "float32"),
    ),
    Fault(
        id="softmax.sum_in_storage",
        component="softmax",
        kind="K13",
        reason="keeps the running sum of a row in half precision, where it stops growing; "
        "sums belong in float32",
        remedy="Accumulate the normaliser in float32.",
        law="softmax.rows_sum_to_one",
        functions=by_call(_sum_in_storage),
        dtypes=("bfloat16", "float16"),
    ),
    Fault(
        id="softmax.float32_inside",
        component="softmax",
        kind="K13",
        reason="casts float64 logits to float32; accumulation is never narrower than the storage",
        remedy="Accumulate in the wider of float32 and the input's dtype.",
        law="softmax.matches_oracle",
        functions=by_call(_float32_inside),
        dtypes=("float64",),
    ),
    Fault(
        id="softmax.minus_infinity_is_ten_thousand",
        component="softmax",
        kind="K03",
        reason="replaces -inf by -10000, which still gets weight where the other logits are as "
        "low; -inf means a weight of exactly zero",
        remedy="Leave -inf in place, or set the weight to zero afterwards.",
        law="softmax.minus_infinity_gets_zero",
        functions=by_rows(_ten_thousand),
    ),
    Fault(
        id="softmax.exponent_clamped",
        component="softmax",
        kind="K04",
        reason="clamps the argument of the exponential at -87, so that masked entries keep a "
        "weight of 1e-38; -inf means a weight of exactly zero",
        remedy="Don't clamp the argument, or set entries of -inf to zero afterwards.",
        law="softmax.minus_infinity_gets_zero",
        functions=by_rows(lambda rows: normalised(shifted(rows).clamp_min(-87.0).exp())),
        dtypes=("float64", "float32", "bfloat16"),
    ),
    Fault(
        id="softmax.extra_one",
        component="softmax",
        kind="K24",
        reason="adds one to the normaliser after the shift, so that the weights sum to less than "
        "one; the normaliser is the sum of the numerators and nothing else",
        remedy="Drop the one, or declare a sink and shift it by the maximum like the rest.",
        law="softmax.rows_sum_to_one",
        functions=by_rows(
            lambda rows: (e := shifted(rows).exp()) / (1.0 + e.sum(-1, keepdim=True))
        ),
        report="kyegomez/AttentionIsOFFByOne #5",
    ),
    Fault(
        id="softmax.small_number_added",
        component="softmax",
        kind="K30",
        reason="adds 1e-6 to the normaliser against a division by zero, which cannot happen: the "
        "largest numerator is one",
        remedy="Divide by the plain sum.",
        law="softmax.rows_sum_to_one",
        functions=by_rows(
            lambda rows: (e := shifted(rows).exp()) / (1e-6 + e.sum(-1, keepdim=True))
        ),
        dtypes=("float64",),
    ),
    Fault(
        id="softmax.small_weights_dropped",
        component="softmax",
        kind="K13",
        reason="sets weights below 1e-6 to zero; small weights keep their relative precision",
        remedy="Drop the threshold.",
        law="softmax.matches_oracle",
        functions=by_rows(_small_dropped),
        dtypes=("float64", "float32", "bfloat16"),
    ),
    Fault(
        id="softmax.base_two",
        component="softmax",
        kind="K05",
        reason="takes powers of two without a conversion of the logits, which is the softmax of "
        "logits times ln 2; the base is e",
        remedy="Multiply the logits by log2(e) before exp2.",
        law="softmax.matches_oracle",
        functions=by_rows(lambda rows: normalised(torch.exp2(shifted(rows)))),
        report="flashinfer-ai/flashinfer #787",
    ),
    Fault(
        id="softmax.order_reversed",
        component="softmax",
        kind="K05",
        reason="negates the logits, so that the smallest gets the largest weight",
        remedy="Exponentiate x - max, not min - x.",
        law="softmax.order_kept",
        functions=by_rows(_order_reversed),
    ),
)
