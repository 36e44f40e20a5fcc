"""The questions that a call works with: of a pasted table, or of one that is kept under a name."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from evaluation.errors import EvaluationError, Reason
from evaluation.golden.kept import KeptTable
from evaluation.golden.kept_rows import KeptRow, counted, rows_of
from evaluation.golden.table import Row, Table


@dataclass(frozen=True)
class Questions:
    """What is used of a table.

    Attributes:
        table: the rows that are confirmed, and the drafts when they are asked for.
        name: of the kept table, "" for a pasted one; version: its number, None for a pasted one.
        drafts: those of the rows that are drafts.
        drafts_left, off_left: how many rows are left out for their state.
        unused_name: of a kept table that was named beside the pasted one, which goes before it.
    """

    table: Table
    name: str = ""
    version: int | None = None
    drafts: tuple[Row, ...] = ()
    drafts_left: int = 0
    off_left: int = 0
    unused_name: str = ""

    def is_draft(self, row: Row | None) -> bool:
        """Whether the row is a draft; of two rows alike the very one counts."""
        return any(draft is row for draft in self.drafts)


def pasted_questions(table: Table, *, drafts: bool = False, unused_name: str = "") -> Questions:
    """The questions of a table from a text or a file; it may have the columns in which a kept table is shown.

    Raises:
        EvaluationError: table_empty when its states leave no row.
    """
    kept = rows_of(table)
    questions = _questions(kept, "", None, drafts=drafts, unused_name=unused_name)
    return replace(questions, table=replace(table, rows=questions.table.rows))


def kept_questions(table: KeptTable, *, drafts: bool = False) -> Questions:
    """The questions of a kept table.

    Raises:
        EvaluationError: table_empty when it has no row to use.
    """
    return _questions(table.rows, table.head.name, table.version.number, drafts=drafts)


def _questions(
    rows: Iterable[KeptRow], name: str, version: int | None, *, drafts: bool, unused_name: str = ""
) -> Questions:
    rows = tuple(rows)
    counts = counted(rows)
    used = [kept for kept in rows if kept.state == "confirmed" or (drafts and kept.state == "draft")]
    if not used:
        raise EvaluationError(Reason.TABLE_EMPTY, table=name, draft=counts["draft"], off=counts["off"])
    return Questions(
        Table(tuple(kept.row for kept in used)),
        name,
        version,
        drafts=tuple(kept.row for kept in used if kept.state == "draft"),
        drafts_left=0 if drafts else counts["draft"],
        off_left=counts["off"],
        unused_name=unused_name,
    )
