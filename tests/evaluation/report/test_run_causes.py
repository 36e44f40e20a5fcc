"""What a run's text says first: what went wrong and why, what to do about it, and what it is compared with."""

from dataclasses import replace
from typing import Any

import pytest

from evaluation.errors import Reason
from evaluation.languages import Language
from evaluation.report.escape import unescape
from evaluation.report.run_summary import run_line, run_text
from evaluation.report.run_words import compared, verdict
from evaluation.report.times import time_text
from evaluation.runs.records import RowRecord
from evaluation.texts import load_texts
from tests.evaluation.sample_runs import failed, record, report_of, sample_run, settings

JA = load_texts("ja")


def finding(name: str, *steps: str) -> dict[str, Any]:
    return {"name": name, "settings": list(steps)}


def with_findings(made: RowRecord, *findings: dict[str, Any]) -> RowRecord:
    return replace(made, findings=list(findings))


def judge_failed(row: int, reason: str = "quota_exhausted", /, **values: str) -> RowRecord:
    made = record(row)
    made.metrics = {
        metric: {
            "score": None,
            "status": "failed",
            "reason": reason,
            "reason_values": values,
            "version": "1",
            "details": {},
        }
        for metric in settings().metrics
    }
    return made


EMPTY = [failed(n, reason="app_empty_answer", message="") for n in range(1, 6)]
NO_KEY = [failed(n, message="API key invalid <b>*now*</b>") for n in range(1, 6)]
NO_MONEY = [judge_failed(n) for n in range(1, 6)]
MIXED = [failed(1, reason="app_empty_answer", message=""), *NO_MONEY[1:3], judge_failed(4, "timeout")]


@pytest.mark.parametrize(
    ("records", "reason", "said"),
    [
        (EMPTY, Reason.APP_EMPTY_ANSWER, "アプリの回答が空でした（5件）"),
        (NO_KEY, Reason.APP_FAILED, "アプリがエラーになりました（API key invalid <b>*now*</b>）（5件）"),
        (NO_MONEY, Reason.QUOTA_EXHAUSTED, "（5件）"),
        (MIXED, Reason.QUOTA_EXHAUSTED, "（2件）"),
        (
            [judge_failed(n, "judge_unparseable", why="spent_on_thinking") for n in range(1, 4)],
            Reason.JUDGE_UNPARSEABLE,
            "思考だけで出力の上限に達し",
        ),
        (
            [judge_failed(1, "input_too_long", field="context_recall_threshold", of="a later version")],
            Reason.INPUT_TOO_LONG,
            "input_too_long（1件）",
        ),
    ],
)
@pytest.mark.parametrize("thresholds", [{}, {"faithfulness": 0.8}])
def test_when_every_row_failed_text_and_line_name_the_commonest_cause_and_its_count(
    records: list[RowRecord], reason: Reason, said: str, thresholds: dict[str, float]
) -> None:
    report = report_of(records, settings=settings(thresholds=thresholds), no_comparison="first_run")
    assert report.cause is not None
    assert report.cause.reason is reason
    headline = f"{len(records)}件のどれも採点できませんでした："
    line, text = run_line(report, JA), run_text(report, JA)
    assert unescape(line).startswith(f"app（run #2）：{headline}")
    assert said in unescape(line)
    assert unescape(text).startswith(f"**{headline}")
    assert said in unescape(text.split("\n")[0])
    assert "<b>" not in text
    for wrong in ("目立った問題", "質問を増やす", "しきい値"):
        assert wrong not in line + text
    assert "最初に変えること**：採点できなかった原因を、先に解消してください" in text


def test_what_failed_in_most_rows_is_put_right_before_what_was_found_in_few() -> None:
    found = with_findings(record(9, faithfulness=0.1), finding("made_up", "prompt_only_documents"))
    for failing, step in ((EMPTY, "採点できなかった原因"), (EMPTY[:1], "LLM ノードのプロンプト")):
        assert f"**最初に変えること**：{step}" in run_text(report_of([*failing, found]), JA)


def test_what_is_wrong_comes_before_what_is_not() -> None:
    found = [with_findings(record(n, faithfulness=0.1), finding("made_up", "model")) for n in range(1, 8)]
    report = report_of(found, settings=settings(thresholds={}, metrics=("faithfulness",)))
    assert verdict(report, JA) == "7件のうち7件に問題が見つかりました"
    sound = [record(n, faithfulness=1.0) for n in (8, 9)]
    report = report_of([*found, *sound, failed(10)], settings=settings(thresholds={}, metrics=("faithfulness",)))
    assert verdict(report, JA) == "10件のうち7件に問題が見つかりました（問題なし 2件、採点できず 1件）"


