"""The template with one node for all scores, through graphon with the real plugin process and a scripted server."""

import re
from functools import partial
from itertools import chain
from typing import Any

import pytest
from markdown_it import MarkdownIt

from devhost.chatflow import ChatReply
from tests.model_server import HttpError, Script, ScriptedModelServer
from tests.workflows.scripted import ANSWER, WITH_REFERENCE, WITHOUT_REFERENCE, Ask

METRICS = ("faithfulness", "answer_relevancy", "context_recall", "context_precision")
LABELS = {
    "ja": ["忠実性", "回答関連性", "必要コンテキストの網羅性", "コンテキスト精度"],
    "en": ["Faithfulness", "Answer relevancy", "Context recall", "Context precision"],
}
PROMPTS = ("relevancy.questions", "faithfulness.statements", "faithfulness.verdicts", "recall.parts", "precision.chunk")


@pytest.fixture
def ask_both(ask: Ask) -> Ask:
    return ask


@pytest.fixture
def ask(ask: Ask) -> Ask:
    return partial(ask, template="rag_chat_scorecard.yml")


def outputs(reply: ChatReply) -> dict[str, Any]:
    return reply.node_outputs["evaluate"]


def scores(reply: ChatReply) -> list[float | None]:
    return [outputs(reply)[metric] for metric in METRICS]


def lines(markdown: str) -> list[tuple[str, str, str]]:
    """Metric, score and finding of each item of the list that the chat makes of the end of a reply."""
    tokens = MarkdownIt("commonmark", {"html": True}).parse(markdown)
    # A rule stands before it, so that the reply above is no heading.
    kinds = [token.type for token in tokens if token.level == 0]
    assert kinds.index("hr") < kinds.index("bullet_list_open")
    assert not {"heading_open", "table_open"} & set(kinds)
    end = next(index for index, token in enumerate(tokens) if token.type == "bullet_list_close")
    items = [token.content for token in tokens[:end] if token.type == "inline" and token.level == 3]
    found = [
        re.fullmatch(r"(?:(?:✅|⚠️|❌) )?\*\*(.+) (\S+)\*\* (.+)", item.replace("not evaluated", "—")) for item in items
    ]
    return [(match[1], match[2], match[3]) for match in found if match]


@pytest.mark.parametrize(
    ("template", "language", "question"),
    [
        ("rag_chat_scorecard.yml", "ja", WITH_REFERENCE),
        ("rag_chat_scorecard_en.yml", "en", "When do new employees get paid leave, and how many days?"),
    ],
)
def test_the_reply_ends_with_a_list_of_the_scores(template: str, language: str, question: str, ask: Ask) -> None:
    reply = ask(question, template=template)
    assert reply.final == f"{ANSWER}\n\n---\n\n{outputs(reply)['text']}"
    rows = lines(reply.final)
    assert [row[0] for row in rows[:4]] == LABELS[language]
    # 1 of 2 statements, 1 of 2 parts, and of the chunks 1 and 3: (1/1 + 2/3) / 2.
    shown = [row[1] for row in rows]
    assert shown[0] == "0.50"
    assert shown[2:] == ["0.50", "0.83", "1.00"]


def test_the_claim_that_the_documents_do_not_hold_is_quoted_and_the_settings_to_change_are_listed(ask: Ask) -> None:
    reply = ask(WITH_REFERENCE)
    assert "件が資料で確認できません：「毎年20日もらえます。」→ " in lines(reply.final)[0][2]
    finding, *_ = outputs(reply)["details"]["findings"]
    # Half of the reference was retrieved, with two chunks that help.
    assert (finding["name"], finding["settings"][0]) == ("missed_part", "top_k_up")
    _, advice = reply.final.split("**次にすること**：")
    steps = re.findall(r"^(\d)\. (.+)$", advice, re.MULTILINE)
    assert [int(number) for number, _ in steps] == list(range(1, len(finding["settings"]) + 1))
    assert "トップ K" in steps[0][1]


def test_the_documents_of_the_sample_table_are_compared_with_those_retrieved(ask: Ask) -> None:
    reply = ask(WITH_REFERENCE)
    assert reply.node_outputs["lookup"]["documents"] == "paid_leave.md"
    assert outputs(reply)["details"]["documents"] == {
        "hit_rate": 1.0,
        "reciprocal_rank": 1.0,
        "recall_at_k": 1.0,
        "missing_documents": [],
        "expected_documents": 1,
    }


