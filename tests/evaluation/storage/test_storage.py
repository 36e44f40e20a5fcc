"""Values with reason codes, names that survive two writers, and a key for one call alone."""

import time
from collections.abc import Callable

import pytest

from devhost.dify_side import Storage
from evaluation.errors import EvaluationError, Reason
from evaluation.storage import lock, register
from evaluation.storage.lock import LOCK_SECONDS, Lock
from evaluation.storage.register import COPIES, Register
from evaluation.storage.values import discard, read, read_json, write, write_json
from tests.evaluation.runs.fakes import MemoryValues


def refused(call: Callable[[], object]) -> Reason:
    with pytest.raises(EvaluationError) as caught:
        call()
    return caught.value.reason


def fail(words: str, *operations: str) -> Callable[[str, str], None]:
    def before(operation: str, _key: str) -> None:
        if operation in operations:
            raise RuntimeError(words)

    return before


# --- values ---


def test_a_missing_value_is_none_and_a_failing_storage_is_not() -> None:
    values = MemoryValues()

    assert read(values, "a") is None
    assert read_json(values, "a") == {}
    values.before = fail("connection refused", "get", "exist")
    assert refused(lambda: read(values, "a")) is Reason.STORAGE_FAILED


def test_a_value_that_another_call_writes_meanwhile_is_read() -> None:
    values = MemoryValues()

    def before(operation: str, _key: str) -> None:
        if operation == "exist":
            values.storage.set("a", b"1")

    values.before = before

    assert read(values, "a") == b"1"


@pytest.mark.parametrize("kept", [b"", b"[1]", b"\xff\xfe", b'{"a": '])
def test_what_is_no_object_reads_as_an_empty_one(kept: bytes) -> None:
    values = MemoryValues()
    values.set("a", kept)

    assert read_json(values, "a") == {}


def test_half_characters_are_written_all_the_same() -> None:
    values = MemoryValues()

    write_json(values, "a", {"name": "規程\ud83d"})

    assert read_json(values, "a") == {"name": "規程?"}


def test_a_full_storage_is_told_from_a_failing_one() -> None:
    assert refused(lambda: write(MemoryValues(Storage(limit=3)), "a", b"1234")) is Reason.STORAGE_FULL
    values = MemoryValues()
    values.before = fail("connection refused", "set")
    assert refused(lambda: write(values, "a", b"1")) is Reason.STORAGE_FAILED


def test_discarding_what_is_not_there_is_no_error() -> None:
    values = MemoryValues()
    values.set("a", b"1")

    discard(values, "a")
    discard(values, "a")

    assert values.names() == []


# --- names ---


def test_names_come_back_the_latest_first_and_each_once() -> None:
    values = MemoryValues()
    names = Register(values, "tables/names")
    for name in ("休暇", "旅費", "休暇"):
        names.add(name)

    assert Register(values, "tables/names").names() == ["旅費", "休暇"]
    assert Register(values, "runs/names").names() == []


def test_a_name_that_was_taken_out_stays_out_and_can_come_back() -> None:
    values = MemoryValues()
    names = Register(values, "names")
    for name in [f"表{n}" for n in range(9)]:
        names.add(name)

    names.remove("表4")
    names.add("表9")

    assert set(names.names()) == {f"表{n}" for n in range(10)} - {"表4"}
    names.add("表4")
    assert "表4" in names.names()


@pytest.mark.parametrize("moment", range(1, COPIES + 2))
def test_two_writers_at_once_lose_no_name(moment: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Both choose the same copy, the worst case; the second writer's whole call falls between two steps of the first's.
    monkeypatch.setattr(register.random, "choice", lambda keys: keys[0])
    values, other, steps = MemoryValues(), MemoryValues(), 0
    other.storage = values.storage
    Register(other, "names").add("前からある表")

    def before(_operation: str, _key: str) -> None:
        nonlocal steps
        steps += 1
        if steps == moment:
            Register(other, "names").add("二人目の表")

    values.before = before
    Register(values, "names").add("一人目の表")
    # The one that was there before it writes next puts back what the first has overwritten.
    Register(other, "names").add("二人目の表")

    assert set(Register(other, "names").names()) == {"前からある表", "一人目の表", "二人目の表"}


def test_a_name_that_another_writer_overwrites_is_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    values, other = MemoryValues(), MemoryValues()
    other.storage = values.storage
    late = [b'{"names": {}}' for _ in range(COPIES)]

    def overwrite(_seconds: float) -> None:
        # Another writer, who had read before, writes all copies.
        for copy, data in enumerate(late):
            other.set(f"names/{copy}", data)
        late.clear()

    monkeypatch.setattr(register.time, "sleep", overwrite)

    Register(values, "names").add("表")

    assert Register(other, "names").names() == ["表"]


@pytest.mark.parametrize(
    "damage", [b"{", b'{"names": 3}', b'{"names": {"x": 1}}', b'{"names": {"x": {"at": "gestern"}}}']
)
def test_a_damaged_copy_hides_no_name_of_the_others(damage: bytes) -> None:
    values = MemoryValues()
    for copy in range(COPIES):
        values.set(f"names/{copy}", b'{"names": {"\xe8\xa1\xa8": {"at": 1, "in": true}}}')
    values.set("names/0", damage)

    assert Register(values, "names").names() == ["表"]


# --- the lock ---


def test_a_key_is_for_one_call_at_a_time() -> None:
    values = MemoryValues()
    first, second = (Lock(values, "a/lock", Reason.RUN_BUSY) for _ in range(2))

    first.take()
    assert refused(second.take) is Reason.RUN_BUSY
    Lock(values, "b/lock", Reason.RUN_BUSY).take()
    first.renew()
    first.release()
    second.take()
    assert refused(first.renew) is Reason.RUN_BUSY
    first.release()
    second.require()


def test_a_call_waits_for_the_key_as_long_as_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    values = MemoryValues()
    first, second = (Lock(values, "lock", Reason.RUN_BUSY) for _ in range(2))
    first.take()
    monkeypatch.setattr(lock.time, "sleep", lambda _seconds: first.release())

    second.take(seconds=5)

    second.require()


def test_the_lock_of_a_killed_call_is_taken_after_half_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    values = MemoryValues()
    Lock(values, "lock", Reason.RUN_BUSY).take()
    later = time.time() + LOCK_SECONDS + 1
    monkeypatch.setattr(lock.time, "time", lambda: later)

    Lock(values, "lock", Reason.RUN_BUSY).take()


def test_of_two_that_found_it_free_the_last_one_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    values = MemoryValues()
    second = {"owner": "second", "at": time.time()}
    # The second call's lock falls into the first one's pause.
    monkeypatch.setattr(lock.time, "sleep", lambda _seconds: write_json(values, "lock", second))

    assert refused(Lock(values, "lock", Reason.RUN_BUSY).take) is Reason.RUN_BUSY
    assert read_json(values, "lock") == second


def test_a_lock_that_storage_refused_does_not_stay() -> None:
    values = MemoryValues(Storage(limit=3))

    assert refused(Lock(values, "lock", Reason.RUN_BUSY).take) is Reason.STORAGE_FULL
    assert values.names() == []
