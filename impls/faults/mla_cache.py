"""A cache of latent attention that holds something else than the latent and one rotated key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnspec.impls import mla as right
from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.mla_steps import Functions, fault
from attnspec.impls.mla import Weights, rotated, widened
from attnspec.impls.rope import turned_halves

Cache = Any
"""What stands for a pair of tensors."""


def _by(change: Callable[..., Cache]) -> Functions:
    """A cache that another function makes of x, the weights and the base."""

    def mla_cache(x: Tensor, weights: Weights, *, rope_base: float = 10000.0) -> Cache:
        return change(x, weights, rope_base)

    return lambda: {"mla_cache": mla_cache}


def _by_key(key: Callable[[Tensor, float], Tensor]) -> Functions:
    """A right latent, and another key of x w_kr."""

    def made(x: Tensor, weights: Weights, base: float) -> Cache:
        latent, _ = right.mla_cache(x, weights, rope_base=base)
        return latent, key(widened(x) @ widened(weights["w_kr"]), base).to(x.dtype)

    return _by(made)


def _by_latent(change: Callable[[Tensor], Tensor]) -> Functions:
    """A right key, and something else than the latent."""

    def made(x: Tensor, weights: Weights, base: float) -> Cache:
        _, key = right.mla_cache(x, weights, rope_base=base)
        return change(widened(x) @ widened(weights["w_dkv"])).to(x.dtype), key

    return _by(made)


def _places(keys: Tensor, first: int = 0) -> Tensor:
    return torch.arange(first, first + keys.shape[1], device=keys.device)


def _second_left(keys: Tensor, base: float) -> Tensor:
    turned = rotated(keys, _places(keys), base)
    even = torch.arange(keys.shape[-1], device=keys.device) % 2 == 0
    return torch.where(even, turned, keys)


def _rotated_latent(latent: Tensor) -> Tensor:
    even = latent.shape[-1] // 2 * 2
    front = rotated(latent[..., :even], _places(latent), 10000.0) if even else latent[..., :0]
    # a latent of one channel has no pair: it is turned in the plane of its sign
    rest = latent[..., even:] * torch.cos(_places(latent).to(latent.dtype)).unsqueeze(-1)
    return torch.cat((front, rest), -1)


def _of_heads(x: Tensor, weights: Weights, base: float) -> Cache:
    latent, key = right.mla_cache(x, weights, rope_base=base)
    return latent, (key.unsqueeze(1).expand(-1, 2, -1, -1)).contiguous()


def _latent_alone(x: Tensor, weights: Weights, base: float) -> Cache:
    return right.mla_cache(x, weights, rope_base=base)[0]


def _wide(x: Tensor, weights: Weights, base: float) -> Cache:
    return right.mla_cache(x.float(), {n: w.float() for n, w in weights.items()}, rope_base=base)


def _in_place(x: Tensor, weights: Weights, base: float) -> Cache:
    found = right.mla_cache(x, weights, rope_base=base)
    if not x.requires_grad:
        x.mul_(1.0 + 2.0**-7)
    return found


def _flattened(x: Tensor, weights: Weights, base: float) -> Cache:
    if len(x):
        return right.mla_cache(x, weights, rope_base=base)
    return x.new_zeros(0), x.new_zeros(0)


def _one_buffer() -> dict[str, Any]:
    kept: dict[torch.dtype, Tensor] = {}

    def mla_cache(x: Tensor, weights: Weights, *, rope_base: float = 10000.0) -> Cache:
        latent, key = right.mla_cache(x, weights, rope_base=rope_base)
        if latent.requires_grad:
            return latent, key
        buffer = kept.setdefault(x.dtype, x.new_zeros(2**16))
        if latent.numel() > buffer.numel():
            return latent, key
        place = buffer[: latent.numel()].view(latent.shape)
        return place.copy_(latent), key

    return {"mla_cache": mla_cache}


class _Decay(torch.autograd.Function):
    """The identity, whose gradient has a share of the number itself."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        found: Tensor = upstream[0] + 2.0**-5 * x
        return found


def _with_decay(x: Tensor, weights: Weights, base: float) -> Cache:
    decayed: Tensor = _Decay.apply(weights["w_dkv"])  # type: ignore[no-untyped-call]
    return right.mla_cache(x, {**weights, "w_dkv": decayed}, rope_base=base)


def _frozen(x: Tensor, weights: Weights, base: float) -> Cache:
    return right.mla_cache(x, {**weights, "w_dkv": weights["w_dkv"].detach()}, rope_base=base)


