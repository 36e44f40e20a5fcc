"""A metric's result, and a lookup's, as the line that stands in the chat reply."""

import re
from typing import Any

import pytest
from markdown_it import MarkdownIt

from evaluation.errors import EvaluationError, Reason
from evaluation.golden.matching import Match
from evaluation.golden.questions import Questions
from evaluation.golden.table import Row, Table
from evaluation.languages import LANGUAGES, Language
from evaluation.metrics.verdicts import Verdict, listed, outcome
from evaluation.report.escape import escape, one_line, unescape
from evaluation.report.lookup import lookup_line
from evaluation.report.markdown import finding, list_line, reason_sentence, score_word, summary_line
from evaluation.report.numbers import money, score_text
from evaluation.result import MetricResult
from evaluation.texts import load_texts

JA, EN, ZH = (load_texts(language) for language in ("ja", "en", "zh"))
CLAIMS = ["20日付与されます", "6か月後です", "時間単位です", "申請は不要です", "上限は40日です"]
MISSING = Verdict(None, failure=EvaluationError(Reason.VERDICTS_MISSING))


def shares(metric: str, *values: int | None, cut: bool = False, agreement: float = 1.0) -> MetricResult:
    key = {"faithfulness": "claims", "context_recall": "parts"}[metric]
    verdicts = [MISSING if value is None else Verdict(bool(value), agreement=agreement) for value in values]
    score = sum(verdict.holds for verdict in verdicts) / len(verdicts)
    return outcome(metric, "1", score, verdicts, {key: listed(CLAIMS[: len(values)], verdicts)}, cut=cut)


def chunks(*values: int, score: float) -> MetricResult:
    details = {"chunks": [{"rank": rank, "verdict": value} for rank, value in enumerate(values, start=1)]}
    return MetricResult("context_precision", "1", "scored", score, details=details)


def relevancy(score: float, method: str = "embedding", **options: Any) -> MetricResult:
    details = {"method": method, "questions": [{"text": "上限は何日ですか"}], "coverage": {"judged": 1, "of": 2}}
    return MetricResult("answer_relevancy", "1", options.pop("status", "scored"), score, details=details, **options)


SENTENCES = [
    (shares("faithfulness", 1, 1, 1), "3件の主張はすべて資料で確認できます"),
    (shares("faithfulness", 1), "1件の主張は資料で確認できます"),
    (shares("faithfulness", 0), "1件の主張は資料で確認できません：「20日付与されます」"),
    (shares("faithfulness", 0, 0), "2件の主張はどれも資料で確認できません：「20日付与されます」、「6か月後です」"),
    (shares("faithfulness", 1, 0), "2件の主張のうち1件が資料で確認できません：「6か月後です」"),
    (
        shares("faithfulness", 1, 0, 0, 0, 0),
        "5件の主張のうち4件が資料で確認できません：「6か月後です」、「時間単位です」、「申請は不要です」、ほか1件",
    ),
    (
        shares("faithfulness", 1, None),
        "2件の主張のうち1件が資料で確認できません：「6か月後です」（1/2件だけ判定できました：判定モデルが一部の判定を返しませんでした）",
    ),
    (
        shares("faithfulness", 1, cut=True),
        "1件の主張は資料で確認できます（判定モデルの返答が途中で切れたため、すべては評価できていません）",
    ),
    (shares("faithfulness", 1, 1, agreement=2 / 3), "2件の主張はすべて資料で確認できます（判定の一致率 0.67）"),
    (shares("context_recall", 1), "参照の内容はすべて検索されています"),
    (shares("context_recall", 1, 0), "参照の2項目のうち1項目が検索結果にありません：「6か月後です」"),
    (shares("context_recall", 0), "参照の内容が検索結果に見つかりません：「20日付与されます」"),
    (chunks(1, 1, score=1.0), "検索された2件のチャンクはすべて参照に関連しています"),
    (chunks(1, score=1.0), "検索された1件のチャンクは参照に関連しています"),
    (chunks(0, score=0.0), "検索された1件のチャンクは参照に関連していません"),
    (chunks(0, 0, score=0.0), "検索された2件のチャンクに、参照に関連するものはありません"),
    (chunks(1, 1, 0, score=1.0), "参照に関連するチャンクが上位にあります（3件中2件、1、2位）"),
    (
        chunks(1, 0, 1, score=5 / 6),
        "参照に関連するチャンクは3件中2件（1、3位）で、関連のないチャンクがその上にあります",
    ),
    (relevancy(0.7), "質問に答えています"),
    (relevancy(0.69), "質問の一部にしか答えていないようです（この回答が答えになる質問：「上限は何日ですか」）"),
    (relevancy(0.49), "質問に答えていないようです（この回答が答えになる質問：「上限は何日ですか」）"),
    (relevancy(0.9, "judged"), "質問に答えています（埋め込みモデルがないため、判定モデルが比べました）"),
    (
        relevancy(0.9, status="partial", reason=Reason.TIMEOUT),
        "質問に答えています（1/2件だけ判定できました：制限時間内に判定が終わりませんでした）",
    ),
    (
        MetricResult("faithfulness", "1", "scored", 0.0, Reason.NO_CONTEXTS),
        "検索結果が空でした。「知識検索」ノードのナレッジベースと「検索設定」を確認してください",
    ),
    (
        MetricResult.without_score("context_recall", "1", EvaluationError(Reason.NO_REFERENCE)),
        "参照（正解）がありません（「参照の検索」の表に、この質問と正解の行を加えると採点します）",
    ),
]


