"""What two findings of one answer say never contradicts, nor do they contradict the scores."""

import re
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from evaluation.diagnosis import diagnose, findings_of, rules
from evaluation.languages import Language
from evaluation.metrics import METRICS
from evaluation.report.markdown import finding
from evaluation.result import MetricResult
from evaluation.texts import load_texts
from tests.evaluation.test_diagnosis import GOOD, KEYS, results

# What a finding says of the answer and of the retrieval -> the words for it, of which each sentence has one.
SAYS: dict[tuple[str, str], dict[Language, str]] = {
    ("answer", "refused"): {
        "ja": "(?<!質問に)答えていません|答えなかった",
        "en": "did not answer|right not to answer",
        "zh": "作答",
    },
    ("answer", "misses"): {"ja": "質問に答えていない", "en": "seems not to answer", "zh": "似乎没有回答"},
    ("answer", "partly"): {"ja": "一部にしか", "en": "only in part", "zh": "只回答了问题的一部分"},
    ("answer", "beside"): {"ja": "ずれている", "en": "somewhat different question", "zh": "偏离"},
    ("answer", "answers"): {"ja": "質問には答えて", "en": "The answer answers", "zh": "^回答了问题"},
    ("content", "right"): {
        "ja": "回答は正しい|内容は正しい|参照（正解）と同じ",
        "en": "answer is right|says the same",
        "zh": "回答正确|内容正确|与参考答案相同",
    },
    ("content", "wrong"): {"ja": "抜けや誤り", "en": "leaves something out", "zh": "遗漏或错误"},
    ("claims", "unsupported"): {
        "ja": "資料にない(こと|内容)を|食い違う内容|確認できない内容|推測で補",
        "en": "yet the bot answered|do not support all|contradicts the documents|things that the doc|guess",
        "zh": "资料(中|里)没有的(回答|内容)|矛盾的内容|无法证实|推测",
    },
    ("claims", "supported"): {"ja": "資料に(は)?沿って", "en": "keeps to the documents", "zh": "符合资料"},
    ("retrieved", "nothing"): {"ja": "検索結果が空", "en": "Nothing was retrieved", "zh": "检索结果为空"},
    ("retrieved", "enough"): {
        "ja": "おおむね検索できて|資料はそろって",
        "en": "Most of what is needed|documents are there",
        "zh": "大多已检索到|资料齐全",
    },
    ("retrieved", "not all"): {
        "ja": "検索されてい(ません|ない)|そろっていません|検索できなかった",
        "en": "No chunk with|but not the chunk|was not retrieved|Not all that is needed",
        "zh": "没有(全部)?检索到|未被检索到",
    },
    ("order", "irrelevant on top"): {"ja": "上位にあります", "en": "stand on top", "zh": "排在前面"},
    ("retrieved", "unseen"): {"ja": "検索結果が見えない", "en": "can't be seen", "zh": "看不到检索结果"},
    ("refusal", "right"): {"ja": "正しい動作", "en": "right not to answer", "zh": "不作答是正确"},
}
# What must be known for a sentence to say so: the facts, of which each has one of these values.
TRUE_WHEN: dict[tuple[str, str], dict[str, set[Any]]] = {
    ("answer", "refused"): {"refusal": {True}},
    ("answer", "misses"): {"answers": {"no"}, "refusal": {False}},
    ("answer", "partly"): {"answers": {"partly"}},
    ("answer", "beside"): {"answers": {"no", "partly"}},
    ("answer", "answers"): {"answers": {"yes"}},
    ("claims", "unsupported"): {"faithfulness": {"low"}},
    ("claims", "supported"): {"faithfulness": {"ok"}},
    ("retrieved", "nothing"): {"contexts": {"none"}},
    ("retrieved", "enough"): {"context_recall": {"ok"}},
    ("retrieved", "unseen"): {"contexts": {"unseen"}},
    ("order", "irrelevant on top"): {"context_precision": {"low"}},
    ("content", "wrong"): {"answer_correctness": {"low"}, "same_content": {"no", "unknown"}},
}


def said(name: str, language: Language) -> set[tuple[str, str]]:
    sentence = load_texts(language).get(f"diagnosis.{name}")
    return {topic for topic, words in SAYS.items() if re.search(words[language], sentence)}


def every_combination() -> Iterator[dict[str, Any]]:
    """Of all that the rules ask about. A refusal scores 0, and nothing is known of chunks that nobody can see."""
    levels = ("ok", "low", "none")
    values = {
        **dict.fromkeys(METRICS, levels),
        "answers": ("yes", "partly", "no", "unknown"),
        "same_content": ("yes", "no"),
        "contexts": ("some", "none", "unseen"),
        "relevant": ("some", "none", "unknown"),
        "refusal": (True, False),
        "contradicted": (True, False),
        "expected": ("found", "missing", "unknown"),
    }
    hidden = [*KEYS, "relevant", "expected"]
    nothing = ["none"] * len(KEYS) + ["unknown"] * 2
    for chosen in product(*values.values()):
        facts = dict(zip(values, chosen, strict=True))
        refusal = not facts["refusal"] or (facts["answer_relevancy"], facts["answers"]) == ("low", "no")
        unseen = facts["contexts"] != "unseen" or [facts[name] for name in hidden] == nothing
        if refusal and unseen:
            yield facts


@pytest.mark.parametrize("name", [rule.name for rule in rules()])
def test_a_cause_says_the_same_in_every_language(name: str) -> None:
    assert said(name, "ja")
    assert said(name, "ja") == said(name, "en") == said(name, "zh")


def test_no_two_findings_of_an_answer_contradict_each_other_or_the_scores() -> None:
    of_names: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for facts in every_combination():
        of_names.setdefault(tuple(found.name for found in findings_of(facts)), []).append(facts)
    for names, cases in of_names.items():
        topics = {topic for name in names for topic in said(name, "ja")}
        values: dict[str, set[str]] = {}
        for topic, value in topics:
            values.setdefault(topic, set()).add(value)
        assert all(len(found) == 1 for found in values.values()), (names, values)
        for topic in topics:
            for fact, allowed in TRUE_WHEN.get(topic, {}).items():
                assert {facts[fact] for facts in cases} <= allowed, (names, topic, fact)


@pytest.mark.parametrize("threshold", [None, 0.3, 0.7, 0.95])
def test_line_and_advice_say_the_same_of_how_far_the_question_is_answered(threshold: float | None) -> None:
    details = {"method": "embedding", "questions": [{"text": "何日ですか"}], "coverage": {"judged": 1, "of": 1}}
    for score in (n / 100 for n in range(101)):
        result = MetricResult("answer_relevancy", "1", "scored", score, details=details)
        scores = {**results(**GOOD), "answer_relevancy": result}
        found = diagnose(scores, chunks=3, thresholds={"answer_relevancy": threshold} if threshold else {})
        line = finding(result, load_texts("ja"), quoted=False)
        advice = [load_texts("ja").get(f"diagnosis.{entry.name}") for entry in found]
        below = line if score < 0.7 else "質問には答えていますが、回答関連性がしきい値に届いていません"
        assert advice == ([below] if score < (threshold or 0.7) else [])
