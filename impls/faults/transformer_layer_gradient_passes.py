"""A Llama-style layer whose backward pass, as a whole, keeps, adds, or leaves something out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from attnspec.impls import transformer_layer as right
from attnspec.impls.faults import passes
from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.passes import Grads, Run, pulled
from attnspec.impls.faults.transformer_layer_steps import Functions, fault
from attnspec.impls.faults.views import overwrite, read_as_contiguous
from attnspec.impls.transformer_layer import Weights

NAMES = (
    "x", "w_q", "w_k", "w_v", "w_o", "norm_attention", "norm_feed_forward", "w_gate", "w_up",
    "w_down",
)  # fmt: skip
X, W_V, W_O, FIRST, SECOND, W_DOWN = (
    NAMES.index(n)
    for n in ("x", "w_v", "w_o", "norm_attention", "norm_feed_forward", "w_down")
)  # fmt: skip
Made = Callable[[Callable[..., Tensor], tuple[str, ...]], Functions]


def by_name(made: Made) -> Functions:
    """The layer from a function of every weight by its name, whose backward pass is another."""

    def transformer_layer(
        x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, norm_attention: Tensor,
        norm_feed_forward: Tensor, w_gate: Tensor, w_up: Tensor, w_down: Tensor,
        *, options: Mapping[str, Any],
    ) -> Tensor:  # fmt: skip
        values = (w_q, w_k, w_v, w_o, norm_attention, norm_feed_forward, w_gate, w_up, w_down)
        weights = dict(zip(NAMES[1:], values, strict=True))
        return right.transformer_layer(x, weights, **options)

    functions = made(transformer_layer, NAMES)

    def fresh() -> Mapping[str, Callable[..., Any]]:
        inner = functions()["transformer_layer"]

        def transformer_layer(
            x: Tensor, weights: Weights, *, n_heads: int, n_kv_heads: int | None = None,
            rope_base: float | None = 10000.0, eps: float = 1e-6,
        ) -> Tensor:  # fmt: skip
            options = {
                "n_heads": n_heads, "n_kv_heads": n_kv_heads, "rope_base": rope_base, "eps": eps,
            }  # fmt: skip
            found: Tensor = inner(x, **{n: weights[n] for n in NAMES[1:]}, options=options)
            return found

        return {"transformer_layer": transformer_layer}

    return fresh


def _ruled(rule: passes.Rule) -> Functions:
    return by_name(lambda function, names: passes.by_rule(function, names, rule))


Edit = Callable[[list[Tensor], tuple[Tensor, ...]], None]
"""Changes a list of gradients, from the call's tensors."""


def _edited(edit: Edit) -> Functions:
    """The right gradients, of which some are changed."""

    def rule(
        run: Run, tensors: tuple[Tensor, ...], upstream: Tensor, _needed: tuple[bool, ...]
    ) -> Grads:
        found = list(pulled(run, tensors, upstream))
        edit(found, tensors)
        return tuple(found)

    return _ruled(rule)


def _down_shifted(found: list[Tensor], _tensors: tuple[Tensor, ...]) -> None:
    found[W_DOWN] = found[W_DOWN].roll(1, 0)


def _gain_without_values(found: list[Tensor], tensors: tuple[Tensor, ...]) -> None:
    of_values = (tensors[W_V] * found[W_V]).sum(1) / tensors[FIRST]
    found[FIRST] = found[FIRST] - of_values


def _mean(found: list[Tensor], tensors: tuple[Tensor, ...]) -> None:
    found[X + 1 :] = [g / max(len(tensors[X]), 1) for g in found[X + 1 :]]


def _gains_with_x(
    run: Run, tensors: tuple[Tensor, ...], upstream: Tensor, needed: tuple[bool, ...]
) -> Grads:
    found = list(pulled(run, tensors, upstream))
    if not needed[X]:
        found[FIRST], found[SECOND] = torch.zeros_like(found[FIRST]), 0.0 * found[SECOND]
    return tuple(found)


def _first_entry(
    run: Run, tensors: tuple[Tensor, ...], upstream: Tensor, _needed: tuple[bool, ...]
) -> Grads:
    found = list(pulled(run, tensors, upstream))
    first = torch.cat((upstream[:1], torch.zeros_like(upstream[1:])))
    found[W_O] = pulled(run, tensors, first)[W_O]
    return tuple(found)


def _strided(
    run: Run, tensors: tuple[Tensor, ...], upstream: Tensor, _needed: tuple[bool, ...]
) -> Grads:
    return pulled(run, tensors, read_as_contiguous(upstream))


def _used_up(
    run: Run, tensors: tuple[Tensor, ...], upstream: Tensor, _needed: tuple[bool, ...]
) -> Grads:
    found = pulled(run, tensors, upstream)
    overwrite(upstream, found[X])
    return found


def _row(name: str, text: tuple[str, str, str], law: str, made: Functions, **more: Any) -> Fault:
    return fault(f"gradient_{name}", *text, law, made, **more)


_DOWN = (
    "K22",
    "a row of the gradient of w_down is that of the hidden channel before",
    "Form it from the hidden channel of the same row.",
)
_FIRST_GAIN = (
    "K22",
    "the gradient of norm_attention lacks what comes back through values",
    "Add up the parts of queries, keys and values.",
)
_OUTPUT = (
    "K22",
    "the gradient of w_o is that of the first batch entry",
    "Add up the gradients of all entries.",
)

FAULTS: tuple[Fault, ...] = (
    _row("of_down_shifted", _DOWN,
         "network_adjoint", _edited(_down_shifted)),
    _row("of_first_gain_without_values", _FIRST_GAIN,
         "gains_adjoint", _edited(_gain_without_values)),
    _row("mean_over_batch", ("K22", "gradients of weights are means over the batch",
                             "Add up the entries' gradients."),
         "gradients_of_entries", _edited(_mean)),
    _row("of_output_matrix_of_first_entry", _OUTPUT,
         "gradients_of_entries", _ruled(_first_entry)),
    _row("of_gains_only_with_x", ("K21", "gains get zeros where x needs no gradient",
                                  "Compute the gradients of gains whenever they are needed."),
         "gradients_of_some", _ruled(_gains_with_x)),
    _row("upstream_as_contiguous", ("K26", "the strides of the upstream gradient are ignored",
                                    "Read it by its strides, or copy it."),
         "gradients_of_views", _ruled(_strided)),
    _row("overwrites_upstream", ("K29", "the gradient of x is written over the upstream",
                                 "Leave what is handed over as it is."),
         "gradient_leaves_output", _ruled(_used_up)),
    _row("of_latest_call", passes.LATEST, "gradients_between_calls",
         by_name(passes.of_latest)),
    _row("added_to_grad", passes.ADDS, "gradients_accumulate", by_name(passes.adds_to_grad)),
)  # fmt: skip
