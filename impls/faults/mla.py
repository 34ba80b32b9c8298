"""Latent attention with every key and value built, and a wrong scale, latent, head or position."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnspec.impls import mla as right
from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.mla_steps import Functions, Sizes, built_by, fault
from attnspec.impls.mla import Weights, by_head, rotated, weighed
from attnspec.impls.rope import turned_halves


def _normed(latent: Tensor) -> Tensor:
    return latent * torch.rsqrt(latent.square().mean(-1, keepdim=True) + 1e-6)


def _half(x: Tensor) -> Tensor:
    return x.to(torch.float16).to(x.dtype)


def _turned_content(content: Tensor) -> Tensor:
    """The first even number of channels rotated by the token's place."""
    even = content.shape[-1] // 2 * 2
    if not even:
        return content
    places = torch.arange(content.shape[-2], device=content.device)
    front = rotated(content[..., :even], places, 10000.0)
    return torch.cat((front, content[..., even:]), -1)


def _inner_heads(x: Tensor, heads: int) -> Tensor:
    return x.reshape(*x.shape[:-1], x.shape[-1] // heads, heads).movedim(-1, 1)


def _key_of_heads(x: Tensor, w: Weights, places: Tensor, base: float, s: Sizes) -> Tensor:
    """Each head's key turned once more than that of the head before."""
    return torch.stack([rotated(x @ w["w_kr"], places + k, base) for k in range(s.h)], 1)


def _halves(x: Tensor, places: Tensor, base: float) -> Tensor:
    return rotated(x, places, base, turned_halves)


def _from_end(length: int, device: torch.device) -> Tensor:
    return torch.arange(1 - length, 1, device=device)


def _one_late(length: int, device: torch.device) -> Tensor:
    return torch.arange(1, length + 1, device=device)


def _strictly(scores: Tensor, s: Sizes) -> Tensor:
    """A query does not see its own token, unless it is the first."""
    if not s.causal:
        return weighed(scores, causal=False)
    later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(0)
    later[0, 0] = False
    return torch.softmax(scores.masked_fill(later, -torch.inf), -1)


def _one_more(scores: Tensor, s: Sizes) -> Tensor:
    if not s.causal:
        return weighed(scores, causal=False)
    later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(2)
    return torch.softmax(scores.masked_fill(later, -torch.inf), -1)


def _over_queries(scores: Tensor, s: Sizes) -> Tensor:
    if s.causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(later, -torch.inf)
    return torch.softmax(scores, -2)


def _hidden_weighed(scores: Tensor, s: Sizes) -> Tensor:
    """Later tokens are hidden by a number that is not small enough."""
    if not s.causal:
        return weighed(scores, causal=False)
    later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
    return torch.softmax(scores.masked_fill(later, -8.0), -1)


def _mixed_entries(x: Tensor, w: Weights) -> Tensor:
    latent = x @ w["w_dkv"]
    return latent - latent.mean(0, keepdim=True) * 2.0**-6


def _first_of_entries(x: Tensor, w: Weights) -> Tensor:
    latent = x @ w["w_dkv"]
    return torch.cat((latent[:1].expand_as(latent)[:, :1], latent[:, 1:]), 1)


def _in_place(x: Tensor, weights: Weights, *, n_heads: int, causal: bool = True,
              rope_base: float = 10000.0) -> Tensor:  # fmt: skip
    found = right.mla(x, weights, n_heads=n_heads, causal=causal, rope_base=rope_base)
    if not x.requires_grad:
        x.mul_(1.0 + 2.0**-7)
    return found


def _weights_replaced(x: Tensor, weights: Any, *, n_heads: int, causal: bool = True,
                      rope_base: float = 10000.0) -> Tensor:  # fmt: skip
    found = right.mla(x, weights, n_heads=n_heads, causal=causal, rope_base=rope_base)
    weights["w_dkv_kr"] = torch.cat((weights["w_dkv"], weights["w_kr"]), 1)
    return found


def _weights_of_first_call() -> dict[str, Any]:
    merged: dict[Any, Tensor] = {}

    def mla(x: Tensor, weights: Weights, *, n_heads: int, causal: bool = True,
            rope_base: float = 10000.0) -> Tensor:  # fmt: skip
        key = (tuple(weights["w_uk"].shape), weights["w_uk"].dtype)
        kept = merged.setdefault(key, weights["w_uk"].detach().clone())
        own = weights["w_uk"] + (kept - weights["w_uk"]).detach()
        own = own.to(weights["w_uk"].dtype)
        return right.mla(x, {**weights, "w_uk": own}, n_heads=n_heads, causal=causal,
                         rope_base=rope_base)  # fmt: skip

    return {"mla": mla}


def _plain(function: Any) -> Functions:
    return lambda: {"mla": function}


def _row(identity: str, kind: str, reason: str, remedy: str, law: str, made: Functions,
         **more: Any) -> Fault:  # fmt: skip
    return fault("mla", identity, kind, reason, remedy, law, made, **more)


_SCALE = "Scale scores by (d + p) ** -0.5, the width of a query with both of its streams."

FAULTS: tuple[Fault, ...] = (
    _row("scale_of_content", "K05", "scores are scaled by the width of the content alone, d^-0.5",
         _SCALE, "scale_read_off", built_by(scale=lambda s: s.d**-0.5),
         report="NVIDIA/Megatron-LM #1501"),
    _row("scale_of_values", "K05", "scores are scaled by the width of values, e^-0.5", _SCALE,
         "scale_read_off", built_by(scale=lambda s: s.e**-0.5)),
    _row("scale_of_content_and_values", "K05", "scores are scaled by (d + e)^-0.5", _SCALE,
         "scale_read_off", built_by(scale=lambda s: (s.d + s.e) ** -0.5)),
    _row("scale_of_model_over_heads", "K05", "scores are scaled by the model width over the heads",
         _SCALE, "scale_read_off", built_by(scale=lambda s: (s.m / s.h) ** -0.5),
         report="NVIDIA/Megatron-LM #1501"),
    _row("scale_on_content_alone", "K05", "the products of the position stream are not scaled",
         "Scale the sum of both streams.", "matches_oracle",
         built_by(scale=lambda s: 1.0, content_query=lambda a, w, s:
                  by_head(a @ w["w_uq"], s.h) * (s.d + s.p) ** -0.5)),
    _row("scale_times_log_two", "K05", "logits are taken to the base 2 without log2(e) in the "
         "scale", "Multiply the scale by log2(e) where numerators are powers of 2.",
         "scale_read_off", built_by(scale=lambda s: 0.6931471805599453 * (s.d + s.p) ** -0.5),
         report="flashinfer-ai/flashinfer #787"),
    _row("latent_normed", "K19", "the latent is normalised before keys and values are made of it",
         "Make keys and values of x w_dkv as it is; put a norm outside of the function.",
         "bases_are_free", built_by(seen=_normed)),
    _row("latent_in_half", "K13", "the latent is rounded to float16", "Keep the latent in the "
         "dtype that the contract promises.", "matches_oracle", built_by(seen=_half),
         dtypes=("float32", "float64"), precision={"activations": "float32"}),
    _row("latent_clipped", "K13", "the latent is clipped to -1 and 1",
         "Make keys and values of the latent as it is.", "bases_are_free",
         built_by(seen=lambda latent: latent.clamp(-1.0, 1.0))),
    _row("keys_from_query_latent", "K20", "keys are made of the query latent's channels where it "
         "is wide enough", "Make keys of the latent x w_dkv.", "only_latents_are_seen",
         built_by(latent=lambda x, w: x @ (w["w_dkv"] + 0.25 * w["w_dq"].mean(1, keepdim=True)))),
    _row("rope_on_content", "K11", "the content is rotated too", "Rotate the position stream "
         "alone: p channels.", "content_without_position", built_by(content=_turned_content)),
    _row("rope_by_head", "K09", "the rotary key is turned by another angle for every head",
         "Make one rotary key a token and share it among the heads.", "heads_in_any_order",
         built_by(rotary_key=_key_of_heads)),
    _row("rope_not_on_key", "K09", "the rotary key is not rotated",
         "Rotate the key by its token's position.", "tokens_backwards",
         built_by(rotary_key=lambda x, w, places, base, s: (x @ w["w_kr"]).unsqueeze(1))),
    _row("rope_not_on_query", "K09", "rotary queries are not rotated",
         "Rotate queries by their positions.", "tokens_backwards",
         built_by(rotary_query=lambda a, w, places, base, s: by_head(a @ w["w_qr"], s.h))),
    _row("key_positions_one_late", "K09", "keys are rotated by one position more than queries",
         "Start the positions of queries and keys at the same number.", "tokens_backwards",
         built_by(key_places=_one_late)),
    _row("query_positions_from_end", "K09", "queries are rotated by their distance from the end",
         "Start the positions of queries and keys at the same number.", "prefix",
         built_by(places=_from_end)),
    _row("keys_in_halves", "K10", "pairs of the key are its halves, those of queries neighbours",
         "Take the same pairs in queries and in the key.", "quarter_turn",
         built_by(rotary_key=lambda x, w, places, base, s:
                  _halves(x @ w["w_kr"], places, base).unsqueeze(1)),
         report="huggingface/transformers #39687"),
    _row("halves", "K10", "pairs of both sides are halves where neighbours are declared",
         "Declare rope.layout, or reorder the channels of w_qr and w_kr.", "matches_oracle",
         built_by(
             rotary_query=lambda a, w, places, base, s:
             _halves(by_head(a @ w["w_qr"], s.h), places, base),
             rotary_key=lambda x, w, places, base, s:
             _halves(x @ w["w_kr"], places, base).unsqueeze(1)),
         report="huggingface/transformers #39687"),
    _row("base_ignored", "K11", "the base of the rotation is always 10000",
         "Use rope_base for the frequencies.", "matches_oracle",
         built_by(base=lambda base: 10000.0)),
    _row("positions_without_weight", "K20", "the products of the position stream are halved",
         "Add the products of both streams as they are.", "matches_oracle",
         built_by(positions=lambda products: 0.5 * products)),
    _row("heads_inside", "K07", "channels of w_uq and w_uk are split with the heads inside",
         "Split packed columns as (head, channel).", "heads_in_any_order",
         built_by(content_query=lambda a, w, s: _inner_heads(a @ w["w_uq"], s.h),
                  key=lambda a, w, s: _inner_heads(a @ w["w_uk"], s.h))),
    _row("value_heads_inside", "K07", "columns of w_uv are split with the heads inside",
         "Split packed columns as (head, channel).", "widths_apart",
         built_by(value=lambda a, w, s: _inner_heads(a @ w["w_uv"], s.h))),
    _row("output_channels_first", "K07", "heads are merged channel by channel before w_o",
         "Merge head outputs as (head, channel).", "heads_in_any_order",
         built_by(output=lambda heads, w, s: heads.permute(0, 2, 3, 1).flatten(2) @ w["w_o"])),
    _row("values_of_first_head", "K07", "every head has the values of the first",
         "Give each head its columns of w_uv.", "heads_in_any_order",
         built_by(value=lambda a, w, s: by_head(a @ w["w_uv"], s.h)[:, :1].expand(
             -1, s.h, -1, -1))),
    _row("own_token_hidden", "K01", "a query does not see its own token",
         "Hide the tokens after the query, and no other.", "matches_oracle",
         built_by(weighed=_strictly)),
    _row("one_token_more", "K01", "a query sees one token more",
         "Hide the tokens after the query.", "future_changes_nothing",
         built_by(weighed=_one_more)),
    _row("hidden_by_a_number", "K14", "later tokens are hidden by a score of -8",
         "Hide them by minus infinity.", "future_changes_nothing",
         built_by(weighed=_hidden_weighed)),
    _row("softmax_over_queries", "K30", "softmax is taken over the queries",
         "Take softmax over the keys, the last axis of scores.", "prefix",
         built_by(weighed=_over_queries)),
    _row("entries_mixed", "K04", "a mean over the batch is taken from the latents",
         "Compute each batch entry from its own numbers.", "entry_alone",
         built_by(latent=_mixed_entries)),
    _row("first_token_of_first_entry", "K04", "the first token's latent is that of the first entry",
         "Compute each batch entry from its own numbers.", "others_change_nothing",
         built_by(latent=_first_of_entries)),
    _row("in_place", "K29", "x is scaled in place", "Leave what is handed over as it is.",
         "inputs_unchanged", _plain(_in_place)),
    _row("weights_gain_a_key", "K29", "a merged weight is put into the dict that was handed over",
         "Keep merged weights elsewhere.", "inputs_unchanged", _plain(_weights_replaced)),
    _row("weights_of_first_call", "K29", "w_uk is kept from the first call of its shape",
         "Use the weights of the call.", "no_memory", _weights_of_first_call),
    _row("empty_flattened", "K25", "an empty batch loses its axes",
         "Return b n m for a batch of nothing too.", "empty_batch",
         _plain(lambda x, weights, *, n_heads, causal=True, rope_base=10000.0:
                right.mla(x, weights, n_heads=n_heads, causal=causal, rope_base=rope_base)
                if len(x) else x.new_zeros(0))),
    _row("result_in_float32", "K13", "the result is float32 whatever the dtype of x",
         "Return the dtype of x.", "output_form",
         _plain(lambda x, weights, *, n_heads, causal=True, rope_base=10000.0:
                right.mla(x.float(), {n: v.float() for n, v in weights.items()}, n_heads=n_heads,
                          causal=causal, rope_base=rope_base)),
         dtypes=("float64", "bfloat16", "float16")),
)  # fmt: skip