def test_a_question_without_a_reference_gets_two_scores_and_a_sentence_for_the_others(
    ask: Ask, judge: ScriptedModelServer
) -> None:
    reply = ask(WITHOUT_REFERENCE)
    assert reply.node_outputs["lookup"]["reference"] == ""
    assert outputs(reply)["status"] == "scored"
    assert scores(reply) == [0.5, pytest.approx(scores(reply)[1]), None, None]
    assert judge.calls("recall.parts") + judge.calls("precision.chunk") == []
    rows = lines(reply.final)
    assert [row[0] for row in rows] == LABELS["ja"]
    assert [row[1] for row in rows[2:]] == ["未評価", "未評価"]
    assert all("参照" in row[2] for row in rows[2:])


def test_without_a_knowledge_the_scores_say_why_and_the_advice_is_to_choose_one(ask: Ask) -> None:
    reply = ask(WITH_REFERENCE, bases=[])
    assert scores(reply)[0] == 0.0
    assert scores(reply)[2:] == [0.0, 0.0]
    assert all("検索結果が空" in row[2] for row in lines(reply.final) if row[0] in {"忠実性", "コンテキスト精度"})
    assert "ナレッジベースが選ばれているか" in outputs(reply)["diagnosis"]


def test_without_a_judge_model_the_reply_says_where_to_choose_one(ask: Ask, judge: ScriptedModelServer) -> None:
    reply = ask(WITH_REFERENCE, judge_model=None, embedding_model=None)
    assert (outputs(reply)["status"], outputs(reply)["reason"]) == ("failed", "model_not_selected")
    assert "判定モデルの設定" in outputs(reply)["text"]
    assert judge.judge_calls == []


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        pytest.param(HttpError(401, '{"error": {"message": "bad key"}}'), "model_unauthorized", id="wrong key"),
        pytest.param("すみません、よく分かりません。", "judge_unparseable", id="babble"),
        pytest.param("", "judge_unparseable", id="nothing"),
    ],
)
def test_the_reply_is_shown_and_one_line_says_why_when_the_judge_fails(
    trouble: Script, reason: str, ask: Ask, judge: ScriptedModelServer
) -> None:
    for prompt in PROMPTS:
        judge.on(prompt, trouble)
    reply = ask(WITH_REFERENCE)
    assert (outputs(reply)["status"], outputs(reply)["reason"]) == ("failed", reason)
    assert scores(reply) == [None] * 4
    assert reply.final == f"{ANSWER}\n\n---\n\n- {outputs(reply)['summary']}"


def test_a_metric_that_fails_leaves_the_others_alone(ask: Ask, judge: ScriptedModelServer) -> None:
    judge.on("recall.parts", "…")
    reply = ask(WITH_REFERENCE)
    assert outputs(reply)["status"] == "partial"
    assert [score is None for score in scores(reply)] == [False, False, True, False]


def test_metrics_that_fail_for_different_reasons_each_say_theirs(ask: Ask, judge: ScriptedModelServer) -> None:
    judge.on("faithfulness.statements", HttpError(401, '{"error": {"message": "bad key"}}'))
    for prompt in ("relevancy.questions", "recall.parts", "precision.chunk"):
        judge.on(prompt, "…")
    reply = ask(WITH_REFERENCE)
    assert outputs(reply)["status"] == "failed"
    rows = lines(reply.final)[:4]
    assert [row[1] for row in rows] == ["未評価"] * 4
    assert "API キー" in rows[0][2]
    assert len({row[2] for row in rows}) == 2


@pytest.mark.parametrize(
    ("depth", "calls_of_one_node", "calls_of_four_nodes"),
    [
        # Questions, statements, their verdicts, parts, and each of three chunks.
        ("standard", 7, 7),
        # Recall and precision share one call here; there each has its own, and the chunks are judged in one.
        ("economy", 4, 5),
        # A call for each of 2 statements, the reference split in one and judged in 2, each of 3 chunks.
        ("careful", 10, 10),
    ],
)
def test_the_scores_are_those_of_the_four_tools(
    depth: str, calls_of_one_node: int, calls_of_four_nodes: int, ask_both: Ask, judge: ScriptedModelServer
) -> None:
    together = ask_both(WITH_REFERENCE, template="rag_chat_scorecard.yml", depth=depth)
    calls = len(judge.judge_calls)
    judge.clear()
    apart = ask_both(WITH_REFERENCE, template="rag_chat_scored.yml", depth=depth)
    assert scores(together) == [apart.node_outputs[metric]["score"] for metric in METRICS]
    assert None not in scores(together)
    assert (calls, len(judge.judge_calls)) == (calls_of_one_node, calls_of_four_nodes)
    verdicts = {metric: verdicts_of(outputs(together)["details"]["metrics"][metric]) for metric in METRICS}
    assert verdicts == {metric: verdicts_of(apart.node_outputs[metric]["details"]) for metric in METRICS}


def verdicts_of(details: dict[str, Any]) -> list[int]:
    entries = chain(*(details.get(key, []) for key in ("claims", "parts", "chunks")))
    return [entry["verdict"] for entry in entries]