@pytest.mark.parametrize(("result", "sentence"), SENTENCES, ids=lambda value: value if isinstance(value, str) else "")
def test_finding_in_words(result: MetricResult, sentence: str) -> None:
    assert finding(result, JA) == sentence


def test_finding_without_quotes_says_the_same_without_them() -> None:
    assert finding(shares("faithfulness", 1, 0), JA, quoted=False) == "2件の主張のうち1件が資料で確認できません"
    assert finding(relevancy(0.1), JA, quoted=False) == "質問に答えていないようです"


def test_partial_result_that_lost_a_vote_says_why() -> None:
    details = {"method": "embedding", "questions": [], "coverage": {"judged": 2, "of": 2}}
    result = MetricResult("answer_relevancy", "1", "partial", 0.9, Reason.RATE_LIMITED, details=details)
    assert finding(result, EN) == (
        "answers the question (the judge model's rate limit is reached; wait a little and try again)"
    )


@pytest.mark.parametrize(
    ("texts", "line"),
    [
        (JA, "- ⚠️ **忠実性 0.50** 2件の主張のうち1件が資料で確認できません：「6か月後です」"),
        (EN, "- ⚠️ **Faithfulness 0.50** 1 of 2 claims not found in the documents: “6か月後です”"),
        (ZH, "- ⚠️ **忠实度 0.50** 2 条陈述中有 1 条在资料中找不到依据：“6か月後です”"),
    ],
)
def test_line_of_a_score(texts: Any, line: str) -> None:
    assert list_line(shares("faithfulness", 1, 0), texts) == line


@pytest.mark.parametrize(
    ("texts", "passed", "failed"),
    [
        (JA, "- ✅ **忠実性 0.50**（しきい値 0.50 以上） 2件", "- ❌ **忠実性 0.50**（しきい値 0.51 未満） 2件"),
        (EN, "- ✅ **Faithfulness 0.50** (reaches 0.50) 1 of", "- ❌ **Faithfulness 0.50** (below 0.51) 1 of"),
        (ZH, "- ✅ **忠实度 0.50**（达到阈值 0.50） 2 条", "- ❌ **忠实度 0.50**（低于阈值 0.51） 2 条"),
    ],
)
def test_threshold_decides_the_mark_and_stands_behind_the_score(texts: Any, passed: str, failed: str) -> None:
    result = shares("faithfulness", 1, 0)
    assert list_line(result, texts, 0.5).startswith(passed)
    assert list_line(result, texts, 0.51).startswith(failed)


