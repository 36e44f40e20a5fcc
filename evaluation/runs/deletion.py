"""Old runs make room: before a call writes anything, and when a write finds the storage full."""

import time
from typing import Any

from evaluation.errors import EvaluationError, Reason
from evaluation.runs.heads import RunHead
from evaluation.runs.records import SCHEMA
from evaluation.runs.store import LOCK, RunStore, score_keys_in
from evaluation.storage.lock import Lock
from evaluation.storage.many import at_once, delete_all
from evaluation.storage.values import delete, read, read_json

# What deleting may take of a call; the rest is deleted by the next one.
DELETING_SECONDS = 15.0
# Rows that are deleted before the clock is looked at again.
ROWS_AT_A_TIME = 64
# What a run has beside its rows, its index and its head.
_OTHERS = ("begun", "seen", LOCK)


class Deletion:
    """Deletes runs of a name.

    A run goes from its summary, without which no list shows it and nothing is compared with it, to its head, which goes
    last: what could not be deleted is found and tried again by a later call. Nothing is written but the number of the
    oldest run, as a storage may be full.

    Attributes:
        spared: the number of the run that is worked on: it makes no room for itself.
        freed: the numbers of the runs that were deleted because the storage was full.
    """

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self.spared = 0
        self.freed: list[int] = []

    def prune(self, before: int, seconds: float = DELETING_SECONDS) -> int:
        """Deletes the runs whose number is lower than `before`, the oldest first, as far as time allows.

        What a later version keeps stays, and stands in nobody's way.

        Returns:
            The number of the oldest run that may be left.

        Raises:
            EvaluationError: storage_failed.
        """
        until = time.monotonic() + min(seconds, DELETING_SECONDS)
        oldest, newest = self._store.numbers()
        gone = oldest
        for number in range(oldest, min(before, newest + 1)):
            if time.monotonic() >= until:
                break
            if self.delete(number, until):
                gone += number == gone
            elif not _is_later(self._store.raw_head(number)):
                break
        if gone != oldest:
            self._store.write_numbers(gone, newest)
        return gone

    def free(self) -> bool:
        """Deletes the oldest finished run but the spared one; False without one, or when it can't be deleted."""
        try:
            oldest, newest = self._store.numbers()
            for number in range(oldest, newest + 1):
                if number == self.spared or not self._is_finished(number) or _is_later(self._store.raw_head(number)):
                    continue
                freed = self.delete(number, time.monotonic() + DELETING_SECONDS)
                self.freed += [number] if freed else []
                return freed
        except EvaluationError:
            pass
        return False

    def _is_finished(self, number: int) -> bool:
        return bool(read_json(self._store.values, self._store.key(number, "summary")).get("finished"))

    def delete(self, number: int, until: float) -> bool:
        """Whether the run is gone with all that it kept.

        Args:
            until: on time.monotonic; what is left then is left to a later call.

        Raises:
            EvaluationError: storage_failed.
        """
        store = self._store
        head = store.raw_head(number)
        if not head:
            return True
        # What a later version keeps is not known here, and what is worked on is not touched.
        if _is_later(head) or Lock(store.values, store.key(number, LOCK), Reason.RUN_BUSY).holder():
            return False
        if not delete(store.values, store.key(number, "summary")):
            return False
        rows = _rows_of(head)
        begun = rows[: store.begun(number)] if "schema" in head else rows
        for start in range(0, len(begun), ROWS_AT_A_TIME):
            if time.monotonic() > until:
                return False
            if not all(at_once(lambda key: self._delete_row(number, key), begun[start : start + ROWS_AT_A_TIME])):
                return False
        others = [*store.index_keys(number, len(rows)), *(store.key(number, name) for name in _OTHERS)]
        return delete_all(store.values, others) and delete(store.values, store.key(number, "head"))

    def _delete_row(self, number: int, key: str) -> bool:
        """Whether the row is gone, and what leads to its scores with it."""
        values, place = self._store.values, self._store.key(number, key)
        data = read(values, place)
        if data is None:
            return True
        for scores in score_keys_in(data):
            # A later row may have taken the scores over.
            if read_json(values, scores) == self._store.place(number, key) and not delete(values, scores):
                return False
        return delete(values, place)


def _is_later(head: dict[str, Any]) -> bool:
    """Whether a later version has kept the run, or something that nobody knows."""
    schema = head.get("schema", 0)
    return not isinstance(schema, int) or schema > SCHEMA


def _rows_of(head: dict[str, Any]) -> list[str]:
    """The names of a run's rows; a head of before schema numbers lists them."""
    if "schema" not in head:
        return [str(key) for key in head.get("keys", ())]
    # What earlier schemas kept of rows is the same.
    found = RunHead.from_dict({**head, "schema": SCHEMA})
    return found.keys if found else []
