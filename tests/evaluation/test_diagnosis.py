"""Every rule of diagnosis.toml, with scores and the sentence."""

import re
from typing import TYPE_CHECKING, Any

import pytest

from evaluation.diagnosis import diagnose, rules
from evaluation.errors import UNSEEN, EvaluationError, Reason
from evaluation.metrics.documents import DocumentScores
from evaluation.report.block import sentence_of
from evaluation.result import MetricResult
from evaluation.texts import load_texts

if TYPE_CHECKING:
    from collections.abc import Mapping

FOUND = DocumentScores(1.0, 1.0, 1.0, (), 1)
NOT_FOUND = DocumentScores(0.0, 0.0, 0.0, ("a.md",), 1)
KEYS = {"context_precision": "chunks", "context_recall": "parts", "faithfulness": "claims"}


def results(
    refusal: bool = False, relevant: int = 1, kind: str = "", **scores: float | None
) -> dict[str, MetricResult]:
    """Results with these scores; `relevant` is the verdict on the chunks, `kind` that of an unsupported claim."""
    made = {}
    for name, score in scores.items():
        if score is None:
            made[name] = MetricResult.without_score(name, "1", EvaluationError(Reason.NO_REFERENCE))
            continue
        entries: list[Mapping[str, Any]] = [{"verdict": relevant if name != "faithfulness" else 0, "kind": kind}]
        made[name] = MetricResult(name, "1", "scored", score, details={KEYS[name]: entries} if name in KEYS else {})
    if refusal:
        made["answer_relevancy"] = MetricResult("answer_relevancy", "1", "scored", 0.0, Reason.NONCOMMITTAL)
    return made


def unseen(**scores: Any) -> dict[str, MetricResult]:
    """Results of an app whose retrieval can't be seen."""
    error = EvaluationError(Reason.CONTEXTS_NOT_VISIBLE)
    return {name: MetricResult.without_score(name, "1", error) for name in KEYS} | results(**scores)


# F1 is 1, and 0.75 x 1 + 0.25 x 0.4 = 0.85.
SAME_CONTENT = MetricResult(
    "answer_correctness",
    "1",
    "scored",
    0.85,
    details={
        "facts": [{"text": "10日", "verdict": 1}],
        "claims": [{"text": "10日", "verdict": 1}],
        "method": "weighted",
    },
)
GOOD = {"faithfulness": 1.0, "answer_relevancy": 0.9, "context_recall": 1.0, "context_precision": 1.0}

