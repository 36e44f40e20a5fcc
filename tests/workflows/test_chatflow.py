"""Chatflows through graphon with tools of a stand-in: streaming, values on their way, failures."""

import json
import threading
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from graphon.nodes.tool.exc import ToolNodeError

from devhost.chatflow import Chatflow, NodeProgress, choose, load_dsl
from devhost.daemon import ToolFailed
from devhost.dify_side import ModelServer
from devhost.flow_nodes import as_dify_passes
from devhost.knowledge import KnowledgeBase
from tests.model_server import HttpError, ScriptedModelServer
from tests.workflows.stand_in import StandIn, declare, text, variable

ROOT = Path(__file__).parents[2]
DATA = Path(__file__).parent / "data"
TEMPLATE = ROOT / "workflows" / "rag_chat_scored.yml"
METRICS = ("answer_relevancy", "faithfulness", "context_recall", "context_precision")
RECORDED = json.loads((DATA / "recorded_call.json").read_text(encoding="utf-8"))
PROBE_TYPES = {
    "question": "string",
    "answer": "string",
    "contexts": "array",
    "golden": "string",
    "model": "model-selector",
    "embedding_model": "model-selector",
    "language": "select",
    "economy": "boolean",
    "threshold": "number",
}


def template(model: str = "bot") -> dict[str, Any]:
    return choose(TEMPLATE, chat_model=model, judge_model="judge")


def test_the_stream_is_the_final_answer_in_every_finishing_order(model_server: ScriptedModelServer) -> None:
    model_server.on_chat("10日付与されます。")
    plugin = StandIn(ROOT)
    flow = Chatflow(template(), plugin, ModelServer(model_server.url))
    expected = "10日付与されます。\n\n---\n\n" + "\n".join(f"- {metric}" for metric in METRICS)
    for order in permutations(METRICS):
        plugin.finish_in(order)
        reply = flow.run("有給休暇は?")
        assert (reply.error, reply.streamed, reply.final) == (None, expected, expected), order
        assert plugin.finished == list(order)
        assert reply.order[-1] == "scores"


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param(["- **忠実性 0.50** ", "▰▰▰▱▱\n", "  > 「20日」"], id="several pieces"),
        pytest.param([], id="no text at all"),
        pytest.param([""], id="an empty text"),
        pytest.param(["  \n\n", "| a | b |\n|---|---:|\n| {{#sys.query#}} | $x$ |\n"], id="spaces, table, a reference"),
    ],
)
def test_the_stream_is_the_final_answer_whatever_the_text(pieces: list[str], model_server: ScriptedModelServer) -> None:
    plugin = StandIn(ROOT, {"faithfulness": lambda _: [text(piece) for piece in pieces]})
    plugin.finish_in(METRICS[::-1])
    reply = Chatflow(template(), plugin, ModelServer(model_server.url)).run("質問")
    assert reply.streamed == reply.final
    assert reply.node_outputs["faithfulness"]["text"] == "".join(pieces)
    assert f"- answer_relevancy\n{''.join(pieces)}\n- context_recall" in reply.final


def test_a_reference_in_the_question_or_the_reply_stays_text(model_server: ScriptedModelServer) -> None:
    model_server.on_chat("{{#sys.user_id#}} と {{#lookup.reference#}}")
    plugin = StandIn(ROOT)
    reply = Chatflow(template(), plugin, ModelServer(model_server.url)).run("{{#llm.text#}}?")
    assert reply.streamed == reply.final
    assert reply.final.startswith("{{#sys.user_id#}} と {{#lookup.reference#}}\n")
    assert plugin.parameters_of("faithfulness")["question"] == "{{#llm.text#}}?"


def test_the_reply_is_streamed_while_the_judge_is_still_at_work(model_server: ScriptedModelServer) -> None:
    model_server.on_chat("一つ目の文です。二つ目の文です。")
    seen: list[str] = []
    whole_reply = threading.Event()
    streamed_in_time: list[bool] = []

    def see(piece: str) -> None:
        seen.append(piece)
        if "".join(seen).startswith("一つ目の文です。二つ目の文です。"):
            whole_reply.set()

    def judge_settings(_: object) -> list[Any]:
        # A reply that came only after the judge would never come while the judge waits for it.
        streamed_in_time.append(whole_reply.wait(20))
        return [text("")]

    plugin = StandIn(ROOT, {"judge_settings": judge_settings})
    reply = Chatflow(template(), plugin, ModelServer(model_server.url)).run("質問", on_text=see)
    assert streamed_in_time == [True]
    assert "".join(seen) == reply.streamed
    assert len(seen) > 5


def test_the_four_metrics_are_under_way_at_the_same_time(model_server: ScriptedModelServer) -> None:
    # Each waits for the one after it to end: with fewer than four at once the first would wait in vain.
    plugin = StandIn(ROOT)
    plugin.finish_in(METRICS[::-1])
    reply = Chatflow(template(), plugin, ModelServer(model_server.url)).run("質問")
    assert reply.error is None
    assert [tool for tool, *_ in plugin.calls[:2]] == ["judge_settings", "reference_lookup"]


