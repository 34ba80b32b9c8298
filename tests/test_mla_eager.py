"""Allowances of multi-head latent attention against eager code in several orders of products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from attnspec.oracle.expected import expected
from attnspec.oracle.precision import EVALUATION, contract, snapped
from attnspec.spec.mla_definition import mla, mla_absorbed
from attnspec.spec.mla_scores import Options
from tests.mla_loops import Sizes, drawn, key_of

Array = np.ndarray[Any, Any]


FORMS = (
    "built, concatenated",
    "built, added",
    "absorbed, concatenated",
    "absorbed, added",
    "merged",
)


def eager(given: dict[str, Array], sizes: Sizes, dtype: str, form: str, scale: float) -> Array:
    """Causal multi-head latent attention in torch, interleaved."""
    kind = getattr(torch, dtype)
    at = {name: torch.from_numpy(array).to(kind) for name, array in given.items()}
    b, n, _ = at["x"].shape
    h, p = sizes["heads"], sizes["rotary"]

    def heads(x: Any) -> Any:
        return x.reshape(*x.shape[:-1], h, -1).movedim(-2, 1)

    asking, latent = at["x"] @ at["w_dq"], at["x"] @ at["w_dkv"]
    q_r = _rotated(heads(asking @ at["w_qr"]), sizes)
    k_r = _rotated((at["x"] @ at["w_kr"])[:, None], sizes)
    up_q, up_k, up_v = (
        at[name].reshape(at[name].shape[0], h, -1).movedim(1, 0)
        for name in ("w_uq", "w_uk", "w_uv")
    )
    out = at["w_o"].reshape(h, -1, at["w_o"].shape[-1])
    if form.startswith("built"):
        q, k, v = heads(asking @ at["w_uq"]), heads(latent @ at["w_uk"]), heads(latent @ at["w_uv"])
    elif form == "merged":
        q, k = asking[:, None] @ (up_q @ up_k.mT), latent[:, None]
    else:
        q, k = heads(asking @ at["w_uq"]) @ up_k.mT, latent[:, None]
    if form.endswith("concatenated"):
        keys = torch.cat([k.expand(b, h, n, -1), k_r.expand(b, h, n, p)], -1)
        scores = torch.cat([q, q_r], -1) @ keys.mT
    else:
        scores = q @ k.mT + q_r @ k_r.mT
    hidden = torch.ones(n, n, dtype=torch.bool).triu(1)
    weights = torch.softmax((scores * scale).masked_fill(hidden, -torch.inf), -1)
    if form.startswith("built"):
        made = (weights @ v).movedim(1, 2).reshape(b, n, -1) @ at["w_o"]
    elif form == "merged":
        latents = (weights @ latent[:, None]).movedim(1, 2).reshape(b, n, -1)
        made = latents @ (up_v @ out).reshape(-1, out.shape[-1])
    else:
        made = (weights @ latent[:, None] @ up_v).movedim(1, 2).reshape(b, n, -1) @ at["w_o"]
    result: Array = made.to(torch.float64).numpy()
    return result


def _rotated(x: Any, sizes: Sizes) -> Any:
    p = sizes["rotary"]
    kind = torch.float64 if x.dtype == torch.float64 else torch.float32
    exponents = torch.arange(0, p, 2, dtype=kind) / p
    angles = torch.arange(x.shape[-2], dtype=kind)[:, None] * sizes["base"] ** -exponents
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., ::2], x[..., 1::2]
    pair = torch.stack([first * cos - second * sin, second * cos + first * sin], -1)
    return pair.flatten(-2)


def _snapped(seed: int, dtype: str) -> tuple[Sizes, dict[str, Array]]:
    sizes, arrays = drawn(seed)
    # latents and heads of order 1, so that allowances stay below the values
    return sizes, {
        name: snapped(a if name == "x" else a / np.sqrt(a.shape[0]), dtype)
        for name, a in arrays.items()
    }


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("form", FORMS)
def test_eager_code_is_within_the_allowance(form: str, dtype: str) -> None:
    make = mla if form.startswith("built") else mla_absorbed
    for seed in range(8):
        sizes, given = _snapped(seed, dtype)
        scale = (sizes["d"] + sizes["rotary"]) ** -0.5
        found = eager(given, sizes, dtype, form, scale)
        definition = make(Options())
        right = expected(definition, dict(key_of(definition, sizes)), given, contract(dtype))
        assert (np.abs(found - right.value) <= right.allowance * (1 + EVALUATION)).all()


@pytest.mark.parametrize("form", FORMS)
def test_a_scale_of_the_absorbed_width_is_seen(form: str) -> None:
    """The dot product over latents has c + p terms, and the scale must not follow them."""
    make = mla if form.startswith("built") else mla_absorbed
    seen = 0
    for seed in range(8):
        sizes, given = _snapped(seed, "float32")
        found = eager(given, sizes, "float32", form, (sizes["latent"] + sizes["rotary"]) ** -0.5)
        definition = make(Options())
        right = expected(definition, dict(key_of(definition, sizes)), given, contract("float32"))
        seen += bool((np.abs(found - right.value) > right.allowance).any())
    alone = sum(drawn(seed)[0]["length"] == 1 for seed in range(8))
    assert seen == 8 - alone
