"""The connections of Dify's database, of which every call into Dify holds one: few, and with a limit of waiting.

connections = Connections()
dify_side = DifySide(models, connections=connections)
apps = Apps(connections=connections)
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

# Dify's own settings: SQLALCHEMY_POOL_SIZE, SQLALCHEMY_MAX_OVERFLOW and SQLAlchemy's pool_timeout.
SIZE, OVERFLOW, TIMEOUT_SECONDS = 30, 10, 30.0


class NoConnectionError(Exception):
    """There was no connection in time; the text is SQLAlchemy's."""


class Connections:
    """A pool of connections.

    Args:
        size, overflow: how many there are, together.
        timeout: seconds that a call waits for one.

    Attributes:
        most: how many were in use at the same time, at most.
        failures: how many calls got none in time.
    """

    def __init__(self, size: int = SIZE, overflow: int = OVERFLOW, timeout: float = TIMEOUT_SECONDS) -> None:
        self.size = size
        self.overflow = overflow
        self.timeout = timeout
        self.most = self.failures = 0
        self._in_use = 0
        self._free = threading.Condition()

    @contextmanager
    def one(self) -> Iterator[None]:
        """A connection for as long as the block lasts.

        Raises:
            NoConnectionError: there was none in time.
        """
        with self._free:
            if not self._free.wait_for(lambda: self._in_use < self.size + self.overflow, self.timeout):
                self.failures += 1
                raise NoConnectionError(
                    f"QueuePool limit of size {self.size} overflow {self.overflow} reached, connection timed out, "
                    f"timeout {self.timeout:.2f} (Background on this error at: https://sqlalche.me/e/20/3o7r)"
                )
            self._in_use += 1
            self.most = max(self.most, self._in_use)
        try:
            yield
        finally:
            with self._free:
                self._in_use -= 1
                self._free.notify()
