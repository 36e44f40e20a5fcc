"""Rows as they are kept: whole, cut where they are too large for one line, and as entries of a run's index."""

import hashlib
import json
import zlib
from collections.abc import Sequence
from dataclasses import MISSING, asdict, fields, replace
from typing import Any

from evaluation.result import bounded
from evaluation.runs.records import SCHEMA, RowRecord
from evaluation.storage.values import MAX_VALUE_BYTES

# How a record that is too large is cut: chunks, characters of each, characters of the answer, bytes of each metric.
_CUTS = ((500, 1000, 20_000, 20_000), (100, 300, 5_000, 5_000), (20, 100, 1_000, 1_000))
# Characters of a text in the index; a longer one ends with a hash of the whole, so that equal ones stay equal.
INDEX_CHARACTERS = 300
_HASH_CHARACTERS = 16


def packed(record: RowRecord) -> bytes:
    """The record as it is kept, cut to what a report shows when the whole would not go through in one line."""
    data = zlib.compress(record.as_json())
    for cut in _CUTS:
        if len(data) <= MAX_VALUE_BYTES:
            break
        data = zlib.compress(_shortened(record, *cut).as_json())
    return data


def unpacked(data: bytes | None) -> RowRecord | None:
    """The record that was kept, None when there is none or it is damaged."""
    try:
        return None if data is None else RowRecord.from_json(zlib.decompress(data))
    except (ValueError, zlib.error):
        return None


def _shortened(record: RowRecord, chunks: int, characters: int, of_answer: int, of_metric: int) -> RowRecord:
    if record.state == "answered" or not record.judged:
        # Scores of a cut answer would be those of another one: it is asked for again.
        return replace(record, state="open", answer="", contexts=[], metrics={})
    return replace(
        record,
        answer=_cut(record.answer, of_answer),
        contexts=[{**chunk, "text": _cut(chunk["text"], characters)} for chunk in record.contexts[:chunks]],
        metrics={
            name: {**metric, "details": bounded(metric["details"], of_metric)}
            for name, metric in record.metrics.items()
        },
    )


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else text[: characters - 1] + "…"


def light(record: RowRecord) -> RowRecord:
    """The record with no more than a list of rows and a comparison need: it may be one of thousands."""
    return RowRecord(
        record.row,
        _named(record.question),
        record.repetition,
        _named(record.reference),
        category=record.category,
        inputs={name: _named(value) for name, value in record.inputs.items()},
        state=record.state,
        app_reason=record.app_reason,
        app_message=_named(record.app_message),
        app_seconds=record.app_seconds,
        app_tokens=record.app_tokens,
        metrics={name: {**metric, "details": {}} for name, metric in record.metrics.items()},
        findings=record.findings[:1],
        fingerprint=record.fingerprint,
        reused=record.reused,
        again=record.again,
    )


def _named(text: str) -> str:
    """A text of any length in 300 characters; the same for the same text, and what is short already stays."""
    if len(text) <= INDEX_CHARACTERS:
        return text
    ending = "…" + hashlib.sha256(text.encode(errors="replace")).hexdigest()[:_HASH_CHARACTERS]
    return text[: INDEX_CHARACTERS - len(ending)] + ending


def packed_index(records: Sequence[RowRecord]) -> bytes:
    """Light records as one value of a run's index."""
    rows = [_without_defaults(record) for record in records]
    return zlib.compress(json.dumps({"schema": SCHEMA, "rows": rows}, allow_nan=False).encode())


def unpacked_index(data: bytes | None) -> list[RowRecord]:
    """The light records of a value, [] when it is missing or damaged."""
    try:
        kept = json.loads(zlib.decompress(data)) if data else {}
        return [RowRecord.from_dict(row) for row in kept["rows"]] if kept.get("schema") == SCHEMA else []
    except (ValueError, TypeError, KeyError, AttributeError, zlib.error):
        return []


_DEFAULTS = {
    entry.name: entry.default_factory() if entry.default_factory is not MISSING else entry.default
    for entry in fields(RowRecord)
}


def _without_defaults(record: RowRecord) -> dict[str, Any]:
    return {name: value for name, value in asdict(record).items() if value != _DEFAULTS[name]}
