"""One call for a run: begin it or go on with it, and what is reported of it."""

import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from evaluation.batch.records import RowRecord, RunSettings, fingerprint, open_records
from evaluation.batch.report_data import RunReport, build_report
from evaluation.batch.runner import Ask, Runner, shorten
from evaluation.batch.store import RunHead, RunStore, Values
from evaluation.errors import EvaluationError
from evaluation.golden import Row
from evaluation.judge import Embedder, Judge, JudgeSession
from evaluation.metrics import METRICS
from evaluation.prompts import prompt_versions
from evaluation.report.markdown import score_word
from evaluation.result import bounded
from evaluation.retrieval import read_documents
from evaluation.scorecard import Scorecard, evaluate_answer
from evaluation.texts import load_texts

# Judge calls at the same time over all rows.
PARALLEL_CALLS = 16
# A row's details in storage and reports; a single answer's may be larger.
DETAILS_CHARACTERS = 40_000


@dataclass(frozen=True)
class RunRequest:
    """What one call asks for.

    Attributes:
        rows: of the table, in order.
        options: of the metrics: depth, question_count, similarity_weight.
        seconds: the call's budget.
        fresh: no scores are taken from earlier runs.
        compare_with: the name of another run, "" for the run before of the same name.
        keep_runs: how many runs of the name are kept, None for all.
    """

    name: str
    rows: Sequence[Row]
    settings: RunSettings
    options: Mapping[str, Any]
    concurrency: int = 4
    seconds: float = 240.0
    fresh: bool = False
    compare_with: str = ""
    keep_runs: int | None = None


def run(
    request: RunRequest, values: Values, ask: Ask, judge: Judge, embedder: Embedder | None
) -> tuple[RunReport, EvaluationError | None]:
    """Goes on with the run of that name, or begins one, and reports what is there afterwards.

    Returns:
        The report, finished or not, and what stopped the call before its time.

    Raises:
        EvaluationError: run_busy, or storage that refuses before anything is asked.
    """
    store = RunStore(values, request.name)
    store.lock()
    try:
        head, records = _begin(store, request)
        scorer = _Scorer(request, store, judge, embedder)
        runner = Runner(store, head.number, ask, scorer.score, concurrency=request.concurrency, seconds=request.seconds)
        outcome = runner.run(records)
        error = outcome.error
        if all(record.state in {"done", "failed"} for record in records):
            head = replace(head, finished=True)
            error = _try(lambda: store.write_head(head)) or error
            if request.keep_runs is not None:
                store.delete_before(head.number - request.keep_runs + 1)
        return _report(request, values, store, head, records), error
    finally:
        store.unlock()


def _try(write: Any) -> EvaluationError | None:
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
    newest = store.newest()
    if newest is not None and not newest.finished and newest.table == table and newest.settings == request.settings:
        kept = {record.key: record for record in store.read_rows(newest)}
        return newest, [kept.get(record.key, record) for record in records]
    head = RunHead(
        newest.number + 1 if newest else 1,
        datetime.now(UTC).isoformat(timespec="seconds"),
        request.settings,
        table,
        tuple(record.key for record in records),
    )
    store.write_head(head)
    return head, records


def _report(
    request: RunRequest, values: Values, store: RunStore, head: RunHead, records: Sequence[RowRecord]
) -> RunReport:
    other = RunStore(values, request.compare_with) if request.compare_with else store
    before = _before(other, head, same_name=not request.compare_with)
    rows = other.read_rows(before) if before else None
    for record in rows or ():
        shorten(record)
    name = request.compare_with or request.name
    return build_report(
        request.name,
        head.number,
        head.started_at,
        head.settings.app_id,
        head.settings,
        records,
        before=rows,
        compared_with=f"{name} #{before.number}" if before else "",
    )


def _before(store: RunStore, head: RunHead, *, same_name: bool) -> RunHead | None:
    """The newest finished run, of the same name before this one."""
    newest = store.newest()
    number = head.number - 1 if same_name else (newest.number if newest else 0)
    while number > 0:
        candidate = store.head(number)
        if candidate is None or candidate.finished:
            return candidate
        number -= 1
    return None


class _Scorer:
    """Scores rows; all share the limit of parallel judge calls."""

    def __init__(self, request: RunRequest, store: RunStore, judge: Judge, embedder: Embedder | None) -> None:
        self._request = request
        self._store = store
        self._judge = judge
        self._embedder = embedder
        self._places = threading.Semaphore(PARALLEL_CALLS)
        versions = {name: metric.version for name, metric in METRICS.items()}
        self._versions = prompt_versions(request.settings.language) | versions

    def score(self, record: RowRecord, seconds: float) -> None:
        """Fills in the row's metrics, from an earlier run where nothing that they depend on has changed."""
        settings = self._request.settings
        record.fingerprint = fingerprint(record, settings, self._versions)
        earlier = None if self._request.fresh else self._store.find_scores(record.fingerprint)
        if earlier is not None:
            record.metrics, record.findings = earlier.metrics, earlier.findings
            record.document_scores, record.usage, record.reused = earlier.document_scores, earlier.usage, True
            return
        session = JudgeSession(
            self._judge, self._embedder, settings.language, budget=seconds, votes=settings.votes, places=self._places
        )
        card = evaluate_answer(
            session,
            record.sample,
            settings.metrics,
            options=self._request.options,
            thresholds=settings.thresholds,
            expected_documents=read_documents(record.documents),
        )
        _fill(record, card, session)


def _fill(record: RowRecord, card: Scorecard, session: JudgeSession) -> None:
    texts = load_texts(session.language)
    record.metrics = {
        name: {
            "score": result.score,
            "score_text": score_word(result, texts),
            "status": result.status,
            "reason": result.reason.value,
            "reason_values": {key: str(value) for key, value in result.reason_values.items()},
            "version": result.version,
            **bounded(result.details, DETAILS_CHARACTERS),
        }
        for name, result in card.results.items()
    }
    record.document_scores = card.documents.as_dict() if card.documents else None
    record.findings = [{"name": found.name, "settings": list(found.settings)} for found in card.findings]
    record.usage, record.reused = session.usage.as_dict(), False
    if any(metric["status"] == "failed" for metric in record.metrics.values()):
        # What could not be judged is not to be taken over by a later run.
        record.fingerprint = ""
