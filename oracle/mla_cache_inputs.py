"""Calls of mla_cache and mla_decode: those of latent attention, and caches of drawn tokens."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from attnspec.oracle.expected import value_of
from attnspec.oracle.family import UPRIGHT, WEIGHT_DRESSES, Draw, Dress, Family, Form, Scope
from attnspec.oracle.law import Inputs
from attnspec.oracle.mla_contents import CONTENTS, TELLING, Contents, filled_arrays
from attnspec.oracle.mla_inputs import (
    call_sizes,
    empty_forms,
    forms,
    mla_inputs,
)
from attnspec.oracle.mla_values import DEFAULT_BASE, WEIGHTS
from attnspec.oracle.precision import snapped
from attnspec.oracle.shapes import several
from attnspec.spec import mla_definition
from attnspec.spec.mla_scores import Options

Array = np.ndarray[Any, Any]


def decode_inputs(scope: Scope, drawn: Draw) -> Inputs:
    """The last of some tokens, and the cache of all, in the dtype of the call."""
    form, _, contents, dress, seed = drawn
    assert isinstance(contents, Contents)
    size = call_sizes(form)
    arrays = filled_arrays(np.random.default_rng(seed), size, contents, dress, scope.dtype)
    options = Options(
        layout=scope.conventions.get("rope.layout", "interleaved"),
        direction=scope.conventions.get("rope.direction", "forward"),
    )
    base = float(form.options.get("rope_base", DEFAULT_BASE))
    latent, key = cached_values(arrays, options, base)
    given = {
        "x": np.ascontiguousarray(arrays["x"][:, -1:]),
        "c_kv": np.ascontiguousarray(snapped(latent, scope.dtype)),
        "k_rope": np.ascontiguousarray(snapped(key, scope.dtype)),
        **{name: arrays[name] for name in WEIGHTS},
    }
    return Inputs(
        component="mla_decode",
        dtype=scope.dtype,
        arrays=given,
        options=dict(form.options),
        layout=dress.layout,
        pattern=contents.name,
        seed=seed,
    )


def cached_values(arrays: dict[str, Array], options: Options, base: float) -> tuple[Array, Array]:
    """What is cached of the tokens x: b n c and b n p, in float64."""
    x = arrays["x"]
    b, n, m = x.shape
    c, p = arrays["w_dkv"].shape[1], arrays["w_kr"].shape[1]
    if not b:
        return np.zeros((b, n, c)), np.zeros((b, n, p))
    shared = {"batch": b, "length": n, "width": m}
    of_latent, of_key = mla_definition.cached_latent(), mla_definition.cached_key(options)
    read = {"x": x, "w_dkv": arrays["w_dkv"]}
    latent = value_of(of_latent, {**shared, "latent": c}, read)
    read = {"x": x, "w_kr": arrays["w_kr"]}
    return latent, value_of(of_key, {**shared, "rotary": p, "base": base}, read)


def _families(component: str, build: Callable[[Scope, Draw], Inputs]) -> tuple[Family, ...]:
    def family(
        name: str,
        says: str,
        made: Callable[[Scope], tuple[Form, ...]],
        patterns: tuple[Contents, ...] = TELLING,
        dresses: tuple[Dress, ...] = UPRIGHT,
    ) -> Family:
        return Family(
            name=f"{component}{name}",
            component=component,
            says=says,
            forms=made,
            extras=(None,),
            build=build,
            patterns=patterns,
            dresses=dresses,
        )

    tokens, entries = {"n": several}, {"b": several}
    return (
        family("", "any sizes", forms, CONTENTS, WEIGHT_DRESSES),
        family("_apart", "widths that all differ", partial(forms, apart=True)),
        family("_several", "two tokens and more", partial(forms, needs=tokens)),
        family("_heads", "two heads and more", partial(forms, needs={"h": several, "n": several})),
        family("_batch", "two entries and more", partial(forms, needs=entries)),
        family("_empty", "no batch entry", empty_forms, CONTENTS[:1]),
    )


FAMILIES: tuple[Family, ...] = (
    *_families("mla_cache", partial(mla_inputs, "mla_cache")),
    *_families("mla_decode", decode_inputs),
)