CASES: list[tuple[str, dict[str, MetricResult], dict[str, Any], str]] = [
    (
        "nothing_retrieved_refused",
        results(refusal=True, context_recall=0.0, context_precision=0.0),
        {"chunks": 0},
        "検索結果が空でした。資料がないため答えなかったのは正しい動作です。まず、「知識検索」ノードで、ナレッジベースが",
    ),
    (
        "nothing_retrieved",
        results(faithfulness=0.0, answer_relevancy=0.9, context_recall=0.0, context_precision=0.0),
        {"chunks": 0},
        (
            "検索結果が空なのに、資料にないことを答えています。"
            "まず、「知識検索」ノードで、ナレッジベースが選ばれているかを確認する。"
            "次に、「知識検索」ノードの「検索設定」で、「スコア閾値」を下げる"
        ),
    ),
    (
        "nothing_retrieved_unknown",
        results(context_recall=0.0, context_precision=0.0),
        {"chunks": 0},
        "検索結果が空でした。まず、「知識検索」ノードで、ナレッジベースが選ばれているかを確認する",
    ),
    (
        "refused_although_found",
        results(refusal=True, context_recall=1.0, context_precision=1.0),
        {},
        "資料はおおむね検索できているのに、答えていません。まず、LLM ノードのプロンプトの断り方の指示をゆるめ",
    ),
    (
        "refused_rightly_missing_document",
        results(refusal=True, relevant=0, context_recall=0.0, context_precision=0.0),
        {},
        (
            "答えの載った資料が検索されていません。ナレッジにない可能性があります（答えなかったのは正しい動作です）。"
            "まず、ナレッジにその内容のドキュメントがあるか"
        ),
    ),
    (
        "refused_rightly_wrong_chunk",
        results(refusal=True, relevant=0, context_recall=0.0, context_precision=0.0),
        {"documents": FOUND},
        "正しい文書は見つかっていますが、答えの載ったチャンクが検索されていません（答えなかったのは正しい動作です）",
    ),
    (
        "refused_rightly_missed_part",
        results(refusal=True, context_recall=0.5, context_precision=1.0),
        {},
        (
            "必要な内容が検索結果にそろっていません（答えなかったのは正しい動作です）。"
            "まず、「知識検索」ノードの「検索設定」で、「トップ K」を増やす"
        ),
    ),
    ("refused_unknown", results(refusal=True, context_recall=None), {}, "答えていません。参照（正解）があれば"),
    (
        "refused_unseen",
        unseen(refusal=True),
        {"chunks": 0},
        "答えていません。検索結果が見えないため、資料があったのかどうかは分かりません。まず、検索結果が見えるようにする",
    ),
    (
        "right_without_documents",
        results(**{**GOOD, "faithfulness": 0.0, "answer_correctness": 1.0}),
        {},
        (
            "回答は正しいものの、検索された資料では確認できない内容があります。"
            "まず、LLM ノードのプロンプトに「資料に書かれていることだけで答える」を加える"
        ),
    ),
    (
        "document_not_retrieved",
        results(relevant=0, **{**GOOD, "context_recall": 0.0}),
        {"documents": NOT_FOUND},
        "見つかるべき文書の中に、検索されていないものがあります。まず、ナレッジの「設定」で、「検索方法」を",
    ),
    (
        "missing_document",
        results(relevant=0, **{**GOOD, "context_recall": 0.0, "context_precision": 0.0}),
        {},
        "答えの載った資料が検索されていません。ナレッジにない可能性があります。まず、ナレッジにその内容のドキュメント",
    ),
    (
        "wrong_chunk_of_document",
        results(relevant=0, **{**GOOD, "context_recall": 0.0, "context_precision": 0.0}),
        {"documents": FOUND},
        "正しい文書は見つかっていますが、答えの載ったチャンクが検索されていません。まず、「知識検索」ノード",
    ),
    (
        "missed_part",
        results(**{**GOOD, "context_recall": 0.5}),
        {},
        (
            "必要な内容が検索結果にそろっていません。まず、「知識検索」ノードの「検索設定」で、「トップ K」を増やす"
            "（ナレッジの「検索設定」のほうが小さければ、そちらも増やす）。次に、「知識検索」ノードの「検索設定」で、"
        ),
    ),
    (
        "irrelevant_chunks_above",
        results(**{**GOOD, "context_precision": 0.33}),
        {},
        "関連のないチャンクが上位にあります。まず、「知識検索」ノードの「検索設定」で、「Rerank モデル」を設定する",
    ),
    (
        "contradicts_documents",
        results(kind="contradicted", **{**GOOD, "faithfulness": 0.5}),
        {},
        "資料と食い違う内容を答えています。まず、LLM ノードのプロンプトに「数字や条件は資料のとおりに書く」を加え",
    ),
    (
        "made_up",
        results(kind="absent", **{**GOOD, "faithfulness": 0.5}),
        {},
        "資料にない内容を答えています。まず、LLM ノードのプロンプトに「資料に書かれていることだけで答える」を加える",
    ),
    (
        "made_up_for_lack_of_documents",
        results(**{**GOOD, "faithfulness": 0.3, "context_recall": 0.3}),
        {},
        "検索できなかった内容を、推測で補っているようです。まず、LLM ノードのプロンプトに「資料にないことは、",
    ),
    (
        "off_the_question",
        results(**{**GOOD, "answer_relevancy": 0.4}),
        {},
        "質問に答えていないようです。まず、LLM ノードのプロンプトに「最初に質問への答えを書く」",
    ),
    (
        "answers_in_part",
        results(**{**GOOD, "answer_relevancy": 0.67}),
        {},
        "質問の一部にしか答えていないようです。まず、LLM ノードのプロンプトに「最初に質問への答えを書く」",
    ),
    (
        "right_but_beside_the_question",
        results(**{**GOOD, "answer_relevancy": 0.4, "answer_correctness": 0.9}),
        {},
        "内容は正しいものの、質問への答え方がずれているようです。まず、LLM ノードのプロンプトに「最初に",
    ),
    (
        "answers_below_threshold",
        results(**{**GOOD, "answer_relevancy": 0.9}),
        {"thresholds": {"answer_relevancy": 0.95}},
        "質問には答えていますが、回答関連性がしきい値に届いていません。まず、しきい値が高すぎないかを見直す",
    ),
    (
        "incomplete_answer",
        results(**{**GOOD, "answer_correctness": 0.4}),
        {},
        "資料はおおむね検索できていますが、回答に抜けや誤りがあります。まず、LLM ノードのプロンプトに「条件や",
    ),
    (
        "incomplete_answer_unknown",
        results(**{**GOOD, "context_recall": None, "context_precision": None, "answer_correctness": 0.4}),
        {},
        "回答に抜けや誤りがあります。まず、LLM ノードのプロンプトに「条件や例外も漏らさず",
    ),
    (
        "incomplete_answer_unseen",
        unseen(answer_relevancy=0.9, answer_correctness=0.4),
        {"chunks": 0},
        "回答に抜けや誤りがあります。検索結果が見えないため、資料があったのかどうかは分かりません。まず、LLM ノード",
    ),
    (
        "same_in_other_words",
        {**results(**GOOD), "answer_correctness": SAME_CONTENT},
        {"thresholds": {"answer_correctness": 0.9}},
        "内容は参照（正解）と同じですが、言い回しが違うため、回答の正しさがしきい値に届いていません。まず、しきい値",
    ),
]


