"""The checks of residual_block's own laws: from an implementation and inputs to two sides and an
allowance.

Sources: the claims of `spec/residual_block.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from attnspec.oracle.callee import Heard, Moved, Own
from attnspec.oracle.calls import alike, close, same
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Breach, Implementation, Inputs
from attnspec.oracle.precision import NUMPY_TYPES
from attnspec.oracle.residual_block_inputs import SMALL
from attnspec.oracle.residual_block_values import moved_of, placement_of, residual_block
from attnspec.oracle.rounding import added, formed

Array = np.ndarray[Any, Any]

BLOCKS = 3
"""Of a stream."""


def heard(implementation: Implementation, inputs: Inputs) -> dict[str, Heard]:
    """What norm and sublayer were given in the latest call, the first time each. Raises Breach
    where one was not called, or with rows of another shape."""
    found: dict[str, Heard] = {}
    for once in implementation.seen():
        found.setdefault(once.name, once)
    shape = inputs.arrays["x"].shape
    for name in inputs.callees:
        if name not in found:
            raise Breach("called", f"never called {name}; once is due")
        if found[name].values.shape != shape:
            given = found[name].values.shape
            raise Breach("called", f"called {name} with shape {given}; expected {shape}")
    return found


def zero_sublayer(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """A sublayer that gives zeros leaves x in a pre-norm block, and norm(x) in a post-norm one, to
    the bit."""
    x = inputs.arrays["x"]
    wanted = x if placement_of(inputs) == "pre" else moved_of(inputs, "norm").of(x)
    return [same("output", implementation(inputs), wanted, implementation.dtype)]


def sublayer_is_given(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The sublayer is given norm(x) in a pre-norm block, and x in a post-norm one, to the bit."""
    implementation(inputs)
    given = heard(implementation, inputs)["sublayer"].values
    x, placement = inputs.arrays["x"], placement_of(inputs)
    wanted = moved_of(inputs, "norm").of(x) if placement == "pre" else x
    what = f"what the sublayer is given in a {placement}-norm block"
    return [same(what, given, wanted, implementation.dtype)]


def norm_is_given(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The norm is given x in a pre-norm block, to the bit, and the sum in a post-norm one."""
    implementation(inputs)
    given = heard(implementation, inputs)["norm"].values
    x, dtype = inputs.arrays["x"], implementation.dtype
    if placement_of(inputs) == "pre":
        return [same("what the norm is given in a pre-norm block", given, x, dtype)]
    # the sum alone is what a pre-norm block gives whose norm does nothing
    alone = replace(inputs.with_callees(norm=Moved()), options={"placement": "pre"})
    right = residual_block(implementation, alone)
    return [close("what the norm is given in a post-norm block", given, right, dtype)]


def called_once(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Norm and sublayer are called once each, in the order of the placement."""
    implementation(inputs)
    names = [once.name for once in implementation.seen()]
    order = ("norm", "sublayer") if placement_of(inputs) == "pre" else ("sublayer", "norm")
    counts = np.array([float(names.count(name)) for name in order])
    places = np.array([float(names.index(n)) if n in names else -1.0 for n in order])
    return [
        same(f"how often {' and '.join(order)} are called", counts, np.ones(2), "float64"),
        same(f"whether {order[0]} comes first", np.sign(np.diff(places)), np.ones(1), "float64"),
    ]


def handed_form(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Norm and sublayer are given what has the shape, dtype and device of x: a layer whose weights
    are in the dtype of the stream takes nothing else. A wider sum is right where the contract says
    that such sums are wider."""
    implementation(inputs)
    wide = implementation.contract.activations
    known = {implementation.dtype, *([wide] if wide in NUMPY_TYPES else [])}
    place = implementation.device.partition(":")[0]
    for name, once in heard(implementation, inputs).items():
        if once.dtype not in known:
            raise Breach(
                "called", f"called {name} with dtype {once.dtype}; expected {implementation.dtype}"
            )
        if once.device != place:
            raise Breach("called", f"called {name} on device {once.device}; expected {place}")
    return [same("dtype and device of what is given", np.ones(1), np.ones(1), "float64")]


def telescopes(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Through several pre-norm blocks a stream becomes its start and all that the sublayers gave:
    x_L = x_0 + sum of f(N(x_l))."""
    start, dtype = inputs.arrays["x"], implementation.dtype
    places = generator(inputs, "blocks").integers(len(SMALL), size=BLOCKS - 1)
    stream, calls = start, [inputs]
    calls += [inputs.with_callees(**SMALL[int(place)]._asdict()) for place in places]
    total, room, size = np.array(start), np.zeros(start.shape), np.abs(start)
    lost = np.zeros(start.shape, np.bool_)
    for call in calls:
        now = call.with_arrays(x=stream)
        branch = moved_of(now, "sublayer").of(moved_of(now, "norm").of(stream))
        total, inexact = added(total, branch)
        size, lost = size + np.abs(branch), lost | inexact
        room = room + residual_block(implementation, now).allowance
        stream = implementation(now)
    room = room + np.where(lost, formed(size, BLOCKS), 0.0)
    return [alike(f"stream after {BLOCKS} blocks", stream, total, room, dtype)]


def own_norm(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """With the target's own norm, every element within its allowance."""
    found = with_own_norm(implementation, inputs)
    if found is None:
        return []
    return [close("output", implementation(found), residual_block(implementation, found),
                  implementation.dtype)]  # fmt: skip


def with_own_norm(implementation: Implementation, inputs: Inputs) -> Inputs | None:
    """The call, with its eps if the target's norm takes one; None if it has no such norm."""
    norm = inputs.callees["norm"]
    if not isinstance(norm, Own):
        raise TypeError(f"the norm is {norm!r}; expected one of the target's own")
    sibling = implementation.sibling(norm.function)
    if sibling is None:
        return None
    if norm.eps is None or sibling.accepts("eps"):
        return inputs
    return inputs.with_callees(norm=replace(norm, eps=None))


def returned_layers(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """A layer may return the very object that it is given: x stays as it is, and the output is what
    it should be."""
    actual = implementation(inputs)
    record = implementation.memory()
    before = record.before.astype(np.float64)
    right = residual_block(implementation, inputs)
    return [
        same("bytes of the inputs", record.after.astype(np.float64), before, "float64"),
        close("output", actual, right, implementation.dtype),
    ]
