import json
import threading
import time
from dataclasses import replace
from typing import Any

import pytest

from evaluation.errors import EvaluationError, Reason
from evaluation.golden.table import Row
from evaluation.judging.models import ModelIdentity
from evaluation.judging.places import Places
from evaluation.judging.prompts import prompt_versions
from evaluation.runs import run as run_module
from evaluation.runs.store import RunStore, run_base
from tests.evaluation.fakes import failing, parts, statements, verdicts
from tests.evaluation.runs.fakes import Killed, answer
from tests.evaluation.runs.workspace import CALLS_PER_ROW, Bot, Place, judge, scores, table

BASE = run_base("朝の評価", "app-2")


# --- one run ---


def test_a_run_reports_every_row_with_its_scores() -> None:
    place = Place()

    report = place.run(settings={"thresholds": {"faithfulness": 0.4}})

    assert (report.name, report.number, report.done, report.total, report.finished) == ("朝の評価", 1, 3, 3, True)
    assert scores(report) == {"faithfulness": 0.5, "context_recall": 1.0}
    assert report.passed is True
    assert report.comparison is None
    assert (report.compared_with, report.app_name, report.no_comparison) == ("", "", "first_run")
    assert report.prompts == prompt_versions("ja")
    assert place.calls() == 3 * CALLS_PER_ROW
    assert report.usage["judge_calls"] == 3 * CALLS_PER_ROW


def test_a_row_keeps_what_the_metrics_found_and_what_is_wrong() -> None:
    row = Row("質問1", "正解1", documents="規程.md")

    record = Place().run(rows=[row], settings={"thresholds": {"faithfulness": 0.9}}).records[0]

    faithfulness = record.metrics["faithfulness"]
    assert (faithfulness["score"], faithfulness["status"]) == (0.5, "scored")
    assert [claim["verdict"] for claim in faithfulness["details"]["claims"]] == [1, 0]
    assert record.document_scores == {
        "hit_rate": 0.0,
        "reciprocal_rank": 0.0,
        "recall_at_k": 0.0,
        "missing_documents": ["規程.md"],
        "expected_documents": 1,
    }
    assert record.findings
    assert set(record.findings[0]) == {"name", "settings"}
    assert record.usage["prompt_tokens"] == 10 * CALLS_PER_ROW


def test_each_question_is_asked_as_often_as_wanted() -> None:
    place = Place()

    report = place.run(rows=table(2), settings={"repeat": 3})

    assert place.bot.asked == {"質問1": 3, "質問2": 3}
    assert [record.key for record in report.records] == ["1-1", "2-1", "1-2", "2-2", "1-3", "2-3"]


def test_the_rows_of_a_run_share_its_places() -> None:
    running, most, lock = 0, 0, threading.Lock()

    def slow(_: Any) -> dict[str, Any]:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.01)
        with lock:
            running -= 1
        return parts(1)

    place = Place(asked_judge=judge(**{"recall.parts": slow}))

    place.places = Places().run(2)

    place.run(rows=table(8), settings={"metrics": ("context_recall",)}, concurrency=8)

    assert most == 2
    assert place.places.in_use == 0


# --- scores of earlier runs ---


def test_an_answer_that_has_not_changed_keeps_its_scores() -> None:
    place = Place()
    first = place.run()
    place.calls()

    second = place.run()

    assert place.calls() == 0
    assert (first.reused_rows, second.reused_rows) == (0, 3)
    assert scores(second) == scores(first)
    assert second.usage["judge_calls"] == 0
    assert second.records[0].metrics == first.records[0].metrics


def test_only_rows_whose_answer_has_changed_are_judged() -> None:
    place = Place()
    place.run()
    place.calls()
    place.bot = Bot(lambda record: answer("別の答え" if record.row == 2 else f"{record.question}の答え"))

    report = place.run()

    assert place.calls() == CALLS_PER_ROW
    assert [record.reused for record in report.records] == [True, False, True]


def test_scores_are_taken_from_runs_of_other_names_and_other_apps() -> None:
    place = Place()
    place.run()
    place.calls()

    place.run(name="夜の評価", settings={"app_id": "app-3"})

    assert place.calls() == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"fresh": True},
        {"rows": table(reference="別の正解")},
        {"settings": {"judge": ModelIdentity("scripts", "another", {"temperature": 0})}},
        {"settings": {"judge": ModelIdentity("elsewhere", "scripted", {"temperature": 0})}},
        {"settings": {"judge": ModelIdentity("scripts", "scripted", {"temperature": 1.5})}},
        {"settings": {"options": {"depth": "careful", "question_count": 3}}},
        {"settings": {"inputs": {"部署": "総務"}}},
        {"settings": {"language": "en"}},
    ],
)
def test_every_row_is_judged_anew(changes: dict[str, Any]) -> None:
    place = Place(asked_judge=judge(**{"faithfulness.verdicts": every_claim, "recall.parts": parts(1)}))
    place.judge.replies["correctness.statements"] = statements("10日付与される")
    place.run()
    place.calls()

    report = place.run(**changes)

    assert place.calls() >= 3 * CALLS_PER_ROW
    assert report.reused_rows == 0


