"""Functions that a call hands over, as data: what they do, and what they were given.

Sources: the project's contract (`residual_block`: exact callables, and the target's own norms).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Moved:
    """Turns the channels, the last axis, by some places and multiplies them by factors, which are
    repeated along them. With powers of two, or zero, nothing is rounded."""

    factors: tuple[float, ...] = (1.0,)
    shift: int = 0

    def order(self, width: int) -> Array:
        """Which channel goes to each place, of so many."""
        return np.roll(np.arange(width), self.shift)

    def factor(self, width: int) -> Array:
        """By what each channel of the result is multiplied."""
        return np.resize(np.array(self.factors), width)

    def of(self, values: Array) -> Array:
        """What comes out, exactly."""
        width = values.shape[-1]
        found: Array = values[..., self.order(width)] * self.factor(width)
        return found

    def transposed(self, upstream: Array) -> Array:
        """The gradient of what went in, exactly."""
        width = upstream.shape[-1]
        return np.roll(upstream * self.factor(width), -self.shift, axis=-1)


@dataclass(frozen=True)
class Same(Moved):
    """Returns the very object that it is given, as `torch.nn.Identity` does."""


@dataclass(frozen=True)
class Own:
    """A norm of the target's own, without weight and bias."""

    function: str
    eps: float | None = None
    """None where it is left to the function."""


Callee = Moved | Own
ZERO = Moved((0.0,))
"""A sublayer that is blocked."""

_KINDS: Mapping[str, type[Callee]] = {"moved": Moved, "same": Same, "own": Own}


def as_plain(callee: Callee) -> dict[str, Any]:
    """It in JSON's types."""
    (kind,) = (name for name, made in _KINDS.items() if type(callee) is made)
    plain = asdict(callee)
    if "factors" in plain:
        plain["factors"] = list(plain["factors"])
    return {"kind": kind, **plain}


def from_plain(plain: Mapping[str, Any]) -> Callee:
    """What `as_plain` gave, back. Raises KeyError or TypeError for anything else."""
    rest = {name: value for name, value in plain.items() if name != "kind"}
    if "factors" in rest:
        rest["factors"] = tuple(float(factor) for factor in rest["factors"])
    return _KINDS[plain["kind"]](**rest)


@dataclass(frozen=True)
class Heard:
    """What a callable was given, once."""

    name: str
    values: Array
    """As float64."""
    dtype: str
    device: str


def written(name: str, callee: Callee, *, torch: bool) -> list[str]:
    """Python that defines it, for torch or for NumPy."""
    if isinstance(callee, Own):
        more = "" if callee.eps is None else f", eps={callee.eps!r}"
        body = f"{callee.function}(x{more})"
    elif isinstance(callee, Same):
        body = "x"
    else:
        body = _moved(callee, torch=torch)
    return [f"def {name}(x):", f"    return {body}"]


def _moved(callee: Moved, *, torch: bool) -> str:
    turned = "x"
    if callee.shift:
        turned = f"x.roll({callee.shift}, -1)" if torch else f"np.roll(x, {callee.shift}, -1)"
    if len(callee.factors) == 1:
        return f"{turned} * {callee.factors[0]!r}"
    many = list(callee.factors)
    if torch:
        width = "x.shape[-1]"
        return f"{turned} * torch.tensor({many} * {width}).to(x)[:{width}]"
    return f"{turned} * np.resize({many}, x.shape[-1]).astype(x.dtype)"
