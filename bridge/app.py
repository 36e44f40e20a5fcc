"""The tool for a whole question list against any app."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bridge.app_output import app_variables, run_output
from bridge.call import open_session, read_options
from bridge.dify.apps import asker, read_app
from bridge.dify.places import PLACES
from bridge.edge import EvaluatorTool, Output, is_true
from bridge.pages.address import pages_address
from bridge.scorecard import read_thresholds
from bridge.tables import check_length, language_of_table, read_questions
from evaluation.errors import EvaluationError, Reason
from evaluation.golden.questions import Questions
from evaluation.golden.table import Row
from evaluation.judging.clock import Clock, Deadline
from evaluation.judging.models import ModelIdentity
from evaluation.judging.places import MOST_CALLS
from evaluation.judging.session import JudgeSession
from evaluation.report.block import failure_line
from evaluation.report.markdown import reason_sentence
from evaluation.runs.names import RunName
from evaluation.runs.records import RunSettings
from evaluation.runs.request import RunRequest
from evaluation.runs.run import run
from evaluation.sample import read_text
from evaluation.scorecard import read_metrics
from evaluation.settings import invalid_setting, read_count, read_number
from evaluation.statistics.gate import GATES, GateKind
from evaluation.texts import Texts, load_texts

MAX_ROWS = 2000
MAX_CONCURRENCY = 16
MAX_REPEAT = 10
MAX_KEPT_RUNS = 1000
DEFAULT_KEPT_RUNS = 20
# Dify ends a tool call at 600 s, and with it all that it would have given.
DEFAULT_SECONDS, SHORTEST_SECONDS, LONGEST_SECONDS = 240, 20, 480


class AppTool(EvaluatorTool):
    """Reads the table, runs as many rows as time allows, and gives the summary with the report as files."""

    def run(self, parameters: Mapping[str, Any], texts: Texts) -> Output:
        entered = Clock().now()
        app = read_app(parameters.get("app"), self.session.app_id)
        questions = first_rows(read_questions(parameters, self.storage), parameters)
        if parameters.get("language") in {None, "", "auto"}:
            texts = load_texts(language_of_table(questions.table) or texts.language)
        try:
            return self._evaluate(parameters, questions, app, texts, entered)
        except EvaluationError as error:
            # In the language of the table: of a file's nothing was known before.
            return self.failed(error, texts)

    def _evaluate(
        self,
        parameters: Mapping[str, Any],
        questions: Questions,
        app: tuple[str, Mapping[str, Any]],
        texts: Texts,
        entered: float,
    ) -> Output:
        session = open_session(self.session, parameters, texts.language)
        settings = read_settings(parameters, session, *app)
        request = replace(
            read_request(parameters, questions.table.rows, settings, texts, entered),
            table_name=questions.name,
            table_version=questions.version,
        )
        ask = asker(self.session.app, *app, PLACES.calm)
        places = PLACES.run(read_count(parameters.get("parallel_calls"), "parallel_calls", MOST_CALLS, MOST_CALLS))
        outcome = run(request, self.storage, ask, session.judge, session.embedder, places)
        output = run_output(outcome, questions, texts, request.deadline)
        return self._with_page(output, request, outcome.report.number, texts)

    def _with_page(self, output: Output, request: RunRequest, number: int, texts: Texts) -> Output:
        """The output with a link to the run's page, where somebody has opened the pages before."""
        address = pages_address(self.storage)
        if not address:
            return output
        name = RunName.of(request.name, request.settings.app_id, request.app_name)
        link = f"{address}runs/{name.base.rpartition('/')[2]}/{number}"
        return replace(output, text=f"{output.text}\n\n[{texts.get('report.on_page')}]({link})")

    def failed(self, error: EvaluationError, texts: Texts) -> Output:
        line = failure_line(reason_sentence(error.reason, error.values, texts.of_runs()), texts)
        return Output(f"- {line}", app_variables(None, None, error, line))


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


def read_settings(
    parameters: Mapping[str, Any], session: JudgeSession, app_id: str, inputs: Mapping[str, Any]
) -> RunSettings:
    """What the run is made with.

    Raises:
        EvaluationError: invalid_setting; model_not_selected, as nothing could be judged.
    """
    metrics = read_metrics(parameters.get("metrics"))
    if not session.judge.name:
        raise EvaluationError(Reason.MODEL_NOT_SELECTED, field="model")
    return RunSettings(
        app_id,
        session.judge.identity,
        session.embedder.identity if session.embedder else ModelIdentity(),
        metrics,
        read_options(parameters),
        session.votes,
        session.language,
        {name: value for name, value in read_thresholds(parameters).items() if name in metrics},
        read_count(parameters.get("repeat"), "repeat", 1, MAX_REPEAT),
        inputs,
        read_gate(parameters.get("gate")),
        read_number(parameters.get("max_failed"), "max_failed", 0, 1) or 0.0,
    )


def read_request(
    parameters: Mapping[str, Any], rows: Sequence[Row], settings: RunSettings, texts: Texts, entered: float
) -> RunRequest:
    """What the call asks for.

    Args:
        entered: when the call began, on Clock().

    Raises:
        EvaluationError: invalid_setting.
    """
    seconds = read_number(parameters.get("time_limit"), "time_limit", SHORTEST_SECONDS, LONGEST_SECONDS)
    kept = read_number(parameters.get("keep_runs"), "keep_runs", 1, MAX_KEPT_RUNS)
    name = read_text(parameters.get("run_name"), "run_name")
    label = read_text(parameters.get("app_label"), "app_label")
    return RunRequest(
        name,
        rows,
        settings,
        Deadline(seconds or DEFAULT_SECONDS, since=entered),
        name or label or texts.get("report.this_app"),
        label,
        concurrency=read_count(parameters.get("concurrency"), "concurrency", 4, MAX_CONCURRENCY),
        fresh=is_true(parameters.get("fresh")),
        compare_with=read_text(parameters.get("compare_with"), "compare_with"),
        retry_failed=is_true(parameters.get("retry_failed")),
        keep_runs=int(kept or DEFAULT_KEPT_RUNS),
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
