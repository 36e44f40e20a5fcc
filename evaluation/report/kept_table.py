"""Kept question tables in words: what was saved, what a table holds, where two editions differ."""

from collections.abc import Iterable, Sequence

from evaluation.golden.kept import ConflictError, KeptTable, TableHead, Version
from evaluation.golden.kept_rows import Duplicates, KeptRow, differences
from evaluation.golden.questions import Questions
from evaluation.report.escape import escape
from evaluation.report.markdown import QUOTE_CHARACTERS, QUOTES, quote, reason_sentence
from evaluation.report.times import time_text
from evaluation.texts import Texts

SHOWN_ROWS = 20
SHOWN_DIFFERENCES = 10


def counts_text(version: Version, texts: Texts) -> str:
    """How many rows a version has, and in which states."""
    return texts.get("kept.counts", rows=version.rows, **version.counts)


def title(table: KeptTable, texts: Texts, name: str = "shown", **values: object) -> str:
    """A sentence about the table as a whole, with its rows counted."""
    values |= {"table": escape(table.head.name, QUOTE_CHARACTERS), "version": table.version.number}
    return texts.aside(texts.get(f"kept.{name}", **values), counts_text(table.version, texts))


def duplicates_remarks(duplicates: Duplicates, texts: Texts) -> list[str]:
    """The questions of an addition that the table had already."""
    groups = {"duplicates_same": duplicates.same, "duplicates_differing": duplicates.differing}
    return [
        texts.get(f"kept.{name}", count=len(questions), quotes=_quotes(questions, texts))
        for name, questions in groups.items()
        if questions
    ]


def _quotes(questions: Sequence[str], texts: Texts) -> str:
    shown = [quote(texts, question) for question in questions[:QUOTES]]
    if len(questions) > QUOTES:
        shown.append(texts.get("more", count=len(questions) - QUOTES))
    return texts.get("separator").join(shown)


def rows_text(rows: Sequence[KeptRow], texts: Texts) -> str:
    """The first rows as a list."""
    lines = [f"- {row_text(kept, texts)}" for kept in rows[:SHOWN_ROWS]]
    if len(rows) > SHOWN_ROWS:
        lines.append(f"- {texts.get('kept.more_rows', count=len(rows) - SHOWN_ROWS)}")
    return "\n".join(lines) if lines else texts.get("kept.none_in_state")


def row_text(kept: KeptRow | None, texts: Texts) -> str:
    """A row on one line, with its state unless it is confirmed."""
    if kept is None:
        return texts.get("kept.absent")
    reference = escape(kept.row.reference, QUOTE_CHARACTERS) or texts.get("kept.no_reference")
    line = texts.get("kept.row", question=escape(kept.row.question, QUOTE_CHARACTERS), reference=reference)
    return line if kept.state == "confirmed" else texts.aside(line, texts.get(f"kept.states.{kept.state}"))


def conflict_text(conflict: ConflictError, texts: Texts) -> str:
    """Why nothing was saved, and both sides of the first rows that differ."""
    found = differences(conflict.mine, conflict.theirs.rows)
    lines = [f"⚠️ {reason_sentence(conflict.reason, conflict.values, texts)}", ""]
    for mine, theirs in found[:SHOWN_DIFFERENCES]:
        for mark, name, side in (("-", "mine", mine), ("  -", "theirs", theirs)):
            said = texts.get("with_quotes", sentence=texts.get(f"kept.{name}"), quotes=row_text(side, texts))
            lines.append(f"{mark} {said}")
    if len(found) > SHOWN_DIFFERENCES:
        lines.append(f"- {texts.get('kept.more_rows', count=len(found) - SHOWN_DIFFERENCES)}")
    return "\n".join(lines)


def tables_text(heads: Iterable[TableHead], texts: Texts) -> str:
    """All tables as a list."""
    lines = [
        "- "
        + texts.get(
            "kept.table",
            table=escape(head.name, QUOTE_CHARACTERS),
            version=head.newest.number,
            counts=counts_text(head.newest, texts),
            at=time_text(head.newest.at, texts),
        )
        for head in heads
    ]
    return "\n".join([texts.get("kept.tables", count=len(lines)), "", *lines]) if lines else texts.get("kept.no_tables")


def used_text(questions: Questions, texts: Texts) -> str:
    """Which kept table the questions come from and what is left out of it; "" for a pasted one that is used whole."""
    remarks = {
        "drafts_used": len(questions.drafts),
        "drafts_left": questions.drafts_left,
        "off_left": questions.off_left,
    }
    said = [texts.get(f"kept.{name}", count=count) for name, count in remarks.items() if count]
    if questions.unused_name:
        said.insert(0, texts.get("kept.pasted_wins", table=escape(questions.unused_name, QUOTE_CHARACTERS)))
    if not questions.name:
        return texts.get("list_separator").join(said)
    line = texts.get("kept.used", table=escape(questions.name, QUOTE_CHARACTERS), version=questions.version)
    return texts.aside(line, texts.get("list_separator").join(said)) if said else line
