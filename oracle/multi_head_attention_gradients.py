"""The laws of the gradients of multi-head attention.

Sources: the adjoint of `spec/multi_head_attention_definition.py`. Weights that enter as a product
only have gradients that agree in what a common factor would change: for a function of c A and B / c
the derivative by c vanishes, so that <A, dA> = <B, dB>.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnspec.oracle.calls import agree
from attnspec.oracle.changed_calls import blocks, changed
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.expected import Expected
from attnspec.oracle.gradient_laws import gradient_laws, same_with_gradients
from attnspec.oracle.gradient_passes import Part
from attnspec.oracle.grouped_heads import head_counts
from attnspec.oracle.head_calls import group_of
from attnspec.oracle.inner_products import paired
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs, Kind, Law
from attnspec.oracle.multi_head_attention_calls import others
from attnspec.oracle.multi_head_attention_values import (
    gradients,
    multi_head_attention,
)
from attnspec.oracle.rounding import formed
from attnspec.oracle.upstream import upstream_of

Array = np.ndarray[Any, Any]


def heads_adjoint(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """For each head of keys, <w_k, dw_k> is the sum of <w_q, dw_q> over the heads that read it,
    and <w_v, dw_v> that of <w_o, dw_o>."""
    upstream, (h, g) = upstream_of(inputs), head_counts(inputs)
    actual = implementation.gradients(inputs, upstream)
    right = gradients(implementation, inputs, upstream)
    order = np.argsort(group_of(implementation, inputs), kind="stable")

    def by_group(name: str, heads: int) -> tuple[Array, Array, Array]:
        def parts(weight: Array) -> Array:
            weight = weight.T if name == "w_o" else weight
            by_head = np.moveaxis(blocks(weight, heads), 1, 0)
            return (by_head[order] if heads == h else by_head).reshape(g, -1)

        return (parts(inputs.arrays[name]), parts(actual[name]), parts(right[name].allowance))

    return [
        paired("<w_q, dw_q> = <w_k, dw_k> of a head of keys", by_group("w_q", h),
               by_group("w_k", g), 1),
        paired("<w_o, dw_o> = <w_v, dw_v> of a head of values", by_group("w_o", h),
               by_group("w_v", g), 1),
    ]  # fmt: skip


def entries_apart(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
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
        added = np.concatenate if name == "x" else _total
        one, room = added([a[name] for a in alone]), added([r[name].allowance for r in rooms])
        room = room + right[name].allowance + formed(np.abs(one) + room, len(alone))
        what = f"gradient of {name}, entries alone"
        found.append(agree(what, one, whole[name], room, implementation.dtype))
    return found


def _total(parts: list[Array]) -> Array:
    return np.asarray(sum(parts))


def apart(_implementation: Implementation, inputs: Inputs) -> Part:
    """A row of the output, and the entries of x that it does not depend on: those of other batch
    entries, and of later tokens in causal calls."""
    b, n, _ = inputs.arrays["x"].shape
    rng = generator(inputs, "part")
    entry, row = int(rng.integers(max(b, 1))), int(rng.integers(max(n - 1, 1)))
    unread = np.ones(inputs.arrays["x"].shape, dtype=bool)
    unread[entry, : row + 1 if inputs.options.get("causal", False) else None] = False
    return (entry, row), {"x": unread}


def along_output(implementation: Implementation, inputs: Inputs, direction: Array) -> Expected:
    """The derivative along a change of w_o, of which the output is linear."""
    return multi_head_attention(implementation, changed(inputs, w_o=direction))


def along_values(implementation: Implementation, inputs: Inputs, direction: Array) -> Expected:
    """The derivative along a change of w_v, of which the output is linear."""
    return multi_head_attention(implementation, changed(inputs, w_v=direction))


def _law(
    name: str, says: str, means: str, kind: Kind, check: Any, family: str,
    claim: str = "multi_head_attention.definition",
) -> Law:  # fmt: skip
    return Law(f"multi_head_attention.{name}", "multi_head_attention", says, means, kind, check,
               inputs=f"multi_head_attention{family}", gradients=True, rejects=REJECTS[name],
               claims=(claim,))  # fmt: skip


REJECTED = {
    "gradients_match_oracle": (
        "of_softmax_without_row_sum", "of_queries_unscaled", "turned_forward",
        "of_keys_not_turned", "of_heads_in_bfloat16", "missing",
    ),
    "zero_upstream": ("upstream_ignored",),
    "gradients_of_views": ("upstream_as_contiguous",),
    "gradients_of_some": ("only_with_x",),
    "gradients_between_calls": ("of_latest_call",),
    "gradient_leaves_output": ("overwrites_upstream",),
    "gradients_accumulate": ("added_to_grad",),
    "gradients_along": ("of_output_backwards",),
    "gradients_of_gradients": ("of_gradient_of_another_strength",),
    "gradients_stay_apart": ("of_later_keys", "of_values_carried"),
    "heads_adjoint": ("of_keys_of_one_head", "of_values_mean_of_heads"),
    "gradients_of_entries": ("of_output_matrix_of_first_entry", "mean_over_batch"),
    "same_with_gradients": ("dropped_in_training",),
}  # fmt: skip
REJECTS = {
    law: tuple(f"multi_head_attention.gradient_{fault}" for fault in faults)
    for law, faults in REJECTED.items()
}

LAWS: tuple[Law, ...] = (
    *gradient_laws(
        "multi_head_attention",
        gradients,
        REJECTS,
        inputs="multi_head_attention_gradients",
        others=others,
        jacobians={"w_o": along_output, "w_v": along_values},
        parts=apart,
        claims=("multi_head_attention.definition",),
    ),
    _law(
        "heads_adjoint",
        "for each head of keys the weights of keys and of the queries that read them have the "
        "same inner products with their gradients, and so have those of values and of the output",
        "gradients of shared keys are not summed over the heads that share them",
        "gradient",
        heads_adjoint,
        "_gradients",
        "gqa.gradients_sum_over_group",
    ),
    _law(
        "gradients_of_entries",
        "gradients of weights are the sums of those of batch entries alone",
        "the backward pass mixes batch entries, or leaves some out",
        "gradient",
        entries_apart,
        "_batch",
    ),
    _law(
        "same_with_gradients",
        "the output is the same whether or not gradients will be asked for",
        "training takes another path, with another order or precision",
        "reduced",
        same_with_gradients(multi_head_attention),
        "",
    ),
)
