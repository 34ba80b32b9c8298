"""Formulas of the register and of definitions, as LaTeX and as MathML."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import sympy as sp

from attnspec.docs.content import definitions
from attnspec.docs.equations import equations, named_equations
from attnspec.docs.formulas import FormulaError, latex_of, mathml
from attnspec.docs.pages import prose, report
from attnspec.oracle.conventions import CONVENTIONS
from attnspec.spec import CLAIMS
from attnspec.spec.attention_definition import Options, attention, log_sum_exp
from attnspec.spec.definition import Definition, choice, rnd, unmarked
from attnspec.spec.rope_definition import rope
from attnspec.spec.softmax_definition import DEFINITION as SOFTMAX

ROOT = Path(__file__).resolve().parents[1]


def test_every_formula_of_the_register_is_latex() -> None:
    wrong = []
    for claim in CLAIMS:
        try:
            mathml(claim.latex)
        except FormulaError as error:
            wrong.append(f"{claim.id}: {error}")
    assert wrong == []


def test_every_definition_can_be_written() -> None:
    for definition in definitions():
        for line in equations(definition):
            assert "<math" in mathml(line)


def test_definitions_are_told_apart() -> None:
    titles = Counter(
        (d.name, tuple(str(array.label) for array in d.arrays), d.variant) for d in definitions()
    )
    assert [title for title, times in titles.items() if times > 1] == []
    assert max(Counter(name for name, *_ in titles.elements()).values()) > 1


def test_every_module_of_definitions_has_its_table() -> None:
    for path in sorted((ROOT / "spec").glob("*_definition.py")):
        assert import_module(f"attnspec.spec.{path.stem}").definitions(), path.name


def test_what_is_no_latex_is_an_error() -> None:
    for latex in (r"\nosuch x", r"\frac{1}", "a}", r"x_1_2"):
        with pytest.raises(FormulaError):
            mathml(latex)


@pytest.mark.parametrize(
    "definition",
    [
        SOFTMAX,
        rope("interleaved", "forward"),
        rope("half", "backward"),
        attention(Options()),
        log_sum_exp(Options(ranges=True)),
        attention(Options(mask=True, bias=True, softcap=True, ranges=True)),
    ],
    ids=lambda d: d.name,
)
def test_equations_say_what_the_definition_says(definition: Definition) -> None:
    """With what each name stands for put in its place again, the definition is back."""
    result, names = named_equations(definition)
    for symbol, value in names:
        result = result.xreplace({symbol: value})
    assert not result.atoms(sp.Dummy)
    assert ordered(result) == ordered(unmarked(definition.expression))


def ordered(expression: Any) -> Any:
    """An expression as nested tuples in which the order of factors, summands and conditions, which
    sympy keeps as they came, doesn't count."""
    if not expression.args:
        return str(expression)
    parts = [ordered(part) for part in expression.args]
    free = isinstance(expression, (sp.Add, sp.Mul, sp.And, sp.Or))
    return (expression.func.__name__, *(sorted(parts, key=str) if free else parts))


def test_a_name_has_the_indices_that_its_value_depends_on() -> None:
    (first, *_), parts = equations(SOFTMAX), "".join(equations(SOFTMAX))
    assert first == r"\mathrm{out}_{a,j} = \frac{E_{a,j}}{\sum_{j=0}^{n - 1} E_{a,j}}"
    assert r"M_{a} = \max_{0 \le j \le n - 1} x_{a,j}" in parts


def test_marks_leave_brackets_right() -> None:
    a, b, c = sp.symbols("a b c")
    marked = Definition("x", rnd(a + b, "scores") * c, (), (), ())
    assert equations(marked) == (r"\mathrm{out} = c\,\left(a + b\right)",)
    assert latex_of(choice(a, sp.Lt(a, b), c)) == (
        r"\begin{cases} a & \text{if } a < b \\ c & \text{otherwise} \end{cases}"
    )
    assert latex_of(sp.Symbol("num_buckets")) == r"\mathrm{num\_buckets}"
    assert latex_of(sp.Symbol("theta_0")) == r"\theta_{0}"
    assert latex_of(sp.Symbol("w_kr")) == r"\mathrm{w\_kr}"


def test_texts_are_escaped() -> None:
    assert str(prose("a < b and `x & y`")) == "a &lt; b and <code>x &amp; y</code>"
    assert 'href="https://github.com/pytorch/pytorch/issues/7"' in str(report("pytorch/pytorch #7"))
    assert str(report("<b>")) == "&lt;b&gt;"


def test_every_value_of_a_convention_has_a_meaning() -> None:
    for name, convention in CONVENTIONS.items():
        assert len(convention.meanings) == len(convention.values), name
        assert len(set(convention.meanings)) == len(convention.meanings), name
        assert all(convention.meanings)
