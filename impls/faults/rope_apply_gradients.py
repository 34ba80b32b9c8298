"""The rotation by given tables, whose backward pass is wrong."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attnspec.impls import rope as right
from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.rope import Functions
from attnspec.impls.faults.rope_gradients import Gradients, Rule, of_channels, rotation
from attnspec.impls.faults.views import read_as_contiguous, used_up
from attnspec.impls.rope import turned

Tables = tuple[Tensor, Tensor]


def by_tables(rule: Rule) -> Functions:
    """A right rotation by given tables with other gradients."""

    def rope_apply(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        right.rope_apply(x, cos, sin)  # checks the shapes
        return rotation(x, cos, sin, rule)

    return lambda: {"rope_apply": rope_apply}


def of_tables(upstream: Tensor, x: Tensor, cos: Tensor) -> Tables:
    """The right gradients of both tables for each head: `b h n d/2`."""
    dtype = torch.promote_types(torch.promote_types(x.dtype, cos.dtype), torch.float32)
    g0, g1 = upstream[..., 0::2].to(dtype), upstream[..., 1::2].to(dtype)
    x0, x1 = x[..., 0::2].to(dtype), x[..., 1::2].to(dtype)
    return g0 * x0 + g1 * x1, g1 * x0 - g0 * x1


def over_heads(found: Tensor, table: Tensor) -> Tensor:
    """Gradients for each head, summed over what shares the table."""
    summed = found.sum(1)
    return summed if table.ndim == 3 else summed.sum(0)


def gradients(upstream: Tensor, x: Tensor, cos: Tensor, sin: Tensor) -> Gradients:
    """The right ones."""
    of_cos, of_sin = of_tables(upstream, x, cos)
    return of_channels(upstream, cos, sin), over_heads(of_cos, cos), over_heads(of_sin, sin)


def by_sums(summed: Callable[[Tensor, Tensor], Tensor]) -> Functions:
    """A right rotation whose gradients of the tables are summed in another way."""

    def rule(upstream: Tensor, x: Tensor, cos: Tensor, sin: Tensor) -> Gradients:
        of_cos, of_sin = of_tables(upstream, x, cos)
        return of_channels(upstream, cos, sin), summed(of_cos, cos), summed(of_sin, sin)

    return by_tables(rule)


def _without_tables(upstream: Tensor, x: Tensor, cos: Tensor, sin: Tensor) -> Gradients:
    return of_channels(upstream, cos, sin), None, None


def _without_sine(upstream: Tensor, x: Tensor, cos: Tensor, sin: Tensor) -> Gradients:
    of_x, of_cos, of_sin = gradients(upstream, x, cos, sin)
    return of_x, of_cos, None if of_sin is None else torch.zeros_like(of_sin)


def _sine_sign(upstream: Tensor, x: Tensor, cos: Tensor, sin: Tensor) -> Gradients:
    of_x, of_cos, of_sin = gradients(upstream, x, cos, sin)
    return of_x, of_cos, None if of_sin is None else -of_sin


def _by_turned(upstream: Tensor, x: Tensor, cos: Tensor, sin: Tensor) -> Gradients:
    _, of_cos, of_sin = gradients(upstream, turned(x, cos, sin), cos, sin)
    return of_channels(upstream, cos, sin), of_cos, of_sin


def _same_direction(upstream: Tensor, x: Tensor, cos: Tensor, sin: Tensor) -> Gradients:
    _, of_cos, of_sin = gradients(upstream, x, cos, sin)
    return turned(upstream, cos, sin), of_cos, of_sin


def _last_head(found: Tensor, table: Tensor) -> Tensor:
    return over_heads(found[:, -1:], table)


def _mean_of_heads(found: Tensor, table: Tensor) -> Tensor:
    return over_heads(found, table) / max(found.shape[1], 1)


def _last_entry(found: Tensor, table: Tensor) -> Tensor:
    return over_heads(found if table.ndim == 3 else found[-1:], table)


FAULTS = (
    Fault(
        id="rope_apply.gradient_same_direction",
        component="rope_apply",
        kind="K22",
        reason="turns the upstream gradient by the same tables as the input",
        remedy="Negate the sine in the gradient of x.",
        law="rope_apply.gradients_adjoint",
        functions=by_tables(_same_direction),
    ),
    Fault(
        id="rope_apply.gradient_of_tables_missing",
        component="rope_apply",
        kind="K21",
        reason="takes the tables for constants and gives them no gradient",
        remedy="Return the gradients of both tables, or detach them where they're made.",
        law="rope_apply.gradients_match_oracle",
        functions=by_tables(_without_tables),
        report="huggingface/candle #3612",
    ),
    Fault(
        id="rope_apply.gradient_of_sine_zero",
        component="rope_apply",
        kind="K21",
        reason="writes the gradient of the cosine and leaves that of the sine at zero",
        remedy="Return the second channel's gradient times the first channel, minus the reverse.",
        law="rope_apply.gradients_match_oracle",
        functions=by_tables(_without_sine),
    ),
    Fault(
        id="rope_apply.gradient_of_sine_negated",
        component="rope_apply",
        kind="K22",
        reason="exchanges the two terms in the gradient of the sine",
        remedy="Subtract the term of the first channel's gradient.",
        law="rope_apply.gradients_match_oracle",
        functions=by_tables(_sine_sign),
    ),
    Fault(
        id="rope_apply.gradient_of_tables_by_result",
        component="rope_apply",
        kind="K22",
        reason="multiplies by the turned channels in the gradients of the tables; the input was "
        "overwritten by the result",
        remedy="Save the input, or turn the result back first.",
        law="rope_apply.gradients_match_oracle",
        functions=by_tables(_by_turned),
    ),
    Fault(
        id="rope_apply.gradient_of_tables_last_head",
        component="rope_apply",
        kind="K22",
        reason="writes the gradients of the tables once for each head, so that the last one wins",
        remedy="Sum over the heads that share a table.",
        law="rope_apply.gradients_match_oracle",
        functions=by_sums(_last_head),
    ),
    Fault(
        id="rope_apply.gradient_of_tables_mean",
        component="rope_apply",
        kind="K22",
        reason="averages the gradients of the tables over the heads; they are sums",
        remedy="Sum over the heads that share a table.",
        law="rope_apply.gradients_match_oracle",
        functions=by_sums(_mean_of_heads),
    ),
    Fault(
        id="rope_apply.gradient_of_tables_last_entry",
        component="rope_apply",
        kind="K22",
        reason="gives tables that all batch entries share the gradients of the last entry",
        remedy="Sum over the batch where the tables have no axis for it.",
        law="rope_apply.gradients_match_oracle",
        functions=by_sums(_last_entry),
    ),
    Fault(
        id="rope_apply.gradient_upstream_ignored",
        component="rope_apply",
        kind="K22",
        reason="turns ones back in place of the upstream gradient",
        remedy="Turn the upstream gradient back.",
        law="rope_apply.zero_upstream",
        functions=by_tables(lambda upstream, *rest: gradients(torch.ones_like(upstream), *rest)),
    ),
    Fault(
        id="rope_apply.gradient_upstream_as_contiguous",
        component="rope_apply",
        kind="K26",
        reason="takes the strides of a fresh tensor for granted in the upstream gradient",
        remedy="Use the strides of the upstream gradient, or copy it.",
        law="rope_apply.gradients_of_views",
        functions=by_tables(lambda upstream, *rest: gradients(read_as_contiguous(upstream), *rest)),
    ),
    Fault(
        id="rope_apply.gradient_overwrites_upstream",
        component="rope_apply",
        kind="K20",
        reason="uses the upstream gradient as its buffer, which others may still need",
        remedy="Write to a tensor of your own.",
        law="rope_apply.gradient_leaves_output",
        functions=by_tables(lambda upstream, *rest: gradients(used_up(upstream), *rest)),
    ),
)
