"""The template with a node for each score, through graphon with the real plugin process and a scripted model server."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import pytest

from devhost.chatflow import ChatReply
from tests.model_server import Cut, Html, HttpError, NoReply, Reply, Request, Script, ScriptedModelServer
from tests.workflows.scripted import ANSWER, WITH_REFERENCE, WITHOUT_REFERENCE, Ask

METRICS = ("answer_relevancy", "faithfulness", "context_recall", "context_precision")
PROMPTS = ("relevancy.questions", "faithfulness.statements", "faithfulness.verdicts", "recall.parts", "precision.chunk")


@pytest.fixture
def ask(ask: Ask) -> Ask:
    return partial(ask, template="rag_chat_scored.yml")


def of(reply: ChatReply, name: str) -> dict[str, Any]:
    """One output of each metric, by metric."""
    return {metric: reply.node_outputs[metric][name] for metric in METRICS}


def test_a_question_with_a_reference_gets_four_scores(ask: Ask) -> None:
    reply = ask(WITH_REFERENCE)
    assert reply.node_outputs["lookup"]["found"] is True
    assert set(of(reply, "status").values()) == {"scored"}
    # Three generated questions equal to the real one; 1 of 2 statements; 1 of 2 parts; of the chunks, 1 and 3
    # are relevant: (1/1 + 2/3) / 2 = 5/6.
    scores = of(reply, "score")
    assert scores["answer_relevancy"] == pytest.approx(1.0, abs=1e-9)
    assert (scores["faithfulness"], scores["context_recall"]) == (0.5, 0.5)
    assert scores["context_precision"] == pytest.approx(5 / 6, abs=1e-12)


def test_the_reply_shows_the_four_texts_in_order_and_nothing_else(ask: Ask) -> None:
    reply = ask(WITH_REFERENCE)
    shown = "\n".join(of(reply, "text").values())
    assert reply.final == f"{ANSWER}\n\n---\n\n{shown}"
    for label in ("回答関連性", "忠実性", "必要コンテキストの網羅性", "コンテキスト精度"):
        assert shown.count(label) >= 1
    assert "毎年20日もらえます" in reply.node_outputs["faithfulness"]["text"]


def test_a_question_without_a_reference_gets_two_scores_and_a_sentence_for_the_others(
    ask: Ask, judge: ScriptedModelServer
) -> None:
    reply = ask(WITHOUT_REFERENCE)
    assert reply.node_outputs["lookup"]["reference"] == ""
    assert of(reply, "status") == {
        "answer_relevancy": "scored",
        "faithfulness": "scored",
        "context_recall": "not_applicable",
        "context_precision": "not_applicable",
    }
    for metric in ("context_recall", "context_precision"):
        outputs = reply.node_outputs[metric]
        assert (outputs["score"], outputs["reason"]) == (None, "no_reference")
        assert "参照" in outputs["text"]
    assert judge.calls("recall.parts") + judge.calls("precision.chunk") == []


def test_without_a_knowledge_the_reply_is_shown_and_the_scores_say_why(ask: Ask) -> None:
    reply = ask(WITH_REFERENCE, bases=[])
    assert reply.node_outputs["knowledge"]["result"] == []
    for metric in ("faithfulness", "context_recall", "context_precision"):
        outputs = reply.node_outputs[metric]
        assert (outputs["score"], outputs["reason"]) == (0.0, "no_contexts"), metric


def test_the_models_of_judge_settings_judge_in_every_node(ask: Ask, judge: ScriptedModelServer) -> None:
    ask(WITH_REFERENCE)
    assert {request.body["model"] for request in judge.judge_calls} == {"judge"}
    assert {request.body["model"] for request in judge.embedding_calls} == {"embedding"}
    assert {request.prompt for request in judge.judge_calls} == set(PROMPTS)


@pytest.mark.parametrize(
    ("template", "word"), [("rag_chat_scored.yml", "判定モデル"), ("rag_chat_scored_en.yml", "judge model")]
)
def test_judge_settings_speak_the_templates_language(template: str, word: str, ask: Ask) -> None:
    settings = ask(WITH_REFERENCE, template=template).node_outputs["judge_settings"]
    assert settings["saved"] is True
    assert word in settings["summary"]


def test_without_an_embedding_model_the_judge_grades_the_questions(ask: Ask, judge: ScriptedModelServer) -> None:
    reply = ask(WITH_REFERENCE, embedding_model=None)
    assert of(reply, "status")["answer_relevancy"] == "scored"
    assert len(judge.calls("relevancy.grades")) == 1
    assert judge.embedding_calls == []


def test_without_a_judge_model_every_score_says_where_to_choose_one(ask: Ask, judge: ScriptedModelServer) -> None:
    reply = ask(WITH_REFERENCE, judge_model=None, embedding_model=None)
    assert set(of(reply, "status").values()) == {"failed"}
    assert set(of(reply, "reason").values()) == {"model_not_selected"}
    assert all("判定モデルの設定" in text for text in of(reply, "text").values())
    assert judge.judge_calls == []


def test_the_english_template_gives_english_scores(ask: Ask) -> None:
    reply = ask("By when do I claim travel expenses?", template="rag_chat_scored_en.yml")
    assert reply.node_outputs["lookup"]["found"] is True
    for label in ("Answer relevancy", "Faithfulness", "Context recall", "Context precision"):
        assert label in reply.final


@pytest.mark.parametrize("first", METRICS)
def test_the_stream_is_whole_whichever_metric_is_done_first(first: str, ask: Ask, judge: ScriptedModelServer) -> None:
    """Each metric's last judge call is slower by its distance from the one that shall be first."""
    last_prompts = ("relevancy.questions", "faithfulness.verdicts", "recall.parts", "precision.chunk")
    for place, prompt in enumerate(last_prompts):
        judge.on(prompt, late(judge, prompt, 0.5 * ((place - METRICS.index(first)) % len(METRICS))))
    reply = ask(WITH_REFERENCE)
    rotated = METRICS[METRICS.index(first) :] + METRICS[: METRICS.index(first)]
    assert tuple(node for node in reply.order if node in METRICS) == rotated
    assert set(of(reply, "status").values()) == {"scored"}


