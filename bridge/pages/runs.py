"""The pages of kept runs: names, runs over time, one run, one row, two runs beside each other, downloads."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise

from werkzeug import Response

from bridge.pages.site import Visit
from evaluation.errors import EvaluationError, Reason
from evaluation.golden.kept import KeptTables, TableHead, table_key
from evaluation.judging.prompts import prompt_versions
from evaluation.report.escape import one_line
from evaluation.report.page_rows import Limits, row_of
from evaluation.report.pages import views
from evaluation.report.run_rows import row_failure
from evaluation.report.run_words import not_compared, remarks, sign_word, verdict
from evaluation.report.spreadsheet import safe_text
from evaluation.runs.conclusions import Pair, compare, paired
from evaluation.runs.heads import RunHead, RunSummary
from evaluation.runs.names import RunName, list_names
from evaluation.runs.records import RowRecord
from evaluation.runs.store import RunStore
from evaluation.runs.summary import RunReport, build_report
from evaluation.storage.many import at_once

# Rows that a page lists; the filter finds the others.
MOST_ROWS = 200
MOST_PAIRS = 50
WHOLE = Limits(rows=1, text=20_000, chunk=4_000, entry=1_000, entries=200, chunks=50)


def start(visit: Visit) -> Response:
    """All names with the newest run of each."""
    names = list_names(visit.values)
    newest = at_once(lambda name: _newest(RunStore(visit.values, name.base)), names)
    listed = []
    for name, summary in zip(names, newest, strict=True):
        card = views.card_of(summary, visit.texts) if summary else None
        compared_before = bool(summary and summary.more.get("comparison"))
        same = compared_before and not any(metric["sign"] for metric in card["metrics"]) if card else False
        listed.append({"base": _id(name), "title": _title(name, summary), "run": card, "same": same})
    return visit.page("start.html.jinja", names=listed)


def _newest(store: RunStore) -> RunSummary | None:
    oldest, newest = store.numbers()
    return next((found for number in range(newest, oldest - 1, -1) if (found := store.summary(number))), None)


def runs(visit: Visit, base: str) -> Response:
    """The runs of a name over time."""
    name, store = _store(visit, base)
    oldest, newest = store.numbers()
    summaries = [summary for summary in store.summaries(range(oldest, newest + 1)) if summary]
    finished = [summary for summary in summaries if summary.finished]
    broken = views.breaks(finished, visit.texts)
    cards = [views.card_of(summary, visit.texts) for summary in reversed(summaries)]
    for card, before in pairwise(cards):
        card["compare_with"] = before["number"]
    return visit.page(
        "runs.html.jinja",
        base=base,
        title=_title(name, summaries[-1] if summaries else None),
        cards=[{"compare_with": None, **card} for card in cards],
        charts=views.charts(finished, [entry["now"] for entry in broken], visit.texts) if len(finished) > 1 else [],
        breaks=broken,
    )


def run(visit: Visit, base: str, number: int) -> Response:
    """One run with its rows, filtered as the address says."""
    name, store = _store(visit, base)
    summary = _summary(store, number)
    settings, texts = summary.head.settings, visit.texts
    records = store.index(summary.head)
    asked = {key: visit.request.args.get(key, "")[:200] for key in ("metric", "group", "category", "text")}
    if asked["metric"] not in settings.metrics:
        asked["metric"] = ""
    chosen = views.Filter(**asked)
    shown = [record for record in _worst_first(records) if chosen.takes(record, settings)]
    groups = {views.group_of(record, settings.metrics) for record in records}
    report = _report(name, summary.head, records)
    return visit.page(
        "run.html.jinja",
        base=base,
        title=_title(name, summary),
        card=views.card_of(summary, texts),
        verdict=verdict(report, texts),
        lines=remarks(report, texts),
        metrics=[(metric, views.label_of(metric, texts)) for metric in settings.metrics],
        categories=sorted({record.category for record in records} - {""}),
        groups_there=[group for group in views.GROUPS if group in groups],
        filter=chosen,
        groups=views.grouped(shown, settings, texts, MOST_ROWS),
        shown=min(len(shown), MOST_ROWS),
        of=len(records),
    )


def _worst_first(records: Sequence[RowRecord]) -> list[RowRecord]:
    def mean(record: RowRecord) -> float:
        scores = [score for metric in record.metrics if (score := record.score(metric)) is not None]
        return sum(scores) / len(scores) if scores else 2.0

    return sorted(records, key=lambda record: (mean(record), record.row, record.repetition))


def row(visit: Visit, base: str, number: int, key: str) -> Response:
    """One row: its texts, what each metric found, its chunks, and the scores that it had in the run before."""
    name, store = _store(visit, base)
    summary = _summary(store, number)
    record = store.read_row(number, key) if key in summary.head.keys else None
    if record is None:
        raise EvaluationError(Reason.RUN_NOT_FOUND, run=f"#{number} {key}")
    report = _report(name, summary.head, [record])
    before = _before(store, summary, key)
    return visit.page(
        "row.html.jinja",
        base=base,
        title=_title(name, summary),
        number=number,
        row=row_of(record, report, visit.texts, WHOLE),
        taken={"question": record.question, "reference": record.reference},
        tables=[(_table_id(head), head.name) for head in KeptTables(visit.values).heads()],
        why=row_failure(record, visit.texts),
        before_number=before[0] if before else 0,
        before={
            score["label"]: score["text"]
            for score in (views.row_line(before[1], summary.head.settings, visit.texts)["scores"] if before else [])
        },
    )


def _before(store: RunStore, summary: RunSummary, key: str) -> tuple[int, RowRecord] | None:
    """The same question in the run before, with that run's number."""
    oldest, _ = store.numbers()
    for number in range(summary.head.number - 1, oldest - 1, -1):
        earlier = store.summary(number)
        if earlier is not None and earlier.finished:
            pairs = paired(store.index(summary.head), store.index(earlier.head))
            return next(((number, pair.before) for pair in pairs if pair.now.key == key), None)
    return None


