"""What is judged of an app's reply, and against which chunks: the streams of apps as the development host runs them."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from devhost.apps import AppCall, FlowApp, PlayedApp, agent, chatbot
from devhost.chatflow import Chatflow
from devhost.dify_side import ModelServer
from devhost.knowledge import KnowledgeBase
from evaluation.errors import EvaluationError
from evaluation.runs.app_events import AppAnswer, read_events
from tests.apps.support import (
    Document,
    bot_answer,
    changed,
    chatflow,
    data,
    documents,
    question,
    scored_chatflow,
    script,
    tag,
    workflow,
)
from tests.model_server import HttpError, ScriptedModelServer
from tests.workflows.stand_in import StandIn, text, variable
from tests.workflows.test_chatflow import METRICS, ROOT

REPLY = bot_answer(2)
# One Answer node below another shows what scored the first one's reply.
SHOWN = "\n\n---\n\n{{#faithfulness.text#}}\n{{#faithfulness.summary#}}"


@pytest.fixture
def knowledge(tmp_path: Path) -> KnowledgeBase:
    return documents(tmp_path, 3)


@pytest.fixture
def models(model_server: ScriptedModelServer) -> ModelServer:
    script(model_server)
    return ModelServer(model_server.url)


def scoring(tool: str) -> Any:
    """A tool of ours that scores."""
    return lambda _: [text(f"- {tool} 0.50"), variable("score_text", "0.50"), variable("summary", f"{tool}: 0.50")]


def read(document: Document, models: ModelServer, knowledge: KnowledgeBase, **inputs: Any) -> AppAnswer:
    plugin = StandIn(ROOT, {metric: scoring(metric) for metric in METRICS})
    app = FlowApp(Chatflow(document, plugin, models, [knowledge]))
    answer = read_events(app.events(AppCall("app", question(2), inputs, "user")))
    assert answer.contexts.chunks[0].text.startswith(tag(2))
    return answer


def linked(document: Document, *node_ids: str) -> Document:
    """The flow's nodes in a row, in this order; others are left out."""
    graph = document["workflow"]["graph"]
    graph["nodes"] = [node for node in graph["nodes"] if node["id"] in node_ids]
    template = graph["edges"][0]
    types = {node["id"]: node["data"]["type"] for node in graph["nodes"]}
    graph["edges"] = [
        {
            **template,
            "id": f"{source}-source-{target}-target",
            "source": source,
            "target": target,
            "data": {**template["data"], "sourceType": types[source], "targetType": types[target]},
        }
        for source, target in pairwise(node_ids)
    ]
    return document


def test_a_chatflows_reply_and_chunks(models: ModelServer, knowledge: KnowledgeBase) -> None:
    answer = read(chatflow(knowledge), models, knowledge)
    assert answer.text == REPLY
    assert answer.contexts.chunks[0].title == f"{tag(2)}.md"
    assert len(answer.contexts.chunks) == 2
    assert answer.tokens > 0


def test_scores_shown_below_the_reply_are_not_judged(models: ModelServer, knowledge: KnowledgeBase) -> None:
    assert read(scored_chatflow(knowledge), models, knowledge).text == REPLY


def test_scores_are_known_by_the_tool_although_they_are_shown_before_its_node_is_finished(
    models: ModelServer, knowledge: KnowledgeBase
) -> None:
    document = linked(scored_chatflow(knowledge), "start", "knowledge", "llm", "reply", "faithfulness", "scores")
    data(document, "scores")["answer"] = SHOWN
    assert read(document, models, knowledge).text == REPLY


def test_scores_in_the_same_answer_node_as_the_reply_are_cut_off(models: ModelServer, knowledge: KnowledgeBase) -> None:
    document = linked(scored_chatflow(knowledge), "start", "knowledge", "llm", "faithfulness", "scores")
    data(document, "scores")["answer"] = "回答:\n{{#llm.text#}}\n\n### スコア\n{{#faithfulness.text#}}\nご参考まで"
    assert read(document, models, knowledge).text == f"回答:\n{REPLY}"


def test_a_lookup_before_the_reply_hides_nothing_of_it(models: ModelServer, knowledge: KnowledgeBase) -> None:
    document = scored_chatflow(knowledge)
    linked(document, "start", "judge_settings", "lookup", "knowledge", "llm", "reply", "faithfulness", "scores")
    data(document, "scores")["answer"] = SHOWN
    assert read(document, models, knowledge).text == REPLY


def test_scores_shown_by_way_of_another_node_are_cut_off(models: ModelServer, knowledge: KnowledgeBase) -> None:
    document = scored_chatflow(knowledge)
    aggregator = {
        "type": "variable-aggregator",
        "title": "まとめ",
        "output_type": "string",
        "variables": [["faithfulness", "text"]],
    }
    data(document, "lookup").clear()
    data(document, "lookup").update(aggregator)
    linked(document, "start", "knowledge", "llm", "reply", "faithfulness", "lookup", "scores")
    data(document, "scores")["answer"] = "\n\n---\n\n{{#lookup.output#}}"
    assert read(document, models, knowledge).text == REPLY