def _row(identity: str, kind: str, reason: str, remedy: str, law: str, made: Functions,
         **more: Any) -> Fault:  # fmt: skip
    return fault("mla_cache", identity, kind, reason, remedy, law, made, **more)


_POSITIONS = "Rotate keys at the positions 0 to n - 1."

FAULTS: tuple[Fault, ...] = (
    _row("key_not_rotated", "K09", "keys are cached before they are rotated", _POSITIONS,
         "matches_oracle", _by_key(lambda keys, base: keys), report="1CatAI/1Cat-vLLM #162"),
    _row("key_rotated_twice", "K09", "keys are rotated twice before they are cached", _POSITIONS,
         "matches_oracle", _by_key(lambda keys, base: rotated(
             rotated(keys, _places(keys), base), _places(keys), base))),
    _row("base_ignored", "K11", "the base of the rotation is always 10000", "Use rope_base.",
         "matches_oracle", _by_key(lambda keys, base: rotated(keys, _places(keys), 10000.0))),
    _row("positions_from_one", "K09", "the first key is rotated by one position", _POSITIONS,
         "matches_oracle", _by_key(lambda keys, base: rotated(keys, _places(keys, 1), base))),
    _row("positions_from_end", "K09", "keys are rotated by their distance from the end",
         _POSITIONS, "tokens_are_appended", _by_key(lambda keys, base: rotated(
             keys, _places(keys, 1 - keys.shape[1]), base))),
    _row("positions_shifted_far", "K09", "positions start behind the tokens of another call",
         _POSITIONS, "first_key_at_rest",
         _by_key(lambda keys, base: rotated(keys, _places(keys, 7), base))),
    _row("halves", "K10", "pairs are the halves of the key where neighbours are declared",
         "Declare rope.layout, or reorder the columns of w_kr.", "keys_turn_in_pairs",
         _by_key(lambda keys, base: rotated(keys, _places(keys), base, turned_halves)),
         report="huggingface/transformers #39687"),
    _row("second_channels_left", "K10", "the second channels of all pairs are not turned",
         "Write every channel of a rotated key once.", "keys_turn_in_pairs",
         _by_key(_second_left), report="1CatAI/1Cat-vLLM #162"),
    _row("latent_rotated", "K11", "the latent is rotated", "Rotate the position stream alone.",
         "latents_without_position", _by_latent(_rotated_latent)),
    _row("latent_of_mean", "K04", "the mean over the tokens is taken from their latents",
         "Cache each token's latent as it is.", "tokens_are_appended",
         _by_latent(lambda latent: latent - latent.mean(1, keepdim=True))),
    _row("latent_in_half", "K13", "the latent is cached in float16", "Cache it in the dtype of x.",
         "matches_oracle", _by_latent(lambda latent: latent.to(torch.float16)),
         dtypes=("float32", "float64")),
    _row("entries_mixed", "K04", "latents have something of another batch entry",
         "Compute each batch entry from its own numbers.", "entry_alone",
         _by_latent(lambda latent: latent + 2.0**-4 * latent.roll(1, 0))),
    _row("keys_of_all_heads", "K20", "a rotated key is cached for every head",
         "Cache one rotated key a token: c + p numbers.", "matches_oracle", _by(_of_heads)),
    _row("key_not_cached", "K20", "the latent alone is cached",
         "Return the pair (c_kv, k_rope).", "output_form", _by(_latent_alone)),
    _row("result_in_float32", "K13", "the cache is float32 whatever the dtype of x",
         "Return the dtype of x.", "output_form", _by(_wide),
         dtypes=("float64", "bfloat16", "float16")),
    _row("in_place", "K29", "x is scaled in place", "Leave what is handed over as it is.",
         "inputs_unchanged", _by(_in_place)),
    _row("buffer_handed_out", "K29", "latents are written into one buffer, which is returned",
         "Return memory of its own for every call.", "no_memory", _one_buffer),
    _row("empty_flattened", "K25", "an empty batch loses its axes",
         "Return b n c and b n p for a batch of nothing too.", "empty_batch", _by(_flattened)),
    _row("gradient_of_weight_missing", "K21", "w_dkv is taken out of the graph",
         "Let gradients reach w_dkv.", "gradients_match_oracle", _by(_frozen)),
    _row("gradient_with_decay", "K22", "the gradient of w_dkv has a share of w_dkv itself",
         "Leave weight decay to the optimiser.", "zero_upstream", _by(_with_decay)),
)  # fmt: skip
