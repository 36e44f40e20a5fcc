"""What is read from the events of each kind of app. More of it, with apps that really run, is in tests/apps."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evaluation.errors import Reason
from evaluation.runs.app_events import read_events
from tests.evaluation.runs.events import END, REPORTS, SOURCE, finished, message, node, refused

WIRE = Path(__file__).parents[2] / "data" / "wire" / "tool_runs_app.jsonl"


def recorded(own: str = "probe") -> list[dict[str, Any]]:
    """The stream of a chatflow with two scoring tools and their scores in a second Answer node, as it was recorded.

    Args:
        own: whose tools they are: the recorded ones are a probe's.
    """
    lines = [json.loads(line)["line"] for line in WIRE.read_text(encoding="utf-8").splitlines()]
    text = json.dumps([line["data"]["data"] for line in lines if _is_event(line)])
    events: list[dict[str, Any]] = json.loads(text.replace("probe/probe/probe", f"team/{own}/{own}"))
    return events


def _is_event(line: dict[str, Any]) -> bool:
    return line["event"] == "backwards_response" and "event" in (line["data"].get("data") or {})


def scored_by_us() -> list[dict[str, Any]]:
    """The recorded stream with our own tools in it: all of them have these outputs."""
    events = recorded("rag_evaluator")
    for event in events:
        if (event.get("data") or {}).get("node_type") == "tool" and event["event"] == "node_finished":
            event["data"]["outputs"].setdefault("score_text", "0.50")
    return events


# --- the recorded chatflow ---


def test_a_recorded_chatflow_gives_its_whole_reply_and_every_chunk_with_its_document() -> None:
    events = recorded()
    result = next(event["data"]["outputs"]["result"] for event in events if _retrieval(event))

    answer = read_events(events)

    assert answer.text == (
        "stub:230277b1 有給休暇は何日もらえますか\n\n---\nA 0.5 0.50 True | B [] [] []\n**take** 0.5"
    )
    assert answer.contexts.texts == [item["content"] for item in result]
    assert len(answer.contexts.chunks) > 1
    assert answer.contexts.chunks[0].title == "休暇規程.txt"
    assert result[0]["metadata"]["document_id"] in answer.contexts.chunks[0].documents
    assert answer.tokens == 37


def _retrieval(event: dict[str, Any]) -> bool:
    return event["event"] == "node_finished" and event["data"]["node_type"] == "knowledge-retrieval"


def test_the_scores_of_our_own_tools_in_a_recorded_reply_are_not_judged() -> None:
    assert read_events(scored_by_us()).text == "stub:230277b1 有給休暇は何日もらえますか"


def test_another_ones_tool_with_outputs_of_the_same_names_belongs_to_the_reply() -> None:
    assert "**take** 0.5" in read_events(recorded("rag_evaluator_fork")).text


def test_a_recorded_stream_that_breaks_off_is_no_answer() -> None:
    # Half of an answer would be judged as the whole.
    events = recorded()
    for kept in range(len(events) - 2):
        assert refused(*events[:kept]).reason is Reason.APP_UNAVAILABLE


# --- the kinds of apps ---


def test_a_chatbot() -> None:
    end = {"event": "message_end", "metadata": {"retriever_resources": [SOURCE], "usage": {"total_tokens": 40}}}

    answer = read_events([message("10日"), message("です。"), end])

    assert answer.text == "10日です。"
    assert [(chunk.text, chunk.title, chunk.documents) for chunk in answer.contexts.chunks] == [
        ("有給休暇は10日", "規程.md", ("規程.md", "d-1"))
    ]
    assert answer.tokens == 40


def test_a_chatflow_with_several_retrieval_nodes_has_the_chunks_of_all() -> None:
    events = [
        node("knowledge-retrieval", "k1", outputs={"result": [{"content": "有給休暇は10日", "title": "規程.md"}]}),
        node("knowledge-retrieval", "k2", outputs={"result": []}),
        node("knowledge-retrieval", "k3", outputs={"result": [{"content": "日当は2,000円"}, SOURCE]}),
        message("10日です"),
        END,
        finished(outputs={"answer": "10日です"}, total_tokens=12),
    ]

    answer = read_events(events)

    # One of them twice: it counts at its first rank.
    assert answer.contexts.texts == ["有給休暇は10日", "日当は2,000円"]
    assert answer.contexts.duplicates == 1
    assert answer.tokens == 12


def test_the_nodes_chunks_count_before_the_sources_that_the_reply_names() -> None:
    # A chatflow names as sources only what its LLM node has as context.
    end = {"event": "message_end", "metadata": {"retriever_resources": [SOURCE]}}
    retrieval = node("knowledge-retrieval", outputs={"result": [{"content": "日当は2,000円"}]})

    assert read_events([retrieval, message("はい"), end, finished()]).contexts.texts == ["日当は2,000円"]


def agent_events(*observations: str) -> Iterator[dict[str, Any]]:
    for number, observation in enumerate(observations):
        # Once when the thought begins, once when its tool has answered.
        yield {"event": "agent_thought", "id": f"t{number}", "observation": ""}
        yield {"event": "agent_thought", "id": f"t{number}", "observation": observation}
    yield message("10日", kind="agent_message")
    yield message("です", kind="agent_message")
    yield END


@pytest.mark.parametrize(
    ("observation", "texts"),
    [
        ('{"dataset_1": "有給休暇は10日"}', ["有給休暇は10日"]),
        ('{"dataset_1": "有給休暇は10日", "dataset_2": "日当は2,000円"}', ["有給休暇は10日", "日当は2,000円"]),
        ("有給休暇は10日", ["有給休暇は10日"]),
        ("", []),
        ("{}", []),
    ],
)
def test_an_agents_chunks_are_what_its_tools_observed(observation: str, texts: list[str]) -> None:
    answer = read_events(agent_events(observation))

    assert (answer.text, answer.contexts.texts) == ("10日です", texts)


def test_every_thought_of_an_agent_counts() -> None:
    answer = read_events(agent_events('{"dataset_1": "有給休暇は10日"}', '{"dataset_1": "日当は2,000円"}'))

    assert answer.contexts.texts == ["有給休暇は10日", "日当は2,000円"]


@pytest.mark.parametrize(
    ("outputs", "text"),
    [
        ({"answer": "10日です", "sources": "規程.md"}, "10日です"),
        ({"sources": "規程.md", "text": " 10日です\n"}, "10日です"),
        ({"結果": "10日です", "件数": 3}, "10日です"),
        ({"日数": 10, "単位": "日", "備考": "なし"}, '{"日数": 10, "単位": "日", "備考": "なし"}'),
        ({"answer": "", "結果": "10日です"}, "10日です"),
        ({"日数": 10}, '{"日数": 10}'),
    ],
)
def test_a_workflows_answer_is_its_output_whatever_its_name(outputs: dict[str, Any], text: str) -> None:
    chunk = {"event": "text_chunk", "data": {"text": "途中の文", "from_variable_selector": ["llm", "text"]}}

    answer = read_events([chunk, finished(outputs=outputs, total_tokens=5)])

    assert (answer.text, answer.tokens) == (text, 5)


# --- what is thought aloud ---


def test_a_chatflows_thoughts_are_not_its_answer() -> None:
    pieces = (REPORTS / "18_think_in_answer" / "think.txt").read_text(encoding="utf-8")

    answer = read_events([*(message(piece, "llm") for piece in pieces), END, finished()])

    assert answer.text == "有給休暇は10日です。"


@pytest.mark.parametrize("kind", ["message", "agent_message"])
def test_an_app_that_only_thinks_has_not_answered(kind: str) -> None:
    cut = (REPORTS / "18_think_in_answer" / "cut.txt").read_text(encoding="utf-8")

    assert refused(message(cut, kind=kind), END).reason is Reason.ONLY_THOUGHTS


@pytest.mark.parametrize(
    ("outputs", "text"),
    [
        ({"text": "<think>20日か</think>10日です"}, "10日です"),
        ({"結果": "10日です", "reasoning_content": "20日か"}, "10日です"),
        (
            {"結果": "<think>20日か</think>10日です", "備考": "<think>…</think>なし"},
            '{"結果": "10日です", "備考": "なし"}',
        ),
    ],
)
def test_a_workflows_thoughts_are_not_its_answer(outputs: dict[str, Any], text: str) -> None:
    assert read_events([finished(outputs=outputs)]).text == text
    assert refused(finished(outputs={"結果": "<think>20日か"})).reason is Reason.ONLY_THOUGHTS


# --- what goes wrong in an app ---


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([{"event": "error", "code": "invalid_param", "message": "[models] Error: 503"}], "[models] Error: 503"),
        ([message("10日"), {"event": "error", "message": "", "code": "server_error"}], "server_error"),
        ([finished("failed", error="LLM ノードのエラー")], "LLM ノードのエラー"),
        ([node("llm", status="failed", error="鍵がありません"), finished("failed", error=None)], "鍵がありません"),
        ([finished("stopped")], "stopped"),
        (
            [
                node("llm", status="failed", error="鍵がありません"),
                finished("failed", error="鍵がありません"),
                {"event": "error", "message": "Run failed: 鍵がありません"},
            ],
            "Run failed: 鍵がありません",
        ),
        ([message("少しお待ちください"), {"event": "workflow_paused", "data": {}}], "workflow_paused: Human Input"),
    ],
)  # fmt: skip
def test_an_app_that_fails_has_failed_with_what_it_says(events: list[dict[str, Any]], said: str) -> None:
    error = refused(*events)

    assert (error.reason, error.values["text"]) == (Reason.APP_FAILED, said)


def test_a_node_that_failed_and_was_handled_in_the_app_is_the_apps_affair() -> None:
    events = [
        node("http-request", status="failed", error="timeout"),
        message("10日です"),
        END,
        finished("partial-succeeded"),
    ]

    assert read_events(events).text == "10日です"


@pytest.mark.parametrize(
    "events",
    [
        [END],
        [message("  \n"), END],
        [message("", kind="agent_message"), END],
        [finished(outputs={"answer": ""})],
        [finished(outputs={"answer": None, "count": []})],
        [finished(outputs={})],
    ],
)
def test_an_empty_answer_is_told(events: list[dict[str, Any]]) -> None:
    assert refused(*events).reason is Reason.APP_EMPTY_ANSWER


@pytest.mark.parametrize(
    "event", ["ping", None, {}, {"event": "ping"}, {"event": "tts_message", "audio": "x"}, {"event": 3}]
)
def test_events_that_say_nothing_of_the_answer_are_passed_over(event: object) -> None:
    assert read_events([event, message("10日です"), event, END, event]).text == "10日です"


@pytest.mark.parametrize(
    "events",
    [
        [{"event": "message"}, {"event": "message", "answer": None}],
        [{"event": "node_finished", "data": {}}, {"event": "node_finished", "data": {"outputs": None}}],
        [{"event": "message_end"}, {"event": "message_end", "metadata": None}],
        [{"event": "workflow_finished", "data": {"outputs": None, "total_tokens": None, "status": "succeeded"}}],
        [{"event": "agent_thought", "observation": None}],
    ],
)
def test_events_with_holes_are_read_as_far_as_they_go(events: list[dict[str, Any]]) -> None:
    assert read_events([*events, message("10日です"), END]).text == "10日です"
