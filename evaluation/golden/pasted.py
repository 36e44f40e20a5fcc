"""Cells in a text: pasted from a spreadsheet, CSV, TSV, a Markdown table, JSON or JSON lines."""

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from evaluation.errors import EvaluationError, Reason
from evaluation.golden.grid import Grid, Record
from evaluation.golden.headers import columns_of, header_kind

MAX_TABLE_CHARACTERS = 5_000_000
_DELIMITERS = "\t,;|，"
# Excel is told the delimiter by a first line like this.
_TOLD = r"\s*\"?sep=([^\w\"\n])\"?[ ,;\t]*\n"
# The line under the header of a Markdown table.
_RULE = r"\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?"
# Where a header is looked for to tell the delimiter.
_FIRST_LINES = 60

csv.field_size_limit(MAX_TABLE_CHARACTERS)


def grid_of(text: str) -> Grid:
    """The cells of a text.

    Raises:
        EvaluationError: no_table when it is empty; table_unreadable when it is JSON of another kind.
    """
    plain = text.replace("\r\n", "\n").replace("\r", "\n").replace("\ufeff", "").rstrip("\n ")
    if not plain.strip():
        raise EvaluationError(Reason.NO_TABLE)
    if re.match(r"\s*(\[\s*[\[{\"\]]|\{\s*[\"}])", plain):
        records = _json_records(plain.strip())
        named = bool(records) and columns_of(records[0])["question"] is not None
        return Grid([Record(number, cells) for number, cells in enumerate(records, start=0 if named else 1)])
    return _of_lines(plain)


def _json_records(text: str) -> list[list[str]]:
    """Records from JSON or JSON lines; objects with a question's name among their keys have a header.

    Raises:
        EvaluationError: table_unreadable; taken for lines of text, broken JSON would give rows of brackets and quotes.
    """
    value = _json_value(text)
    if isinstance(value, Mapping):
        rows = _rows_of_columns(value) or _find_rows(value)
        if rows is None:
            pairs = [[str(key), _cell(item)] for key, item in value.items() if isinstance(item, (str, int, float))]
            rows = [value] if any(header_kind(str(key)) for key in value) else pairs
        value = rows
    if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        names = list(dict.fromkeys(str(name) for item in value for name in item))
        records = [[_cell(item.get(name)) for name in names] for item in value]
        if columns_of(names)["question"] is not None:
            return [names, *records]
        if len(names) == 2:
            return records
        raise EvaluationError(Reason.TABLE_UNREADABLE, why="columns", seen=" / ".join(names))
    if isinstance(value, list):
        return [[_cell(cell) for cell in item] for item in value if isinstance(item, list)]
    raise EvaluationError(Reason.TABLE_UNREADABLE)


def _json_value(text: str) -> object:
    for candidate in (text, f"[{','.join(line for line in text.split('\n') if line.strip())}]"):
        try:
            return json.loads(candidate)
        except (ValueError, RecursionError):
            continue
    return None


def _rows_of_columns(value: Mapping[str, Any]) -> list[Any] | None:
    """The rows of an object that has a list or an object of numbered cells for each column; None when it has not."""
    columns = {
        name: list(cells.values()) if isinstance(cells, Mapping) else cells
        for name, cells in value.items()
        if isinstance(cells, list) or (isinstance(cells, Mapping) and cells and all(map(str.isdecimal, cells)))
    }
    place = columns_of(list(columns))["question"]
    questions = [] if place is None else list(columns.values())[place]
    fitting = {name: cells for name, cells in columns.items() if len(cells) == len(questions)}
    if not questions or len(fitting) < 2 or not all(isinstance(question, str) for question in questions):
        return None
    return [dict(zip(fitting, cells, strict=True)) for cells in zip(*fitting.values(), strict=True)]


def _find_rows(value: Mapping[str, Any]) -> list[Any] | None:
    """The first list of objects or lists in an object, at any depth; a list of messages is the content of one row."""
    for key, item in value.items():
        if isinstance(item, list) and item and all(isinstance(row, (Mapping, list)) for row in item):
            if not header_kind(str(key)):
                return item
        elif isinstance(item, Mapping) and (rows := _find_rows(item)) is not None:
            return rows
    return None


def _cell(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return "\n".join(value)
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _of_lines(text: str) -> Grid:
    """The cells of a Markdown table or of delimited text."""
    told = re.match(_TOLD, text, re.IGNORECASE)
    text = text[told.end() :] if told else text
    lines = [line.strip() for line in text.split("\n")]
    filled = [line for line in lines if line]
    if any("|" in line and re.fullmatch(_RULE, line) for line in lines) or all(line.startswith("|") for line in filled):
        kept = [(n, line) for n, line in enumerate(lines, start=1) if "|" in line and not re.fullmatch(_RULE, line)]
        return Grid([Record(number, _markdown_cells(line)) for number, line in kept])
    delimiter = told[1] if told else _delimiter(text, filled)
    # Cells that were pasted stand where they stood; in a written file one more mark moves those after it.
    return Grid(_filled(_split(text, delimiter)), "" if delimiter == "\t" else delimiter)


def _filled(records: Iterable[list[str]]) -> list[Record]:
    numbered = (Record(number, cells) for number, cells in enumerate(records, start=1))
    return [record for record in numbered if any(cell.strip() for cell in record.cells)]


def _delimiter(text: str, lines: list[str]) -> str:
    """The mark that parts the names of known columns, else the one in most lines."""
    counts = {delimiter: sum(delimiter in line for line in lines) for delimiter in _DELIMITERS}
    beginning = "\n".join(text.lstrip("\n").split("\n", _FIRST_LINES)[:_FIRST_LINES])
    known = {mark: _known_columns(_split(beginning, mark)) for mark in _DELIMITERS if counts[mark]}
    best = max(known, key=lambda mark: known[mark], default="\t")
    if known.get(best, 0) > 1:
        return best
    # Cells of a spreadsheet hold commas, and lines without tabs; a tab in a file with commas is rare.
    tabs = "\t" in lines[0] or counts["\t"] >= max(counts.values())
    return "\t" if tabs else max(_DELIMITERS, key=lambda mark: counts[mark])


def _known_columns(records: Iterable[list[str]]) -> int:
    """How many kinds of columns a row of names has at best."""
    return max((len(columns_of(cells)) - list(columns_of(cells).values()).count(None) for cells in records), default=0)


def _split(text: str, delimiter: str) -> list[list[str]]:
    records = list(csv.reader(io.StringIO(text), delimiter=delimiter))
    swallowed = any(delimiter in cell and "\n" in cell for record in records for cell in record)
    if swallowed and (delimiter == "\t" or text.count('"') % 2):
        # A cell that begins with a lone quote took the lines after it: in this text quotes quote nothing.
        records = list(csv.reader(io.StringIO(text), delimiter=delimiter, quoting=csv.QUOTE_NONE))
    return records


def _markdown_cells(line: str) -> list[str]:
    inner = line.removeprefix("|")
    inner = inner[:-1] if inner.endswith("|") and not inner.endswith("\\|") else inner
    cells = (re.sub(r"\s*<br\s*/?>\s*", "\n", cell, flags=re.IGNORECASE) for cell in re.split(r"(?<!\\)\|", inner))
    return [cell.strip().replace("\\|", "|") for cell in cells]
