"""What decoding of latent attention holds at a time: over latents it builds no keys or values.

Counted by what torch's operations return, so that the figure is the same on every machine: the
elements of tensors that are alive at once, beyond those that were handed over.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from attnspec.impls import mla as right

H, D, E, P, C, R, M = 8, 12, 10, 4, 16, 14, 6
"""Heads, and widths that all differ."""


class Peak(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Elements of storages that operations made and that are alive at once, at most."""

    def __init__(self, given: list[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.known = {t.untyped_storage().data_ptr() for t in given}
        self.alive: dict[int, int] = {}
        self.most = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        for found in tree_leaves(result):
            if isinstance(found, Tensor):
                self._count(found)
        return result

    def _count(self, found: Tensor) -> None:
        storage = found.untyped_storage()
        place = storage.data_ptr()
        if place in self.known or place in self.alive or not place:
            return
        self.alive[place] = storage.nbytes() // found.element_size()
        self.most = max(self.most, sum(self.alive.values()))
        weakref.finalize(storage, self.alive.pop, place, None)


def weights() -> dict[str, Tensor]:
    shapes = {
        "w_dq": (M, R), "w_uq": (R, H * D), "w_qr": (R, H * P), "w_dkv": (M, C),
        "w_uk": (C, H * D), "w_uv": (C, H * E), "w_kr": (M, P), "w_o": (H * E, M),
    }  # fmt: skip
    return {name: torch.randn(shape) for name, shape in shapes.items()}


def peak(decode: Callable[..., Tensor], length: int) -> int:
    """Elements at most, over a cache of so many tokens."""
    x, cache, w = (
        torch.randn(1, 1, M),
        (torch.randn(1, length, C), torch.randn(1, length, P)),
        (weights()),
    )
    mode = Peak([x, *cache, *w.values()])
    with mode:
        decode(x, cache, w, n_heads=H)
    return mode.most


def a_token(decode: Callable[..., Tensor]) -> float:
    """Further elements for a further token: of two lengths, the difference."""
    return (peak(decode, 600) - peak(decode, 200)) / 400


def built(x: Tensor, cache: Any, w: Any, *, n_heads: int, rope_base: float = 1e4) -> Tensor:
    """Decoding that projects every key and value up."""
    latent, key_r = cache
    asking = x @ w["w_dq"]
    query = right.by_head(asking @ w["w_uq"], n_heads)
    last = torch.tensor([latent.shape[1] - 1])
    query_r = right.rotated(right.by_head(asking @ w["w_qr"], n_heads), last, rope_base)
    key = right.by_head(latent @ w["w_uk"], n_heads)
    scores = query @ key.mT + right.over_tokens(query_r, key_r)
    shares = torch.softmax(scores * right.scale_of(query, query_r), -1)
    heads = shares @ right.by_head(latent @ w["w_uv"], n_heads)
    output: Tensor = right.side_by_side(heads) @ w["w_o"]
    return output


def broadcast(x: Tensor, cache: Any, w: Any, *, n_heads: int) -> Tensor:
    """Latents that are copied for every head before they are multiplied."""
    copied = cache[0].unsqueeze(1).expand(-1, n_heads, -1, -1).clone()
    return right.mla_decode(x, (copied[:, 0], cache[1]), w, n_heads=n_heads)


def test_decoding_over_latents_builds_no_keys_or_values() -> None:
    assert a_token(right.mla_decode) < H * min(D, E)


@pytest.mark.parametrize("decode", [built, broadcast])
def test_code_that_builds_them_is_seen(decode: Callable[..., Tensor]) -> None:
    assert a_token(decode) >= H * min(D, E)


def test_both_ways_of_decoding_give_one_output() -> None:
    w, x = weights(), torch.randn(1, 1, M)
    cache = (torch.randn(1, 5, C), torch.randn(1, 5, P))
    made = built(x.double(), tuple(t.double() for t in cache),
                 {n: t.double() for n, t in w.items()}, n_heads=H)  # fmt: skip
    over = right.mla_decode(x.double(), (cache[0].double(), cache[1].double()),
                            {n: t.double() for n, t in w.items()}, n_heads=H)  # fmt: skip
    # a few hundred products of numbers of order 1: double precision keeps far more than this
    assert (made - over).abs().max() < 2.0**-20 * made.abs().max()
