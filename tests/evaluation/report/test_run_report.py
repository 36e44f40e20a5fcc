"""What is computed for the report of a run, and its text for the chat."""

import re
from dataclasses import replace
from typing import Any

import pytest
from markdown_it import MarkdownIt

from evaluation.errors import Reason
from evaluation.judging.models import ModelIdentity
from evaluation.languages import LANGUAGES, Language
from evaluation.report.numbers import difference_text, interval_text, score_against
from evaluation.report.run_making import making
from evaluation.report.run_rows import entries, lacking, row_failure, sentence, state_word
from evaluation.report.run_summary import run_line, run_text
from evaluation.report.run_words import remarks, verdict
from evaluation.runs.conclusions import MetricStatistics
from evaluation.runs.records import RowRecord
from evaluation.runs.summary import RunReport
from evaluation.texts import load_texts
from tests.evaluation.sample_runs import failed, record, report_of, sample_run, settings

JA = load_texts("ja")
NO_THRESHOLDS: dict[str, float] = {}


def finding(name: str, *steps: str) -> dict[str, Any]:
    return {"name": name, "settings": list(steps)}


def with_findings(made: RowRecord, *findings: dict[str, Any]) -> RowRecord:
    return replace(made, findings=list(findings))


# --- the data ---


def test_rows_that_are_not_finished_are_counted_and_nothing_else() -> None:
    report = report_of([record(1, faithfulness=1.0), failed(2), RowRecord(3, "質問"), RowRecord(4, "質問")])
    assert (report.total, report.done, report.finished, report.failed_rows) == (4, 2, False, 1)
    stats = report.statistics["faithfulness"]
    assert (stats.mean, stats.scored, stats.failed, stats.questions) == (1.0, 1, 1, 1)


def test_every_metric_that_was_asked_for_has_statistics_also_without_a_score() -> None:
    report = report_of([record(1, faithfulness=1.0)])
    assert list(report.statistics) == list(settings().metrics)
    assert report.statistics["context_recall"] == MetricStatistics(None, None, None, failed=1)


@pytest.mark.parametrize(
    ("scores", "thresholds", "passed"),
    [
        ([0.8, 1.0], {"faithfulness": 0.9}, True),
        ([0.8, 0.9], {"faithfulness": 0.9}, False),
        ([None], {"faithfulness": 0.9}, None),
        ([1.0], {"faithfulness": 0.9, "context_recall": 0.5}, None),
        ([0.1], {"faithfulness": 0.9, "context_recall": 0.5}, False),
        ([1.0], {}, None),
    ],
)
def test_a_run_passes_when_every_mean_reaches_its_threshold(
    scores: list[float | None], thresholds: dict[str, float], passed: bool | None
) -> None:
    records = [record(row, faithfulness=score) for row, score in enumerate(scores, start=1)]
    assert report_of(records, settings=settings(thresholds=thresholds)).passed is passed


def test_categories_hold_all_rows_also_those_without_one() -> None:
    records = [replace(record(1, faithfulness=1.0), category="休暇"), record(2, faithfulness=0.0), failed(3)]
    report = report_of(records)
    assert list(report.categories) == ["休暇", ""]
    counted = [of_metric["faithfulness"] for of_metric in report.categories.values()]
    assert sum(stats.scored + stats.failed for stats in counted) == 3


def test_a_table_without_categories_has_no_breakdown() -> None:
    assert report_of([record(1, faithfulness=1.0)]).categories == {}


def test_the_most_frequent_first_finding_leads() -> None:
    rare, common = finding("made_up", "prompt_only_documents"), finding("missed_part", "top_k_up", "hybrid_search")
    records = [
        with_findings(record(1), rare, common),
        with_findings(record(2), common),
        with_findings(record(3), common, rare),
        record(4),
    ]
    assert report_of(records).findings == [
        ("missed_part", ("top_k_up", "hybrid_search"), 2),
        ("made_up", ("prompt_only_documents",), 1),
    ]


def test_the_worst_rows_come_first_and_those_without_a_score_last() -> None:
    records = [
        record(1, faithfulness=1.0),
        record(2, faithfulness=None),
        failed(3),
        record(4, faithfulness=0.5, context_recall=0.1),
        record(5, faithfulness=0.3),
    ]
    assert [made.row for made in report_of(records).worst] == [4, 5, 1, 3, 2]


