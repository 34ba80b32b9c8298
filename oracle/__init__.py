"""What decides: values, enclosures and allowances from the definitions, and the laws."""

from __future__ import annotations

from attnspec.oracle import (
    attention,
    attention_gradients,
    rope,
    rope_apply,
    rope_gradients,
    softmax,
    softmax_gradients,
)
from attnspec.oracle.law import Law

LAWS: tuple[Law, ...] = (
    *softmax.LAWS,
    *softmax_gradients.LAWS,
    *attention.LAWS,
    *attention_gradients.LAWS,
    *rope.LAWS,
    *rope_apply.LAWS,
    *rope_gradients.LAWS,
)
"""Every law, component by component."""


def law(id: str) -> Law:
    """The law of this id. Raises ValueError, naming those there are."""
    for row in LAWS:
        if row.id == id:
            return row
    raise ValueError(f"unknown law {id!r}; there are: {', '.join(row.id for row in LAWS)}")
