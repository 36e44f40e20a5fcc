import random
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from devhost.dify_side import Storage
from evaluation.errors import EvaluationError, Reason
from evaluation.runs import store
from evaluation.runs.records import RowRecord
from evaluation.runs.store import LOCK_SECONDS, MAX_VALUE_BYTES, RunHead, RunStore
from tests.evaluation.runs.fakes import MemoryValues, done, failed_metric, metric, settings

FULL = "save data failed: allocated size is greater than max storage size"


def head(number: int = 1, rows: int = 1, **changes: Any) -> RunHead:
    keys = tuple(f"{row}-1" for row in range(1, rows + 1))
    return RunHead(
        number, "2026-11-30T09:00:00+00:00", settings(thresholds={"faithfulness": 0.7}), "t", keys, **changes
    )


def kept_run(values: MemoryValues, number: int, rows: int = 1, name: str = "朝の評価") -> RunStore:
    """A run of that many finished rows; rows of different runs have different fingerprints."""
    runs = RunStore(values, name)
    runs.write_head(head(number, rows))
    for row in range(1, rows + 1):
        runs.write_row(number, done(row, f"run{number}-{row}"))
    return runs


def refused(call: Callable[[], object]) -> Reason:
    with pytest.raises(EvaluationError) as caught:
        call()
    return caught.value.reason


# --- heads and rows ---


def test_a_head_comes_back_as_it_was_written() -> None:
    runs = RunStore(MemoryValues(), "朝の評価")

    runs.write_head(head(3, 2, finished=True))

    assert runs.newest_number() == 3
    assert runs.head(3) == head(3, 2, finished=True)
    assert runs.head(2) is None


def test_finishing_an_older_run_does_not_make_it_the_newest() -> None:
    runs = RunStore(MemoryValues(), "朝の評価")

    runs.write_head(head(2))
    runs.write_head(head(1, finished=True))

    assert runs.newest_number() == 2


def test_a_name_without_runs_has_none() -> None:
    runs = RunStore(MemoryValues(), "朝の評価")

    assert runs.newest_number() == 0
    assert runs.head(1) is None
    assert runs.read_row(1, "1-1") is None
    assert list(runs.read_rows(head())) == []


def test_runs_of_different_names_do_not_meet() -> None:
    values = MemoryValues()
    kept_run(values, 4, name="朝の評価")

    assert RunStore(values, "夜の評価").newest_number() == 0
    assert RunStore(values, "朝の評価").newest_number() == 4


@pytest.mark.parametrize("name", ["x" * 10_000, "評価" * 500, "../../etc", "a/b\n\0", "  ", "🌞\ud83d"])
def test_any_name_gives_keys_that_dify_takes(name: str) -> None:
    values = MemoryValues()

    kept_run(values, 1, name=name)

    assert max(len(key.encode()) for key in values.names()) < 200
    assert [record.key for record in RunStore(values, name).read_rows(head())] == ["1-1"]


def test_each_row_has_a_key_of_its_own() -> None:
    values = MemoryValues()
    written: list[str] = []
    values.before = lambda operation, key: written.append(key) if operation == "set" else None
    runs = RunStore(values, "朝の評価")

    for row in range(1, 21):
        runs.write_row(1, done(row, f"f{row}"))

    # One for the row, one for its scores, and none that two rows write.
    assert len(written) == len(set(written)) == 40
    assert {record.row for record in runs.read_rows(head(1, 20))} == set(range(1, 21))


@pytest.mark.parametrize("damage", [b"", b"not packed", b"{}"])
def test_a_damaged_row_counts_as_not_there(damage: bytes) -> None:
    values = MemoryValues()
    runs = kept_run(values, 1, 2)
    values.storage.set(next(key for key in values.names() if key.endswith("/1-1")), damage)

    assert [record.key for record in runs.read_rows(head(1, 2))] == ["2-1"]


@pytest.mark.parametrize("damage", [b"", b"[]", b"{", b'{"settings": 1}', b'{"settings": {}, "keys": []}'])
def test_a_damaged_head_counts_as_not_there_and_its_number_stays_taken(damage: bytes) -> None:
    values = MemoryValues()
    runs = kept_run(values, 2)
    values.storage.set(next(key for key in values.names() if key.endswith("/2/head")), damage)

    assert runs.head(2) is None
    assert runs.newest_number() == 2


def test_settings_of_a_newer_version_are_read_as_far_as_they_are_known() -> None:
    values = MemoryValues()
    runs = kept_run(values, 1)
    key = next(key for key in values.names() if key.endswith("/1/head"))
    values.storage.set(key, values.get(key).replace(b'"app_id"', b'"mood": 1, "app_id"'))

    assert runs.head(1) == head()


