"""What evaluate_app gives: the run for the chat, its report as files, and the output variables."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from bridge.edge import Output, OutputFile
from bridge.tables import table_details
from evaluation.errors import EvaluationError, Reason, whereabouts
from evaluation.golden.questions import Questions
from evaluation.judging.clock import Deadline
from evaluation.report.escape import unescape
from evaluation.report.kept_table import used_text
from evaluation.report.markdown import reason_sentence
from evaluation.report.tables import table_remarks
from evaluation.result import Status, bounded, status_of
from evaluation.runs.heads import RunSummary
from evaluation.runs.run import RunOutcome
from evaluation.runs.summary import RunReport
from evaluation.texts import Texts

logger = logging.getLogger("rag_evaluator")

LATE_SECONDS = 30.0


def run_output(outcome: RunOutcome, questions: Questions, texts: Texts, deadline: Deadline) -> Output:
    """The output of a call that came to a run.

    Args:
        deadline: no file is begun when it is over for LATE_SECONDS.
    """
    # What only reports need is loaded when there is one: it costs each start of the plugin time and memory.
    from evaluation.report.run_summary import run_line, run_text  # noqa: PLC0415

    report, error = outcome.report, outcome.error
    text, line = run_text(report, texts), run_line(report, texts)
    files, left_out = _files(report, texts, deadline) if report.done else ([], [])
    remarks = _remarks(outcome, texts)
    remarks += table_remarks(questions.table, texts)
    remarks += [texts.get("report.file_left_out", ending=ending) for ending in left_out]
    for remark in remarks:
        line = texts.aside(line, remark)
    text = "".join(f"⚠️ {remark}\n\n" for remark in remarks) + text
    if used := used_text(questions, texts):
        line, text = texts.aside(line, used), f"{used}\n\n{text}"
    return Output(text, app_variables(report, questions, error, line), files, outcome.tell_seen)


def _remarks(outcome: RunOutcome, texts: Texts) -> list[str]:
    """What stopped the call, and what else it did or left undone that nobody would guess."""
    error = outcome.error
    remarks = [reason_sentence(error.reason, error.values, texts)] if error else []
    if outcome.how in {"unseen", "nothing_failed"}:
        remarks.append(texts.get(f"report.{outcome.how}"))
    if outcome.freed:
        numbers = texts.get("separator").join(f"#{number}" for number in outcome.freed)
        remarks.append(texts.get("report.freed", numbers=numbers))
    return remarks


def _files(report: RunReport, texts: Texts, deadline: Deadline) -> tuple[list[OutputFile], list[str]]:
    """The report as a page and as a spreadsheet, and the endings of those that could not be made."""
    from evaluation.report.page import render_html  # noqa: PLC0415
    from evaluation.report.spreadsheet import render_xlsx  # noqa: PLC0415

    xlsx = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
    renderers: list[tuple[str, str, Callable[[], bytes]]] = [
        ("html", "text/html", lambda: render_html(report, texts).encode(errors="replace")),
        ("xlsx", xlsx, lambda: render_xlsx(report, texts)),
    ]
    stem = "".join(char if char.isalnum() or char in "-_" else "_" for char in report.name)[:60]
    files, left_out = [], []
    for ending, mime_type, render in renderers:
        # The scores are outputs too, and must be out in time. On a busy machine a file may come a little late: no
        # deadline is beyond 480 s, and Dify waits for 600.
        data = _rendered(ending, render) if deadline.left() > -LATE_SECONDS else None
        if data is None:
            left_out.append(ending)
        else:
            files.append(OutputFile(f"{stem}-{report.number}.{ending}", mime_type, data))
    return files, left_out


def _rendered(ending: str, render: Callable[[], bytes]) -> bytes | None:
    try:
        return render()
    except Exception:
        logger.exception("the %s report failed unexpectedly: %s", ending, whereabouts())
        return None


def app_variables(
    report: RunReport | None, questions: Questions | None, error: EvaluationError | None, line: str
) -> dict[str, Any]:
    """The output variables; without a report those of a call that came to none.

    Args:
        line: the summary, made for Markdown.
    """
    statistics = {name: asdict(entry) for name, entry in report.statistics.items()} if report else {}
    details = {
        "run": {"name": report.name, "number": report.number, "started_at": report.started_at} if report else None,
        "settings": report.settings.as_dict() if report else None,
        "statistics": statistics,
        "categories": _plain(report.categories) if report else {},
        **(report.conclusions() if report else {}),
        "failed_rows": report.failed_rows if report else 0,
        "reused_rows": report.reused_rows if report else 0,
        "rows_unreadable": questions.table.unreadable if questions else 0,
        "table": table_details(questions) if questions else None,
        "past_runs": [_past_run(summary) for summary in report.past] if report else [],
        "run_names": [name.name or name.app_name or name.app_id for name in report.names] if report else [],
    }
    return {
        "scores": {name: entry["mean"] for name, entry in statistics.items()},
        "status": _status(report, error) if report else status_of(error),
        "reason": _reason(report, error).value,
        "passed": report.passed if report else None,
        "finished": bool(report and report.finished),
        "done": report.done if report else 0,
        "total": report.total if report else 0,
        "summary": unescape(line),
        "details": bounded(details),
    }


def _status(report: RunReport, error: EvaluationError | None) -> Status:
    troubled = any(report.troubled(record) for record in report.records)
    scored = any(entry.scored for entry in report.statistics.values())
    if report.finished and not troubled and error is None:
        return "scored" if scored else "not_applicable"
    # Rows that are merely not run yet have not failed.
    return "partial" if scored or not (troubled or error) else "failed"


def _reason(report: RunReport | None, error: EvaluationError | None) -> Reason:
    """What stopped the call, else why most of the rows failed when none has a score."""
    if error or report is None or report.cause is None:
        return error.reason if error else Reason.NONE
    return report.cause.reason if _status(report, None) == "failed" else Reason.NONE


def _past_run(summary: RunSummary) -> dict[str, Any]:
    """An earlier run of the same name, on one line."""
    head = summary.head
    return {
        "number": head.number,
        "started_at": head.started_at,
        "app_id": head.settings.app_id,
        "app_name": head.app_name,
        "table_name": head.table_name,
        "table_version": head.table_version,
        "finished": summary.finished,
        "done": summary.done,
        "total": summary.total,
        "failed_rows": summary.failed,
        "means": {name: entry.get("mean") for name, entry in summary.metrics.items()},
        "passed": summary.passed,
    }


def _plain(categories: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {
        category: {name: asdict(entry) for name, entry in metrics.items()} for category, metrics in categories.items()
    }
