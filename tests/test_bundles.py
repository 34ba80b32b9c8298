"""Arguments that hold several arrays, packed axes, and options that every call has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attnspec import gradients
from attnspec.arrays import crossing
from attnspec.handing import Latest
from attnspec.oracle.component import Bundle, Component
from attnspec.oracle.law import Breach, Inputs
from attnspec.passing import passed
from attnspec.signature import signature

ROW = Component(
    name="latent",
    arguments={"x": "b n m", "keys": "b n c", "turned": "b n p", "w_q": "m h*d", "w_k": "m g*e"},
    options=("n_heads", "n_kv_heads", "base"),
    integers=(),
    result=lambda inputs: inputs.arrays["x"].shape,
    first="x",
    differentiable=("x", "keys", "turned", "w_q", "w_k"),
    bundles={"cache": Bundle(("keys", "turned"), keyed=False), "weights": Bundle(("w_q", "w_k"))},
    required=("n_heads",),
    heads={"h": "n_heads", "g": "n_kv_heads"},
)
NAMES = tuple(ROW.arguments)


def call(**options: Any) -> Inputs:
    shapes = {
        "x": (2, 3, 5),
        "keys": (2, 3, 4),
        "turned": (2, 3, 2),
        "w_q": (5, 24),
        "w_k": (5, 28),
    }
    arrays = {name: np.ones(shape) for name, shape in shapes.items()}
    return Inputs("latent", "float64", arrays, {"n_heads": 4, **options})


def test_arguments_stand_where_the_first_of_their_arrays_does() -> None:
    assert ROW.positional == ("x", "cache", "weights")


def test_a_dict_and_a_tuple_are_handed_over() -> None:
    given = {name: object() for name in NAMES}
    crossed = crossing("numpy")
    positional, keywords = passed(ROW, call(base=2.0), given, crossing=crossed, device="cpu")
    x, cache, weights = positional
    assert x is given["x"]
    assert cache == (given["keys"], given["turned"])
    assert weights == {"w_q": given["w_q"], "w_k": given["w_k"]}
    assert keywords == {"n_heads": 4, "base": 2.0}


@pytest.mark.parametrize(("options", "key_heads"), [({}, 4), ({"n_kv_heads": None}, 4),
                                                    ({"n_kv_heads": 2}, 2)])  # fmt: skip
def test_parts_of_a_packed_axis_have_sizes(options: dict[str, Any], key_heads: int) -> None:
    sizes = ROW.sizes(call(**options))
    assert sizes["n_heads", "h"] == 4
    assert sizes["n_kv_heads", "g"] == key_heads
    assert sizes["w_q", "d"] == 6
    assert sizes["w_k", "e"] == 28 // key_heads
    assert sizes["turned", "p"] == 2


def test_limits_may_name_the_parts_of_a_packed_axis() -> None:
    assert {"h", "g", "d", "e", "m", "n"} <= ROW.axes
    assert not any("*" in axis for axis in ROW.axes)


def test_a_function_needs_the_options_that_every_call_has() -> None:
    def with_it(x: Any, cache: Any, weights: Any, *, n_heads: int) -> None: ...

    def without(x: Any, cache: Any, weights: Any) -> None: ...

    def flat(x: Any, keys: Any, turned: Any, w_q: Any, w_k: Any, *, n_heads: int) -> None: ...

    assert signature(with_it, ROW).accepts == {"n_heads"}
    assert "latent(x, cache, weights, n_heads=...)" in signature(without, ROW).problem
    assert signature(flat, ROW).problem


def test_gradients_come_back_in_the_form_in_which_arrays_were_handed_over() -> None:
    dx, dk, dt, dq, dw = given = tuple(object() for _ in NAMES)
    returned = (dx, (dk, dt), {"w_k": dw, "w_q": dq})
    assert gradients.unpacked(returned, ROW, NAMES) == given


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ((1, (2, 3)), "(x, (keys, turned), a dict of w_q, w_k)"),
        ((1, 2, 3, 4, 5), "(x, (keys, turned), a dict of w_q, w_k)"),
        ((1, (2, 3, 4), {"w_q": 5, "w_k": 6}), "for cache a tuple (keys, turned)"),
        ((1, (2, 3), {"w_q": 5}), "for weights a dict with the keys w_q, w_k"),
        ((1, (2, 3), (5, 6)), "for weights a dict with the keys w_q, w_k"),
        (None, "a tuple of the gradients"),
    ],
)
def test_gradients_in_another_form_are_a_breach(returned: Any, expected: str) -> None:
    with pytest.raises(Breach) as raised:
        gradients.unpacked(returned, ROW, NAMES)
    assert raised.value.kind == "gradient"
    assert expected in str(raised.value)


ONE, OTHER = object(), object()


@pytest.mark.parametrize(
    ("now", "name"),
    [
        ({"w_k": OTHER}, "w_q"),
        ({"w_q": ONE, "w_k": ONE}, "w_k"),
        ({"w_q": ONE, "w_k": OTHER, "fused": ONE}, "fused"),
    ],
)
def test_a_dict_that_was_changed_is_seen(now: dict[str, Any], name: str) -> None:
    handed: dict[str, Any] = {"w_q": ONE, "w_k": OTHER}
    latest = Latest((), [(handed, dict(handed))])
    assert latest.written() == ""
    assert (latest.record().before == latest.record().after).all()
    handed.clear()
    handed.update(now)
    assert latest.written() == f"the dict itself was changed, at {name}"
    assert (latest.record().before != latest.record().after).any()
