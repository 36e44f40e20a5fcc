"""How many judge calls run at the same time over all rows of a run, and whose turn it is."""

import heapq
import itertools
import threading
from dataclasses import dataclass, field


@dataclass(order=True)
class _Waiting:
    rank: int
    order: int
    granted: threading.Event = field(default_factory=threading.Event, compare=False)


class Places:
    """Places for calls at the same time; a free one goes to the row that was begun first.

    So rows are finished one after the other instead of all at the end: a run that stops loses the calls of few rows,
    and the last row's calls, of which one waits for another, are not all left to the end.

    Args:
        count: how many, at least 1.
    """

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: list[_Waiting] = []
        self._numbers = itertools.count()
        self._ranks = itertools.count()
        self._lock = threading.Lock()

    def for_row(self) -> "RowPlaces":
        """The places as a row that begins now may use them."""
        return RowPlaces(self, next(self._ranks))

    def take(self, rank: int, timeout: float) -> bool:
        """Whether there was a place within the seconds."""
        with self._lock:
            if self._free:
                self._free -= 1
                return True
            mine = _Waiting(rank, next(self._numbers))
            heapq.heappush(self._waiting, mine)
        if mine.granted.wait(max(0.0, timeout)):
            return True
        with self._lock:
            if mine.granted.is_set():
                return True
            self._waiting.remove(mine)
            heapq.heapify(self._waiting)
        return False

    def give(self) -> None:
        """Gives a place back."""
        with self._lock:
            if self._waiting:
                heapq.heappop(self._waiting).granted.set()
            else:
                self._free += 1


@dataclass(frozen=True)
class RowPlaces:
    """What a row's judge session takes its places from."""

    places: Places
    rank: int

    def acquire(self, *, timeout: float) -> bool:
        return self.places.take(self.rank, timeout)

    def release(self) -> None:
        self.places.give()
