"""Small calls of attention for tests of its definition: sizes, options, arrays, parameters."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from attnspec.oracle.precision import snapped
from attnspec.spec import attention_definition
from attnspec.spec.attention_definition import HEAD_ORDERS, Options
from attnspec.spec.definition import Definition

Array = np.ndarray[Any, Any]
KINDS = ("normal", "saturated", "scaled", "large mean", "equal keys", "one-hot", "cancelling",
         "tiny", "integers", "heavy-tailed")  # fmt: skip


class Case(NamedTuple):
    """A call as the definition takes it."""

    options: Options
    parameters: dict[str, Any]
    arrays: dict[str, Array]

    @property
    def definition(self) -> Definition:
        return attention_definition.attention(self.options)

    @property
    def key(self) -> tuple[tuple[str, Any], ...]:
        return tuple(self.parameters.items())

    @property
    def names(self) -> tuple[str, ...]:
        """The arrays that have gradients."""
        return ("q", "k", "v", *(("bias",) if self.options.bias else ()))


def fill(g: np.random.Generator, kind: str, shape: tuple[int, ...], name: str) -> Array:
    """Numbers of one kind for q, k, v or the upstream."""
    x: Array = g.standard_normal(shape)
    if kind == "saturated" and name in "qk":
        return x * (8.0 if name == "q" else 2.0)
    if kind == "scaled":
        return x * 2.0 ** g.integers(-6, 5)
    if kind == "large mean" and name in ("v", "upstream"):
        return x + 30.0
    if kind == "equal keys" and name == "k":
        return np.broadcast_to(x[:, :, :1], shape).copy()
    if kind == "one-hot":
        return np.where(g.random(shape) < 0.2, 1.0, 0.0)
    if kind == "cancelling":
        return np.where(np.arange(shape[-1]) % 2, -1.0, 1.0 + 2.0**-6) * g.random((*shape[:-1], 1))
    if kind == "tiny":
        return x * 2.0**-14
    if kind == "integers":
        return np.rint(2.0 * x)
    if kind == "heavy-tailed":
        return np.clip(g.standard_t(1.5, shape), -300.0, 300.0)
    return x


def case(g: np.random.Generator, kind: str, dtype: str, *, scaling: str = "any") -> Case:
    """A call drawn at random; every row may see nothing."""
    mask, bias, softcap, ranges = (bool(g.random() < 0.4) for _ in range(4))
    groups = int(g.integers(1, 4))
    heads, b = groups * int(g.integers(1, 4)), int(g.integers(1, 3))
    t, s, d, e = (int(x) for x in g.choice([1, 2, 3, 5, 7, 17], 4))
    order = HEAD_ORDERS[int(g.integers(2))]
    options = Options(mask, bias, softcap, ranges, head_order=order, scaling=scaling)
    spread = [int(size if g.random() < 0.6 else 1) for size in (b, heads, t, s)]
    drawn = {
        "batch": b, "heads": heads, "groups": groups, "t": t, "s": s, "d": d, "e": e,
        "scale": float(g.choice([d**-0.5, 0.25, 1.0, 2.0])),
        "cap": float(g.choice([0.5, 2.0, 30.0])),
        "offset": int(g.choice([0, s - t])), "left": int(g.choice([0, 1, 3, 1000])),
        "right": int(g.choice([0, 2, 1000])),
        **dict(zip(("bias_b", "bias_h", "bias_t", "bias_s"), spread, strict=True)),
    }  # fmt: skip
    given = {
        "q": fill(g, kind, (b, heads, t, d), "q"),
        "k": fill(g, kind, (b, groups, s, d), "k"),
        "v": fill(g, kind, (b, groups, s, e), "v"),
        "bias": np.where(g.random(spread) < 0.1, -np.inf, 2.0 * g.standard_normal(spread)),
        "upstream": fill(g, kind, (b, heads, t, e), "upstream"),
    }
    arrays = {name: snapped(values, dtype) for name, values in given.items()}
    arrays["mask"] = (g.random((b, heads, t, s)) < 0.7).astype(np.int64)
    definition = attention_definition.attention(options)
    parameters = {str(p): drawn[str(p)] for p in definition.parameters}
    return Case(options, parameters, arrays)
