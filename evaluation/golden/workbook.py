"""The cells of Excel workbooks as people see them: displayed values, without what is hidden."""

import io
import re
import warnings
import zipfile
from bisect import bisect_right
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, time
from typing import IO, Any
from xml.parsers.expat import ParserCreate

from evaluation.golden.grid import Grid, Note, Record
from evaluation.golden.numberformat import shown

# No tool takes as many rows; those after them would cost time for nothing.
MAX_ROWS = 20_000
# Formats that a file names by number only, and that Excel shows by the country of its user; told without doubt here.
_DATES = {**dict.fromkeys([*range(27, 32), *range(34, 37), *range(50, 59)], 'yyyy"年"m"月"d"日"'), 14: "yyyy/m/d"}
_OTHERS = {22: "yyyy/m/d h:mm", 32: "h:mm", 33: "h:mm:ss"}
# In the file a control character stands as _x000D_, and what looks like one as _x005F_x000D_.
_ESCAPE = r"_x([0-9A-Fa-f]{4})_"
_INVISIBLE = r"[\x00-\x08\x0b-\x1f]"


@dataclass(frozen=True)
class Sheet:
    """A sheet that holds anything; one that is hidden is not read."""

    title: str
    grid: Grid


@dataclass
class _Shape:
    """What the reading library leaves out of a sheet that it streams: what is hidden or merged, and empty formulas."""

    hidden_rows: set[int] = field(default_factory=set)
    hidden_columns: list[tuple[int, int]] = field(default_factory=list)
    merged: list[tuple[int, int, int, int]] = field(default_factory=list)
    without_value: dict[str, None] = field(default_factory=dict)


def read_workbook(data: bytes) -> tuple[list[Sheet], list[str]]:
    """The sheets that hold anything, in their order, and the names of those that are hidden.

    Raises:
        Exception: of any kind, whatever the damaged part of the archive leads to.
    """
    # A large library that only these files need.
    from openpyxl import load_workbook  # noqa: PLC0415

    with warnings.catch_warnings():
        # Of parts of the file that are not read anyway.
        warnings.simplefilter("ignore")
        book = load_workbook(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)
        sheets, hidden = [], []
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            # Some programs leave all formulas to the one that reads the file, with a zero for each.
            not_calculated = re.search(rb"fullCalcOnLoad=.(1|true)", archive.read("xl/workbook.xml")) is not None
        worksheets: list[Any] = book.worksheets
        for sheet in worksheets:
            if sheet.sheet_state != "visible":
                hidden.append(sheet.title)
                continue
            # The library gives no public name to a sheet's stream.
            with sheet._get_source() as source:
                shape = _shape_of(source, not_calculated=not_calculated)
            # Many programs write a size of a million empty rows.
            sheet.reset_dimensions()
            if (grid := _grid(sheet, shape)).records:
                sheets.append(Sheet(sheet.title, grid))
    return sheets, hidden


def _grid(sheet: Any, shape: _Shape) -> Grid:
    hidden = {column for first, last in shape.hidden_columns for column in range(first - 1, min(last, 16384))}
    records: list[Record] = []
    errors: list[str] = []
    hidden_rows, hidden_columns = 0, set[int]()
    for number, row in enumerate(sheet.iter_rows(), start=1):
        if len(records) == MAX_ROWS:
            break
        cells = _texts(row, errors, shape.without_value)
        if not any(cells):
            continue
        if number in shape.hidden_rows:
            hidden_rows += 1
            continue
        hidden_columns |= {column for column in hidden if column < len(cells) and cells[column]}
        records.append(
            Record(number, ["" if i in hidden else cell for i, cell in enumerate(cells)] if hidden else cells)
        )
    records, joined, across = _with_merged(records, shape.merged)
    notes: dict[str, dict[str, Any]] = {
        "hidden_rows": {"count": hidden_rows},
        "hidden_columns": {"names": [_letters(column) for column in sorted(hidden_columns)]},
        "formulas": {"cells": list(shape.without_value)},
        "errors": {"cells": errors},
        "first_rows": {"count": MAX_ROWS if len(records) == MAX_ROWS else 0},
    }
    told = [Note(name, values) for name, values in notes.items() if any(values.values())]
    return Grid([record for record in records if any(record.cells)], "", joined, across, tuple(told))


def _texts(row: Sequence[Any], errors: list[str], without_value: Container[str]) -> list[str]:
    """A row's cells as they are shown, without empty ones at its end; those with an error are noted."""
    texts: list[str] = []
    for cell in row:
        if cell.value is None or cell.coordinate in without_value:
            texts.append("")
        elif cell.data_type == "e":
            errors.append(cell.coordinate)
            texts.append("")
        elif isinstance(cell.value, str):
            texts.append(shown(_unescaped(cell.value).strip(), cell.number_format))
        else:
            texts.append(shown(cell.value, _code(cell)))
    while texts and not texts[-1]:
        texts.pop()
    return texts


