"""Calls that meet or come again: one joins another, an unseen result is shown, failed rows are tried again alone."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from evaluation.errors import EvaluationError, Reason
from evaluation.judging.clock import Deadline
from evaluation.judging.models import ModelIdentity
from evaluation.runs.app_events import AppAnswer
from evaluation.runs.records import RowRecord
from evaluation.runs.run import RunOutcome, run
from evaluation.runs.store import LOCK, RunStore, run_base
from evaluation.storage import lock as storage_lock
from tests.evaluation.fakes import failing, parts
from tests.evaluation.runs.fakes import Killed, ManualClock, MemoryValues, answer
from tests.evaluation.runs.workspace import (
    CALLS_PER_ROW,
    Bot,
    Place,
    failing_bot,
    judge,
    request,
    run_until,
    scores,
    table,
    unseen,
)

BASE = run_base("朝の評価", "app-2")


def reason_of(outcome: RunOutcome) -> Reason | None:
    return outcome.error.reason if outcome.error else None


# --- calls that meet ---


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    gate = threading.Event()
    yield gate
    gate.set()


class Call:
    """A call of evaluate_app in a thread of its own."""

    def __init__(self, place: Place, **changes: Any) -> None:
        self.outcome: RunOutcome | None = None
        self.error: EvaluationError | None = None
        self._thread = threading.Thread(target=self._run, args=(place, changes))
        self._thread.start()

    def _run(self, place: Place, changes: dict[str, Any]) -> None:
        try:
            self.outcome = place.run_anyhow(**changes)
        except EvaluationError as error:
            self.error = error

    def end(self) -> RunOutcome:
        self._thread.join(10)
        assert self.outcome is not None, self.error
        return self.outcome


def eventually(holds: Callable[[], object]) -> bool:
    until = time.monotonic() + 5
    while not holds() and time.monotonic() < until:
        time.sleep(0.002)
    return bool(holds())


def test_a_second_call_for_the_same_joins_the_first_and_gets_its_report(gate: threading.Event) -> None:
    # As after a stop in Dify, of which the plugin is not told: the first call runs on, unseen.
    place = Place(Bot(lambda _: answer(str(gate.wait(5)))))
    first = Call(place)
    assert eventually(lambda: place.bot.asked)
    second = Call(place)
    time.sleep(0.05)
    gate.set()

    reports = [call.end().report for call in (first, second)]

    assert [(report.number, report.finished) for report in reports] == [(1, True)] * 2
    assert scores(reports[0]) == scores(reports[1])
    assert second.end().how == "unseen"
    assert place.bot.asked.total() == 3
    assert place.calls() == 3 * CALLS_PER_ROW
    # Both have been seen: the next call is a new run.
    assert place.run().number == 2


def test_a_call_that_joined_one_that_stops_goes_on_itself(gate: threading.Event) -> None:
    def reply(record: RowRecord) -> AppAnswer:
        gate.wait(5)
        return answer(f"{record.question}の答え")

    place, clock = Place(Bot(reply)), ManualClock()
    first = Call(place, deadline=Deadline(240, clock))
    assert eventually(lambda: place.bot.asked)
    second = Call(place)
    time.sleep(0.05)
    # Time is up for the first call as soon as its row is done.
    clock.pass_by(234)
    gate.set()

    assert not first.end().report.finished
    report = second.end().report
    assert (report.number, report.finished) == (1, True)
    assert place.bot.asked == {"質問1": 1, "質問2": 1, "質問3": 1}


def test_a_call_that_joined_one_that_dies_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place()
    place.values.kill_at(7)
    with pytest.raises(Killed):
        place.run()
    place.values = MemoryValues(place.values.storage)
    # Its process is another one, so that only the silence tells.
    monkeypatch.setattr(storage_lock, "_PROCESS", "this one")
    monkeypatch.setattr(storage_lock, "LOCK_SECONDS", 0.3)

    report = place.run()

    assert (report.number, report.finished) == (1, True)
    assert place.bot.asked.total() <= 4


def test_a_call_whose_time_ends_before_the_other_one_is_told_and_the_next_is_shown_the_report(
    gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_lock, "RENEWAL_SECONDS", 0.01)
    place = Place(Bot(lambda record: answer(str(record.row == 1 or gate.wait(5)))))
    first = Call(place)
    store = RunStore(place.values, BASE)
    assert eventually(lambda: place.bot.asked.total() == 2 and store.read_row(1, "1-1"))
    time.sleep(0.05)

    with pytest.raises(EvaluationError) as caught:
        place.run(deadline=Deadline(0.2))

    assert caught.value.reason is Reason.RUN_BUSY
    assert caught.value.values == {"minutes": 1, "done": 1, "total": 3}
    gate.set()
    assert first.end().report.finished
    # Somebody came for it in vain: it is shown instead of being asked anew, and then counts as seen.
    outcome = place.run_anyhow()
    assert (outcome.how, outcome.report.number) == ("unseen", 1)
    assert place.bot.asked.total() == 3
    assert place.run_anyhow().how == "new"


@pytest.mark.parametrize(
    "changes",
    [
        {"rows": table(2)},
        {"settings": {"app_id": "app-3"}},
        {"settings": {"votes": 3}},
        {"fresh": True},
    ],
)
def test_a_call_for_anything_else_begins_a_run_of_its_own_beside_it(
    gate: threading.Event, changes: dict[str, Any]
) -> None:
    held = threading.Event()

    def reply(_: RowRecord) -> AppAnswer:
        if not held.is_set():
            held.set()
            gate.wait(5)
        return answer()

    place = Place(Bot(reply))
    first = Call(place)
    assert held.wait(5)

    report = place.run(**changes)
    gate.set()

    assert (report.number, report.finished) == (2, True)
    assert (first.end().report.number, first.end().report.finished) == (1, True)
    assert RunStore(place.values, BASE).numbers() == (1, 2)


def test_calls_for_the_same_that_begin_at_the_same_moment_ask_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # As when evaluate_app stands in an iteration that runs in parallel.
    monkeypatch.setattr(storage_lock, "SETTLING_SECONDS", 0.3)
    place = Place(Bot(lambda _: time.sleep(0.02) or answer()))

    reports = [call.end().report for call in [Call(place) for _ in range(6)]]

    assert {(report.number, report.finished) for report in reports} == {(1, True)}
    assert place.bot.asked.total() == 3


def test_calls_for_different_tables_that_begin_at_the_same_moment_all_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_lock, "SETTLING_SECONDS", 0.3)
    place = Place(Bot(lambda _: time.sleep(0.01) or answer()))

    reports = [call.end().report for call in [Call(place, rows=table(count)) for count in (1, 2, 3, 4)]]

    assert sorted(report.number for report in reports) == [1, 2, 3, 4]
    assert [report.total for report in reports] == [1, 2, 3, 4]
    assert all(report.finished for report in reports)


def test_a_run_that_another_call_has_taken_over_is_told_and_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # This process stood still for so long that another one has taken the run.
    monkeypatch.setattr(storage_lock, "RENEWAL_SECONDS", 0.01)
    place = Place()

    def reply(_: RowRecord) -> AppAnswer:
        place.values.set(f"{BASE}/1/{LOCK}", b'{"owner": "another", "at": %f, "done": 1}' % time.time())
        time.sleep(0.1)
        return answer()

    place.bot = Bot(reply)

    outcome = place.run_anyhow()

    assert reason_of(outcome) is Reason.RUN_TAKEN_OVER
    assert not [key for key in place.values.names() if "/index" in key or "/summary" in key]
    assert b"another" in place.values.get(f"{BASE}/1/{LOCK}")


# --- what nobody has seen ---


def test_a_run_that_was_finished_unseen_is_shown_instead_of_being_asked_anew() -> None:
    place = Place()
    lost = unseen(place).report

    shown = place.run_anyhow()

    assert (shown.how, shown.report.number) == ("unseen", 1)
    assert scores(shown.report) == scores(lost)
    assert [record.answer for record in shown.report.records] == [record.answer for record in lost.records]
    assert (place.bot.asked.total(), place.calls()) == (3, 3 * CALLS_PER_ROW)
    # Asking again is the next call's affair.
    assert place.run_anyhow().how == "new"


@pytest.mark.parametrize(
    "changes",
    [
        {"fresh": True},
        {"rows": table(2)},
        {"settings": {"app_id": "app-3"}},
        {"settings": {"judge": ModelIdentity("scripts", "another")}},
    ],
)
def test_asking_again_is_a_choice(changes: dict[str, Any]) -> None:
    place = Place()
    unseen(place)

    outcome = place.run_anyhow(**changes)

    assert (outcome.how, outcome.report.number) == ("new", 2)


def test_a_run_that_was_shown_unseen_again_is_shown_once_more() -> None:
    place = Place()
    unseen(place)
    unseen(place)

    assert place.run_anyhow().how == "unseen"
    assert place.bot.asked.total() == 3


def test_an_unfinished_run_counts_as_unseen_only_when_it_is_finished() -> None:
    place = Place()
    run_until(place, 2)

    assert place.run_anyhow().how == "go_on"
    assert place.run_anyhow().how == "new"


def test_a_fresh_run_that_stopped_is_gone_on_with_and_a_finished_one_begun_anew() -> None:
    place, clock = Place(), ManualClock()
    app = Bot(lambda _: clock.pass_by(234) or answer())
    run(request(fresh=True, deadline=Deadline(240, clock)), place.values, app, place.judge, None)

    outcomes = [place.run_anyhow(fresh=True) for _ in range(2)]

    assert [(outcome.how, outcome.report.number) for outcome in outcomes] == [("go_on", 1), ("new", 2)]
    assert place.run_anyhow().how == "new"


# --- failed rows again ---


def test_failed_rows_of_a_finished_run_are_asked_again_alone() -> None:
    place = Place(failing_bot(2))
    first = place.run()
    assert (first.failed_rows, first.statistics["faithfulness"].failed) == (1, 1)
    place.bot = Bot()
    place.calls()

    outcome = place.run_anyhow(retry_failed=True)

    assert (outcome.how, outcome.report.number, outcome.report.finished) == ("retry", 1, True)
    assert place.bot.asked == {"質問2": 1}
    assert place.calls() == CALLS_PER_ROW
    assert (outcome.report.failed_rows, outcome.report.statistics["faithfulness"].scored) == (0, 3)
    summary = RunStore(place.values, BASE).summary(1)
    assert summary is not None
    assert (summary.finished, summary.failed, summary.metrics["faithfulness"]["scored"]) == (True, 0, 3)


def test_metrics_that_failed_are_judged_again_alone() -> None:
    place = Place(asked_judge=judge(**{"recall.parts": failing(Reason.MODEL_ERROR)}))
    place.run()
    place.judge.replies["recall.parts"] = parts(1)
    place.calls()

    report = place.run(retry_failed=True)

    assert (place.bot.asked.total(), place.calls()) == (3, 3)
    assert (report.number, report.statistics["context_recall"].scored) == (1, 3)


def test_rows_that_fail_again_are_tried_again_as_often_as_wanted() -> None:
    place = Place(failing_bot(1, 3))

    assert place.run(retry_failed=True).failed_rows == 2
    assert place.run(retry_failed=True).failed_rows == 2
    assert place.bot.asked == {"質問1": 2, "質問2": 1, "質問3": 2}


def test_with_nothing_failed_the_report_is_shown_and_nothing_asked() -> None:
    place = Place()
    place.run()

    outcome = place.run_anyhow(retry_failed=True)

    assert (outcome.how, outcome.report.number, outcome.report.finished) == ("nothing_failed", 1, True)
    assert place.bot.asked.total() == 3


def test_a_first_run_with_it_is_an_ordinary_one() -> None:
    assert Place().run_anyhow(retry_failed=True).how == "new"


@pytest.mark.parametrize("changes", [{"rows": table(2)}, {"settings": {"votes": 3}}, {"settings": {"app_id": "app-3"}}])
def test_failed_rows_of_another_table_or_other_settings_can_not_be_tried_again_alone(changes: dict[str, Any]) -> None:
    place = Place(failing_bot(2))
    place.run()

    with pytest.raises(EvaluationError) as caught:
        place.run(retry_failed=True, **changes)

    assert caught.value.reason is Reason.RUN_CHANGED
    assert place.bot.asked.total() == 3


@pytest.mark.parametrize("schema", [1, 99])
def test_failed_rows_of_a_run_that_another_version_has_kept_can_not_be_tried_again_alone(schema: int) -> None:
    place = Place(failing_bot(2))
    place.run()
    store = RunStore(place.values, BASE)
    place.values.storage.set(store.key(1, "head"), json.dumps({**store.raw_head(1), "schema": schema}).encode())

    with pytest.raises(EvaluationError) as caught:
        place.run(retry_failed=True)

    assert caught.value.reason is Reason.RUN_CHANGED
    assert place.bot.asked.total() == 3


@pytest.mark.parametrize("again", [True, False])
def test_a_call_that_dies_while_rows_are_tried_again_is_gone_on_with(again: bool) -> None:
    place = Place(failing_bot(1, 2))
    place.run()
    place.bot = Bot()
    # The lock, the summary, then of the first row the answer, the scores and where they are.
    place.values.kill_at(6)
    with pytest.raises(Killed):
        place.run(retry_failed=True)
    place.values = place.values.after_restart()

    report = place.run(retry_failed=again)

    assert (report.number, report.finished, report.failed_rows) == (1, True, 0)
    assert place.bot.asked.total() <= 3
