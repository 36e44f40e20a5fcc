"""What an app's stream holds when the development host runs it, against a stream recorded from Dify."""

import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from devhost.app_stream import Event
from devhost.apps import AppCall, Apps, FlowApp, PlayedApp
from devhost.chatflow import Chatflow, choose
from devhost.dify_side import ModelServer, ReverseCall, ReverseCallError
from devhost.knowledge import KnowledgeBase
from tests.apps.support import bot_answer, changed, chatflow, data, documents, question, script, workflow
from tests.model_server import HttpError, ScriptedModelServer
from tests.workflows.stand_in import StandIn, declare, text, variable
from tests.workflows.test_chatflow import DATA, PROBE_TYPES, RECORDED, ROOT

WIRE = Path(__file__).parents[1] / "data" / "wire"
# What the tools of the recording gave; ours are stand-ins.
OF_THE_TOOLS = {("node_finished", "t1"), ("node_finished", "t2")}


def recorded_events() -> list[Event]:
    lines = [json.loads(row)["line"] for row in (WIRE / "tool_runs_app.jsonl").read_text().splitlines()]
    replies = [line["data"] for line in lines if line["event"] == "backwards_response"]
    return [reply["data"] for reply in replies if reply["event"] == "response"]


def recorded_refusal() -> str:
    lines = [json.loads(row)["line"] for row in (WIRE / "tool_runs_app_error.jsonl").read_text().splitlines()]
    [message] = [line["data"]["message"] for line in lines if line["data"].get("event") == "error"]
    return str(message)


def key(event: Event) -> tuple[str, str]:
    """An event's kind, and the node or the output that it is about."""
    about = event.get("data") or {}
    return event["event"], about.get("node_id") or ".".join(event.get("from_variable_selector") or [])


def shape(value: Any) -> Any:
    """Field names and types; of a list the first item's."""
    if isinstance(value, dict):
        return {name: shape(item) for name, item in sorted(value.items())}
    if isinstance(value, list):
        return [shape(item) for item in value[:1]]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return "number" if number else type(value).__name__


def call(query: str = "", **inputs: Any) -> AppCall:
    return AppCall("app", query, inputs, "user")


def collected(app: FlowApp | PlayedApp, query: str = "", **inputs: Any) -> list[Event]:
    return list(app.events(call(query, **inputs)))


@pytest.fixture
def recorded_app(model_server: ScriptedModelServer, tmp_path: Path) -> FlowApp:
    """The chatflow of the recording, with the same chunks and the same reply."""
    folder = tmp_path / "knowledge"
    folder.mkdir()
    chunks = [item["content"] for item in RECORDED["tool_parameters"]["contexts"]]
    (folder / "休暇規程.txt").write_text("\n\n".join(chunks), encoding="utf-8")
    knowledge = [KnowledgeBase(folder)]
    model_server.on_chat(RECORDED["tool_parameters"]["answer"])
    values = {"score": 0.5, "score_text": "0.50", "passed": True, "details": {}}
    messages = [*(variable(name, value) for name, value in values.items()), text("**take** 0.5")]
    plugin = StandIn(declare(tmp_path, "take", PROBE_TYPES), {"take": lambda _: messages})
    document = choose(DATA / "scored_chat_probe.yml", knowledge=knowledge)
    return FlowApp(Chatflow(document, plugin, ModelServer(model_server.url), knowledge, app_id="app"))


def test_a_chatflows_events_have_the_fields_and_types_of_the_recorded_ones(recorded_app: FlowApp) -> None:
    ours = {key(event): event for event in collected(recorded_app, RECORDED["tool_parameters"]["question"])}
    recorded = {key(event): event for event in recorded_events()}
    assert set(ours) == set(recorded)
    for name, theirs in recorded.items():
        for event in (ours[name], theirs):
            if name in OF_THE_TOOLS:
                event["data"] = {**event["data"], "inputs": {}, "outputs": {}}
            if name == ("node_finished", "llm"):
                # graphon keeps the prompts of a call as texts, Dify as objects.
                del event["data"]["process_data"]["prompts"]
        assert shape(ours[name]) == shape(theirs), name


