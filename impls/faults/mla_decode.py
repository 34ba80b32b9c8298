"""Decoding of latent attention that reads its cache, its position or its weights wrongly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from attnspec.impls import mla as right
from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.mla_steps import Functions, fault
from attnspec.impls.faults.views import overwrite
from attnspec.impls.mla import Weights, by_head, heads_of, over_tokens, rotated, side_by_side
from attnspec.impls.rope import turned_halves


@dataclass(frozen=True)
class Steps:
    """One function for each step, the right one unless it is exchanged."""

    place: Callable[[int], int] = lambda length: length - 1
    """The newest token's position."""
    latents: Callable[[Tensor], Tensor] = lambda latent: latent
    keys: Callable[[Tensor], Tensor] = lambda keys: keys
    seen: Callable[[Tensor], Tensor] = lambda scores: scores
    """`b h 1 n` scores."""
    scale: Callable[[int, int, int], float] = lambda d, p, c: float((d + p) ** -0.5)
    turned: Callable[[Tensor, int, float], Tensor] = lambda query, place, base: rotated(
        query, torch.full((1,), place, device=query.device), base
    )
    up_key: Callable[[Tensor, int], Tensor] = heads_of
    """`c (h d)` to `c h d`."""
    up_value: Callable[[Tensor, int], Tensor] = heads_of
    read: Callable[[Tensor], Tensor] = lambda latent: latent
    """The latents as values are made of them."""
    heads: Callable[[Tensor], Tensor] = lambda heads: heads
    base: Callable[[float], float] = lambda base: base


def decoded_by(**changed: Any) -> Functions:
    """`mla_decode` with some steps exchanged, beside right ones of the others."""
    steps = replace(Steps(), **changed)

    def mla_decode(
        x: Tensor, cache: tuple[Tensor, Tensor], weights: Weights, *, n_heads: int,
        rope_base: float = 10000.0,
    ) -> Tensor:  # fmt: skip
        wide, w = right.widened(x), right.all_widened(weights, x)
        latent = steps.latents(right.widened(cache[0]))
        key_r = steps.keys(right.widened(cache[1]))
        asking = wide @ w["w_dq"]
        query = by_head(asking @ w["w_uq"], n_heads)
        place = steps.place(latent.shape[1])
        query_r = steps.turned(by_head(asking @ w["w_qr"], n_heads), place, steps.base(rope_base))
        absorbed = torch.einsum("bhtd,chd->bhtc", query, steps.up_key(w["w_uk"], n_heads))
        scores = over_tokens(absorbed, latent) + over_tokens(query_r, key_r)
        scale = steps.scale(query.shape[-1], query_r.shape[-1], latent.shape[-1])
        shares = torch.softmax(steps.seen(scores * scale), -1)
        weighted = over_tokens(shares, steps.read(latent).mT)
        made = torch.einsum("bhtc,che->bhte", weighted, steps.up_value(w["w_uv"], n_heads))
        return (side_by_side(steps.heads(made)) @ w["w_o"]).to(x.dtype)

    return lambda: {"mla_decode": mla_decode, "mla": right.mla, "mla_cache": right.mla_cache}


def _as_heads_first(weight: Tensor, n_heads: int) -> Tensor:
    """c (h d) seen as h c d."""
    return weight.reshape(n_heads, weight.shape[0], -1).movedim(0, 1)


def _as_rows(weight: Tensor, n_heads: int) -> Tensor:
    """c (h d) seen as h d c."""
    return weight.reshape(n_heads, -1, weight.shape[0]).permute(2, 0, 1)


def _first_only(weight: Tensor, n_heads: int) -> Tensor:
    return heads_of(weight, n_heads)[:, :1].expand(-1, n_heads, -1)


def _normed(latent: Tensor) -> Tensor:
    return latent * torch.rsqrt(latent.square().mean(-1, keepdim=True) + 1e-6)


def _hidden_at(index: int) -> Callable[[Tensor], Tensor]:
    """The entry at an end of the cache hidden, if there are others."""

    def hide(scores: Tensor) -> Tensor:
        if scores.shape[-1] == 1:
            return scores
        mask = torch.zeros(scores.shape[-1], dtype=torch.bool, device=scores.device)
        mask[index] = True
        return scores.masked_fill(mask, -torch.inf)

    return hide


def _rotated_again(keys: Tensor) -> Tensor:
    return rotated(keys, torch.arange(keys.shape[1], device=keys.device), 10000.0)