def test_only_rows_that_were_scored_and_show_nothing_wrong_are_sound() -> None:
    four = dict.fromkeys(settings().metrics, 1.0)
    broken = record(3, **four)
    broken.metrics["context_recall"] = {"score": None, "status": "failed", "reason": "timeout", "version": "1"}
    records = [
        record(1, **four),
        with_findings(record(2, **four), finding("made_up", "model")),
        broken,
        failed(4),
        record(5, **dict.fromkeys(four)),
    ]
    assert [made.row for made in report_of(records).sound] == [1]


def test_costs_are_added_up_by_currency_and_reused_rows_cost_nothing() -> None:
    usage = {"judge_calls": 3, "embedding_calls": 1, "total_tokens": 100, "price": 0.5, "currency": "USD"}
    records = [
        replace(record(1), usage=usage, app_tokens=10),
        replace(record(2), usage={**usage, "price": 0.25, "other_prices": {"RMB": 2.0}}, app_tokens=20),
        replace(record(3), reused=True, app_tokens=30),
        failed(4),
    ]
    report = report_of(records)
    assert report.usage == {
        "judge_calls": 6,
        "embedding_calls": 2,
        "total_tokens": 200,
        "prices": {"USD": 0.75, "RMB": 2.0},
        "app_tokens": 60,
    }
    assert report.reused_rows == 1


def test_settings_that_change_the_scores_are_named_when_they_differ() -> None:
    records = [record(1, faithfulness=1.0)]
    other = settings(judge=ModelIdentity("", "other"), votes=3, thresholds={})
    assert report_of(records, before=records, settings_before=other).differing == ["judge", "votes"]
    assert report_of(records, before=records, settings_before=settings()).differing == []
    assert report_of(records, settings_before=other).differing == ()


# --- a row in words ---


def test_a_result_is_read_back_from_its_record() -> None:
    made = sample_run("ja").records[4]
    result = made.result("faithfulness")
    assert result is not None
    assert (result.score, result.status, len(result.details["claims"])) == (0.5, "scored", 2)
    assert sentence(result, JA) == "2件の主張のうち1件が資料で確認できません"
    assert lacking(made, "faithfulness", "claims", JA) == ["日当は1日3,000円である（資料では2,000円となっている）"]
    assert made.result("answer_correctness") is None


def test_details_cut_for_storage_are_counted_and_break_nothing() -> None:
    made = record(1, faithfulness=0.5)
    claims = [{"text": "主張", "verdict": 0, "kind": "absent"}, {"omitted": 7}]
    made.metrics["faithfulness"]["details"]["claims"] = claims
    result = made.result("faithfulness")
    assert result is not None
    found, omitted = entries(result, "claims", JA)
    assert ([entry.text for entry in found], found[0].kind, omitted) == (["主張"], "（資料にない）", 7)
    assert sentence(result, JA) == ""


@pytest.mark.parametrize("reason", ["of_another_version", *Reason])
def test_why_an_app_gave_no_answer_is_a_sentence_for_every_reason(reason: str) -> None:
    for language in LANGUAGES:
        said = row_failure(failed(reason=reason, message="Error *503*"), load_texts(language))
        assert len(said) > 6
        assert not re.search(r"[{}]|&#|None", said)
    assert "Error *503*" in row_failure(failed(message="Error *503*"), JA)


def test_the_row_says_how_it_ended() -> None:
    partial, broken = record(1, faithfulness=1.0), record(1, faithfulness=1.0)
    partial.metrics["faithfulness"]["status"] = "partial"
    broken.metrics["faithfulness"] = {"score": None, "status": "failed", "reason": "timeout"}
    rows = [record(1, faithfulness=1.0), partial, broken, failed()]
    assert [state_word(made, ["faithfulness"], JA) for made in rows] == [
        "採点済み",
        "一部だけ判定",
        "一部の指標を採点できず",
        "アプリの失敗",
    ]


# --- numbers ---


@pytest.mark.parametrize(
    ("score", "threshold", "text"),
    [(0.58, 0.7, "0.58"), (0.6961, 0.7, "0.696"), (0.69999, 0.7, "0.69999"), (0.7, 0.7, "0.70"), (0.704, 0.7, "0.70")],
)
def test_a_score_below_its_threshold_never_shows_as_the_threshold(score: float, threshold: float, text: str) -> None:
    assert score_against(score, threshold) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.126, "+0.13"), (-0.3, "−0.30"), (0.0, "±0.00"), (0.004, "±0.00"), (-0.004, "±0.00")]
)
def test_a_difference_has_a_sign(value: float, text: str) -> None:
    assert difference_text(value) == text


