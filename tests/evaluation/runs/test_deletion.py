"""Old runs go with all that they kept, as far as time and the storage allow; what is left is found by a later call."""

import json
import threading
import time
import zlib
from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest

from evaluation.runs import deletion as subject
from evaluation.runs.deletion import Deletion
from evaluation.runs.lock import RunLock
from evaluation.runs.records import SCHEMA
from evaluation.runs.store import LOCK, RunStore, run_base
from evaluation.storage.many import AT_A_TIME
from tests.evaluation.runs.fakes import MemoryValues, done, run_head, run_summary

BASE = run_base("朝の評価", "app-2")


def kept_run(values: MemoryValues, number: int, rows: int = 1, *, finished: bool = True) -> RunStore:
    """A run of that many judged rows with all that a run keeps; rows of different runs have different fingerprints."""
    runs = RunStore(values, BASE)
    oldest, _ = runs.numbers()
    runs.write_head(run_head(number, rows), oldest)
    records = [done(row, f"run{number}-{row}") for row in range(1, rows + 1)]
    for record in records:
        runs.write_row(number, record)
    runs.write_begun(number, rows)
    runs.write_index(number, records)
    runs.tell_seen(number, shown=True)
    runs.write_summary(run_summary(number, rows, finished=finished))
    return runs


def left(values: MemoryValues) -> list[int]:
    """The numbers of the runs of which anything is left."""
    places = {key.split("/")[2] for key in values.names() if key.startswith(BASE)}
    places |= {json.loads(values.get(key))["number"] for key in values.names() if key.startswith("scores/")}
    return sorted({int(place) for place in places if place != "head"})


def test_old_runs_are_deleted_with_all_that_they_kept() -> None:
    values = MemoryValues()
    for number in (1, 2, 3):
        runs = kept_run(values, number, 2)
    of_one = len(values.names()) // 3

    assert Deletion(runs).prune(3) == 3

    assert left(values) == [3]
    assert len(values.names()) == of_one + 1
    assert runs.numbers() == (3, 3)


def test_scores_taken_over_outlive_the_run_that_gave_them() -> None:
    values = MemoryValues()
    runs = kept_run(values, 1)
    runs.write_head(run_head(2))
    runs.write_row(2, replace(done(1, "run1-1"), reused=True))

    Deletion(runs).prune(2)

    found = runs.find_scores("run1-1", 1, 3)
    assert found is not None
    assert found.reused


