"""The laws of latent attention on functions that are in no catalogue: right ones of other styles,
which pass, and wrong ones, which don't."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from attnspec.impls import mla as right
from attnspec.loading import load
from attnspec.subject import Subject
from attnspec.target import Target
from tests.rejecting import rejections

Weights = Mapping[str, Tensor]


def subject(component: str, function: Callable[..., Any], dtype: str = "float32", *,
            strict: bool = True) -> Subject:  # fmt: skip
    declared = Target(precision="strict" if strict else "eager")
    functions = {"mla": right.mla, "mla_cache": right.mla_cache, component: function}
    return Subject(load(SimpleNamespace(TARGET=declared, **functions)), component, dtype)


def pieces(x: Tensor, w: Weights, h: int, base: float) -> tuple[Tensor, ...]:
    """Query latent, latent, rotated queries and the rotated key, in the dtype of x."""
    places = torch.arange(x.shape[1])
    asking, latent = x @ w["w_dq"], x @ w["w_dkv"]
    wide = right.widened
    query_r = right.rotated(wide(right.by_head(asking @ w["w_qr"], h)), places, base)
    key_r = right.rotated(wide(x @ w["w_kr"]), places, base)
    return asking, latent, query_r.to(x.dtype), key_r.to(x.dtype)


def by_sdpa(x: Tensor, weights: Weights, *, n_heads: int, causal: bool = True,
            rope_base: float = 10000.0) -> Tensor:  # fmt: skip
    """Both streams side by side, through torch's attention, which knows no scale of two widths."""
    asking, latent, query_r, key_r = pieces(x, weights, n_heads, rope_base)
    query = torch.cat((right.by_head(asking @ weights["w_uq"], n_heads), query_r), -1)
    shared = key_r.unsqueeze(1).expand(-1, n_heads, -1, -1)
    key = torch.cat((right.by_head(latent @ weights["w_uk"], n_heads), shared), -1)
    value = right.by_head(latent @ weights["w_uv"], n_heads)
    heads = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=causal)
    return right.side_by_side(heads) @ weights["w_o"]


def merged(x: Tensor, weights: Weights, *, n_heads: int, causal: bool = True,
           rope_base: float = 10000.0) -> Tensor:  # fmt: skip
    """Both up-projections multiplied beforehand, and values with the output projection."""
    asking, latent, query_r, key_r = pieces(x, weights, n_heads, rope_base)
    up_q, up_k, up_v = (
        right.heads_of(weights[n], n_heads).movedim(1, 0) for n in ("w_uq", "w_uk", "w_uv")
    )
    query = asking.unsqueeze(1) @ (up_q @ up_k.mT)
    scores = right.over_tokens(query, latent) + right.over_tokens(query_r, key_r)
    scale = (up_k.shape[-1] + key_r.shape[-1]) ** -0.5
    shares = right.weighed((scores * scale).float() if x.dtype != torch.float64 else scores * scale,
                           causal=causal).to(x.dtype)  # fmt: skip
    out = weights["w_o"].reshape(n_heads, -1, weights["w_o"].shape[1])
    latents = right.over_tokens(shares, latent.mT)
    return (latents @ (up_v @ out)).sum(1)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_right_functions_in_other_styles_pass(dtype: str) -> None:
    assert rejections(subject("mla", by_sdpa, dtype, strict=False), 6) == {}
    assert rejections(subject("mla_absorbed", merged, dtype, strict=False), 6) == {}


def only_square(x: Tensor, weights: Weights, *, n_heads: int, causal: bool = True,
                rope_base: float = 10000.0) -> Tensor:  # fmt: skip
    """W_UK where its transpose belongs, wherever that has a shape at all: where c = d."""
    c, packed = weights["w_uk"].shape
    if packed // n_heads != c:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")
    blocks = right.heads_of(weights["w_uk"], n_heads).transpose(0, 2).flatten(1)
    swapped = {**weights, "w_uk": blocks}
    return right.mla_absorbed(x, swapped, n_heads=n_heads, causal=causal, rope_base=rope_base)


def sum_of_both_scales(x: Tensor, weights: Weights, *, n_heads: int, causal: bool = True,
                       rope_base: float = 10000.0) -> Tensor:  # fmt: skip
    """Each stream scaled by its own width."""
    d, p = weights["w_uk"].shape[1] // n_heads, weights["w_kr"].shape[1]
    ratio = (d + p) ** 0.5
    scaled = {
        **weights,
        "w_uq": weights["w_uq"] * (ratio * d**-0.5),
        "w_qr": weights["w_qr"] * (ratio * p**-0.5),
    }
    return right.mla(x, scaled, n_heads=n_heads, causal=causal, rope_base=rope_base)


def one_token_more(x: Tensor, cache: Any, weights: Weights, *, n_heads: int,
                       rope_base: float = 10000.0) -> Tensor:  # fmt: skip
    """The first token is in the cache twice, and the newest sits one position later."""
    longer = [torch.cat((part, part[:, :1]), 1) for part in cache]
    return right.mla_decode(x, (longer[0], longer[1]), weights, n_heads=n_heads,
                            rope_base=rope_base)  # fmt: skip


@pytest.mark.parametrize(
    ("component", "wrong", "laws"),
    [
        ("mla_absorbed", only_square, {"widths_apart", "eq_mla"}),
        ("mla", sum_of_both_scales, {"matches_oracle", "scale_read_off"}),
        ("mla_decode", one_token_more, {"matches_oracle", "eq_prefill"}),
    ],
)
def test_wrong_functions_of_no_catalogue_are_rejected(
    component: str, wrong: Callable[..., Any], laws: set[str]
) -> None:
    found = rejections(subject(component, wrong), 12)
    assert laws <= found.keys(), found
