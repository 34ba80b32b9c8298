"""The laws of the gradients of a Llama-style layer.

Sources: the adjoints of the stages of `spec/transformer_layer_definition.py`. Weights that enter
as a product only have gradients that agree in what a common factor would change: for a function of
c A and B / c the derivative by c vanishes, so that <A, dA> = <B, dB>.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnspec.oracle.calls import agree
from attnspec.oracle.changed_calls import blocks, changed, zeroed
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.expected import Expected
from attnspec.oracle.gradient_laws import gradient_laws, same_with_gradients
from attnspec.oracle.gradient_passes import Part
from attnspec.oracle.grouped_heads import head_counts
from attnspec.oracle.head_calls import group_of
from attnspec.oracle.inner_products import paired
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs, Kind, Law
from attnspec.oracle.rounding import formed
from attnspec.oracle.transformer_layer_calls import others
from attnspec.oracle.transformer_layer_values import (
    gains,
    gradients,
    transformer_layer,
)
from attnspec.oracle.upstream import upstream_of

Array = np.ndarray[Any, Any]
Known = tuple[Array, Array, Array]
"""A factor, the gradient beside it, and the gradient's allowance."""


def _several(
    names: tuple[str, ...], inputs: Inputs, actual: dict[str, Array], right: dict[str, Expected]
) -> Known:
    """Matrices from one width, side by side, with their gradients."""
    arrays = (inputs.arrays, actual, {name: right[name].allowance for name in names})
    one, two, three = (np.concatenate([a[name] for name in names], axis=1) for a in arrays)
    return one, two, three


