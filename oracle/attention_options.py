"""Options that calls of attention are drawn with, and which shapes they are legal for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from attnspec.oracle.attention_masks import every_row_sees, hides
from attnspec.oracle.attention_shapes import Heads, any_heads, attention_shapes
from attnspec.oracle.family import Form, Scope, Shape
from attnspec.oracle.shapes import Need

Width = Callable[[int], int]
"""From the number of keys to a window."""


def _all_but_one(s: int) -> int:
    return max(s - 1, 0)


def _all(s: int) -> int:
    return s


def _more(s: int) -> int:
    return s + 3


def _half(s: int) -> int:
    return s // 2


def _width(size: int) -> Width:
    return lambda s: size


NARROWEST = _width(0)
WINDOWS: tuple[Width, ...] = (
    _width(1), NARROWEST, _width(2), _all_but_one, _width(5), _half, _all, _more, _width(1),
    _width(2),
)  # fmt: skip


@dataclass(frozen=True)
class Choice:
    """Options of a call; None is left out."""

    causal: bool | None = None
    window: Width | None = None
    softcap: float | None = None
    scale: float | None = None
    """0 stands for one over the head size."""
    return_lse: bool = False

    def options(self, shape: Shape, conventions: Mapping[str, str]) -> dict[str, Any]:
        """The options for a shape."""
        found: dict[str, Any] = {}
        if self.causal is not None:
            found["causal"] = self.causal
        if self.window is not None:
            least = 1 if conventions.get("attention.window") == "total" else 0
            found["window"] = max(self.window(shape[4]), least)
        if self.softcap is not None:
            found["softcap"] = self.softcap
        if self.scale is not None:
            found["scale"] = self.scale or 1.0 / shape[5]
        if self.return_lse:
            found["return_lse"] = True
        return found


PLAIN = (Choice(),)
CAUSAL = (Choice(causal=True),)
SCALES = tuple(Choice(scale=scale) for scale in (1.0, 0.5, 0.1, 2.0, 0.0, 0.25))
CAPS = tuple(Choice(softcap=cap) for cap in (2.0, 0.5, 30.0, 8.0))
CAUSAL_WINDOWS = tuple(Choice(causal=True, window=width) for width in WINDOWS)
BOTH_WAYS = tuple(Choice(window=width) for width in WINDOWS[:-2])
MIXED = (
    Choice(causal=True, scale=0.5),
    Choice(causal=True, scale=0.1),
    Choice(causal=True, softcap=2.0),
    Choice(causal=True, softcap=30.0),
    Choice(softcap=2.0, scale=0.5),
    Choice(causal=True, window=_width(2), scale=1.0),
    Choice(causal=True, window=_width(1), softcap=2.0, scale=0.25),
)
CHOICES: tuple[Choice, ...] = (
    *CAUSAL, *SCALES, *CAPS, *CAUSAL_WINDOWS, *BOTH_WAYS, *MIXED, Choice(causal=False),
    *CAUSAL * 8,
)  # fmt: skip
"""Options besides none at all."""

Wish = Callable[[Scope, Form], bool]


def every_row(scope: Scope, form: Form) -> bool:
    """Whether every row has a key under the options."""
    return every_row_sees(scope.conventions, form.shape[3], form.shape[4], form.options)


def hides_something(scope: Scope, form: Form) -> bool:
    """Whether the options hide a key from some row, and leave every row one."""
    there = hides(scope.conventions, form.shape[3], form.shape[4], form.options)
    return there and every_row(scope, form)


def no_key_for_some_row(scope: Scope, form: Form) -> bool:
    """Whether some row has no key under the options."""
    return not every_row(scope, form)


def any_form(_scope: Scope, _form: Form) -> bool:
    """No wish."""
    return True


def drawable(scope: Scope, choice: Choice) -> bool:
    """Whether the function takes the options, and the conventions give them a meaning."""
    given = choice.options((1, 1, 1, 1, 1, 1, 1), scope.conventions)
    if not scope.accepts >= given.keys():
        return False
    total = scope.conventions.get("attention.window") == "total"
    return not (total and choice.window is not None and not choice.causal)


def attention_forms(
    scope: Scope,
    *,
    table: tuple[Shape, ...],
    choices: tuple[Choice, ...] = CHOICES,
    plain: float = 0.5,
    needs: Mapping[str, Need] | None = None,
    heads: Heads = any_heads,
    wish: Wish = every_row,
    wishes: str = "a key for every row",
) -> tuple[Form, ...]:
    """Every shape without options, then with each choice of options that the function takes, and
    without options again: `plain` times as many as with options, unless that is 0.

    Raises ValueError where the limits, the options that the function takes or the conventions
    leave nothing.
    """
    shapes = attention_shapes(table, scope, needs=needs, heads=heads)
    allowed = [choice for choice in choices if drawable(scope, choice)]
    if not allowed and not plain:
        raise ValueError(
            f"the function takes {_named(scope.accepts)}, with "
            f"attention.window={scope.conventions.get('attention.window', 'radius')!r}; "
            "that leaves none of the options that are to be drawn"
        )
    # a choice may stand several times
    forms = {
        choice: [
            form
            for shape in shapes
            if wish(scope, form := Form(shape, choice.options(shape, scope.conventions)))
        ]
        for choice in dict.fromkeys(allowed)
    }
    chosen = [form for choice in allowed for form in forms[choice]]
    start = [Form(shape, {}) for shape in dict.fromkeys(shapes)] if plain else []
    start = [form for form in start if wish(scope, form)]
    if not chosen and not start:
        raise ValueError(
            f"the limits {dict(scope.limits)!r} and the options that the function takes, "
            f"{_named(scope.accepts)}, leave no call with {wishes}"
        )
    every = [form for form in (Form(shape, {}) for shape in shapes) if plain and wish(scope, form)]
    again = round(plain * len(chosen) / len(every)) if every else 0
    # shrinking looks at the first entries one by one, so some with an option are among them
    return (*start[:7], *chosen[:5], *start[7:], *chosen[5:], *every * again)


def _named(options: frozenset[str]) -> str:
    return ", ".join(sorted(options)) or "no options"
