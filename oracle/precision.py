"""Number formats and precision contracts: what a right implementation may round, and to what.

Sources: the machine model is the standard one, fl(x) = x (1 + e) + h with |e| <= u and |h| <=
the largest error of a rounding that underflows (Higham, *Accuracy and Stability of Numerical
Algorithms*, chapter 2). Every number of a comparison's allowance comes from this file.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class Format:
    """A binary floating-point format."""

    name: str
    roundoff: float
    """u: largest relative error of one rounding to nearest in the normal range."""
    underflow: float
    """Largest absolute error of a rounding below the normal range. Where hardware or kernels
    flush to zero (float32, bfloat16, float64) that is the smallest normal number; float16 keeps
    its subnormals everywhere, so there it is half of the smallest of them."""
    normal: float
    """Smallest normal number: results below it are not judged."""
    overflow: float
    """Numbers from here on round to infinity."""
    width: int
    """Order of the formats by significand, for 'at least as precise as'."""


def _format(name: str, significand: int, smallest: int, largest: int, *, flush: bool) -> Format:
    normal = 2.0**smallest
    return Format(
        name=name,
        roundoff=2.0**-significand,
        underflow=normal if flush else normal * 2.0**-significand,
        normal=normal,
        # the midpoint between the largest finite number and the next power of two, which for
        # float64 is no float64 itself
        overflow=min(2.0**largest * (2.0 - 2.0**-significand), sys.float_info.max),
        width=significand,
    )


FORMATS: Mapping[str, Format] = {
    "float64": _format("float64", 53, -1022, 1023, flush=True),
    "float32": _format("float32", 24, -126, 127, flush=True),
    "bfloat16": _format("bfloat16", 8, -126, 127, flush=True),
    "float16": _format("float16", 11, -14, 15, flush=False),
    "tf32": _format("tf32", 11, -126, 127, flush=True),
}

NUMPY_TYPES: Mapping[str, np.dtype[Any]] = {
    "float64": np.dtype(np.float64),
    "float32": np.dtype(np.float32),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float16": np.dtype(np.float16),
}

WHOLE_TYPES = ("int64", "int32", "int16", "int8", "uint8")
"""Dtypes of whole numbers that a result may have."""
INDEX_TYPES = ("int64", "int32")
"""Those of positions, lengths and indices that are handed over."""
WHOLE_AS = "float32"
"""Whose contract binds what lies between whole numbers and whole numbers, if anything does."""

LIBRARY_ULPS = 2.0
"""exp, sin, cos and the square root's inverse: within 2 ulp, the widest accuracy that CPU and GPU
libraries document for them; an ulp is at most 2u."""
POWER_ULPS = 4.0
"""`base ** x`, which is exp(x log base) with a longer logarithm: 4 ulp, likewise."""

CONFIDENCE = 1e-18
"""Probability that one element's error exceeds the allowance from the variance, given independent
roundings (Hoeffding's inequality)."""
DEVIATIONS = math.sqrt(6.0 * math.log(2.0 / CONFIDENCE))
"""Allowance over standard deviation. A rounding is uniform on [-u, u] in the model, of variance
u^2/3; Hoeffding bounds a sum of them by 2 exp(-t^2 / (2 sum u^2)), so t = sqrt(6 log(2/p)) s."""

JUDGED_SHARE = 0.9
"""A law of which fewer elements could be judged is not tested."""
JUDGED_RMS = 0.25
"""An element whose allowance exceeds this share of the output's root mean square isn't judged."""
EVALUATION = 2.0**-20
"""Relative widening of an allowance for its own evaluation in float64. Every operation charged to
the implementation at u >= 2^-24 was done here at 2^-53, so 2^-29 would do; 2^-20 is as good."""


@dataclass(frozen=True)
class Contract:
    """What an implementation promises about its roundings: for each place, the format to which
    a value may be rounded there. Fields as in the table 'Precision contract'."""

    storage: str
    scores: str
    scaling: str
    probabilities: str
    normalised: str
    tables: str
    angles: str
    activations: str
    products: str
    accumulate: str
    statistics: str
    reductions: str
    lse: str

    def format(self, place: str) -> Format:
        """The format of one place; `output` is always storage."""
        return FORMATS[self.storage if place == "output" else getattr(self, place)]


PLACES = tuple(f.name for f in fields(Contract) if f.name not in ("storage", "scaling"))
SCALINGS = ("any", "query", "key", "both", "scores")
WORDS = ("storage", "accumulate")

PRESETS: Mapping[str, Mapping[str, str]] = {
    "eager": {},
    "flash": {"scores": "accumulate", "tables": "accumulate", "activations": "accumulate"},
    "strict": {
        "scores": "accumulate",
        "probabilities": "accumulate",
        "normalised": "accumulate",
        "tables": "accumulate",
        "activations": "accumulate",
    },
}
"""Loosest first. `accumulate` stands for float32 or wider."""

_INTERMEDIATE = ("scores", "probabilities", "normalised", "tables", "activations")


class PrecisionError(ValueError):
    """A declared precision that names no field, no format or no preset."""

    def __init__(self, message: str, given: object = "", allowed: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.given = given
        """What was named, ..."""
        self.allowed = tuple(allowed)
        """... and what there is."""


def wider(a: str, b: str) -> str:
    """The more precise of two formats' names."""
    return a if FORMATS[a].width >= FORMATS[b].width else b


@cache
def default_contract(storage: str) -> Contract:
    """The contract of ordinary eager model code over tensors of `storage`."""
    accumulate = wider("float32", storage)
    return Contract(
        storage=storage,
        scores=storage,
        scaling="any",
        probabilities=storage,
        normalised=storage,
        tables=storage,
        angles="float32",
        activations=storage,
        products=accumulate,
        accumulate=accumulate,
        statistics=accumulate,
        reductions=accumulate,
        lse=accumulate,
    )


def contract(storage: str, declared: str | Mapping[str, Any] | None = None) -> Contract:
    """The contract for tensors of `storage` under what a target declared.

    `declared` is a preset's name, a mapping from field to format (or `storage`, `accumulate`),
    or a mapping from storage dtype to either. Raises PrecisionError, naming what is allowed.
    """
    if storage not in NUMPY_TYPES:
        raise PrecisionError(f"unknown dtype {storage!r}; allowed: {', '.join(NUMPY_TYPES)}")
    if not declared:
        return default_contract(storage)
    if isinstance(declared, str):
        return _preset(storage, declared)
    if not isinstance(declared, Mapping):
        raise PrecisionError(
            f"precision is {declared!r}; expected a preset ({', '.join(PRESETS)}) or a mapping"
        )
    by_dtype = [name for name in declared if name in NUMPY_TYPES]
    if by_dtype and len(by_dtype) < len(declared):
        mixed = ", ".join(map(repr, declared))
        raise PrecisionError(f"precision has {mixed}; give dtypes alone, or fields alone")
    if by_dtype:
        return contract(storage, declared.get(storage))
    return _declared(storage, declared)


def _preset(storage: str, name: str) -> Contract:
    if name not in PRESETS:
        text = f"unknown precision preset {name!r}; allowed: {', '.join(PRESETS)}"
        raise PrecisionError(text, name, PRESETS)
    return _declared(storage, PRESETS[name])


def _declared(storage: str, given: Mapping[str, Any]) -> Contract:
    start = default_contract(storage)
    values = dict(given)
    accumulate = values.pop("accumulate", "accumulate")
    accumulate = start.accumulate if accumulate == "accumulate" else accumulate
    resolved = {"accumulate": _format_name("accumulate", accumulate, storage, start.accumulate)}
    for place in ("products", "statistics", "reductions", "lse"):
        resolved[place] = resolved["accumulate"]
    intermediate = values.pop("intermediate", None)
    if intermediate is not None:
        name = _format_name("intermediate", intermediate, storage, resolved["accumulate"])
        resolved.update(dict.fromkeys(_INTERMEDIATE, wider(name, storage)))
    if (scaling := values.pop("scaling", None)) is not None:
        if scaling not in SCALINGS:
            raise PrecisionError(
                f"precision field 'scaling' is {scaling!r}; allowed: {', '.join(SCALINGS)}"
            )
        resolved["scaling"] = scaling
    for field, value in values.items():
        if field not in PLACES:
            allowed = ("intermediate", "scaling", *PLACES)
            text = f"unknown precision field {field!r}; allowed: {', '.join(allowed)}"
            raise PrecisionError(text, field, allowed)
        resolved[field] = _format_name(field, value, storage, resolved["accumulate"])
    return replace(start, **resolved)


def _format_name(field: str, value: object, storage: str, accumulate: str) -> str:
    if value == "storage":
        return storage
    if value == "accumulate":
        return accumulate
    if not isinstance(value, str) or value not in FORMATS:
        allowed = (*WORDS, *FORMATS)
        text = f"precision field {field!r} is {value!r}; allowed: {', '.join(allowed)}"
        raise PrecisionError(text, value, allowed)
    return value


def numpy_type(dtype: str) -> np.dtype[Any]:
    """NumPy's type for a storage dtype, an index dtype or `bool`."""
    return NUMPY_TYPES[dtype] if dtype in NUMPY_TYPES else np.dtype(dtype)


def format_of(dtype: str) -> Format:
    """The format of a storage dtype. Whole numbers are compared as float64, which holds them."""
    return FORMATS["float64" if dtype in WHOLE_TYPES else dtype]


def snapped(values: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """Nearest numbers of `dtype`, as float64 (bfloat16 by way of float32): what is handed over is
    what is judged."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return np.asarray(values, np.float64).astype(NUMPY_TYPES[dtype]).astype(np.float64)
