"""Latent attention without keys and values that absorbs wrongly, or changes with absorption."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnspec.impls import mla as right
from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.mla_steps import Functions, Sizes, absorbed_by, fault
from attnspec.impls.mla import Weights, by_head, heads_of, rotated, weighed


def _fitted(x: Tensor, width: int) -> Tensor:
    """With so many channels: cut, or zeros behind."""
    return torch.nn.functional.pad(x, (0, max(width - x.shape[-1], 0)))[..., :width]


def _transposed_key(query: Tensor, w: Weights, s: Sizes) -> Tensor:
    """W_UK where its transpose belongs: right only where a head's block is symmetric."""
    blocks = heads_of(w["w_uk"], s.h).movedim(1, 0)
    wide = max(s.c, s.d)
    square = torch.nn.functional.pad(blocks, (0, wide - s.d, 0, wide - s.c))
    return _fitted(_fitted(query, wide) @ square, s.c)


def _reshaped_key(query: Tensor, w: Weights, s: Sizes) -> Tensor:
    """The columns of w_uk read as rows of heads: c (h d) seen as h d c."""
    return torch.einsum("bhtd,hdc->bhtc", query, w["w_uk"].reshape(s.h, s.d, s.c))


def _heads_outside(latents: Tensor, w: Weights, s: Sizes) -> Tensor:
    """c (h e) seen as h c e."""
    return torch.einsum("bhtc,hce->bhte", latents, w["w_uv"].reshape(s.h, s.c, s.e))


def _transposed_value(latents: Tensor, w: Weights, s: Sizes) -> Tensor:
    blocks = heads_of(w["w_uv"], s.h).movedim(1, 0)
    wide = max(s.c, s.e)
    square = torch.nn.functional.pad(blocks, (0, wide - s.e, 0, wide - s.c))
    return _fitted(_fitted(latents, wide) @ square.mT, s.e)


def _channels_first(latents: Tensor, w: Weights, s: Sizes) -> Tensor:
    return torch.einsum("bhtc,ceh->bhte", latents, w["w_uv"].reshape(s.c, s.e, s.h))


def _next_head(latents: Tensor, w: Weights, s: Sizes) -> Tensor:
    return torch.einsum("bhtc,che->bhte", latents, heads_of(w["w_uv"], s.h).roll(1, 1))


def _key_of_next_head(query: Tensor, w: Weights, s: Sizes) -> Tensor:
    return torch.einsum("bhtd,chd->bhtc", query, heads_of(w["w_uk"], s.h).roll(1, 1))


def _half_query(query: Tensor, w: Weights, s: Sizes) -> Tensor:
    made = torch.einsum("bhtd,chd->bhtc", query, heads_of(w["w_uk"], s.h))
    return made.to(torch.bfloat16).to(made.dtype)


def _latent_left_in_half(latents: Tensor, w: Weights, s: Sizes) -> Tensor:
    made = torch.einsum("bhtc,che->bhte", latents, heads_of(w["w_uv"], s.h))
    return made.to(torch.bfloat16).to(made.dtype)


def _turned_latent(latent: Tensor) -> Tensor:
    """The rotation of the position stream on the latent."""
    even = latent.shape[-1] // 2 * 2
    places = torch.arange(latent.shape[-2], device=latent.device)
    front = rotated(latent[..., :even], places, 10000.0) if even else latent[..., :0]
    return torch.cat((front, latent[..., even:]), -1)


def _last_channel_lost(latent: Tensor) -> Tensor:
    kept = torch.ones(latent.shape[-1], dtype=latent.dtype, device=latent.device)
    kept[-1] = 0.0
    return latent * kept


def _one_late(length: int, device: torch.device) -> Tensor:
    return torch.arange(1, length + 1, device=device)


def _rope_of_heads(x: Tensor, w: Weights, places: Tensor, base: float, s: Sizes) -> Tensor:
    return torch.stack([rotated(x @ w["w_kr"], places + k, base) for k in range(s.h)], 1)


def _backwards(a: Tensor, w: Weights, places: Tensor, base: float, s: Sizes) -> Tensor:
    return rotated(by_head(a @ w["w_qr"], s.h), -places, base)


def _one_more(scores: Tensor, s: Sizes) -> Tensor:
    if not s.causal:
        return weighed(scores, causal=False)
    later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(2)
    return torch.softmax(scores.masked_fill(later, -torch.inf), -1)


def _over_heads(scores: Tensor, s: Sizes) -> Tensor:
    """The largest score of all heads is taken away from each, and sums are over heads too."""
    if s.causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(later, -torch.inf)
    raised = torch.exp(scores - scores.amax((1, 3), keepdim=True))
    return raised / raised.sum((1, 3), keepdim=True) * s.h