def test_both_ends_of_an_interval_are_shown() -> None:
    assert interval_text(0.412, 0.7) == "0.41–0.70"
    assert interval_text(-0.1, 0.2, difference_text) == "−0.10 – +0.20"


# --- the verdict ---

VERDICTS = [
    ([], {}, "まだ1件も終わっていません"),
    ([failed(1)], {}, "1件のどれも採点できませんでした：アプリがエラーになりました（503）（1件）"),
    ([record(1, faithfulness=None)], {}, "採点の対象になる質問がありません：参照（正解）がありません"),
    (
        [record(1, faithfulness=0.9)],
        {"faithfulness": 0.8},
        "合格です。しきい値を決めた指標は、どれも平均がしきい値に届",
    ),
    (
        [record(1, faithfulness=0.7961)],
        {"faithfulness": 0.8},
        "不合格です。忠実性の平均 0.796 がしきい値 0.80 に届いていません",
    ),
    (
        [record(1, faithfulness=0.9)],
        {"faithfulness": 0.8, "context_recall": 0.8},
        "合否はまだ分かりません。1件のうち1件を採点できませんでした",
    ),
    (
        [record(1, **dict.fromkeys(settings().metrics, 1.0))],
        {},
        "1件すべてに、目立った問題はありません",
    ),
    (
        [record(1, **dict.fromkeys(settings().metrics, 1.0)), failed(2)],
        {},
        "2件のうち1件を採点できませんでした（問題なし 1件）",
    ),
]


@pytest.mark.parametrize(("records", "thresholds", "beginning"), VERDICTS)
def test_the_verdict_says_in_one_sentence_how_good_the_app_is(
    records: list[RowRecord], thresholds: dict[str, float], beginning: str
) -> None:
    report = report_of(records, settings=settings(thresholds=thresholds))
    assert verdict(report, JA).startswith(beginning)
    # A threshold says nothing before the last row.
    open_too = report_of([*records, RowRecord(9, "質問")], settings=settings(thresholds=thresholds))
    undecided = f"合否はまだ分かりません。{len(records) + 1}件のうち{len(records)}件までしか終わっていません"
    assert verdict(open_too, JA).startswith(undecided if thresholds else beginning)


def test_a_threshold_inside_the_interval_is_told() -> None:
    records = [record(row, faithfulness=score) for row, score in enumerate([0.2, 1.0, 1.0, 1.0], start=1)]
    close = report_of(records, settings=settings(thresholds={"faithfulness": 0.7}))
    clear = report_of(records, settings=settings(thresholds={"faithfulness": 0.1}))
    said = "忠実性の信頼区間はしきい値をまたいでいます"
    assert any(line.startswith(said) for line in remarks(close, JA))
    assert not any(line.startswith(said) for line in remarks(clear, JA))


# --- the text of the chat ---


def test_rows_whose_retrieval_can_not_be_seen_are_told_with_what_to_do() -> None:
    hidden = [replace(record(n, answer_relevancy=1.0), contexts_hidden="citations_off") for n in (1, 2)]
    said = remarks(report_of([*hidden, record(3, answer_relevancy=1.0)]), JA)
    assert said[-1] == (
        "検索結果が見えないため、評価していません。"
        "評価するアプリの「機能」で「引用と帰属」をオンにしてください（3件のうち2件）"
    )


def test_the_text_holds_verdict_means_comparison_first_step_and_cost() -> None:
    text = run_text(sample_run("ja"), JA)
    assert text.startswith("**合格です。")
    assert re.search(
        r"\n- ✅ \*\*忠実性 0\.88\*\*（しきい値 0\.80 以上）\n"
        r"  95% 信頼区間 0\.\d\d–0\.\d\d・採点 16件・対象外 2件・採点できず 2件\n"
        r"  差 −0\.01（明らかな差なし、同じ質問 16件）\n",
        text,
    )
    assert "「社内FAQ ハイブリッド検索 #1」と比べて、明らかな差はありません" in text
    assert "20件のうち5件で、必要な内容が検索結果にそろっていません" in text
    assert text.endswith(
        "<sub>社内規程アシスタント（社内FAQ ハイブリッド検索 #2）・"
        "判定 gpt-4o-mini・判定の呼び出し 90回・42,120トークン・$0.0083</sub>"
    )


