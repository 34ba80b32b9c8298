"""Laws about gradients, the same for every component.

Sources: the definitions' adjoint tapes (`oracle/adjoint.py`). A gradient is judged as the gradient
of sum(upstream * result), with an upstream that is drawn: a sum of the result alone has a constant
upstream, which softmax and norms send to zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from attnspec.oracle import gradient_passes
from attnspec.oracle.calls import Check, Oracle, Others, agree, close, same
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.family import CHANNELS, REPEATED, UNIFORM, repeated
from attnspec.oracle.gradient_passes import Gradients, Jacobians, Parts
from attnspec.oracle.inputs import LAYOUTS, generator
from attnspec.oracle.law import Breach, Implementation, Inputs, Law
from attnspec.oracle.upstream import upstream_of

Array = np.ndarray[Any, Any]


def match_oracle(gradients: Gradients) -> Check:
    """Every element of every gradient within its derived allowance of the exact value."""

    def check(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
        upstream = upstream_of(inputs)
        actual = implementation.gradients(inputs, upstream)
        right = gradients(implementation, inputs, upstream)
        dtype = implementation.dtype
        return [close(f"gradient of {name}", actual[name], right[name], dtype) for name in right]

    return check


def zero_upstream(gradients: Gradients) -> Check:
    """An upstream of nothing but zeros gives zeros, where nothing can overflow on the way."""

    def check(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
        upstream = np.zeros_like(upstream_of(inputs))
        actual = implementation.gradients(inputs, upstream)
        right = gradients(implementation, inputs, upstream)
        found = []
        for name, wanted in right.items():
            value = np.where(np.isfinite(wanted.allowance), actual[name], 0.0)
            found.append(
                same(f"gradient of {name}", value, np.zeros_like(value), implementation.dtype)
            )
        return found

    return check


def _first_axis_repeats(inputs: Inputs) -> bool:
    return True


def _not_along_channels(inputs: Inputs) -> bool:
    return False


def _no_others(implementation: Implementation, inputs: Inputs) -> list[Inputs]:
    return []


def of_views(
    gradients: Gradients,
    expands: Callable[[Inputs], bool] = _first_axis_repeats,
    of_mean: Callable[[Inputs], bool] = _not_along_channels,
) -> Check:
    """Inputs and upstream as views, the upstream expanded too, give what copies give. `expands` and
    `of_mean`: whether an upstream that repeats along the leading, or the last, axis has a gradient
    at all."""

    def check(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
        rng = generator(inputs, "layouts")
        plain = [name for name in LAYOUTS[1:] if name not in REPEATED]
        given = inputs.layout
        if given == "contiguous":
            given = plain[rng.integers(len(plain))]
        kinds = (*LAYOUTS[1:], UNIFORM) if expands(inputs) else plain
        if of_mean(inputs) and expands(inputs):
            kinds = (*kinds, CHANNELS)
        kind = kinds[rng.integers(len(kinds))]
        upstream = upstream_of(inputs)
        # what a sum over an axis sends back
        upstream = repeated(upstream, kind)
        if kind == UNIFORM and upstream.size:
            # what a mean over everything sends back
            upstream = np.full_like(upstream, upstream.flat[0])
        views = implementation.gradients(inputs, upstream, layout=given, upstream_layout=kind)
        copies = implementation.gradients(inputs, upstream, layout="contiguous")
        right = gradients(implementation, inputs, upstream)
        what = f"{given} inputs and {kind} upstream against copies: gradient of "
        return [
            agree(what + n, views[n], copies[n], 2.0 * right[n].allowance, implementation.dtype)
            for n in right
        ]

    return check


def repeatable(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The same backward call twice in a row."""
    promised = "repeatable-backward" in implementation.guarantees
    upstream, dtype = upstream_of(inputs), implementation.dtype
    first = implementation.gradients(inputs, upstream)
    second = implementation.gradients(inputs, upstream)
    return [
        same(f"gradient of {name}, again", second[name], first[name], dtype, promised=promised)
        for name in first
    ]


