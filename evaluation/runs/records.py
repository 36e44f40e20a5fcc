"""What is known of a run and of each of its rows. Everything is JSON, as it is kept in storage between two calls."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from evaluation.errors import Reason
from evaluation.golden.table import Row
from evaluation.languages import Language
from evaluation.result import MetricResult
from evaluation.sample import Chunk, Contexts, Sample

RowState = Literal["open", "answered", "done", "failed"]


@dataclass
class RowRecord:
    """One question of the table, asked once.

    Attributes:
        row: its place in the table, from 1.
        repetition: which time it is asked, from 1.
        state: open; answered (the app's answer is there, scores are not or not all); done; failed (the app gave no
            answer, or something unexpected happened).
        contexts: the retrieved chunks, best rank first, as {"text", "title", "documents"}.
        contexts_hidden: why it can't be seen what was retrieved, a reason code, "" when it can.
        app_reason: why the app gave no answer, a reason code, "" when it did.
        app_message: what the app said of it, shortened.
        app_seconds: how long the app took; app_tokens what it used, as far as it says.
        metrics: by name, {"score", "status", "reason", "reason_values" where a reason has some, "version", and the
            metric's details}.
        document_scores: the comparison with the documents that should be found, None where they are not known.
        findings: what is wrong, as {"name", "settings"}, the first thing first.
        usage: what judging cost, as JudgeSession gives it.
        fingerprint: of everything that the scores depend on, "" before any; equal fingerprints share their scores.
        reused: the scores were taken from an earlier run.
    """

    row: int
    question: str
    repetition: int = 1
    reference: str = ""
    documents: str = ""
    category: str = ""
    inputs: dict[str, str] = field(default_factory=dict)
    state: RowState = "open"
    answer: str = ""
    contexts: list[dict[str, Any]] = field(default_factory=list)
    contexts_hidden: str = ""
    app_reason: str = ""
    app_message: str = ""
    app_seconds: float = 0.0
    app_tokens: int = 0
    metrics: dict[str, dict[str, Any]] = field(default_factory=dict)
    document_scores: dict[str, Any] | None = None
    findings: list[dict[str, Any]] = field(default_factory=list)
    usage: dict[str, Any] = field(default_factory=dict)
    fingerprint: str = ""
    reused: bool = False

    @property
    def key(self) -> str:
        """The record's name within its run."""
        return f"{self.row}-{self.repetition}"

    @property
    def judged(self) -> bool:
        """Whether no metric has failed: one that has is worth another try."""
        return all(metric["status"] != "failed" for metric in self.metrics.values())

    @property
    def sample(self) -> Sample:
        """What the metrics judge."""
        chunks = tuple(Chunk(c["text"], c["title"], tuple(c["documents"])) for c in self.contexts)
        return Sample(self.question, self.answer, self.reference, Contexts(chunks, hidden=self._hidden))

    @property
    def _hidden(self) -> Reason:
        """The reason of a later version is one too."""
        known = not self.contexts_hidden or self.contexts_hidden in set(Reason)
        return Reason(self.contexts_hidden) if known else Reason.CONTEXTS_NOT_VISIBLE

    def score(self, metric: str) -> float | None:
        """The row's score for a metric, None when it has none."""
        score = self.metrics.get(metric, {}).get("score")
        return None if score is None else float(score)

    def result(self, metric: str) -> MetricResult | None:
        """The row's result for a metric as the metric gave it, None when it was not asked for."""
        kept = dict(self.metrics.get(metric, {}))
        if not kept:
            return None
        score, status, version = kept.pop("score", None), kept.pop("status", "failed"), str(kept.pop("version", ""))
        reason = kept.pop("reason", "")
        values = kept.pop("reason_values", {})
        known = Reason(reason) if reason in set(Reason) else Reason.INTERNAL_ERROR
        return MetricResult(metric, version, status, score, known, values, kept)

    def as_json(self) -> bytes:
        # As escapes even half a character from a broken text can be kept; packing makes up for their length.
        return json.dumps(asdict(self), allow_nan=False).encode()

    @classmethod
    def from_json(cls, data: bytes) -> "RowRecord":
        """The record that was kept; fields of another version that are not known are left out.

        Raises:
            ValueError: it is none.
        """
        value = json.loads(data)
        known = {entry.name for entry in fields(cls)}
        try:
            return cls(**{name: item for name, item in value.items() if name in known})
        except (TypeError, AttributeError) as error:
            raise ValueError("not a row's record") from error


@dataclass(frozen=True)
class RunSettings:
    """What a run is made with; scores of two runs are comparable when these agree.

    Attributes:
        app_id: of the app that is asked.
        judge, embedding_model: the models' names, "" without one.
        thresholds: by metric name.
        repeat: how often each question is asked.
        question_count: how many questions answer relevancy compares.
    """

    app_id: str
    judge: str
    embedding_model: str
    metrics: tuple[str, ...]
    depth: str
    votes: int
    language: Language
    thresholds: Mapping[str, float] = field(default_factory=dict)
    repeat: int = 1
    question_count: int = 3


def fingerprint(record: RowRecord, settings: RunSettings, versions: Mapping[str, str]) -> str:
    """Of everything that a row's scores depend on: texts, judge, depth, votes, versions of metrics and prompts."""
    parts = [
        record.question,
        record.answer,
        record.reference,
        [record.contexts_hidden, *(chunk["text"] for chunk in record.contexts)],
        [settings.judge, settings.embedding_model, settings.depth, settings.votes, settings.language],
        settings.question_count,
        sorted(settings.metrics),
        sorted(versions.items()),
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def open_records(rows: Sequence[Row], repeat: int) -> list[RowRecord]:
    """The records of a table's rows before anything is asked, in the order in which they are asked."""
    return [
        RowRecord(
            row=number,
            question=row.question,
            repetition=repetition,
            reference=row.reference,
            documents=row.documents,
            category=row.category,
            inputs=dict(row.others),
        )
        for repetition in range(1, repeat + 1)
        for number, row in enumerate(rows, start=1)
    ]
