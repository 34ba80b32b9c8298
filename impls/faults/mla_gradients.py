"""Latent attention whose gradients miss a way, or are not those of the call: in both orders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from attnspec.impls import mla as right
from attnspec.impls.faults import passes
from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.mla_steps import (
    Functions,
    Sizes,
    absorbed_by,
    built_by,
    fault,
    rotary_key,
    rotary_query,
    value,
)
from attnspec.impls.faults.passes import Grads, Run, pulled
from attnspec.impls.faults.views import overwrite, read_as_contiguous
from attnspec.impls.mla import Weights, by_head, heads_of, weighed

NAMES = ("x", "w_dq", "w_uq", "w_qr", "w_dkv", "w_uk", "w_uv", "w_kr", "w_o")
ORDERS: Mapping[str, Callable[..., Tensor]] = {
    "mla": right.mla, "mla_absorbed": right.mla_absorbed,
}  # fmt: skip
EXCHANGED: Mapping[str, Callable[..., Functions]] = {"mla": built_by, "mla_absorbed": absorbed_by}


def by_name(
    component: str, made: Callable[[Callable[..., Tensor], tuple[str, ...]], Functions]
) -> Functions:
    """A function of a dict of weights from one of every weight by its name, whose backward pass is
    another."""

    def flat(
        x: Tensor, w_dq: Tensor, w_uq: Tensor, w_qr: Tensor, w_dkv: Tensor, w_uk: Tensor,
        w_uv: Tensor, w_kr: Tensor, w_o: Tensor, *, n_heads: int, causal: bool = True,
        rope_base: float = 10000.0,
    ) -> Tensor:  # fmt: skip
        values = (w_dq, w_uq, w_qr, w_dkv, w_uk, w_uv, w_kr, w_o)
        weights = dict(zip(NAMES[1:], values, strict=True))
        return ORDERS[component](x, weights, n_heads=n_heads, causal=causal, rope_base=rope_base)

    flat.__name__ = component
    functions = made(flat, NAMES)

    def fresh() -> Mapping[str, Callable[..., Any]]:
        inner = functions()[component]

        def function(
            x: Tensor, weights: Weights, *, n_heads: int, causal: bool = True,
            rope_base: float = 10000.0,
        ) -> Tensor:  # fmt: skip
            found: Tensor = inner(x, **{n: weights[n] for n in NAMES[1:]}, n_heads=n_heads,
                                  causal=causal, rope_base=rope_base)  # fmt: skip
            return found

        return {component: function}

    return fresh


def _rule(rule: passes.Rule) -> Callable[[Callable[..., Tensor], tuple[str, ...]], Functions]:
    return lambda function, names: passes.by_rule(function, names, rule)


def _with_floor(run: Run, tensors: tuple[Tensor, ...], upstream: Tensor,
                _needed: tuple[bool, ...]) -> Grads:  # fmt: skip
    """An upstream without zeros: the smallest step of float16 in their place."""
    floor = torch.full_like(upstream, 2.0**-10)
    return pulled(run, tensors, torch.where(upstream == 0.0, floor, upstream))


def _strided(run: Run, tensors: tuple[Tensor, ...], upstream: Tensor,
             _needed: tuple[bool, ...]) -> Grads:  # fmt: skip
    return pulled(run, tensors, read_as_contiguous(upstream))


def _only_with_x(run: Run, tensors: tuple[Tensor, ...], upstream: Tensor,
                 needed: tuple[bool, ...]) -> Grads:  # fmt: skip
    grads = pulled(run, tensors, upstream)
    return grads if needed[0] else tuple(torch.zeros_like(g) for g in grads)


def _overwriting(run: Run, tensors: tuple[Tensor, ...], upstream: Tensor,
                 _needed: tuple[bool, ...]) -> Grads:  # fmt: skip
    grads = pulled(run, tensors, upstream)
    overwrite(upstream, 2.0 * upstream.detach() + 1.0)
    return grads


def _output_transposed(run: Run, tensors: tuple[Tensor, ...], upstream: Tensor,
                       _needed: tuple[bool, ...]) -> Grads:  # fmt: skip
    """The gradient of w_o backwards along its rows."""
    *grads, out = pulled(run, tensors, upstream)
    return (*grads, out.flip(0))


def _squared_output(run: Run) -> Run:
    """A call in which w_o and w_uv are used in another strength."""

    def other(*values: Tensor) -> Tensor:
        return run(*values) * 1.5

    return other


def _detached_normaliser(scores: Tensor, s: Sizes) -> Tensor:
    """Weights whose normaliser has no gradient."""
    shares = weighed(scores, causal=s.causal)
    total = torch.logsumexp(
        scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool,
                                      device=scores.device).triu(1), -torch.inf)
        if s.causal else scores, -1, keepdim=True,
    ).detach()  # fmt: skip
    # the same numbers, of which autograd sees the numerator alone
    numerators = (scores - total).masked_fill(shares == 0.0, -torch.inf).exp()
    return shares.detach() + (numerators - numerators.detach())


def _training_scale(scores: Tensor, s: Sizes) -> Tensor:
    """Where gradients will be asked for, scores are taken by another scale."""
    factor = ((s.d + s.p) / s.d) ** 0.5 if scores.requires_grad else 1.0
    return weighed(scores * factor, causal=s.causal)


def _detached_query(asking: Tensor, w: Weights, s: Sizes) -> Tensor:
    return by_head(asking.detach() @ w["w_uq"], s.h)


def _half_key(x: Tensor, w: Weights, places: Tensor, base: float, s: Sizes) -> Tensor:
    """The gradient of the rotary key is that of one head, of several."""
    shared = rotary_key(x, w, places, base, s)
    return torch.cat((shared, shared.detach().expand(-1, s.h - 1, -1, -1)), 1)


def _value_detached(latent: Tensor, w: Weights, s: Sizes) -> Tensor:
    return value(latent.detach(), w, s)


def _left_detached(latents: Tensor, w: Weights, s: Sizes) -> Tensor:
    return torch.einsum("bhtc,che->bhte", latents, heads_of(w["w_uv"], s.h).detach() * 0.5
                        + heads_of(w["w_uv"], s.h) * 0.5)  # fmt: skip


def _of_both(component: str) -> tuple[Fault, ...]:
    made = EXCHANGED[component]

    def row(identity: str, kind: str, reason: str, remedy: str, law: str,
            functions: Functions, **more: Any) -> Fault:  # fmt: skip
        return fault(
            component, f"gradient_{identity}", kind, reason, remedy, law, functions, **more
        )

    def passed(name: str, text: tuple[str, str, str], law: str, functions: Functions) -> Fault:
        return passes.fault(component, name, text, law, functions)

    return (
        row("of_rotary_key_missing", "K21", "the rotary key is taken out of the graph",
            "Let gradients reach w_kr through the rotation.", "gradients_match_oracle",
            made(rotary_key=lambda x, w, places, base, s:
                 rotary_key(x, w, places, base, s).detach())),
        row("of_rotary_query_missing", "K21", "rotary queries are taken out of the graph",
            "Let gradients reach w_qr through the rotation.", "gradients_match_oracle",
            made(rotary_query=lambda a, w, places, base, s:
                 rotary_query(a, w, places, base, s).detach())),
        row("of_query_latent_by_positions_alone", "K21", "the content's query latent is taken out "
            "of the graph", "Add up what both streams send back to the query latent.",
            "gradients_match_oracle", made(content_query=_detached_query)),
        row("of_normaliser_missing", "K22", "the normaliser of softmax has no gradient",
            "Subtract from dP its weighted mean, row by row.", "gradients_match_oracle",
            made(weighed=_detached_normaliser)),
        row("of_rotary_key_of_first_head", "K22", "of what heads send back to the shared rotary "
            "key only the first head's is kept", "Add up the gradients of all heads.",
            "scores_adjoint", made(rotary_key=_half_key)),
        row("without_upstream", "K22", "a floor is put under the upstream gradient",
            "Use the upstream gradient as it is.", "zero_upstream",
            by_name(component, _rule(_with_floor))),
        row("upstream_as_contiguous", "K26", "the upstream gradient is read without its strides",
            "Read it by its strides, or copy it first.", "gradients_of_views",
            by_name(component, _rule(_strided))),
        row("only_with_x", "K21", "weights have gradients only where x has one",
            "Form the gradients that are asked for, whichever they are.", "gradients_of_some",
            by_name(component, _rule(_only_with_x))),
        row("overwrites_upstream", "K29", "the upstream gradient is overwritten",
            "Leave it as it is.", "gradient_leaves_output",
            by_name(component, _rule(_overwriting))),
        row("of_output_backwards", "K22", "the gradient of w_o has its rows backwards",
            "Multiply the heads' outputs, side by side, by the upstream gradient.",
            "gradients_along", by_name(component, _rule(_output_transposed))),
        row("of_gradient_of_another_strength", "K22", "the second backward pass has another factor",
            "Derive the backward pass that there is.", "gradients_of_gradients",
            by_name(component, lambda f, n: passes.derived_again(f, n, _squared_output))),
        row("of_another_scale", "K23", "in training scores are scaled by the content's width",
            "Use one scale with and without gradients.", "same_with_gradients",
            made(weighed=_training_scale)),
        passed("of_latest_call", passes.LATEST, "gradients_between_calls",
               by_name(component, passes.of_latest)),
        passed("added_to_grad", passes.ADDS, "gradients_accumulate",
               by_name(component, passes.adds_to_grad)),
        passed("carried_over", passes.CARRIES, "gradients_stay_apart",
               by_name(component, _rule(passes.carried))),
    )  # fmt: skip


FAULTS: tuple[Fault, ...] = (
    *_of_both("mla"),
    fault("mla", "gradient_of_latent_by_keys_alone", "K21",
          "the latent that values are made of is taken out of the graph",
          "Add up what keys and values send back to the latent.", "gradients_match_oracle",
          built_by(value=_value_detached)),
    fault("mla", "gradient_of_values_halved", "K22", "half of the gradient of w_uv is lost",
          "Multiply the latents by what values send back.", "values_adjoint",
          built_by(value=lambda a, w, s: value(a, {"w_uv": 0.5 * w["w_uv"]
                                                   + 0.5 * w["w_uv"].detach()}, s))),
    *_of_both("mla_absorbed"),
    fault("mla_absorbed", "gradient_of_values_halved", "K22",
          "half of the gradient of w_uv is lost",
          "Multiply the weighted latents by what heads send back.", "values_adjoint",
          absorbed_by(left=_left_detached)),
)  # fmt: skip
