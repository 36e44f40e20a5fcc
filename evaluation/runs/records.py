"""What is known of a run and of each of its rows. Everything is JSON, as it is kept in storage between two calls."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from evaluation.diagnosis import is_known
from evaluation.errors import Reason
from evaluation.golden.table import Row
from evaluation.judging.models import ModelIdentity
from evaluation.languages import Language
from evaluation.pictures import without_pictures
from evaluation.result import MetricResult, bounded
from evaluation.sample import Chunk, Contexts, Sample
from evaluation.statistics.gate import GateKind

# Of everything that is kept of runs. What another version wrote is told, never misread; what has no number is older.
SCHEMA = 2

RowState = Literal["open", "answered", "done", "failed"]


@dataclass
class RowRecord:
    """One question of the table, asked once.

    Attributes:
        row: its place in the table, from 1.
        repetition: which time it is asked, from 1.
        state: open; answered (the app's answer is there, scores are not or not all); done; failed (the app gave no
            answer, or something unexpected happened; an answer that was there by then is kept).
        contexts: the retrieved chunks, best rank first, as {"text", "title", "documents"}.
        contexts_hidden: why it can't be seen what was retrieved, a reason code, "" when it can.
        app_reason: why the row has failed, a reason code, "" when it has not.
        app_message: what the app said of it, shortened.
        app_seconds: how long the app took; app_tokens what it used, as far as it says.
        metrics: by name, {"score", "status", "reason", "reason_values", "version", "details"}; see `kept_result`.
        document_scores: the comparison with the documents that should be found, None where they are not known.
        findings: what is wrong, as {"name", "settings"}, the first thing first.
        usage: what judging cost, as JudgeSession gives it; {} when it cost nothing.
        fingerprint: of everything that the scores depend on, "" before any; equal fingerprints share their scores.
        reused: the scores were taken from an earlier run.
        again: the scores when the same answer was judged a second time, by metric name; None when it was not.
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
    again: dict[str, float | None] | None = None

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
        kept = self.metrics.get(metric)
        if kept is None:
            return None
        known = Reason(kept["reason"]) if kept["reason"] in set(Reason) else Reason.INTERNAL_ERROR
        return MetricResult(
            metric, kept["version"], kept["status"], kept["score"], known, kept["reason_values"], kept["details"]
        )

    def as_json(self) -> bytes:
        # As escapes even half a character from a broken text can be kept; packing makes up for their length.
        return json.dumps({"schema": SCHEMA, **asdict(self)}, allow_nan=False).encode()

    @classmethod
    def from_json(cls, data: bytes) -> "RowRecord":
        """The record that was kept; fields that are not known are left out.

        Raises:
            ValueError: it is none, or was kept in another format.
        """
        value = json.loads(data)
        if not isinstance(value, dict) or value.get("schema") != SCHEMA:
            raise ValueError("not a row's record")
        return cls.from_dict(value)

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> "RowRecord":
        """The record of a mapping; raises ValueError when it is none."""
        known = {entry.name for entry in fields(cls)}
        try:
            record = cls(**{name: item for name, item in value.items() if name in known})
            # Another build may have found what this one has no words for.
            record.findings = [found for found in record.findings if is_known(found["name"], found["settings"])]
        except (TypeError, AttributeError, KeyError) as error:
            raise ValueError("not a row's record") from error
        return record


def kept_result(result: MetricResult, limit: int) -> dict[str, Any]:
    """A metric's result as a row keeps it. The details lie inside, so that no key of theirs meets a score or a reason.

    Args:
        limit: bytes of the details, as JSON.
    """
    return {
        "score": result.score,
        "status": result.status,
        "reason": result.reason.value,
        "reason_values": {
            name: value if isinstance(value, (str, int, float)) else str(value)
            for name, value in result.reason_values.items()
        },
        "version": result.version,
        "details": bounded(result.details, limit),
    }


@dataclass(frozen=True)
class RunSettings:
    """What a run is made with; scores of two runs are comparable when these agree.

    Attributes:
        app_id: of the app that is asked.
        judge, embedding_model: which models, with their parameters; without a name where there is none.
        options: of the metrics, by name: depth, question_count, similarity_weight.
        votes: how often each verdict is given.
        thresholds: by metric name.
        repeat: how often each question is asked.
        inputs: what the app is given with every question, beside the table's own columns.
        gate: what must reach a threshold, the mean or the lower end of its interval.
        max_failed: the share of rows that may fail before the run says nothing, 0 to 1.
    """

    app_id: str
    judge: ModelIdentity
    embedding_model: ModelIdentity
    metrics: tuple[str, ...]
    options: Mapping[str, Any]
    votes: int
    language: Language
    thresholds: Mapping[str, float] = field(default_factory=dict)
    repeat: int = 1
    inputs: Mapping[str, Any] = field(default_factory=dict)
    gate: GateKind = "mean"
    max_failed: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON types; equal for equal settings."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self), default=str))
        return plain

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> "RunSettings":
        """The settings that were kept; fields of another version that are not known are left out.

        Raises:
            KeyError, TypeError, AttributeError: it is none.
        """
        known = {entry.name for entry in fields(cls)}
        models = {name: _model(value[name]) for name in ("judge", "embedding_model")}
        others = {name: item for name, item in value.items() if name in known}
        return cls(**{**others, **models, "metrics": tuple(value["metrics"])})

    def asks_the_same(self, other: "RunSettings") -> bool:
        """Whether answers and scores made with the one are those of the other: only what is concluded may differ."""
        return self._without_conclusions() == other._without_conclusions()

    def _without_conclusions(self) -> dict[str, Any]:
        return {name: value for name, value in self.as_dict().items() if name not in CONCLUDING}

    def differing(self, other: "RunSettings") -> list[str]:
        """The names of what can make scores differ between the two although the answers are the same.

        Of JUDGING and the metrics' options, then `inputs`, with which the app may have answered otherwise.
        """
        both = {**self.options, **other.options}
        options = [name for name in both if self.options.get(name) != other.options.get(name)]
        names = [name for name in JUDGING if getattr(self, name) != getattr(other, name)]
        return [*names, *options, *(["inputs"] if self.inputs != other.inputs else [])]


def _model(value: Mapping[str, Any]) -> ModelIdentity:
    return ModelIdentity(value["provider"], value["name"], value["parameters"])


# Settings that change the scores themselves, beside the metrics' options.
JUDGING = ("judge", "embedding_model", "votes", "language")
# Settings that change neither answers nor scores: what is concluded of them.
CONCLUDING = frozenset({"thresholds", "gate", "max_failed"})


def fingerprint(record: RowRecord, settings: RunSettings, versions: Mapping[str, str]) -> str:
    """Of everything that a row's scores depend on: texts, inputs, models, options, versions of metrics and prompts."""
    made = settings.as_dict()
    parts = [
        record.question,
        record.answer,
        record.reference,
        sorted(record.inputs.items()),
        [record.contexts_hidden, *(chunk["text"] for chunk in record.contexts)],
        [made[name] for name in (*JUDGING, "options", "inputs")],
        sorted(settings.metrics),
        sorted(versions.items()),
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def open_records(rows: Sequence[Row], repeat: int) -> list[RowRecord]:
    """The records of a table's rows before anything is asked, in the order in which they are asked."""
    return [
        RowRecord(
            row=number,
            question=row.question,
            repetition=repetition,
            reference=without_pictures(row.reference),
            documents=row.documents,
            category=row.category,
            inputs=dict(row.others),
        )
        for repetition in range(1, repeat + 1)
        for number, row in enumerate(rows, start=1)
    ]