@pytest.mark.parametrize(
    ("score", "mark"), [(0.0, "❌"), (0.499, "❌"), (0.5, "⚠️"), (0.699, "⚠️"), (0.7, "✅"), (1.0, "✅")]
)
def test_without_a_threshold_the_mark_goes_by_what_is_usual(score: float, mark: str) -> None:
    assert list_line(relevancy(score), JA).startswith(f"- {mark} **回答関連性 ")


def test_score_below_its_threshold_does_not_show_as_the_threshold() -> None:
    line = list_line(MetricResult("faithfulness", "1", "scored", 0.6961, Reason.NO_CONTEXTS), JA, 0.7)
    assert line.startswith("- ❌ **忠実性 0.696**（しきい値 0.70 未満）")


def test_the_judges_reason_stands_behind_a_single_complaint_and_not_behind_several() -> None:
    verdicts = [Verdict(False, "資料では「10日付与」", "contradicted"), Verdict(False, "資料にありません")]
    details = {"claims": listed(CLAIMS[:2], verdicts)}
    both = outcome("faithfulness", "1", 0.0, verdicts, details)
    one = outcome("faithfulness", "1", 0.0, verdicts[:1], {"claims": details["claims"][:1]})
    assert list_line(one, JA).endswith("：「20日付与されます」（資料と食い違い）→ 資料では「10日付与」")
    assert list_line(both, JA).endswith("：「20日付与されます」（資料と食い違い）、「6か月後です」")


@pytest.mark.parametrize(
    ("texts", "line"),
    [
        (JA, "- **忠実性 未評価** 制限時間内に判定が終わりませんでした"),
        (EN, "- **Faithfulness not evaluated** The time limit ended before the judge did"),
        (ZH, "- **忠实度 未评估** 在时限内没有完成判定"),
    ],
)
def test_line_without_a_score_has_no_mark(texts: Any, line: str) -> None:
    result = MetricResult.without_score("faithfulness", "1", EvaluationError(Reason.TIMEOUT))
    assert list_line(result, texts, 0.5) == line
    assert score_word(result, texts) == line.split("**")[1].split(" ", 1)[1]


def test_zero_is_a_score() -> None:
    result = shares("faithfulness", 0)
    assert score_word(result, JA) == "0.00"
    assert list_line(result, JA).startswith("- ❌ **忠実性 0.00** ")


def test_chunks_that_were_left_out_are_said() -> None:
    assert list_line(shares("context_recall", 1), JA, dropped=2).endswith("（文章のないチャンク2件を除きました）")
    assert list_line(shares("context_recall", 1), EN, dropped=1).endswith(" (left out 1 chunks without text)")


def test_summary_is_one_line_without_markdown() -> None:
    assert (
        summary_line(shares("context_recall", 1), JA)
        == "必要コンテキストの網羅性 1.00：参照の内容はすべて検索されています"
    )
    assert (
        summary_line(shares("context_recall", 1), EN)
        == "Context recall 1.00: everything in the reference was retrieved"
    )


@pytest.mark.parametrize("text", ["kr_result & <b>", "a*b_c [x](y) $1 `z` ~", "https://a.example/b_c?d&e", "x&#95;y"])
def test_summary_shows_what_it_quotes_as_it_is(text: str) -> None:
    claims = {"claims": [{"text": text, "verdict": 0, "reason": text}], "coverage": {"judged": 1, "of": 1}}
    scored = MetricResult("faithfulness", "1", "scored", 0.0, details=claims)
    unread = MetricResult.without_score(
        "faithfulness", "1", EvaluationError(Reason.NOT_CONNECTED, field="answer", text=text)
    )
    assert summary_line(scored, JA).endswith(f"：「{text}」→ {text}")
    assert f"（「{text}」という名前だけが届きました）" in summary_line(unread, JA)


