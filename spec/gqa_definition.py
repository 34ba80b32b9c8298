"""What each variant of attention stores of a layer's past tokens, in elements.

Sources: document 004 (3.1: MQA, GQA, MLA; 3.9: the hierarchy). Where every query head has its own
key head, groups = heads; where all share one, groups = 1. What is stored of keys and values is
the arrays of attention's own definition; of latent attention, the two of its cache: one latent and
one rotary key a token.
"""

from __future__ import annotations

from functools import cache

import sympy as sp

from attnspec.spec import attention_definition, mla_definition
from attnspec.spec.definition import Definition
from attnspec.spec.mla_scores import Options

VARIANTS = ("mha", "gqa", "mqa", "mla")
_, _key, _value = attention_definition.attention(attention_definition.Options()).arrays
BATCH, GROUPS, LENGTH, KEY_SIZE = _key.shape
VALUE_SIZE = _value.shape[-1]
HEADS, LATENT, ROTARY = sp.symbols("heads c p", integer=True, positive=True)


def variant_elements(variant: str) -> sp.Expr:
    """The elements that a layer stores for a batch of sequences. Raises ValueError for an unknown
    variant."""
    if variant == "mla":
        cached = (mla_definition.cached_latent(), mla_definition.cached_key(Options()))
        named = {"batch": BATCH, "length": LENGTH, "latent": LATENT, "rotary": ROTARY}
        sizes = ([named[str(size)] for _, size in array.axes] for array in cached)
        return sp.Add(*(sp.prod(each) for each in sizes))
    groups = {"mha": HEADS, "gqa": GROUPS, "mqa": sp.S.One}
    if variant not in groups:
        raise ValueError(f"unknown variant {variant!r}; allowed: {', '.join(VARIANTS)}")
    stored = sp.prod(_key.shape) + sp.prod(_value.shape)
    return stored.xreplace({GROUPS: groups[variant]})


@cache
def variant(name: str) -> Definition:
    """The elements that a variant stores, as a definition of its sizes."""
    elements = variant_elements(name)
    sizes = (BATCH, HEADS, GROUPS, LENGTH, KEY_SIZE, VALUE_SIZE, LATENT, ROTARY)
    return Definition(
        f"gqa.elements_of_{name}",
        elements,
        (),
        (),
        tuple(size for size in sizes if elements.has(size)),
    )


@cache
def definitions() -> tuple[Definition, ...]:
    """The definitions of this file, one for each convention or part."""
    return tuple(variant(name) for name in VARIANTS)
