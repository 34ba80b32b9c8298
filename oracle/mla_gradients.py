"""The laws of the gradients of mla and mla_absorbed.

Sources: the adjoint tapes of `spec/mla_definition.py`. What reads an array in both orders of
products is one function of it, so that the gradients are those of one function too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attnspec.oracle.changed_calls import blocks, changed
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.expected import Expected
from attnspec.oracle.gradient_laws import gradient_laws, same_with_gradients
from attnspec.oracle.gradient_passes import Along
from attnspec.oracle.inner_products import paired
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs, Kind, Law
from attnspec.oracle.mla_calls import others
from attnspec.oracle.mla_values import gradients, latent_attention
from attnspec.oracle.upstream import upstream_of

Array = np.ndarray[Any, Any]
Rejected = Mapping[str, tuple[str, ...]]
Triple = tuple[Array, Array, Array]
"""An array, its gradient, and the gradient's allowance."""


def along_output(implementation: Implementation, inputs: Inputs, direction: Array) -> Expected:
    """The derivative along a change of w_o, of which the output is linear."""
    return latent_attention(implementation, changed(inputs, w_o=direction))


def along_values(implementation: Implementation, inputs: Inputs, direction: Array) -> Expected:
    """The derivative along a change of w_uv, of which the output is linear."""
    return latent_attention(implementation, changed(inputs, w_uv=direction))


JACOBIANS: Mapping[str, Along] = {"w_o": along_output, "w_uv": along_values}


def parts(_implementation: Implementation, inputs: Inputs) -> tuple[Any, Mapping[str, Array]]:
    """A batch entry and the tokens of all others, or a row and the tokens after it."""
    shape = inputs.arrays["x"].shape
    rng = generator(inputs, "part")
    apart = np.zeros(shape, dtype=bool)
    if shape[0] > 1 and rng.random() < 0.5:
        entry = int(rng.integers(shape[0]))
        apart[np.arange(shape[0]) != entry] = True
        return (slice(entry, entry + 1),), {"x": apart}
    if not inputs.options.get("causal", True):
        return (slice(None),), {}
    row = int(rng.integers(shape[1]))
    apart[:, row + 1 :] = True
    return (slice(None), slice(row, row + 1)), {"x": apart}


def values_adjoint(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The output is linear in w_o and in w_uv alike, head by head: <G, y> = <dw_o, w_o>, and the
    same for w_uv, whose sums over each head's entries are one number."""
    upstream = upstream_of(inputs)
    actual = implementation.gradients(inputs, upstream)
    right = gradients(implementation, inputs, upstream)
    h = int(inputs.options["n_heads"])

    def of(name: str) -> Triple:
        return inputs.arrays[name], actual[name], right[name].allowance

    out, grad, room = (v.reshape(h, -1) for v in of("w_o"))
    values = _by_head(of("w_uv"), h)
    return [paired("<dw_o, w_o> = <dw_uv, w_uv> of a head", (out, grad, room), values, 1)]


def _by_head(several: Triple, h: int) -> Triple:
    """Columns of heads side by side, a row for each head."""
    one, two, three = (np.moveaxis(blocks(v, h), 1, 0).reshape(h, -1) for v in several)
    return one, two, three


def scores_adjoint(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Rotary products are linear in both of their weights: <dw_qr, w_qr> = <dw_kr, w_kr>, and those
    of the content: <dw_uq, w_uq> = <dw_uk, w_uk>, head by head."""
    upstream = upstream_of(inputs)
    actual = implementation.gradients(inputs, upstream)
    right = gradients(implementation, inputs, upstream)

    def of(name: str) -> Triple:
        return inputs.arrays[name], actual[name], right[name].allowance

    h = int(inputs.options["n_heads"])
    query, key = (_by_head(of(name), h) for name in ("w_uq", "w_uk"))
    return [
        paired("<dw_qr, w_qr> = <dw_kr, w_kr>", of("w_qr"), of("w_kr"), 0),
        paired("<dw_uq, w_uq> = <dw_uk, w_uk> of a head", query, key, 1),
    ]


def _laws(component: str, rejects: Rejected) -> tuple[Law, ...]:
    """Those of one of the two."""

    def law(
        name: str, says: str, means: str, check: Any, kind: Kind = "gradient", inputs: str = ""
    ) -> Law:  # fmt: skip
        return Law(f"{component}.{name}", component, says, means, kind, check,
                   inputs=f"{component}{inputs or '_several'}", claims=("mla.definition",),
                   rejects=rejects[name], gradients=True)  # fmt: skip

    return (
        *gradient_laws(
            component,
            gradients,
            rejects,
            inputs=component,
            claims=("mla.definition",),
            others=others,
            jacobians=JACOBIANS,
            parts=parts,
        ),
        law(
            "values_adjoint",
            "linear in w_o and in w_uv: for each head, the inner product with its gradient is the "
            "same for both",
            "one of the two gradients is of other numbers than those that went through the head",
            values_adjoint,
        ),
        law(
            "scores_adjoint",
            "scores are products: the inner product with its gradient is the same for the weights "
            "of a query and of its key",
            "a gradient of scores reaches the one side and not the other",
            scores_adjoint,
            inputs="_calm",
        ),
        law(
            "same_with_gradients",
            "the output is the same whether or not gradients will be asked for",
            "training takes another path, with another scale, order or precision",
            same_with_gradients(latent_attention),
            "reduced",
        ),
    )


_SHARED: Rejected = {
    "gradients_match_oracle": (
        "of_rotary_key_missing",
        "of_rotary_query_missing",
        "of_query_latent_by_positions_alone",
        "of_normaliser_missing",
    ),
    "zero_upstream": ("without_upstream",),
    "gradients_of_views": ("upstream_as_contiguous",),
    "gradients_of_some": ("only_with_x",),
    "gradients_between_calls": ("of_latest_call",),
    "gradient_leaves_output": ("overwrites_upstream",),
    "gradients_accumulate": ("added_to_grad",),
    "gradients_along": ("of_output_backwards",),
    "gradients_of_gradients": ("of_gradient_of_another_strength",),
    "gradients_stay_apart": ("carried_over",),
    "values_adjoint": ("of_values_halved",),
    "scores_adjoint": ("of_rotary_key_of_first_head",),
    "same_with_gradients": ("of_another_scale",),
}
"""The last names of faults that both components have."""


def _rejected(component: str, further: Rejected) -> Rejected:
    return {
        name: (*(f"{component}.gradient_{fault}" for fault in faults), *further.get(name, ()))
        for name, faults in _SHARED.items()
    }


LAWS: tuple[Law, ...] = (
    *_laws(
        "mla",
        _rejected("mla", {"gradients_match_oracle": ("mla.gradient_of_latent_by_keys_alone",)}),
    ),
    *_laws("mla_absorbed", _rejected("mla_absorbed", {})),
)
