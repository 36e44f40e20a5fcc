"""Kept runs to look at: the sample run of a language several times over, with other scores each time."""

import random
from dataclasses import replace

from devhost.dify_side import Storage
from evaluation.diagnosis import diagnose
from evaluation.golden.kept import KeptTables
from evaluation.golden.kept_rows import KeptRow, Source
from evaluation.golden.table import Row
from evaluation.languages import Language
from evaluation.runs.heads import RunHead
from evaluation.runs.names import RunName, add_name
from evaluation.runs.records import RowRecord
from evaluation.runs.store import RunStore
from evaluation.runs.summary import build_report, kept_summary
from evaluation.storage.values import Values
from tests.evaluation.sample_runs import THRESHOLDS, sample_run

SEED = 7


class Direct:
    """The played storage without a process in between."""

    def __init__(self, storage: Storage) -> None:
        self._values = storage._values

    def get(self, key: str) -> bytes:
        return self._values[key]

    def set(self, key: str, val: bytes) -> None:
        self._values[key] = val

    def delete(self, key: str) -> None:
        del self._values[key]

    def exist(self, key: str) -> bool:
        return key in self._values


def keep_runs(values: Values, language: Language, runs: int = 6, copies: int = 1) -> str:
    """Keeps runs of one name, each a little better than the one before; the name.

    Args:
        copies: how often the sample's twenty rows stand in the table.
    """
    draws = random.Random(SEED)
    sample = sample_run(language, compared=False)
    name = RunName(sample.name)
    store = RunStore(values, name.base)
    rows = [replace(row, row=i * 20 + row.row) for i in range(copies) for row in sample.records]
    before: list[RowRecord] | None = None
    for number in range(1, runs + 1):
        # From the fourth on another model judges.
        judge = sample.settings.judge if number < 4 else replace(sample.settings.judge, name="gpt-4.1")
        settings = replace(sample.settings, judge=judge, thresholds=sample.settings.thresholds)
        records = [_changed(row, (number - runs) * 0.06, draws) for row in rows]
        started = f"2026-11-{10 + number:02}T00:{number:02}:00+00:00"
        head = RunHead(
            sample.name, number, started, settings, "table", len(rows), {"faithfulness": "1"}, sample.app_name
        )
        report = build_report(
            sample.name, number, started, sample.app_name, settings, records, before=before,
            compared_with=f"{sample.name} #{number - 1}",
        )  # fmt: skip
        store.write_head(head)
        for record in records:
            store.write_row(number, record)
        store.write_index(number, records)
        store.write_summary(kept_summary(head, report, started))
        before = records
    add_name(values, name)
    return sample.name


def keep_table(values: Values, language: Language) -> None:
    """Keeps the sample's questions as a table; some are drafts with their passage."""
    sample = sample_run(language, compared=False)
    rows = [
        KeptRow(
            Row(row.question, row.reference, category=row.category),
            state="draft" if row.row % 5 == 0 else "confirmed",
            kind="fact" if row.row % 5 == 0 else "",
            sources=(Source(row.contexts[0]["title"], row.contexts[0]["text"][:40], row.contexts[0]["text"]),)
            if row.row % 5 == 0 and row.contexts
            else (),
        )
        for row in sample.records
    ]
    KeptTables(values).save(sample.name, lambda _: rows)


def _changed(row: RowRecord, shift: float, draws: random.Random) -> RowRecord:
    """The row with some of its scores moved by about the shift, and diagnosed anew."""
    metrics = {
        name: kept
        if kept["score"] is None or draws.random() < 0.5
        else {**kept, "score": min(1.0, max(0.0, kept["score"] + shift * draws.uniform(0, 2)))}
        for name, kept in row.metrics.items()
    }
    changed = replace(row, metrics=metrics)
    results = {name: found for name in metrics if (found := changed.result(name)) is not None}
    findings = diagnose(results, chunks=len(row.contexts), thresholds=THRESHOLDS) if row.state == "done" else []
    return replace(changed, findings=[{"name": f.name, "settings": list(f.settings)} for f in findings])