def test_another_output_of_a_tool_is_lost_in_the_stream(model_server: ScriptedModelServer) -> None:
    """Why the templates show `text` only: graphon may close a variable's stream before it has sent the value."""
    others_are_done = threading.Event()
    done: list[str] = []

    def on_node(progress: NodeProgress) -> None:
        if progress.state == "succeeded" and progress.node_id in METRICS:
            done.append(progress.node_id)
            if len(done) == len(METRICS) - 1:
                others_are_done.set()

    def faithfulness(_: object) -> list[Any]:
        assert others_are_done.wait(10)
        return [variable("score_text", "0.50"), text("- 忠実性 0.50")]

    document = template()
    nodes = {node["id"]: node["data"] for node in document["workflow"]["graph"]["nodes"]}
    nodes["scores"]["answer"] = "[{{#faithfulness.score_text#}}]"
    plugin = StandIn(ROOT, {"faithfulness": faithfulness})
    reply = Chatflow(document, plugin, ModelServer(model_server.url)).run("質問", on_node=on_node)
    assert reply.final.endswith("[0.50]")
    assert reply.streamed.endswith("[]")


def test_progress_tells_titles_in_the_order_of_the_flow(model_server: ScriptedModelServer) -> None:
    seen: list[NodeProgress] = []
    reply = Chatflow(template(), StandIn(ROOT), ModelServer(model_server.url)).run("質問", on_node=seen.append)
    titles = [progress.title for progress in seen if progress.state == "started"]
    assert titles[:6] == ["ユーザー入力", "知識検索", "回答作成", "回答", "判定モデルの設定", "参照の検索"]
    assert {progress.node_id for progress in seen if progress.state == "succeeded"} == set(reply.order)
    assert set(reply.seconds) == set(reply.order)


def test_a_tool_that_raises_fails_the_run_and_leaves_what_was_streamed(model_server: ScriptedModelServer) -> None:
    model_server.on_chat("10日です。")

    def broken(_: object) -> list[Any]:
        raise ToolFailed("ValueError", "no such thing", {"traceback": "…"})

    seen: list[NodeProgress] = []
    plugin = StandIn(ROOT, {"faithfulness": broken})
    reply = Chatflow(template(), plugin, ModelServer(model_server.url)).run("質問", on_node=seen.append)
    assert reply.error is not None
    assert "error type: ValueError, error details: no such thing" in reply.error
    assert reply.streamed.startswith("10日です。")
    assert "scores" not in reply.order
    assert [progress.node_id for progress in seen if progress.state == "failed"] == ["faithfulness"]


def test_a_chat_model_that_fails_fails_the_run(model_server: ScriptedModelServer) -> None:
    model_server.on_chat(HttpError(429, "slow down"))
    plugin = StandIn(ROOT)
    reply = Chatflow(template(), plugin, ModelServer(model_server.url)).run("質問")
    assert reply.error is not None
    assert "429" in reply.error
    assert (reply.streamed, reply.final, plugin.calls) == ("", "", [])


def test_a_template_as_imported_says_that_the_chat_model_is_missing(model_server: ScriptedModelServer) -> None:
    with pytest.raises(ValueError, match="no model is chosen in the LLM node llm"):
        Chatflow(TEMPLATE, StandIn(ROOT), ModelServer(model_server.url)).run("質問")


def test_the_chat_model_gets_the_chunks_the_question_and_its_parameters(
    model_server: ScriptedModelServer, tmp_path: Path
) -> None:
    (tmp_path / "休暇.md").write_text("有給休暇は10日です。", encoding="utf-8")
    knowledge = [KnowledgeBase(tmp_path)]
    document = choose(TEMPLATE, knowledge=knowledge, chat_model="bot")
    Chatflow(document, StandIn(ROOT), ModelServer(model_server.url), knowledge).run("有給休暇は?")
    [request] = model_server.requests
    assert (request.body["model"], request.body["temperature"]) == ("bot", 0)
    assert request.system.endswith("資料:\n有給休暇は10日です。")
    assert request.user == "有給休暇は?"


