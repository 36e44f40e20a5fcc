"""Question lists with references, read from whatever people have."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from evaluation.errors import EvaluationError, Reason
from evaluation.golden.cells import cleaned, inner_text, is_nothing, reference_beside
from evaluation.golden.grid import Grid, Note, Record
from evaluation.golden.layout import Layout, asks_something, layouts_of
from evaluation.golden.pasted import grid_of

# Of a row's commas as many may stand inside its cells.
_MOST_COMMAS = 200
# A remark under a table, alone in its row.
_FOOTNOTE = r"※.*|[(（\[【]?(注|備考|note)[\s\d:：)）\]】].*|以上"
# The title of a part, where a reference would stand beside a question.
_PART = r"[■◆▼▽◇□§].*|【[^】]*】|\[[^\]]*\]|[<＜].*[>＞]"
_TOTALS = frozenset({"合計", "小計", "総計", "計", "合计", "小计", "总计", "total", "subtotal"})


@dataclass(frozen=True)
class Row:
    """A row of the table.

    Attributes:
        reference: "" when it has none.
        documents: the cell that names the documents which hold the answer, "" without one.
        category: the group that the question belongs to, "" without one.
        others: the further cells by column name.
    """

    question: str
    reference: str = ""
    documents: str = ""
    category: str = ""
    others: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """The rows that have a question, in order.

    Attributes:
        unreadable: how many rows have something else but no question that could be asked.
        notes: what users are told of how the table was read.
    """

    rows: tuple[Row, ...]
    unreadable: int = 0
    notes: tuple[Note, ...] = ()

    @property
    def without_reference(self) -> int:
        return sum(not row.reference for row in self.rows)


def read_table(text: str) -> Table:
    """The table in a text: pasted from a spreadsheet, CSV, TSV, a Markdown table, JSON or JSON lines.

    Raises:
        EvaluationError: no_table, or table_unreadable as `table_of` says.
    """
    return table_of(grid_of(text))


def joined_table(tables: Sequence[tuple[str, Table]]) -> Table:
    """The tables of several files one after the other, with the files' names, which their notes name then."""
    if len(tables) == 1:
        return tables[0][1]
    return Table(
        tuple(row for _, table in tables for row in table.rows),
        sum(table.unreadable for _, table in tables),
        tuple(replace(note, file=name) for name, table in tables for note in table.notes),
    )


def table_of(grid: Grid) -> Table:
    """The table in a grid.

    The columns are told by their names (headers.toml), which may stand below a title; without any the first column
    holds the questions and the second the references.

    Raises:
        EvaluationError: table_unreadable when it has neither a second column nor a row of names, no row with a
            question, or when its columns can't be told apart.
    """
    layouts = layouts_of(grid)
    reading = _Reading(grid)
    for layout in layouts:
        for record in layout.body:
            reading.add(record, layout)
    if not reading.rows:
        raise EvaluationError(Reason.TABLE_UNREADABLE, **_why([*grid.notes, *reading.notes()]))
    rows = [row for layout in layouts for row in layout.below]
    below = (Note("below", {"rows": rows}),) if rows else ()
    return Table(tuple(reading.rows), reading.unreadable, (*layouts[0].notes, *below, *grid.notes, *reading.notes()))


def _why(notes: Sequence[Note]) -> dict[str, object]:
    """Why there is no row with a question, as far as the notes tell."""
    values = {note.name: note.values for note in notes}
    if "formulas" in values:
        return {"why": "formulas", "cells": ", ".join(values["formulas"]["cells"][:5])}
    if "several_texts" in values:
        return {"why": "json", "rows": ", ".join(map(str, values["several_texts"]["rows"][:5]))}
    return {}


