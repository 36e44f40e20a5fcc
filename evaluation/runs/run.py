"""One call for a run: begin it, go on with it or show it again, and what is reported of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from evaluation.errors import EvaluationError, Reason
from evaluation.judging.models import Embedder, Judge
from evaluation.judging.places import Caller, Places
from evaluation.judging.prompts import prompt_versions
from evaluation.metrics import METRICS
from evaluation.runs.again import judge_again, to_judge_again
from evaluation.runs.deletion import Deletion
from evaluation.runs.heads import RunHead
from evaluation.runs.lock import RunLock
from evaluation.runs.names import RunName, add_name
from evaluation.runs.opening import How, Opened, Opening
from evaluation.runs.past import Other, Past, find_other, read_past
from evaluation.runs.records import RowRecord, open_records
from evaluation.runs.request import RunRequest
from evaluation.runs.runner import Ask, Runner, shorten
from evaluation.runs.scorer import Scorer, find_wrong
from evaluation.runs.store import RunStore
from evaluation.runs.summary import RunReport, build_report, kept_summary
from evaluation.storage.many import at_once
from evaluation.storage.room import MakingRoom
from evaluation.storage.values import Values

_ENDED = frozenset({"done", "failed"})


@dataclass(frozen=True)
class RunOutcome:
    """What a call came to.

    Attributes:
        report: of the run, finished or not.
        how: what the call did with the run.
        error: what stopped it before its time, None when nothing did.
        freed: numbers of the runs of the same name that were deleted because the storage was full.
        tell_seen: to be called when the last line of the output is written.
    """

    report: RunReport
    how: How = "new"
    error: EvaluationError | None = None
    freed: Sequence[int] = ()
    tell_seen: Callable[[], None] = field(default=lambda: None)


def run(
    request: RunRequest,
    values: Values,
    ask: Ask,
    judge: Judge,
    embedder: Embedder | None,
    places: Caller | None = None,
) -> RunOutcome:
    """Goes on with the run that the request is for, or begins one, and reports what is there afterwards.

    Args:
        places: for the calls of the app and of the models.

    Raises:
        EvaluationError: before anything is asked: run_busy, run_changed, run_not_found or run_unreadable for the run to
            compare with, or a storage that refuses.
    """
    return _Call(request, values, places or Places().run()).run(ask, judge, embedder)


class _Call:
    def __init__(self, request: RunRequest, values: Values, places: Caller) -> None:
        self._request = request
        self._places = places
        self._values = values
        self._name = RunName.of(request.name, request.settings.app_id, request.app_name)
        self._deletion = Deletion(RunStore(values, self._name.base))
        self._store = RunStore(MakingRoom(values, self._deletion.free), self._name.base)
        self._errors: list[EvaluationError] = []

    def run(self, ask: Ask, judge: Judge, embedder: Embedder | None) -> RunOutcome:
        other = find_other(self._values, self._name, self._request.compare_with)
        opened = Opening(self._store, self._request, self._deletion, _versions(self._request)).opened()
        try:
            records = self._records(opened)
            if opened.lock and opened.works:
                scorer = Scorer(opened.head, self._store, judge, embedder, self._places)
                self._work(opened.head, opened.lock, records, ask, scorer, again=opened.how == "retry")
            report = self._report(opened.head, records, other)
            if opened.lock and not opened.lock.lost.is_set():
                self._keep(opened.head, records, report)
        finally:
            if opened.lock:
                opened.lock.release()
        error = self._errors[0] if self._errors else None
        return RunOutcome(report, opened.how, error, self._deletion.freed, lambda: self._tell_seen(opened, report))

    def _records(self, opened: Opened) -> list[RowRecord]:
        """The run's rows, as earlier calls have left them where there were some."""
        records = open_records(self._request.rows, self._request.settings.repeat)
        if opened.how == "new":
            return records
        number = opened.head.number
        begun = self._store.begun(number)
        kept = self._store.read_rows(number, [record.key for record in records[:begun]])
        if opened.other_conclusions:
            at_once(lambda row: self._conclude_anew(opened.head, row), [row for row in kept if row is not None])
            # The head last: a call that dies before is made up for by the next one.
            self._store.rewrite_head(opened.head)
        return [_kept(row, record) for row, record in zip(kept, records, strict=False)] + records[begun:]

    def _conclude_anew(self, head: RunHead, record: RowRecord) -> None:
        """Finds by the run's new thresholds what is wrong with a row, and keeps it where that is something else."""
        before = record.findings
        if record.state == "done":
            find_wrong(record, head.settings)
        if record.findings != before:
            self._store.write_row(head.number, record)

    def _work(
        self, head: RunHead, lock: RunLock, records: Sequence[RowRecord], ask: Ask, scorer: Scorer, *, again: bool
    ) -> None:
        self._try(lambda: add_name(self._store.values, self._name))
        if again and (summary := self._store.summary(head.number)):
            # A call that dies while rows are tried again is gone on with by the next one.
            self._store.write_summary(replace(summary, finished=False))
        runner = Runner(
            self._store,
            head.number,
            ask,
            scorer.score,
            lock=lock,
            places=self._places,
            concurrency=self._request.concurrency,
            deadline=self._request.working,
        )
        if error := runner.run(records):
            self._errors.append(error)
        elif head.settings.repeat > 1 and all(record.state in _ENDED for record in records):
            chosen = to_judge_again(records)
            self._try(lambda: judge_again(chosen, self._store, head.number, scorer, self._request.working))

    def _report(self, head: RunHead, records: Sequence[RowRecord], other: Other | None) -> RunReport:
        """The run against an earlier one. What can't be read of that is told; the run is worth its report without."""
        title = self._request.title or head.name
        past = Past()
        try:
            past = read_past(self._values, self._name, title, head.number, other)
        except EvaluationError as error:
            self._errors.append(error)
        return build_report(
            title,
            head.number,
            head.started_at,
            head.app_name,
            head.settings,
            records,
            before=past.rows,
            compared_with=past.title,
            settings_before=past.settings,
            prompts=prompt_versions(head.settings.language),
            no_comparison=past.none,
            past=past.listed,
            names=past.names,
            table_name=head.table_name,
            table_version=head.table_version,
            stopped=self._errors[0].reason if self._errors else Reason.NONE,
        )

    def _keep(self, head: RunHead, records: Sequence[RowRecord], report: RunReport) -> None:
        """Keeps what the run came to; the summary last, which says whether it is finished."""
        number = head.number
        ended_at = datetime.now(UTC).isoformat(timespec="seconds")

        def keep() -> None:
            self._store.write_index(number, records)
            self._store.write_summary(kept_summary(head, report, ended_at))
            add_name(self._store.values, self._name)
            if report.finished:
                self._deletion.prune(number - self._request.keep_runs + 1, self._request.deadline.left() / 4)

        self._try(keep)

    def _try(self, call: Callable[[], object]) -> None:
        """What fails here is told beside the report."""
        try:
            call()
        except EvaluationError as error:
            self._errors.append(error)

    def _tell_seen(self, opened: Opened, report: RunReport) -> None:
        """Notes that the report has gone out, unless somebody came in vain for it while this call was at work."""
        # Nothing is freed for a note that comes after all has been told.
        store, number = RunStore(self._values, self._name.base), opened.head.number
        if report.finished and not (opened.works and store.is_wanted(number)):
            store.tell_seen(number, shown=True)


def _versions(request: RunRequest) -> dict[str, str]:
    metrics = {name: metric.version for name, metric in METRICS.items()}
    return {**prompt_versions(request.settings.language), **metrics}


def _kept(kept: RowRecord | None, record: RowRecord) -> RowRecord:
    """The record as an earlier call has left it; without one, as the table has it."""
    if kept is None or kept.state == "open":
        return record
    if kept.state == "done" and kept.judged:
        shorten(kept)
    return kept
