"""Asking an app row after row and scoring its answers, within a time budget, keeping what was paid for."""

import logging
import random
import statistics
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from dataclasses import replace
from functools import partial
from typing import Any

from evaluation.errors import TRANSIENT, EvaluationError, JudgeError, Reason, whereabouts
from evaluation.judging.clock import Deadline, spawn
from evaluation.judging.places import Caller, Places, Turns
from evaluation.judging.session import LONGEST_WAIT_SECONDS
from evaluation.runs.app_events import AppAnswer
from evaluation.runs.lock import RunLock
from evaluation.runs.records import RowRecord
from evaluation.runs.store import BEGUN_AT_ONCE, RunStore

logger = logging.getLogger(__name__)

APP_TRIES = 5
# An app that streams longer than this for one question, or than half of the call, has failed at it.
APP_SECONDS = 120.0
# With less of that, a longer limit of the call would have given the app noticeably more.
SHORT_SHARE = 0.75
# Rows are only begun while there is time to finish one as long as the usual row, and this much.
SPARE_SECONDS = 2.0
SPARE_SHARE = 1.2
# What is left of the budget when judging must end, to keep what it has given.
KEEPING_SECONDS = 1.0
# How often the clock is looked at.
LOOKING_SECONDS = 0.2
# What a finished row keeps of each chunk in memory; the whole is in the store.
SHOWN_CHUNK_CHARACTERS = 1200
# The same for every row: going on would only repeat it.
_FATAL = frozenset(
    {
        Reason.APP_NOT_FOUND,
        Reason.APP_NOT_PUBLISHED,
        Reason.APP_IS_SELF,
        Reason.APP_KIND_UNSUPPORTED,
        Reason.APP_QUOTA_EXHAUSTED,
    }
)
_FATAL_JUDGE = frozenset({Reason.MODEL_UNAUTHORIZED, Reason.MODEL_NOT_FOUND, Reason.MODEL_NOT_SELECTED})

Ask = Callable[[RowRecord], AppAnswer]
Score = Callable[[RowRecord, float], None]


class _StaysOpenError(Exception):
    """The row is left for the next call."""


