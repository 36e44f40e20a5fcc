"""How many runs are kept, and what becomes of a storage that is full."""

import pytest

from devhost.dify_side import Storage
from evaluation.errors import EvaluationError, Reason
from evaluation.runs.run import RunOutcome, run
from evaluation.runs.store import run_base
from tests.evaluation.fakes import failing, parts
from tests.evaluation.runs.fakes import Killed, MemoryValues
from tests.evaluation.runs.workspace import CALLS_PER_ROW, Place, judge, request, table

BASE = run_base("朝の評価", "app-2")
FULL = "save data failed: allocated size is greater than max storage size"


def runs_kept(place: Place, base: str = BASE) -> list[int]:
    """The numbers of the runs of which anything is left."""
    places = {key.split("/")[2] for key in place.values.names() if key.startswith(f"{base}/")}
    return sorted(int(number) for number in places - {"head"})


def size(place: Place) -> int:
    return sum(map(len, place.values.storage.snapshot().values()))


@pytest.mark.parametrize(("keep", "kept"), [(20, [1, 2, 3, 4]), (3, [2, 3, 4]), (1, [4]), (4, [1, 2, 3, 4])])
def test_as_many_runs_are_kept_as_wanted(keep: int, kept: list[int]) -> None:
    place = Place()
    for _ in range(3):
        place.run()

    report = place.run(keep_runs=keep)

    assert runs_kept(place) == kept
    # Compared before it was deleted.
    assert report.compared_with == "朝の評価 #3"


def test_twenty_runs_are_kept_when_nothing_else_is_wanted() -> None:
    place = Place()
    for _ in range(23):
        place.run(rows=table(1))

    assert runs_kept(place) == list(range(4, 24))


def test_runs_of_an_app_without_a_name_are_its_own() -> None:
    place = Place()
    for app in ("app-2", "app-3", "app-2"):
        place.run(name="", settings={"app_id": app}, keep_runs=1)

    assert runs_kept(place, run_base("", "app-2")) == [2]
    assert runs_kept(place, run_base("", "app-3")) == [1]


def test_old_runs_go_before_anything_is_written() -> None:
    place = Place()
    for _ in range(4):
        place.run()
    first_write: list[list[int]] = []

    def before(operation: str, _key: str) -> None:
        if operation == "set" and not first_write:
            first_write.append(runs_kept(place))

    place.values.before = before
    place.run(keep_runs=1)

    # The run to compare with is still there.
    assert first_write == [[4]]
    assert runs_kept(place) == [5]


def test_the_run_to_compare_with_is_there_until_the_run_is_finished() -> None:
    place = Place()
    for _ in range(2):
        place.run()
    place.values.kill_at(9)
    with pytest.raises(Killed):
        place.run(keep_runs=1)
    assert runs_kept(place) == [2, 3]
    place.values = place.values.after_restart()

    assert place.run(keep_runs=1).compared_with == "朝の評価 #2"
    assert runs_kept(place) == [3]


def test_scores_that_were_taken_over_are_still_there_when_their_run_is_deleted() -> None:
    place = Place()
    for _ in range(4):
        place.run(keep_runs=1)

    assert place.calls() == 3 * CALLS_PER_ROW


# --- a full storage ---


def reason_of(outcome: RunOutcome) -> Reason | None:
    return outcome.error.reason if outcome.error else None


def test_a_full_storage_is_left_by_keeping_fewer_runs() -> None:
    place = Place()
    for _ in range(4):
        place.run()
    # Not one byte is free.
    place.values.storage.limit = size(place)

    outcome = place.run_anyhow(keep_runs=1)

    assert (outcome.error, outcome.report.number, outcome.report.finished) == (None, 5, True)
    assert outcome.freed == []
    assert runs_kept(place) == [5]


def test_a_write_that_finds_no_room_frees_the_oldest_finished_runs_and_says_so() -> None:
    place = Place()
    for _ in range(4):
        place.run()
    # A refused write is there all the same, so that the same write would be taken at once: refused by its growth.
    place.values.storage.limit = size(place) + 10

    outcome = place.run_anyhow()

    assert (outcome.error, outcome.report.number, outcome.report.finished) == (None, 5, True)
    assert outcome.freed
    assert list(outcome.freed) == list(range(1, len(outcome.freed) + 1))
    assert runs_kept(place) == list(range(len(outcome.freed) + 1, 6))