def test_scores_above_the_reply_are_left_out(models: ModelServer, knowledge: KnowledgeBase) -> None:
    document = linked(scored_chatflow(knowledge), "start", "knowledge", "llm", "faithfulness", "scores")
    data(document, "scores")["answer"] = "{{#faithfulness.text#}}{{#llm.text#}}"
    assert read(document, models, knowledge).text == REPLY


def test_a_reply_that_is_the_answer_nodes_own_text_is_kept(models: ModelServer, knowledge: KnowledgeBase) -> None:
    document = linked(scored_chatflow(knowledge), "start", "knowledge", "llm", "reply", "faithfulness", "scores")
    data(document, "reply")["answer"] = "担当者におつなぎします。"
    data(document, "scores")["answer"] = SHOWN
    assert read(document, models, knowledge).text == "担当者におつなぎします。"


def test_a_workflows_answer_is_its_output_by_that_name(models: ModelServer, knowledge: KnowledgeBase) -> None:
    assert read(workflow(knowledge), models, knowledge, question=question(2)).text == REPLY


def test_a_workflows_only_text_is_its_answer_whatever_its_name(models: ModelServer, knowledge: KnowledgeBase) -> None:
    document = workflow(knowledge)
    data(document, "reply")["outputs"][1]["variable"] = "out_1"
    assert read(document, models, knowledge, question=question(2)).text == REPLY


def of(app: PlayedApp) -> AppAnswer:
    return read_events(app.events(AppCall("app", "質問", {}, "user")))


def test_a_workflow_that_gives_nothing_out_has_given_no_answer(models: ModelServer, knowledge: KnowledgeBase) -> None:
    document = workflow(knowledge)
    data(document, "reply")["outputs"] = [
        {"variable": "out", "value_selector": ["llm", "reasoning_content"], "value_type": "string"}
    ]
    with pytest.raises(EvaluationError) as raised:
        read(document, models, knowledge, question=question(2))
    assert raised.value.reason == "app_empty_answer"


def test_a_chatbots_chunks_are_its_sources() -> None:
    sources = [{"position": 1, "document_name": "規程.md", "content": "3日前まで"}]
    answer = of(chatbot(["3日", "前です。"], sources))
    assert (answer.text, [chunk.text for chunk in answer.contexts.chunks]) == ("3日前です。", ["3日前まで"])
    assert answer.contexts.chunks[0].documents == ("規程.md",)


def test_a_chatbot_that_hides_its_sources_has_no_chunks() -> None:
    answer = of(chatbot(["3日前です。"]))
    assert (answer.text, answer.contexts.chunks) == ("3日前です。", ())


def test_an_agents_chunks_are_its_sources_else_what_its_tool_observed() -> None:
    hidden = of(agent(["3日", "前です。"], "dataset_1", "申請は3日前まで"))
    assert (hidden.text, [chunk.text for chunk in hidden.contexts.chunks]) == ("3日前です。", ["申請は3日前まで"])
    shown = of(agent(["3日前です。"], "dataset_1", "申請は3日前まで", [{"content": "3日前まで"}]))
    assert [chunk.text for chunk in shown.contexts.chunks] == ["3日前まで"]


@pytest.mark.parametrize("mode", ["chatflow", "workflow"])
def test_an_app_whose_model_fails_has_failed_with_what_it_says(
    mode: str, model_server: ScriptedModelServer, knowledge: KnowledgeBase
) -> None:
    model_server.on_chat(HttpError(401, "bad key"))
    document = (chatflow if mode == "chatflow" else workflow)(knowledge)
    with pytest.raises(EvaluationError) as raised:
        read(document, ModelServer(model_server.url), knowledge, question=question(2))
    assert raised.value.reason == "app_failed"
    assert "401" in str(raised.value.values["text"])


def test_a_chatbot_whose_model_fails_has_failed() -> None:
    app = PlayedApp("chat", lambda _, envelope: iter([envelope.error("Quota exceeded", "provider_quota_exceeded")]))
    with pytest.raises(EvaluationError) as raised:
        of(app)
    assert (raised.value.reason, raised.value.values["text"]) == ("app_failed", "Quota exceeded")


def test_an_app_that_says_nothing_has_given_no_answer(models: ModelServer, knowledge: KnowledgeBase) -> None:
    document = changed(chatflow(knowledge), "reply", answer="{{#llm.reasoning_content#}}")
    with pytest.raises(EvaluationError) as raised:
        read(document, models, knowledge)
    assert raised.value.reason == "app_empty_answer"


def test_a_reply_that_was_replaced_is_judged_as_it_was_replaced() -> None:
    def play(_: AppCall, envelope: Any) -> Any:
        yield envelope.message("message", "不適切な")
        yield envelope.event("message_replace", answer="お答えできません。", reason="output_moderation")
        yield envelope.message_end([], {})

    assert of(PlayedApp("chat", play)).text == "お答えできません。"
