import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from devhost.dify_side import Storage
from evaluation.errors import EvaluationError, JudgeError, Reason
from evaluation.judging.clock import Deadline, spawn
from evaluation.judging.places import Caller, Places
from evaluation.runs import runner as runner_module
from evaluation.runs.app_events import AppAnswer
from evaluation.runs.lock import RunLock
from evaluation.runs.records import RowRecord
from evaluation.runs.runner import KEEPING_SECONDS, SHOWN_CHUNK_CHARACTERS, Runner
from evaluation.runs.store import BEGUN_AT_ONCE, RunStore
from tests.evaluation.runs.fakes import ManualClock, MemoryValues, answer, done, failed_metric, metric

NUMBER = 1
JUDGED = {"faithfulness": metric(0.5)}


def rows(count: int) -> list[RowRecord]:
    return [RowRecord(row, f"質問{row}") for row in range(1, count + 1)]


class Call:
    """One call of a runner with an app and a judge that do as they are told.

    Attributes:
        asked, scored: the rows, in the order in which they were.
        seconds: that judging was given, by row.
    """

    def __init__(
        self,
        records: Sequence[RowRecord],
        *,
        app: Callable[[RowRecord], AppAnswer] | None = None,
        judge: Callable[[RowRecord], dict[str, Any]] | None = None,
        values: MemoryValues | None = None,
        concurrency: int = 1,
        seconds: float = 240.0,
        places: Caller | None = None,
    ) -> None:
        self.records = records
        self.clock = ManualClock()
        self.values = values or MemoryValues()
        self.store = RunStore(self.values, "runs/run")
        self.lock = RunLock(self.values, self.store.key(NUMBER, "lock"), len(records))
        self.asked: list[int] = []
        self.scored: list[int] = []
        self.seconds: dict[int, float] = {}
        self._app = app or (lambda record: answer(f"回答{record.row}"))
        self._judge = judge or (lambda _: JUDGED)
        self._concurrency, self._seconds, self._places = concurrency, seconds, places

    def run(self) -> EvaluationError | None:
        self._runner = Runner(
            self.store,
            NUMBER,
            self._ask,
            self._score,
            lock=self.lock,
            concurrency=self._concurrency,
            deadline=Deadline(self._seconds, self.clock),
            places=self._places,
        )
        return self._runner.run(self.records)

    def ended(self) -> bool:
        return self._runner._left_behind

    def _ask(self, record: RowRecord) -> AppAnswer:
        self.asked.append(record.row)
        return self._app(record)

    def _score(self, record: RowRecord, seconds: float) -> None:
        self.scored.append(record.row)
        self.seconds[record.row] = seconds
        record.metrics, record.fingerprint = dict(self._judge(record)), f"f{record.row}"

    def states(self) -> list[str]:
        return [record.state for record in self.records]

    def kept(self) -> list[str | None]:
        """The rows' states in the storage."""
        kept = [self.store.read_row(NUMBER, record.key) for record in self.records]
        return [record and record.state for record in kept]


def fails(reason: Reason, **values: Any) -> Callable[[RowRecord], AppAnswer]:
    def app(_: RowRecord) -> AppAnswer:
        raise EvaluationError(reason, **values)

    return app


