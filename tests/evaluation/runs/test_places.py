"""Whose turn a judge call is when all places are taken."""

import threading
import time
from collections.abc import Callable

import pytest

from evaluation.runs.places import Places, RowPlaces

SOON, NEVER = 5.0, 0.05


def waiting(places: Places) -> int:
    return len(places._waiting)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_there_are_as_many_places_as_were_made() -> None:
    row = Places(2).for_row()
    assert [row.acquire(timeout=0.0) for _ in range(3)] == [True, True, False]
    row.release()
    assert row.acquire(timeout=0.0)


def test_a_free_place_goes_to_the_row_that_was_begun_first_and_within_it_to_the_first_call() -> None:
    places = Places(1)
    first, second, third = (places.for_row() for _ in range(3))
    assert first.acquire(timeout=0.0)
    served: list[str] = []
    threads = []

    def call(row: RowPlaces, name: str) -> None:
        assert row.acquire(timeout=SOON)
        served.append(name)
        row.release()

    for row, name in ((third, "c"), (second, "b1"), (first, "a"), (second, "b2")):
        threads.append(threading.Thread(target=call, args=(row, name)))
        threads[-1].start()
        until(lambda: waiting(places) == len(threads))
    first.release()
    for thread in threads:
        thread.join(SOON)
    assert served == ["a", "b1", "b2", "c"]


def test_a_call_that_waits_in_vain_leaves_its_turn_to_the_others() -> None:
    places = Places(1)
    row = places.for_row()
    assert row.acquire(timeout=0.0)
    assert not row.acquire(timeout=NEVER)
    assert waiting(places) == 0
    row.release()
    assert row.acquire(timeout=0.0)


@pytest.mark.parametrize("count", [1, 3])
def test_never_more_than_the_places_are_taken_at_the_same_time(count: int) -> None:
    places, lock = Places(count), threading.Lock()
    taken = most = done = 0

    def work(row: RowPlaces) -> None:
        nonlocal taken, most, done
        for _ in range(20):
            assert row.acquire(timeout=SOON)
            with lock:
                taken += 1
                most = max(most, taken)
            time.sleep(0.0005)
            with lock:
                taken -= 1
                done += 1
            row.release()

    threads = [threading.Thread(target=work, args=(places.for_row(),)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON)
    assert (done, most) == (120, count)
    assert waiting(places) == 0
