"""The latent attention modules of transformers, with weights in the contract's form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor


class Sizes(NamedTuple):
    """Those of a module, as the contract names them."""

    m: int
    r: int
    c: int
    h: int
    d: int
    e: int
    p: int


class Latent:
    """A cache for one call: it keeps what it is given, or hands out what it holds instead."""

    def __init__(self, held: tuple[Tensor, Tensor] | None = None) -> None:
        self.held = held
        self.stored: tuple[Tensor, Tensor]

    def update(self, latent: Tensor, key: Tensor, *_layer: Any, **_more: Any) -> Any:
        """What modules call their cache with."""
        self.stored = latent, key
        return self.stored if self.held is None else self.held


def sizes_of(x: Tensor, weights: Mapping[str, Tensor], n_heads: int) -> Sizes:
    """The sizes of a call."""
    return Sizes(
        m=x.shape[2], r=weights["w_dq"].shape[1], c=weights["w_dkv"].shape[1], h=n_heads,
        d=weights["w_uk"].shape[1] // n_heads, e=weights["w_uv"].shape[1] // n_heads,
        p=weights["w_kr"].shape[1],
    )  # fmt: skip


@lru_cache(maxsize=256)
def _config(family: str, sizes: Sizes, base: float, attention: str) -> Any:
    import transformers

    kind = getattr(transformers, f"{family}Config")
    config = kind(
        hidden_size=sizes.m * sizes.h, num_attention_heads=sizes.h, num_key_value_heads=sizes.h,
        q_lora_rank=sizes.r, kv_lora_rank=sizes.c, qk_nope_head_dim=sizes.d,
        qk_rope_head_dim=sizes.p, v_head_dim=sizes.e, head_dim=sizes.p, attention_bias=False,
        rope_parameters={"rope_type": "default", "rope_theta": base}, attn_implementation=attention,
    )  # fmt: skip
    # heads need not divide the width of the model: only the config of a whole model says so
    config.hidden_size = sizes.m
    return config


def _models(family: str) -> Any:
    name = {"DeepseekV2": "deepseek_v2", "DeepseekV3": "deepseek_v3"}[family]
    return import_module(f"transformers.models.{name}.modeling_{name}")


@lru_cache(maxsize=256)
def made(family: str, sizes: Sizes, attention: str = "eager") -> Any:
    """A module without numbers and without the norms of its latents."""
    import torch

    with torch.device("meta"):
        config = _config(family, sizes, 10000.0, attention)
        module = getattr(_models(family), f"{family}Attention")(config, layer_idx=0)
    module.q_a_layernorm = module.kv_a_layernorm = torch.nn.Identity()
    return module.eval()


@lru_cache(maxsize=256)
def rotary(family: str, sizes: Sizes, base: float) -> Callable[[Tensor, Tensor], Any]:
    """The library's tables for a base: from x, for its dtype, and positions."""
    found: Callable[[Tensor, Tensor], Any] = getattr(_models(family), f"{family}RotaryEmbedding")(
        _config(family, sizes, base, "eager")
    )
    return found


def caching(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights of which only those of the cache are told: the others are zeros of one head."""
    m, c = weights["w_dkv"].shape
    p = weights["w_kr"].shape[1]
    shapes = {
        "w_dq": (m, 2), "w_uq": (2, 2), "w_qr": (2, p), "w_uk": (c, 2), "w_uv": (c, 2),
        "w_o": (2, m),
    }  # fmt: skip
    own = {name: weights["w_dkv"].new_zeros(shape) for name, shape in shapes.items()}
    return {**own, "w_dkv": weights["w_dkv"], "w_kr": weights["w_kr"]}


def placed(first: int, end: int, x: Tensor) -> Tensor:
    """Positions as the modules take them: 1 n."""
    import torch

    return torch.arange(first, end, device=x.device).unsqueeze(0)


def masked(x: Tensor, *, causal: bool) -> Tensor:
    """What is added to scores, 1 1 n n."""
    import torch

    n = x.shape[1]
    empty = torch.zeros(1, 1, n, n, dtype=x.dtype, device=x.device)
    if not causal:
        return empty
    later = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
    return empty.masked_fill(later, -torch.inf)


def attended(
    module: Any,
    x: Tensor,
    weights: Mapping[str, Tensor],
    n_heads: int,
    *,
    mask: Tensor | None,
    tables: Any,
    cache: Latent | None = None,
) -> Tensor:
    """The module's output with these weights: its layers have columns of both streams, head by
    head, and those of keys and of values."""
    import torch

    def joined(one: str, other: str) -> Tensor:
        blocks = [weights[n].reshape(weights[n].shape[0], n_heads, -1) for n in (one, other)]
        return torch.cat(blocks, -1).flatten(1).mT

    own = {
        "q_a_proj.weight": weights["w_dq"].mT,
        "q_b_proj.weight": joined("w_uq", "w_qr"),
        "kv_a_proj_with_mqa.weight": torch.cat((weights["w_dkv"], weights["w_kr"]), -1).mT,
        "kv_b_proj.weight": joined("w_uk", "w_uv"),
        "o_proj.weight": weights["w_o"].mT,
    }
    given = {"attention_mask": mask, "position_embeddings": tables, "cache": cache,
             "is_causal": False}  # fmt: skip
    found: Tensor = torch.func.functional_call(module, own, (x,), given)[0]
    return found
