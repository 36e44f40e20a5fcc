"""This process's calls back into Dify: one limit for all of them, and what they tell about how Dify is doing."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bridge.dify.failures import is_busy
from evaluation.errors import EvaluationError, Reason
from evaluation.judging.places import Places
from evaluation.storage.values import Values

PLACES = Places()

# The storage answers in milliseconds; one that takes this long has waited for a connection.
SLOW_SECONDS = 2.0
# How long a storage call waits for its turn before it is made all the same, and between its tries.
TURN_SECONDS = 30.0
WAITS_SECONDS = (0.5, 2.0, 8.0)


@contextmanager
def watched() -> Iterator[None]:
    """Tells the places how the call inside went, by the reason of the error that it raises."""
    since = PLACES.clock.now()
    try:
        yield
    except EvaluationError as error:
        if error.reason is Reason.DIFY_BUSY:
            PLACES.busy(since)
        raise
    PLACES.went_well()


class SharedStorage:
    """The plugin's storage, whose calls take their turns with all others; one that finds Dify busy is made again.

    All raise what the storage raises, and EvaluationError dify_busy when it stays so.
    """

    def __init__(self, storage: Values) -> None:
        self._storage = storage

    def get(self, key: str) -> bytes:
        return _in_turn(lambda: self._storage.get(key))

    def set(self, key: str, val: bytes) -> None:
        _in_turn(lambda: self._storage.set(key, val))

    def delete(self, key: str) -> None:
        _in_turn(lambda: self._storage.delete(key))

    def exist(self, key: str) -> bool:
        return _in_turn(lambda: self._storage.exist(key))


def _in_turn[R](call: Callable[[], R]) -> R:
    waits = iter(WAITS_SECONDS)
    while True:
        try:
            return _once(call)
        except Exception as error:
            if not is_busy(str(error)):
                raise
            wait = next(waits, None)
            if wait is None:
                raise EvaluationError(Reason.DIFY_BUSY) from error
        PLACES.clock.sleep(wait * random.uniform(0.7, 1.3))


def _once[R](call: Callable[[], R]) -> R:
    mine = PLACES.storage.acquire(timeout=TURN_SECONDS)
    since = PLACES.clock.now()
    try:
        result = call()
    except Exception as error:
        if is_busy(str(error)):
            PLACES.busy(since)
        raise
    finally:
        if mine:
            PLACES.storage.release()
    if PLACES.clock.now() - since > SLOW_SECONDS:
        PLACES.busy(since)
    return result
