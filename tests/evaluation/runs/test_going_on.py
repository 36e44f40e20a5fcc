"""Calls that stop, die, meet or come again: nothing is asked or judged twice, and nothing is lost."""

from collections.abc import Callable
from typing import Any

import pytest

from devhost.dify_side import Storage
from evaluation.errors import EvaluationError, Reason
from evaluation.golden.table import Row
from evaluation.judging.models import ModelIdentity
from evaluation.runs.app_events import AppAnswer
from evaluation.runs.records import RowRecord
from evaluation.runs.run import RunOutcome, run
from evaluation.runs.store import run_base
from evaluation.scorecard import FOUR
from tests.evaluation.fakes import ScriptedJudge, failing, parts
from tests.evaluation.runs.fakes import Killed, MemoryValues, answer
from tests.evaluation.runs.workspace import CALLS_PER_ROW, Bot, Place, judge, request, run_until, scores, table

BASE = run_base("朝の評価", "app-2")


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


def test_a_run_whose_time_was_up_goes_on_where_it_was() -> None:
    place = Place()
    run_until(place, 2)

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


def test_a_metric_that_failed_is_given_again_and_the_others_are_not_paid_for_twice() -> None:
    place = Place(asked_judge=judge(**{"recall.parts": failing(Reason.MODEL_ERROR)}))
    run_until(place, 2)
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
        {"settings": {"repeat": 2}},
    ],
)
def test_another_table_or_other_settings_begin_a_new_run(changes: dict[str, Any]) -> None:
    place = Place()
    run_until(place, 1)

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
