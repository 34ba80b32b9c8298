"""Formats, contracts and what a declared precision resolves to. Numbers are recomputed."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from attnspec.oracle.precision import (
    CONFIDENCE,
    DEVIATIONS,
    EVALUATION,
    FORMATS,
    NUMPY_TYPES,
    PLACES,
    PRESETS,
    PrecisionError,
    contract,
    default_contract,
    snapped,
    wider,
)


@pytest.mark.parametrize("name", NUMPY_TYPES)
def test_a_format_is_that_of_its_dtype(name: str) -> None:
    finfo: Any = ml_dtypes.finfo
    fmt, info = FORMATS[name], finfo(NUMPY_TYPES[name])
    largest = float(info.max)
    assert fmt.roundoff == float(info.eps) / 2
    assert fmt.normal == float(info.smallest_normal)
    assert fmt.width == 1 - math.log2(float(info.eps))
    subnormal = float(info.smallest_subnormal)
    assert fmt.underflow == (subnormal / 2 if name == "float16" else fmt.normal)
    if name != "float64":
        # the threshold is where rounding to nearest starts to give infinity
        assert np.isinf(snapped(np.array(fmt.overflow), name))
        # (to bfloat16 numpy goes by way of float32, so not the very next number below)
        below = fmt.overflow * (1.0 - 2.0 ** (-26 if name == "float32" else -20))
        assert snapped(np.array(below), name) == largest
    assert largest < fmt.overflow or name == "float64"


def test_one_rounding_errs_by_at_most_u_and_sometimes_by_almost_u() -> None:
    rng = np.random.default_rng(0)
    values = 1.0 + rng.random(20000)
    for name in ("float32", "bfloat16", "float16"):
        error = np.abs(snapped(values, name) - values) / values
        assert 0.9 * FORMATS[name].roundoff < error.max() <= FORMATS[name].roundoff


def test_the_number_of_deviations_follows_from_the_confidence() -> None:
    """Hoeffding: a sum of independent roundings within +-u exceeds t with probability at most
    2 exp(-t^2 / (2 n u^2)); its variance in the uniform model is n u^2 / 3."""
    n, u = 50, 2.0**-24
    allowance = DEVIATIONS * math.sqrt(n * u**2 / 3.0)
    assert 2.0 * math.exp(-(allowance**2) / (2.0 * n * u**2)) == pytest.approx(CONFIDENCE)
    assert pytest.approx(11.3 * math.sqrt(2.0), rel=0.01) == DEVIATIONS


def test_the_widening_covers_the_evaluation_in_float64() -> None:
    assert FORMATS["float64"].roundoff / FORMATS["float32"].roundoff < EVALUATION


def test_defaults_are_those_of_eager_model_code() -> None:
    half = default_contract("bfloat16")
    assert half.scores == half.probabilities == half.tables == half.activations == "bfloat16"
    assert half.accumulate == half.statistics == half.lse == half.angles == "float32"
    double = default_contract("float64")
    assert (double.accumulate, double.angles) == ("float64", "float32")


def test_presets_get_tighter_and_tighter() -> None:
    contracts = [contract("float16", name) for name in PRESETS]
    for place in PLACES:
        widths = [c.format(place).width for c in contracts]
        assert widths == sorted(widths)
    assert contracts[0] == default_contract("float16")
    assert len(set(contracts)) == len(contracts)


def test_a_preset_never_loosens_float64() -> None:
    for name in PRESETS:
        for place in PLACES:
            default = default_contract("float64").format(place).width
            assert contract("float64", name).format(place).width >= default


def test_intermediate_is_shorthand_and_never_narrower_than_storage() -> None:
    for storage in NUMPY_TYPES:
        made = contract(storage, {"intermediate": "float32"})
        five = {made.scores, made.probabilities, made.normalised, made.tables, made.activations}
        assert five == {wider("float32", storage)}


def test_words_and_dtypes() -> None:
    made = contract("bfloat16", {"statistics": "storage", "tables": "accumulate"})
    assert (made.statistics, made.tables) == ("bfloat16", "float32")
    by_dtype = {"bfloat16": "flash", "float16": {"angles": "float64"}}
    assert contract("bfloat16", by_dtype).tables == "float32"
    assert contract("float16", by_dtype).angles == "float64"
    assert contract("float32", by_dtype) == default_contract("float32")
    assert contract("float16", {"accumulate": "storage"}).statistics == "float16"
    assert contract("float32", {"scaling": "query"}).scaling == "query"


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ("fast", "unknown precision preset 'fast'; allowed: eager, flash, strict"),
        ({"table": "float32"}, "unknown precision field 'table'; allowed: intermediate, scaling"),
        ({"tables": "fp32"}, "precision field 'tables' is 'fp32'; allowed: storage, accumulate"),
        ({"scaling": "both ways"}, "'scaling' is 'both ways'; allowed: any, query"),
        ({"accumulate": 32}, "precision field 'accumulate' is 32"),
        (3, "precision is 3; expected a preset"),
        ({"bfloat16": "flash", "tables": "float32"}, "give dtypes alone, or fields alone"),
    ],
)
def test_a_precision_that_does_not_exist(declared: Any, said: str) -> None:
    with pytest.raises(PrecisionError) as caught:
        contract("bfloat16", declared)
    assert said in str(caught.value)


def test_an_unknown_dtype() -> None:
    with pytest.raises(PrecisionError, match="unknown dtype 'float8'; allowed: float64"):
        contract("float8")