class Runner:
    """Runs the rows of one call.

    Args:
        store, number: where the rows are kept.
        ask: gives the app's answer for a row; raises EvaluationError.
        score: fills in a row's metrics within the seconds it is given; what fails is a metric that failed.
        lock: the run's, which this call has taken.
        places: for the calls of the app.
        concurrency: rows at a time.
        deadline: by then no row is worked on any more.
    """

    def __init__(
        self,
        store: RunStore,
        number: int,
        ask: Ask,
        score: Score,
        *,
        lock: RunLock,
        concurrency: int,
        deadline: Deadline,
        places: Caller | None = None,
    ) -> None:
        self._store = store
        self._number = number
        self._ask = ask
        self._score = score
        self._places = places or Places().run()
        self._concurrency = concurrency
        self._run_lock = lock
        self._deadline = deadline
        self._clock = deadline.clock
        # A row that had this long and still did not end would not do so in another call either.
        self._enough = min(APP_SECONDS, deadline.left() / 2)
        self._durations: list[float] = []
        self._error: EvaluationError | None = None
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._stopped = self._left_behind = self._busy = False
        self._writing = 0
        self._order: dict[str, int] = {}
        self._begun = 0
        self._beginning = threading.Lock()

    def run(self, records: Sequence[RowRecord]) -> EvaluationError | None:
        """Takes each record that is not done as far as time allows; the records are changed in place.

        Those that failed in an earlier call come last, so that they can't hold up the others. Rows in flight when time
        is up are left behind: what they had kept by then is there at the next call, and nothing is changed any more.

        Returns:
            What stopped the call before its time, such as an app or a judge that can't be called at all or storage that
            is full; None when nothing did.
        """
        unfinished = [record for record in records if record.state in {"open", "answered"}]
        ended = [record for record in records if record.state in {"done", "failed"}]
        again = [record for record in ended if record.state == "failed" or not record.judged]
        waiting = iter([*unfinished, *again])
        self._order = {record.key: place for place, record in enumerate(records, start=1)}
        self._begun = self._store.begun(self._number)
        workers = [spawn(lambda: self._work(waiting)) for _ in range(self._concurrency)]
        while not all(worker.done() for worker in workers) and self._left() > 0:
            self._run_lock.tell(sum(record.state in {"done", "failed"} for record in records))
            if self._run_lock.lost.is_set():
                self._end_with(EvaluationError(Reason.RUN_TAKEN_OVER))
                break
            wait(workers, timeout=min(LOOKING_SECONDS, max(0.01, self._left())))
        with self._lock:
            self._stopped = True
            self._idle.wait_for(lambda: not self._writing, timeout=KEEPING_SECONDS)
            self._left_behind = True
        for worker in workers:
            if worker.done():
                worker.result()
        if self._busy:
            self._end_with(EvaluationError(Reason.DIFY_BUSY))
        return self._error

    def _left(self) -> float:
        return self._deadline.left()

    def _work(self, waiting: Iterator[RowRecord]) -> None:
        while (record := self._next(waiting)) is not None:
            started = self._clock.now()
            # The row itself is what the report shows; it must not change under it once time is up.
            draft = replace(record)
            try:
                self._begin(record)
                self._take(record, draft)
            except EvaluationError as error:
                self._end_with(error)
                return
            except Exception:
                logger.exception("row %s failed unexpectedly: %s", record.key, whereabouts())
                self._publish(record, _unscored(draft) if draft.answer else _failed(record, Reason.INTERNAL_ERROR))
            self._durations.append(self._clock.now() - started)

    def _next(self, waiting: Iterator[RowRecord]) -> RowRecord | None:
        with self._lock:
            usual = statistics.median(self._durations) if self._durations else 0.0
            if self._stopped or self._error or self._left() < usual * SPARE_SHARE + SPARE_SECONDS:
                return None
            return next(waiting, None)

    def _begin(self, record: RowRecord) -> None:
        """Notes that the row may be kept from now on, some rows at a time, so that no other is looked for later."""
        with self._beginning:
            if (place := self._order[record.key]) > self._begun:
                begun = place - 1 + BEGUN_AT_ONCE
                self._store.write_begun(self._number, begun)
                self._begun = begun

    def _take(self, record: RowRecord, draft: RowRecord) -> None:
        """One row: the app's answer, then its scores, each kept as soon as it is there.

        Raises:
            EvaluationError: the run can't go on.
        """
        if draft.state == "failed" and draft.answer:
            draft.state, draft.app_reason = "answered", ""
        if draft.state in {"open", "failed"} and not self._answer(record, draft):
            return
        had = max(0.0, self._left() - KEEPING_SECONDS)
        self._score(draft, had)
        fatal = _fatal(draft)
        if fatal and fatal.reason is not Reason.QUOTA_EXHAUSTED:
            raise fatal
        if draft.state == "answered":
            cut_off = {name for name, metric in draft.metrics.items() if self._was_cut_off(metric, had)}
            draft.metrics = {name: metric for name, metric in draft.metrics.items() if name not in cut_off}
            draft.state = "answered" if cut_off else "done"
        self._publish(record, draft)
        if fatal:
            raise fatal

    def _was_cut_off(self, metric: Mapping[str, Any], had: float) -> bool:
        """Whether a metric may have failed for want of time or money alone; then the next call judges it."""
        if metric["reason"] == Reason.DIFY_BUSY:
            self._busy = True
        if metric["reason"] in {Reason.DIFY_BUSY, Reason.QUOTA_EXHAUSTED}:
            return True
        waiting = min(self._enough, 1.3 * LONGEST_WAIT_SECONDS)
        enough = {Reason.TIMEOUT.value: self._enough} | dict.fromkeys((reason.value for reason in TRANSIENT), waiting)
        return had < enough.get(metric["reason"], 0.0)

    def _answer(self, record: RowRecord, draft: RowRecord) -> bool:
        """Asks the app; False when the row ends here, failed or for want of time."""
        try:
            answer = self._asked(draft)
        except _StaysOpenError:
            return False
        except EvaluationError as error:
            if error.reason in _FATAL:
                raise
            said = str(error.values.get("text", ""))
            # An app whose own model stays busy has failed in its own words; Dify itself has none.
            reason = Reason.APP_FAILED if said and error.reason is Reason.APP_UNAVAILABLE else error.reason
            if reason is Reason.TIMEOUT and self._enough < APP_SECONDS * SHORT_SHARE:
                said = f"{max(1.0, self._enough):.0f}"
            seconds = draft.app_seconds
            vars(draft).update(vars(_failed(draft, reason, said)))
            draft.app_seconds = seconds
        else:
            draft.state, draft.app_reason, draft.app_message = "answered", "", ""
            draft.answer, draft.app_tokens = answer.text, answer.tokens
            draft.contexts = [
                {"text": chunk.text, "title": chunk.title, "documents": list(chunk.documents)}
                for chunk in answer.contexts.chunks
            ]
            draft.contexts_hidden = answer.contexts.hidden.value
        return self._publish(record, draft) and draft.state == "answered"

    def _asked(self, record: RowRecord) -> AppAnswer:
        """The app's answer. Server errors are waited out a few times, a busy Dify as long as there is time.

        Raises:
            _StaysOpenError: there is none for want of time.
            EvaluationError: there is none for another reason.
        """
        attempt, at_first = 0, 0.0
        while True:
            attempt += 1
            turns = self._places.row(record.key, asks_app=True)
            if not turns.acquire(timeout=max(0.0, self._left())):
                raise _StaysOpenError
            begun, had = self._clock.now(), self._left()
            at_first = at_first or had
            error: EvaluationError = JudgeError(Reason.TIMEOUT)
            try:
                call = spawn(partial(self._ask_in_place, turns, record))
                return call.result(timeout=max(0.0, min(self._enough, had)))
            except TimeoutError:
                pass
            except EvaluationError as failed:
                error = failed
            finally:
                record.app_seconds = round(self._clock.now() - begun, 3)
            wait = min(2.0**attempt, LONGEST_WAIT_SECONDS) * random.uniform(0.8, 1.2)
            worth = attempt < APP_TRIES if error.reason is Reason.APP_UNAVAILABLE else error.reason in TRANSIENT
            if worth and wait < self._left():
                self._clock.sleep(wait)
            elif self._stays_open(error.reason, had if error.reason is Reason.TIMEOUT else at_first):
                raise _StaysOpenError
            else:
                raise error

    def _ask_in_place(self, turns: Turns, record: RowRecord) -> AppAnswer:
        try:
            return self._ask(record)
        finally:
            turns.release()

    def _stays_open(self, reason: Reason, had: float) -> bool:
        """Whether a row without an answer may get one at the next call."""
        if reason is Reason.DIFY_BUSY:
            self._busy = True
            return True
        return reason in {Reason.TIMEOUT, Reason.APP_UNAVAILABLE} and had < self._enough

    def _publish(self, record: RowRecord, draft: RowRecord) -> bool:
        """Keeps what a row has come to, in the store and for the report; False once the call has ended."""

        def show() -> None:
            vars(record).update(vars(draft))
            shorten(record)

        return self._keep(lambda: self._store.write_row(self._number, draft), show)

    def _keep(self, write: Callable[[], None], then: Callable[[], None] | None = None) -> bool:
        """Writes to the store, False once the call has ended: the rows may be another call's by then.

        When the store refuses, no further row is begun, and what is there is still reported.
        """
        with self._lock:
            if self._stopped:
                return False
            self._writing += 1
        try:
            try:
                write()
            except EvaluationError as error:
                self._end_with(error)
            with self._lock:
                if then and not self._left_behind:
                    then()
                return not self._stopped
        finally:
            with self._lock:
                self._writing -= 1
                self._idle.notify_all()

    def _end_with(self, error: EvaluationError) -> None:
        with self._lock:
            self._error = self._error or error