class _Reading:
    """The rows that were read so far, and what was odd about them."""

    def __init__(self, grid: Grid) -> None:
        self.rows: list[Row] = []
        self.unreadable = 0
        self._grid = grid
        # Row numbers by the name of their note.
        self._odd: dict[str, list[int]] = {"too_many_cells": [], "put_together": [], "several_texts": []}
        self._beside: set[str] = set()
        self._nothing: Counter[str] = Counter()
        # The row that a merged question began in.
        self._last = 0

    def add(self, record: Record, layout: Layout) -> None:
        if self.rows and self._grid.joined.get((record.number, layout.question)) == self._last:
            self.rows[-1] = self._continued(self.rows[-1], record, layout)
            return
        row = self._row(record, layout)
        if row is None:
            self.unreadable += 1
        else:
            self.rows.append(row)
            self._last = record.number

    def notes(self) -> list[Note]:
        notes = [Note(name, {"rows": numbers}) for name, numbers in self._odd.items() if numbers]
        if self._nothing:
            notes.append(Note("nothing", {"words": list(self._nothing), "count": self._nothing.total()}))
        if self._beside:
            notes.append(Note("beside", {"names": sorted(self._beside)}))
        return notes

    def _row(self, record: Record, layout: Layout) -> Row | None:
        """The row, None when there is no question in it that could be asked."""
        cells = self._fitted(record, layout)
        if cells is None:
            return None
        filled = [cell for cell in cells if cell]
        if len(filled) == 1 and re.fullmatch(_FOOTNOTE, filled[0], re.DOTALL | re.IGNORECASE):
            return None
        is_part = len(filled) == 1 and layout.columns["reference"] is not None and re.fullmatch(_PART, filled[0])
        if (is_part and not asks_something(filled[0])) or (filled and filled[0].casefold() in _TOTALS):
            return None
        return self._made(cells, record.number, layout)

    def _fitted(self, record: Record, layout: Layout) -> list[str] | None:
        """As many cells as there are columns; None when it can't be told which of too many belong together."""
        cells = list(record.cells)
        width = len(layout.names)
        while len(cells) > width and not cells[-1].strip():
            cells.pop()
        if len(cells) > width and self._grid.delimiter:
            together = put_together(cells, self._grid.delimiter) if len(cells) < width + _MOST_COMMAS else cells
            fits = len(together) == width and not any(map(_is_open, together))
            self._odd["put_together" if fits else "too_many_cells"].append(record.number)
            if not fits:
                return None
            cells = together
        self._beside |= {cleaned(cell)[:20] for cell in cells[width:] if cell.strip()}
        return [cleaned(cell) for cell in cells[:width]] + [""] * (width - len(cells))

    def _made(self, cells: Sequence[str], number: int, layout: Layout) -> Row | None:
        raw = {kind: "" if column is None else cells[column] for kind, column in layout.columns.items()}
        for kind, cell in raw.items():
            if is_nothing(cell):
                self._nothing[cell] += kind == "reference"
                raw[kind] = ""
        across = self._grid.across.get((number, layout.question), 0)
        # A merged cell that goes on over the references is the title of a part.
        if not raw["question"] or layout.question < (layout.columns["reference"] or 0) <= across:
            return None
        question, reference = inner_text(raw["question"], "question"), inner_text(raw["reference"], "reference")
        if question is None or reference is None:
            self._odd["several_texts"].append(number)
        if not question or reference is None:
            return None
        if layout.columns["reference"] is None:
            reference = reference_beside(raw["question"])
        others = {name: cells[index] for index, name in layout.others.items()}
        return Row(question, reference, raw["documents"], raw["category"], others)

    def _continued(self, row: Row, record: Record, layout: Layout) -> Row:
        """The row with what stands beside a further part of its merged question, on lines of their own."""
        own = ["" if (record.number, i) in self._grid.joined else cleaned(cell) for i, cell in enumerate(record.cells)]

        def more(column: int | None) -> str:
            return "" if column is None or column >= len(own) else own[column]

        return replace(
            row,
            reference=_joined(row.reference, more(layout.columns["reference"])),
            documents=_joined(row.documents, more(layout.columns["documents"])),
            category=row.category or more(layout.columns["category"]),
            others={name: _joined(row.others.get(name, ""), more(i)) for i, name in layout.others.items()},
        )


def _joined(one: str, other: str) -> str:
    return "\n".join(filter(None, (one, other)))


def put_together(cells: Sequence[str], delimiter: str) -> list[str]:
    """The cells, where the delimiter stood inside a number (1,000) or inside brackets as one again."""
    whole: list[str] = []
    for cell in cells:
        inside_number = (
            delimiter == ","
            and whole
            and re.search(r"(?<![\d.])\d{1,3}(,\d{3})*$", whole[-1])
            and re.match(r"\d{3}(?!\d)", cell)
        )
        if whole and (inside_number or _is_open(whole[-1])):
            whole[-1] += delimiter + cell
        else:
            whole.append(cell)
    return whole


def _is_open(cell: str) -> bool:
    """Whether a cell begins with a bracket that it doesn't close, as JSON that was cut at a comma."""
    text = cell.strip()
    return text[:1] in {"{", "["} and sum(map(text.count, "{[")) > sum(map(text.count, "}]"))
