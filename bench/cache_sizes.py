"""How many bytes published models cache for a token, by the definitions and by real cache objects.

Sizes of the models are those of their papers and configuration files: Touvron et al., *Llama 2*
(2023); the Llama 3 model card; Jiang et al., *Mistral 7B* (2023); DeepSeek-AI, *DeepSeek LLM*,
*DeepSeek-V2* (both 2024) and *DeepSeek-V3* (2024). The objects are transformers' `DynamicCache`,
filled with tensors that have shapes but no memory.

A window's cache may drop what has left the window: Mistral 7B's holds no more than 4,096 tokens.

    python -m bench.cache_sizes
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from attnspec.oracle.expected import value_of
from attnspec.spec.gqa_definition import variant
from attnspec.spec.kv_cache_definition import held_bytes
from attnspec.spec.mla_sizes import V2_BITS
from bench.figures import table

TOKENS = 4096


@dataclass(frozen=True)
class Model:
    """What of a model says how much it caches."""

    name: str
    layers: int
    heads: int
    """Of queries."""
    keys: tuple[int, int]
    """Heads of keys and channels of each; of latent attention one latent."""
    values: tuple[int, int]
    """The same of values; of latent attention the rotary key."""
    latent: bool = False

    @property
    def variant(self) -> str:
        """Its kind of attention."""
        if self.latent:
            return "mla"
        return "mha" if self.keys[0] == self.heads else "gqa"


MODELS = (
    Model("Llama 2 7B", 32, 32, (32, 128), (32, 128)),
    Model("Llama 2 70B", 80, 64, (8, 128), (8, 128)),
    Model("Llama 3 8B", 32, 32, (8, 128), (8, 128)),
    Model("Mistral 7B", 32, 32, (8, 128), (8, 128)),
    Model("DeepSeek 67B", 95, 64, (8, 128), (8, 128)),
    Model("DeepSeek-V2", 60, 128, (1, 512), (1, 64), latent=True),
    Model("DeepSeek-V3", 61, 128, (1, 512), (1, 64), latent=True),
)


def model(name: str) -> Model:
    """The one of this name. Raises StopIteration if there is none."""
    return next(row for row in MODELS if row.name == name)


def elements(of: Model, tokens: int, *, batch: int = 1) -> int:
    """The numbers that all layers hold for so many tokens of each sequence, by the definitions."""
    found = variant(of.variant)
    sizes = {
        "batch": batch, "heads": of.heads, "groups": of.keys[0], "s": tokens, "length": tokens,
        "d": of.keys[1], "e": of.values[1], "c": of.keys[1], "p": of.values[1],
    }  # fmt: skip
    names = {str(p): sizes[str(p)] for p in found.parameters}
    return of.layers * int(value_of(found, names, {}))


def held(of: Model, tokens: int, bits: int = 16) -> int:
    """Bytes of keys and values for one sequence of so many tokens, by the definition of a cache."""
    if of.latent:
        return (elements(of, tokens) * bits + 7) // 8
    groups, d = of.keys
    sizes = {"layers": of.layers, "batch": 1, "groups": groups, "d": d, "e": of.values[1]}
    found = value_of(held_bytes(), {**sizes, "bits": bits}, {"lengths": np.array([tokens])})
    return int(found)


def measured(of: Model, tokens: int) -> int:
    """Bytes of what transformers' cache holds after so many tokens in bfloat16, in two chunks. It
    needs torch and transformers."""
    import torch
    from transformers.cache_utils import DynamicCache

    made: Any = DynamicCache()
    for chunk in (tokens - 1, 1):
        for layer in range(of.layers):
            k, v = (
                torch.empty(1, heads, chunk, width, dtype=torch.bfloat16, device="meta")
                for heads, width in (of.keys, of.values)
            )
            made.update(k, v, layer)
    return sum(int(row.keys.nbytes + row.values.nbytes) for row in made.layers)


def saved(one: Model, other: Model, bits: int = 16, other_bits: int = 16) -> float:
    """The share of the other's bytes for a token that the first does without."""
    return 1.0 - elements(one, 1) * bits / (elements(other, 1) * other_bits)


@cache
def explained() -> tuple[tuple[str, float], ...]:
    """The two shares that are told of DeepSeek-V2, and what each compares."""
    v2, before = model("DeepSeek-V2"), model("DeepSeek 67B")
    own = Model("DeepSeek-V2 with keys of all heads", 60, 128, (128, 128), (128, 128))
    as_deployed = saved(v2, before, bits=int(V2_BITS))
    return (
        ("DeepSeek-V2 with 6 bits a number against DeepSeek 67B with 16", as_deployed),
        ("the same with 16 bits in both: fewer layers and the latent alone", saved(v2, before)),
        ("DeepSeek-V2 against its own 128 heads of keys and values", saved(v2, own)),
    )


def main() -> None:
    """Print the table."""
    rows = []
    for of in MODELS:
        each = elements(of, 1)
        whole = held(of, TOKENS)
        same = "same" if measured(of, TOKENS) == whole else "DIFFERENT"
        rows.append((of.name, of.variant, of.layers, f"{each // of.layers:,}", f"{each:,}",
                     f"{held(of, 1):,}", f"{whole / 2**30:.3f}", same))  # fmt: skip
    heads = ("model", "variant", "layers", "numbers/token/layer", "numbers/token", "bytes/token",
             f"GiB at {TOKENS}", "DynamicCache")  # fmt: skip
    print(table(heads, rows))
    print()
    for what, share in explained():
        print(f"{100 * share:.2f} % less: {what}")


if __name__ == "__main__":
    main()
