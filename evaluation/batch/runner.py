"""Asking an app row after row and scoring its answers, within a time budget, keeping what was paid for."""

import random
import statistics
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from evaluation.batch.app_events import AppAnswer
from evaluation.batch.records import RowRecord
from evaluation.batch.store import LOCK_RENEWAL_SECONDS, RunStore
from evaluation.errors import EvaluationError, JudgeError, Reason
from evaluation.judge import Clock, spawn

APP_TRIES = 5
# An app that streams longer than this for one question has failed at it.
APP_SECONDS = 120.0
# Rows are only begun while there is time to finish one as long as the usual row, and this much.
SPARE_SECONDS = 2.0
SPARE_SHARE = 1.2
# What a finished row keeps of each chunk in memory; the whole is in the store.
SHOWN_CHUNK_CHARACTERS = 1200
# The same for every row: going on would only repeat it.
_FATAL = frozenset({Reason.APP_NOT_FOUND, Reason.APP_NOT_PUBLISHED, Reason.APP_IS_SELF})

Ask = Callable[[RowRecord], AppAnswer]
Score = Callable[[RowRecord, float], None]


@dataclass
class RunOutcome:
    """How a call ended.

    Attributes:
        error: what stopped it before its time: an app that can't be called at all, storage that is full.
    """

    error: EvaluationError | None = None


class Runner:
    """Runs the rows of one call.

    Args:
        store, number: where the rows are kept.
        ask: gives the app's answer for a row; raises EvaluationError.
        score: fills in a row's metrics within the seconds it is given; raises nothing.
        concurrency: rows at a time.
        seconds: the budget of the call.
    """

    def __init__(
        self,
        store: RunStore,
        number: int,
        ask: Ask,
        score: Score,
        *,
        concurrency: int,
        seconds: float,
        clock: Clock | None = None,
    ) -> None:
        self._store = store
        self._number = number
        self._ask = ask
        self._score = score
        self._concurrency = concurrency
        self._clock = clock or Clock()
        self._deadline = self._clock.now() + seconds
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._durations: list[float] = []
        self._outcome = RunOutcome()

    def run(self, records: Sequence[RowRecord]) -> RunOutcome:
        """Takes each record that is not done as far as time allows; the records are changed in place.

        Rows in flight when time is up are left behind: what they had kept by then is there at the next call.
        """
        waiting = iter([record for record in records if record.state != "done"])
        workers = [spawn(lambda: self._work(waiting)) for _ in range(self._concurrency)]
        renewed = self._clock.now()
        while not all(worker.done() for worker in workers) and self._left() > 0:
            if self._clock.now() - renewed >= LOCK_RENEWAL_SECONDS:
                renewed = self._clock.now()
                self._keep(self._store.renew_lock)
            self._clock.sleep(min(0.2, max(0.01, self._left())))
        self._stopped.set()
        for worker in workers:
            if worker.done():
                worker.result()
        return self._outcome

    def _left(self) -> float:
        return self._deadline - self._clock.now()

    def _work(self, waiting: Iterator[RowRecord]) -> None:
        while (record := self._next(waiting)) is not None:
            started = self._clock.now()
            try:
                self._take(record)
            except EvaluationError as error:
                with self._lock:
                    self._outcome.error = self._outcome.error or error
                return
            self._durations.append(self._clock.now() - started)

    def _next(self, waiting: Iterator[RowRecord]) -> RowRecord | None:
        with self._lock:
            usual = statistics.median(self._durations) if self._durations else 0.0
            if self._stopped.is_set() or self._outcome.error or self._left() < usual * SPARE_SHARE + SPARE_SECONDS:
                return None
            return next(waiting, None)

    def _take(self, record: RowRecord) -> None:
        """One row: the app's answer, then its scores, each kept as soon as it is there.

        Raises:
            EvaluationError: the run can't go on.
        """
        if record.state in {"open", "failed"} and not self._answer(record):
            return
        self._score(record, max(0.0, self._left()))
        if self._stopped.is_set():
            return
        cut_off = self._left() <= 0 and any(m["reason"] == Reason.TIMEOUT for m in record.metrics.values())
        if cut_off:
            record.metrics = {}
            return
        record.state = "done"
        self._keep(lambda: self._store.write_row(self._number, record))
        shorten(record)

    def _answer(self, record: RowRecord) -> bool:
        """Asks the app; False when the row ends here, failed or for want of time."""
        started = self._clock.now()
        try:
            answer = self._asked(record)
        except EvaluationError as error:
            if error.reason in _FATAL:
                raise
            if error.reason is Reason.TIMEOUT and self._left() <= 0:
                return False
            record.state, record.app_reason = "failed", error.reason.value
            record.app_message = str(error.values.get("text", ""))
        else:
            record.state, record.app_reason, record.app_message = "answered", "", ""
            record.answer, record.app_tokens = answer.text, answer.tokens
            record.contexts = [
                {"text": chunk.text, "title": chunk.title, "documents": list(chunk.documents)}
                for chunk in answer.contexts.chunks
            ]
        record.app_seconds = round(self._clock.now() - started, 3)
        if not self._stopped.is_set():
            self._keep(lambda: self._store.write_row(self._number, replace(record)))
        return record.state == "answered" and not self._stopped.is_set()

    def _asked(self, record: RowRecord) -> AppAnswer:
        """The app's answer. Too many calls at once and server errors are waited out."""
        for attempt in range(1, APP_TRIES + 1):
            try:
                call = spawn(lambda: self._ask(record))
                return call.result(timeout=max(0.0, min(APP_SECONDS, self._left())))
            except TimeoutError:
                raise JudgeError(Reason.TIMEOUT) from None
            except EvaluationError as error:
                wait = 2.0**attempt * random.uniform(0.8, 1.2)
                if error.reason is not Reason.APP_UNAVAILABLE or attempt == APP_TRIES or wait >= self._left():
                    raise
                self._clock.sleep(wait)
        raise AssertionError("unreachable")

    def _keep(self, write: Callable[[], None]) -> None:
        """Writes to the store; when it refuses, no further row is begun, and what is there is still reported."""
        try:
            write()
        except EvaluationError as error:
            with self._lock:
                self._outcome.error = self._outcome.error or error


def shorten(record: RowRecord) -> None:
    """Keeps in memory what a report shows of a finished row's chunks."""
    record.contexts = [{**chunk, "text": chunk["text"][:SHOWN_CHUNK_CHARACTERS]} for chunk in record.contexts]
