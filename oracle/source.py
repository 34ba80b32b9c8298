"""A tape as numpy source that a person can read, and that runs.

Axes keep their names in comments; a value that may be rounded is named after its mark. The text
is what the float64 algebra computes, operation for operation.
"""

from __future__ import annotations

from collections import Counter

import sympy as sp

from attnspec.oracle.tape import Op, Tape

_BINARY = {
    "add": "{} + {}", "mul": "{} * {}", "div": "{} / {}", "mod": "{} % {}",
    "floordiv": "{} // {}", "lt": "{} < {}", "le": "{} <= {}", "eq": "{} == {}",
    "ne": "{} != {}", "and": "{} & {}", "or": "{} | {}",
    "leads": "np.heaviside({} - {}, 0.5)",
    # powers leave 64 bits quickly: Python's integers
    "ipow": "np.asarray({}, object) ** {}",
}  # fmt: skip
_CALLS = {
    "max": "np.maximum", "min": "np.minimum", "exp": "np.exp", "log": "np.log", "sin": "np.sin",
    "cos": "np.cos", "tanh": "np.tanh", "sqrt": "np.sqrt", "abs": "np.abs", "pow": "np.power",
    "where": "np.where", "not": "np.logical_not",
}  # fmt: skip
_FIRST = ("either", "softmax", "parted")
"""Operations whose value is that of their first argument."""


def source(tape: Tape) -> str:
    """A function of the tape's arrays and parameters that returns its value."""
    return _Printer(tape).text()


class _Printer:
    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.uses = Counter(a for op in tape.ops for a in op.args)
        self.result = tape.results[0].register
        self.rank = len(tape.results[0].axes)
        self.uses[self.result] += 1
        self.names: dict[int, str] = {}
        self.taken: Counter[str] = Counter()
        self.lines: list[str] = []

    def text(self) -> str:
        arguments = ", ".join((*self.tape.arrays, "*", *self.tape.parameters))
        name = self.tape.name.replace(".", "_")
        axes = ", ".join(f"{a.name} < {_size(a.size)}" for a in self.tape.axes)
        for register in self._needed():
            self._write(register)
        names = [a.name for a in self.tape.axes[: self.rank]]
        shape = ", ".join(_size(a.size) for a in self.tape.axes[: self.rank])
        result = self._name(self.result)
        if len(self.tape.axes) > self.rank:
            result = f"{result}.reshape({result}.shape[:{self.rank}])"
        head = [
            f"def {name}({arguments}):",
            f"    # axes: {axes}; the result is indexed by {', '.join(names)}",
        ]
        tail = f"    return np.broadcast_to({result}, ({shape},))"
        return "\n".join([*head, *(f"    {line}" for line in self.lines), tail, ""])

    def _needed(self) -> list[int]:
        """Registers that reach the result; the second way of an `either` doesn't."""
        found: set[int] = set()
        waiting = [self.result]
        while waiting:
            register = waiting.pop()
            if register not in found:
                found.add(register)
                op = self.tape.ops[register]
                waiting += op.args[:1] if op.name in _FIRST else op.args
        self.uses = Counter(a for r in found for a in self._read(self.tape.ops[r])) + Counter(
            [self.result]
        )
        return sorted(found)

    def _read(self, op: Op) -> tuple[int, ...]:
        if op.name == "take":
            return op.args if not self._plain(op) else ()
        return op.args[:1] if op.name in _FIRST else op.args

    def _write(self, register: int) -> None:
        op = self.tape.ops[register]
        text = self._expression(op)
        simple = op.name in ("const", "ratio", "parameter", "infinity", "real", *_FIRST)
        marked = op.name in ("rnd", "rnds")
        if not marked and (simple or self.uses[register] <= 1 or text.isidentifier()):
            self.names[register] = text
            return
        if self.uses[register] == 0:
            return
        lines = [i for i, line in enumerate(self.lines) if line.startswith(f"{text} = ")]
        if marked and lines and text.isidentifier():
            # two marks on one value share its line
            at = lines[0]
            noted = "# may be rounded as" in self.lines[at]
            self.lines[at] += (
                f", then as {op.extra}" if noted else f"  # may be rounded as {op.extra}"
            )
            self.names[register] = text
            return
        name = self._fresh(str(op.extra) if marked else _label(op))
        note = f"  # may be rounded as {op.extra}" if marked else ""
        self.lines.append(f"{name} = {_bare(text)}{note}")
        self.names[register] = name

    def _fresh(self, stem: str) -> str:
        self.taken[stem] += 1
        count = self.taken[stem]
        taken = stem in self.tape.arrays or stem in self.tape.parameters
        return f"{stem}_{count}" if count > 1 or taken else stem

    def _name(self, register: int) -> str:
        return self.names[register]

    def _expression(self, op: Op) -> str:
        if op.name == "index":
            return self._index(op.extra)
        if op.name == "take":
            return self._take(op)
        args = [self._name(a) for a in op.args if a in self.names]
        if op.name == "const":
            return repr(op.extra)
        if op.name == "ratio":
            return f"({op.extra[0]} / {op.extra[1]})"
        if op.name == "infinity":
            return "np.inf" if op.extra > 0 else "(-np.inf)"
        if op.name == "parameter":
            return str(op.extra)
        if op.name in ("real", "rnd", "rnds", *_FIRST):
            return args[0]
        if op.name == "neg":
            return f"(-{args[0]})"
        if op.name in _BINARY:
            return f"({_BINARY[op.name].format(*args)})"
        if op.name in ("sum", "rsum", "amax"):
            if not op.extra:
                return args[0]
            call = "np.max" if op.name == "amax" else "np.sum"
            return f"{call}({_bare(args[0])}, axis={op.extra!r}, keepdims=True)"
        if op.name in ("dot", "rdot"):
            return f"np.sum({args[0]} * {args[1]}, axis={op.extra!r}, keepdims=True)"
        return f"{_CALLS[op.name]}({', '.join(_bare(a) for a in args)})"

    def _shape(self, axes: list[int]) -> str:
        sizes = [_size(a.size) if i in axes else "1" for i, a in enumerate(self.tape.axes)]
        return f"({', '.join(sizes)},)"

    def _index(self, axis: int) -> str:
        size = _size(self.tape.axes[axis].size)
        return f"np.arange({size}).reshape({self._shape([axis])})"

    def _plain(self, op: Op) -> bool:
        return all(self.tape.ops[a].name == "index" for a in op.args)

    def _take(self, op: Op) -> str:
        if not self._plain(op):
            return f"{op.extra}[{', '.join(_bare(self._name(a)) for a in op.args)}]"
        axes = [self.tape.ops[a].extra for a in op.args]
        order = sorted(range(len(axes)), key=lambda k: axes[k])
        moved = "" if order == list(range(len(order))) else f".transpose({tuple(order)!r})"
        if not moved and axes == list(range(len(self.tape.axes))):
            return str(op.extra)
        return f"{op.extra}{moved}.reshape({self._shape(axes)})"


def _size(size: sp.Expr) -> str:
    """A size as Python writes it; none is negative, so that `int` drops what `floor` does."""
    return str(sp.sstr(size)).replace("floor(", "int(")


def _label(op: Op) -> str:
    words = {
        "index": "index",
        "amax": "largest",
        "sum": "total",
        "take": "entries",
        "where": "chosen",
    }
    return words.get(op.name, "t")


def _bare(text: str) -> str:
    """Without the outer brackets, where they belong together."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and place < len(text) - 1:
            return text
    return text if "," in text and not any(c in text for c in "+-*/%<>&|=") else text[1:-1]
