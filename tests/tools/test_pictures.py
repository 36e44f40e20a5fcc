"""An answer, a reference and a chunk with a picture in them cost no more than without it."""

import pytest

from tests.model_server import ScriptedModelServer
from tests.tools.conftest import Run
from tests.tools.support import outcome

# 220,000 characters became 23 judge calls.
ANSWER = "10日です。\n\n![図](data:image/png;base64," + "iVBORw0KGgo" * 20000 + ")"


@pytest.mark.parametrize("tool", ["faithfulness", "answer_relevancy", "answer_correctness", "context_recall"])
@pytest.mark.parametrize("where", ["answer", "reference", "contexts"])
def test_a_picture_is_a_placeholder_for_the_judge(tool: str, where: str, run: Run, judge: ScriptedModelServer) -> None:
    run(tool)
    without = judge.judge_calls
    output = run(tool, **{where: [ANSWER] if where == "contexts" else ANSWER})
    calls = judge.judge_calls[len(without) :]
    assert outcome(output) == ("scored", "")
    assert sorted(call.prompt for call in calls) == sorted(call.prompt for call in without)
    assert sum(len(call.user) for call in calls) < sum(len(call.user) for call in without) + 100
    if where == "answer" and tool != "context_recall":
        assert any("10日です。\\n\\n[画像: 図]" in call.user for call in calls)