def test_a_storage_that_fails_does_not_look_empty() -> None:
    values = MemoryValues()
    runs = kept_run(values, 1)

    def fail(operation: str, _key: str) -> None:
        if operation == "get":
            raise ConnectionError("lost")

    values.before = fail

    assert refused(runs.newest_number) is Reason.STORAGE_FAILED
    assert refused(lambda: runs.read_row(1, "1-1")) is Reason.STORAGE_FAILED
    assert refused(runs.lock) is Reason.STORAGE_FAILED
    # Scores can be given anew.
    assert runs.find_scores("run1-1") is None


# --- size ---


def test_a_full_storage_is_told_and_the_value_may_be_there() -> None:
    values = MemoryValues(Storage(limit=10))
    runs = RunStore(values, "朝の評価")

    assert refused(lambda: runs.write_row(1, done())) is Reason.STORAGE_FULL
    assert runs.read_row(1, "1-1") == done()


def test_another_refusal_is_told_apart_from_a_full_storage() -> None:
    values = MemoryValues()

    def fail(operation: str, _key: str) -> None:
        if operation == "set":
            raise PermissionError("permission denied")

    values.before = fail

    assert refused(lambda: RunStore(values, "朝の評価").write_head(head())) is Reason.STORAGE_FAILED


def long_text(characters: int, seed: int = 0) -> str:
    """Text that can't be packed well."""
    return "".join(map(chr, random.Random(seed).choices(range(0x4E00, 0x9FFF), k=characters)))


def large(chunks: int, characters: int, **changes: Any) -> RowRecord:
    contexts = [
        {"text": long_text(characters, seed), "title": "規程.md", "documents": ["規程.md"]} for seed in range(chunks)
    ]
    return done(contexts=contexts, **changes)


@pytest.mark.parametrize(("chunks", "limit"), [(3, 90_000), (400, 90_000), (4_000, MAX_VALUE_BYTES)])
def test_a_record_that_is_too_large_is_cut_to_what_goes_through_in_one_line(
    monkeypatch: pytest.MonkeyPatch, chunks: int, limit: int
) -> None:
    monkeypatch.setattr(store, "MAX_VALUE_BYTES", limit)
    values = MemoryValues()
    runs = RunStore(values, "朝の評価")
    claims = [{"id": n, "text": long_text(200, n), "verdict": 1} for n in range(200)]
    metrics = {name: metric(0.5, claims=claims) for name in ("faithfulness", "context_recall")}
    record = large(chunks, limit * 2 // 3 // chunks, answer=long_text(limit // 10), metrics=metrics)

    runs.write_row(1, record)

    assert max(map(len, values.storage.snapshot().values())) <= limit
    kept = runs.read_row(1, "1-1")
    assert kept is not None
    assert (kept.state, kept.question, kept.fingerprint) == ("done", record.question, record.fingerprint)
    assert {name: kept.score(name) for name in metrics} == {"faithfulness": 0.5, "context_recall": 0.5}
    assert len(record.as_json()) > len(kept.as_json())
    for cut, whole in zip(kept.contexts, record.contexts, strict=False):
        assert cut["text"] == whole["text"] or (cut["text"][-1] == "…" and whole["text"].startswith(cut["text"][:-1]))


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "answered", "metrics": {}},
        {"state": "done", "metrics": {"faithfulness": failed_metric("timeout")}},
    ],
)
def test_what_is_still_to_be_judged_is_never_kept_cut(monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]) -> None:
    # Scores of half of a chunk would be taken for those of the whole.
    monkeypatch.setattr(store, "MAX_VALUE_BYTES", 90_000)
    runs = RunStore(MemoryValues(), "朝の評価")

    runs.write_row(1, replace(large(3, 20_000), **changes))

    kept = runs.read_row(1, "1-1")
    assert kept is not None
    assert (kept.state, kept.answer, kept.contexts, kept.metrics) == ("open", "", [], {})


def test_an_ordinary_record_is_kept_whole() -> None:
    runs = RunStore(MemoryValues(), "朝の評価")
    record = large(20, 800)

    runs.write_row(1, record)

    assert runs.read_row(1, "1-1") == record


# --- scores ---


def test_scores_are_found_by_their_fingerprint_from_any_run() -> None:
    values = MemoryValues()
    kept_run(values, 1, 2)

    found = RunStore(values, "夜の評価").find_scores("run1-2")

    assert found == done(2, "run1-2")
    assert RunStore(values, "夜の評価").find_scores("run1-3") is None


@pytest.mark.parametrize(
    "record",
    [
        done(fingerprint="f1", metrics={"faithfulness": failed_metric("rate_limited")}),
        replace(done(fingerprint="f1"), state="answered", metrics={}),
        replace(done(fingerprint="f1"), state="failed", app_reason="app_failed"),
    ],
)
def test_scores_of_a_row_that_is_not_judged_are_not_found(record: RowRecord) -> None:
    runs = RunStore(MemoryValues(), "朝の評価")

    runs.write_row(1, record)

    assert runs.find_scores("f1") is None