def test_a_chatflows_events_come_in_the_recorded_order(recorded_app: FlowApp) -> None:
    ours = collected(recorded_app, RECORDED["tool_parameters"]["question"])
    kinds = [kind for kind, _ in groupby(event["event"] for event in without_tools(ours))]
    assert kinds == [kind for kind, _ in groupby(event["event"] for event in without_tools(recorded_events()))]
    assert [key(event) for event in ours[-3:]] == [
        ("node_finished", "answer2"),
        ("message_end", ""),
        ("workflow_finished", ""),
    ]


def without_tools(events: list[Event]) -> Iterator[Event]:
    """The two tools ran at the same time: their events come in any order."""
    shown = ("t1", "t2")
    return (event for event in events if not key(event)[1].startswith(shown) and key(event)[1] != "answer2.answer")


def test_the_retrieved_chunks_stand_whole_in_the_nodes_outputs_and_in_the_sources(recorded_app: FlowApp) -> None:
    events = {key(event): event for event in collected(recorded_app, RECORDED["tool_parameters"]["question"])}
    expected = [item["content"] for item in RECORDED["tool_parameters"]["contexts"]]
    result = events["node_finished", "kr"]["data"]["outputs"]["result"]
    sources = events["message_end", ""]["metadata"]["retriever_resources"]
    assert sorted(item["content"] for item in result) == sorted(expected)
    assert [item["content"] for item in sources] == [item["content"] for item in result]
    assert [item["position"] for item in sources] == [1, 2, 3, 4]


def test_a_workflow_streams_its_outputs_and_ends_with_them(model_server: ScriptedModelServer, tmp_path: Path) -> None:
    script(model_server)
    knowledge = documents(tmp_path, 3)
    flow = Chatflow(workflow(knowledge), StandIn(ROOT), ModelServer(model_server.url), [knowledge])
    events = collected(FlowApp(flow), question=question(2), unknown="dropped")
    assert events[0]["data"]["inputs"].get("question") == question(2)
    assert "unknown" not in events[0]["data"]["inputs"]
    assert {event["event"] for event in events} == {
        "workflow_started",
        "node_started",
        "node_finished",
        "text_chunk",
        "workflow_finished",
    }
    assert events[-1]["event"] == "workflow_finished"
    assert events[-1]["data"]["status"] == "succeeded"
    assert events[-1]["data"]["outputs"]["answer"] == bot_answer(2)
    assert "message_id" not in events[-1]


def test_a_chatflow_whose_model_fails_ends_with_the_failed_run_and_an_error(
    model_server: ScriptedModelServer, tmp_path: Path
) -> None:
    model_server.on_chat(HttpError(401, "bad key"))
    knowledge = documents(tmp_path, 1)
    flow = Chatflow(chatflow(knowledge), StandIn(ROOT), ModelServer(model_server.url), [knowledge])
    *before, failed, finished, error = collected(FlowApp(flow), question(1))
    assert (failed["event"], failed["data"]["node_id"], failed["data"]["status"]) == ("node_finished", "llm", "failed")
    assert (finished["event"], finished["data"]["status"]) == ("workflow_finished", "failed")
    assert error["event"] == "error"
    assert "401" in error["message"]
    assert "message_end" not in [event["event"] for event in before]


def test_a_workflow_whose_model_fails_ends_with_the_failed_run_alone(
    model_server: ScriptedModelServer, tmp_path: Path
) -> None:
    model_server.on_chat(HttpError(401, "bad key"))
    knowledge = documents(tmp_path, 1)
    flow = Chatflow(workflow(knowledge), StandIn(ROOT), ModelServer(model_server.url), [knowledge])
    last = collected(FlowApp(flow), question=question(1))[-1]
    assert (last["event"], last["data"]["status"]) == ("workflow_finished", "failed")
    assert "401" in last["data"]["error"]