def network_adjoint(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """<w_down, dw_down> = <w_up, dw_up>, and both are <G, what the network adds>."""
    upstream, off = upstream_of(inputs), zeroed(inputs, "w_down")
    actual = implementation.gradients(inputs, upstream)
    right = gradients(implementation, inputs, upstream)
    outputs = implementation(inputs), implementation(off)
    rooms = (transformer_layer(implementation, call).allowance for call in (inputs, off))
    added = (np.stack([upstream, -upstream]), np.stack(outputs), np.stack(list(rooms)))
    down, up = (_several((n,), inputs, actual, right) for n in ("w_down", "w_up"))
    return [
        paired("<G, y - y without network> = <w_down, dw_down>", added, down, 0),
        paired("<w_down, dw_down> = <w_up, dw_up> of a hidden channel", down,
               (up[0].T, up[1].T, up[2].T), 1),
    ]  # fmt: skip


def gains_adjoint(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """For each channel, a norm's gain times its gradient is the inner product of the rows of the
    matrices behind it with theirs."""
    upstream = upstream_of(inputs)
    actual = implementation.gradients(inputs, upstream)
    right = gradients(implementation, inputs, upstream)
    found = []
    for norm, matrices in (
        ("norm_attention", ("w_q", "w_k", "w_v")),
        ("norm_feed_forward", ("w_gate", "w_up")),
    ):
        known = gains(implementation, inputs.arrays[norm])
        gain = known[:, None], actual[norm][:, None], right[norm].allowance[:, None]
        rows = _several(matrices, inputs, actual, right)
        found.append(paired(f"gain of {norm} and its gradient beside the rows behind it", gain,
                            rows, 1))  # fmt: skip
    return found


def heads_adjoint(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """For each head of keys, <w_k, dw_k> is the sum of <w_q, dw_q> over the heads that read it,
    and <w_v, dw_v> that of <w_o, dw_o>."""
    upstream, (h, g) = upstream_of(inputs), head_counts(inputs)
    actual = implementation.gradients(inputs, upstream)
    right = gradients(implementation, inputs, upstream)
    order = np.argsort(group_of(implementation, inputs), kind="stable")

    def by_group(name: str, heads: int) -> Known:
        def parts(weight: Array) -> Array:
            weight = weight.T if name == "w_o" else weight
            by_head = np.moveaxis(blocks(weight, heads), 1, 0)
            return (by_head[order] if heads == h else by_head).reshape(g, -1)

        allowance = right[name].allowance
        return parts(inputs.arrays[name]), parts(actual[name]), parts(allowance)

    return [
        paired("<w_q, dw_q> = <w_k, dw_k> of a head of keys", by_group("w_q", h),
               by_group("w_k", g), 1),
        paired("<w_o, dw_o> = <w_v, dw_v> of a head of values", by_group("w_o", h),
               by_group("w_v", g), 1),
    ]  # fmt: skip


def stream_alone(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """With w_o and w_down of zeros the gradient of x is the upstream, to the bit."""
    upstream, call = upstream_of(inputs), zeroed(inputs, "w_o", "w_down")
    actual = implementation.gradients(call, upstream)["x"]
    sure = np.isfinite(gradients(implementation, call, upstream)["x"].allowance)
    dtype = implementation.dtype
    return [Comparison("gradient of x where w_o = 0, w_down = 0", np.where(sure, actual, 0.0),
                       np.where(sure, upstream, 0.0), None, dtype)]  # fmt: skip


def entry_alone(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Gradients of weights are sums over batch entries; that of x is each entry's own."""
    upstream, x = upstream_of(inputs), inputs.arrays["x"]
    parts = [changed(inputs, x=x[at : at + 1]) for at in range(len(x))]
    if not implementation.legal(parts[0]):
        return []
    whole = implementation.gradients(inputs, upstream)
    right = gradients(implementation, inputs, upstream)
    alone = [implementation.gradients(p, upstream[i : i + 1]) for i, p in enumerate(parts)]
    rooms = [gradients(implementation, p, upstream[i : i + 1]) for i, p in enumerate(parts)]
    found = []
    for name in right:
        added = _side_by_side if name == "x" else _total
        one = added([a[name] for a in alone])
        room = added([r[name].allowance for r in rooms])
        what = f"gradient of {name}, entries alone"
        room = room + right[name].allowance + formed(np.abs(one) + room, len(alone))
        found.append(agree(what, one, whole[name], room, implementation.dtype))
    return found


def _side_by_side(parts: list[Array]) -> Array:
    return np.concatenate(parts)


def _total(parts: list[Array]) -> Array:
    return np.asarray(sum(parts))


def later_tokens(_implementation: Implementation, inputs: Inputs) -> Part:
    """A row of the output, and the entries of x that it does not depend on: those of other batch
    entries, and of later tokens."""
    b, n, _ = inputs.arrays["x"].shape
    rng = generator(inputs, "part")
    entry, row = int(rng.integers(max(b, 1))), int(rng.integers(max(n - 1, 1)))
    apart = np.ones(inputs.arrays["x"].shape, dtype=bool)
    apart[entry, : row + 1] = False
    return (entry, row), {"x": apart}


def _law(name: str, says: str, means: str, kind: Kind, check: Any, **more: Any) -> Law:
    family = f"transformer_layer{more.pop('inputs', '_gradients')}"
    return Law(f"transformer_layer.{name}", "transformer_layer", says, means, kind, check,
               inputs=family, gradients=True,
               rejects=tuple(f"transformer_layer.{f}" for f in more.pop("rejects")),
               **more)  # fmt: skip


REJECTED = {
    "gradients_match_oracle": (
        "gradient_of_silu_is_sigmoid", "gradient_of_first_norm_without_row_term",
        "gradient_of_second_norm_without_row_term", "gradient_softmax_without_row_sum",
        "gradient_of_queries_unscaled", "gradient_turned_forward", "gradient_of_keys_not_turned",
        "gradient_of_hidden_in_bfloat16", "gradient_of_gate_in_half", "gradient_missing",
    ),
    "zero_upstream": ("gradient_upstream_ignored",),
    "gradients_of_views": ("gradient_upstream_as_contiguous",),
    "gradients_of_some": ("gradient_of_gains_only_with_x",),
    "gradients_between_calls": ("gradient_of_latest_call",),
    "gradient_leaves_output": ("gradient_overwrites_upstream",),
    "gradients_accumulate": ("gradient_added_to_grad",),
    "gradients_stay_apart": ("gradient_of_future_keys", "gradient_of_values_carried"),
}  # fmt: skip

LAWS: tuple[Law, ...] = (
    *gradient_laws(
        "transformer_layer",
        gradients,
        {law: tuple(f"transformer_layer.{f}" for f in faults) for law, faults in REJECTED.items()},
        inputs="transformer_layer_gradients",
        others=others,
        parts=later_tokens,
        claims=("transformer_layer.definition",),
    ),
    _law(
        "network_adjoint",
        "linear in w_up and in w_down: the inner products of both with their gradients are that "
        "of the upstream and what the network adds",
        "the backward pass of the gated network is not that of its product",
        "gradient",
        network_adjoint,
        claims=("transformer_layer.definition",),
        rejects=("gradient_of_up_without_gate", "gradient_of_down_shifted"),
    ),
    _law(
        "gains_adjoint",
        "for each channel a gain times its gradient is what the rows of the matrices behind the "
        "norm have",
        "a gradient of a gain, or of a matrix, leaves one of its readers out",
        "gradient",
        gains_adjoint,
        claims=("rms_norm.definition",),
        rejects=("gradient_of_first_gain_without_values", "gradient_of_second_gain_twice"),
    ),
    _law(
        "heads_adjoint",
        "for each head of keys the weights of keys and of the queries that read them have the "
        "same inner products with their gradients, and so have those of values and of the output",
        "gradients of shared keys are not summed over the heads that share them",
        "gradient",
        heads_adjoint,
        claims=("transformer_layer.definition",),
        rejects=("gradient_of_keys_of_one_head", "gradient_of_values_mean_of_heads"),
    ),
    _law(
        "stream_alone",
        "with w_o and w_down of zeros the gradient of x is the upstream, to the bit",
        "the backward pass loses the stream beside a sublayer, or counts it twice",
        "gradient",
        stream_alone,
        claims=("transformer_layer.definition",),
        rejects=("gradient_of_stream_lost", "gradient_of_stream_twice"),
    ),
    _law(
        "gradients_of_entries",
        "gradients of weights are the sums of those of batch entries alone",
        "the backward pass mixes batch entries, or leaves some out",
        "gradient",
        entry_alone,
        inputs="_batch",
        claims=("transformer_layer.definition",),
        rejects=("gradient_of_output_matrix_of_first_entry", "gradient_mean_over_batch"),
    ),
    _law(
        "same_with_gradients",
        "the output is the same whether or not gradients will be asked for",
        "training takes another path, with another gain or precision",
        "reduced",
        same_with_gradients(transformer_layer),
        inputs="",
        claims=("transformer_layer.definition",),
        rejects=("dropped_in_training",),
    ),
)
