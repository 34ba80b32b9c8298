"""Query heads that share key and value heads: what MQA and GQA are, and what they can't be.

Sources: document 004 (3.1, MQA and GQA). Which key head a query head reads, and what attention
then is, come from the definition; what is saved is in `gqa_cache`.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec import attention_definition
from attnspec.spec.attention_definition import HEAD_ORDERS, Options
from attnspec.spec.claim import Claim, Source, Step
from attnspec.spec.definition import unmarked
from attnspec.spec.gqa_definition import GROUPS, HEADS

_head = attention_definition.key_heads("grouped").axes[0][0]
_group, _place, _left, _above = sp.symbols("g a e f", integer=True, nonnegative=True)
_members, _of_groups = _place + 1 + _left, _group + 1 + _above
"""r and G, above a place a < r in a group g < G."""


def key_head(order: str, head: sp.Expr, heads: sp.Expr, groups: sp.Expr) -> sp.Expr:
    """The key head that the definition gives a query head."""
    expression = attention_definition.key_heads(order).expression
    return expression.xreplace({_head: head, HEADS: heads, GROUPS: groups})


def _rounded(says: str, read: sp.floor, wanted: sp.Expr) -> tuple[Step, ...]:
    """That a key head, a quotient that is rounded down, is the wanted one."""
    (quotient,) = read.args
    over = sp.factor(sp.simplify(quotient - wanted))
    return (
        Step(f"{says} is no less", over.is_nonnegative),
        Step(f"{says} is less than 1 more", sp.factor(1 - over).is_positive),
    )


def reading() -> tuple[Step, ...]:
    """Which key head each query head reads, in both orders."""
    grouped, tiled = _group * _members + _place, _place * _of_groups + _group
    heads = _members * _of_groups
    return (
        *_rounded(
            "grouped, a < r: (g r + a) G / (r G), beside g,",
            key_head("grouped", grouped, heads, _of_groups),
            _group,
        ),
        Step(
            "tiled, g < G: a G + g divided by G leaves g",
            key_head("tiled", tiled, heads, _of_groups) - _group,
        ),
    )


def _output(order: str = "grouped") -> sp.Expr:
    return unmarked(attention_definition.attention(Options(head_order=order)).expression)


def _with_key_head(expression: sp.Expr, head: sp.Expr) -> sp.Expr:
    """An output whose keys and values are those of another key head."""
    bases = {
        str(array.label): array for array in attention_definition.attention(Options()).arrays[1:]
    }

    def other(node: sp.Indexed) -> sp.Indexed:
        b, _, *rest = node.indices
        return bases[str(node.base.label)][b, head, *rest]

    return expression.replace(
        lambda node: isinstance(node, sp.Indexed) and str(node.base.label) in bases, other
    )


def copies() -> tuple[Step, ...]:
    """Attention with a key head for every query head, where those of a group are equal."""
    apart = _output().xreplace({GROUPS: HEADS})
    read = {node.indices[1] for node in apart.atoms(sp.Indexed) if str(node.base.label) != "q"}
    return (
        Step("with as many key heads as heads, head h reads key head h", read == {_head}),
        *(
            Step(
                f"{order}: where key head h is a copy of the one that head h reads, its output is "
                "that of shared keys and values",
                _with_key_head(apart, attention_definition.key_head(order)) - _output(order),
            )
            for order in HEAD_ORDERS
        ),
    )


def _repeated() -> tuple[Step, ...]:
    return (*copies(), *reading())


def _own_heads() -> tuple[Step, ...]:
    heads = _head + 1 + _above
    return (
        *copies()[:1],
        Step(
            "tiled with G = H > h: h divided by G leaves h",
            key_head("tiled", _head, heads, heads) - _head,
        ),
    )


def _one_group() -> tuple[Step, ...]:
    heads = _head + 1 + _above
    tied = _with_key_head(_output().xreplace({GROUPS: HEADS}), sp.S.Zero)
    one = _output().xreplace({GROUPS: sp.S.One})
    (grouped,) = {node.indices[1] for node in one.atoms(sp.Indexed) if str(node.base.label) == "k"}
    return (
        Step(
            "grouped with G = 1: head h reads key head h/H, rounded down",
            grouped - key_head("grouped", _head, HEADS, sp.S.One),
        ),
        *_rounded(
            "h < H: h/H, beside 0,",
            grouped.xreplace({HEADS: heads}),
            sp.S.Zero,
        ),
        Step("tiled: the rest by 1 is 0", key_head("tiled", _head, HEADS, sp.S.One)),
        Step(
            "so the output is that of many heads whose keys and values are all head 0's",
            _with_key_head(one, sp.S.Zero) - tied,
        ),
        Step(
            "and of the heads only the query's own is left in it",
            {
                str(node.base.label)
                for node in tied.atoms(sp.Indexed)
                if node.has(_head)
            } == {"q"},
        ),
    )  # fmt: skip


_GQA = "3.1 GQA"

CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="gqa.mqa_of_one_group",
        number="C037",
        statement="With one group it is MQA: head i is attention of its own queries over the one "
        "set of keys and values.",
        latex=r"G=1\Rightarrow\mathrm{head}_i=\mathrm{Attention}(Q_i,K,V)",
        source=Source("004", "3.1 MQA", "One group makes MQA; all heads share K and V."),
        verdict="holds",
        form="symbolic",
        truth="It is MHA in which all heads have the same W_K and W_V.",
        derivation=_one_group,
    ),
    Claim(
        id="gqa.eq_mha_of_repeated_keys",
        number="C041",
        statement="Head i of group g is attention of its own queries over the group's keys and "
        "values.",
        latex=r"\mathrm{head}_{g,i}=\mathrm{Attention}(Q_{g,i},K_g,V_g)",
        source=Source("004", _GQA, "Heads in one group attend with one K and one V."),
        verdict="holds",
        form="symbolic",
        truth="It equals MHA over keys and values that are repeated for the heads of a group. "
        "Which heads make a group is a convention: neighbors, or every G-th.",
        derivation=_repeated,
    ),
    Claim(
        id="gqa.eq_mha_of_groups_eq_heads",
        number="",
        statement="With as many groups as heads it is MHA, in either order of heads.",
        latex=r"G=h\Rightarrow\lfloor iG/h\rfloor=i\bmod G=i",
        source=Source("004", _GQA, "Places GQA between MHA and MQA."),
        verdict="holds",
        form="symbolic",
        derivation=_own_heads,
    ),
)