def every_claim(data: dict[str, Any]) -> dict[str, Any]:
    return verdicts(*[1] * len(data["statements"]))


def test_other_chunks_are_judged_anew() -> None:
    place = Place()
    place.run()
    place.calls()
    place.bot = Bot(lambda record: answer(f"{record.question}の答え", "夏季休暇は5日"))

    assert place.run().reused_rows == 0
    assert place.calls() == 3 * CALLS_PER_ROW


def test_a_newer_prompt_is_judged_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place()
    place.run()
    newer = {**prompt_versions("ja"), "recall.parts": "99"}
    monkeypatch.setattr(run_module, "prompt_versions", lambda _language: newer)

    assert place.run().reused_rows == 0


def test_a_newer_metric_is_judged_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place()
    place.run()
    newer = {**run_module.METRICS, "faithfulness": replace(run_module.METRICS["faithfulness"], version="99")}
    monkeypatch.setattr(run_module, "METRICS", newer)

    assert place.run().reused_rows == 0


def test_what_needs_no_judge_is_computed_anew_for_scores_that_are_kept() -> None:
    place = Place()
    place.run(settings={"thresholds": {"faithfulness": 0.2}})
    place.calls()

    strict = place.run(settings={"thresholds": {"faithfulness": 0.9}}, rows=table(documents="規程.md"))

    assert place.calls() == 0
    assert strict.reused_rows == 3
    assert strict.passed is False
    assert strict.records[0].findings
    documents = strict.records[0].document_scores
    assert documents is not None
    assert documents["missing_documents"] == ["規程.md"]


def test_a_row_that_could_not_be_judged_whole_gives_no_scores_away() -> None:
    place = Place(asked_judge=judge(**{"recall.parts": failing(Reason.MODEL_ERROR)}))
    place.run()
    place.judge.replies["recall.parts"] = parts(1)
    place.calls()

    report = place.run()

    assert place.calls() == 3 * CALLS_PER_ROW
    assert report.statistics["context_recall"].scored == 3


# --- comparing ---


def test_a_run_is_compared_with_the_finished_one_before() -> None:
    place = Place()
    place.run()
    place.judge.replies["faithfulness.verdicts"] = verdicts(1, 1)

    report = place.run(fresh=True)

    assert report.compared_with == "朝の評価 #1"
    assert report.comparison is not None
    assert report.comparison.differences["faithfulness"].mean == 0.5
    assert report.comparison.differences["context_recall"].mean == 0.0
    assert list(report.differing) == []


def test_settings_that_differ_are_named() -> None:
    place = Place()
    place.run()

    options = {"depth": "standard", "question_count": 5, "similarity_weight": 0.5}
    report = place.run(settings={"judge": ModelIdentity("scripts", "another"), "votes": 3, "options": options})

    assert report.differing == ["judge", "votes", "question_count", "similarity_weight"]


def test_a_run_is_compared_with_the_newest_of_another_name_when_asked() -> None:
    place = Place()
    place.run(name="基準")
    place.run(name="基準")
    place.run()

    report = place.run(compare_with="基準")

    assert report.compared_with == "基準 #2"
    assert not report.other_app


@pytest.mark.parametrize(
    ("wanted", "compared_with"),
    [("基準 #1", "基準 #1"), ("基準＃2", "基準 #2"), ("朝の評価 #1", "朝の評価 #1"), ("#1", "朝の評価 #1")],
)
def test_a_run_is_compared_with_the_one_of_a_number(wanted: str, compared_with: str) -> None:
    place = Place()
    for name in ("基準", "基準", "朝の評価", "朝の評価"):
        place.run(name=name)

    assert place.run(name="朝の評価", compare_with=wanted).compared_with == compared_with


@pytest.mark.parametrize("wanted", ["基準 #7", "#9", "無い名前 #1"])
def test_a_number_that_is_not_there_is_told(wanted: str) -> None:
    place = Place()
    place.run(name="基準")
    with pytest.raises(EvaluationError) as caught:
        place.run(compare_with=wanted)
    assert caught.value.reason is Reason.RUN_NOT_FOUND


def test_the_runs_of_an_app_are_found_by_what_the_app_is_called() -> None:
    place = Place()
    place.run(name="", app_name="社内規程ボット")
    place.run()

    assert place.run(compare_with="社内規程ボット").compared_with == "社内規程ボット #1"