def late(judge: ScriptedModelServer, prompt: str, seconds: float) -> Callable[[Request], Reply]:
    """The prompt's present reply, after a while."""
    script = judge._scripts[prompt]

    def answer(request: Request) -> Reply:
        time.sleep(seconds)
        return script(request) if callable(script) else cast(Reply, script)

    return answer


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        pytest.param(HttpError(401, '{"error": {"message": "bad key"}}'), "model_unauthorized", id="wrong key"),
        pytest.param("すみません、よく分かりません。", "judge_unparseable", id="babble"),
        pytest.param("", "judge_unparseable", id="nothing"),
        pytest.param({"type": "object", "properties": {"verdict": {}}}, "judge_unparseable", id="the schema itself"),
    ],
)
def test_the_reply_is_shown_when_the_judge_fails(
    trouble: Script, reason: str, ask: Ask, judge: ScriptedModelServer
) -> None:
    for prompt in PROMPTS:
        judge.on(prompt, trouble)
    reply = ask(WITH_REFERENCE)
    assert set(of(reply, "status").values()) == {"failed"}
    assert set(of(reply, "score").values()) == {None}
    assert set(of(reply, "reason").values()) == {reason}


@pytest.mark.slow
def test_the_reply_is_shown_when_the_judge_is_out_of_reach(ask: Ask, judge: ScriptedModelServer) -> None:
    judge.on("relevancy.questions", HttpError(429, "slow down"))
    judge.on("faithfulness.statements", Cut())
    judge.on("recall.parts", NoReply())
    judge.on("precision.chunk", Html())
    reply = ask(WITH_REFERENCE)
    assert set(of(reply, "status").values()) == {"failed"}
    assert of(reply, "reason") == {
        "answer_relevancy": "rate_limited",
        "faithfulness": "model_unavailable",
        "context_recall": "model_unavailable",
        "context_precision": "model_unavailable",
    }


def test_one_metric_that_fails_leaves_the_others_alone(ask: Ask, judge: ScriptedModelServer) -> None:
    judge.on("recall.parts", "…")
    status = of(ask(WITH_REFERENCE), "status")
    assert status.pop("context_recall") == "failed"
    assert set(status.values()) == {"scored"}


def test_the_scores_of_a_reply_are_not_read_back_at_the_next_turn(ask: Ask, judge: ScriptedModelServer) -> None:
    ask(WITH_REFERENCE)
    ask(WITHOUT_REFERENCE)
    chats = [request for request in judge.requests if request.body["model"] == "bot"]
    assert [len(request.body["messages"]) for request in chats] == [2, 2]
    assert "忠実性" not in chats[1].system + chats[1].user
