import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from devhost.dify_side import Storage
from evaluation.errors import EvaluationError, Reason
from evaluation.golden.table import Row
from evaluation.judging.models import ModelIdentity
from evaluation.judging.places import Caller, Places
from evaluation.judging.prompts import prompt_versions
from evaluation.runs import run as run_module
from evaluation.runs import runner as runner_module
from evaluation.runs import store as store_module
from evaluation.runs.app_events import AppAnswer
from evaluation.runs.records import RowRecord
from evaluation.runs.run import RunRequest, run
from evaluation.runs.store import RunStore
from evaluation.runs.summary import RunReport
from evaluation.scorecard import FOUR
from tests.evaluation.fakes import ScriptedJudge, failing, parts, questions, statements, verdicts
from tests.evaluation.runs.fakes import Killed, ManualClock, MemoryValues, answer, settings

TWO = ("faithfulness", "context_recall")


def judge(**replies: Any) -> ScriptedJudge:
    """Faithfulness 1/2, context recall 1, context precision 1, answer relevancy 1."""
    return ScriptedJudge(
        **{
            "faithfulness.statements": statements("10日付与される", "当日申請できる"),
            "faithfulness.verdicts": verdicts(1, 0),
            "recall.parts": parts(1),
            "precision.chunk": {"reason": "理由", "verdict": 1},
            "relevancy.questions": questions("何日もらえますか"),
            "relevancy.grades": {"grades": [{"id": 1, "reason": "同じ", "grade": 3}]},
            **replies,
        }
    )


class Bot:
    """An app that answers each question in its own way.

    Attributes:
        asked: how often, by question.
    """

    def __init__(self, reply: Callable[[RowRecord], AppAnswer] | None = None) -> None:
        self.asked: Counter[str] = Counter()
        self._reply = reply or (lambda record: answer(f"{record.question}の答え"))

    def __call__(self, record: RowRecord) -> AppAnswer:
        self.asked[record.question] += 1
        return self._reply(record)


def table(count: int = 3, **changes: Any) -> list[Row]:
    return [Row(f"質問{n}", **{"reference": f"正解{n}", **changes}) for n in range(1, count + 1)]


def request(rows: list[Row] | None = None, **changes: Any) -> RunRequest:
    """A call for two of the metrics, one row after the other; `settings` are changes of the settings."""
    made = settings(**{"metrics": TWO, **changes.pop("settings", {})})
    fields = {"name": "朝の評価", "rows": table() if rows is None else rows, "concurrency": 1}
    return RunRequest(settings=made, **{**fields, **changes})


class Place:
    """A workspace: its storage, an app, a judge, and calls of evaluate_app one after the other."""

    def __init__(self, bot: Bot | None = None, asked_judge: ScriptedJudge | None = None) -> None:
        self.values = MemoryValues()
        self.bot = bot or Bot()
        self.judge = asked_judge or judge()
        self.places: Caller | None = None

    def run(self, **changes: Any) -> RunReport:
        report, error = self.run_anyhow(**changes)
        assert error is None
        return report

    def run_anyhow(self, **changes: Any) -> tuple[RunReport, EvaluationError | None]:
        return run(request(**changes), self.values, self.bot, self.judge, None, self.places)

    def calls(self) -> int:
        """How many judge calls there were since the last time."""
        count = len(self.judge.calls)
        self.judge.calls.clear()
        return count


def scores(report: RunReport) -> dict[str, float | None]:
    return {name: statistics.mean for name, statistics in report.statistics.items()}


CALLS_PER_ROW = 3

type EndedAfter = Callable[[Place, int], RunReport]


# --- one run ---


def test_a_run_reports_every_row_with_its_scores() -> None:
    place = Place()

    report = place.run(settings={"thresholds": {"faithfulness": 0.4}})

    assert (report.name, report.number, report.done, report.total, report.finished) == ("朝の評価", 1, 3, 3, True)
    assert scores(report) == {"faithfulness": 0.5, "context_recall": 1.0}
    assert report.passed is True
    assert report.comparison is None
    assert (report.compared_with, report.app_name) == ("", "app-2")
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


# --- going on ---


@pytest.fixture
def ended_after(monkeypatch: pytest.MonkeyPatch) -> EndedAfter:
    """A call whose time is up after that many rows."""

    def call(place: Place, done: int) -> RunReport:
        clock = ManualClock()

        def app(record: RowRecord) -> AppAnswer:
            # What is left is enough for scoring, but not for another row.
            clock.pass_by(235 if record.row == done else 0)
            return place.bot(record)

        with monkeypatch.context() as patched:
            patched.setattr(runner_module, "Clock", lambda: clock)
            report, error = run(request(), place.values, app, place.judge, None)
        assert error is None
        assert (report.done, report.finished) == (done, False)
        return report

    return call


