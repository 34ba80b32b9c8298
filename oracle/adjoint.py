"""The tape of a definition's gradients: reverse mode over the forward tape.

Of a definition y it makes the tape of the gradients of sum(upstream * y), whose operations are of
the same kind, so that every algebra reads it: values, enclosures, allowances.

An allowance belongs to an algorithm, so the tape says where gradients are stored. A forward value
is stored if it is an input or carries a mark. Each contribution to the gradient of a stored value
that an operation computes is stored too, under the same mark, and so is each sum of two; what an
addition merely passes on is not stored again. Operations whose derivative uses their own result
read the stored one, as an implementation that saves it does.
"""

from __future__ import annotations

from collections import defaultdict
from functools import reduce

import sympy as sp

from attnspec.oracle.adjoint_rules import Part, Rules
from attnspec.oracle.tape import Result, Tape, UnsupportedError
from attnspec.spec.definition import Definition

UPSTREAM = "upstream"
"""The array that holds the gradient of the result."""


def gradients(definition: Definition, arrays: tuple[str, ...]) -> Tape:
    """The tape whose results are the gradients with respect to `arrays`, in this order, each of
    its array's shape. It reads the definition's arrays, and the array `upstream` of the shape of
    the definition's result. Raises UnsupportedError, naming what has no derivative here."""
    return _Adjoint(definition, arrays).tape()


