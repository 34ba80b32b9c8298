"""RoPE whose backward passes are right once, or for one call, and wrong then."""

from __future__ import annotations

import torch
from torch import Tensor

from attnspec.impls.faults import passes
from attnspec.impls.faults.passes import Grads, Run, fault, pulled
from attnspec.impls.rope import rope, rope_apply

X = ("x",)
ALL = ("x", "cos", "sin")


def _turned_back(run: Run) -> Run:
    """Turns x by the opposite angle, which is the gradient of turning it."""

    def other(x: Tensor, *tables: Tensor) -> Tensor:
        with torch.enable_grad():
            leaf = x.detach().requires_grad_()
            (found,) = torch.autograd.grad(run(leaf, *tables), leaf, x, create_graph=True)
        return found

    return other


def _tables_with_x(
    run: Run, tensors: tuple[Tensor, ...], upstream: Tensor, needed: tuple[bool, ...]
) -> Grads:
    x, cos, sin = pulled(run, tensors, upstream)
    return (x, cos, sin) if needed[0] else (x, torch.zeros_like(cos), torch.zeros_like(sin))


def _tables_in_storage(
    run: Run, tensors: tuple[Tensor, ...], upstream: Tensor, needed: tuple[bool, ...]
) -> Grads:
    x, *tables = tensors
    of_x, *totals = pulled(run, tensors, upstream * 0.0)
    of_x = pulled(run, tensors, upstream)[0]
    for head in range(x.shape[1]):
        part = torch.zeros_like(upstream)
        part[:, head] = upstream[:, head]
        _, *terms = pulled(run, (x, *tables), part)
        totals = [total + term for total, term in zip(totals, terms, strict=True)]
    return of_x, *totals


AGAIN = (
    "K22",
    "turns back once more in the second backward pass; the derivative of turning back is turning",
    "Turn forward in the second backward pass.",
)

FAULTS = (
    fault("rope", "added_to_grad", passes.ADDS, "gradients_accumulate",
          passes.adds_to_grad(rope, X)),
    fault("rope", "of_latest_call", passes.LATEST, "gradients_between_calls",
          passes.of_latest(rope, X)),
    fault("rope", "carried_over", passes.CARRIES, "gradients_stay_apart",
          passes.by_rule(rope, X, passes.carried)),
    fault("rope", "of_gradient_turned_back", AGAIN, "gradients_of_gradients",
          passes.derived_again(rope, X, _turned_back)),
    fault("rope_apply", "added_to_grad", passes.ADDS, "gradients_accumulate",
          passes.adds_to_grad(rope_apply, ALL)),
    fault("rope_apply", "of_latest_call", passes.LATEST, "gradients_between_calls",
          passes.of_latest(rope_apply, ALL)),
    fault("rope_apply", "carried_over", passes.CARRIES, "gradients_stay_apart",
          passes.by_rule(rope_apply, ALL, passes.carried)),
    fault("rope_apply", "of_gradient_turned_back", AGAIN, "gradients_of_gradients",
          passes.derived_again(rope_apply, ALL, _turned_back)),
    fault(
        "rope_apply",
        "of_tables_with_x",
        (
            "K21",
            "leaves the gradients of the tables at zero where x needs none",
            "Decide for each argument by itself what it needs.",
        ),
        "gradients_of_some",
        passes.by_rule(rope_apply, ALL, _tables_with_x),
    ),
    fault(
        "rope_apply",
        "of_tables_in_storage",
        (
            "K13",
            "rounds the running sums of the tables' gradients to half precision after each head",
            "Add up over the heads in float32 and round once, or declare reductions: storage.",
        ),
        "gradients_long_sums",
        passes.by_rule(rope_apply, ALL, _tables_in_storage),
        dtypes=("bfloat16", "float16"),
    ),
)  # fmt: skip