def compare_runs(visit: Visit, base: str, number: int, other: int) -> Response:
    """Two runs of a name beside each other, led by what newly fails."""
    name, store = _store(visit, base)
    now, before = _summary(store, number), _summary(store, other)
    settings, texts = now.head.settings, visit.texts
    rows, earlier = store.index(now.head), store.index(before.head)
    sorted_pairs: dict[str, list[RowRecord]] = {}
    for pair in paired(rows, earlier):
        sorted_pairs.setdefault(_change(pair, now, before), []).append(pair.now)
    comparison = compare(rows, earlier, settings.metrics)
    differences = [
        views.difference_line(metric, difference, texts) | {"sign": sign_word(difference, texts)}
        for metric, difference in comparison.differences.items()
    ]
    names = ("newly_failing", "newly_passing", "not_scored", "still_failing", "unchanged")
    changed = views.breaks([before, now], texts)
    return visit.page(
        "compare.html.jinja",
        base=base,
        title=_title(name, now),
        number=number,
        other=other,
        changed=changed[0]["changed"] if changed else "",
        rows={
            kind: {
                "count": len(found := sorted_pairs.get(kind, [])),
                "rows": [views.row_line(record, settings, texts) for record in found[:MOST_PAIRS]],
                "left": max(0, len(found) - MOST_PAIRS),
            }
            for kind in names
        },
        differences=differences,
        notes=not_compared(comparison, f"#{other}", texts),
    )


def _change(pair: Pair, now: RunSummary, before: RunSummary) -> str:
    results = [
        views.result_of(record, summary.head.settings.metrics)
        for record, summary in ((pair.now, now), (pair.before, before))
    ]
    if not set(results) <= {"sound", "wrong"}:
        return "not_scored"
    kinds = {
        ("wrong", "sound"): "newly_failing",
        ("sound", "wrong"): "newly_passing",
        ("wrong", "wrong"): "still_failing",
    }
    return kinds.get((results[0], results[1]), "unchanged")


def download(visit: Visit, base: str, number: int, ending: str) -> Response:
    """A run as a file: the report as a page or a spreadsheet, or its rows as CSV or JSON."""
    name, store = _store(visit, base)
    summary = _summary(store, number)
    records = [record for record in store.read_rows(number, summary.head.keys) if record]
    if ending == "csv":
        data = _csv(records, summary.head)
    elif ending == "json":
        rows = [asdict(record) for record in records]
        data = json.dumps({"summary": summary.as_dict(), "rows": rows}, ensure_ascii=False).encode(errors="replace")
    else:
        from evaluation.report.page import render_html  # noqa: PLC0415 - loaded where it is needed
        from evaluation.report.spreadsheet import render_xlsx  # noqa: PLC0415

        report = _report(name, summary.head, records)
        data = render_xlsx(report, visit.texts) if ending == "xlsx" else render_html(report, visit.texts).encode()
    return visit.file(data, f"{one_line(_title(name, summary), 60)}-{number}.{ending}")


def _csv(records: Sequence[RowRecord], head: RunHead) -> bytes:
    """A line per row, in UTF-8 with the mark by which spreadsheets tell it; no cell is a formula."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    metrics = head.settings.metrics
    writer.writerow(["row", "repetition", "state", "category", "question", "answer", "reference", *metrics, "finding"])
    for record in records:
        scores = ["" if (score := record.score(metric)) is None else score for metric in metrics]
        finding = record.findings[0]["name"] if record.findings else ""
        texts = [record.category, record.question, record.answer, record.reference]
        cells = [safe_text(text, "…") for text in texts]
        writer.writerow([record.row, record.repetition, record.state, *cells, *scores, finding])
    return buffer.getvalue().encode("utf-8-sig", errors="replace")


def _store(visit: Visit, base: str) -> tuple[RunName, RunStore]:
    for name in list_names(visit.values):
        if _id(name) == base:
            return name, RunStore(visit.values, name.base)
    raise EvaluationError(Reason.RUN_NOT_FOUND, run=base)


def _summary(store: RunStore, number: int) -> RunSummary:
    summary = store.summary(number)
    if summary is None:
        raise EvaluationError(Reason.RUN_NOT_FOUND, run=f"#{number}")
    return summary


def _report(name: RunName, head: RunHead, records: Sequence[RowRecord]) -> RunReport:
    """The report of a run without a comparison: that stands where two runs are beside each other."""
    return build_report(
        _title(name, None) or head.name,
        head.number,
        head.started_at,
        head.app_name or head.settings.app_id,
        head.settings,
        records,
        prompts=prompt_versions(head.settings.language),
    )


def _title(name: RunName, summary: RunSummary | None) -> str:
    """The run's name, else what the app is called, else its id."""
    of_run = summary.head.app_name if summary else ""
    return name.name or of_run or name.app_name or name.app_id


def _table_id(head: TableHead) -> str:
    return table_key(head.name).rpartition("/")[2]


def _id(name: RunName) -> str:
    return name.base.rpartition("/")[2]
