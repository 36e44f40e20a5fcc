"""A run is for one call at a time, which says since when it is at work and how far it is."""

import threading
import time
from collections.abc import Callable

import pytest

from evaluation.errors import EvaluationError, Reason
from evaluation.runs import lock as subject
from evaluation.runs.lock import RunLock
from evaluation.storage import lock as storage_lock
from evaluation.storage.lock import LOCK_SECONDS
from evaluation.storage.values import read_json
from tests.evaluation.runs.fakes import MemoryValues

KEY = "runs/a/1/lock"


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_lock, "RENEWAL_SECONDS", 0.01)


def lock_of(values: MemoryValues, total: int = 10) -> RunLock:
    return RunLock(values, KEY, total)


def refused(call: Callable[[], object]) -> EvaluationError:
    with pytest.raises(EvaluationError) as caught:
        call()
    return caught.value


def eventually(holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + 5
    while not holds() and time.monotonic() < until:
        time.sleep(0.002)
    return holds()


def test_a_second_call_is_told_since_when_and_how_far(monkeypatch: pytest.MonkeyPatch) -> None:
    values = MemoryValues()
    first = lock_of(values, 40)
    first.take()
    assert refused(lock_of(values).take).values == {"minutes": 1, "done": 0, "total": 40}

    first.tell(12)
    assert eventually(lambda: read_json(values, KEY)["done"] == 12)
    now = time.time() + 25
    monkeypatch.setattr(storage_lock, "LOCK_SECONDS", 10_000.0)
    monkeypatch.setattr(subject.time, "time", lambda: now + 155)
    error = refused(lock_of(values).take)

    assert (error.reason, error.values) == (Reason.RUN_BUSY, {"minutes": 3, "done": 12, "total": 40})
    first.release()


def test_the_lock_is_renewed_from_taking_to_giving_back() -> None:
    values = MemoryValues()
    writes: list[str] = []
    values.before = lambda operation, _key: writes.append(operation) if operation == "set" else None
    lock = lock_of(values)

    lock.take()
    assert eventually(lambda: len(writes) >= 4)
    lock.release()
    count = len(writes)
    time.sleep(0.05)

    assert len(writes) == count
    assert values.names() == []


def test_a_release_waits_for_a_renewal_under_way() -> None:
    values, go_on, renewing = MemoryValues(), threading.Event(), threading.Event()
    lock = lock_of(values)
    lock.take()

    def held(operation: str, _key: str) -> None:
        if operation == "set":
            renewing.set()
            assert go_on.wait(5)

    values.before = held
    assert renewing.wait(5)
    release = threading.Thread(target=lock.release)
    release.start()
    time.sleep(0.02)
    go_on.set()
    release.join(5)

    # A renewal that ended after it would leave the lock there.
    assert values.names() == []


def test_a_call_whose_run_another_one_has_taken_is_told_and_does_not_take_it_back() -> None:
    values = MemoryValues()
    first, second = lock_of(values), lock_of(values)
    first.take()
    # It stood still for so long that another process has taken the run.
    second._lock._owner = "another process"
    values.set(KEY, b'{"owner": "another process", "at": %f}' % (time.time() + LOCK_SECONDS / 2))

    assert first.lost.wait(5)
    first.release()

    assert read_json(values, KEY)["owner"] == "another process"


def test_a_storage_that_fails_once_does_not_end_the_renewals() -> None:
    values, failed = MemoryValues(), 0

    def fail(operation: str, _key: str) -> None:
        nonlocal failed
        if operation == "set" and failed < 3:
            failed += 1
            raise ConnectionError("lost")

    lock = lock_of(values)
    lock.take()
    before = read_json(values, KEY)["at"]
    values.before = fail

    assert eventually(lambda: failed == 3 and read_json(values, KEY)["at"] > before)
    assert not lock.lost.is_set()
    lock.release()


def test_the_lock_of_a_call_that_this_process_knows_to_be_dead_is_free_at_once() -> None:
    values = MemoryValues()
    first = lock_of(values)
    first.take()
    kept = values.get(KEY)
    first.release()
    # It could not be deleted.
    values.set(KEY, kept)

    lock_of(values).take()
