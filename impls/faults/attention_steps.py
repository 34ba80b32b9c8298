"""Attention in its steps, each of which a fault may replace.

The steps as they stand are right: all numbers in float32, or in the dtype of the inputs where that
is wider, and one rounding at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

Functions = Callable[[], Mapping[str, Callable[..., Any]]]


@dataclass(frozen=True)
class Call:
    """The arguments of one call, tensors in the dtype of the computation."""

    q: Tensor
    k: Tensor
    v: Tensor
    mask: Tensor | None
    bias: Tensor | None
    causal: bool
    window: int | None
    softcap: float | None
    scale: float | None
    return_lse: bool
    storage: torch.dtype

    @property
    def lengths(self) -> tuple[int, int]:
        """Numbers of queries and keys."""
        return self.q.shape[-2], self.k.shape[-2]

    @property
    def factor(self) -> float:
        """What scores are scaled by."""
        return self.q.shape[-1] ** -0.5 if self.scale is None else self.scale


Results = tuple[Tensor, Tensor]
"""Output `b h t e` and log-sum-exp `b h t`."""


def by_call(made: Callable[[dict[str, Any]], Any]) -> Functions:
    """An attention that returns what `made` gives for its arguments, by name and in order."""

    def attention(
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        causal: bool = False,
        window: int | None = None,
        softcap: float | None = None,
        scale: float | None = None,
        return_lse: bool = False,
    ) -> Any:
        tensors = {"q": q, "k": k, "v": v, "mask": mask, "bias": bias}
        rules = {"causal": causal, "window": window, "softcap": softcap, "scale": scale}
        return made({**tensors, **rules, "return_lse": return_lse})

    return lambda: {"attention": attention}


def by_results(results: Callable[[Call], Results]) -> Functions:
    """An attention whose output and log-sum-exp, in the dtype of the computation, are these."""

    def made(arguments: dict[str, Any]) -> Any:
        output, lse = results(call(arguments))
        output = output.to(arguments["q"].dtype)
        return (output, lse) if arguments["return_lse"] else output

    return by_call(made)


def call(arguments: Mapping[str, Any]) -> Call:
    """The arguments, floating ones widened."""
    storage = arguments["q"].dtype
    wide = torch.promote_types(storage, torch.float32)
    widened: dict[str, Any] = {
        name: x.to(wide) if isinstance(x, Tensor) and x.is_floating_point() else x
        for name, x in arguments.items()
    }
    return Call(**widened, storage=storage)


def by_arguments(changed: Callable[[Call], Call]) -> Functions:
    """A right attention of other arguments."""
    return by_results(lambda given: attended(changed(given)))


def by_heads(chosen: Callable[[Tensor, int], Tensor]) -> Functions:
    """An attention in which `chosen` gives each of the query heads its keys and its values."""

    def changed(given: Call) -> Call:
        heads = given.q.shape[1]
        return replace(given, k=chosen(given.k, heads), v=chosen(given.v, heads))

    return by_arguments(changed)


def by_products(products: Callable[[Call], Tensor]) -> Functions:
    """An attention with other scaled scores: `b h t s`, before softcap and bias."""
    return by_scores(lambda given: biased(given, capped(given, products(given))))


def by_scores(scores: Callable[[Call], Tensor]) -> Functions:
    """An attention with other scores: `b h t s`, before anything is hidden."""
    return by_results(
        lambda given: averaged(given, *weighted(hidden(scores(given), visible(given))))
    )


def by_visible(seen: Callable[[Call], Tensor]) -> Functions:
    """An attention where others see others: `b h t s`."""
    return by_results(lambda given: averaged(given, *weighted(hidden(scores(given), seen(given)))))


def by_weights(weights: Callable[[Tensor], Results]) -> Functions:
    """An attention that makes other weights of the scores, which are -inf where hidden: `b h t s`
    to `b h t s`, and the log-sum-exp `b h t`."""
    return by_results(
        lambda given: averaged(given, *weights(hidden(scores(given), visible(given))))
    )


def by_means(output: Callable[[Call, Tensor], Tensor]) -> Functions:
    """An attention that makes another output of right weights `b h t s`."""

    def results(given: Call) -> Results:
        weights, lse = weighted(hidden(scores(given), visible(given)))
        return output(given, weights), lse

    return by_results(results)


def attended(given: Call) -> Results:
    """The right results."""
    return averaged(given, *weighted(hidden(scores(given), visible(given))))


def repeated(x: Tensor, heads: int) -> Tensor:
    """Keys or values `b g s d`, each head repeated in a row: `b h s d`."""
    return x.repeat_interleave(heads // max(x.shape[1], 1), 1)


def products(given: Call) -> Tensor:
    """Scaled scores: `b h t s`."""
    return (given.q * given.factor) @ repeated(given.k, given.q.shape[1]).mT


def capped(given: Call, scores: Tensor) -> Tensor:
    """Scores after the softcap, if there is one."""
    return scores if given.softcap is None else given.softcap * (scores / given.softcap).tanh()


def biased(given: Call, scores: Tensor) -> Tensor:
    """Scores after the bias, if there is one."""
    return scores if given.bias is None else scores + given.bias


def scores(given: Call) -> Tensor:
    """Scores before anything is hidden: `b h t s`."""
    return biased(given, capped(given, products(given)))


def offsets(given: Call, shift: int | None = None) -> Tensor:
    """Position of each key minus that of each query: `t s`. `shift` is the position of the first
    query; by default the last query sits on the last key."""
    length, keys = given.lengths
    shift = keys - length if shift is None else shift
    rows = torch.arange(length, device=given.q.device)[:, None] + shift
    return torch.arange(keys, device=given.q.device) - rows


def in_window(given: Call, distance: Tensor) -> Tensor:
    """Whether a key is near enough: `t s`."""
    if given.window is None:
        return torch.ones_like(distance, dtype=torch.bool)
    return distance.abs() <= given.window


def before(given: Call, distance: Tensor) -> Tensor:
    """Whether a key isn't in the future, where that matters: `t s`."""
    return distance <= 0 if given.causal else torch.ones_like(distance, dtype=torch.bool)