def test_a_run_whose_time_was_up_goes_on_where_it_was(ended_after: EndedAfter) -> None:
    place = Place()
    ended_after(place, 2)

    report = place.run()

    assert (report.number, report.done, report.finished) == (1, 3, True)
    assert place.bot.asked == {"質問1": 1, "質問2": 1, "質問3": 1}
    assert place.calls() == 3 * CALLS_PER_ROW
    assert scores(report) == {"faithfulness": 0.5, "context_recall": 1.0}


def writes_of_a_whole_run() -> int:
    values, count = MemoryValues(), 0

    def before(operation: str, _key: str) -> None:
        nonlocal count
        count += operation == "set"

    values.before = before
    run(request(), values, Bot(), judge(), None)
    return count


def test_a_run_killed_at_any_write_goes_on_and_pays_for_no_more_than_one_row_twice() -> None:
    whole = Place().run()
    # The lock, the run's head and number; for each row its answer, its scores and where they are; the end.
    writes = writes_of_a_whole_run()
    assert writes == 3 + 3 * 3 + 1
    for number in range(1, writes + 1):
        place = Place()
        place.values.kill_at(number)
        with pytest.raises(Killed):
            place.run()
        place.values = place.values.after_restart()

        report = place.run()

        assert (report.number, report.finished) == (1, True)
        assert scores(report) == scores(whole)
        assert [record.answer for record in report.records] == [record.answer for record in whole.records]
        asked, judged = place.bot.asked.total(), place.calls() // CALLS_PER_ROW
        assert 3 <= asked <= 4, f"asked {asked} times when killed at write {number}"
        assert 3 <= judged <= 4, f"judged {judged} times when killed at write {number}"
        assert asked + judged <= 7


@pytest.mark.parametrize("call", range(1, 3 * CALLS_PER_ROW + 1))
def test_a_run_killed_while_judging_asks_no_question_again(call: int) -> None:
    calls = 0

    class Mortal(ScriptedJudge):
        def complete(self, system: str, user: str) -> Any:
            nonlocal calls
            calls += 1
            if calls == call:
                place.values.before = lambda _operation, _key: (_ for _ in ()).throw(Killed)
                raise Killed
            return super().complete(system, user)

    place = Place(asked_judge=Mortal(**judge().replies))
    with pytest.raises(Killed):
        place.run()
    place.values = place.values.after_restart()

    report = place.run()

    assert report.finished
    assert set(place.bot.asked.values()) == {1}
    # Its other two calls, at most, are made again.
    assert calls <= 3 * CALLS_PER_ROW + CALLS_PER_ROW


def test_a_run_killed_while_asking_asks_that_question_again_and_no_other() -> None:
    def reply(record: RowRecord) -> AppAnswer:
        if record.row == 2 and place.bot.asked[record.question] == 1:
            place.values.before = lambda _operation, _key: (_ for _ in ()).throw(Killed)
            raise Killed
        return answer()

    place = Place(Bot(reply))
    with pytest.raises(Killed):
        place.run()
    place.values = place.values.after_restart()

    report = place.run()

    assert report.finished
    assert place.bot.asked == {"質問1": 1, "質問2": 2, "質問3": 1}


def test_a_metric_that_failed_is_given_again_and_the_others_are_not_paid_for_twice(
    ended_after: EndedAfter,
) -> None:
    place = Place(asked_judge=judge(**{"recall.parts": failing(Reason.MODEL_ERROR)}))
    ended_after(place, 2)
    place.judge.replies["recall.parts"] = parts(1)
    place.calls()

    report = place.run()

    # One row in full, and of the other two the part that failed.
    assert place.calls() == CALLS_PER_ROW + 2
    assert place.bot.asked.total() == 3
    assert scores(report) == {"faithfulness": 0.5, "context_recall": 1.0}
    assert report.statistics["context_recall"].failed == 0
    # Both rounds are in the account.
    assert [record.usage["judge_calls"] for record in report.records] == [4, 4, 3]
    assert report.records[0].usage["price"] == pytest.approx(0.003, abs=1e-12)
    assert report.records[0].usage["currency"] == "USD"


def test_a_run_that_is_finished_begins_a_new_one() -> None:
    place = Place()

    numbers = [place.run().number for _ in range(3)]

    assert numbers == [1, 2, 3]
    assert place.bot.asked == {"質問1": 3, "質問2": 3, "質問3": 3}


