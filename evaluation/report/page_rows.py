"""What the page of a run shows of single rows, as plain values for its template."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from evaluation.metrics import METRICS
from evaluation.report.escape import one_line, visible
from evaluation.report.markdown import capitalized
from evaluation.report.numbers import score_text
from evaluation.report.run_rows import Judged, entries, level, metric_failures, row_failure, sentence
from evaluation.result import MetricResult
from evaluation.runs.records import RowRecord
from evaluation.runs.summary import RunReport
from evaluation.texts import Texts

NAME_CHARACTERS = 80
QUESTION_CHARACTERS = 160
MOST_FAILURES = 50

View = dict[str, Any]


@dataclass(frozen=True)
class Limits:
    """How much of a run a page shows.

    Attributes:
        rows: with their texts, the worst first.
        text, chunk, entry: characters of a question, answer or reference; of a chunk; of a claim or a reason.
        entries, chunks: per list.
    """

    rows: int
    text: int
    chunk: int
    entry: int
    entries: int
    chunks: int


def label_of(record: RowRecord, report: RunReport, anchors: set[str]) -> View:
    repeated = f"-{record.repetition}" if report.settings.repeat > 1 else ""
    return {"text": f"#{record.row}{repeated}", "anchor": f"row-{record.key}" if record.key in anchors else ""}


def row_of(record: RowRecord, report: RunReport, texts: Texts, limits: Limits) -> View:
    found = [(name, result) for name in report.settings.metrics if (result := record.result(name)) is not None]
    metrics = [_row_metric(name, result, report, texts, limits) for name, result in found]
    first = record.findings[0] if record.findings else None
    return {
        "anchor": f"row-{record.key}",
        "label": f"#{record.row}",
        "repetition": texts.get("report.repetition", count=record.repetition) if report.settings.repeat > 1 else "",
        "category": one_line(record.category, NAME_CHARACTERS),
        "title": one_line(record.question, QUESTION_CHARACTERS),
        "texts": [
            {"head": texts.get(f"report.{name}"), "name": name, **_text(value, limits.text)}
            for name, value in _texts(record)
        ],
        "cause": texts.get(f"diagnosis.{first['name']}") if first else "",
        "steps": [capitalized(texts.get(f"settings_to_try.{step}")) for step in first["settings"]] if first else [],
        "low": [metric for metric in metrics if metric["tone"] in {"bad", "fair", "failed"}],
        "metrics": metrics,
        "chunks": _chunks(record, texts, limits),
        "chunks_left": max(0, len(record.contexts) - limits.chunks),
    }


def _texts(record: RowRecord) -> Iterator[tuple[str, str]]:
    if len(record.question) > 60:
        yield "question", record.question
    yield "answer", record.answer
    yield "reference", record.reference


def _text(value: str, limit: int) -> View:
    text, cut = visible(value, limit)
    return {"text": text, "cut": cut}


def _row_metric(name: str, result: MetricResult, report: RunReport, texts: Texts, limits: Limits) -> View:
    threshold = report.settings.thresholds.get(name)
    lists = []
    for listed in METRICS[name].lists:
        # The chunks stand by themselves, with their whole texts.
        found, omitted = ([], 0) if listed.role == "chunks" else entries(result, listed.key, texts)
        if found:
            plain = listed.role == "plain"
            lists.append(
                {
                    "head": texts.get(f"words.{name}.lists.{listed.key}"),
                    "entries": [_entry(judged, limits, plain=plain) for judged in found[: limits.entries]],
                    "left": omitted + max(0, len(found) - limits.entries),
                }
            )
    if result.score is None:
        tone = "failed" if result.status == "failed" else "plain"
    else:
        tone = level(result.score, threshold)
    return {
        "name": texts.get(f"metrics.{name}"),
        "score": texts.get("not_evaluated") if result.score is None else score_text(result.score),
        "tone": tone,
        "sentence": capitalized(sentence(result, texts)),
        "lists": lists,
    }


def _entry(judged: Judged, limits: Limits, *, plain: bool) -> View:
    return {
        "text": one_line(judged.text, limits.entry),
        "reason": one_line(judged.reason, limits.entry),
        "kind": judged.kind,
        "tone": "none" if plain else _tone(judged.verdict),
        "similarity": None if judged.similarity is None else score_text(judged.similarity),
    }


def _tone(verdict: int | None) -> str:
    return {1: "yes", 0: "no"}.get(verdict, "unknown") if verdict is not None else "unknown"


def _chunks(record: RowRecord, texts: Texts, limits: Limits) -> list[View]:
    """The retrieved chunks with the verdicts of the metric that judges each, where there are some."""
    judged = [
        entry
        for name, metric in METRICS.items()
        for listed in metric.lists
        if listed.role == "chunks" and (result := record.result(name)) is not None
        for entry in entries(result, listed.key, texts)[0]
    ]
    views = []
    for index, chunk in enumerate(record.contexts[: limits.chunks]):
        verdict = judged[index] if index < len(judged) else None
        views.append(
            {
                "rank": index + 1,
                "title": one_line(chunk.get("title", ""), NAME_CHARACTERS),
                "tone": _tone(verdict.verdict) if verdict else "none",
                "reason": one_line(verdict.reason, limits.entry) if verdict else "",
                **_text(chunk["text"], limits.chunk),
            }
        )
    return views


def failures_of(report: RunReport, texts: Texts) -> View | None:
    """Rows with something that could not be scored, and why."""
    found: list[View] = []
    for record in sorted(report.records, key=lambda record: (record.row, record.repetition)):
        reasons = [(texts.get("report.app_failure"), why)] if (why := row_failure(record, texts)) else []
        reasons += [
            (texts.get(f"metrics.{metric}"), said)
            for metric, said in metric_failures(record, report.settings.metrics, texts)
        ]
        if reasons:
            found.append(
                {
                    "label": label_of(record, report, set())["text"],
                    "question": one_line(record.question, QUESTION_CHARACTERS),
                    "reasons": [{"who": who, "why": capitalized(why)} for who, why in reasons],
                }
            )
    if not found:
        return None
    note = texts.get("report.failures_retry" if report.finished else "report.failures_note")
    left = max(0, len(found) - MOST_FAILURES)
    return {"rows": found[:MOST_FAILURES], "count": len(found), "left": left, "note": note}