def of_some(gradients: Gradients) -> Check:
    """Where only some arguments need gradients, one or all but one, theirs are what they are."""

    def check(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
        upstream, rng = upstream_of(inputs), generator(inputs, "wanted")
        right = gradients(implementation, inputs, upstream)
        names = tuple(right)
        one = names[int(rng.integers(len(names)))]
        wanted = (one,) if rng.random() < 0.5 else tuple(n for n in names if n != one) or (one,)
        actual = implementation.pullback(inputs, upstream, wanted)()
        what = f"where only {' and '.join(wanted)} need{'s' * (len(wanted) == 1)} one: gradient of "
        return [close(what + n, actual[n], right[n], implementation.dtype) for n in wanted]

    return check


def between_calls(gradients: Gradients, others: Others) -> Check:
    """A backward pass after other calls, and another one of the same call, give what they
    should."""

    def check(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
        upstream = upstream_of(inputs)
        right = gradients(implementation, inputs, upstream)
        pullback = implementation.pullback(inputs, upstream, tuple(right))
        for call in others(implementation, inputs):
            if implementation.legal(call):
                with suppress(Breach):
                    implementation.recorded(call)
        passes = ("after other calls", pullback()), ("a second time", pullback())
        return [
            close(f"gradient of {n}, {when}", actual[n], right[n], implementation.dtype)
            for when, actual in passes
            for n in right
        ]

    return check


def leave_output(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """A backward call changes no byte of what it is given, upstream included, and the forward
    call gives the same bits before and after."""
    promised = "repeatable" in implementation.guarantees
    dtype = implementation.dtype
    before = implementation(inputs)
    implementation.gradients(inputs, upstream_of(inputs))
    record = implementation.memory()
    after = implementation(inputs)
    kept = record.before.astype(np.float64)
    return [
        same("bytes of inputs and upstream", record.after.astype(np.float64), kept, "float64"),
        same("output after a backward call", after, before, dtype, promised=promised),
    ]


def same_with_gradients(oracle: Oracle) -> Check:
    """The output does not depend on whether gradients will be asked for."""

    def check(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
        plain, recorded = implementation(inputs), implementation.recorded(inputs)
        allowance = 2.0 * oracle(implementation, inputs).allowance
        return [agree("output with gradients", recorded, plain, allowance, implementation.dtype)]

    return check


def gradient_laws(
    component: str,
    gradients: Gradients,
    rejects: Mapping[str, tuple[str, ...]],
    *,
    inputs: str,
    two_runs: str = "",
    claims: tuple[str, ...],
    expands: Callable[[Inputs], bool] = _first_axis_repeats,
    of_mean: Callable[[Inputs], bool] = _not_along_channels,
    others: Others = _no_others,
    jacobians: Jacobians | None = None,
    parts: Parts | None = None,
) -> tuple[Law, ...]:
    """The rows that every component with gradients has. `rejects` maps a law's last name to its
    faults; a law that it lacks is left out. `two_runs` is the family for the law that compares
    two runs, whose allowances add up; `others` gives other legal calls of the same function.
    `jacobians` are the derivatives of the result along directions of some arguments, `parts` a
    part of the result and what it does not depend on: the laws that use them need them."""
    known = jacobians or {}

    def part(implementation: Implementation, inputs: Inputs) -> gradient_passes.Part:
        if parts is None:
            raise TypeError(f"{component}: gradients_stay_apart needs parts")
        return parts(implementation, inputs)

    def law(name: str, says: str, means: str, check: Check, **more: Any) -> Law:
        family = more.pop("inputs", inputs)
        return Law(
            f"{component}.{name}", component, says, means, more.pop("kind", "exact"), check,
            inputs=family, rejects=rejects[name], gradients=True, **more,
        )  # fmt: skip

    rows: Mapping[str, Callable[[str], Law]] = {
        "gradients_match_oracle": lambda name: law(
            name,
            "every gradient is the derivative of the definition, within its derived allowance",
            "the backward pass differentiates something else than the forward pass computes",
            match_oracle(gradients),
            kind="gradient",
            claims=claims,
        ),
        "zero_upstream": lambda name: law(
            name,
            "an upstream gradient of zeros gives gradients of zeros",
            "the backward pass adds something to what it is given, or ignores it",
            zero_upstream(gradients),
        ),
        "gradients_of_views": lambda name: law(
            name,
            "gradients of views, and from an upstream that is a view, are those of copies",
            "the backward pass assumes the strides of a fresh tensor",
            of_views(gradients, expands, of_mean),
            kind="reduced",
            inputs=two_runs or inputs,
        ),
        "gradients_repeatable": lambda name: law(
            name,
            "the same backward call gives the same bits",
            "gradients depend on something other than the arguments: a race, or old memory",
            repeatable,
            guarantee="repeatable-backward",
        ),
        "gradients_of_some": lambda name: law(
            name,
            "gradients are the same whether or not other arguments need one",
            "a shortcut for arguments that need no gradient leaves out what others need",
            of_some(gradients),
            kind="gradient",
        ),
        "gradients_between_calls": lambda name: law(
            name,
            "a backward pass gives the gradients of its own call, after other calls and again",
            "what the forward pass saved is overwritten: by a later call, or by the backward pass",
            between_calls(gradients, others),
            kind="gradient",
        ),
        "gradient_leaves_output": lambda name: law(
            name,
            "a backward call changes nothing that it is given, and no later output",
            "the backward pass works in place, or leaves something behind",
            leave_output,
        ),
        "gradients_accumulate": lambda name: law(
            name,
            "two backward passes of one call add up to twice the gradient",
            "a backward pass uses up what was saved, or adds to gradients that autograd adds up",
            gradient_passes.accumulated(gradients),
            kind="gradient",
        ),
        "gradients_along": lambda name: law(
            name,
            "the inner product of a gradient and a direction is that of the upstream and the "
            "result's derivative along the direction",
            "the backward pass is not the adjoint of the derivative",
            gradient_passes.along(gradients, known),
            kind="gradient",
            claims=claims,
        ),
        "gradients_of_gradients": lambda name: law(
            name,
            "the derivative of a gradient by the upstream is the derivative of the result",
            "a second backward pass is derived from something else than the first",
            gradient_passes.of_gradients(known),
            kind="gradient",
            claims=claims,
        ),
        "gradients_stay_apart": lambda name: law(
            name,
            "what a part of the result does not depend on gets zeros from that part's upstream",
            "the backward pass mixes what has nothing to do with each other, or keeps a buffer",
            gradient_passes.stay_apart(gradients, part),
        ),
    }
    return tuple(row(name) for name, row in rows.items() if name in rejects)
