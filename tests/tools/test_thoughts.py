"""Models that think aloud: judges and bots, through the tools. The reports stand in tests/data/reports."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.model_server import ScriptedModelServer
from tests.tools.conftest import Run
from tests.tools.support import data_of, outcome, statements

REPORTS = Path(__file__).parents[1] / "data" / "reports"
REPLIES: Mapping[str, str] = json.loads((REPORTS / "01_judge_reasoning_marks_cut" / "replies.json").read_text())
THOUGHT, CUT = ((REPORTS / "18_think_in_answer" / f"{name}.txt").read_text() for name in ("think", "cut"))
OF_THE_ANSWER = ("answer_relevancy", "faithfulness", "answer_correctness")


@pytest.mark.parametrize("name", [name for name in REPLIES if name.startswith("closed")])
def test_a_draft_in_a_judges_thoughts_is_passed_over(name: str, run: Run, judge: ScriptedModelServer) -> None:
    judge.on("faithfulness.verdicts", REPLIES[name])
    output = run("faithfulness")
    assert (*outcome(output), output.variables["score"]) == ("scored", "", 0.5)
    assert len(judge.judge_calls) == 2


@pytest.mark.parametrize("name", [name for name in REPLIES if name.startswith("cut")])
def test_a_judge_cut_in_its_thoughts_has_given_no_verdict(name: str, run: Run, judge: ScriptedModelServer) -> None:
    judge.on("faithfulness.verdicts", REPLIES[name])
    output = run("faithfulness")
    assert (*outcome(output), output.variables["score"]) == ("failed", "judge_unparseable", None)
    # Asked again: one call for the statements, two for the verdicts.
    assert len(judge.judge_calls) == 3


@pytest.mark.parametrize(
    ("spoken", "words"), [("ja", "Max Tokens（最大トークン数）"), ("en", "Max Tokens"), ("zh", "最大标记")]
)
def test_a_judge_that_keeps_its_thoughts_and_says_nothing_is_told_with_what_to_raise(
    spoken: str, words: str, run: Run, judge: ScriptedModelServer
) -> None:
    # As providers do it that give the reasoning apart: an empty content, all tokens used.
    judge.usage = {"prompt_tokens": 100, "completion_tokens": 512, "total_tokens": 612}
    judge.on("precision.chunk", "")
    output = run("context_precision", spoken)
    assert outcome(output) == ("failed", "judge_unparseable")
    assert words in output.variables["summary"]


FOLDED = (
    '<details style="color:gray;background-color: #f8f8f8;padding: 8px;border-radius: 4px;" open>'
    " <summary> Thinking... </summary>20日だったかもしれない。</details>\n\n有給休暇は10日です。"
)


@pytest.mark.parametrize("answer", [THOUGHT, FOLDED])
@pytest.mark.parametrize("tool", OF_THE_ANSWER)
def test_a_bots_thoughts_are_not_judged(tool: str, answer: str, run: Run, judge: ScriptedModelServer) -> None:
    output = run(tool, answer=answer)
    assert outcome(output) == ("scored", "")
    seen = [data["answer"] for request in judge.judge_calls if "answer" in (data := data_of(request))]
    assert {text for text in seen if isinstance(text, str)} == {"有給休暇は10日です。"}


@pytest.mark.parametrize(
    ("spoken", "words"), [("ja", "Max Tokens（最大トークン数）"), ("en", "Raise Max Tokens"), ("zh", "最大标记")]
)
@pytest.mark.parametrize("tool", OF_THE_ANSWER)
def test_thoughts_without_an_answer_are_told_with_what_to_raise(
    tool: str, spoken: str, words: str, run: Run, judge: ScriptedModelServer
) -> None:
    output = run(tool, spoken, answer=CUT)
    assert outcome(output) == ("not_applicable", "only_thoughts")
    assert words in output.variables["summary"]
    assert judge.judge_calls == []


def test_where_the_bot_only_thought_its_retrieval_is_scored_all_the_same(run: Run, judge: ScriptedModelServer) -> None:
    output = run("evaluate_answer", answer=CUT)
    scores: dict[str, Any] = output.variables
    assert scores["status"] == "scored"
    assert (scores["context_recall"], scores["context_precision"], scores["faithfulness"]) == (1, 1, None)
    assert scores["details"]["metrics"]["faithfulness"]["reason"] == "only_thoughts"
    assert {request.prompt for request in judge.judge_calls} == {"recall.parts", "precision.chunk"}


def test_an_answer_about_such_marks_is_judged_whole(run: Run, judge: ScriptedModelServer) -> None:
    answer = "思考は `<think>` と `</think>` の間に書かれます。"
    judge.on("faithfulness.statements", statements("一"))
    run("faithfulness", answer=answer)
    assert data_of(judge.judge_calls[0])["answer"] == answer
