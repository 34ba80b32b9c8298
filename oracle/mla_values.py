"""What latent attention returns, and its gradients: the oracle's side of the laws of `mla`,
`mla_absorbed`, `mla_cache` and `mla_decode`.

Sources: `spec/mla_definition.py`. The target's conventions decide how pairs of channels turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from attnspec.oracle.expected import Expected, expected, expected_gradients
from attnspec.oracle.law import Implementation, Inputs
from attnspec.spec import mla_definition
from attnspec.spec.definition import Definition
from attnspec.spec.mla_scores import Options

Array = np.ndarray[Any, Any]

WEIGHTS = ("w_dq", "w_uq", "w_qr", "w_dkv", "w_uk", "w_uv", "w_kr", "w_o")
"""In the order of the contract."""
DEFAULT_BASE = 10000.0
_SIZES = ("batch", "length", "width", "query_latent", "latent", "heads", "d", "e", "rotary")


def sizes(inputs: Inputs) -> dict[str, int]:
    """The sizes of a call, by the names of the definition."""
    w, x = inputs.arrays, inputs.arrays["x"]
    h = int(inputs.options.get("n_heads", 1))
    length = w["c_kv"].shape[1] if "c_kv" in w else x.shape[1]
    found = (
        x.shape[0], length, x.shape[2], w["w_dq"].shape[1], w["w_dkv"].shape[1], h,
        w["w_uk"].shape[1] // h, w["w_uv"].shape[1] // h, w["w_kr"].shape[1],
    )  # fmt: skip
    return dict(zip(_SIZES, map(int, found), strict=True))


def options(implementation: Implementation, inputs: Inputs) -> Options:
    """Conventions and options of a call."""
    return Options(
        layout=implementation.conventions["rope.layout"],
        direction=implementation.conventions["rope.direction"],
        causal=bool(inputs.options.get("causal", True)),
        scaling=implementation.contract.scaling,
    )


def base_of(inputs: Inputs) -> float:
    """The base of a call's frequencies."""
    return float(inputs.options.get("rope_base", DEFAULT_BASE))


def latent_attention(implementation: Implementation, inputs: Inputs) -> Expected:
    """The output of a call of `mla`, `mla_absorbed` or `mla_decode`: b n m."""
    return _expected(_definition(implementation, inputs), implementation, inputs)


def decoded_from_cache_of(
    implementation: Implementation, inputs: Inputs, cache: Mapping[str, Expected]
) -> Expected:
    """The output of `mla_decode` for any cache within these allowances."""
    definition = _definition(implementation, inputs)
    arrays = {**inputs.arrays, **{n: (c.value, c.allowance) for n, c in cache.items()}}
    return _expected(definition, implementation, replace(inputs, drawn=b""), arrays)


def cached(implementation: Implementation, inputs: Inputs) -> dict[str, Expected]:
    """Both results of `mla_cache`: c_kv, b n c, and k_rope, b n p."""
    plain = options(implementation, replace(inputs, options={}))
    made = {
        "c_kv": mla_definition.cached_latent(),
        "k_rope": mla_definition.cached_key(plain),
    }
    return {name: _expected(d, implementation, inputs) for name, d in made.items()}


def cached_latent(implementation: Implementation, inputs: Inputs) -> Expected:
    """The first result of `mla_cache`: b n c."""
    return _expected(mla_definition.cached_latent(), implementation, inputs)


def gradients(
    implementation: Implementation, inputs: Inputs, upstream: Array
) -> dict[str, Expected]:
    """The gradients of a call with respect to every array that its first result reads."""
    definition = _definition(implementation, inputs)
    names = tuple(str(array.label) for array in definition.arrays)
    given = {**inputs.arrays, "upstream": upstream}
    right = expected_gradients(
        definition, names, _parameters(definition, inputs), given, implementation.contract
    )
    return dict(zip(names, right, strict=True))


def _definition(implementation: Implementation, inputs: Inputs) -> Definition:
    asked = options(implementation, inputs)
    if inputs.component == "mla_cache":
        return mla_definition.cached_latent()
    if inputs.component == "mla_decode":
        return mla_definition.mla_decode(asked)
    if inputs.component == "mla_absorbed":
        return mla_definition.mla_absorbed(asked)
    return mla_definition.mla(asked)


def _parameters(definition: Definition, inputs: Inputs) -> dict[str, Any]:
    known: dict[str, Any] = {**sizes(inputs), "base": base_of(inputs)}
    return {str(p): known[str(p)] for p in definition.parameters}


def _expected(
    definition: Definition,
    implementation: Implementation,
    inputs: Inputs,
    arrays: Mapping[str, Any] | None = None,
) -> Expected:
    given = inputs.arrays if arrays is None else arrays
    read = {str(a.label): given[str(a.label)] for a in definition.arrays}
    return expected(definition, _parameters(definition, inputs), read, implementation.contract)