def test_deleting_goes_on_where_it_was_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    values = MemoryValues()
    for number in range(1, 5):
        runs = kept_run(values, number, 3)
    seconds = iter(range(1000))
    monkeypatch.setattr(subject, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    monkeypatch.setattr(subject, "ROWS_AT_A_TIME", 1)

    # It looks at the clock before each run and each row: one run, and two rows of the next.
    assert Deletion(runs).prune(4, 7) == 2
    assert runs.head(2) is not None
    # It is no longer shown, nor compared with.
    assert runs.summary(2) is None
    assert runs.numbers()[0] == 2
    for _ in range(2):
        Deletion(runs).prune(4, 7)

    assert left(values) == [4]


@pytest.mark.parametrize("stubborn", ["summary", "1-1", "2-1", "index/0", "begun", "seen", "head", "scores"])
def test_what_could_not_be_deleted_is_tried_again_and_never_orphaned(stubborn: str) -> None:
    values = MemoryValues()
    for number in (1, 2):
        runs = kept_run(values, number, 2)

    def fail(operation: str, key: str) -> None:
        if operation == "delete" and (key == f"{BASE}/1/{stubborn}" or key.startswith(f"{stubborn}/run1-1")):
            raise ConnectionError("lost")

    values.before = fail
    assert Deletion(runs).prune(2) == 1
    assert 1 in left(values)
    values.before = lambda _operation, _key: None

    assert Deletion(runs).prune(2) == 2

    assert left(values) == [2]


def test_runs_that_are_gone_already_are_passed_over() -> None:
    values = MemoryValues()
    for number in (1, 3, 4):
        runs = kept_run(values, number)

    Deletion(runs).prune(4)

    assert left(values) == [4]


def test_rows_that_were_never_begun_are_not_looked_for() -> None:
    values = MemoryValues()
    runs = RunStore(values, BASE)
    runs.write_head(run_head(1, 2000))
    runs.write_row(1, done(1, "run1-1"))
    runs.write_head(run_head(2))
    asked: list[str] = []
    values.before = lambda operation, key: asked.append(key) if operation == "get" else None

    Deletion(runs).prune(2)

    assert left(values) == [2]
    # Of as many rows as are noted at once.
    assert len(asked) < 70


def test_a_run_of_before_schema_numbers_is_deleted_too() -> None:
    values = MemoryValues()
    runs = kept_run(values, 2)
    old = asdict(done(1, "old"))
    values.storage.set(runs.key(1, "1-1"), zlib.compress(json.dumps(old).encode()))
    values.storage.set(runs.key(1, "head"), json.dumps({"number": 1, "keys": ["1-1"], "finished": True}).encode())
    values.storage.set("scores/old", json.dumps(runs.place(1, "1-1")).encode())

    Deletion(runs).prune(2)

    assert left(values) == [2]


def test_a_run_of_a_later_version_is_left_alone() -> None:
    values = MemoryValues()
    runs = kept_run(values, 2)
    values.storage.set(runs.key(1, "head"), json.dumps({"schema": SCHEMA + 1}).encode())

    assert Deletion(runs).prune(2) == 1
    assert left(values) == [1, 2]


def test_a_run_of_a_later_version_stands_in_nobodys_way() -> None:
    values = MemoryValues()
    for number in range(1, 6):
        runs = kept_run(values, number)
    values.storage.set(runs.key(1, "head"), json.dumps({"schema": SCHEMA + 1}).encode())

    # Its number stays that of the oldest.
    assert Deletion(runs).prune(4) == 1
    assert left(values) == [1, 4, 5]
    deletion = Deletion(runs)
    assert deletion.free()
    assert (deletion.freed, left(values)) == ([4], [1, 5])


def test_a_run_of_an_earlier_schema_is_deleted_with_its_rows() -> None:
    values = MemoryValues()
    for number in (1, 2):
        runs = kept_run(values, number, 2)
    values.storage.set(runs.key(1, "head"), json.dumps({**runs.raw_head(1), "schema": SCHEMA - 1}).encode())

    assert Deletion(runs).prune(2) == 2
    assert left(values) == [2]


def test_a_run_that_is_worked_on_is_left_alone() -> None:
    values = MemoryValues()
    runs = kept_run(values, 1)
    lock = RunLock(values, runs.key(1, LOCK), 1)
    lock.take()

    assert Deletion(runs).prune(2) == 1
    assert Deletion(runs).free() is False
    lock.release()
    assert Deletion(runs).prune(2) == 2


# --- making room ---


def test_the_oldest_finished_run_makes_room() -> None:
    values = MemoryValues()
    for number in range(1, 5):
        runs = kept_run(values, number, finished=number != 1)
    deletion = Deletion(runs)
    deletion.spared = 2

    assert deletion.free() is True
    assert left(values) == [1, 2, 4]
    assert deletion.free() is True
    assert deletion.free() is False
    assert (left(values), deletion.freed) == ([1, 2], [3, 4])


def test_a_storage_that_fails_makes_no_room() -> None:
    values = MemoryValues()
    runs = kept_run(values, 1)

    def fail(operation: str, _key: str) -> None:
        if operation in {"get", "exist"}:
            raise ConnectionError("lost")

    values.before = fail

    assert Deletion(runs).free() is False


def test_deleting_looks_at_eight_rows_at_a_time() -> None:
    values = MemoryValues()
    runs = kept_run(values, 1, 64)

    running, most, lock = 0, 0, threading.Lock()

    def slow(_operation: str, _key: str) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.001)
        with lock:
            running -= 1

    values.before = slow
    Deletion(runs).prune(2)

    assert 4 <= most <= AT_A_TIME