VALUES = {
    "field": "question",
    "text": "kr.result",
    "value": "70",
    "low": "0",
    "high": "1",
    "characters": 123456,
    "limit": 100000,
    "table": "経費",
    "known": "休暇、旅費",
    "knowledge": "規程",
    "version": 4,
    "first": 2,
    "last": 4,
    "base": 3,
    "draft": 2,
    "off": 1,
    "file": "a.csv",
    "size": 12.5,
    "rows": 6000,
    "run": "前回",
    "minutes": 3,
    "done": 12,
    "total": 40,
}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("reason", [reason for reason in Reason if reason])
def test_every_reason_reads_as_a_sentence_in_every_language(reason: Reason, language: Language) -> None:
    texts = load_texts(language)
    result = MetricResult.without_score("faithfulness", "1", EvaluationError(reason, **VALUES))
    for line in (list_line(result, texts), summary_line(result, texts)):
        assert "\n" not in line
        assert not re.search(r"\b(None|null|nan)\b|[{}]", line)
    assert len(reason_sentence(reason, VALUES, texts)) > 5


# What users and models write, in the line


HOSTILE = [
    "| a | b |\n|---|---|",
    "</td></table><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<details open><summary>x",
    "<think>x</think>",
    "&lt;b&gt; &amp; &#65;",
    "[ここ](https://evil.example) ![x](https://evil.example/x.png)",
    "https://evil.example/a?b=c と http://x",
    "HTTPS://EVIL.EXAMPLE",
    "www.evil.example",
    "WWW.evil.example",
    "mail a@evil.example or mailto:a@evil.example",
    "<https://evil.example>",
    "[^1] [x]: https://evil.example",
    "**太字** __b__ *i* _i_ ~~s~~ `code` ```\nx```",
    "$x^2$ $$y$$ \\(a\\) \\[b\\]",
    "# 見出し\n- 項目\n> 引用\n1. 一",
    "a\u202eb\u2066c\u200bd\ufeffe\u061cf\U000e0041g",
    "a\x00b\x1bc\x7fd\u2028e",
    "」、「 ” “",
    "{0} {name} {{x}} %s",
]


def rendered(markdown: str) -> str:
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(markdown)


def shown(html: str) -> str:
    return unescape(re.sub(r"<[^>]*>", "", html)).strip()


@pytest.mark.parametrize("text", HOSTILE)
def test_text_of_others_shows_as_it_is_and_does_nothing(text: str) -> None:
    result = MetricResult(
        "faithfulness",
        "1",
        "scored",
        0.0,
        details={"claims": [{"text": text, "verdict": 0}], "coverage": {"judged": 1, "of": 1}},
    )
    line = list_line(result, JA)
    html = rendered(line)
    assert set(re.findall(r"</?(\w+)", html)) == {"ul", "li", "strong"}
    assert shown(html).endswith("：「" + one_line(text, 60) + "」")
    bare = unescape(line.replace("\u2060", "\u0001"))
    assert not re.search(r"(?i)(https?:|ftp:)//|www\.|mailto:\w|\w@\w", bare.replace("\u0001", " "))


@pytest.mark.parametrize("text", HOSTILE)
def test_text_of_others_stays_in_its_cell_of_a_table(text: str) -> None:
    html = rendered(f"| a | b |\n|---|---|\n| {escape(text)} | z |")
    cells = [shown(cell) for cell in re.findall(r"<td>(.*?)</td>", html, re.DOTALL)]
    assert cells == [one_line(text), "z"]


@pytest.mark.parametrize("text", ["価格は<b>100</b>円", "a & b", "C:\\temp", "5 < 6 > 4", "100%", "a@b", "東京　大阪"])
def test_escaping_changes_nothing_that_is_seen(text: str) -> None:
    assert unescape(escape(text)) == one_line(text)


def test_long_text_is_shortened_before_it_is_escaped() -> None:
    assert escape("<" * 100, 5) == "&#60;" * 4 + "…"
    assert escape("あ" * 5, 5) == "あ" * 5
    assert escape("あいう えおか", 5) == "あいう…"


