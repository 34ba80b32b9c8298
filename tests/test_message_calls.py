"""The calls that a message shows, and what it says about gradients that are missing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from attnspec.driving import outcome_of
from attnspec.gradients import remedy
from attnspec.judging import Judgement
from attnspec.made import Made, shown
from attnspec.message import failure_text
from attnspec.oracle.law import Breach, Inputs
from attnspec.oracle.literal import Upstream
from tests.stubs import SMALL, attention, law_of_id, target
from tests.test_messages import COMMAND, INPUTS, LAW, judgement


def call(value: float, **fields: object) -> Inputs:
    return replace(INPUTS, arrays={"x": np.array([[1.0, value]])}, **fields)  # type: ignore[arg-type]


def text_of(made: list[Made], *, breach: Breach | None = None) -> str:
    failed = judgement() if breach is None else Judgement(breach=breach)
    calls = shown(INPUTS, made, breach=breach is not None)
    return failure_text(LAW, INPUTS, failed, [], COMMAND, calls=calls)


def test_the_call_that_a_law_forms_is_shown_and_not_the_drawn_one() -> None:
    text = text_of([Made(call(3.0, pattern="normal"))])
    assert (
        "Call (float32, memory layout contiguous):\n"
        "    # x 1 x 2; float32; formed by the law; contiguous; seed 7\n"
        "    import torch\n"
        "    x = torch.tensor([[1.0, 3.0]], dtype=torch.float32)\n"
        "    softmax(x)\nWorst"
    ) in text
    assert "[[1.0, 2.0]]" not in text
    space: dict[str, object] = {"softmax": lambda x: x}
    exec("\n".join(line[4:] for line in text.splitlines() if line.startswith("    ")), space)
    assert space["x"].tolist() == [[1.0, 3.0]]  # type: ignore[attr-defined]


def test_the_drawn_call_leads_and_further_ones_follow() -> None:
    made = [Made(call(value)) for value in (3.0, 2.0, 4.0, 2.0, 5.0, 6.0)]
    text = text_of(made)
    told = [line.strip() for line in text.splitlines() if "tensor(" in line]
    assert told == [f"x = torch.tensor([[1.0, {v}]], dtype=torch.float32)" for v in (2.0, 3.0, 4.0)]
    assert text.count("\nCall (") == 1
    assert text.count("\nFurther call (") == 2
    assert "The first call is made 2 times.\nThe law makes 2 further calls of this kind." in text
    assert "further" not in failure_text(LAW, INPUTS, judgement(), [], COMMAND).lower()


def test_the_call_that_ended_with_an_exception_is_shown_alone() -> None:
    breach = Breach("raises", "raised ValueError: no")
    text = text_of([Made(INPUTS), Made(call(3.0))], breach=breach)
    assert "[[1.0, 3.0]]" in text
    assert "[[1.0, 2.0]]" not in text


def test_an_array_that_no_seed_draws_again_is_written_out() -> None:
    long = np.arange(100.0)[None]
    made = Made(replace(INPUTS, arrays={"x": long}))
    assert "too long" in made.code("torch")
    assert "98.0, 99.0]], dtype=torch.float32)" in made.formed().code("torch")


def test_equal_elements_are_written_short_in_formed_calls_too() -> None:
    made = Made(replace(INPUTS, arrays={"x": np.zeros((5, 30))})).formed()
    assert "\nx = torch.full((5, 30), 0.0, dtype=torch.float32)\n" in made.code("torch")


def test_gradients_are_shown_as_they_are_taken() -> None:
    text = text_of([Made(INPUTS, Upstream(np.array([[1.0, -1.0]])))])
    assert (
        "    upstream = torch.tensor([[1.0, -1.0]], dtype=torch.float32)\n"
        "    x.requires_grad_()\n"
        "    output = softmax(x)\n"
        "    torch.autograd.grad(output, (x,), upstream)\n"
    ) in text


def test_a_missing_gradient_says_what_to_do() -> None:
    def detached(q: Any, k: Any, v: Any) -> Any:
        return attention(q, k.detach(), v)

    row = law_of_id("attention.gradients_match_oracle")
    text = outcome_of(row, target(attention=detached), "float32", "cpu", SMALL).text
    assert (
        "It gives no gradient of k: it is None\n"
        "To do: if attention is to have gradients, keep the way from its inputs to its result "
        "differentiable (no detach, no_grad or .data), or give a function "
        "attention_backward(grad_out, q, k, v, **options) that returns them as a tuple; if it "
        "has none, declare gradients=False in TARGET\n"
    ) in text
    assert "nothing known" not in text


def test_a_missing_gradient_of_one_of_several_components_says_how_to_name_the_others() -> None:
    functions = {"softmax": attention, "attention": attention, "rope": attention}
    assert 'if it has none, declare gradients=("softmax", "rope") in TARGET' in remedy(
        "attention", ["q"], functions, torch=True
    )
    told = remedy("rope", ["x"], {"rope": attention, "softmax": attention}, torch=False)
    assert told == (
        "if rope is to have gradients, give a function rope_backward(grad_out, x, **options) that "
        'returns them as a tuple; if it has none, declare gradients=("softmax",) in TARGET'
    )
