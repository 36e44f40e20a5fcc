"""The templates through graphon with the real plugin process and a scripted model server."""

import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from devhost.chatflow import Chatflow, ChatReply, choose
from devhost.daemon import PluginProcess
from devhost.dify_side import ModelServer
from devhost.knowledge import KnowledgeBase
from tests.model_server import Cut, Html, HttpError, NoReply, Reply, Request, Script, ScriptedModelServer

WORKFLOWS = Path(__file__).parents[2] / "workflows"
METRICS = ("answer_relevancy", "faithfulness", "context_recall", "context_precision")
PROMPTS = ("relevancy.questions", "faithfulness.statements", "faithfulness.verdicts", "recall.parts", "precision.chunk")
NO_VALUE = re.compile(r"\b(None|null|nan|True|False)\b|\{\{#")

WITH_REFERENCE = "有給休暇は入社後いつ、何日もらえますか"
WITHOUT_REFERENCE = "出張の宿泊費は1泊いくらまで出ますか"
ANSWER = "入社して6か月たつと10日付与されます。毎年20日もらえます。"

type Ask = Callable[..., ChatReply]


@pytest.fixture
def knowledge(tmp_path: Path) -> KnowledgeBase:
    paragraphs = [
        "有給休暇は入社6か月後に10日付与します。",
        "宿泊費は1泊12,000円までです。",
        "在宅勤務は週3日までです。",
    ]
    (tmp_path / "規程.md").write_text("\n\n".join(paragraphs), encoding="utf-8")
    return KnowledgeBase(tmp_path)


@pytest.fixture
def judge(model_server: ScriptedModelServer) -> ScriptedModelServer:
    """A judge that supports the first of two statements, finds one of two parts, and calls every chunk relevant."""
    verdicts = [{"id": item, "reason": "資料", "verdict": int(item == 1)} for item in (1, 2)]
    parts = [{"text": "10日", "reason": "資料1", "verdict": 1}, {"text": "繰り越し", "reason": "なし", "verdict": 0}]
    model_server.on("relevancy.questions", {"questions": [{"question": WITH_REFERENCE, "noncommittal": 0}] * 3})
    model_server.on("relevancy.grades", {"grades": [{"id": item, "reason": "", "grade": 3} for item in (1, 2, 3)]})
    model_server.on("faithfulness.statements", {"statements": ANSWER.replace("。", "。\n").split()})
    model_server.on("faithfulness.verdicts", {"verdicts": verdicts})
    model_server.on("recall.parts", {"parts": parts})
    model_server.on("precision.chunk", {"reason": "質問に関係します", "verdict": 1})
    model_server.on_chat(ANSWER)
    return model_server


@pytest.fixture
def ask(plugin: PluginProcess, judge: ScriptedModelServer, knowledge: KnowledgeBase) -> Ask:
    """Ask the template one question; every reply must come out of the stream as it is stored."""

    def run(
        query: str,
        *,
        template: str = "rag_chat_scored.yml",
        bases: list[KnowledgeBase] | None = None,
        embedding_model: str | None = "embedding",
        judge_model: str | None = "judge",
    ) -> ChatReply:
        chosen = [knowledge] if bases is None else bases
        document = choose(
            WORKFLOWS / template,
            knowledge=chosen,
            chat_model="bot",
            judge_model=judge_model,
            embedding_model=embedding_model,
        )
        reply = Chatflow(document, plugin, ModelServer(judge.url), chosen).run(query)
        assert reply.error is None
        assert reply.streamed == reply.final
        assert reply.final.startswith(reply.node_outputs["llm"]["text"] + "\n\n---\n\n")
        assert NO_VALUE.findall(reply.final) == []
        return reply

    return run


def of(reply: ChatReply, name: str) -> dict[str, Any]:
    """One output of each metric, by metric."""
    return {metric: reply.node_outputs[metric][name] for metric in METRICS}


def test_a_question_with_a_reference_gets_four_scores(ask: Ask) -> None:
    reply = ask(WITH_REFERENCE)
    assert reply.node_outputs["lookup"]["found"] is True
    assert set(of(reply, "status").values()) == {"scored"}
    # Three generated questions equal to the real one; 1 of 2 statements; 1 of 2 parts; every chunk relevant.
    scores = of(reply, "score")
    assert scores["answer_relevancy"] == pytest.approx(1.0, abs=1e-9)
    assert (scores["faithfulness"], scores["context_recall"], scores["context_precision"]) == (0.5, 0.5, 1.0)


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
        judge.on(prompt, late(judge, prompt, 0.25 * ((place - METRICS.index(first)) % len(METRICS))))
    reply = ask(WITH_REFERENCE)
    rotated = METRICS[METRICS.index(first) :] + METRICS[: METRICS.index(first)]
    assert tuple(node for node in reply.order if node in METRICS) == rotated
    assert set(of(reply, "status").values()) == {"scored"}


def late(judge: ScriptedModelServer, prompt: str, seconds: float) -> Callable[[Request], Reply]:
    """The prompt's present reply, after a while."""
    reply = judge._scripts[prompt]
    assert isinstance(reply, Mapping)

    def answer(_: Request) -> Reply:
        time.sleep(seconds)
        return reply

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