def test_a_run_with_a_failed_row_is_finished() -> None:
    # Else the rows of a bot that has been changed since would stay those of before.
    def reply(record: RowRecord) -> AppAnswer:
        if record.row == 2:
            raise EvaluationError(Reason.APP_FAILED, text="落ちました")
        return answer()

    place = Place(Bot(reply))

    first, second = place.run(), place.run()

    assert (first.finished, first.failed_rows, first.number, second.number) == (True, 1, 1, 2)


@pytest.mark.parametrize(
    "changes",
    [
        {"rows": table(4)},
        {"rows": [*table(2), Row("質問3", "別の正解")]},
        {"rows": [*table(2), Row("質問3", "正解3", others={"部署": "総務"})]},
        {"settings": {"judge": ModelIdentity("scripts", "another", {"temperature": 0})}},
        {"settings": {"judge": ModelIdentity("elsewhere", "scripted", {"temperature": 0})}},
        {"settings": {"judge": ModelIdentity("scripts", "scripted", {"temperature": 1.5})}},
        {"settings": {"embedding_model": ModelIdentity("scripts", "e5")}},
        {"settings": {"app_id": "app-3"}},
        {"settings": {"inputs": {"部署": "総務"}}},
        {"settings": {"metrics": FOUR}},
        {"settings": {"options": {"depth": "standard", "question_count": 5}}},
        {"settings": {"thresholds": {"faithfulness": 0.5}}},
        {"settings": {"repeat": 2}},
    ],
)
def test_another_table_or_other_settings_begin_a_new_run(changes: dict[str, Any], ended_after: EndedAfter) -> None:
    place = Place()
    ended_after(place, 1)

    report = place.run(**changes)

    assert report.number == 2
    # An unfinished run is nothing to compare with.
    assert report.comparison is None


def test_a_head_without_rows_is_gone_on_with() -> None:
    place = Place()
    place.values.kill_at(4)
    with pytest.raises(Killed):
        place.run()
    place.values = place.values.after_restart()
    assert [name.split("/", 2)[2] for name in place.values.names()] == ["1/head", "head"]

    report = place.run()

    assert (report.number, report.finished) == (1, True)


def test_a_number_whose_head_is_lost_is_not_given_again() -> None:
    place = Place()
    place.run()
    place.values.storage.delete(next(name for name in place.values.names() if name.endswith("/1/head")))

    report = place.run()

    assert report.number == 2
    assert report.comparison is None


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
        if operation == "get" and key.endswith("/1/2-1"):
            raise ConnectionError("lost")

    place.values.before = fail

    report, error = place.run_anyhow()

    assert error is not None
    assert error.reason is Reason.STORAGE_FAILED
    assert (report.finished, report.comparison) == (True, None)


# --- keeping ---


def runs_kept(place: Place) -> list[int]:
    heads = [name.split("/")[2] for name in place.values.names() if name.count("/") == 3 and name.endswith("/head")]
    return sorted(map(int, heads))


@pytest.mark.parametrize(("keep", "kept"), [(None, [1, 2, 3, 4]), (3, [2, 3, 4]), (1, [4]), (9, [1, 2, 3, 4])])
def test_as_many_runs_are_kept_as_wanted(keep: int | None, kept: list[int]) -> None:
    place = Place()
    for _ in range(3):
        place.run()

    report = place.run(keep_runs=keep)

    assert runs_kept(place) == kept
    # Compared before it was deleted.
    assert report.compared_with == "朝の評価 #3"


def test_nothing_is_deleted_before_the_run_is_finished() -> None:
    place = Place()
    place.run()
    place.values.kill_at(9)
    with pytest.raises(Killed):
        place.run(keep_runs=1)

    assert runs_kept(place) == [1, 2]


def test_scores_that_were_taken_over_are_still_there_when_their_run_is_deleted() -> None:
    place = Place()
    for _ in range(4):
        place.run(keep_runs=1)

    assert place.calls() == 3 * CALLS_PER_ROW


# --- what goes wrong ---


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    gate = threading.Event()
    yield gate
    gate.set()


def test_a_second_call_under_the_name_is_told_and_changes_nothing(gate: threading.Event) -> None:
    place = Place(Bot(lambda _: answer(str(gate.wait(5)))))
    ended: list[RunReport] = []
    first = threading.Thread(target=lambda: ended.append(place.run()))
    first.start()
    while not place.bot.asked:
        time.sleep(0.002)

    with pytest.raises(EvaluationError) as caught:
        place.run()
    other = run(request(name="夜の評価", rows=[]), place.values, place.bot, place.judge, None)[0]
    gate.set()
    first.join(5)

    assert caught.value.reason is Reason.RUN_BUSY
    assert other.total == 0
    assert ended[0].finished
    assert place.bot.asked.total() == 3