def test_a_comparison_with_another_app_is_known_as_such() -> None:
    place = Place()
    place.run(settings={"app_id": "app-3"})

    report = place.run()

    assert report.comparison is not None
    assert report.other_app


def test_a_first_run_and_runs_without_the_same_question_are_told_apart() -> None:
    place = Place()
    first = place.run()
    other_questions = place.run(rows=[Row("別の質問", "正解")])

    assert (first.comparison, first.no_comparison) == (None, "first_run")
    assert other_questions.no_comparison == ""
    assert other_questions.comparison is not None
    assert other_questions.comparison.only_now == 1


def test_a_run_that_another_version_has_kept_is_told_and_not_misread() -> None:
    place = Place()
    place.run()
    store = RunStore(place.values, BASE)
    old = {"number": 1, "finished": True, "keys": ["1-1"], "settings": {"judge": "scripted"}}
    place.values.storage.set(store.key(1, "head"), json.dumps(old).encode())
    place.values.storage.delete(store.key(1, "summary"))

    report = place.run()
    with pytest.raises(EvaluationError) as caught:
        place.run(name="夜の評価", compare_with="もっと前")
    assert caught.value.reason is Reason.RUN_NOT_FOUND
    place.values.storage.set(store.key(2, "head"), json.dumps(old).encode())
    place.values.storage.delete(store.key(2, "summary"))
    with pytest.raises(EvaluationError) as caught:
        place.run(name="夜の評価", compare_with="朝の評価")

    assert (report.number, report.comparison, report.no_comparison) == (2, None, "unreadable")
    assert (caught.value.reason, caught.value.values) == (Reason.RUN_UNREADABLE, {"run": "朝の評価"})


def test_long_questions_are_compared_too() -> None:
    place = Place()
    rows = [Row("とても長い質問" * 200 + str(n), "とても長い正解" * 200) for n in range(3)]
    place.run(rows=rows)

    report = place.run(rows=rows)

    assert report.comparison is not None
    assert report.comparison.differences["faithfulness"].pairs == 3
    assert report.comparison.references_changed == 0


def test_the_last_runs_of_the_name_and_all_names_are_listed() -> None:
    place = Place()
    for number in range(12):
        place.run(rows=table(1 + number % 2))
    place.run(name="", app_name="社内規程ボット")

    report = place.run()

    assert [summary.head.number for summary in report.past] == list(range(12, 2, -1))
    assert (report.past[0].total, report.past[1].total) == (2, 1)
    assert report.past[0].metrics["faithfulness"]["mean"] == 0.5
    assert [(name.name, name.app_name) for name in report.names] == [("", "社内規程ボット"), ("朝の評価", "")]


# --- repetitions ---


def test_repetitions_are_judged_each_for_itself() -> None:
    place = Place()

    report = place.run(rows=table(2), settings={"repeat": 3})

    assert place.calls() == 2 * 3 * CALLS_PER_ROW
    assert report.reused_rows == 0


def test_an_unchanged_run_with_repetitions_costs_nothing_and_keeps_what_each_was_given() -> None:
    flicker = iter([1, 0, 1, 1, 0, 1])
    place = Place(asked_judge=judge(**{"recall.parts": lambda _: parts(next(flicker))}))
    first = place.run(rows=table(2), settings={"repeat": 3})
    place.calls()

    second = place.run(rows=table(2), settings={"repeat": 3})

    assert place.calls() == 0
    of_first, of_second = (
        {record.key: record.score("context_recall") for record in report.records} for report in (first, second)
    )
    assert of_second == of_first
    assert set(of_first.values()) == {0.0, 1.0}


def test_the_same_question_twice_in_a_table_is_judged_twice() -> None:
    place = Place()

    place.run(rows=[*table(1), *table(1)])

    assert place.calls() == 2 * CALLS_PER_ROW


def test_its_own_name_means_the_run_before() -> None:
    place = Place()
    place.run()

    report = place.run(compare_with="朝の評価")

    assert report.compared_with == "朝の評価 #1"


def test_an_unfinished_run_is_passed_over_when_comparing() -> None:
    place = Place()
    place.run()
    place.values.kill_at(6)
    with pytest.raises(Killed):
        place.run(rows=table(2))
    place.values = place.values.after_restart()

    report = place.run()

    assert (report.number, report.compared_with) == (3, "朝の評価 #1")


def test_a_storage_that_fails_at_the_comparison_costs_no_more_than_that() -> None:
    place = Place()
    place.run()

    def fail(operation: str, key: str) -> None:
        if operation == "get" and key.endswith("/1/index/0"):
            raise ConnectionError("lost")

    place.values.before = fail

    outcome = place.run_anyhow()

    assert outcome.error is not None
    assert outcome.error.reason is Reason.STORAGE_FAILED
    assert (outcome.report.finished, outcome.report.comparison) == (True, None)