def _mixed(x: Tensor, w: Weights) -> Tensor:
    latent = x @ w["w_dkv"]
    return latent + 2.0**-6 * latent.roll(1, 0)


def _plain(change: Callable[..., Tensor]) -> Functions:
    def mla_absorbed(
        x: Tensor, weights: Weights, *, n_heads: int, causal: bool = True,
        rope_base: float = 10000.0,
    ) -> Tensor:  # fmt: skip
        return change(x, weights, n_heads=n_heads, causal=causal, rope_base=rope_base)

    return lambda: {"mla_absorbed": mla_absorbed, "mla": right.mla}


def _in_place(x: Tensor, weights: Weights, **options: Any) -> Tensor:
    found = right.mla_absorbed(x, weights, **options)
    if not x.requires_grad:
        x.mul_(1.0 + 2.0**-7)
    return found


def _merged_by_shape() -> dict[str, Any]:
    merged: dict[Any, Tensor] = {}

    def mla_absorbed(
        x: Tensor, weights: Weights, *, n_heads: int, causal: bool = True,
        rope_base: float = 10000.0,
    ) -> Tensor:  # fmt: skip
        def left(latents: Tensor, w: Weights, s: Sizes) -> Tensor:
            key = (tuple(w["w_uv"].shape), s.h, w["w_uv"].dtype)
            kept = merged.setdefault(key, w["w_uv"].detach().clone())
            up = w["w_uv"] + (kept - w["w_uv"]).detach()
            return torch.einsum("bhtc,che->bhte", latents, heads_of(up, s.h))

        made = absorbed_by(left=left)()["mla_absorbed"]
        found: Tensor = made(x, weights, n_heads=n_heads, causal=causal, rope_base=rope_base)
        return found

    return {"mla_absorbed": mla_absorbed, "mla": right.mla}


def _row(identity: str, kind: str, reason: str, remedy: str, law: str, made: Functions,
         **more: Any) -> Fault:  # fmt: skip
    return fault("mla_absorbed", identity, kind, reason, remedy, law, made, **more)


_SCALE = "Scale scores by (d + p) ** -0.5: absorption changes the order of products alone."
_WIDE = {"activations": "float32"}

