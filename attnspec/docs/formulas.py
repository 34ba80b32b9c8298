"""LaTeX as MathML, and expressions of sympy as LaTeX."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import sympy as sp
from math_core import LatexError, LatexToMathML
from sympy.printing.latex import LatexPrinter, translate

_CONVERTER = LatexToMathML(annotation=True, fancy_error=False)
NO_NAMES: Mapping[Any, str] = MappingProxyType({})


class FormulaError(Exception):
    """A formula that is no LaTeX, or has a command that the converter doesn't know."""


@cache
def mathml(latex: str, *, block: bool = True) -> str:
    """The formula for a browser, with its LaTeX as an annotation. Raises FormulaError."""
    try:
        return _CONVERTER.convert_with_local_state(latex, displaystyle=block)
    except LatexError as error:
        raise FormulaError(f"{latex}: {error}") from error


def signed(text: str) -> str:
    """A number as text, with minus signs in place of its hyphens."""
    return text.replace("-", "\N{MINUS SIGN}")


def latex_of(expression: Any, names: Mapping[Any, str] = NO_NAMES) -> str:
    """The LaTeX of an expression over the nodes of definitions; `names` are symbols with a LaTeX
    of their own."""
    return str(_Printer({"symbol_names": dict(names), "mul_symbol": r"\,"}).doprint(expression))


class _Printer(LatexPrinter):  # type: ignore[misc]  # sympy is untyped
    """sympy's printer, with words upright, and with the nodes of definitions."""

    def _print_Symbol(self, expr: Any, style: str = "plain") -> str:  # noqa: N802
        given: str | None = self._settings["symbol_names"].get(expr)
        return _worded(expr.name) if given is None else given

    _print_Dummy = _print_Symbol  # noqa: N815

    def _print_IndexedBase(self, expr: Any) -> str:  # noqa: N802
        name = str(expr.label)
        return _upright(name) if "_" in name else _worded(name)

    def _print_Indexed(self, expr: Any) -> str:  # noqa: N802
        indices = ",".join(self._print(index) for index in expr.indices)
        name = self._print(expr.base)
        return f"{{{name}}}_{{{indices}}}" if "_{" in name else f"{name}_{{{indices}}}"

    def _print_choice(self, expr: Any) -> str:
        value, condition, otherwise = expr.args
        return self._cases((value, condition), (otherwise, sp.true))

    def _print_Piecewise(self, expr: Any) -> str:  # noqa: N802
        return self._cases(*expr.args)

    def _cases(self, *pairs: Any) -> str:
        rows = [
            f"{self._print(value)} & "
            + (r"\text{otherwise}" if on == sp.true else rf"\text{{if }} {self._print(on)}")
            for value, on in pairs
        ]
        return r"\begin{cases} " + r" \\ ".join(rows) + r" \end{cases}"

    def _print_Maximum(self, expr: Any) -> str:  # noqa: N802
        index, low, high = (self._print(a) for a in expr.limits[0])
        inner = self._print(expr.function)
        if expr.function.is_Add:
            inner = rf"\left({inner}\right)"
        return rf"\max_{{{low} \le {index} \le {high}}} {inner}"

    def _print_Sum(self, expr: Any) -> str:  # noqa: N802
        # limits are written inside out; sympy would stack several under one sign
        signs = [
            rf"\sum_{{{self._print(index)}={self._print(low)}}}^{{{self._print(high)}}}"
            for index, low, high in reversed(expr.limits)
        ]
        inner = self._print(expr.function)
        if expr.function.is_Add:
            inner = rf"\left({inner}\right)"
        return f"{' '.join(signs)} {inner}"

    def _print_Pow(self, expr: Any) -> str:  # noqa: N802
        # a fraction above the line is small enough on one line
        folded = self._settings["fold_short_frac"]
        self._settings["fold_short_frac"] = folded or not expr.exp.is_number
        try:
            return str(super()._print_Pow(expr))
        finally:
            self._settings["fold_short_frac"] = folded

    def _print_floor(self, expr: Any, exp: Any = None) -> str:
        text = rf"\left\lfloor {self._print(expr.args[0])} \right\rfloor"
        return text if exp is None else f"{text}^{{{exp}}}"

    # sympy brackets whatever has a mod anywhere inside
    def _needs_add_brackets(self, expr: Any) -> bool:
        plain = isinstance(expr, (sp.Mul, sp.Pow, sp.Indexed))
        return False if plain else bool(super()._needs_add_brackets(expr))

    def _needs_mul_brackets(self, expr: Any, first: bool = False, last: bool = False) -> bool:
        plain = isinstance(expr, (sp.Pow, sp.Indexed))
        return False if plain else bool(super()._needs_mul_brackets(expr, first, last))


def _worded(name: str) -> str:
    """The LaTeX of a name: a letter, with one below it if need be; else a word, upright."""
    stem, _, index = name.partition("_")
    greek = translate(stem)
    if len(index) <= 1 and (len(stem) == 1 or greek.startswith("\\")):
        return f"{greek}_{{{index}}}" if index else greek
    return _upright(name)


def _upright(name: str) -> str:
    whole = name.replace("_", r"\_")
    return rf"\mathrm{{{whole}}}"
