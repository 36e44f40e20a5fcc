"""One call for a run: begin it or go on with it, and what is reported of it."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from evaluation.diagnosis import diagnose
from evaluation.errors import EvaluationError, Reason
from evaluation.golden.table import Row
from evaluation.judging.clock import Clock
from evaluation.judging.models import Embedder, Judge
from evaluation.judging.places import Caller, Places
from evaluation.judging.prompts import prompt_versions
from evaluation.judging.session import JudgeSession
from evaluation.judging.usage import Usage
from evaluation.metrics import METRICS
from evaluation.metrics.documents import read_documents, score_documents
from evaluation.runs.records import RowRecord, RunSettings, fingerprint, kept_result, open_records
from evaluation.runs.runner import Ask, Runner, shorten
from evaluation.runs.store import RunHead, RunStore, Values
from evaluation.runs.summary import RunReport, build_report
from evaluation.scorecard import evaluate_answer

# A row's details in storage and reports; a single answer's may be larger.
DETAILS_BYTES = 60_000
_COUNTED = ("judge_calls", "embedding_calls", "retries", "prompt_characters", "prompt_tokens", "completion_tokens")


@dataclass(frozen=True)
class RunRequest:
    """What one call asks for.

    Attributes:
        rows: of the table, in order.
        seconds: the call's budget.
        fresh: no scores are taken from earlier runs.
        compare_with: the name of another run, "" for the run before of the same name.
        keep_runs: how many runs of the name are kept, None for all.
    """

    name: str
    rows: Sequence[Row]
    settings: RunSettings
    concurrency: int = 4
    seconds: float = 240.0
    fresh: bool = False
    compare_with: str = ""
    keep_runs: int | None = None


def run(
    request: RunRequest,
    values: Values,
    ask: Ask,
    judge: Judge,
    embedder: Embedder | None,
    places: Caller | None = None,
) -> tuple[RunReport, EvaluationError | None]:
    """Goes on with the run of that name, or begins one, and reports what is there afterwards.

    Args:
        places: for the calls of the app and of the models.

    Returns:
        The report, finished or not, and what stopped the call before its time.

    Raises:
        EvaluationError: before anything is asked: run_busy, run_not_found for the run to compare with, or a storage
            that refuses.
    """
    store = RunStore(values, request.name)
    places = places or Places().run()
    store.lock()
    try:
        _require_other(request, values)
        head, records = _begin(store, request)
        scorer = _Scorer(request, store, judge, embedder, places)
        runner = Runner(
            store,
            head.number,
            ask,
            scorer.score,
            places=places,
            concurrency=request.concurrency,
            seconds=request.seconds,
        )
        error = runner.run(records).error
        finished = all(record.state in {"done", "failed"} for record in records)
        if finished:
            error = _try(lambda: store.write_head(replace(head, finished=True))) or error
        try:
            before, rows = _earlier(request, values, head.number)
        except EvaluationError as unread:
            # The run is worth its report without the comparison.
            (before, rows), error = (None, None), error or unread
        report = _report(request, head, records, before, rows)
        if finished and request.keep_runs is not None:
            oldest_kept = head.number - request.keep_runs + 1
            error = error or _try(lambda: store.delete_before(oldest_kept))
        return report, error
    finally:
        store.unlock()


def _require_other(request: RunRequest, values: Values) -> None:
    if request.compare_with not in {"", request.name}:
        other = RunStore(values, request.compare_with)
        if _finished(other, other.newest_number()) is None:
            raise EvaluationError(Reason.RUN_NOT_FOUND, run=request.compare_with)


def _try(write: Callable[[], None]) -> EvaluationError | None:
    """The error, when there is one."""
    try:
        write()
    except EvaluationError as error:
        return error
    return None


def _begin(store: RunStore, request: RunRequest) -> tuple[RunHead, list[RowRecord]]:
    """The run's head and records: those of the unfinished run when it is the same, else of a new one."""
    records = open_records(request.rows, request.settings.repeat)
    table = hashlib.sha256(
        json.dumps([[r.question, r.reference, r.documents, r.category, r.inputs] for r in records]).encode()
    ).hexdigest()[:32]
    number = store.newest_number()
    newest = store.head(number)
    if newest is not None and not newest.finished and newest.table == table and newest.settings == request.settings:
        return newest, [_kept(store.read_row(number, record.key), record) for record in records]
    head = RunHead(
        number + 1,
        datetime.now(UTC).isoformat(timespec="seconds"),
        request.settings,
        table,
        tuple(record.key for record in records),
    )
    store.write_head(head)
    return head, records