class _Adjoint(Rules):
    """One walk backwards over the operations."""

    def __init__(self, definition: Definition, arrays: tuple[str, ...]) -> None:
        super().__init__(definition)
        self.wanted = arrays
        self.top = self.result()
        self.forward = len(self.ops)
        self.sources = self._sources()
        self.whole: dict[int, Part] = {}
        self.parts: dict[int, list[Part]] = defaultdict(list)
        self.taken: dict[str, list[int]] = defaultdict(list)

    def _sources(self) -> list[frozenset[str]]:
        """For each register, the wanted arrays on which it depends."""
        found: list[frozenset[str]] = []
        for op in self.ops:
            if op.name == "take":
                found.append(frozenset({op.extra} & set(self.wanted)))
            elif op.kind != "real":
                found.append(frozenset())
            else:
                found.append(frozenset().union(*(found[a] for a in op.args)))
        return found

    def tape(self) -> Tape:
        rank = len(self.definition.axes)
        indices = tuple(self.symbol(symbol) for symbol, _ in self.definition.axes)
        upstream = self.emit("take", indices, UPSTREAM, varies=True)
        self.parts[self.top].append(Part(upstream, fresh=False, through={}))
        for register in range(self.forward - 1, -1, -1):
            if self.parts[register]:
                self._walk(register)
        results = tuple(self._collected(name) for name in self.wanted)
        if rank == 0:
            raise UnsupportedError(f"{self.definition.name}: a single number has no upstream")
        return Tape(
            name=f"{self.definition.name}.gradients",
            ops=tuple(self.ops),
            axes=tuple(self.axes),
            results=results,
            arrays=(*(str(a.label) for a in self.definition.arrays), UPSTREAM),
            parameters=tuple(str(p) for p in self.definition.parameters),
        )

    def _walk(self, register: int) -> None:
        """Hand the gradient of a register on to the operands of its operation."""
        op = self.ops[register]
        self.whole[register] = whole = self._combined(register, self.mark_of(register))
        if op.name == "take":
            self.taken[op.extra].append(register)
            return
        for operand, gradient, fresh, form in self.handed(register, whole.register):
            through = dict(whole.through)
            if form is not None:
                through[register] = form
            under = "" if fresh else whole.under
            part = Part(gradient, fresh=fresh or whole.fresh, through=through, under=under)
            self.parts[operand].append(part)

    def mark_of(self, register: int) -> str:
        """Under which mark contributions to a register's gradient are stored; none if empty."""
        op = self.ops[register]
        if op.name == "rnd":
            return str(op.extra)
        if op.name == "take" and self._is_read_apart(register):
            return "activations"
        return ""

    def _is_read_apart(self, register: int) -> bool:
        """Whether an array's gradient is put together from several contributions, each of which
        may be a tensor of its own."""
        op = self.ops[register]
        readers = [o for o in self.ops[: self.forward] if o.name == "take" and o.extra == op.extra]
        plain = all(self.ops[a].name == "index" for a in op.args)
        return len(readers) > 1 or not plain or len(self.parts[register]) > 1

    def _combined(self, register: int, mark: str) -> Part:
        parts = self.parts[register]
        if mark:
            parts = [
                p._replace(register=self._marked(p.register, mark), fresh=False, under=mark)
                if p.fresh or self._is_stored_anew(p, mark)
                else p
                for p in parts
            ]
        return self._merged(parts, mark)

    def _is_stored_anew(self, part: Part, mark: str) -> bool:
        """Whether what was stored under another mark, perhaps in a wider format, is stored as a
        contribution to an input."""
        return mark == "activations" and part.under not in ("", mark)

    def _merged(self, parts: list[Part], mark: str) -> Part:
        """One gradient from several contributions: sums, but forms of one value stand side by
        side, and the value is that of either."""
        if len(parts) == 1:
            return parts[0]
        shared = [e for e in parts[0].through if all(e in p.through for p in parts)]
        split = [e for e in shared if len({p.through[e] for p in parts}) > 1]
        if split:
            outermost = max(split)
            forms: dict[int, list[Part]] = defaultdict(list)
            for part in parts:
                rest = {e: form for e, form in part.through.items() if e != outermost}
                forms[part.through[outermost]].append(part._replace(through=rest))
            merged = [self._merged(forms[form], mark) for form in sorted(forms)]
            register = reduce(self._either, (p.register for p in merged))
            fresh = any(p.fresh for p in merged)
            return Part(register, fresh, merged[0].through, merged[0].under)
        if any(p.through != parts[0].through for p in parts):
            raise UnsupportedError(
                f"{self.definition.name}: a value is used both inside and outside of one form"
            )
        register = parts[0].register
        for part in parts[1:]:
            register = self.sum_of(register, part.register)
            if mark:
                register = self._marked(register, mark)
        return Part(register, fresh=not mark, through=parts[0].through, under=mark)

    def _either(self, first: int, second: int) -> int:
        return first if first == second else self.emit("either", (first, second))

    def _marked(self, register: int, mark: str) -> int:
        return self.emit("rnd", (register,), mark)

    # -- gradients of whole arrays --------------------------------------------------------------

    def _collected(self, name: str) -> Result:
        """The gradient of an array: its entries were read at index expressions, so contributions
        are added up where they belong."""
        takes = self.taken[name]
        base = next(a for a in self.definition.arrays if str(a.label) == name)
        if not takes or base.shape is None:
            raise UnsupportedError(f"{self.definition.name}: no gradient reaches {name}")
        if any(self.whole[take].through for take in takes):
            raise UnsupportedError(f"{self.definition.name}: {name} is in one form of a value only")
        axes = tuple(self._axis(name, p, takes, size) for p, size in enumerate(base.shape))
        total = None
        for take in takes:
            register = self.whole[take].register
            for index, axis in zip(self.ops[take].args, axes, strict=True):
                if self.ops[register].name == "scatter" and self._is_gathered(index):
                    # what broadcasting adds up is a tensor, before parts of it are put together
                    register = self._marked(register, "activations")
                register = self._placed(register, index, axis)
            if total is None:
                total = register
            else:
                total = self._marked(self.sum_of(total, register), "activations")
        assert total is not None
        return Result(self._marked(total, "output"), axes)

    def _axis(self, name: str, place: int, takes: list[int], size: sp.Expr) -> int:
        """The axis of one dimension of an array's gradient: the index that every reader has
        there, or else a new one."""
        indices = {self.ops[take].args[place] for take in takes}
        only = self.ops[next(iter(indices))]
        if len(indices) == 1 and only.name == "index":
            return int(only.extra)
        return self.fresh_axis(f"{name}_{place}", size)

    def _is_gathered(self, index: int) -> bool:
        """Whether an index picks entries, other than one entry for all or each its own."""
        return self.ops[index].name not in ("index", "mod")

    def _placed(self, register: int, index: int, axis: int) -> int:
        """Entries along an index expression, added up along the array's own axis."""
        op = self.ops[index]
        if op.name == "index" and op.extra == axis:
            return register
        sources = tuple(sorted(op.axes))
        return self.emit(
            "scatter", (register, index), (axis, sources),
            less=frozenset(sources), more=frozenset({axis}),
        )  # fmt: skip