AGAIN = "もう一度実行すると、続きから始まります"


@pytest.mark.parametrize(
    ("records", "stopped", "helps"),
    [
        ([record(1, faithfulness=1.0)], Reason.NONE, True),
        ([record(1, faithfulness=1.0)], Reason.DIFY_BUSY, True),
        ([record(1, faithfulness=1.0)], Reason.RUN_TAKEN_OVER, True),
        ([record(1, faithfulness=1.0), failed(2)], Reason.NONE, True),
        ([failed(1, reason="timeout", message="")], Reason.NONE, True),
        ([record(1, faithfulness=1.0)], Reason.QUOTA_EXHAUSTED, False),
        ([record(1, faithfulness=1.0)], Reason.MODEL_UNAUTHORIZED, False),
        ([record(1, faithfulness=1.0)], Reason.STORAGE_FULL, False),
        ([], Reason.APP_NOT_PUBLISHED, False),
        (EMPTY, Reason.NONE, False),
    ],
)
def test_to_run_it_again_is_advised_where_that_helps(records: list[RowRecord], stopped: Reason, helps: bool) -> None:
    report = report_of([*records, RowRecord(9, "質問")], stopped=stopped)
    for said in (run_line(report, JA), run_text(report, JA)):
        assert f"まで終わりました。{'' if helps else '原因を解消してから'}{AGAIN}" in said


# --- the run before ---


def test_the_first_run_says_so_instead_of_nothing() -> None:
    report = report_of([record(1, faithfulness=1.0)], no_comparison="first_run")
    for said in (run_text(report, JA), run_line(report, JA)):
        assert "初回の実行です" in said
    assert "初回の実行です" not in run_text(sample_run("ja"), JA)


def test_a_comparison_with_another_app_says_so_first() -> None:
    records = [record(n, f"質問{n}", faithfulness=n / 20) for n in range(1, 21)]
    options = {"before": records, "compared_with": "x #1"}
    other = report_of(records, settings_before=settings(app_id="another"), **options)
    assert compared(other, JA).startswith("「x #1」は、別のアプリを評価した実行です。「x #1」と比べて")
    same = report_of(records, settings_before=settings(), **options)
    assert compared(same, JA).startswith("「x #1」と比べて")


def test_no_question_scored_in_both_runs_is_not_no_same_question() -> None:
    scored = [record(1, "質問", faithfulness=1.0)]
    unscored = report_of([failed(1, "質問")], before=[failed(1, "質問")], compared_with="x #1")
    unrelated = report_of([record(1, "別の質問", faithfulness=1.0)], before=scored, compared_with="x #1")
    assert compared(unscored, JA) == "「x #1」と今回の両方で採点できた質問がないため、比べられません"
    assert compared(unrelated, JA) == "「x #1」と同じ質問がないため、比べられません"


def test_what_can_not_be_shown_is_no_gain() -> None:
    before = [record(n, f"質問{n}", faithfulness=0.9) for n in range(1, 9)]
    now = [record(n, f"質問{n}", faithfulness=0.903) for n in range(1, 9)]
    report = report_of(now, settings=settings(metrics=("faithfulness",)), before=before, compared_with="run #1")
    text = run_text(report, JA)
    assert "差 ±0.00（明らかな差なし、同じ質問 8件）" in text
    assert "良くなった" not in text


# --- thresholds, time ---


@pytest.mark.parametrize(
    ("scores", "value"), [([0.93, 0.99], "0.95"), ([0.3], "0.70"), ([0.81], "0.80"), ([1.0], "1.00")]
)
def test_a_threshold_just_below_what_is_reached_is_suggested_with_its_place(scores: list[float], value: str) -> None:
    records = [record(n, faithfulness=score) for n, score in enumerate(scores, start=1)]
    advice = f"「合格のしきい値（threshold）」に {value} などと入れてください"
    without = settings(thresholds={}, metrics=("faithfulness",))
    assert advice in run_text(report_of(records, settings=without), JA)
    assert "合格のしきい値（threshold）" not in run_text(report_of(records), JA)


@pytest.mark.parametrize(
    ("language", "shown"),
    [("ja", "2026-12-01 00:30（日本時間）"), ("en", "2026-11-30 15:30 UTC"), ("zh", "2026-11-30 23:30（北京时间）")],
)
def test_the_time_is_that_of_the_languages_country(language: Language, shown: str) -> None:
    assert time_text("2026-11-30T15:30:00+00:00", load_texts(language)) == shown
    assert time_text("soon", load_texts(language)) == "soon"
