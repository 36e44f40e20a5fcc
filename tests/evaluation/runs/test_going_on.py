"""Calls that stop, die, meet or come again: nothing is asked or judged twice, and nothing is lost."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from devhost.dify_side import Storage
from evaluation.errors import EvaluationError, Reason
from evaluation.golden.table import Row
from evaluation.judging.clock import Deadline
from evaluation.judging.models import ModelIdentity
from evaluation.runs.app_events import AppAnswer
from evaluation.runs.records import RowRecord
from evaluation.runs.run import RunOutcome, run
from evaluation.runs.store import LOCK, RunStore, run_base
from evaluation.runs.summary import RunReport
from evaluation.scorecard import FOUR
from evaluation.storage import lock as lock_module
from evaluation.storage import lock as storage_lock
from tests.evaluation.fakes import ScriptedJudge, failing, parts
from tests.evaluation.runs.fakes import Killed, ManualClock, MemoryValues, answer
from tests.evaluation.runs.workspace import CALLS_PER_ROW, Bot, Place, judge, request, scores, table

BASE = run_base("朝の評価", "app-2")

type EndedAfter = Callable[[Place, int], RunReport]


def lose(place: Place, name: str) -> None:
    """Deletes the only key that ends with the name."""
    [key] = [key for key in place.values.names() if key.endswith(name)]
    place.values.storage.delete(key)


def fail(operation: str, ending: str, words: str = "lost") -> Callable[[str, str], None]:
    """A storage whose calls of that kind fail for keys that end so."""

    def before(called: str, key: str) -> None:
        if called == operation and key.endswith(ending):
            raise OSError(words)

    return before


FULL = "save data failed: allocated size is greater than max storage size"


# --- going on ---


@pytest.fixture
def ended_after() -> EndedAfter:
    """A call whose time is up after that many rows."""

    def call(place: Place, done: int) -> RunReport:
        clock = ManualClock()

        def app(record: RowRecord) -> AppAnswer:
            # What is left is enough for scoring and the report, but not for another row.
            clock.pass_by(234 if record.row == done else 0)
            return place.bot(record)

        outcome = run(request(deadline=Deadline(240, clock)), place.values, app, place.judge, None)
        assert outcome.error is None
        assert (outcome.report.done, outcome.report.finished) == (done, False)
        return outcome.report

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
    # The lock, the run's head, its number and name; for each row its answer, its scores and where they are; index and
    # summary.
    writes = writes_of_a_whole_run()
    assert writes == 4 + 3 * 3 + 2
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
    assert [name.removeprefix(BASE) for name in place.values.names()] == ["/1/head", "/head"]

    report = place.run()

    assert (report.number, report.finished) == (1, True)


def test_a_number_whose_head_is_lost_is_not_given_again() -> None:
    place = Place()
    place.run()
    lose(place, "/1/head")
    lose(place, "/1/summary")

    report = place.run()

    assert report.number == 2
    assert report.comparison is None


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
    monkeypatch.setattr(lock_module, "RENEWAL_SECONDS", 0.01)
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
    monkeypatch.setattr(lock_module, "RENEWAL_SECONDS", 0.01)
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


def unseen(place: Place, **changes: Any) -> RunOutcome:
    """A call whose output is lost: its process ended, or Dify no longer waited."""
    return run(request(**changes), place.values, place.bot, place.judge, None)


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


def test_an_unfinished_run_counts_as_unseen_only_when_it_is_finished(ended_after: EndedAfter) -> None:
    place = Place()
    ended_after(place, 2)

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


def failing_bot(*rows: int) -> Bot:
    def reply(record: RowRecord) -> AppAnswer:
        if record.row in rows:
            raise EvaluationError(Reason.APP_FAILED, text="落ちました")
        return answer(f"{record.question}の答え")

    return Bot(reply)


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


# --- what goes wrong ---


def reason_of(outcome: RunOutcome) -> Reason | None:
    return outcome.error.reason if outcome.error else None


def test_the_name_is_free_after_a_run_and_after_one_that_broke() -> None:
    place = Place()
    place.run()
    place.values.before = fail("set", "/head")
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
    sizes = {key: len(value) for key, value in whole.values.storage.snapshot().items()}
    place = Place()
    place.values = MemoryValues(Storage(limit=sum(size for key, size in sizes.items() if "/1/3-1" not in key) // 2))

    outcome = place.run_anyhow()

    assert reason_of(outcome) is Reason.STORAGE_FULL
    assert 1 <= outcome.report.done < 3
    place.values = MemoryValues(place.values.storage)
    place.values.storage.limit = 10**6
    rest = place.run()
    assert (rest.number, rest.finished) == (1, True)
    assert place.bot.asked.total() == 3


def test_an_end_that_can_not_be_written_is_told_with_the_whole_report() -> None:
    place = Place()
    place.values.before = fail("set", "/1/summary", FULL)

    outcome = place.run_anyhow()

    assert reason_of(outcome) is Reason.STORAGE_FULL
    assert outcome.report.finished
    # Its rows are there at the next call, without asking again.
    place.values.before = lambda _operation, _key: None
    assert place.run().number == 1
    assert place.bot.asked.total() == 3


def test_a_wrong_key_of_the_judge_costs_one_answer_and_the_run_goes_on_with_it() -> None:
    broken = dict.fromkeys(("faithfulness.statements", "recall.parts"), failing(Reason.MODEL_UNAUTHORIZED))
    place = Place(asked_judge=judge(**broken))

    outcome = place.run_anyhow()

    assert reason_of(outcome) is Reason.MODEL_UNAUTHORIZED
    assert (outcome.report.done, place.bot.asked.total()) == (0, 1)
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
