"""One function of a target at one dtype and device, as a law sees it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from attnspec import callees, gradients, handing, passes, results
from attnspec.arrays import crossing
from attnspec.blackbox import running
from attnspec.declaration import limits_of
from attnspec.handing import Handed, Latest
from attnspec.loading import Loaded, backward_name
from attnspec.made import Diary, Made
from attnspec.oracle.callee import Heard
from attnspec.oracle.components import COMPONENTS
from attnspec.oracle.law import Breach, Inputs, Record
from attnspec.oracle.literal import Upstream
from attnspec.oracle.precision import Contract
from attnspec.oracle.shapes import legal_sizes
from attnspec.passing import passed
from attnspec.raising import one_line, raised
from attnspec.refusals import Tally
from attnspec.signature import signature
from attnspec.traits import called

Array = np.ndarray[Any, Any]


class Subject:
    """Implements `oracle.law.Implementation` for one function of a loaded target.

    `functions` are those that `loaded.make()` gave; subjects that share them share state that
    the target may keep between calls.
    """

    def __init__(
        self,
        loaded: Loaded,
        component: str,
        dtype: str,
        device: str = "cpu",
        functions: Mapping[str, Callable[..., Any]] | None = None,
    ) -> None:
        self.loaded = loaded
        self.component = component
        self.dtype = dtype
        self.device = device
        self.contract: Contract = loaded.contracts[dtype]
        self.conventions: Mapping[str, str] = loaded.conventions
        self.guarantees: tuple[str, ...] = loaded.declaration.guarantees
        self.functions = loaded.make() if functions is None else functions
        self.function = self.functions[component]
        self.row = COMPONENTS[component]
        self.signature = signature(self.function, self.row)
        self.differentiable = gradients.has_gradients(loaded.declaration, component, self.functions)
        self.tally = Tally()
        index = loaded.declaration.index_dtype
        self._stored = {
            name: "bool" if name in self.row.booleans
            else index if name in self.row.integers
            else dtype
            for name in (*self.row.arguments, *self.row.keywords)
        }  # fmt: skip
        self._crossing = crossing(loaded.declaration.arrays)
        self.latest = Latest()
        self._asked: Inputs | None = None
        self.diary = Diary()
        self.siblings: dict[str, Subject | None] = {}

    def accepts(self, option: str) -> bool:
        """Whether the function takes this keyword."""
        return option in self.signature.accepts

    def legal(self, inputs: Inputs) -> bool:
        """Whether every axis has a size that the target's limits allow."""
        limits = limits_of(self.component, self.loaded.declaration.limits)
        sizes = [(axis, size) for (_, axis), size in self.row.sizes(inputs).items()]
        return all(size in legal_sizes(a, limits[a]) for a, size in sizes if a in limits)

    def __call__(self, inputs: Inputs, *, layout: str | None = None) -> Array:
        """Call the function and return its first result as float64, a copy. Raises Breach."""
        return self._first(self._result(inputs, layout), inputs)

    def parts(self, inputs: Inputs, *, layout: str | None = None) -> tuple[Array, ...]:
        """Call the function and return all its results as float64, copies. Raises Breach."""
        dues = results.due(self.row, inputs, self.dtype, self.device)
        given = results.unpacked(self._result(inputs, layout), dues)
        return tuple(self._crossing.take(*pair) for pair in zip(given, dues, strict=True))

    def held(self, inputs: Inputs) -> tuple[Array, Callable[[], Array]]:
        """Call the function; its first result, and a function that reads the returned object
        anew."""
        result = self._result(inputs, None)
        return self._first(result, inputs), lambda: self._first(result, inputs)

    def recorded(self, inputs: Inputs) -> Array:
        """The first result of a call of which gradients could be asked. Raises Breach."""
        own = backward_name(self.component) in self.functions
        if own or self.loaded.declaration.arrays != "torch":
            return self(inputs)
        tensors = self._handed(inputs, None)
        self.latest.tensors = tensors
        output, _ = self._differentiable(inputs, tensors)
        return self._crossing.take(
            output, results.due(self.row, inputs, self.dtype, self.device)[0]
        )

    def gradients(
        self,
        inputs: Inputs,
        upstream: Array,
        *,
        layout: str | None = None,
        upstream_layout: str = "contiguous",
    ) -> dict[str, Array]:
        """Gradients of sum(upstream * first result) by argument, as float64, copies. Raises
        Breach."""
        with gradients.advised(self.loaded.declaration, self.component, self.functions):
            return self._gradients(inputs, upstream, layout, upstream_layout)

    def _gradients(
        self, inputs: Inputs, upstream: Array, layout: str | None, upstream_layout: str
    ) -> dict[str, Array]:
        own = self.functions.get(backward_name(self.component))
        tensors = self._handed(inputs, layout)
        above = self._placed("upstream", upstream, self.dtype, upstream_layout)
        self.latest.tensors = [*tensors, above]
        self.diary.note_upstream(Upstream(upstream, upstream_layout, own_backward=own is not None))
        arguments = [t for t in tensors if t.name in self.row.differentiable]
        if own is not None:
            grads = self._from_backward(own, inputs, tensors, above)
            given = gradients.unpacked(grads, self.row, [t.name for t in arguments])
        elif self.loaded.declaration.arrays == "torch":
            parts = [*self._differentiable(inputs, tensors), above.given, False]
            given = self._guarded(gradients.differentiated, parts, {}, backward=True, counted=False)
        else:
            name = backward_name(self.component)
            raise gradients.Missing(f"gives no gradients: there is no function {name}")
        return gradients.taken(given, arguments, self._crossing, self.device)

    def _from_backward(
        self, own: Callable[..., Any], inputs: Inputs, tensors: list[Handed], above: Handed
    ) -> Any:
        arguments, options = self._passed(inputs, handing.given(tensors))
        for option in results.choosing(self.row, inputs):
            # the gradient is that of the first result, whatever else is returned
            del options[option]
        return self._guarded(own, [above.given, *arguments], options, backward=True)

    def pullback(
        self, inputs: Inputs, upstream: Array, wanted: tuple[str, ...]
    ) -> passes.Own | passes.Graph:
        """The call, made now, and its backward passes, which give the gradients of these
        arguments. The others need none. Raises Breach."""
        own = backward_name(self.component) in self.functions
        if own or self.loaded.declaration.arrays != "torch":
            return passes.Own(lambda: gradients.some(self.gradients(inputs, upstream), wanted))
        tensors = self._handed(inputs, None)
        above = self._placed("upstream", upstream, self.dtype, "contiguous")
        self.latest.tensors = [*tensors, above]
        self.diary.note_upstream(Upstream(upstream, "contiguous", own_backward=False))
        arguments = [t for t in tensors if t.name in wanted]

        def taken(given: Callable[[], tuple[Any, ...]]) -> dict[str, Array]:
            with gradients.advised(self.loaded.declaration, self.component, self.functions):
                return gradients.taken(given(), arguments, self._crossing, self.device)

        return passes.Graph(
            *self._differentiable(inputs, tensors, wanted), above.given,
            lambda f, given: self._guarded(f, given, {}, backward=True, counted=False), taken,
            lambda v: self._placed("direction", v, self.dtype, "contiguous").given,
            lambda result: self._crossing.take(
                result, results.due(self.row, inputs, self.dtype, self.device)[0]
            ),
        )  # fmt: skip

    def _differentiable(
        self, inputs: Inputs, tensors: list[Handed], wanted: tuple[str, ...] = ()
    ) -> tuple[Any, list[Any]]:
        """The first result of a call that autograd keeps track of, and the tensors of which it
        keeps the gradients: those wanted, or all."""
        given = handing.given(tensors)
        leaves = {
            name: gradients.leaf(given[name])
            for name in self.row.differentiable
            if name in given and (not wanted or name in wanted)
        }
        arguments, options = self._passed(inputs, {**given, **leaves})
        with gradients.recorded():
            result = self._guarded(self.function, arguments, options)
        dues = results.due(self.row, inputs, self.dtype, self.device)
        output = results.unpacked(result, dues)[0]
        self._crossing.take(output, dues[0])
        return output, list(leaves.values())

    def _first(self, result: Any, inputs: Inputs) -> Array:
        dues = results.due(self.row, inputs, self.dtype, self.device)
        return self._crossing.take(results.unpacked(result, dues)[0], dues[0])

    def _result(self, inputs: Inputs, layout: str | None) -> Any:
        tensors = self._handed(inputs, layout)
        self.latest.tensors = tensors
        arguments, options = self._passed(inputs, handing.given(tensors))
        return self._guarded(self.function, arguments, options)

    def refuses(self, inputs: Inputs) -> bool:
        """Whether the function raises on a call on which an exception is due: its answer to it."""
        try:
            self._result(inputs, None)
        except Breach as breach:
            if breach.kind not in ("raises", "declined"):
                raise
            self.tally.answered += 1
            return True
        return False

    def _guarded(
        self, function: Callable[..., Any], arguments: list[Any], options: dict[str, Any],
        *, backward: bool = False, counted: bool = True,
    ) -> Any:  # fmt: skip
        """What a function of the target returns, once the device is done. Raises Breach for an
        exception. Autograd's way back is `counted` with the call that it goes back through."""
        self.tally.calls += counted
        try:
            with running():
                result = function(*arguments, **options)
                self._crossing.settle(self.device)
        except (Breach, KeyboardInterrupt):
            raise
        except BaseException as error:
            if backward and gradients.refused(error):
                raise gradients.refusal(error) from error
            if isinstance(error, NotImplementedError):
                message = f"NotImplementedError: {one_line(error)}"
                if self._asked is not None:
                    self.tally.refusals.decline(message, called(self._asked))
                raise Breach("declined", message) from error
            way = " in its backward pass" if backward else ""
            raise Breach("raises", raised(error, self.function, way)) from error
        self.tally.answered += counted
        if counted and self._asked is not None:
            self.tally.refusals.answered.add(called(self._asked))
        return result

    def memory(self) -> Record:
        """Every byte handed over in the latest call, guard zones included: as it was, made anew
        from the inputs, and as it is. Raises RuntimeError before the first call."""
        return self.latest.record()

    def seen(self) -> tuple[Heard, ...]:
        """What the functions that the latest call handed over were given, in their order."""
        return tuple(ear() for ear in self.latest.heard)

    def written(self) -> str:
        """What the latest call did to the memory that it was handed, in words; empty where it
        left everything as it was."""
        return self.latest.written()

    def sibling(self, component: str) -> Subject | None:
        """The same target's function `component`, or None where there is none to call."""
        if component not in self.siblings:
            self.siblings[component] = self._sibling(component)
        return self.siblings[component]

    def _sibling(self, component: str) -> Subject | None:
        if component not in self.functions or component not in COMPONENTS:
            return None
        other = Subject(self.loaded, component, self.dtype, self.device, self.functions)
        other.contract, other.conventions = self.contract, self.conventions
        other.diary = self.diary
        return None if other.signature.problem else other

    def with_contract(self, contract: Contract) -> Subject:
        """The same function, judged under another precision contract."""
        other = self._copied()
        other.contract = contract
        return other

    def with_conventions(self, conventions: Mapping[str, str]) -> Subject:
        """The same function, taken to follow other conventions."""
        other = self._copied()
        other.conventions = conventions
        return other

    def _copied(self) -> Subject:
        other = copy.copy(self)
        other.tally, other.siblings, other.diary = Tally(), {}, Diary()
        other.latest = Latest()
        return other

    def _handed(self, inputs: Inputs, layout: str | None) -> list[Handed]:
        """Every tensor of a call, in the order in which they are passed."""
        chosen = inputs.layout if layout is None else layout
        self._asked = inputs if inputs.layout == chosen else replace(inputs, layout=chosen)
        self.diary.note(Made(self._asked))
        return [
            self._placed(name, inputs.arrays[name], stored, chosen)
            for name, stored in self._stored.items()
            if name in inputs.arrays or name in self.row.arguments
        ]

    def _passed(self, inputs: Inputs, given: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of a call. Its dicts are kept, with what they held."""
        arrays, self.latest.heard = self.loaded.declaration.arrays, []
        made = callees.made(inputs.callees, arrays, self.functions, self.latest.heard)
        given = {**given, **made}
        found = passed(self.row, inputs, given, crossing=self._crossing, device=self.device)
        self.latest.bundles = [(a, dict(a)) for a in found[0] if isinstance(a, dict)]
        return found

    def _placed(self, name: str, values: Array, dtype: str, layout: str) -> Handed:
        return handing.handed(
            name, values, dtype, layout, crossing=self._crossing, device=self.device
        )