def test_a_tool_gets_what_dify_gave_it_in_the_recorded_call(model_server: ScriptedModelServer, tmp_path: Path) -> None:
    """The exported chatflow of the recording, with the recorded chunks as the knowledge."""
    recorded = RECORDED["tool_parameters"]
    documents = tmp_path / "knowledge"
    documents.mkdir()
    chunks = "\n\n".join(item["content"] for item in recorded["contexts"])
    (documents / "休暇規程.txt").write_text(chunks, encoding="utf-8")
    knowledge = [KnowledgeBase(documents)]
    model_server.on_chat(recorded["answer"])
    plugin = StandIn(declare(tmp_path, "take", PROBE_TYPES))
    document = choose(DATA / "scored_chat_probe.yml", knowledge=knowledge)
    reply = Chatflow(document, plugin, ModelServer(model_server.url), knowledge, app_id="app").run(recorded["question"])
    assert reply.error is None
    [sent] = [parameters for _, parameters, _ in plugin.calls if "golden" in parameters]
    assert {name: value for name, value in sent.items() if name != "contexts"} == {
        name: value for name, value in recorded.items() if name != "contexts"
    }
    assert {item["content"] for item in sent["contexts"]} == {item["content"] for item in recorded["contexts"]}
    for ours, theirs in zip(sent["contexts"], recorded["contexts"], strict=True):
        assert set(ours) == set(theirs)
        assert set(ours["metadata"]) == set(theirs["metadata"])
        assert ours["metadata"]["position"] == theirs["metadata"]["position"]
    # The second node puts the result in as text: a list with one string, Python's own writing of the whole list.
    [as_text] = [parameters for _, parameters, _ in plugin.calls if "golden" not in parameters]
    assert len(as_text["contexts"]) == 1
    assert as_text["contexts"][0].startswith("[{'metadata': {'_source': 'knowledge'")
    arguments = plugin.calls[0][2]
    assert (arguments["provider"], arguments["app_id"]) == ("probe", "app")


def test_what_is_not_set_or_not_connected_arrives_as_in_dify(model_server: ScriptedModelServer, tmp_path: Path) -> None:
    document = load_dsl(DATA / "scored_chat_probe.yml")
    for node in document["workflow"]["graph"]["nodes"]:
        if node["id"] == "t1":
            node["data"]["tool_parameters"] = {
                "question": {"type": "mixed", "value": "{{#gone.result#}}"},
                "contexts": {"type": "variable", "value": ["gone", "result"]},
            }
            node["data"]["tool_configurations"] = {"threshold": {"type": "constant", "value": ""}}
    plugin = StandIn(declare(tmp_path, "take", PROBE_TYPES))
    Chatflow(document, plugin, ModelServer(model_server.url)).run("質問")
    assert {"question": "gone.result", "threshold": None} in [parameters for _, parameters, _ in plugin.calls]


def test_a_number_that_is_none_fails_the_node_before_the_tool(
    model_server: ScriptedModelServer, tmp_path: Path
) -> None:
    document = load_dsl(DATA / "scored_chat_probe.yml")
    for node in document["workflow"]["graph"]["nodes"]:
        if node["id"] == "t1":
            node["data"]["tool_configurations"]["threshold"]["value"] = "abc"
    plugin = StandIn(declare(tmp_path, "take", PROBE_TYPES))
    reply = Chatflow(document, plugin, ModelServer(model_server.url)).run("質問")
    assert reply.error is not None
    assert "'abc'" in reply.error
    assert [parameters for _, parameters, _ in plugin.calls if "golden" in parameters] == []


@pytest.mark.parametrize(
    ("kind", "value", "passed"),
    [
        ("number", "0.7", 0.7),
        ("number", "3", 3),
        ("number", 0, 0),
        ("number", "", None),
        ("number", None, None),
        ("boolean", "yes", True),
        ("boolean", "No", False),
        ("boolean", "1", True),
        ("boolean", "0", False),
        ("boolean", "perhaps", True),
        ("boolean", "", False),
        ("boolean", None, False),
        ("array", [1], [1]),
        ("array", None, [None]),
        ("array", "", [""]),
        ("array", '["a"]', ["a"]),
        ("array", '{"a": 1}', ['{"a": 1}']),
        ("array", "[{'a': None}]", ["[{'a': None}]"]),
        ("object", '{"a": 1}', {"a": 1}),
        ("object", "a", {}),
        ("files", None, [None]),
        ("model-selector", {}, {}),
        ("any", None, None),
        ("string", None, ""),
        ("string", ["a"], "['a']"),
        ("select", 1, "1"),
    ],
)
def test_values_are_cast_as_dify_casts_them(kind: str, value: object, passed: object) -> None:
    result = as_dify_passes(kind, value)
    assert result == passed
    assert type(result) is type(passed)


def test_a_selector_that_is_no_mapping_fails() -> None:
    with pytest.raises(ToolNodeError, match="must be a dictionary"):
        as_dify_passes("model-selector", "gpt")


def test_choosing_leaves_the_document_and_other_models_alone() -> None:
    document = load_dsl(TEMPLATE)
    before = json.dumps(document)
    first = choose(document, chat_model="a", judge_model="b", embedding_model="c", judge_parameters={"top_p": 1})
    again = choose(first, chat_model="other")
    assert json.dumps(document) == before
    nodes = {node["id"]: node["data"] for node in again["workflow"]["graph"]["nodes"]}
    assert nodes["llm"]["model"]["name"] == "a"
    settings = nodes["judge_settings"]["tool_configurations"]
    assert settings["model"]["value"]["completion_params"] == {"top_p": 1}
    assert settings["embedding_model"]["value"]["model_type"] == "text-embedding"