def refusing(place: Place, names: int) -> list[str]:
    """The storage refuses each write while that many values or more are there; the keys refused."""
    refused: list[str] = []

    def before(operation: str, key: str) -> None:
        if operation == "set" and key not in place.values.names() and len(place.values.names()) >= names:
            refused.append(key)
            raise OSError(FULL)

    place.values.before = before
    return refused


def test_room_is_made_as_often_as_it_takes_and_the_run_at_work_is_spared() -> None:
    place = Place()
    for _ in range(3):
        place.run(rows=table(2), fresh=True)
    refused = refusing(place, len(place.values.names()))

    outcome = place.run_anyhow(rows=table(6), settings={"votes": 3})

    assert refused
    assert (outcome.error, outcome.report.finished) == (None, True)
    assert outcome.freed
    assert 4 in runs_kept(place)


def test_the_run_whose_failed_rows_are_tried_again_makes_no_room_for_itself() -> None:
    place = Place(asked_judge=judge(**{"recall.parts": failing(Reason.MODEL_ERROR)}))
    place.run()
    place.judge.replies["recall.parts"] = parts(1)
    refusing(place, 0)

    with pytest.raises(EvaluationError) as caught:
        place.run(retry_failed=True)

    assert caught.value.reason is Reason.STORAGE_FULL
    assert runs_kept(place) == [1]
    place.values = MemoryValues(place.values.storage)
    assert place.run(retry_failed=True).statistics["context_recall"].scored == 3


def test_nothing_is_freed_for_the_note_that_a_report_has_gone_out() -> None:
    place = Place()
    for _ in range(2):
        place.run()
    outcome = run(request(), place.values, place.bot, place.judge, None)
    refusing(place, 0)

    outcome.tell_seen()

    assert runs_kept(place) == [1, 2, 3]
    # Then it is shown once more.
    assert place.run_anyhow().how == "unseen"


def test_nothing_of_other_names_is_freed() -> None:
    place = Place()
    place.run(name="基準")
    refusing(place, len(place.values.names()))

    with pytest.raises(EvaluationError) as caught:
        place.run()

    assert caught.value.reason is Reason.STORAGE_FULL
    assert runs_kept(place, run_base("基準", "")) == [1]
    assert not [key for key in place.values.names() if key.endswith("/lock")]


def test_a_storage_that_is_full_of_the_run_itself_is_told_with_what_is_there() -> None:
    place = Place()
    refusing(place, 9)

    outcome = place.run_anyhow(rows=table(6))

    assert reason_of(outcome) is Reason.STORAGE_FULL
    assert 0 < outcome.report.done < 6
    place.values = MemoryValues(place.values.storage)
    assert place.run(rows=table(6)).number == 1
    assert place.bot.asked.total() <= 7


def test_room_is_made_by_one_of_many_writers() -> None:
    place = Place()
    for _ in range(3):
        place.run(rows=table(2), fresh=True)
    refusing(place, len(place.values.names()) + 6)

    outcome = place.run_anyhow(rows=table(12), concurrency=8, settings={"votes": 3})

    assert (outcome.error, outcome.report.finished) == (None, True)
    assert len(set(outcome.freed)) == len(outcome.freed)


def test_a_filled_storage_is_freed_and_used_again_many_times() -> None:
    place = Place()
    place.values = MemoryValues(Storage(limit=30_000))

    for _ in range(30):
        outcome = place.run_anyhow(rows=table(4), fresh=True)
        assert (outcome.error, outcome.report.finished) == (None, True)

    kept = runs_kept(place)
    assert 2 <= len(kept) < 12
    assert kept == list(range(31 - len(kept), 31))
    # Nothing of the runs that are gone is left.
    assert len([key for key in place.values.names() if key.startswith("scores/")]) == 4
