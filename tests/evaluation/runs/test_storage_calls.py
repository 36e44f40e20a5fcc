"""How often a run calls the storage: on a busy Dify each call takes 20 ms, and a run has hundreds of rows."""

import threading
import time
from collections import Counter
from typing import Any

import pytest

from evaluation.runs.records import RowRecord
from evaluation.storage.many import AT_A_TIME
from tests.evaluation.runs.fakes import Killed, MemoryValues, answer
from tests.evaluation.runs.workspace import Bot, Place, table

ROWS = 600
ONE_METRIC: dict[str, Any] = {"metrics": ("context_recall",)}


class Counting:
    """Counts the storage's calls before the first question, between and after the last one, and those at once."""

    def __init__(self, place: Place) -> None:
        self.beginning, self.ending, self.all = 0, 0, 0
        self.keys: Counter[str] = Counter()
        self.most = 0
        self._running = 0
        self._asked = False
        self._lock = threading.Lock()
        self._place = place
        place.values.before = self._before
        place.bot = Bot(self._ask)

    def _ask(self, record: RowRecord) -> Any:
        with self._lock:
            self._asked, self.ending = True, 0
        return answer(f"{record.question}の答え")

    def _before(self, operation: str, key: str) -> None:
        with self._lock:
            self.all += 1
            self.beginning += not self._asked
            self.ending += 1
            self.keys[f"{operation} {key.rsplit('/', 1)[-1]}"] += 1
            self._running += 1
            self.most = max(self.most, self._running)
        # Long enough for others to begin meanwhile.
        time.sleep(0.0002)
        with self._lock:
            self._running -= 1


def run(place: Place, **changes: Any) -> Any:
    return place.run(**{"rows": table(ROWS), "settings": ONE_METRIC, "concurrency": 8, **changes})


@pytest.fixture(scope="module")
def kept() -> Place:
    """A run of so many rows that is finished."""
    place = Place()
    run(place)
    return place


def test_a_new_run_reads_no_row_of_the_run_before(kept: Place) -> None:
    place = Place()
    place.values = MemoryValues(kept.values.storage)
    counting = Counting(place)

    report = run(place)

    assert report.number == 2
    assert report.comparison.differences["context_recall"].pairs == ROWS
    assert counting.beginning <= 40
    # A row: whether there are scores and which, its answer, its scores and where they are.
    assert counting.all <= 5.2 * ROWS + 150
    assert counting.ending <= 100


def test_going_on_reads_each_row_once_and_eight_at_a_time() -> None:
    place = Place()
    place.values.kill_at(3 * (ROWS - 20))
    with pytest.raises(Killed):
        run(place)
    place.values = place.values.after_restart()
    counting = Counting(place)

    report = run(place)

    assert (report.number, report.finished) == (1, True)
    # Of a row that is not there the storage is asked twice.
    assert ROWS - 40 <= counting.beginning <= ROWS + 120
    assert AT_A_TIME // 2 <= counting.most <= AT_A_TIME + 1
    assert max(counting.keys.values()) <= ROWS


def test_rows_that_were_not_begun_are_not_looked_for() -> None:
    place = Place()
    place.values.kill_at(60)
    with pytest.raises(Killed):
        run(place, concurrency=1)
    place.values = place.values.after_restart()
    counting = Counting(place)

    assert run(place).number == 1
    assert counting.beginning <= 150


def test_the_end_of_a_run_takes_few_calls_and_no_row_is_read_again(kept: Place) -> None:
    place = Place()
    place.values = MemoryValues(kept.values.storage)
    counting = Counting(place)

    run(place, name="別の名前", compare_with="朝の評価")

    rows = [key for key in counting.keys if key.startswith("get ") and key.endswith("-1")]
    # One for each row's earlier scores, and one for where they are.
    assert sum(counting.keys[key] for key in rows) <= 2 * ROWS
    assert counting.ending <= 100


def test_deleting_takes_three_or_four_calls_a_row_eight_at_a_time() -> None:
    place = Place()
    for _ in range(2):
        run(place, rows=table(100))
    counting = Counting(place)

    run(place, rows=table(1), keep_runs=1)

    # The rows of the first run, whose scores the second has taken over, and of the second, with where its scores are.
    assert counting.all <= 100 * (3 + 4) + 100
    assert counting.most <= AT_A_TIME + 1
