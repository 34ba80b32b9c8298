"""A drawn call as Python that can be pasted: what a message prints, and what a report keeps."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnspec.oracle.callee import written
from attnspec.oracle.component import Bundle
from attnspec.oracle.components import COMPONENTS
from attnspec.oracle.family import UNIFORM, repeated, repeated_axis
from attnspec.oracle.inputs import description
from attnspec.oracle.law import Inputs
from attnspec.oracle.precision import snapped

Array = np.ndarray[Any, Any]

LONGEST = 64
"""Elements of the largest array that is written out."""
_DIFFERENT = 8
"""Elements that may differ from the others in a larger one."""


@dataclass(frozen=True)
class Upstream:
    """The gradient of the result, where gradients of the call are meant."""

    values: Array
    layout: str = "contiguous"
    own_backward: bool = False
    """Whether the target has a backward pass of its own, instead of torch autograd."""


@dataclass(frozen=True)
class _Form:
    """How arrays are written."""

    torch: bool
    longest: int


def literal(
    inputs: Inputs,
    function: str = "",
    arrays: str = "torch",
    upstream: Upstream | None = None,
    longest: int = LONGEST,
) -> str:
    """Python text that makes the arguments and calls `function` (default: the component's name),
    or takes its gradients.

    `arrays` is what the target takes: `torch`, or `numpy`; anything else is written for NumPy. An
    array of more than `longest` elements that differ stands as a comment with its shape, and then
    the call alone does not run: the first line has the seed that draws it again.
    """
    form = _Form(torch=arrays == "torch", longest=longest)
    torch = form.torch
    component = COMPONENTS[inputs.component]
    lines = [f"# {description(inputs)}"]
    body = []
    keywords = [name for name in component.keywords if name in inputs.arrays]
    for name in (*component.arguments, *keywords):
        body += _placed(name, inputs.arrays[name], inputs.dtype, inputs.layout, form)
    body += [_bundled(name, bundle) for name, bundle in component.bundles.items()]
    for name, callee in inputs.callees.items():
        body += written(name, callee, torch=torch)
    numbers = inputs.numbers
    arguments = [f"{numbers[n]!r}" if n in numbers else n for n in component.positional]
    arguments += [f"{name}={name}" for name in keywords]
    arguments += [f"{name}={_option(name, v, form)}" for name, v in inputs.options.items()]
    call = f"{function or inputs.component}({', '.join(arguments)})"
    if upstream is None:
        body.append(call)
    else:
        body += _placed("upstream", upstream.values, inputs.dtype, upstream.layout, form)
        body += _gradients(inputs, call, own_backward=upstream.own_backward)
    text = "\n".join(body)
    if torch:
        lines.append("import torch")
    else:
        lines.append("import numpy as np")
        if "ml_dtypes." in text:
            lines.append("import ml_dtypes")
    lines += [f"from math import {word}" for word in ("inf", "nan") if _has(word, text)]
    return "\n".join([*lines, text])


def _bundled(name: str, bundle: Bundle) -> str:
    """A line that puts several arrays into one argument."""
    if bundle.keyed:
        inside = ", ".join(f'"{array}": {array}' for array in bundle.arrays)
        return f"{name} = {{{inside}}}"
    return f"{name} = ({', '.join(bundle.arrays)})"


def _option(name: str, value: Any, form: _Form) -> str:
    return _type_name(value, torch=form.torch) if name == "dtype" else repr(value)


def _gradients(inputs: Inputs, call: str, *, own_backward: bool) -> list[str]:
    """Lines that take the gradients of a call."""
    component = COMPONENTS[inputs.component]
    function, _, rest = call.partition("(")
    if own_backward:
        return [f"{function}_backward(upstream, {rest}"]
    names = [name for name in component.differentiable if name in inputs.arrays]
    tensors = f"({', '.join(names)}{',' * (len(names) == 1)})"
    results = ["output", *(also.name for also in component.also(inputs))]
    return [
        *(f"{name}.requires_grad_()" for name in names),
        f"{', '.join(results)} = {call}",
        f"torch.autograd.grad(output, {tensors}, upstream)",
    ]


def _has(word: str, text: str) -> bool:
    return re.search(rf"\b{word}\b", text) is not None


def _placed(name: str, values: Array, dtype: str, layout: str, form: _Form) -> list[str]:
    """Lines that set one argument, and lay it out."""
    lines = _assignment(name, values, dtype, form)
    if not lines[-1].startswith("#"):
        lines += _laid_out(name, values, layout, torch=form.torch)
    return lines


def _assignment(name: str, values: Array, dtype: str, form: _Form) -> list[str]:
    """Lines that set one argument."""
    torch = form.torch
    floating = values.dtype.kind == "f"
    stored = dtype if floating else values.dtype.name
    kind = f"dtype={_type_name(stored, torch=torch)}"
    module = "torch" if torch else "np"
    shape = tuple(int(size) for size in values.shape)
    if values.size == 0:
        return [f"{name} = {module}.zeros({shape}, {kind})"]
    if (
        values.dtype.kind in "iu"
        and values.ndim == 1
        and values.size > 2
        and (np.diff(values) == 1).all()
    ):
        return [f"{name} = {module}.arange({int(values[0])}, {int(values[-1]) + 1}, {kind})"]
    written = f"{name} = {module}.{'tensor' if torch else 'array'}"
    if values.size <= LONGEST:
        return [f"{written}({_nested(values, stored)}, {kind})"]
    kinds, counts = np.unique(values, return_counts=True)
    usual = kinds[counts.argmax()]
    different = np.argwhere(values != usual)
    if len(different) > _DIFFERENT and values.size <= form.longest:
        return [f"{written}({_nested(values, stored)}, {kind})"]
    if len(different) > _DIFFERENT:
        return [f"# {name}: {' x '.join(map(str, shape))}, {stored}, too long to write out"]
    return [
        f"{name} = {module}.full({shape}, {_number(usual, stored)}, {kind})",
        *(
            f"{name}[{', '.join(map(str, place))}] = {_number(values[tuple(place)], stored)}"
            for place in different.tolist()
        ),
    ]


def _laid_out(name: str, values: Array, layout: str, *, torch: bool) -> list[str]:
    """A line that moves an argument to where it lay, if that makes a difference."""
    rows = values.ndim > 1
    if not values.ndim:
        return []
    if layout == "transposed" and rows:
        value = f"{name}.mT.contiguous().mT" if torch else f"{name}.mT.copy().mT"
    elif layout in ("row-step", "column-step") and (rows or layout == "column-step"):
        axis = -2 if layout == "row-step" else -1
        step = "[..., ::2, :]" if layout == "row-step" else "[..., ::2]"
        double = f"{name}.repeat_interleave(2, {axis})" if torch else f"{name}.repeat(2, {axis})"
        value = f"{double}{step}"
    elif layout == "heads-inside" and values.ndim > 2:
        turned = "transpose(-3, -2)" if torch else "swapaxes(-3, -2)"
        value = f"{name}.{turned}.{'contiguous' if torch else 'copy'}().{turned}"
    elif (
        repeated_axis(values.ndim, layout) is not None
        and (values == repeated(values, layout)).all()
    ):
        shape = tuple(int(size) for size in values.shape)
        first = f"{name}[{':, ' * (repeated_axis(values.ndim, layout) or 0)}:1]"
        value = f"{first}.expand({shape})" if torch else f"np.broadcast_to({first}, {shape})"
    elif layout == UNIFORM and (values == values.flat[:1]).all():
        shape = tuple(int(size) for size in values.shape)
        first = f"{name}.flatten()[:1]"
        value = f"{first}.expand({shape})" if torch else f"np.broadcast_to({first}, {shape})"
    elif layout == "offset":
        shape = tuple(int(size) for size in values.shape)
        flat = f"{name}.flatten()"
        both = f"torch.cat([{flat}, {flat}])" if torch else f"np.concatenate([{flat}, {flat}])"
        value = f"{both}[{values.size}:].reshape({shape})"
    else:
        return []
    return [f"{name} = {value}  # {layout}"]


def _type_name(stored: str, *, torch: bool) -> str:
    if torch:
        return f"torch.{stored}"
    if stored == "bool":
        return stored
    return "ml_dtypes.bfloat16" if stored == "bfloat16" else f"np.{stored}"


def _nested(values: Array, stored: str) -> str:
    """Nested lists, as text."""
    if values.ndim == 0:
        return _number(values, stored)
    return "[" + ", ".join(_nested(part, stored) for part in values) + "]"


def _number(value: Any, stored: str) -> str:
    """The shortest decimal that is stored as this number."""
    kind = np.asarray(value).dtype.kind
    if kind in "biu":
        return str(bool(value) if kind == "b" else int(value))
    number = float(value)
    if math.isnan(number):
        return "nan"
    if math.isinf(number):
        return "inf" if number > 0 else "-inf"
    for digits in range(1, 17):
        text = f"{number:.{digits}g}"
        if float(snapped(np.asarray(float(text)), stored)) == number:
            return repr(float(text))
    return repr(number)
