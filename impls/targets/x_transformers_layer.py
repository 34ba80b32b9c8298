"""A decoder of x-transformers with one layer: RMSNorm, rotary attention, a gated network."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor

SHORT = "F.normalize divides by no less than 1e-12, and a row is shorter"

TARGET = Target(
    name="x-transformers.layer",
    # its softmax is float32 for float64; in float16 a row of unit length has entries below the
    # normal range
    dtypes=("float32", "bfloat16"),
    conventions={
        "gqa.head_order": "tiled",
        "rms_norm.eps": "none",
        "rms_norm.gain": "one-plus",
    },
    # the length of a row is rounded to the dtype of x
    precision={"statistics": "storage"},
    # a base is rescaled by d / (d - 2)
    limits={"d": (4, 256, 2)},
    requires={"torch": "torch", "x_transformers": "x-transformers"},
)


def transformer_layer(
    x: Tensor,
    weights: Mapping[str, Tensor],
    *,
    n_heads: int,
    n_kv_heads: int | None = None,
    rope_base: float | None = 10000.0,
) -> Tensor:
    """`Decoder` of depth 1 without its last norm. It has no eps."""
    import torch
    from torch.func import functional_call

    if bool((x.double().norm(dim=-1) < 1e-12).any()):
        raise NotImplementedError(SHORT)
    w, groups = weights, n_heads if n_kv_heads is None else n_kv_heads
    decoder = _decoder(
        x.shape[2], n_heads, groups, w["w_q"].shape[1] // n_heads, w["w_v"].shape[1] // groups,
        w["w_gate"].shape[1], rope_base,
    )  # fmt: skip
    both = torch.cat((w["w_up"], w["w_gate"]), 1).T
    given = {
        "layers.0.0.0.g": w["norm_attention"], "layers.0.1.to_q.weight": w["w_q"].T,
        "layers.0.1.to_k.weight": w["w_k"].T, "layers.0.1.to_v.weight": w["w_v"].T,
        "layers.0.1.to_out.weight": w["w_o"].T, "layers.1.0.0.g": w["norm_feed_forward"],
        "layers.1.1.ff.0.proj.weight": both, "layers.1.1.ff.0.proj.bias": both.new_zeros(len(both)),
        "layers.1.1.ff.2.weight": w["w_down"].T,
    }  # fmt: skip
    result: Tensor = functional_call(decoder, given, (x,))
    return result


@lru_cache(maxsize=256)
def _decoder(m: int, h: int, g: int, d: int, e: int, f: int, base: float | None) -> Any:
    from x_transformers import Decoder

    turning: dict[str, Any] = {} if base is None else {
        "rotary_pos_emb": True, "rotary_emb_dim": d,
        "rotary_base_rescale_factor": (base / 10000.0) ** ((d - 2) / d),
    }  # fmt: skip
    # one head has no output matrix unless it is asked for
    return Decoder(
        dim=m, depth=1, heads=h, attn_kv_heads=g, attn_dim_head=d, attn_value_dim_head=e,
        attn_project_out=True, use_rmsnorm=True, pre_norm_has_final_norm=False, ff_glu=True,
        ff_swish=True, ff_no_bias=True, ff_mult=(f + 0.5) / m, verbose=False, **turning,
    ).eval()  # fmt: skip
