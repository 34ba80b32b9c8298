"""Multi-head attention that returns what is right, and goes back through a wrong step, or keeps,
adds or leaves something out on the way back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attnspec.impls import multi_head_attention as right
from attnspec.impls.faults import passes
from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.multi_head_attention_steps import (
    NAMES,
    RIGHT,
    Call,
    Functions,
    by_steps,
    fault,
    made_of,
    only_at,
    weighed,
)
from attnspec.impls.faults.passes import Grads, Run, pulled
from attnspec.impls.faults.transformer_layer_gradients import with_slope_of
from attnspec.impls.faults.transformer_layer_steps import Rule, graded
from attnspec.impls.faults.views import overwrite, read_as_contiguous
from attnspec.impls.rope import rope

Made = Callable[[Callable[..., Tensor], tuple[str, ...]], Functions]


def graded_at(place: str, rule: Rule) -> Functions:
    """The right function, with another gradient going back through one place."""
    return by_steps(at=only_at(place, partial(graded, rule)))


def by_name(made: Made) -> Functions:
    """The right function with another backward pass as a whole."""

    def multi_head_attention(
        x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor,
        *, options: Mapping[str, Any],
    ) -> Tensor:  # fmt: skip
        return right.multi_head_attention(x, w_q, w_k, w_v, w_o, **options)

    functions = made(multi_head_attention, NAMES)

    def fresh() -> Mapping[str, Callable[..., Any]]:
        inner = functions()["multi_head_attention"]

        def way(tensors: tuple[Tensor, ...], options: dict[str, Any]) -> Tensor:
            found: Tensor = inner(**dict(zip(NAMES, tensors, strict=True)), options=options)
            return found

        return {"multi_head_attention": made_of(way)}

    return fresh


def _ruled(rule: passes.Rule) -> Functions:
    return by_name(lambda function, names: passes.by_rule(function, names, rule))


def _without_row_sum(scores: Tensor, call: Call) -> Tensor:
    shares = weighed(scores, call).detach()
    return shares + shares * (scores - scores.detach())


def _leaking(scores: Tensor, call: Call) -> Tensor:
    """Some of the gradient goes to the scores of later tokens."""
    return weighed(scores, call) + 2.0**-4 * (scores - scores.detach())


def _turned_forward(x: Tensor, at: Tensor, base: float) -> Tensor:
    return with_slope_of(rope(x, at, base=base), rope(x, -at, base=base))


def _not_turned_back(x: Tensor, at: Tensor, base: float) -> Tensor:
    return with_slope_of(rope(x, at, base=base), x)


def _from_first_reader(x: Tensor, call: Call) -> Tensor:
    copies = RIGHT.repeated(x, call)
    first = (torch.arange(call.h, device=x.device) % (call.h // call.g) == 0)[:, None, None]
    return torch.where(first, copies, copies.detach())


def _mean_of_readers(x: Tensor, call: Call) -> Tensor:
    factor = call.g / call.h
    return x.detach() * (1.0 - factor) + x * factor


def _ones(_run: Run, tensors: tuple[Tensor, ...], upstream: Tensor,
          _needed: tuple[bool, ...]) -> Grads:  # fmt: skip
    return pulled(_run, tensors, torch.ones_like(upstream))


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


def _backwards(run: Run, tensors: tuple[Tensor, ...], upstream: Tensor,
               _needed: tuple[bool, ...]) -> Grads:  # fmt: skip
    *grads, out = pulled(run, tensors, upstream)
    return (*grads, out.flip(0))


def _first_entry(run: Run, tensors: tuple[Tensor, ...], upstream: Tensor,
                 _needed: tuple[bool, ...]) -> Grads:  # fmt: skip
    *grads, _ = pulled(run, tensors, upstream)
    first = torch.cat((upstream[:1], torch.zeros_like(upstream[1:])))
    return (*grads, pulled(run, tensors, first)[-1])


def _mean(run: Run, tensors: tuple[Tensor, ...], upstream: Tensor,
          _needed: tuple[bool, ...]) -> Grads:  # fmt: skip
    x, *weights = pulled(run, tensors, upstream)
    return (x, *(g / max(len(x), 1) for g in weights))


def _stronger(run: Run) -> Run:
    """A call of another strength."""

    def other(*values: Tensor) -> Tensor:
        return run(*values) * 1.5

    return other


def _row(name: str, text: tuple[str, str, str], law: str, made: Functions, **more: Any) -> Fault:
    return fault(f"gradient_{name}", *text, law, made, **more)


_ORACLE = "gradients_match_oracle"
_FORM = "Form the gradients that are asked for, whichever they are."

FAULTS: tuple[Fault, ...] = (
    _row("of_softmax_without_row_sum", ("K22", "softmax goes back without the row's sum",
         "Subtract the sum of weights times gradients from every gradient of a row."), _ORACLE,
         by_steps(weighed=_without_row_sum)),
    _row("of_queries_unscaled", ("K05", "gradients of queries lack the scale of scores",
         "Multiply by d^-0.5 on the way back too."), _ORACLE,
         graded_at("q", lambda g, q: g * float(q.shape[-1] ** 0.5))),
    _row("turned_forward", ("K22", "gradients of queries and keys are turned forward",
         "Turn gradients by the opposite angle."), _ORACLE,
         by_steps(rotated=_turned_forward, rotated_key=_turned_forward)),
    _row("of_keys_not_turned", ("K22", "the gradient of keys is not turned back",
         "Turn it by the opposite angle."), _ORACLE, by_steps(rotated_key=_not_turned_back)),
    _row("of_heads_in_bfloat16", ("K13", "the gradient of heads is rounded to bfloat16",
         "Keep it in the dtype that the contract promises."), _ORACLE,
         graded_at("heads", lambda g, _: g.to(torch.bfloat16).to(g.dtype)),
         dtypes=("float32", "float64")),
    _row("missing", ("K21", "w_k has no gradient", "Return a gradient for every weight."), _ORACLE,
         by_steps(at=only_at("w_k", lambda w, _: w.detach()))),
    _row("upstream_ignored", ("K22", "the backward pass starts from ones",
         "Start from the upstream gradient."), "zero_upstream", _ruled(_ones)),
    _row("upstream_as_contiguous", ("K26", "the upstream gradient is read without its strides",
         "Read it by its strides, or copy it first."), "gradients_of_views", _ruled(_strided)),
    _row("only_with_x", ("K21", "weights have gradients only where x has one", _FORM),
         "gradients_of_some", _ruled(_only_with_x)),
    _row("of_latest_call", passes.LATEST, "gradients_between_calls", by_name(passes.of_latest)),
    _row("overwrites_upstream", ("K29", "the upstream gradient is overwritten",
         "Leave it as it is."), "gradient_leaves_output", _ruled(_overwriting)),
    _row("added_to_grad", passes.ADDS, "gradients_accumulate", by_name(passes.adds_to_grad)),
    _row("of_output_backwards", ("K22", "the gradient of w_o has its rows backwards",
         "Multiply the heads' outputs, side by side, by the upstream gradient."),
         "gradients_along", _ruled(_backwards)),
    _row("of_gradient_of_another_strength", ("K22", "the second backward pass has another factor",
         "Derive the backward pass that there is."), "gradients_of_gradients",
         by_name(lambda f, n: passes.derived_again(f, n, _stronger))),
    _row("of_later_keys", ("K23", "scores of later tokens get a gradient",
         "Mask the gradient of scores as the scores."), "gradients_stay_apart",
         by_steps(weighed=_leaking)),
    _row("of_values_carried", ("K29", ("the gradient of a batch entry's values has that of the "
         "entry before added"), "Clear the buffer for every entry."), "gradients_stay_apart",
         graded_at("v", lambda g, _: g + g.roll(1, 0))),
    _row("of_keys_of_one_head", ("K22", ("of the heads that share keys and values one alone sends "
         "a gradient back"), "Add up the gradients of all heads of a group."), "heads_adjoint",
         by_steps(repeated=_from_first_reader), report="marin-community/levanter #449"),
    _row("of_values_mean_of_heads", ("K22", ("gradients of shared values are the mean over the "
         "heads that share them"), "Add them up."), "heads_adjoint",
         by_steps(at=only_at("v", _mean_of_readers))),
    _row("of_output_matrix_of_first_entry", ("K22", ("the gradient of w_o is that of the first "
         "batch entry"), "Add up the gradients of all entries."), "gradients_of_entries",
         _ruled(_first_entry)),
    _row("mean_over_batch", ("K22", "gradients of weights are means over the batch",
         "Add up the entries' gradients."), "gradients_of_entries", _ruled(_mean)),
    _row("dropped_in_training", ("K29", "where gradients are asked for heads are smaller",
         "Compute the same whether or not gradients are asked for."), "same_with_gradients",
         by_steps(at=only_at("heads", lambda x, _: x * 0.75 if x.requires_grad else x))),
)  # fmt: skip
