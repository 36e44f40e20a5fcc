"""Scoring rows of a run: what an earlier run has scored just so is taken over, the rest is judged."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from evaluation.diagnosis import diagnose
from evaluation.judging.clock import Clock
from evaluation.judging.models import Embedder, Judge
from evaluation.judging.places import Caller
from evaluation.judging.session import JudgeSession
from evaluation.judging.usage import Usage
from evaluation.metrics.documents import read_documents, score_documents
from evaluation.runs.heads import RunHead
from evaluation.runs.records import RowRecord, RunSettings, fingerprint, kept_result
from evaluation.runs.store import RunStore
from evaluation.scorecard import evaluate_answer

# A row's details in storage and reports; a single answer's may be larger.
DETAILS_BYTES = 60_000
_COUNTED = ("judge_calls", "embedding_calls", "retries", "prompt_characters", "prompt_tokens", "completion_tokens")


class Scorer:
    """Scores the rows of one run; all share the run's places and the judge's clock."""

    def __init__(self, head: RunHead, store: RunStore, judge: Judge, embedder: Embedder | None, places: Caller) -> None:
        self._head = head
        self._store = store
        self._judge = judge
        self._embedder = embedder
        self._places = places
        self._clock = Clock()

    def score(self, record: RowRecord, seconds: float) -> None:
        """Fills in the row's metrics; those that it or an earlier row has already got for just the same are kept."""
        head, settings = self._head, self._head.settings
        depends_on = fingerprint(record, settings, head.versions)
        if record.fingerprint != depends_on:
            record.fingerprint, record.metrics, record.usage, record.again = depends_on, {}, {}, None
            earlier = None if head.fresh else self._store.find_scores(depends_on, record.repetition, head.number)
            if earlier is not None:
                record.metrics, record.again, record.reused = earlier.metrics, earlier.again, True
        record.metrics = {name: metric for name, metric in record.metrics.items() if metric["status"] != "failed"}
        missing = [name for name in settings.metrics if name not in record.metrics]
        if missing:
            judged, usage = self._judged(record, missing, seconds)
            both = record.metrics | judged
            record.metrics = {name: both[name] for name in settings.metrics if name in both}
            record.usage, record.reused = _added(record.usage, usage), False
        find_wrong(record, settings)

    def score_again(self, record: RowRecord, seconds: float) -> None:
        """Judges the row once more, for `again`; its own scores stay."""
        judged, usage = self._judged(record, self._head.settings.metrics, seconds)
        record.again = {name: metric["score"] for name, metric in judged.items()}
        record.usage = _added(record.usage, usage)

    def _judged(
        self, record: RowRecord, metrics: Sequence[str], seconds: float
    ) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
        """The metrics as they are kept, and what judging them cost."""
        settings = self._head.settings
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
        kept = {name: kept_result(result, DETAILS_BYTES) for name, result in card.results.items()}
        return kept, session.usage.as_dict()


def find_wrong(record: RowRecord, settings: RunSettings) -> None:
    """Fills in what needs no judge: how the row's documents were found, and what is wrong by the thresholds."""
    contexts = record.sample.contexts
    documents = None if contexts.hidden else score_documents(contexts.chunks, read_documents(record.documents))
    results = {name: result for name in settings.metrics if (result := record.result(name)) is not None}
    findings = diagnose(results, chunks=len(record.contexts), thresholds=settings.thresholds, documents=documents)
    record.document_scores = documents.as_dict() if documents else None
    record.findings = [{"name": found.name, "settings": list(found.settings)} for found in findings]


def _added(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """What two rounds of judging cost together."""
    rounds = [usage for usage in (before, now) if usage]
    prices = Counter[str]()
    for usage in rounds:
        prices.update({usage["currency"]: usage["price"]})
        prices.update(usage["other_prices"])
    counted = {name: sum(usage[name] for usage in rounds) for name in _COUNTED}
    return Usage(**counted, prices={currency: price for currency, price in prices.items() if price}).as_dict()
