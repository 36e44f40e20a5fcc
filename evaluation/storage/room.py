"""A storage that makes room for itself."""

import threading
from collections.abc import Callable

from evaluation.storage.values import Values, is_full


class MakingRoom:
    """The values of a storage; a write that finds it full frees something and is tried again.

    Args:
        free: deletes what can best be missed, and says whether there was something.
    """

    def __init__(self, values: Values, free: Callable[[], bool]) -> None:
        self._values = values
        self._free = free
        self._freed = 0
        self._lock = threading.Lock()

    def get(self, key: str) -> bytes:
        return self._values.get(key)

    def exist(self, key: str) -> bool:
        return self._values.exist(key)

    def delete(self, key: str) -> None:
        self._values.delete(key)

    def set(self, key: str, val: bytes) -> None:
        while True:
            freed = self._freed
            try:
                return self._values.set(key, val)
            except Exception as error:
                if not is_full(error) or not self._has_made_room(freed):
                    raise

    def _has_made_room(self, freed: int) -> bool:
        """One write at a time frees; the others that found the storage full meanwhile only try again."""
        with self._lock:
            if self._freed == freed:
                if not self._free():
                    return False
                self._freed += 1
            return True
