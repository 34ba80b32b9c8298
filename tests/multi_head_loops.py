"""Multi-head attention by plain loops, for tests: one head and one row at a time.

Works on real and on complex arrays: a complex step gives derivatives to the last digit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.turning import turned

Array = np.ndarray[Any, Any]


def by_loops(arrays: Mapping[str, Array], call: Any, sizes: Mapping[str, Any]) -> Array:
    """The output for x[b, i, w] and packed weights."""
    x, h, g, d, e = arrays["x"], *(sizes[name] for name in ("heads", "groups", "d", "e"))
    output = np.zeros(x.shape, np.result_type(*(arrays[name] for name in arrays)))
    for entry, place in np.ndindex(x.shape[:2]):
        packed = []
        for head in range(h):
            key_head = head // (h // g) if call.head_order == "grouped" else head % g
            query = x[entry, place] @ arrays["w_q"][:, head * d : (head + 1) * d]
            keys = x[entry] @ arrays["w_k"][:, key_head * d : (key_head + 1) * d]
            values = x[entry] @ arrays["w_v"][:, key_head * e : (key_head + 1) * e]
            base = sizes["base"]
            query = np.array(turned(query, place, base, call))
            keys = np.array([turned(key, at, base, call) for at, key in enumerate(keys)])
            last = place + 1 if call.causal else len(keys)
            scores = np.array([query @ keys[j] for j in range(last)]) / d**0.5
            weights = np.exp(scores - scores.real.max())
            packed.append(weights @ values[:last] / weights.sum())
        output[entry, place] = np.concatenate(packed) @ arrays["w_o"]
    return output


def drawn(seed: int, call: Any) -> tuple[dict[str, Array], dict[str, Any]]:
    """Arrays and sizes of a call; odd sizes but for d, whose channels turn in pairs."""
    g = np.random.default_rng(seed)
    groups = int(g.integers(1, 4))
    sizes = {
        "batch": int(g.integers(1, 3)),
        "heads": groups * int(g.integers(1, 4)),
        "groups": groups,
        "n": int(g.choice([1, 2, 3, 5, 7])),
        "width": int(g.choice([1, 3, 5, 7])),
        "d": int(g.choice([2, 4, 6])) if call.layout else int(g.choice([1, 2, 3, 5])),
        "e": int(g.choice([1, 2, 3, 5])),
        "base": float(g.choice([3.0, 10000.0])),
    }
    b, h, n, m, d, e = (int(sizes[k]) for k in ("batch", "heads", "n", "width", "d", "e"))
    shapes = {
        "x": (b, n, m),
        "w_q": (m, h * d),
        "w_k": (m, groups * d),
        "w_v": (m, groups * e),
        "w_o": (h * e, m),
    }
    return {name: g.standard_normal(shape) for name, shape in shapes.items()}, sizes