def _code(cell: Any) -> str:
    """The cell's number format."""
    number = cell.style_array.numFmtId
    if isinstance(cell.value, datetime) and cell.value.time() == time.min and "h" in cell.number_format.lower():
        # A day that a program wrote as a time of midnight.
        return "yyyy-mm-dd"
    is_date = not isinstance(cell.value, (int, float)) or cell.value >= 1
    return _OTHERS.get(number) or (_DATES.get(number) if is_date else None) or cell.number_format


def _unescaped(text: str) -> str:
    plain = text
    if "_x" in text:
        plain = re.sub(_ESCAPE, lambda match: chr(int(match[1], 16)), text)
        # Characters beyond the first plane stand in two halves.
        plain = plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return re.sub(_INVISIBLE, "", plain.replace("\r\n", "\n").replace("\r", "\n"))


def _with_merged(
    records: list[Record], merged: Sequence[tuple[int, int, int, int]]
) -> tuple[list[Record], Mapping[tuple[int, int], int], Mapping[tuple[int, int], int]]:
    """The records with a merged cell's text in each of its rows that hold anything, and where these are.

    Returns:
        Beside the records what Grid has as `joined` and `across`.
    """
    cells = {record.number: list(record.cells) for record in records}
    numbers = list(cells)
    joined: dict[tuple[int, int], int] = {}
    across: dict[tuple[int, int], int] = {}
    for top, left, bottom, right in merged:
        if top not in cells or left >= len(cells[top]) or not cells[top][left]:
            continue
        if right > left:
            across[top, left] = right
        # A column may be merged as a whole; what holds nothing stays empty.
        for number in numbers[bisect_right(numbers, top) : bisect_right(numbers, bottom)]:
            own = cells[number]
            own += [""] * (left + 1 - len(own))
            own[left] = cells[top][left]
            joined[number, left] = top
    return [Record(number, own) for number, own in cells.items()], joined, across


def _letters(column: int) -> str:
    from openpyxl.utils import get_column_letter  # noqa: PLC0415

    return get_column_letter(column + 1)


def _shape_of(source: IO[bytes], *, not_calculated: bool) -> _Shape:
    """What a sheet's XML says beside its values; a zero of a formula counts as none where nothing is calculated."""
    shape = _Shape()
    reader = _ShapeReader(shape, not_calculated=not_calculated)
    parser = ParserCreate(namespace_separator=" ")
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.characters
    parser.ParseFile(source)
    return shape


class _ShapeReader:
    """Handlers of a parser that keeps nothing, however long the sheet is."""

    def __init__(self, shape: _Shape, *, not_calculated: bool) -> None:
        self._shape = shape
        self._empty = {"", "0"} if not_calculated else {""}
        self._row = 0
        self._cell: Mapping[str, str] = {}
        self._formula = False
        self._value: list[str] | None = None

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        tag = name.rpartition(" ")[2]
        is_hidden = attributes.get("hidden") in {"1", "true"}
        if tag == "c":
            self._cell, self._formula, self._value = attributes, False, None
        elif tag == "f":
            self._formula = True
        elif tag == "v":
            self._value = []
        elif tag == "row":
            self._row = int(float(attributes.get("r", self._row + 1)))
            if is_hidden:
                self._shape.hidden_rows.add(self._row)
        elif tag == "col" and is_hidden:
            self._shape.hidden_columns.append((int(attributes["min"]), int(attributes["max"])))
        elif tag == "mergeCell":
            self._shape.merged.append(_bounds(attributes["ref"]))

    def characters(self, text: str) -> None:
        if self._value is not None:
            self._value.append(text)

    def end(self, name: str) -> None:
        # The result of a formula may well be an empty text.
        texts = {"str", "s", "e", "inlineStr"}
        if not (name.endswith(" c") and self._formula and "r" in self._cell) or self._cell.get("t") in texts:
            return
        if "".join(self._value or []).strip() in self._empty:
            self._shape.without_value[self._cell["r"]] = None


def _bounds(reference: str) -> tuple[int, int, int, int]:
    """First row, first column, last row and last column of "A1:B2", the rows from 1, the columns from 0."""
    from openpyxl.utils import range_boundaries  # noqa: PLC0415

    left, top, right, bottom = (int(bound or 1) for bound in range_boundaries(reference))
    return top, left - 1, bottom, right - 1
