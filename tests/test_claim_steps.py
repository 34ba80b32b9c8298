"""Steps of derivations as they are written: none is empty.

A residual that sympy brings to zero shows something only if it is made of what the step speaks of.
What can be seen in the source is that no step is a difference of two sides that are one, that none
relates nothing but numbers, and that none stands twice.
"""

from __future__ import annotations

import ast
import builtins
import copy
import inspect
from collections import Counter
from pathlib import Path

import pytest

from attnspec.spec import claim

SPEC = Path(inspect.getfile(claim)).parent


class Inlining(ast.NodeTransformer):
    """Puts what a name was assigned in its place."""

    def __init__(self, assigned: dict[str, ast.expr]) -> None:
        self.assigned = assigned

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return copy.deepcopy(self.assigned.get(node.id, node))


def assigned_once(function: ast.FunctionDef) -> dict[str, ast.expr]:
    """What names of a function stand for that it assigns once."""
    values: dict[str, list[ast.expr]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            values.setdefault(node.targets[0].id, []).append(node.value)
    return {name: each[0] for name, each in values.items() if len(each) == 1}


def residuals(source: str) -> list[tuple[str, list[ast.expr], list[ast.expr]]]:
    """The residuals that each function of a source writes, as they are and with its names put
    in."""
    found = []
    for function in ast.parse(source).body:
        if isinstance(function, ast.FunctionDef):
            inlining = Inlining(assigned_once(function))
            steps = [
                node.args[1]
                for node in ast.walk(function)
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Step"
            ]
            twice = [inlining.visit(inlining.visit(copy.deepcopy(step))) for step in steps]
            found.append((function.name, steps, twice))
    return found


def empty_steps(source: str) -> list[str]:
    """What is wrong with steps as they are written: one that stands twice, a difference of two
    sides that are written alike, one of nothing but numbers."""
    wrong = []
    for function, written, steps in residuals(source):
        texts = Counter(ast.unparse(step) for step in steps)
        wrong += [f"{function}, twice: {text}" for text, times in texts.items() if times > 1]
        for step in written:
            names = {node.id for node in ast.walk(step) if isinstance(node, ast.Name)}
            if names <= {"sp", *dir(builtins)}:
                wrong.append(f"{function}, numbers alone: {ast.unparse(step)}")
        wrong += [
            f"{function}, alike: {ast.unparse(node)}"
            for step in steps
            for node in ast.walk(step)
            if isinstance(node, ast.BinOp)
            and isinstance(node.op, ast.Sub)
            and ast.unparse(node.left) == ast.unparse(node.right)
        ]
    return wrong


@pytest.mark.parametrize("path", [pytest.param(p, id=p.stem) for p in sorted(SPEC.glob("*.py"))])
def test_no_step_is_empty(path: Path) -> None:
    assert empty_steps(path.read_text()) == []


@pytest.mark.parametrize(
    ("residual", "why"),
    [
        ("f(x) - f(x)", "alike"),
        ("value - f(x)", "alike"),
        ("sp.Integer(512) / 8 - 64", "numbers alone"),
        ("True", "numbers alone"),
        ("g(x)), Step('b', g(x)", "twice"),
    ],
)
def test_empty_step_is_found(residual: str, why: str) -> None:
    source = f"def steps():\n    value = f(x)\n    return (Step('a', {residual}),)\n"
    (wrong,) = empty_steps(source)
    assert why in wrong