def test_the_text_says_what_became_better() -> None:
    assert "Better than “Shop helpdesk, longer chunks #1”: Faithfulness +0.31\n" in run_text(
        sample_run("en"), load_texts("en")
    )


def test_an_unfinished_run_says_how_to_go_on() -> None:
    records = [record(1, faithfulness=1.0), *(RowRecord(row, "質問") for row in range(2, 101))]
    for text in (run_text(report_of(records), JA), run_line(report_of(records), JA)):
        assert "100件のうち1件まで終わりました。もう一度実行すると、続きから始まります" in text
    nothing = run_text(report_of(records[1:]), JA)
    assert nothing.startswith("**まだ1件も終わっていません**")
    assert "|" not in nothing


def test_the_line_holds_every_mean_with_its_count() -> None:
    line = run_line(sample_run("ja"), JA)
    assert "\n" not in line
    assert line.startswith("社内規程アシスタント（社内FAQ ハイブリッド検索 #2）：合格です。")
    assert "忠実性 0.88（16件）、回答関連性 0.82（18件）、必要コンテキストの網羅性 0.81（16件）" in line


def every_kind_of_run(language: Language) -> list[RunReport]:
    whole = sample_run(language)
    records = [record(1, faithfulness=0.2), failed(2), RowRecord(3, "質問")]
    return [
        whole,
        sample_run(language, thresholds=NO_THRESHOLDS),
        sample_run(language, thresholds={"faithfulness": 0.95}),
        sample_run(language, compared=False),
        report_of([], language),
        report_of(records, language),
        report_of(records, language, before=[record(8, "別の質問", faithfulness=1.0)], compared_with="x #1"),
        report_of([record(1, **dict.fromkeys(settings().metrics, 1.0))], language),
    ]


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_text_holds_a_missing_value_or_an_open_placeholder(language: Language) -> None:
    texts = load_texts(language)
    for report in every_kind_of_run(language):
        for text in (run_text(report, texts), run_line(report, texts)):
            assert not re.search(r"None|nan\b|null|[{}]", text)


def test_names_can_not_break_the_text() -> None:
    hostile = "|x|\n# <script>alert(1)</script> [a](http://b.example) **"
    report = replace(
        sample_run("ja"),
        name=hostile,
        app_name=hostile,
        compared_with=hostile,
        settings=replace(settings(), judge=ModelIdentity("", hostile)),
    )
    page = MarkdownIt("commonmark", {"html": True}).enable("table").render(run_text(report, JA))
    assert not re.search(r"<script|<a |<h1", page)
    # A line for each remark, and one for each metric.
    assert page.count("<li>") == len(remarks(report, JA)) + 4
    assert "\n" not in run_line(report, JA)


@pytest.mark.parametrize(
    ("language", "shares", "unknown"),
    [
        (
            "ja",
            "忠実性 0.32（判定モデルの揺れ 10%、アプリの回答の違い 90%）",
            "忠実性 0.32（判定モデルの揺れは測っていません）",
        ),
        (
            "en",
            "Faithfulness 0.32 (10% the judge model's, 90% differing answers of the app)",
            "Faithfulness 0.32 (the judge model's part was not measured)",
        ),
        (
            "zh",
            "忠实度 0.32（评判模型的波动占 10%，应用回答的差异占 90%）",
            "忠实度 0.32（未测量评判模型的波动）",
        ),
    ],
)
def test_how_much_of_the_spread_is_the_judges(language: Language, shares: str, unknown: str) -> None:
    # Within questions 0.1, within answers 0.01; see test_again.py.
    made = [
        replace(record(row, repetition=repetition, faithfulness=score), fingerprint=fingerprint)
        for row, repetition, score, fingerprint in [
            (1, 1, 0.4, "a"),
            (1, 2, 0.6, "a"),
            (2, 1, 0.2, "b"),
            (2, 2, 0.8, "c"),
        ]
    ]
    alone = [replace(one, fingerprint=one.key) for one in made]
    made[2] = replace(made[2], again={"faithfulness": 0.2})
    repeated = settings(language, repeat=2, metrics=("faithfulness",))

    def line(records: list[RowRecord]) -> str:
        texts = load_texts(language)
        return dict(making(report_of(records, language, settings=repeated), texts))[texts.get("report.spread")]

    assert line(made) == shares
    assert line(alone) == unknown
    assert line([replace(one, metrics=record(faithfulness=0.5).metrics) for one in alone]).endswith(" 0.00")