def _kept(kept: RowRecord | None, record: RowRecord) -> RowRecord:
    """The record as an earlier call has left it; without one, as the table has it."""
    if kept is None or kept.state == "open":
        return record
    if kept.state == "done" and kept.judged:
        shorten(kept)
    return kept


def _report(
    request: RunRequest,
    head: RunHead,
    records: Sequence[RowRecord],
    before: RunHead | None,
    rows: Sequence[RowRecord] | None,
) -> RunReport:
    return build_report(
        request.name,
        head.number,
        head.started_at,
        head.settings.app_id,
        head.settings,
        records,
        before=rows,
        compared_with=f"{request.compare_with or request.name} #{before.number}" if before else "",
        settings_before=before.settings if before else None,
        prompts=prompt_versions(head.settings.language),
    )


def _earlier(request: RunRequest, values: Values, number: int) -> tuple[RunHead | None, list[RowRecord] | None]:
    """The run to compare with and the scores of its rows: the one named, else the one before of the same name."""
    other = request.compare_with not in {"", request.name}
    store = RunStore(values, request.compare_with if other else request.name)
    before = _finished(store, store.newest_number() if other else number - 1)
    return before, [_scores_of(record) for record in store.read_rows(before)] if before else None


def _finished(store: RunStore, newest: int) -> RunHead | None:
    """The newest finished run that is not newer than a number, None when there is none."""
    for number in range(newest, 0, -1):
        head = store.head(number)
        if head is None or head.finished:
            return head
    return None


def _scores_of(record: RowRecord) -> RowRecord:
    """The record with no more than a comparison needs: it may be one of thousands."""
    metrics = {name: {"score": metric["score"], "status": metric["status"]} for name, metric in record.metrics.items()}
    return RowRecord(
        record.row,
        record.question,
        record.repetition,
        record.reference,
        inputs=record.inputs,
        state=record.state,
        metrics=metrics,
    )


class _Scorer:
    """Scores rows; all share the run's places and the judge's clock."""

    def __init__(
        self, request: RunRequest, store: RunStore, judge: Judge, embedder: Embedder | None, places: Caller
    ) -> None:
        self._request = request
        self._store = store
        self._judge = judge
        self._embedder = embedder
        self._places = places
        self._clock = Clock()
        versions = {name: metric.version for name, metric in METRICS.items()}
        self._versions = prompt_versions(request.settings.language) | versions

    def score(self, record: RowRecord, seconds: float) -> None:
        """Fills in the row's metrics; those that it or an earlier row has already got for just the same are kept."""
        request, settings = self._request, self._request.settings
        depends_on = fingerprint(record, settings, self._versions)
        if record.fingerprint != depends_on:
            record.fingerprint, record.metrics, record.usage = depends_on, {}, {}
            earlier = None if request.fresh else self._store.find_scores(depends_on)
            if earlier is not None:
                record.metrics, record.usage, record.reused = earlier.metrics, earlier.usage, True
        record.metrics = {name: metric for name, metric in record.metrics.items() if metric["status"] != "failed"}
        missing = [name for name in settings.metrics if name not in record.metrics]
        if missing:
            self._judge_row(record, missing, seconds)
        contexts = record.sample.contexts
        documents = None if contexts.hidden else score_documents(contexts.chunks, read_documents(record.documents))
        results = {name: result for name in settings.metrics if (result := record.result(name)) is not None}
        findings = diagnose(results, chunks=len(record.contexts), thresholds=settings.thresholds, documents=documents)
        record.document_scores = documents.as_dict() if documents else None
        record.findings = [{"name": found.name, "settings": list(found.settings)} for found in findings]

    def _judge_row(self, record: RowRecord, metrics: Sequence[str], seconds: float) -> None:
        settings = self._request.settings
        session = JudgeSession(
            self._judge,
            self._embedder,
            settings.language,
            budget=seconds,
            votes=settings.votes,
            clock=self._clock,
            places=self._places.row(record.key),
        )
        card = evaluate_answer(session, record.sample, metrics, options=settings.options)
        judged = record.metrics | {name: kept_result(result, DETAILS_BYTES) for name, result in card.results.items()}
        record.metrics = {name: judged[name] for name in settings.metrics if name in judged}
        record.usage, record.reused = _added(record.usage, session.usage.as_dict()), False


def _added(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """What two rounds of judging cost together."""
    rounds = [usage for usage in (before, now) if usage]
    prices = Counter[str]()
    for usage in rounds:
        prices.update({usage["currency"]: usage["price"]})
        prices.update(usage["other_prices"])
    counted = {name: sum(usage[name] for usage in rounds) for name in _COUNTED}
    return Usage(**counted, prices={currency: price for currency, price in prices.items() if price}).as_dict()
