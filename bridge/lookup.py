"""The tool that finds a question's reference in a table."""

from collections.abc import Mapping
from typing import Any

from bridge.call import models_of, open_session
from bridge.edge import EvaluatorTool, Output
from bridge.tables import read_questions, table_details
from evaluation.errors import EvaluationError, Reason
from evaluation.golden.matching import Match, find_reference
from evaluation.golden.questions import Questions
from evaluation.golden.table import Table
from evaluation.report.escape import unescape
from evaluation.report.lookup import lookup_line
from evaluation.result import status_of
from evaluation.sample import read_text
from evaluation.settings import read_number
from evaluation.texts import Texts


class LookupTool(EvaluatorTool):
    def run(self, parameters: Mapping[str, Any], texts: Texts) -> Output:
        question = read_text(parameters.get("question"), "question")
        if not question:
            raise EvaluationError(Reason.NO_QUESTION)
        minimum = read_number(parameters.get("min_similarity"), "min_similarity", 0, 1)
        questions = read_questions(parameters, self.storage)
        table = questions.table
        session = open_session(self.session, parameters, texts.language)
        match = find_reference(question, table, minimum, session.embed if session.embedder else None)
        details = {
            "method": match.method,
            "nearest": match.nearest,
            "minimum": match.minimum,
            "rows": len(table.rows),
            "rows_without_reference": table.without_reference,
            "rows_unreadable": table.unreadable,
            "conflicts": match.conflicts,
            "table": table_details(questions),
            **models_of(session),
        }
        return _output(match, questions, texts, details, match.error())

    def failed(self, error: EvaluationError, texts: Texts) -> Output:
        return _output(Match(None), Questions(Table(())), texts, {}, error)


def _output(
    match: Match, questions: Questions, texts: Texts, details: Mapping[str, Any], error: EvaluationError | None
) -> Output:
    reference = match.row.reference if match.row else ""
    line = lookup_line(match, questions, texts, error)
    return Output(
        line,
        {
            "reference": reference,
            "found": bool(reference),
            "documents": match.row.documents if match.row else "",
            "matched_question": match.row.question if match.row else "",
            "similarity": match.similarity,
            "status": status_of(error),
            "reason": error.reason.value if error else "",
            "summary": unescape(line),
            "details": dict(details),
        },
    )