def test_value_in_a_reasons_sentence_is_escaped() -> None:
    sentence = reason_sentence(Reason.NOT_CONNECTED, {"field": "answer", "text": "<b>|x"}, JA)
    assert "「&#60;b&#62;&#124;x」" in sentence


# Numbers


@pytest.mark.parametrize(
    ("score", "text"),
    [
        (0.0, "0.00"),
        (0.0001, "0.01"),
        (0.004, "0.01"),
        (0.005, "0.01"),
        (0.014, "0.01"),
        (0.5, "0.50"),
        (2 / 3, "0.67"),
        (0.994, "0.99"),
        (0.995, "0.99"),
        (0.99999, "0.99"),
        (1.0, "1.00"),
    ],
)
def test_score_with_two_decimals_is_perfect_or_nothing_only_when_it_is(score: float, text: str) -> None:
    assert score_text(score) == text


@pytest.mark.parametrize(
    ("amount", "currency", "text"),
    [(0.0, "USD", "$0.00"), (0.00213, "USD", "$0.0021"), (12.345, "USD", "$12.35"), (0.02, "RMB", "0.020 RMB")],
)
def test_price_has_two_digits_that_say_something(amount: float, currency: str, text: str) -> None:
    assert money(amount, currency) == text


# The lookup


ROW = Row("有給は？", "10日")
TABLE = Table((ROW, Row("日当は？", "2000円")))


@pytest.mark.parametrize(
    ("match", "table", "line"),
    [
        (Match(ROW, "有給は？", 1.0), TABLE, "表の同じ質問の参照を使います"),
        (
            Match(ROW, "有給は？", 0.934, 0.9, "characters"),
            TABLE,
            "表の似た質問「有給は？」の参照を使います（類似度 0.93）",
        ),
        (
            Match(None, "有給は？", 0.5, 0.9, "characters"),
            TABLE,
            "表に同じ質問がありません（いちばん近い質問は「有給は？」（類似度 0.50、必要な類似度 0.90））",
        ),
        (Match(None, minimum=0.9, method="characters"), TABLE, "表に同じ質問がありません"),
        (Match(Row("有給は？"), "有給は？", 1.0), TABLE, "この質問の行には参照がありません"),
        (
            Match(ROW, "有給は？", 1.0),
            Table((ROW, Row("Q")), unreadable=3),
            "表の同じ質問の参照を使います（参照のない行が1件あります）（読み取れない行が3件あります）",
        ),
    ],
)
def test_lookup_in_words(match: Match, table: Table, line: str) -> None:
    assert lookup_line(match, Questions(table), JA, match.error()) == line


def test_lookup_that_chose_among_references_says_so() -> None:
    line = lookup_line(Match(ROW, "有給は？", 1.0, conflicts=2), Questions(TABLE), JA, None)
    assert line == "表の同じ質問の参照を使います（同じ質問に異なる参照が2件あり、最初のものを使います）"


def test_ambiguous_lookup_names_the_nearest() -> None:
    match = Match(None, "有給は？", 0.95, 0.9, "characters", ambiguous=True)
    line = lookup_line(match, Questions(TABLE), EN, match.error())
    assert line == (
        "Several questions of the table are equally similar and have different references "
        "(the nearest is “有給は？” (similarity 0.95, needed 0.90))"
    )


def test_lookup_that_failed_says_why_and_counts_nothing() -> None:
    error = EvaluationError(Reason.NO_TABLE)
    assert lookup_line(Match(None), Questions(Table(())), ZH, error) == "没有问题与参考答案表，请粘贴到节点中"


def test_question_in_the_lookups_line_is_escaped() -> None:
    match = Match(ROW, "<b>|a|</b>", 0.95, 0.9, "characters")
    assert "「&#60;b&#62;&#124;a&#124;&#60;/b&#62;」" in lookup_line(match, Questions(TABLE), JA, None)
