"""What evaluate_app takes for an app's answer and for what it retrieved, over the process."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devhost.app_stream import Event
from devhost.apps import AppCall, Apps, PlayedApp, chatbot
from tests.apps.conftest import Evaluate
from tests.apps.support import bot_answer, progress, question, tag
from tests.model_server import ScriptedModelServer
from tests.tools.support import METRICS, data_of

REPORTS = Path(__file__).parents[1] / "data" / "reports"
OF_CHUNKS = ("faithfulness", "context_recall", "context_precision")
CHUNK = f"{tag(1)}の申請は1日前までです。"


def played(events: list[Event], mode: str = "advanced-chat") -> PlayedApp:
    def play(_: AppCall, __: object) -> Iterator[Event]:
        yield from events

    return PlayedApp(mode, play)


def reported(name: str) -> PlayedApp:
    """A report's stream about the first row's question and answer."""
    text = (REPORTS / f"{name}.json").read_text(encoding="utf-8")
    text = text.replace("有給休暇は10日です。", bot_answer(1)).replace(
        "有給休暇は入社6か月後に10日付与されます。", CHUNK
    )
    events: list[Event] = json.loads(text)
    return played(events, "agent-chat" if "agent_thoughts" in name else "advanced-chat")


def judged_answers(judge: ScriptedModelServer) -> set[str]:
    return {data_of(request)["answer"] for request in judge.calls("faithfulness.statements")}


@pytest.mark.parametrize(
    "name", ["17_agent_thoughts/react", "19_agent_node_retrieval/agent_node", "19_agent_node_retrieval/workflow_tool"]
)
def test_the_reported_apps_are_judged_by_their_answer_and_what_they_retrieved(
    name: str, evaluate: Evaluate, apps: Apps, judge: ScriptedModelServer
) -> None:
    apps.publish("bot", reported(name))
    output = evaluate(1)
    assert progress(output) == ("scored", "", 1, 1)
    assert output.variables["scores"] == dict.fromkeys(METRICS, 1)
    assert judged_answers(judge) == {bot_answer(1)}
    [request] = judge.calls("faithfulness.verdicts")
    assert data_of(request)["contexts"] == [CHUNK]


def test_thoughts_and_pictures_in_an_answer_are_not_judged(
    evaluate: Evaluate, apps: Apps, judge: ScriptedModelServer
) -> None:
    picture = "![図](data:image/png;base64," + "iVBORw0KGgo" * 20_000 + ")"
    pieces = ["<think>", f"{tag(1)}は20日", "</think>\n\n", bot_answer(1), picture]
    apps.publish("bot", chatbot(pieces, [{"content": CHUNK}]))
    assert progress(evaluate(1)) == ("scored", "", 1, 1)
    assert judged_answers(judge) == {f"{bot_answer(1)}[画像: 図]"}


def test_an_app_that_only_thinks_has_failed_with_what_to_raise(evaluate: Evaluate, apps: Apps) -> None:
    apps.publish("bot", chatbot([f"<think>{bot_answer(1)}"]))
    output = evaluate(1)
    assert output.variables["status"] == "failed"
    assert "Max Tokens（最大トークン数）" in output.files[0].blob.decode()


UNSEEN: list[tuple[PlayedApp, str]] = [
    (chatbot([bot_answer(1)]), "「引用と帰属」をオンにしてください"),
    (
        played(
            [
                {"event": "message", "answer": bot_answer(1), "from_variable_selector": ["llm", "text"]},
                {"event": "node_finished", "data": {"node_id": "llm", "node_type": "llm", "outputs": {"text": "…"}}},
                {"event": "message_end", "metadata": {"retriever_resources": []}},
                {"event": "workflow_finished", "data": {"status": "succeeded", "outputs": {}}},
            ]
        ),
        "検索結果が見えないため",
    ),
]


@pytest.mark.parametrize(("app", "words"), UNSEEN, ids=["citations_off", "contexts_not_visible"])
def test_where_nothing_can_be_seen_of_the_retrieval_its_scores_do_not_apply(
    app: PlayedApp, words: str, evaluate: Evaluate, apps: Apps, judge: ScriptedModelServer
) -> None:
    apps.publish("bot", app)
    output = evaluate(1, golden=f"質問\t参照\t文書\n{question(1)}\t1日前まで\t規程.md")
    scores: dict[str, Any] = output.variables["scores"]
    assert scores == {**dict.fromkeys(METRICS), "answer_relevancy": 1}
    statistics = output.variables["details"]["statistics"]
    assert [(statistics[name]["not_applicable"], statistics[name]["failed"]) for name in OF_CHUNKS] == [(1, 0)] * 3
    assert {request.prompt for request in judge.judge_calls} <= {"relevancy.questions", "relevancy.grades"}
    page = output.files[0].blob.decode()
    for shown in (output.text, page):
        assert words in shown
        # No advice about a node that is not there, no document that is said to be missing.
        assert "ナレッジが選ばれているか" not in shown
        assert "見つかるべき文書が検索されていません" not in shown
    # Asked again with the sources on, the same row is judged anew.
    apps.publish("bot", chatbot([bot_answer(1)], [{"content": CHUNK}]))
    again = evaluate(1, golden=f"質問\t参照\t文書\n{question(1)}\t1日前まで\t規程.md")
    assert again.variables["scores"] == dict.fromkeys(METRICS, 1)
