"""Whose turn a call back into Dify is, how many there are at a time, and what a Dify without connections does to it."""

import threading
import time
from collections.abc import Callable
from functools import partial

import pytest

from evaluation.judging.clock import spawn
from evaluation.judging.places import CALM_SECONDS, FEWEST_CALLS, Caller, Places, Turns
from tests.evaluation.fakes import FakeClock

SOON, NEVER = 5.0, 0.02
ALL = 12


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def take(turns: Turns, most: int = 2 * ALL) -> int:
    """How many places there are for these turns right now; they stay taken."""
    return sum(turns.acquire(timeout=0.0) for _ in range(most))


def row(run: Caller, number: int = 1) -> Turns:
    return run.row(f"{number}-1")


def app(run: Caller, number: int = 1) -> Turns:
    return run.row(f"{number}-1", asks_app=True)


class Queue:
    """Calls that wait for a place, and the order in which they get one. Each gives it back when it is told to."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.served: list[str] = []

    def wait(self, turns: Turns, name: str) -> None:
        """Lets a call wait; returns when it stands in the queue."""
        before = len(self.places._waiting)
        spawn(lambda: self._serve(turns, name))
        until(lambda: len(self.places._waiting) > before)

    def _serve(self, turns: Turns, name: str) -> None:
        assert turns.acquire(timeout=SOON)
        self.served.append(name)
        turns.release()

    def order(self, last: Turns) -> list[str]:
        """Who is served one after the other, once the last place is given back."""
        count = len(self.places._waiting)
        last.release()
        until(lambda: len(self.served) == count)
        return self.served


# --- how many ---


def test_all_places_but_those_kept_for_others_can_be_taken() -> None:
    # One is kept for the storage and one for chats; a chat leaves one to the storage alone.
    assert take(row(Places(ALL).run())) == 10
    assert take(Places(ALL).chat(ALL)) == 11
    assert take(Places(ALL).storage) == 11


@pytest.mark.parametrize("most", [1, 5])
def test_a_run_and_a_chat_take_no_more_than_they_may(most: int) -> None:
    places = Places(ALL)
    assert take(row(places.run(most))) == most
    assert take(places.chat(most)) == most


def test_several_callers_never_have_more_than_the_limit_together() -> None:
    places, lock = Places(ALL), threading.Lock()
    taken = most = done = 0

    def work(turns: Turns) -> None:
        nonlocal taken, most, done
        for _ in range(20):
            assert turns.acquire(timeout=SOON)
            with lock:
                taken += 1
                most = max(most, taken)
            time.sleep(0.0005)
            with lock:
                taken -= 1
                done += 1
            turns.release()

    runs = [places.run() for _ in range(2)]
    callers = [places.chat(8), places.chat(8), places.storage, *(app(run) for run in runs), *(row(run) for run in runs)]
    working = [spawn(lambda turns=turns: work(turns)) for turns in callers * 4]
    for one in working:
        one.result(SOON)
    assert done == len(working) * 20
    assert most <= ALL
    assert places._in_use.total() == places._apps == len(places._waiting) == 0


def test_a_call_that_waits_in_vain_leaves_its_turn_to_the_others() -> None:
    turns = row(Places(ALL).run(1))
    assert turns.acquire(timeout=0.0)
    assert not turns.acquire(timeout=NEVER)
    assert not turns.caller.places._waiting
    turns.release()
    assert turns.acquire(timeout=0.0)


# --- whose turn ---


def test_within_a_run_the_row_that_was_begun_first_goes_first_and_within_it_the_first_call() -> None:
    places = Places(ALL)
    run = places.run(1)
    first, second, third = (row(run, number) for number in (1, 2, 3))
    assert first.acquire(timeout=0.0)
    queue = Queue(places)
    for turns, name in ((third, "c"), (second, "b1"), (first, "a"), (app(run, 2), "b2")):
        queue.wait(turns, name)
    assert queue.order(first) == ["a", "b1", "b2", "c"]


def test_a_chat_goes_before_rows_that_have_waited_longer() -> None:
    places = Places(ALL)
    other, run = places.chat(ALL), places.run()
    assert take(row(run), 10) == 10
    assert take(other, 1) == 1
    queue = Queue(places)
    for number in range(1, 4):
        queue.wait(row(run, number), f"row {number}")
    queue.wait(places.chat(8), "chat")
    assert queue.order(row(run)) == ["chat", "row 1", "row 2", "row 3"]


def test_of_chats_the_one_that_was_begun_first_goes_first() -> None:
    places = Places(ALL)
    first, second = places.chat(8), places.chat(8)
    assert take(places.chat(ALL), 11) == 11
    queue = Queue(places)
    queue.wait(second, "second")
    queue.wait(first, "first")
    assert queue.order(Turns(first.caller)) == ["first", "second"]


def test_the_storage_waits_for_nobody() -> None:
    places = Places(ALL)
    assert take(row(places.run())) + take(places.chat(ALL)) == ALL - 1
    assert places.storage.acquire(timeout=0.0)
    queue = Queue(places)
    queue.wait(places.chat(8), "chat")
    queue.wait(places.storage, "storage")
    places.storage.release()
    until(lambda: queue.served == ["storage"])


def test_runs_get_the_same_share() -> None:
    places = Places(ALL)
    first, second, third = (places.run() for _ in range(3))
    assert take(row(first)) == 10
    served: dict[str, int] = {"second": 0, "third": 0}

    def hold(turns: Turns, name: str) -> None:
        if turns.acquire(timeout=SOON):
            served[name] += 1

    for name, run in (("second", second), ("third", third)):
        for number in range(9):
            spawn(partial(hold, row(run, number), name))
    until(lambda: len(places._waiting) == 18)
    for _ in range(6):
        row(first).release()
    until(lambda: sum(served.values()) == 6)
    # The first keeps four, the others get three each, though the second stood before the third.
    assert served == {"second": 3, "third": 3}
    assert [run.in_use for run in (first, second, third)] == [4, 3, 3]


def test_chats_without_end_leave_a_place_to_the_runs() -> None:
    places = Places(ALL)
    chats, run = places.chat(ALL), places.run()
    assert take(chats) == 11
    queue = Queue(places)
    queue.wait(row(run), "row")
    queue.wait(places.chat(8), "chat")
    # The first place that the chats give back is the run's.
    assert queue.order(chats) == ["row", "chat"]


# --- apps that are scored themselves ---


def test_apps_get_at_most_half_so_that_their_rows_are_judged_and_their_own_chats_are_scored() -> None:
    places = Places(ALL)
    run = places.run()
    assert take(app(run)) == 6
    assert take(row(run)) == 4
    # What the six apps wait for: their own chats.
    assert take(places.chat(8)) == 1


def test_each_run_may_ask_one_app_though_others_have_the_half_of_the_places() -> None:
    # The app that a run asks may itself be one that evaluates an app.
    places = Places(ALL)
    assert take(app(places.run())) == 6
    inner = places.run()
    assert take(app(inner)) == 1
    assert take(row(inner)) == 3


@pytest.mark.parametrize("limit", range(FEWEST_CALLS, ALL + 1))
def test_however_low_the_limit_apps_can_not_keep_their_own_chats_waiting(limit: int) -> None:
    places = Places(limit)
    runs = [places.run() for _ in range(3)]
    taken = sum(take(app(run)) + take(row(run)) for run in runs)
    assert 1 <= taken < limit
    assert places.chat(8).acquire(timeout=0.0)
    assert places.storage.acquire(timeout=0.0)


def test_a_limit_that_falls_while_apps_have_the_places_still_lets_their_chats_in() -> None:
    places = Places(ALL)
    run = places.run()
    assert take(app(run)) + take(row(run)) == 10
    for _ in range(3):
        places.busy(places.clock.now())
    assert places.limit == FEWEST_CALLS
    assert take(places.chat(8)) == 1
    assert take(places.storage) == 1
    assert take(row(run)) == 0


# --- a Dify without connections ---


def test_trouble_halves_the_limit_and_calls_that_go_well_raise_it_again_by_one() -> None:
    clock = FakeClock()
    places = Places(ALL, clock)
    seen = []
    for _ in range(4):
        clock.time += 1
        places.busy(since=clock.time)
        seen.append(places.limit)
    assert seen == [6, 3, FEWEST_CALLS, FEWEST_CALLS]
    # 3 to get to 4, 4 to get to 5, 5 to get to 6.
    for needed, limit in ((3, 4), (4, 5), (5, 6)):
        for _ in range(needed):
            assert places.limit == limit - 1
            places.went_well()
        assert places.limit == limit
    for _ in range(100):
        places.went_well()
    assert places.limit == ALL


def test_calls_that_were_under_way_together_fail_together_and_count_once() -> None:
    clock = FakeClock()
    places = Places(ALL, clock)
    clock.time = 30.0
    for begun in (0.0, 0.0, 1.0, 29.0):
        places.busy(since=begun)
    assert places.limit == 6
    clock.time = 61.0
    places.busy(since=31.0)
    assert places.limit == 3


def test_a_lower_limit_counts_for_the_next_calls_and_is_raised_for_those_that_wait() -> None:
    places = Places(ALL)
    run = places.run()
    assert take(row(run)) == 10
    places.busy(places.clock.now())
    for _ in range(6):
        row(run).release()
    # 4 of 6 are in use; one is kept for the storage and one for chats.
    assert take(row(run)) == 0
    queue = Queue(places)
    queue.wait(row(run), "row")
    for _ in range(6):
        places.went_well()
    until(lambda: queue.served == ["row"])


def test_dify_is_calm_when_all_has_gone_well_for_a_while() -> None:
    clock = FakeClock()
    places = Places(ALL, clock)
    assert places.calm()
    places.busy(since=0.0)
    assert not places.calm()
    clock.time = CALM_SECONDS
    assert not places.calm()
    clock.time += 1
    assert places.calm()