def reason_of(error: EvaluationError | None) -> Reason | None:
    return error.reason if error else None


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What a call hangs at; opened at the end, so that no thread outlives the test."""
    gate = threading.Event()
    yield gate
    gate.set()


def eventually(holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + 5
    while not holds() and time.monotonic() < until:
        time.sleep(0.002)
    return holds()


# --- the ordinary run ---


def test_every_row_is_asked_scored_and_kept() -> None:
    call = Call(rows(3))

    error = call.run()

    assert error is None
    assert call.asked == call.scored == [1, 2, 3]
    assert call.states() == call.kept() == ["done"] * 3
    assert [record.answer for record in call.records] == ["回答1", "回答2", "回答3"]
    assert [record.metrics for record in call.records] == [JUDGED] * 3
    assert call.records[0].contexts == [
        {"text": "有給休暇は10日", "title": "", "documents": []},
        {"text": "日当は2,000円", "title": "", "documents": []},
    ]
    assert call.records[0].app_tokens == 30


def test_the_answer_is_kept_before_it_is_scored() -> None:
    seen: list[str | None] = []
    call = Call(rows(1), judge=lambda _: seen.extend(call.kept()) or JUDGED)

    call.run()

    assert seen == ["answered"]


@pytest.mark.parametrize("concurrency", [1, 3])
def test_no_more_rows_run_at_the_same_time_than_wanted(concurrency: int) -> None:
    together = threading.Barrier(concurrency)
    running, most, lock = 0, 0, threading.Lock()

    def app(_: RowRecord) -> AppAnswer:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        together.wait(timeout=5)
        with lock:
            running -= 1
        return answer()

    call = Call(rows(3 * concurrency), app=app, concurrency=concurrency)

    call.run()

    assert most == concurrency
    assert call.states() == ["done"] * 3 * concurrency


def test_the_time_of_the_app_is_measured_for_each_row() -> None:
    call = Call(rows(2), app=lambda record: call.clock.pass_by(1.25 * record.row) or answer())

    call.run()

    assert [record.app_seconds for record in call.records] == [1.25, 2.5]


def test_long_chunks_are_whole_in_the_storage_and_short_in_memory() -> None:
    text = "あ" * (SHOWN_CHUNK_CHARACTERS + 1)
    judged: list[str] = []
    call = Call(
        rows(1),
        app=lambda _: answer("回答", text),
        judge=lambda record: judged.append(record.contexts[0]["text"]) or JUDGED,
    )

    call.run()

    assert judged == [text]
    assert call.records[0].contexts[0]["text"] == text[:-1]
    kept = call.store.read_row(NUMBER, "1-1")
    assert kept is not None
    assert kept.contexts[0]["text"] == text


# --- time ---


def test_no_row_is_begun_that_can_not_be_finished() -> None:
    call = Call(rows(9), app=lambda _: call.clock.pass_by(10) or answer(), seconds=35)

    error = call.run()

    # A row takes 10 s and is begun while 1.2 x 10 + 2 s are left: at 0, 10 and 20 s, not at 30 s.
    assert call.asked == [1, 2, 3]
    assert call.states() == ["done"] * 3 + ["open"] * 6
    assert error is None


def test_judging_must_end_in_time_to_keep_its_scores() -> None:
    call = Call(rows(1), app=lambda _: call.clock.pass_by(30) or answer(), seconds=100)

    call.run()

    assert call.seconds == {1: 70 - KEEPING_SECONDS}


def test_an_answer_that_comes_after_the_end_changes_nothing(gate: threading.Event) -> None:
    def app(_: RowRecord) -> AppAnswer:
        call.clock.pass_by(1000)
        gate.wait(5)
        return answer()

    threads = threading.active_count()
    call = Call(rows(2), app=app)

    error = call.run()
    gate.set()

    assert eventually(lambda: threading.active_count() == threads)
    assert error is None
    assert call.asked == [1]
    assert call.scored == []
    assert (call.states(), call.kept()) == (["open", "open"], [None, None])


def test_scores_that_come_after_the_end_change_nothing(gate: threading.Event) -> None:
    def judge(_: RowRecord) -> dict[str, Any]:
        call.clock.pass_by(1000)
        gate.wait(5)
        return JUDGED

    threads = threading.active_count()
    call = Call(rows(1), judge=judge)

    call.run()
    gate.set()

    assert eventually(lambda: threading.active_count() == threads)
    assert call.records[0].metrics == {}
    assert (call.states(), call.kept()) == (["answered"], ["answered"])


def test_a_write_that_is_under_way_at_the_end_is_waited_for() -> None:
    values = MemoryValues()

    def slow(operation: str, key: str) -> None:
        if operation == "set" and key.startswith("runs/") and call.scored:
            call.clock.pass_by(1000)
            time.sleep(0.1)

    values.before = slow
    call = Call(rows(1), values=values)

    call.run()

    assert call.states() == call.kept() == ["done"]


def test_a_write_that_hangs_does_not_hold_up_the_end(gate: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_module, "KEEPING_SECONDS", 0.1)
    values = MemoryValues()
    threads = threading.active_count()

    def hang(operation: str, _key: str) -> None:
        if operation == "set":
            call.clock.pass_by(1000)
            gate.wait(5)

    values.before = hang
    call = Call(rows(1), values=values)

    call.run()
    assert call.states() == ["open"]
    gate.set()

    assert eventually(lambda: threading.active_count() == threads)
    assert call.states() == ["open"]
    assert call.scored == []


@pytest.mark.parametrize(
    ("reason", "left", "state"),
    [
        # 240 s in all: a row that had 120 s, or for a passing failure 39 s, would not do better in another call.
        ("timeout", 100, "answered"),
        ("timeout", 130, "done"),
        ("rate_limited", 30, "answered"),
        ("model_unavailable", 30, "answered"),
        ("rate_limited", 50, "done"),
        ("model_error", 10, "done"),
    ],
)
def test_what_was_not_judged_for_want_of_time_is_judged_by_the_next_call(reason: str, left: float, state: str) -> None:
    metrics = {"faithfulness": metric(0.5), "context_recall": failed_metric(reason)}
    call = Call(rows(1), app=lambda _: call.clock.pass_by(240 - left) or answer(), judge=lambda _: metrics)

    call.run()

    assert call.states() == call.kept() == [state]
    # What was judged is not paid for again.
    assert list(call.records[0].metrics) == (["faithfulness"] if state == "answered" else list(metrics))


def test_an_answered_row_is_scored_without_being_asked_again() -> None:
    records = [RowRecord(1, "質問1", state="answered", answer="回答1"), *rows(2)[1:]]
    call = Call(records)

    call.run()

    assert call.asked == [2]
    assert call.scored == [1, 2]
    assert call.states() == ["done", "done"]


def test_rows_that_failed_in_an_earlier_call_are_tried_again_last() -> None:
    failed = RowRecord(1, "質問1", state="failed", app_reason="app_failed", app_message="落ちました")
    unjudged = done(2, metrics={"faithfulness": failed_metric("rate_limited")})
    call = Call([failed, unjudged, done(3), *rows(5)[3:]])

    call.run()

    assert call.asked == [4, 5, 1]
    assert call.scored == [4, 5, 1, 2]
    assert call.states() == ["done"] * 5
    assert (failed.app_reason, failed.app_message) == ("", "")


def test_a_row_that_failed_and_has_no_time_again_stays_as_it_was() -> None:
    unjudged = done(1, metrics={"faithfulness": failed_metric("timeout"), "context_recall": metric(1.0)})
    again = {"faithfulness": failed_metric("timeout"), "context_recall": metric(1.0)}
    call = Call([unjudged], judge=lambda _: again, seconds=10)

    call.run()

    assert call.scored == [1]
    assert call.states() == ["done"]
    assert call.records[0].metrics == again


# --- the app fails ---


def test_a_row_whose_app_fails_leaves_the_others_alone() -> None:
    def app(record: RowRecord) -> AppAnswer:
        if record.row == 7:
            raise EvaluationError(Reason.APP_FAILED, text="LLM ノードのエラー")
        return answer()

    call = Call(rows(10), app=app, concurrency=4)

    error = call.run()

    assert error is None
    assert call.states() == call.kept() == ["done"] * 6 + ["failed"] + ["done"] * 3
    assert (call.records[6].app_reason, call.records[6].app_message) == ("app_failed", "LLM ノードのエラー")
    assert 7 not in call.scored


@pytest.mark.parametrize("reason", [Reason.APP_NOT_FOUND, Reason.APP_NOT_PUBLISHED])
def test_an_app_that_can_not_be_called_at_all_ends_the_run(reason: Reason) -> None:
    call = Call(rows(5), app=fails(reason))

    error = call.run()

    assert reason_of(error) is reason
    assert call.asked == [1]
    assert (call.states(), call.kept()) == (["open"] * 5, [None] * 5)


def test_a_busy_dify_is_waited_out() -> None:
    refusals = iter([Reason.APP_UNAVAILABLE, Reason.APP_UNAVAILABLE])

    def app(_: RowRecord) -> AppAnswer:
        if reason := next(refusals, None):
            raise EvaluationError(reason)
        return answer()

    call = Call(rows(2), app=app)

    call.run()

    assert call.asked == [1, 1, 1, 2]
    assert call.states() == ["done", "done"]
    # Waits that double, with jitter of a fifth.
    assert [seconds / expected for seconds, expected in zip(call.clock.slept, [2, 4], strict=True)] == pytest.approx(
        [1, 1], abs=0.2
    )


def test_a_dify_that_stays_busy_fails_the_row_after_five_tries() -> None:
    call = Call(rows(1), app=fails(Reason.APP_UNAVAILABLE))

    error = call.run()

    assert call.asked == [1] * 5
    assert call.states() == ["failed"]
    assert call.records[0].app_reason == "app_unavailable"
    assert error is None


def test_a_dify_without_connections_is_waited_for_as_long_as_there_is_time() -> None:
    busy = iter([Reason.DIFY_BUSY] * 6)

    def app(_: RowRecord) -> AppAnswer:
        if reason := next(busy, None):
            raise EvaluationError(reason)
        return answer()

    call = Call(rows(2), app=app)

    error = call.run()

    assert call.asked == [1] * 7 + [2]
    assert call.states() == ["done", "done"]
    assert error is None
    # 2, 4, 8, 16, 30, 30 s, with jitter of a fifth.
    assert call.clock.slept == pytest.approx([2, 4, 8, 16, 30, 30], rel=0.2)


@pytest.mark.parametrize("seconds", [60, 240])
def test_a_row_for_which_dify_stays_busy_stays_open_and_the_run_says_why(seconds: float) -> None:
    def app(record: RowRecord) -> AppAnswer:
        if record.row == 2:
            raise EvaluationError(Reason.DIFY_BUSY)
        return answer()

    call = Call(rows(2), app=app, seconds=seconds)

    error = call.run()

    assert (call.states(), call.kept()) == (["done", "open"], ["done", None])
    assert reason_of(error) is Reason.DIFY_BUSY


def test_what_a_busy_dify_left_unjudged_is_judged_by_the_next_call() -> None:
    metrics = {"faithfulness": metric(0.5), "context_recall": failed_metric("dify_busy")}
    call = Call(rows(1), judge=lambda _: metrics)

    error = call.run()

    assert call.states() == call.kept() == ["answered"]
    assert list(call.records[0].metrics) == ["faithfulness"]
    assert reason_of(error) is Reason.DIFY_BUSY


@pytest.mark.parametrize("judged", [{}, {"faithfulness": metric(0.5)}])
@pytest.mark.parametrize("status", ["failed", "partial"])
def test_a_judge_without_quota_ends_the_run_and_what_it_still_gave_is_kept(judged: dict[str, Any], status: str) -> None:
    cut_off = metric(0.5 if status == "partial" else None, status, "quota_exhausted")
    call = Call(rows(5), judge=lambda _: {**judged, "context_precision": cut_off})

    error = call.run()

    assert reason_of(error) is Reason.QUOTA_EXHAUSTED
    assert call.asked == call.scored == [1]
    assert call.states() == ["answered", *["open"] * 4]
    assert call.records[0].metrics == judged


def test_an_app_whose_model_has_no_quota_left_ends_the_run() -> None:
    call = Call(rows(5), app=fails(Reason.APP_QUOTA_EXHAUSTED, text="Insufficient Balance"))

    error = call.run()

    assert reason_of(error) is Reason.APP_QUOTA_EXHAUSTED
    assert call.asked == [1]
    assert call.states() == ["open"] * 5


def test_a_row_waits_for_its_place_without_losing_the_apps_time() -> None:
    places = Places().run(1)
    turns = places.row("another")
    assert turns.acquire(timeout=0.0)
    call = Call(rows(1), places=places, seconds=40)
    running = spawn(call.run)
    assert eventually(lambda: bool(places.places._waiting))
    # More than half of the call.
    call.clock.pass_by(25)
    turns.release()

    assert running.result(5) is None
    assert call.states() == ["done"]
    assert call.records[0].app_seconds == 0.0
    assert places.in_use == 0


def test_a_row_that_gets_no_place_in_time_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_module, "SPARE_SECONDS", 0.0)
    places = Places().run(1)
    assert places.row("another").acquire(timeout=0.0)
    call = Call(rows(2), places=places, seconds=0.1)

    error = call.run()

    assert (call.asked, call.states(), error) == ([], ["open"] * 2, None)


def test_an_app_that_is_left_behind_keeps_its_place_until_it_ends(gate: threading.Event) -> None:
    places = Places().run()

    def app(_: RowRecord) -> AppAnswer:
        gate.wait(5)
        return answer()

    call = Call(rows(1), app=app, places=places)
    running = spawn(call.run)
    assert eventually(lambda: places.apps == 1)
    call.clock.pass_by(300)
    running.result(5)

    assert (places.apps, places.in_use) == (1, 1)
    gate.set()
    assert eventually(lambda: places.in_use == 0)


def test_an_app_whose_own_model_stays_busy_has_failed_in_its_own_words() -> None:
    call = Call(rows(1), app=fails(Reason.APP_UNAVAILABLE, text="Rate Limit Error"))

    call.run()

    assert call.asked == [1] * 5
    assert (call.records[0].app_reason, call.records[0].app_message) == ("app_failed", "Rate Limit Error")


def test_a_row_that_a_busy_dify_leaves_no_time_for_stays_open() -> None:
    def app(record: RowRecord) -> AppAnswer:
        if record.row == 4:
            raise EvaluationError(Reason.APP_UNAVAILABLE)
        call.clock.pass_by(40 if record.row == 3 else 1)
        return answer()

    call = Call(rows(4), app=app, seconds=60)

    call.run()

    assert call.states() == ["done", "done", "done", "open"]
    assert call.kept()[3] is None


def test_an_app_that_streams_without_end_fails_its_row_only(
    gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_module, "APP_SECONDS", 0.5)

    def app(record: RowRecord) -> AppAnswer:
        if record.row == 1:
            gate.wait(5)
        return answer()

    call = Call(rows(2), app=app)

    call.run()

    assert call.states() == call.kept() == ["failed", "done"]
    assert call.records[0].app_reason == "timeout"


@pytest.mark.parametrize(
    ("seconds", "left", "state"),
    [
        # Half of the call, at most 120 s. A row that no call can finish must not stay open for ever.
        (60, 60, "failed"),
        (60, 29, "open"),
        (540, 130, "failed"),
        (540, 110, "open"),
    ],
)
def test_an_app_that_had_enough_time_has_failed_and_one_cut_off_by_the_end_is_asked_again(
    seconds: float, left: float, state: str
) -> None:
    def app(record: RowRecord) -> AppAnswer:
        if record.row < 4:
            call.clock.pass_by((seconds - left) if record.row == 3 else 0)
            return answer()
        raise JudgeError(Reason.TIMEOUT)

    call = Call(rows(4), app=app, seconds=seconds)

    call.run()

    assert call.states() == ["done", "done", "done", state]
    assert call.records[3].app_reason == ("timeout" if state == "failed" else "")
    # Only where more would be had by raising the time limit.
    assert call.records[3].app_message == ("30" if seconds == 60 and state == "failed" else "")


# --- the unexpected ---


class LeakError(Exception):
    pass


def test_an_unexpected_error_is_told_as_such_and_fails_its_row_only(caplog: pytest.LogCaptureFixture) -> None:
    def judge(record: RowRecord) -> dict[str, Any]:
        if record.row == 2:
            raise LeakError("sk-秘密")
        return JUDGED

    def app(record: RowRecord) -> AppAnswer:
        if record.row == 3:
            raise LeakError("sk-秘密")
        return answer()

    call = Call(rows(4), app=app, judge=judge)

    with caplog.at_level(logging.ERROR):
        error = call.run()

    assert error is None
    assert call.states() == call.kept() == ["done", "failed", "failed", "done"]
    assert [record.app_reason for record in call.records] == ["", "internal_error", "internal_error", ""]
    # What has been paid for is kept, and only scored again.
    assert [record.answer for record in call.records] == ["10日です", "10日です", "", "10日です"]
    again = Call([call.store.read_row(NUMBER, record.key) or record for record in call.records], values=call.values)
    again.run()
    assert (again.asked, again.scored) == ([3], [2, 3])
    assert again.states() == again.kept() == ["done"] * 4
    assert [record.app_reason for record in again.records] == [""] * 4
    assert [entry.getMessage().split(": LeakError in")[0] for entry in caplog.records] == [
        "row 2-1 failed unexpectedly",
        "row 3-1 failed unexpectedly",
    ]
    assert "sk-" not in "".join(entry.getMessage() for entry in caplog.records)


def test_what_can_not_be_kept_fails_its_row_only() -> None:
    call = Call(rows(2), judge=lambda record: {"faithfulness": metric(float("nan"))} if record.row == 1 else JUDGED)

    call.run()

    assert call.states() == ["failed", "done"]
    assert call.kept() == ["failed", "done"]


@pytest.mark.parametrize("reason", ["model_unauthorized", "model_not_found"])
def test_a_judge_that_can_not_be_called_at_all_ends_the_run(reason: str) -> None:
    metrics = {
        "faithfulness": failed_metric(reason),
        "answer_relevancy": failed_metric(reason),
        # Without a reference or without chunks nobody is asked.
        "context_precision": metric(None, "not_applicable", "no_reference"),
        "context_recall": metric(0.0, "scored", "no_contexts"),
    }
    call = Call(rows(5), judge=lambda _: metrics)

    error = call.run()

    assert reason_of(error) == reason
    assert call.asked == [1]
    # The answer is there when the judge can be asked.
    assert call.states() == ["answered", *["open"] * 4]
    assert call.kept() == ["answered", *[None] * 4]
    assert call.records[0].metrics == {}


@pytest.mark.parametrize(
    "metrics",
    [
        # An embedding model that can't be called, a judge that refuses once.
        {"faithfulness": metric(0.5), "answer_relevancy": failed_metric("model_unauthorized")},
        {"faithfulness": failed_metric("judge_refused"), "context_recall": failed_metric("judge_refused")},
        {"faithfulness": metric(None, "not_applicable", "no_claims")},
    ],
)
def test_a_judge_that_can_not_judge_one_thing_does_not_end_the_run(metrics: dict[str, Any]) -> None:
    call = Call(rows(3), judge=lambda _: metrics)

    error = call.run()

    assert error is None
    assert call.states() == ["done"] * 3


def test_a_full_storage_ends_the_run_with_what_is_there() -> None:
    call = Call(rows(5), values=MemoryValues(Storage(limit=10)))

    error = call.run()

    assert reason_of(error) is Reason.STORAGE_FULL
    assert call.asked == [1]
    # Reported now, and there at the next call: Dify has written what it refused.
    assert call.states() == ["done", *["open"] * 4]
    assert call.kept() == ["done", *[None] * 4]


# --- the lock and the rows that may be kept ---


def test_a_run_that_another_call_has_taken_over_ends_and_keeps_nothing_more() -> None:
    def app(record: RowRecord) -> AppAnswer:
        if record.row == 2:
            call.lock.lost.set()
            assert eventually(call.ended)
        return answer()

    call = Call(rows(3), app=app)

    error = call.run()

    assert reason_of(error) is Reason.RUN_TAKEN_OVER
    assert call.kept() == ["done", None, None]


def test_the_lock_says_how_far_the_run_is(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    call = Call(rows(3), app=lambda _: time.sleep(0.05) or answer())
    monkeypatch.setattr(call.lock, "tell", told.append)

    call.run()

    assert {0, 1, 2} <= set(told) <= {0, 1, 2, 3}


def test_rows_are_noted_as_begun_before_they_are_asked_some_at_a_time() -> None:
    count = 2 * BEGUN_AT_ONCE + 1
    noted: list[int] = []

    def app(record: RowRecord) -> AppAnswer:
        noted.append(call.store.begun(NUMBER))
        assert record.row <= noted[-1]
        return answer()

    call = Call(rows(count), app=app)

    call.run()

    assert call.states() == ["done"] * count
    assert sorted(set(noted)) == [BEGUN_AT_ONCE, 2 * BEGUN_AT_ONCE, 3 * BEGUN_AT_ONCE]


def test_a_note_that_storage_refuses_ends_the_run_before_its_rows_are_asked() -> None:
    def full(operation: str, key: str) -> None:
        if operation == "set" and key.endswith("/begun"):
            raise OSError("save data failed: allocated size is greater than max storage size")

    call = Call(rows(BEGUN_AT_ONCE + 2))
    call.values.before = full

    assert reason_of(call.run()) is Reason.STORAGE_FULL
    assert call.asked == list(range(1, BEGUN_AT_ONCE + 1))
