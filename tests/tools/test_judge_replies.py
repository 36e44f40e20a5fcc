"""Verdicts in sentences, and replies in the words of a tool call. The reports stand in tests/data/reports."""

import json
from pathlib import Path

import pytest

from tests.model_server import ScriptedModelServer
from tests.tools.conftest import Run
from tests.tools.support import outcome

REPORTS = Path(__file__).parents[1] / "data" / "reports"
REPLIES = {
    f"{report}, {name}": reply
    for report in ("03_judge_verdict_in_a_sentence", "04_judge_wrapped_in_tool_call")
    for name, reply in json.loads((REPORTS / report / "replies.json").read_text(encoding="utf-8")).items()
}


@pytest.mark.parametrize("name", REPLIES)
def test_the_reported_replies_count_as_what_they_say(name: str, run: Run, judge: ScriptedModelServer) -> None:
    judge.on("faithfulness.verdicts", REPLIES[name])
    output = run("faithfulness")
    assert (*outcome(output), output.variables["score"]) == ("scored", "", 0.5)
    # Read at once: one call for the statements, one for the verdicts.
    assert len(judge.judge_calls) == 2
