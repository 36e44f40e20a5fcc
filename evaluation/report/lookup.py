"""The outcome of a reference lookup as one line."""

from evaluation.errors import EvaluationError
from evaluation.golden.matching import Match
from evaluation.golden.questions import Questions
from evaluation.report.escape import escape
from evaluation.report.markdown import QUOTE_CHARACTERS, reason_sentence
from evaluation.report.numbers import score_text
from evaluation.report.tables import table_remarks
from evaluation.texts import Texts


def lookup_line(match: Match, questions: Questions, texts: Texts, error: EvaluationError | None) -> str:
    """What was found or why not, then what is odd about the table."""
    table = questions.table
    quoted = {"question": escape(match.nearest, QUOTE_CHARACTERS), "similarity": score_text(match.similarity)}
    if error is None:
        name = "found_exact" if match.method == "exact" else "found_similar"
        line = texts.get(f"lookup.{name}", **quoted)
    elif match.row is not None:
        line = texts.get("lookup.without_reference")
    else:
        line = reason_sentence(error.reason, error.values, texts)
        if match.nearest:
            line = texts.aside(line, texts.get("lookup.nearest", minimum=score_text(match.minimum), **quoted))
    counts = {
        "conflicts": match.conflicts,
        "rows_without_reference": table.without_reference,
    }
    remarks = [texts.get(f"lookup.{name}", count=count) for name, count in counts.items() if count]
    for remark in remarks + table_remarks(table, texts):
        line = texts.aside(line, remark)
    if questions.is_draft(match.row):
        line = texts.aside(line, texts.get("kept.draft_used"))
    if match.row is None and questions.drafts_left:
        line = texts.aside(line, texts.get("kept.drafts_left", count=questions.drafts_left))
    if questions.unused_name:
        unused = escape(questions.unused_name, QUOTE_CHARACTERS)
        line = texts.aside(line, texts.get("kept.pasted_wins", table=unused))
    return line
