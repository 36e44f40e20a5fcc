"""Several calls at a time, and a storage that makes room for itself."""

import threading
import time
from collections.abc import Callable

import pytest

from devhost.dify_side import Storage
from evaluation.errors import EvaluationError, Reason
from evaluation.storage.many import AT_A_TIME, at_once, delete_all, read_all
from evaluation.storage.room import MakingRoom
from evaluation.storage.values import delete, write
from tests.evaluation.runs.fakes import MemoryValues


def refused(call: Callable[[], object]) -> Reason:
    with pytest.raises(EvaluationError) as caught:
        call()
    return caught.value.reason


def test_results_come_in_the_order_of_the_items_eight_calls_at_a_time() -> None:
    running, most, lock = 0, 0, threading.Lock()

    def call(item: int) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.001 * (item % 3))
        with lock:
            running -= 1
        return item * item

    assert at_once(call, range(50)) == [item * item for item in range(50)]
    assert 1 < most <= AT_A_TIME
    assert at_once(call, []) == []


def test_after_a_call_that_fails_none_is_begun() -> None:
    begun: list[int] = []

    def call(item: int) -> int:
        begun.append(item)
        if item == 3:
            raise EvaluationError(Reason.STORAGE_FAILED)
        time.sleep(0.01)
        return item

    assert refused(lambda: at_once(call, range(1000))) is Reason.STORAGE_FAILED
    assert len(begun) <= 2 * AT_A_TIME


def test_calls_that_hang_are_left_behind_when_the_time_is_over() -> None:
    gate = threading.Event()

    assert refused(lambda: at_once(lambda _: gate.wait(5), range(3), 0.05)) is Reason.STORAGE_FAILED
    gate.set()


def test_missing_values_are_none_in_their_place() -> None:
    values = MemoryValues()
    values.set("a", b"1")
    values.set("c", b"3")

    assert read_all(values, ["a", "b", "c"]) == [b"1", None, b"3"]


def test_what_is_missing_is_deleted_already_and_what_fails_is_not() -> None:
    values = MemoryValues()
    for key in "abc":
        values.set(key, b"1")

    assert delete_all(values, ["a", "x"])
    assert delete(values, "y")

    def fail(operation: str, key: str) -> None:
        if (operation, key) == ("delete", "b"):
            raise ConnectionError("lost")

    values.before = fail
    assert not delete(values, "b")
    assert not delete_all(values, ["b", "c"])
    assert values.names()[0] == "b"


# --- making room ---


class Old:
    """Old values that can be missed."""

    def __init__(self, values: MemoryValues, count: int) -> None:
        self.values = values
        self.keys = [f"old/{number}" for number in range(count)]
        for key in self.keys:
            values.set(key, b"x" * 10)

    def free(self) -> bool:
        if not self.keys:
            return False
        self.values.delete(self.keys.pop(0))
        return True


def test_a_write_frees_as_much_as_it_takes_and_no_more() -> None:
    values = MemoryValues(Storage(limit=50))
    old = Old(values, 4)
    roomy = MakingRoom(values, old.free)

    write(roomy, "a", b"y" * 10)
    assert len(old.keys) == 4
    write(roomy, "b", b"y" * 10)

    assert values.names() == ["a", "b", "old/1", "old/2", "old/3"]
    assert roomy.get("b") == b"y" * 10
    assert roomy.exist("a")
    roomy.delete("a")
    assert not roomy.exist("a")


def test_a_write_that_finds_no_more_to_free_is_refused() -> None:
    values = MemoryValues()
    old = Old(values, 2)

    def full(operation: str, key: str) -> None:
        if operation == "set" and key == "a":
            raise OSError("save data failed: allocated size is greater than max storage size")

    values.before = full

    assert refused(lambda: write(MakingRoom(values, old.free), "a", b"y")) is Reason.STORAGE_FULL
    assert old.keys == []


def test_another_failure_frees_nothing() -> None:
    values = MemoryValues()
    old = Old(values, 2)

    def fail(operation: str, _key: str) -> None:
        if operation == "set":
            raise ConnectionError("lost")

    values.before = fail

    assert refused(lambda: write(MakingRoom(values, old.free), "a", b"y")) is Reason.STORAGE_FAILED
    assert len(old.keys) == 2


def test_writes_that_find_it_full_together_free_together() -> None:
    values = MemoryValues()
    old = Old(values, 8)
    together, refusals = threading.Barrier(6), {f"new/{number}" for number in range(6)}

    def full(operation: str, key: str) -> None:
        if operation == "set" and key in refusals:
            refusals.discard(key)
            together.wait(5)
            raise OSError("save data failed: allocated size is greater than max storage size")

    values.before = full
    roomy = MakingRoom(values, old.free)
    threads = [threading.Thread(target=write, args=(roomy, key, b"y")) for key in list(refusals)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)

    assert len([key for key in values.names() if key.startswith("new/")]) == 6
    # One of them has freed, and the others have only tried again.
    assert len(old.keys) == 7
