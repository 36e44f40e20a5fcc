"""A drafting between two calls: going on, drafts that never reached their table, two calls at once."""

import time

import pytest

from evaluation.errors import EvaluationError, Reason
from evaluation.golden.drafts.drafting import Drafter, DraftRequest, Progress
from evaluation.golden.drafts.state import DraftStore
from evaluation.golden.kept import KeptTables, table_key
from evaluation.storage import lock
from tests.evaluation.golden.drafts.fakes import judge, passages, sessions
from tests.evaluation.runs.fakes import MemoryValues

NAME = "規程の質問"
MIX = {"fact": 1.0}


def draft(values: MemoryValues, count: int = 4, *, max_calls: int = 200, name: str = NAME) -> Progress:
    """One call of the tool's core."""
    store = DraftStore(values, name, "u-1")
    progress = store.begin(count, MIX)
    try:
        tables = KeptTables(values)
        rows = tables.read(name).rows if tables.head(name) else ()
        request = DraftRequest(max_calls=max_calls, parallel=1)
        Drafter(request, passages(8), rows, sessions(judge()), store.save).run(progress)
        store.finish(progress)
    finally:
        store.release()
    return progress


def kept(values: MemoryValues, name: str = NAME) -> list[str]:
    return [row.row.question for row in KeptTables(values).read(name).rows]


def test_drafts_come_into_the_table_as_one_version() -> None:
    values = MemoryValues()
    draft(values)

    table = KeptTables(values).read(NAME)
    assert (table.version.number, table.version.action, table.version.by) == (1, "draft", "u-1")
    assert table.version.counts == {"draft": 4, "confirmed": 0, "off": 0}
    assert all(row.sources[0].quote for row in table.rows)


def test_the_same_asked_for_again_goes_on_and_another_begins_anew() -> None:
    values = MemoryValues()
    assert not draft(values, 4, max_calls=6).finished
    progress = draft(values, 4)

    assert (progress.made.kept, progress.finished, progress.calls) == (4, True, 12)
    assert len(set(kept(values))) == 4
    # What is finished is not gone on with: four more are made.
    assert draft(values, 4).made.kept == 4
    assert len(set(kept(values))) == 8


def test_another_number_begins_anew() -> None:
    values = MemoryValues()
    draft(values, 4, max_calls=6)

    assert draft(values, 3).made.kept == 3
    assert len(set(kept(values))) == 5


@pytest.mark.parametrize("operation", ["set", "get", "delete"])
def test_a_call_that_is_killed_anywhere_loses_no_draft_that_it_has_saved(operation: str) -> None:
    number, killed = 0, True
    while killed:
        number += 1
        values = MemoryValues()
        values.kill_at(number, operation)
        killed = False
        try:
            draft(values, 3)
        except BaseException:  # noqa: BLE001 - the process has ended
            killed = True
        later = values.after_restart()
        progress = draft(later, 3)
        assert progress.finished
        questions = kept(later)
        # All three, once each; those of a drafting that was finished before and not again.
        assert len(set(questions)) == len(questions)
        assert len(questions) in {3, 6}, (operation, number)
    assert number > 1


def test_one_call_at_a_time_drafts_for_a_table() -> None:
    values = MemoryValues()
    first = DraftStore(values, NAME)
    first.begin(4, MIX)

    with pytest.raises(EvaluationError) as caught:
        DraftStore(values, NAME).begin(4, MIX)

    assert caught.value.reason is Reason.DRAFTING_BUSY
    DraftStore(values, "別の表").begin(4, MIX)
    first.release()
    DraftStore(values, NAME).begin(4, MIX)


def test_who_was_taken_over_stops_at_its_next_save(monkeypatch: pytest.MonkeyPatch) -> None:
    values = MemoryValues()
    first = DraftStore(values, NAME)
    progress = first.begin(4, MIX)
    later = time.time() + lock.LOCK_SECONDS + 1
    with monkeypatch.context() as patch:
        patch.setattr(lock.time, "time", lambda: later)
        DraftStore(values, NAME).begin(4, MIX)
        with pytest.raises(EvaluationError) as caught:
            first.save(progress)
    assert caught.value.reason is Reason.DRAFTING_BUSY


@pytest.mark.parametrize("damage", [b"", b"{", b"x\x9c", b"[]", b'{"schema": 1}', b'{"schema": 9}'])
def test_a_progress_that_can_not_be_read_begins_anew(damage: bytes) -> None:
    values = MemoryValues()
    draft(values, 4, max_calls=6)
    values.set(f"{table_key(NAME)}/drafting", damage)

    assert draft(values, 4).made.kept == 4
    assert len(set(kept(values))) == 6