FAULTS: tuple[Fault, ...] = (
    _row("scale_of_latent", "K05", "scores are scaled by the width of what is multiplied, "
         "(c + p)^-0.5", _SCALE, "scale_read_off", absorbed_by(scale=lambda s: (s.c + s.p) ** -0.5),
         report="ollama/ollama #13893"),
    _row("scale_of_content", "K05", "scores are scaled by d^-0.5", _SCALE, "scale_read_off",
         absorbed_by(scale=lambda s: s.d**-0.5)),
    _row("scale_of_latent_alone", "K05", "scores are scaled by c^-0.5", _SCALE, "eq_mla",
         absorbed_by(scale=lambda s: s.c**-0.5)),
    _row("key_transposed", "K07", "queries are multiplied by W_UK in place of its transpose",
         "Contract each head's d channels: q W_UK^T.", "widths_apart",
         absorbed_by(absorbed_query=_transposed_key)),
    _row("key_reshaped", "K07", "the columns of w_uk are read as its rows",
         "Split w_uk as c, h, d and contract d.", "eq_mla",
         absorbed_by(absorbed_query=_reshaped_key)),
    _row("key_of_next_head", "K07", "queries are absorbed with the next head's W_UK",
         "Absorb each head with its own columns of w_uk.", "eq_mla",
         absorbed_by(absorbed_query=_key_of_next_head)),
    _row("value_heads_outside", "K07", "w_uv is split as h, c, e", "Split w_uv as c, h, e.",
         "eq_mla", absorbed_by(left=_heads_outside)),
    _row("value_transposed", "K07", "weighted latents are multiplied by the transpose of W_UV",
         "Multiply each head's weighted latent by its W_UV.", "widths_apart",
         absorbed_by(left=_transposed_value)),
    _row("value_channels_first", "K07", "columns of w_uv are split with the heads inside",
         "Split packed columns as (head, channel).", "heads_in_any_order",
         absorbed_by(left=_channels_first)),
    _row("value_of_next_head", "K07", "weighted latents are multiplied by the next head's W_UV",
         "Take each head's own columns of w_uv.", "eq_mla", absorbed_by(left=_next_head)),
    _row("query_in_bfloat16", "K13", "the absorbed query is rounded to bfloat16",
         "Keep it in the dtype that the contract promises.", "matches_oracle",
         absorbed_by(absorbed_query=_half_query), precision=_WIDE,
         dtypes=("float32", "float64")),
    _row("heads_in_bfloat16", "K13", "head outputs are rounded to bfloat16",
         "Keep them in the dtype that the contract promises.", "matches_oracle",
         absorbed_by(left=_latent_left_in_half), precision=_WIDE,
         dtypes=("float32", "float64")),
    _row("rope_on_latent", "K11", "the latent is rotated, so that no one matrix absorbs",
         "Rotate the position stream alone; the latent has no position.",
         "content_without_position", absorbed_by(seen=_turned_latent)),
    _row("latent_cut", "K25", "the last channel of the latent is left out",
         "Contract all c channels of the latent.", "bases_are_free",
         absorbed_by(seen=_last_channel_lost)),
    _row("latent_normed", "K19", "the latent is normalised before it is absorbed",
         "Use x w_dkv as it is.", "bases_are_free",
         absorbed_by(seen=lambda latent: latent * torch.rsqrt(
             latent.square().mean(-1, keepdim=True) + 1e-6))),
    _row("latent_not_shared", "K20", "the latent has something of the query latent in it",
         "Make the latent of x w_dkv alone.", "only_latents_are_seen",
         absorbed_by(latent=lambda x, w: x @ (w["w_dkv"] + 0.25 * w["w_dq"].mean(
             1, keepdim=True)))),
    _row("key_positions_one_late", "K09", "keys are rotated by one position more than queries",
         "Start the positions of queries and keys at the same number.", "tokens_backwards",
         absorbed_by(key_places=_one_late)),
    _row("rope_by_head", "K09", "the rotary key is turned by another angle for every head",
         "Share one rotary key a token among the heads.", "heads_in_any_order",
         absorbed_by(rotary_key=_rope_of_heads)),
    _row("queries_turn_backwards", "K10", "rotary queries turn against their keys",
         "Turn both by plus their position.", "tokens_backwards",
         absorbed_by(rotary_query=_backwards)),
    _row("pairs_scaled", "K10", "the second channels of a query's pairs are left out",
         "Rotate pairs of channels as a whole.", "quarter_turn",
         absorbed_by(rotary_query=lambda a, w, places, base, s: rotated(
             by_head(a @ w["w_qr"], s.h), places, base)
             * (1.0 - torch.arange(s.p, device=a.device) % 2))),
    _row("positions_left_out", "K20", "the position stream is left out of scores",
         "Add the products of the position stream.", "eq_mla",
         absorbed_by(positions=lambda products: 0.0 * products)),
    _row("base_ignored", "K11", "the base of the rotation is always 10000", "Use rope_base.",
         "matches_oracle", absorbed_by(base=lambda base: 10000.0)),
    _row("one_token_more", "K01", "a query sees one token more",
         "Hide the tokens after the query.", "future_changes_nothing",
         absorbed_by(weighed=_one_more)),
    _row("softmax_over_heads", "K30", "numerators are added up over heads and keys",
         "Normalise over the keys of each head.", "matches_oracle",
         absorbed_by(weighed=_over_heads)),
    _row("last_token_sees_less", "K01", "softmax is taken over the queries",
         "Take softmax over the keys, the last axis of scores.", "prefix",
         absorbed_by(weighed=lambda scores, s: weighed(scores, causal=s.causal)
                     / weighed(scores, causal=s.causal).sum(-2, keepdim=True))),
    _row("entries_mixed", "K04", "latents have something of another batch entry",
         "Compute each batch entry from its own numbers.", "entry_alone",
         absorbed_by(latent=_mixed)),
    _row("neighbours_leak", "K04", "weighted latents have something of another batch entry",
         "Compute each batch entry from its own numbers.", "others_change_nothing",
         absorbed_by(seen=lambda latent: latent + 2.0**-6 * latent.roll(1, 0))),
    _row("in_place", "K29", "x is scaled in place", "Leave what is handed over as it is.",
         "inputs_unchanged", _plain(_in_place)),
    _row("merged_weights_kept", "K29", "merged weights are kept by their shape",
         "Merge the weights of the call.", "no_memory", _merged_by_shape),
    _row("empty_flattened", "K25", "an empty batch loses its axes",
         "Return b n m for a batch of nothing too.", "empty_batch",
         _plain(lambda x, weights, **options: right.mla_absorbed(x, weights, **options)
                if len(x) else x.new_zeros(0))),
    _row("result_in_float32", "K13", "the result is float32 whatever the dtype of x",
         "Return the dtype of x.", "output_form",
         _plain(lambda x, weights, **options: right.mla_absorbed(
             x.float(), {n: v.float() for n, v in weights.items()}, **options)),
         dtypes=("float64", "bfloat16", "float16")),
)  # fmt: skip
