"""What sinusoidal returns, and what is read off its rows: the oracle's side of its laws.

Sources: `spec/sinusoidal_definition.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnspec.oracle.expected import Expected, expected
from attnspec.oracle.law import Implementation, Inputs
from attnspec.spec import sinusoidal_definition

Array = np.ndarray[Any, Any]

DEFAULT_BASE = 10000.0

_DEFINITIONS = {
    layout: sinusoidal_definition.sinusoidal(layout) for layout in sinusoidal_definition.LAYOUTS
}


def sinusoidal(implementation: Implementation, inputs: Inputs) -> Expected:
    """The encodings of a call, of shape n dim, in the layout that the target follows."""
    positions = inputs.arrays["positions"]
    parameters = {"length": len(positions), "dim": inputs.numbers["dim"], "base": base(inputs)}
    definition = _DEFINITIONS[implementation.conventions["sinusoidal.layout"]]
    return expected(definition, parameters, {"positions": positions}, implementation.contract)


def base(inputs: Inputs) -> float:
    """The base of the frequencies of a call."""
    return float(inputs.options.get("base", DEFAULT_BASE))


def paired(implementation: Implementation, values: Array) -> tuple[Array, Array]:
    """The sines and the cosines of the pairs, n dim/2 each."""
    if implementation.conventions["sinusoidal.layout"] == "interleaved":
        return values[..., 0::2], values[..., 1::2]
    half = values.shape[-1] // 2
    return values[..., :half], values[..., half:]