def test_scores_whose_row_has_others_now_are_not_found() -> None:
    runs = RunStore(MemoryValues(), "朝の評価")
    runs.write_row(1, done(fingerprint="f1"))

    runs.write_row(1, done(fingerprint="f2"))

    assert runs.find_scores("f1") is None
    assert runs.find_scores("f2") == done(fingerprint="f2")


def test_scores_taken_over_outlive_the_run_that_gave_them() -> None:
    values = MemoryValues()
    runs = kept_run(values, 1)
    runs.write_head(head(2))
    runs.write_row(2, replace(done(1, "run1-1"), reused=True))

    runs.delete_before(2)

    found = runs.find_scores("run1-1")
    assert found is not None
    assert found.reused


# --- deleting ---


def test_old_runs_are_deleted_with_all_that_they_kept() -> None:
    values = MemoryValues()
    for number in (1, 2, 3):
        runs = kept_run(values, number, 2)

    runs.delete_before(3)

    assert [runs.head(number) is not None for number in (1, 2, 3)] == [False, False, True]
    left = [key.split("/", 2)[-1] for key in values.names() if key.startswith("runs/")]
    assert left == ["3/1-1", "3/2-1", "3/head", "head"]
    assert [key for key in values.names() if key.startswith("scores/")] == ["scores/run3-1", "scores/run3-2"]
    assert runs.newest_number() == 3


def test_deleting_goes_on_where_it_was_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    values = MemoryValues()
    for number in range(1, 7):
        runs = kept_run(values, number, 3)
    seconds = iter(range(1000))
    monkeypatch.setattr(store.time, "monotonic", lambda: next(seconds))
    monkeypatch.setattr(store, "DELETING_SECONDS", 5)

    runs.delete_before(5)
    # 5 seconds, one a row: one run and two rows of the next.
    assert [runs.head(number) is not None for number in range(1, 7)] == [False, *[True] * 5]
    for _ in range(3):
        runs.delete_before(5)

    assert [runs.head(number) is not None for number in range(1, 7)] == [*[False] * 4, True, True]
    assert len(values.names()) == 1 + 2 * (1 + 3 + 3)


def test_runs_that_are_gone_already_are_passed_over() -> None:
    values = MemoryValues()
    for number in (1, 3, 4):
        runs = kept_run(values, number)

    runs.delete_before(4)

    assert [runs.head(number) is not None for number in (1, 3, 4)] == [False, False, True]


# --- the lock ---


def test_two_calls_under_one_name_are_kept_apart_until_the_first_ends() -> None:
    values = MemoryValues()
    first, second = RunStore(values, "朝の評価"), RunStore(values, "朝の評価")
    first.lock()

    assert refused(second.lock) is Reason.RUN_BUSY
    RunStore(values, "夜の評価").lock()
    first.renew_lock()
    first.unlock()
    second.lock()

    assert refused(first.lock) is Reason.RUN_BUSY


@pytest.mark.parametrize(("aged", "taken"), [(LOCK_SECONDS - 1, False), (LOCK_SECONDS + 1, True), (-3600, True)])
def test_the_lock_of_a_killed_call_is_taken_after_half_a_minute_and_one_from_the_future_at_once(
    monkeypatch: pytest.MonkeyPatch, aged: float, taken: bool
) -> None:
    values = MemoryValues()
    RunStore(values, "朝の評価").lock()
    now = time.time() + aged
    monkeypatch.setattr(store.time, "time", lambda: now)
    second = RunStore(values, "朝の評価")

    if taken:
        second.lock()
    else:
        assert refused(second.lock) is Reason.RUN_BUSY


def test_of_two_calls_that_both_found_the_name_free_one_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    values = MemoryValues()
    first, second = RunStore(values, "朝の評価"), RunStore(values, "朝の評価")
    # The second call's lock falls into the first one's pause.
    monkeypatch.setattr(store.time, "sleep", lambda _seconds: second._write_json(second._lock_key, late))
    late = {"owner": second._owner, "at": time.time()}

    assert refused(first.lock) is Reason.RUN_BUSY
    second.renew_lock()


def test_a_call_that_stood_still_for_too_long_does_not_take_the_name_back(monkeypatch: pytest.MonkeyPatch) -> None:
    values = MemoryValues()
    first, second = RunStore(values, "朝の評価"), RunStore(values, "朝の評価")
    first.lock()
    now = time.time() + LOCK_SECONDS + 1
    monkeypatch.setattr(store.time, "time", lambda: now)
    second.lock()

    assert refused(first.renew_lock) is Reason.RUN_BUSY
    first.unlock()

    assert refused(RunStore(values, "朝の評価").lock) is Reason.RUN_BUSY


def test_a_lock_that_storage_refused_does_not_stay() -> None:
    # Dify writes a value that it refuses for its size.
    values = MemoryValues(Storage(limit=10))

    assert refused(RunStore(values, "朝の評価").lock) is Reason.STORAGE_FULL
    assert values.names() == []
