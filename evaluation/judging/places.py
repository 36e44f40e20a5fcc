"""How many calls back into Dify this process makes at the same time, and whose turn it is.

Every such call, be it of a model, an app or the storage, holds a connection of Dify's database. There are few of them,
and without one everything in Dify fails. So all calls share one limit. What a chat waits for goes before the rows of a
run, runs get the same share each, and when Dify has no connection left the limit is halved; it grows back by one each
time that as many calls as it allows have gone well.
"""

import itertools
import threading
from collections import Counter
from dataclasses import dataclass, field
from enum import IntEnum

from evaluation.judging.clock import Clock

MOST_CALLS = 12
FEWEST_CALLS = 3
# How long after the last trouble Dify counts as well.
CALM_SECONDS = 60.0


class Lane(IntEnum):
    """Who calls, in the order of precedence."""

    STORAGE = 0
    CHAT = 1
    RUN = 2


@dataclass(eq=False)
class _Waiting:
    turns: "Turns"
    order: int
    granted: threading.Event = field(default_factory=threading.Event)

    def precedence(self) -> tuple[int, ...]:
        """The smallest goes first: the chat that was begun first; of runs the one that has the fewest places."""
        caller = self.turns.caller
        share = (caller.in_use, caller.granted) if caller.lane is Lane.RUN else (caller.number, 0)
        return (caller.lane, *share, self.turns.rank, self.order)


class Places:
    """The places of one process.

    Of them one is kept for the storage, whose calls take milliseconds, and one for chats, so that neither ever waits
    for a run to let go: an app that a run asks may itself be scored in its chat and answers only then. A run that
    waits keeps one as well. Apps get at most half of the places, for one call of an app costs Dify several
    connections; but each run may call one.

    Args:
        most: places while all is well, at least FEWEST_CALLS.

    Attributes:
        limit: places for now.
        storage: the turns of all calls of the storage.
    """

    def __init__(self, most: int = MOST_CALLS, clock: Clock | None = None) -> None:
        self.limit = most
        self._most = most
        self.clock = clock or Clock()
        self._in_use = Counter[Lane]()
        self._apps = 0
        self._waiting: list[_Waiting] = []
        self._numbers = itertools.count()
        self._succeeded = 0
        self._lowered = self._troubled = float("-inf")
        self._lock = threading.Lock()
        self.storage = Turns(Caller(self, Lane.STORAGE, 0, most))

    def chat(self, most: int) -> "Turns":
        """The places for one tool call in a chat, which uses at most so many at the same time."""
        return Turns(Caller(self, Lane.CHAT, next(self._numbers), most))

    def run(self, most: int = MOST_CALLS) -> "Caller":
        """The places for a run, which uses at most so many at the same time; each of its rows has its own turns."""
        return Caller(self, Lane.RUN, next(self._numbers), most)

    def busy(self, since: float) -> None:
        """A call that began at that time had no connection, or waited very long for one."""
        with self._lock:
            self._troubled = self.clock.now()
            # What was under way at the last lowering says nothing about the lower limit.
            if since >= self._lowered:
                self._lowered = self._troubled
                self._succeeded = 0
                self.limit = max(FEWEST_CALLS, self.limit // 2)

    def went_well(self) -> None:
        """A call has got what it wanted."""
        with self._lock:
            self._succeeded += 1
            if self.limit < self._most and self._succeeded >= self.limit:
                self._succeeded = 0
                self.limit += 1
                self._grant()

    def calm(self) -> bool:
        """Whether Dify has served all calls of the last minute."""
        return self.clock.now() - self._troubled > CALM_SECONDS

    def take(self, turns: "Turns", timeout: float) -> bool:
        """Whether there was a place within the seconds."""
        mine = _Waiting(turns, next(self._numbers))
        with self._lock:
            self._waiting.append(mine)
            self._grant()
        if mine.granted.wait(max(0.0, timeout)):
            return True
        with self._lock:
            if mine.granted.is_set():
                return True
            self._waiting.remove(mine)
            # A run that waits no more keeps no place from others.
            self._grant()
        return False

    def give(self, turns: "Turns") -> None:
        """Gives a place back."""
        with self._lock:
            self._count(turns, -1)
            self._grant()

    def _grant(self) -> None:
        """Gives the places that are free to those whose turn it is."""
        while True:
            lanes = self._open_lanes()
            allowed = [one for one in self._waiting if one.turns.caller.lane in lanes and self._may_have(one.turns)]
            if not allowed:
                return
            first = min(allowed, key=_Waiting.precedence)
            self._waiting.remove(first)
            first.turns.caller.granted = next(self._numbers)
            self._count(first.turns, 1)
            first.granted.set()

    def _count(self, turns: "Turns", change: int) -> None:
        caller = turns.caller
        caller.in_use += change
        self._in_use[caller.lane] += change
        if turns.asks_app:
            caller.apps += change
            self._apps += change

    def _open_lanes(self) -> set[Lane]:
        """The lanes that may have another place.

        Of the storage and of chats that is one of those kept for them, even when a limit that has just been lowered
        is exceeded by others; else there must be one that is kept for nobody else.
        """
        kept = {
            Lane.STORAGE: 1,
            Lane.CHAT: 1,
            Lane.RUN: int(any(waiting.turns.caller.lane is Lane.RUN for waiting in self._waiting)),
        }
        owed = {lane: max(0, kept[lane] - self._in_use[lane]) for lane in Lane}
        free = self.limit - self._in_use.total() - sum(owed.values())
        return {lane for lane in Lane if free + owed[lane] > 0 or (owed[lane] and lane is not Lane.RUN)}

    def _may_have(self, turns: "Turns") -> bool:
        caller = turns.caller
        if turns.asks_app and caller.apps and self._apps >= self.limit // 2:
            return False
        return caller.in_use < caller.most


class Caller:
    """Who uses the places: a tool call in a chat, a run, or everything that goes to the storage.

    Attributes:
        most: how many places it may have at the same time.
        in_use, apps: how many it has, and how many of them for calls of an app.
        granted: when it was last given one, as a running number.
    """

    def __init__(self, places: Places, lane: Lane, number: int, most: int) -> None:
        self.places = places
        self.lane = lane
        self.number = number
        self.most = most
        self.in_use = self.apps = 0
        self.granted = number
        self._ranks: dict[str, int] = {}

    def row(self, key: str, *, asks_app: bool = False) -> "Turns":
        """The turns of a row. Those of the row that was begun first come first, so that rows are finished one by one.

        Args:
            asks_app: whether the places are for calls of the app rather than of the judge.
        """
        return Turns(self, self._ranks.setdefault(key, len(self._ranks)), asks_app)


@dataclass(frozen=True)
class Turns:
    """What a session, or whoever calls, takes its places from."""

    caller: Caller
    rank: int = 0
    asks_app: bool = False

    def acquire(self, *, timeout: float) -> bool:
        """Whether there was a place within the seconds."""
        return self.caller.places.take(self, timeout)

    def release(self) -> None:
        """Gives it back."""
        self.caller.places.give(self)