def test_of_calls_that_begin_at_the_same_moment_one_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    # As when evaluate_app stands in an iteration that runs in parallel.
    monkeypatch.setattr(store_module, "LOCK_SETTLING_SECONDS", 0.6)
    place = Place(Bot(lambda _: time.sleep(0.1) or answer()))
    together = threading.Barrier(6)
    outcomes: list[str] = []

    def call() -> None:
        together.wait(5)
        try:
            outcomes.append(f"run {place.run().number}")
        except EvaluationError as error:
            outcomes.append(error.reason.value)

    threads = [threading.Thread(target=call) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)

    assert sorted(outcomes) == ["run 1", *["run_busy"] * 5]
    assert place.bot.asked.total() == 3


def test_the_name_is_free_after_a_run_and_after_one_that_broke() -> None:
    place = Place()
    place.run()
    RunStore(place.values, "朝の評価").lock()
    place.values = place.values.after_restart()

    def broken(operation: str, key: str) -> None:
        if operation == "set" and key.endswith("/head"):
            raise ConnectionError("lost")

    place.values.before = broken
    with pytest.raises(EvaluationError):
        place.run()

    assert not [name for name in place.values.names() if name.endswith("/lock")]


def test_a_storage_that_refuses_from_the_beginning_costs_nothing() -> None:
    place = Place()
    place.values = MemoryValues(Storage(limit=10))

    with pytest.raises(EvaluationError) as caught:
        place.run()

    assert caught.value.reason is Reason.STORAGE_FULL
    assert place.bot.asked == {}


def test_a_storage_that_fills_up_is_told_with_what_is_there_and_no_row_is_paid_for_twice() -> None:
    whole = Place()
    whole.run()
    needed = sum(map(len, whole.values.storage.snapshot().values()))
    place = Place()
    place.values = MemoryValues(Storage(limit=needed * 2 // 3))

    report, error = place.run_anyhow()

    assert error is not None
    assert error.reason is Reason.STORAGE_FULL
    assert 1 <= report.done < 3
    place.values = MemoryValues(place.values.storage)
    place.values.storage.limit = 10**6
    rest = place.run()
    assert (rest.number, rest.finished) == (1, True)
    assert place.bot.asked.total() == 3


def test_an_end_that_can_not_be_written_is_told_with_the_whole_report() -> None:
    place = Place()
    written: list[str] = []

    def full(operation: str, key: str) -> None:
        if operation == "set" and key.endswith("/1/head"):
            written.append(key)
            if len(written) == 2:
                raise OSError("save data failed: allocated size is greater than max storage size")

    place.values.before = full

    report, error = place.run_anyhow()

    assert error is not None
    assert error.reason is Reason.STORAGE_FULL
    assert report.finished
    # It is known to be finished at the next call, without asking again.
    place.values.before = lambda _operation, _key: None
    assert place.run().number == 1
    assert place.bot.asked.total() == 3


def test_a_wrong_key_of_the_judge_costs_one_answer_and_the_run_goes_on_with_it() -> None:
    broken = dict.fromkeys(("faithfulness.statements", "recall.parts"), failing(Reason.MODEL_UNAUTHORIZED))
    place = Place(asked_judge=judge(**broken))

    report, error = place.run_anyhow()

    assert error is not None
    assert error.reason is Reason.MODEL_UNAUTHORIZED
    assert (report.done, place.bot.asked.total()) == (0, 1)
    place.judge = judge()
    assert place.run().finished
    assert place.bot.asked.total() == 3


@pytest.mark.parametrize("killed", [False, True])
def test_a_run_to_compare_with_that_is_not_there_is_told_before_anything_is_asked(killed: bool) -> None:
    place = Place()
    if killed:
        place.values.kill_at(6)
        with pytest.raises(Killed):
            place.run(name="基準")
        place.values = place.values.after_restart()
    place.bot.asked.clear()

    with pytest.raises(EvaluationError) as caught:
        place.run(compare_with="基準")

    assert (caught.value.reason, caught.value.values) == (Reason.RUN_NOT_FOUND, {"run": "基準"})
    assert place.bot.asked == {}
    assert not [name for name in place.values.names() if name.endswith("/lock")]
