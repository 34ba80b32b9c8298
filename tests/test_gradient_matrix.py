"""Every kind of law about gradients, for every component with gradients: there is one, or a reason
why not. A component that is new here has no reasons, and so must have the laws."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from attnspec.impls.faults.table import FAULTS
from attnspec.oracle import LAWS
from attnspec.oracle.components import COMPONENTS
from attnspec.spec import CLAIMS

KINDS: Mapping[str, tuple[str, ...]] = {
    "derivative of the definition": ("gradients_match_oracle",),
    "adjoint of the derivative": (
        "gradients_along", "gradients_adjoint", "gradients_of_values_adjoint", "weight_adjoint",
    ),
    "structural zeros": (
        "gradients_stay_apart", "gradient_of_unread_rows", "hidden_gradients_zero",
        "gradient_at_minus_infinity",
    ),
    "zero upstream": ("zero_upstream",),
    "views, strided and expanded upstream": ("gradients_of_views",),
    "a subset of the inputs": ("gradients_of_some",),
    "long sums": (
        "gradients_long_sums", "long_sums", "gradient_sums_over_rows",
        "weight_gradient_counts_rows",
    ),
    "two passes add up": ("gradients_accumulate",),
    "after other calls, and again": ("gradients_between_calls",),
    "nothing is written": ("gradient_leaves_output",),
    "gradient of the gradient": ("gradients_of_gradients",),
}  # fmt: skip
"""By kind the last names of the laws of which a component must have one."""

ONE_INPUT = "one argument has a gradient: there is no other to leave out"
NO_SUM = "no argument is shared: a gradient adds up over nothing that grows with the call"
WITHOUT: Mapping[tuple[str, str], str] = {
    ("softmax", "a subset of the inputs"): ONE_INPUT,
    ("rope", "a subset of the inputs"): ONE_INPUT,
    ("learned_positions", "a subset of the inputs"): ONE_INPUT,
    ("t5_bias", "a subset of the inputs"): ONE_INPUT,
    ("rope", "long sums"): NO_SUM,
}
"""Why a component has no law of a kind."""

CLAIMED: Mapping[str, tuple[str, ...]] = {
    "softmax": ("softmax.gradient",),
    "attention": tuple(
        f"attention.gradient_of_{of}" for of in ("queries", "keys", "values", "bias")
    ),
    "rope": ("rope.gradient_is_opposite_rotation",),
    "rope_apply": ("rope.gradient_is_opposite_rotation", "rope_apply.gradient_of_tables"),
    "learned_positions": ("learned_positions.table_gradient",),
    "t5_bias": ("t5_bias.table_gradient",),
    "layer_norm": ("layer_norm.gradient", "layer_norm.gradient_of_affine"),
    "rms_norm": ("rms_norm.gradient", "rms_norm.gradient_of_weight"),
}
"""The claims that a component's closed gradients are derivatives, at symbolic sizes. Compositions
have none: theirs go back stage by stage, through the gradients of the parts."""

WITH_GRADIENTS = [name for name in CLAIMED if COMPONENTS[name].differentiable]
NAMES = {name: {law.id.partition(".")[2] for law in LAWS if law.component == name
                and law.gradients} for name in CLAIMED}  # fmt: skip


def test_the_matrix_has_every_component_that_is_no_composition() -> None:
    """Those that are not in it have no differentiable argument, or are made of those that are."""
    assert list(CLAIMED) == WITH_GRADIENTS
    rest = {name for name, row in COMPONENTS.items() if row.differentiable} - set(CLAIMED)
    composed = {
        "residual_block", "transformer_layer", "multi_head_attention", "decode_attention",
        "kv_cache", "mla", "mla_absorbed", "mla_cache", "mla_decode", "longformer_attention",
        "sparse_attention", "indexer_scores", "hadamard",
    }  # fmt: skip
    assert rest <= composed


@pytest.mark.parametrize("component", WITH_GRADIENTS)
@pytest.mark.parametrize("kind", KINDS)
def test_there_is_a_law_or_a_reason(component: str, kind: str) -> None:
    has = any(name in NAMES[component] for name in KINDS[kind])
    reason = WITHOUT.get((component, kind), "")
    assert has != bool(reason), f"{component}, {kind}: a law, or a reason for none, but not both"


def test_every_reason_is_for_a_cell() -> None:
    assert {kind for _, kind in WITHOUT} <= set(KINDS)
    assert {component for component, _ in WITHOUT} <= set(WITH_GRADIENTS)


@pytest.mark.parametrize("component", WITH_GRADIENTS)
def test_one_input_is_one_input(component: str) -> None:
    """The reason is true where it is given, and given where it is true."""
    alone = len(COMPONENTS[component].differentiable) == 1
    assert alone == (WITHOUT.get((component, "a subset of the inputs")) == ONE_INPUT)


def test_every_claim_of_a_closed_gradient_is_proved_from_a_derivation() -> None:
    found = {claim.id: claim for claim in CLAIMS}
    for ids in CLAIMED.values():
        for identity in ids:
            assert found[identity].form == "symbolic"
            assert found[identity].derivation is not None


def test_every_law_about_gradients_is_of_a_kind_or_of_its_component_alone() -> None:
    """What several components have is a kind, so that the next one must have it too."""
    shared = {name for name in set().union(*NAMES.values())
              if sum(name in names for names in NAMES.values()) > 1}  # fmt: skip
    apart = {"gradient_rows_vanish", "gradients_repeatable", "same_with_gradients"}
    assert shared - set().union(*KINDS.values()) <= apart


def test_a_missing_gradient_of_every_component_is_a_fault() -> None:
    """An argument without a gradient, or with one of zeros, is in the catalogue."""
    missing = {f.component for f in FAULTS if f.kind == "K21"}
    assert set(WITH_GRADIENTS) <= missing
