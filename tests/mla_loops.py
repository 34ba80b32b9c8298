"""Multi-head latent attention by loops, and small calls of it: a second program of the formulas,
which builds every key and value and knows nothing of expressions."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnspec.spec.definition import Definition
from attnspec.spec.mla_scores import Options
from tests.turning import turned

Array = np.ndarray[Any, Any]
WEIGHTS = ("w_dq", "w_uq", "w_qr", "w_dkv", "w_uk", "w_uv", "w_kr", "w_o")
Sizes = dict[str, Any]


def shapes(sizes: Sizes) -> dict[str, tuple[int, ...]]:
    """The shape of each argument, as the contract has it."""
    b, n, m = sizes["batch"], sizes["length"], sizes["width"]
    h, r, c, p = sizes["heads"], sizes["query_latent"], sizes["latent"], sizes["rotary"]
    d, e = sizes["d"], sizes["e"]
    return {
        "x": (b, n, m), "w_dq": (m, r), "w_uq": (r, h * d), "w_qr": (r, h * p), "w_dkv": (m, c),
        "w_uk": (c, h * d), "w_uv": (c, h * e), "w_kr": (m, p), "w_o": (h * e, m),
    }  # fmt: skip


def drawn(seed: int) -> tuple[Sizes, dict[str, Array]]:
    """Sizes that differ from each other, some of them 1, and numbers of order 1."""
    g = np.random.default_rng(seed)
    odd = [int(x) for x in g.permutation([1, 2, 3, 5, 6, 7])]
    names = ("length", "width", "query_latent", "latent", "d", "e")
    sizes: Sizes = dict(zip(names, odd, strict=True))
    sizes.update(batch=int(g.integers(1, 3)), heads=int(g.integers(1, 4)))
    sizes.update(rotary=2 * int(g.integers(1, 4)), base=float(g.choice([5.0, 10000.0])))
    return sizes, {name: g.standard_normal(shape) for name, shape in shapes(sizes).items()}


def rotary_keys(arrays: dict[str, Array], sizes: Sizes, options: Options, math: Any = np) -> Any:
    """k_rope: b n p."""
    projected = arrays["x"] @ arrays["w_kr"]
    return np.array(
        [
            [turned(row, j, sizes["base"], options, math) for j, row in enumerate(entry)]
            for entry in projected
        ]
    )


def by_loops(arrays: dict[str, Array], sizes: Sizes, options: Options, math: Any = np) -> Any:
    """The output, b n m. Without a shift of the row maximum, so that complex steps go through."""
    d, e, p, base = (sizes[name] for name in ("d", "e", "rotary", "base"))
    keys_r = rotary_keys(arrays, sizes, options, math)
    output = arrays["x"] * 0
    for b, x in enumerate(arrays["x"]):
        asking, latents = x @ arrays["w_dq"], x @ arrays["w_dkv"]
        for h in range(sizes["heads"]):
            content, value = slice(h * d, (h + 1) * d), slice(h * e, (h + 1) * e)
            q, k = asking @ arrays["w_uq"][:, content], latents @ arrays["w_uk"][:, content]
            v = latents @ arrays["w_uv"][:, value]
            q_r = asking @ arrays["w_qr"][:, h * p : (h + 1) * p]
            for i in range(len(x)):
                query = np.array([*q[i], *turned(q_r[i], i, base, options, math)])
                seen = range(i + 1 if options.causal else len(x))
                weights = []
                for j in seen:
                    score = sum(query * np.array([*k[j], *keys_r[b, j]]))
                    weights.append(math.exp(score / math.sqrt(d + p)))
                total = sum(weights)
                head = sum(w / total * v[j] for j, w in zip(seen, weights, strict=True))
                output[b, i] = output[b, i] + head @ arrays["w_o"][value]
    return output


def key_of(definition: Definition, sizes: Sizes) -> tuple[tuple[str, Any], ...]:
    """The parameters of a definition at these sizes."""
    return tuple((str(p), sizes[str(p)]) for p in definition.parameters)
