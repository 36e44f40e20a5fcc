"""The tool for a whole question list against any app."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from bridge.call import open_session, read_options
from bridge.dify.apps import asker, read_app
from bridge.dify.places import PLACES
from bridge.edge import EvaluatorTool, Output, OutputFile, is_true
from bridge.scorecard import read_thresholds
from bridge.tables import check_length, language_of, read_questions, table_details
from evaluation.errors import EvaluationError, Reason, whereabouts
from evaluation.golden.questions import Questions
from evaluation.golden.table import Row
from evaluation.judging.models import ModelIdentity
from evaluation.judging.places import MOST_CALLS
from evaluation.report.block import failure_line
from evaluation.report.kept_table import used_text
from evaluation.report.markdown import reason_sentence
from evaluation.report.tables import table_remarks
from evaluation.result import Status, bounded, status_of
from evaluation.runs.records import RunSettings
from evaluation.runs.run import RunRequest, run
from evaluation.runs.summary import RunReport
from evaluation.sample import read_text
from evaluation.scorecard import read_metrics
from evaluation.settings import invalid_setting, read_count, read_number
from evaluation.statistics.gate import GATES, GateKind
from evaluation.texts import Texts, load_texts

logger = logging.getLogger("rag_evaluator")

MAX_ROWS = 2000
MAX_CONCURRENCY = 16
MAX_REPEAT = 10
MAX_KEPT_RUNS = 1000
DEFAULT_SECONDS, SHORTEST_SECONDS, LONGEST_SECONDS = 240, 20, 540
DEFAULT_NAME = "default"


class AppTool(EvaluatorTool):
    """Reads the table, runs as many rows as time allows, and gives the summary with the report as files."""

    def run(self, parameters: Mapping[str, Any], texts: Texts) -> Output:
        app_id, inputs = read_app(parameters.get("app"), self.session.app_id)
        questions = first_rows(read_questions(parameters, self.storage), parameters)
        if parameters.get("language") in {None, "", "auto"}:
            texts = load_texts(language_of(questions.table))
        try:
            return self._evaluate(parameters, questions, app_id, inputs, texts)
        except EvaluationError as error:
            # In the language of the table: of a file's nothing was known before.
            return self.failed(error, texts)

    def _evaluate(
        self, parameters: Mapping[str, Any], questions: Questions, app_id: str, inputs: Mapping[str, Any], texts: Texts
    ) -> Output:
        metrics = read_metrics(parameters.get("metrics"))
        session = open_session(self.session, parameters, texts.language)
        if not session.judge.name:
            raise EvaluationError(Reason.MODEL_NOT_SELECTED, field="model")
        settings = RunSettings(
            app_id,
            session.judge.identity,
            session.embedder.identity if session.embedder else ModelIdentity(),
            metrics,
            read_options(parameters),
            session.votes,
            texts.language,
            {name: value for name, value in read_thresholds(parameters).items() if name in metrics},
            read_count(parameters.get("repeat"), "repeat", 1, MAX_REPEAT),
            inputs,
            read_gate(parameters.get("gate")),
            read_number(parameters.get("max_failed"), "max_failed", 0, 1) or 0.0,
        )
        request = read_request(parameters, questions.table.rows, settings)
        ask = asker(self.session.app, app_id, inputs, PLACES.calm)
        places = PLACES.run(read_count(parameters.get("parallel_calls"), "parallel_calls", MOST_CALLS, MOST_CALLS))
        report, error = run(request, self.storage, ask, session.judge, session.embedder, places)
        return _output(report, questions, texts, error)

    def failed(self, error: EvaluationError, texts: Texts) -> Output:
        summary = failure_line(reason_sentence(error.reason, error.values, texts), texts)
        return Output(f"- {summary}", _variables(None, None, error, summary))


def read_gate(value: object) -> GateKind:
    """Mean or sure; mean when it was left empty.

    Raises:
        EvaluationError: invalid_setting.
    """
    if value is None or value == "":
        return "mean"
    if value in GATES:
        return value
    raise invalid_setting("gate", value, *GATES)


def read_request(parameters: Mapping[str, Any], rows: Sequence[Row], settings: RunSettings) -> RunRequest:
    """What the call asks for.

    Raises:
        EvaluationError: invalid_setting.
    """
    seconds = read_number(parameters.get("time_limit"), "time_limit", SHORTEST_SECONDS, LONGEST_SECONDS)
    kept = read_number(parameters.get("keep_runs"), "keep_runs", 1, MAX_KEPT_RUNS)
    return RunRequest(
        read_text(parameters.get("run_name"), "run_name") or DEFAULT_NAME,
        rows,
        settings,
        concurrency=read_count(parameters.get("concurrency"), "concurrency", 4, MAX_CONCURRENCY),
        seconds=seconds or DEFAULT_SECONDS,
        fresh=is_true(parameters.get("fresh")),
        compare_with=read_text(parameters.get("compare_with"), "compare_with"),
        keep_runs=int(kept) if kept else None,
    )


def first_rows(questions: Questions, parameters: Mapping[str, Any]) -> Questions:
    """The questions with the first `max_rows` rows alone.

    Raises:
        EvaluationError: too_many_rows, and input_too_long for the texts of a row.
    """
    rows = questions.table.rows
    most = read_number(parameters.get("max_rows"), "max_rows", 1, MAX_ROWS)
    if most is None and len(rows) > MAX_ROWS:
        raise EvaluationError(Reason.TOO_MANY_ROWS, rows=len(rows), limit=MAX_ROWS)
    rows = rows[: int(most)] if most else rows
    for row in rows:
        check_length(row)
    drafts = tuple(row for row in rows if questions.is_draft(row))
    return replace(questions, table=replace(questions.table, rows=rows), drafts=drafts)


def _output(report: RunReport, questions: Questions, texts: Texts, error: EvaluationError | None) -> Output:
    # What only reports need is loaded when there is one: it costs each start of the plugin time and memory.
    from evaluation.report.run_summary import run_line, run_text  # noqa: PLC0415

    text, summary = run_text(report, texts), run_line(report, texts)
    files, left_out = _files(report, texts) if report.done else ([], [])
    remarks = [reason_sentence(error.reason, error.values, texts)] if error else []
    remarks += table_remarks(questions.table, texts)
    remarks += [texts.get("report.file_left_out", ending=ending) for ending in left_out]
    for remark in remarks:
        summary = texts.aside(summary, remark)
    text = "".join(f"> ⚠️ {remark}\n\n" for remark in remarks) + text
    if used := used_text(questions, texts):
        summary, text = texts.aside(summary, used), f"> {used}\n\n{text}"
    return Output(text, _variables(report, questions, error, summary), files)


def _files(report: RunReport, texts: Texts) -> tuple[list[OutputFile], list[str]]:
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
        try:
            files.append(OutputFile(f"{stem}-{report.number}.{ending}", mime_type, render()))
        except Exception:
            # The scores are outputs too.
            logger.exception("the %s report failed unexpectedly: %s", ending, whereabouts())
            left_out.append(ending)
    return files, left_out


def _variables(
    report: RunReport | None, questions: Questions | None, error: EvaluationError | None, summary: str
) -> dict[str, Any]:
    statistics = {name: asdict(entry) for name, entry in report.statistics.items()} if report else {}
    details = {
        "run": {"name": report.name, "number": report.number, "started_at": report.started_at} if report else None,
        "settings": report.settings.as_dict() if report else None,
        "statistics": statistics,
        "gate": asdict(report.gate) if report and report.gate else None,
        "categories": _plain(report.categories) if report else {},
        "comparison": asdict(report.comparison) if report and report.comparison else None,
        "compared_with": report.compared_with if report else "",
        "findings": [{"name": n, "settings": list(s), "rows": c} for n, s, c in report.findings] if report else [],
        "failed_rows": report.failed_rows if report else 0,
        "reused_rows": report.reused_rows if report else 0,
        "rows_unreadable": questions.table.unreadable if questions else 0,
        "table": table_details(questions) if questions else None,
        "usage": dict(report.usage) if report else {},
    }
    return {
        "scores": {name: entry["mean"] for name, entry in statistics.items()},
        "status": _status(report, error) if report else status_of(error),
        "reason": error.reason.value if error else "",
        "passed": report.passed if report else None,
        "finished": bool(report and report.finished),
        "done": report.done if report else 0,
        "total": report.total if report else 0,
        "summary": summary,
        "details": bounded(details),
    }


def _status(report: RunReport, error: EvaluationError | None) -> Status:
    troubled = any(report.troubled(record) for record in report.records)
    scored = any(entry.scored for entry in report.statistics.values())
    if report.finished and not troubled and error is None:
        return "scored" if scored else "not_applicable"
    # Rows that are merely not run yet have not failed.
    return "partial" if scored or not (troubled or error) else "failed"


def _plain(categories: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {
        category: {name: asdict(entry) for name, entry in metrics.items()} for category, metrics in categories.items()
    }
