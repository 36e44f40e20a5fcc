"""Which run a call is for: a new one, one to go on with, one that is finished and was not seen yet.

Dify tells a plugin neither of a stop nor of a closed stream: a call runs on to its end, unseen. So that nothing is
asked twice, a call for what another call is already working on joins it: it waits for its end and reports it, and goes
on itself when the other one stops before the end or dies. Whether the other one's caller is still there makes no
difference. A call whose time ends before tells since when the other one is at work and how far it is, and leaves word,
so that the next one is shown the report. A call for anything else (another table, app or setting, or `fresh`) begins a
run of its own beside it. Thresholds and the gate are nothing else: they change neither answers nor scores, and those of
the latest call count.

That a report has gone out is noted when its last line was written. Whether anybody read it can't be known: a run that
ended unseen after a stop, and for which nobody came before its end, counts as seen.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

from evaluation.errors import EvaluationError, Reason
from evaluation.runs.deletion import Deletion
from evaluation.runs.heads import RunHead
from evaluation.runs.lock import RunLock
from evaluation.runs.request import RunRequest
from evaluation.runs.store import LOCK, RunStore

# How often a call that waits for another one looks.
JOINING_SECONDS = 2.0

How = Literal["new", "go_on", "retry", "unseen", "nothing_failed"]
_DONE = frozenset({"unseen", "nothing_failed"})


@dataclass(frozen=True)
class Opened:
    """The run that a call is for.

    Attributes:
        how: new; go_on, with rows that are open; retry, of those that failed; unseen and nothing_failed: it is
            finished, and only to be reported.
        lock: taken; None when nothing is to be kept.
        other_conclusions: its earlier calls had other thresholds or another gate than the head has now.
    """

    head: RunHead
    how: How
    lock: RunLock | None = None
    other_conclusions: bool = False

    @property
    def works(self) -> bool:
        """Whether something is to be asked or judged."""
        return self.how not in _DONE


class Opening:
    """Finds or begins the run of a call.

    Args:
        deletion: makes room before anything is written.
        versions: of prompts and metrics, by name.
    """

    def __init__(self, store: RunStore, request: RunRequest, deletion: Deletion, versions: Mapping[str, str]) -> None:
        self._store = store
        self._request = request
        self._deletion = deletion
        self._versions = versions
        self._table = request.table
        self._total = len(request.rows) * request.settings.repeat
        self._until = request.working
        self._joined = 0
        self._pruned = False

    def opened(self) -> Opened:
        """The run, with its lock where there is work to do.

        Raises:
            EvaluationError: run_busy; run_changed when there are no rows of just this run to try again; a storage that
                refuses.
        """
        while True:
            oldest, newest = self._store.numbers()
            head, how = self._find(newest)
            if head and how in _DONE and not self._concludes_otherwise(head):
                return Opened(head, how)
            number = newest + (how == "new")
            oldest = self._make_room(number) or oldest
            self._deletion.spared = number
            lock = RunLock(self._store.values, self._store.key(number, LOCK), self._total)
            try:
                lock.take()
            except EvaluationError as busy:
                if busy.reason is not Reason.RUN_BUSY:
                    raise
                self._wait(busy, number)
                continue
            try:
                if opened := self._begin(head, how, number, oldest, lock):
                    return opened
            except BaseException:
                lock.release()
                raise
            lock.release()

    def _find(self, newest: int) -> tuple[RunHead | None, How]:
        """What to do with the newest run, and its head when something is."""
        request, head = self._request, self._store.head(newest)
        same = (
            head is not None
            and (head.table, dict(head.versions)) == (self._table, dict(self._versions))
            and head.settings.asks_the_same(request.settings)
        )
        if request.retry_failed and not same and (head is not None or self._store.is_foreign(newest)):
            raise EvaluationError(Reason.RUN_CHANGED)
        if head is None or not same:
            return None, "new"
        summary = self._store.summary(newest)
        if summary is None or not summary.finished:
            return (head, "go_on") if request.retry_failed or head.fresh == request.fresh else (None, "new")
        if request.retry_failed and self._joined != newest:
            return head, "retry" if summary.failed or summary.troubled else "nothing_failed"
        if self._joined == newest or not (request.fresh or self._store.has_been_seen(newest)):
            return head, "unseen"
        return None, "new"

    def _concludes_otherwise(self, head: RunHead) -> bool:
        return head.settings.as_dict() != self._request.settings.as_dict()

    def _make_room(self, number: int) -> int:
        """Deletes what is beyond the runs to keep, once; the number of the oldest run that may be left, else 0."""
        if self._pruned:
            return 0
        self._pruned = True
        return self._deletion.prune(number - self._request.keep_runs, self._until.left() / 4)

    def _wait(self, busy: EvaluationError, number: int) -> None:
        self._joined = number
        if self._until.left() < JOINING_SECONDS:
            self._store.tell_seen(number, shown=False)
            raise busy
        self._until.clock.sleep(JOINING_SECONDS)

    def _begin(self, head: RunHead | None, how: How, number: int, oldest: int, lock: RunLock) -> Opened | None:
        """The run with its lock; None when another call has begun or finished it just now."""
        if head is not None:
            summary = self._store.summary(number) if how == "go_on" else None
            if summary and summary.finished:
                return None
            other = self._concludes_otherwise(head)
            if other:
                head = replace(head, settings=self._request.settings)
            return Opened(head, how, lock, other)
        if self._store.raw_head(number):
            return None
        request = self._request
        started_at = datetime.now(UTC).isoformat(timespec="seconds")
        head = RunHead(
            request.name,
            number,
            started_at,
            request.settings,
            self._table,
            len(request.rows),
            self._versions,
            request.app_name,
            request.fresh,
            request.table_name,
            request.table_version,
        )
        self._store.write_head(head, oldest)
        return Opened(head, "new", lock)