def _rotated_latent(latent: Tensor) -> Tensor:
    even = latent.shape[-1] // 2 * 2
    if not even:
        return latent
    places = torch.arange(latent.shape[1], device=latent.device)
    return torch.cat((rotated(latent[..., :even], places, 10000.0), latent[..., even:]), -1)


def _by_head_turned(query: Tensor, place: int, base: float) -> Tensor:
    places = place + torch.arange(query.shape[1], device=query.device)
    turned = [rotated(query[:, k : k + 1], places[k : k + 1], base) for k in range(len(places))]
    return torch.cat(turned, 1)


def _second_left(query: Tensor, place: int, base: float) -> Tensor:
    turned = rotated(query, torch.full((1,), place, device=query.device), base)
    return torch.where(torch.arange(query.shape[-1], device=query.device) % 2 == 0, turned, query)


def _halves(query: Tensor, place: int, base: float) -> Tensor:
    return rotated(query, torch.full((1,), place, device=query.device), base, turned_halves)


def _half(x: Tensor) -> Tensor:
    return x.to(torch.float16).to(x.dtype)


def _plain(change: Callable[..., Tensor]) -> Functions:
    def mla_decode(
        x: Tensor, cache: tuple[Tensor, Tensor], weights: Weights, *, n_heads: int,
        rope_base: float = 10000.0,
    ) -> Tensor:  # fmt: skip
        return change(x, cache, weights, n_heads=n_heads, rope_base=rope_base)

    return lambda: {"mla_decode": mla_decode}


def _in_place(x: Tensor, cache: tuple[Tensor, Tensor], weights: Weights, **options: Any) -> Tensor:
    found = right.mla_decode(x, cache, weights, **options)
    if not cache[1].requires_grad:
        overwrite(cache[1], cache[1].roll(1, -1) + 1.0)
    return found


def _flattened(x: Tensor, cache: Any, weights: Weights, **options: Any) -> Tensor:
    return right.mla_decode(x, cache, weights, **options) if len(x) else x.new_zeros(0)


def _wide(x: Tensor, cache: Any, weights: Weights, **options: Any) -> Tensor:
    wide = {name: weight.float() for name, weight in weights.items()}
    return right.mla_decode(x.float(), tuple(part.float() for part in cache), wide, **options)


def _first_cache() -> dict[str, Any]:
    kept: dict[Any, Tensor] = {}

    def mla_decode(
        x: Tensor, cache: tuple[Tensor, Tensor], weights: Weights, *, n_heads: int,
        rope_base: float = 10000.0,
    ) -> Tensor:  # fmt: skip
        """Latents that are projected up once are kept by the number of tokens."""
        up = weights["w_uv"]
        merged = kept.setdefault((tuple(up.shape), up.dtype), up.detach().clone())
        used = {**weights, "w_uv": (up + (merged - up).detach()).to(up.dtype)}
        return right.mla_decode(x, cache, used, n_heads=n_heads, rope_base=rope_base)

    return {"mla_decode": mla_decode}


def _row(identity: str, kind: str, reason: str, remedy: str, law: str, made: Functions,
         **more: Any) -> Fault:  # fmt: skip
    return fault("mla_decode", identity, kind, reason, remedy, law, made, **more)


_SCALE = "Scale scores by (d + p) ** -0.5, as prefill does."
_PLACE = "Rotate the newest query by its position, the length of the cache less 1."
_WIDE = {"activations": "float32"}