@pytest.mark.parametrize(("name", "scores", "options", "sentence"), CASES, ids=[case[0] for case in CASES])
def test_rule(name: str, scores: dict[str, MetricResult], options: dict[str, Any], sentence: str) -> None:
    findings = diagnose(scores, **{"chunks": 3, **options})
    assert name in [found.name for found in findings]
    found = next(found for found in findings if found.name == name)
    assert sentence_of(found, load_texts("ja")).startswith(sentence)
    # All but the rules that add to another one's finding come first.
    assert name == "made_up_for_lack_of_documents" or findings[0].name == name


def test_every_rule_has_a_case() -> None:
    assert [case[0] for case in CASES] == [rule.name for rule in rules()]


def test_nothing_is_said_when_nothing_is_wrong() -> None:
    assert diagnose(results(**GOOD), chunks=3) == []
    assert diagnose(results(**GOOD, answer_correctness=0.9), chunks=3, documents=FOUND) == []


def test_nothing_is_said_where_nothing_was_scored() -> None:
    failed = {name: MetricResult.without_score(name, "1", EvaluationError(Reason.TIMEOUT)) for name in GOOD}
    assert diagnose(failed, chunks=3) == []
    assert diagnose(failed, chunks=0) == []


def test_without_a_reference_the_answer_is_still_diagnosed() -> None:
    scores = results(kind="absent", faithfulness=0.2, answer_relevancy=0.9, context_recall=None, context_precision=None)
    assert [found.name for found in diagnose(scores, chunks=3)] == ["made_up"]


@pytest.mark.parametrize("reason", sorted(UNSEEN))
def test_of_a_retrieval_that_can_not_be_seen_nothing_is_said(reason: Reason) -> None:
    hidden = {name: MetricResult.without_score(name, "1", EvaluationError(reason)) for name in KEYS}
    assert diagnose({**hidden, **results(answer_relevancy=0.9)}, chunks=0) == []


def test_the_users_threshold_decides_what_is_low() -> None:
    scores = results(**{**GOOD, "context_precision": 0.75})
    assert diagnose(scores, chunks=3) == []
    findings = diagnose(scores, chunks=3, thresholds={"context_precision": 0.8})
    assert [found.name for found in findings] == ["irrelevant_chunks_above"]


def test_metrics_that_need_no_chunks_say_nothing_of_missing_ones() -> None:
    assert diagnose(results(answer_relevancy=0.9), chunks=0) == []


@pytest.mark.parametrize("language", ["ja", "en", "zh"])
def test_every_sentence_of_every_rule_reads_in_each_language(language: Any) -> None:
    texts = load_texts(language)
    for _, scores, options, _ in CASES:
        for found in diagnose(scores, **{"chunks": 3, **options}):
            sentence = sentence_of(found, texts)
            assert sentence.count(texts.get("settings_to_try.first", step="")) >= 1
            assert not re.search(r"[{}]|None", sentence)


def partial(metric: str, key: str, score: float, *values: int | None) -> MetricResult:
    entries = [{"text": "10日", "verdict": value} for value in values]
    return MetricResult(metric, "1", "partial", score, Reason.VERDICTS_MISSING, details={key: entries})


@pytest.mark.parametrize(("metric", "key"), list(KEYS.items()))
def test_missing_verdicts_lower_a_score_but_accuse_nobody(metric: str, key: str) -> None:
    unknown, wrong = partial(metric, key, 0.5, 1, None), partial(metric, key, 1 / 3, 1, None, 0)
    assert diagnose({**results(**GOOD), metric: unknown}, chunks=3) == []
    assert diagnose({**results(**GOOD), metric: wrong}, chunks=3) != []