def allowed(given: Call) -> Tensor:
    """What mask and bias leave: `t s`, with the axes of the mask and of the bias before that."""
    seen = torch.ones(given.lengths, dtype=torch.bool, device=given.q.device)
    if given.mask is not None:
        seen = seen & given.mask
    if given.bias is not None:
        seen = seen & (given.bias != -torch.inf)
    return seen


def visible(given: Call) -> Tensor:
    """Who sees whom, broadcastable to `b h t s`."""
    distance = offsets(given)
    return allowed(given) & before(given, distance) & in_window(given, distance)


def hidden(scores: Tensor, seen: Tensor) -> Tensor:
    """Scores, -inf where nothing is seen."""
    return scores.masked_fill(~seen, -torch.inf)


def largest(scores: Tensor) -> Tensor:
    """The maximum of each row, 0 where it sees nothing: `... 1`."""
    if scores.shape[-1] == 0:
        return scores.new_zeros((*scores.shape[:-1], 1))
    maximum = scores.detach().amax(-1, keepdim=True)
    return maximum.masked_fill(maximum == -torch.inf, 0.0)


def weighted(scores: Tensor) -> Results:
    """Weights and log-sum-exp of scores that are -inf where hidden; zeros where nothing is seen."""
    return normalised(scores, largest(scores))


def normalised(scores: Tensor, shift: Tensor) -> Results:
    """Weights and log-sum-exp, with the scores shifted by this much."""
    numerators = (scores - shift).exp()
    total = numerators.sum(-1, keepdim=True)
    nothing = total == 0
    total = total.masked_fill(nothing, 1.0)
    return numerators / total, (shift + total.log()).masked_fill(nothing, -torch.inf).squeeze(-1)


def averaged(given: Call, weights: Tensor, lse: Tensor) -> Results:
    """Output of these weights: `b h t e`, and the log-sum-exp."""
    return mean(given, weights), lse


def mean(given: Call, weights: Tensor) -> Tensor:
    """Values, averaged by weights `b h t s`: `b h t e`."""
    return weights @ repeated(given.v, given.q.shape[1])