FAULTS: tuple[Fault, ...] = (
    _row("scale_of_latent", "K05", "scores are scaled by the width of what is multiplied, "
         "(c + p)^-0.5", _SCALE, "scale_read_off",
         decoded_by(scale=lambda d, p, c: (c + p) ** -0.5), report="ollama/ollama #13893"),
    _row("scale_of_content", "K05", "scores are scaled by d^-0.5", _SCALE, "scale_read_off",
         decoded_by(scale=lambda d, p, c: d**-0.5)),
    _row("position_one_late", "K09", "the newest query is rotated by the length of the cache",
         _PLACE, "matches_oracle", decoded_by(place=lambda length: length)),
    _row("position_of_first", "K09", "the newest query is rotated by position 1 at most", _PLACE,
         "matches_oracle", decoded_by(place=lambda length: min(length - 1, 1))),
    _row("position_not_turned", "K09", "the newest query is not rotated", _PLACE, "eq_prefill",
         decoded_by(turned=lambda query, place, base: query)),
    _row("rope_by_head", "K09", "the newest query is rotated by another position in every head",
         _PLACE, "heads_in_any_order", decoded_by(turned=_by_head_turned)),
    _row("key_rotated_again", "K09", "cached keys are rotated once more",
         "Use cached keys as they are.", "matches_oracle", decoded_by(keys=_rotated_again)),
    _row("halves", "K10", "pairs of the query are its halves, those of the cache neighbours",
         "Take the same pairs in prefill and in decoding.", "eq_prefill",
         decoded_by(turned=_halves), report="huggingface/transformers #39687"),
    _row("second_channels_left", "K10", "the second channels of the query's pairs are not turned",
         "Rotate pairs as a whole.", "quarter_turn", decoded_by(turned=_second_left)),
    _row("base_ignored", "K11", "the base of the rotation is always 10000", "Use rope_base.",
         "matches_oracle", decoded_by(base=lambda base: 10000.0)),
    _row("newest_left_out", "K08", "the newest token does not see itself",
         "See all that is cached: the newest token is in it.", "matches_oracle",
         decoded_by(seen=_hidden_at(-1))),
    _row("first_left_out", "K08", "the first entry of the cache is not seen",
         "See all that is cached.", "entries_in_any_order", decoded_by(seen=_hidden_at(0))),
    _row("latent_rotated", "K11", "cached latents are rotated by their place",
         "Rotate the position stream alone.", "entries_in_any_order",
         decoded_by(latents=_rotated_latent)),
    _row("latent_normed", "K19", "cached latents are normalised", "Use them as they are.",
         "bases_are_free", decoded_by(latents=_normed), report="huggingface/transformers #44261"),
    _row("latent_in_half", "K13", "cached latents are rounded to float16",
         "Keep them in the dtype that the contract promises.", "matches_oracle",
         decoded_by(latents=_half), precision=_WIDE, dtypes=("float32", "float64")),
    _row("sums_in_half", "K13", "head outputs are rounded to float16",
         "Keep them in the dtype that the contract promises.", "matches_oracle",
         decoded_by(heads=_half), precision=_WIDE, dtypes=("float32", "float64")),
    _row("key_reshaped", "K07", "the columns of w_uk are read as its rows",
         "Split w_uk as c, h, d.", "widths_apart", decoded_by(up_key=_as_rows)),
    _row("value_heads_outside", "K07", "w_uv is split as h, c, e", "Split w_uv as c, h, e.",
         "widths_apart", decoded_by(up_value=_as_heads_first)),
    _row("values_of_first_head", "K07", "every head has the values of the first",
         "Give each head its columns of w_uv.", "heads_in_any_order",
         decoded_by(up_value=_first_only)),
    _row("entries_mixed", "K04", "latents have something of another batch entry",
         "Compute each batch entry from its own numbers.", "entry_alone",
         decoded_by(latents=lambda latent: latent + 2.0**-4 * latent.roll(1, 0))),
    _row("cache_in_place", "K29", "cached keys are rotated in place",
         "Leave the cache as it is.", "inputs_unchanged", _plain(_in_place)),
    _row("cache_of_first_call", "K29", "w_uv is kept from the first call of its shape",
         "Use the weights of the call.", "no_memory", _first_cache),
    _row("result_in_float32", "K13", "the result is float32 whatever the dtype of x",
         "Return the dtype of x.", "output_form", _plain(_wide),
         dtypes=("float64", "bfloat16", "float16")),
    _row("empty_flattened", "K25", "an empty batch loses its axes",
         "Return b 1 m for a batch of nothing too.", "empty_batch", _plain(_flattened)),
    _row("gradient_of_latent_missing", "K21", "cached latents are taken out of the graph",
         "Let gradients reach the cache.", "gradients_match_oracle",
         decoded_by(latents=lambda latent: latent.detach())),
    _row("gradient_of_latent_by_keys_alone", "K21", "latents that values are made of are taken "
         "out of the graph", "Add up what keys and values send back to the latent.",
         "gradients_match_oracle", decoded_by(read=lambda latent: latent.detach())),
    _row("gradient_of_values_halved", "K22", "half of the gradient of w_uv is lost",
         "Multiply the weighted latents by what heads send back.", "gradients_along",
         decoded_by(up_value=lambda weight, n: heads_of(0.5 * weight + 0.5 * weight.detach(), n))),
)  # fmt: skip