def shorten(record: RowRecord) -> None:
    """Keeps in memory what a report shows of a finished row's chunks."""
    record.contexts = [{**chunk, "text": chunk["text"][:SHOWN_CHUNK_CHARACTERS]} for chunk in record.contexts]


def _failed(record: RowRecord, reason: Reason, message: str = "") -> RowRecord:
    """The row as the table has it, failed: it will be asked anew."""
    return RowRecord(
        record.row,
        record.question,
        record.repetition,
        record.reference,
        record.documents,
        record.category,
        record.inputs,
        "failed",
        app_reason=reason.value,
        app_message=message,
    )


def _unscored(record: RowRecord) -> RowRecord:
    """The row failed in scoring: its answer is paid for and kept, to be scored anew."""
    return replace(
        record, state="failed", app_reason=Reason.INTERNAL_ERROR.value, metrics={}, findings=[], fingerprint=""
    )


def _fatal(record: RowRecord) -> EvaluationError | None:
    """Why the judge can't go on with other rows, None when it may."""
    # Without chunks a score is 0 without asking.
    judged = [m for m in record.metrics.values() if m["score"] is not None and m["reason"] != Reason.NO_CONTEXTS]
    failed = [metric for metric in record.metrics.values() if metric["status"] == "failed"]
    # Whatever this row still got, the next one gets less.
    if any(metric["reason"] == Reason.QUOTA_EXHAUSTED for metric in record.metrics.values()):
        return EvaluationError(Reason.QUOTA_EXHAUSTED)
    if judged or not failed or not all(metric["reason"] in _FATAL_JUDGE for metric in failed):
        return None
    return EvaluationError(Reason(failed[0]["reason"]), **failed[0]["reason_values"])
