"""The text of a failure: what an author of a kernel reads first."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from attnspec.diagnosis import Explanation
from attnspec.judging import Judgement
from attnspec.message import failure_text, repeat_command, summary
from attnspec.oracle.comparison import Comparison, verdict
from attnspec.oracle.law import Breach, Inputs, Law
from attnspec.outcome import Outcome, Run, Untested
from attnspec.report import print_comparison, print_run

LAW = Law(
    id="softmax.rows_sum_to_one",
    component="softmax",
    says="the weights along the axis add up to 1",
    means="the normaliser is not the sum of the numerators",
    kind="exact",
    check=lambda implementation, inputs: [],
    inputs="softmax",
)
INPUTS = Inputs("softmax", "float32", {"x": np.array([[1.0, 2.0]])}, seed=7)
COMMAND = "attnspec verify k.py --law softmax.rows_sum_to_one --dtype float32 --seed 0"


def judgement(allowance: float | None = 1e-3, actual: float = 1.5) -> Judgement:
    given, right = np.array([1.0, actual]), np.array([1.0, 1.0])
    allowed = None if allowance is None else np.full(2, allowance)
    comparison = Comparison("sum of a row", given, right, allowed, "float32")
    return Judgement((comparison,), (verdict(comparison),))


def test_the_whole_message() -> None:
    explained = [
        Explanation("softmax.no_normaliser", 0.0, "it divides by nothing. Divide by the sum."),
        Explanation("convention:a.b=c", 0.1, 'declare conventions={"a.b": "c"} in TARGET'),
    ]
    text = failure_text(LAW, INPUTS, judgement(), explained, COMMAND)
    before, _, after = text.partition("Worst element")
    assert before.startswith(
        "softmax.rows_sum_to_one: the weights along the axis add up to 1\n"
        "Call (float32, memory layout contiguous):\n    # "
    )
    assert "    x = torch.tensor([[1.0, 2.0]], dtype=torch.float32)\n" in before
    assert "    softmax(x)\n" in before
    assert after == (
        ": sum of a row[1]\n"
        "  actual    1.5\n"
        "  expected  1\n"
        "  error     0.5\n"
        "  allowed   0.001\n"
        "  ratio     500\n"
        "Looks like softmax.no_normaliser: it divides by nothing. Divide by the sum.\n"
        'Looks like convention:a.b=c: declare conventions={"a.b": "c"} in TARGET\n'
        "What it means: the normaliser is not the sum of the numerators\n"
        f"Again: {COMMAND}"
    )


def test_the_call_can_be_pasted() -> None:
    text = failure_text(LAW, INPUTS, judgement(), [], COMMAND)
    lines = text[text.index("    # ") : text.index("Worst")].splitlines()
    space: dict[str, object] = {"softmax": lambda x: x}
    exec("\n".join(line[4:] for line in lines), space)
    assert space["x"].tolist() == [[1.0, 2.0]]  # type: ignore[attr-defined]


def test_to_the_bit_there_is_no_allowance() -> None:
    text = failure_text(LAW, INPUTS, judgement(None), [], COMMAND)
    assert "  allowed   the same bits\n" in text
    assert "  ratio" not in text
    assert summary(judgement(None)) == "sum of a row[1] differs where the same bits are due"


def test_nothing_known_says_so() -> None:
    text = failure_text(LAW, INPUTS, judgement(), [], COMMAND)
    assert "Likely mistake: nothing known gives these results." in text


def test_what_failing_calls_share_is_told_where_nothing_is_known() -> None:
    text = failure_text(LAW, INPUTS, judgement(), [], COMMAND, common="memory layout expanded")
    assert "gives these results.\nFailing calls have in common: memory layout expanded.\n" in text
    known = [Explanation("fault.a", 0.0, "it is wrong")]
    text = failure_text(LAW, INPUTS, judgement(), known, COMMAND, common="memory layout expanded")
    assert "in common" not in text


def test_what_was_written_is_told_instead_of_bytes() -> None:
    text = failure_text(LAW, INPUTS, judgement(None), [], COMMAND, written="x changed at [0]")
    assert "Changed: x changed at [0]\n" in text
    assert "Worst element" not in text


def test_more_than_three_explanations_are_only_named() -> None:
    explained = [Explanation(f"fault.{i}", 0.0, "it is wrong") for i in range(5)]
    text = failure_text(LAW, INPUTS, judgement(), explained, COMMAND)
    assert text.count("Looks like ") == 3
    assert "Also possible: fault.3, fault.4" in text


def test_an_exception_is_told_in_its_own_words() -> None:
    breach = Breach("raises", "raised ValueError: no (k.py, line 3, in softmax: raise)")
    failed = Judgement(breach=breach)
    text = failure_text(LAW, INPUTS, failed, [], COMMAND)
    assert "It raised ValueError: no (k.py, line 3, in softmax: raise)\n" in text
    assert summary(failed) == str(breach)


def test_a_result_that_changes_is_announced() -> None:
    text = failure_text(LAW, INPUTS, judgement(), [], COMMAND, repeatable=False)
    assert "Attention: not repeatable: the same call gave different results" in text


def test_a_summary_is_one_line() -> None:
    assert summary(judgement()) == "sum of a row[1] is off by 500 times the allowance"
    assert summary(judgement(actual=np.nan)) == "sum of a row[1] is off by inf times the allowance"
    assert summary(Judgement()) == "nothing was compared"


WITH_ALL = (
    "attnspec verify 'my kernels.py' --law a.b --dtype float32 --device cuda --tier smoke "
    "--examples 5 --seed 3"
)


@pytest.mark.parametrize(
    ("given", "examples", "tier", "device", "command"),
    [
        ("k.py", 0, "full", "cpu", "attnspec verify k.py --law a.b --dtype float32 --seed 3"),
        (
            "my kernels.py", 5, "smoke", "cuda",
            (
                "attnspec verify 'my kernels.py' --law a.b --dtype float32 --device cuda "
                "--tier smoke --examples 5 --seed 3"
            ),
        ),
        ("", 0, "full", "cpu", "attnspec.check('a.b', target, dtype='float32', seed=3)"),
        (
            "", 9, "deep", "cpu",
            "attnspec.check('a.b', target, dtype='float32', tier='deep', examples=9, seed=3)",
        ),
    ],
)  # fmt: skip
def test_the_command_that_repeats_it(
    given: str, examples: int, tier: str, device: str, command: str
) -> None:
    made = repeat_command(
        given, "a.b", "float32", device=device, seed=3, examples=examples, tier=tier
    )
    assert made == command


def outcome(**fields: object) -> Outcome:
    blank = Outcome("softmax.a", "softmax", "float32", "cpu", "pass", examples=20, ratio=0.25)
    return replace(blank, **fields)  # type: ignore[arg-type]


def printed(*outcomes: Outcome, **fields: object) -> str:
    run = Run("mine", "0.1.0", 0, "full", outcomes, settings={"cuda": "nothing ran on CUDA"})
    console = Console(width=100, file=io.StringIO(), color_system=None)
    print_run(console, replace(run, **fields))  # type: ignore[arg-type]
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_a_pass_shows_the_worst_ratio_and_the_tightest_preset() -> None:
    text = printed(outcome(preset="flash"), outcome(law="softmax.b", ratio=0.5, preset="strict"))
    assert "| softmax   | pass 2 0.5 flash |" in text
    assert "mine conforms: 2 laws hold (40 examples, seed 0, tier full)" in text
    assert "Ran under: cuda nothing ran on CUDA" in text


def test_failures_that_are_alike_are_told_once() -> None:
    failed = outcome(status="fail", text="THE TEXT", reason="x[0] off by 3", diagnosis=("f.x",))
    text = printed(failed, replace(failed, law="softmax.b", text="OTHER"))
    assert text.count("THE TEXT") == 1
    assert "OTHER" not in text
    assert "Fails too:\n  softmax.b (float32): looks like f.x\n" in text
    assert "FAIL 2/2 0.25" in text
    assert "mine does not conform: 2 laws fail" in text


def test_equal_reasons_are_told_once() -> None:
    failed = outcome(status="fail", reason="raised ValueError: no")
    text = printed(failed, *(replace(failed, law=f"softmax.{name}") for name in "bcd"))
    assert (
        "Fails too:\n  softmax.b, softmax.c, softmax.d (float32): raised ValueError: no\n" in text
    )


def test_one_law_is_singular() -> None:
    assert "does not conform: 1 law fails (" in printed(outcome(status="fail"))
    assert "conforms: 1 law holds (" in printed(outcome())


def test_everything_that_was_not_tested_is_listed() -> None:
    text = printed(
        outcome(),
        outcome(law="softmax.b", status="not-tested", reason="only 3% could be judged"),
        untested=(Untested("rope", "", "the target has no such function"),
                  Untested("softmax", "dim", "the function does not accept it")),
    )  # fmt: skip
    assert "  rope: the target has no such function" in text
    assert "  softmax(dim): the function does not accept it" in text
    assert "  softmax.b float32: only 3% could be judged" in text


def test_a_guarantee_that_nobody_gave_shows_its_share() -> None:
    text = printed(outcome(guarantee="layout-invariant", held=19, watched=20))
    assert "layout-invariant isn't promised; for softmax it held in 19/20" in text


def test_a_run_that_could_not_be_judged_says_why() -> None:
    text = printed(outcome(status="not-tested", reason="no"), interrupted=True)
    assert "Ended by Ctrl-C: this is what was known by then." in text
    assert "mine could not be judged: Ctrl-C ended the run" in text
    text = printed(outcome(status="not-tested", error="softmax.a: IndexError"))
    assert "by a mistake of the suite: softmax.a: IndexError" in text


def test_text_of_a_target_is_never_taken_for_markup() -> None:
    text = printed(outcome(status="fail", reason="[bold]x[/bold] [0]"), target="[red]k")
    assert "[bold]x[/bold] [0]" in text
    assert "[red]k" in text


def test_several_targets_in_one_table() -> None:
    console = Console(width=100, file=io.StringIO(), color_system=None)
    good = Run("good", "0.1.0", 0, "full", (outcome(),))
    bad = Run("bad", "0.1.0", 0, "full", (outcome(status="fail"),))
    skipped = {"lacking": "needs x: pip install x"}
    print_comparison(console, [good, bad], skipped, {"bad": "it rounds"})
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "| good   | conforms      | softmax   | pass 1 0.25 " in text
    assert "| bad    | fails (known) | softmax   | FAIL 1/1 0.25 " in text
    assert "bad is known to fail: it rounds" in text
    assert "lacking was not run: needs x: pip install x" in text