def test_every_call_is_a_conversation_of_its_own(recorded_app: FlowApp) -> None:
    ids = [{event["conversation_id"] for event in collected(recorded_app, "質問")} for _ in range(2)]
    assert [len(found) for found in ids] == [1, 1]
    assert ids[0] != ids[1]


def ask(apps: Apps, app_id: str = "app", query: str = "質問", mode: str = "streaming", **inputs: Any) -> list[Any]:
    request = {"app_id": app_id, "query": query, "inputs": inputs, "response_mode": mode}
    return list(apps.answer(ReverseCall("app", request, session={"user_id": "u"})))


def test_an_unknown_app_is_refused_in_the_recorded_words() -> None:
    with pytest.raises(ReverseCallError) as raised:
        ask(Apps(), "x")
    assert str(raised.value) == recorded_refusal()


def test_an_app_that_is_not_published_or_gets_no_question_is_refused() -> None:
    apps = Apps()
    apps.draft("draft")
    apps.publish("chat", PlayedApp("chat", lambda *_: iter(())))
    for app_id, query, message in (("draft", "質問", "unexpected app type"), ("chat", "", "missing query")):
        with pytest.raises(ReverseCallError, match=message):
            ask(apps, app_id, query)
    assert apps.calls == []


@pytest.mark.parametrize(
    ("variable", "given", "message"),
    [
        ({"required": True}, {}, "dept is required in input form"),
        ({"max_length": 3}, {"dept": "総務人事"}, "dept in input form must be less than 3 characters"),
        ({"type": "select", "options": ["総務"]}, {"dept": "人事"}, "dept in input form must be one of the following"),
        ({"type": "number"}, {"dept": "人事"}, "dept in input form must be a valid number"),
        ({}, {"dept": 5}, "dept in input form must be a string"),
    ],
)
def test_an_input_that_is_missing_or_does_not_fit_is_refused_before_the_app_runs(
    variable: dict[str, Any], given: dict[str, Any], message: str, model_server: ScriptedModelServer, tmp_path: Path
) -> None:
    knowledge = documents(tmp_path, 1)
    declared = {"label": "部署", "type": "text-input", "variable": "dept", "required": False, **variable}
    document = changed(chatflow(knowledge), "start", variables=[declared])
    apps = Apps()
    apps.publish("app", FlowApp(Chatflow(document, StandIn(ROOT), ModelServer(model_server.url), [knowledge])))
    with pytest.raises(ReverseCallError, match=f"status code: 400.*{message}"):
        ask(apps, **given)
    assert model_server.requests == []


def test_an_input_reaches_the_prompt(model_server: ScriptedModelServer, tmp_path: Path) -> None:
    knowledge = documents(tmp_path, 1)
    declared = {"label": "部署", "type": "text-input", "variable": "dept", "required": True}
    document = changed(chatflow(knowledge), "start", variables=[declared])
    data(document, "llm")["prompt_template"][1]["text"] = "{{#start.dept#}}: {{#sys.query#}}"
    flow = Chatflow(document, StandIn(ROOT), ModelServer(model_server.url), [knowledge])
    collected(FlowApp(flow), "質問", dept="総務部")
    assert model_server.requests[0].user == "総務部: 質問"


@pytest.mark.parametrize(("status", "word"), [(500, "Internal Server Error"), (429, "Too many requests")])
def test_calls_beyond_the_places_are_refused_and_later_ones_are_answered(status: int, word: str) -> None:
    apps = Apps(most_at_once=1, refusal=status)

    def play(*_: object) -> Iterator[Event]:
        with pytest.raises(ReverseCallError, match=f"status code: {status}.*{word}"):
            ask(apps)
        yield {"event": "message", "answer": "はい"}

    apps.publish("app", PlayedApp("chat", play))
    assert [event["answer"] for _, event in ask(apps) + ask(apps)] == ["はい", "はい"]
    assert (apps.most_in_flight, apps.asked("質問")) == (1, 2)
