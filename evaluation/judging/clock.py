"""Time that tests can replace, deadlines, and threads that nobody waits for."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future


class Clock:
    """Time for the budget and the waits between tries, replaceable in tests.

    Attributes:
        answered: when the judge last answered, over all sessions that share the clock.
        slowest: how many seconds an answer has taken at most.
    """

    answered = float("-inf")
    slowest = 0.0

    def now(self) -> float:
        """Seconds, monotonic."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait that long."""
        time.sleep(seconds)


class Deadline:
    """When something must have ended.

    Args:
        seconds: from now, or from `since`.
        since: a time of the clock.
    """

    def __init__(self, seconds: float, clock: Clock | None = None, *, since: float | None = None) -> None:
        self.clock = clock or Clock()
        self.seconds = seconds
        self._at = (self.clock.now() if since is None else since) + seconds

    def left(self) -> float:
        """Seconds until then; below 0 when it is over."""
        return self._at - self.clock.now()

    def earlier(self, seconds: float) -> "Deadline":
        """The deadline that lies so many seconds before this one."""
        return Deadline(self.left() - seconds, self.clock)


def spawn[R](call: Callable[[], R]) -> "Future[R]":
    """Runs the call in a thread that nobody waits for when the process ends."""
    future: Future[R] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - it is raised again where the result is read
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future
