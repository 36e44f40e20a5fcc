"""Question lists with references, read from whatever people paste."""

import csv
import io
import json
import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from evaluation.errors import EvaluationError, Reason
from evaluation.folding import fold

MAX_TABLE_CHARACTERS = 5_000_000
_DELIMITERS = "\t,;，"
# The line under the header of a Markdown table.
_RULE = r"\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?"

csv.field_size_limit(MAX_TABLE_CHARACTERS)


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
    """The rows that have a question, in order; `unreadable` counts those that have something else but none."""

    rows: tuple[Row, ...]
    unreadable: int = 0

    @property
    def without_reference(self) -> int:
        return sum(not row.reference for row in self.rows)


def read_table(text: str) -> Table:
    """The table in a text: pasted from a spreadsheet, CSV, TSV, a Markdown table, JSON or JSON lines.

    Column names are recognised in Japanese, English and Chinese (headers.toml); without any the first column
    holds the questions and the second the references.

    Raises:
        EvaluationError: no_table, or table_unreadable when it has neither a second column nor a header.
    """
    # Tabs at the ends are empty cells.
    plain = text.replace("\r\n", "\n").replace("\r", "\n").strip("\ufeff\n ")
    if not plain.strip():
        raise EvaluationError(Reason.NO_TABLE)
    records = _json_records(plain) if re.match(r"\[\s*[\[{\"\]]|\{\s*[\"}]", plain) else _lines(plain)
    return table_of(records)


def table_of(records: Sequence[Sequence[str]]) -> Table:
    """The table whose records are the rows' cells, with or without a header.

    Raises:
        EvaluationError: table_unreadable when no record has a second cell and no header names the questions, or when
            the header names the references but no questions.
    """
    records = [record for record in records if any(cell.strip() for cell in record)]
    if not records:
        raise EvaluationError(Reason.TABLE_UNREADABLE)
    header = [header_kind(cell) for cell in records[0]]
    if "question" in header:
        names, body = [cell.strip() for cell in records[0]], records[1:]
        columns = {kind: _best_column(names, kind) for kind in ("question", "reference", "documents", "category")}
    else:
        names, body = [str(number) for number in range(1, _usual_width(records) + 1)], records
        first = int(len(names) > 2 and _are_numbered(records))
        columns = {"question": first, "reference": first + 1, "documents": None, "category": None}
        # One letter may well be an answer.
        names_references = any(kind == "reference" and len(records[0][i].strip()) > 1 for i, kind in enumerate(header))
        if len(names) < 2 or names_references:
            raise EvaluationError(Reason.TABLE_UNREADABLE)
    rows, unreadable = [], 0
    for record in body:
        cells = _fitted([cell.strip() for cell in record], len(names))
        found = {kind: "" if column is None else cells[column] for kind, column in columns.items()}
        if not found["question"]:
            unreadable += 1
            continue
        others = {name: cells[i] for i, name in enumerate(names) if i not in columns.values() and name}
        rows.append(Row(**found, others=others))
    if not rows:
        raise EvaluationError(Reason.TABLE_UNREADABLE)
    return Table(tuple(rows), unreadable)


def _usual_width(records: Sequence[Sequence[str]]) -> int:
    """How many cells most records have, not counting those with one alone, which has no reference.

    Of equally frequent numbers the smaller: unquoted commas add cells.
    """
    filled = (max(i for i, cell in enumerate(record, start=1) if cell.strip()) for record in records)
    counts = Counter(width for width in filled if width > 1)
    return min(counts, key=lambda width: (-counts[width], width), default=1)


def _are_numbered(records: Sequence[Sequence[str]]) -> bool:
    """Whether the first column numbers the rows, perhaps under a name."""
    return all(re.fullmatch(r"\D?\d+\D?", record[0].strip()) for record in records[1:] or records)


def _fitted(cells: list[str], width: int) -> list[str]:
    """As many cells as there are columns. What is too much belongs to the last one: an unquoted comma inside it."""
    if len(cells) > width:
        return [*cells[: width - 1], ", ".join(filter(None, cells[width - 1 :]))]
    return cells + [""] * (width - len(cells))


@cache
def _headers() -> dict[str, dict[str, int]]:
    path = Path(__file__).with_name("headers.toml")
    lists = tomllib.loads(path.read_text(encoding="utf-8"))
    return {kind: {fold(name): rank for rank, name in enumerate(names)} for kind, names in lists.items()}


def header_kind(cell: str) -> str:
    """What a column of that name holds (question, reference, documents, category), "" when it is not known."""
    return next((kind for kind, names in _headers().items() if fold(cell.replace("_", " ")) in names), "")


def _best_column(names: Sequence[str], kind: str) -> int | None:
    """The column named most like that: a table may hold the bot's answers beside the right ones."""
    ranks = _headers()[kind]
    known = [(ranks[key], i) for i, name in enumerate(names) if (key := fold(name.replace("_", " "))) in ranks]
    return min(known)[1] if known else None


def _json_records(text: str) -> list[list[str]]:
    """Records from JSON or JSON lines; objects with a question's name among their keys have a header.

    Raises:
        EvaluationError: table_unreadable; taken for lines of text, broken JSON would give rows of brackets and quotes.
    """
    value = _json_value(text)
    if isinstance(value, Mapping):
        rows = _find_rows(value)
        if rows is None:
            pairs = [[str(key), _cell(item)] for key, item in value.items() if isinstance(item, (str, int, float))]
            rows = [value] if any(header_kind(key) for key, _ in pairs) else pairs
        value = rows
    if isinstance(value, list) and all(isinstance(item, Mapping) for item in value):
        names = list(dict.fromkeys(str(name) for item in value for name in item))
        records = [[_cell(item.get(name)) for name in names] for item in value]
        if any(header_kind(name) == "question" for name in names):
            return [names, *records]
        if len(names) == 2:
            return records
    elif isinstance(value, list):
        return [[_cell(cell) for cell in item] for item in value if isinstance(item, list)]
    raise EvaluationError(Reason.TABLE_UNREADABLE)


def _json_value(text: str) -> object:
    for candidate in (text, f"[{','.join(line for line in text.split('\n') if line.strip())}]"):
        try:
            return json.loads(candidate)
        except (ValueError, RecursionError):
            continue
    return None


def _find_rows(value: Mapping[str, Any]) -> list[Any] | None:
    """The first list of objects or lists in an object, at any depth."""
    for item in value.values():
        if isinstance(item, list) and item and all(isinstance(row, (Mapping, list)) for row in item):
            return item
        if isinstance(item, Mapping) and (rows := _find_rows(item)) is not None:
            return rows
    return None


def _cell(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return "\n".join(value)
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _lines(text: str) -> list[list[str]]:
    """The records of a Markdown table or of delimited text."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    ruled = any("|" in line and re.fullmatch(_RULE, line) for line in lines)
    if ruled or all(line.startswith("|") for line in lines):
        return [_markdown_cells(line) for line in lines if "|" in line and not re.fullmatch(_RULE, line)]
    counts = {delimiter: sum(delimiter in line for line in lines) for delimiter in _DELIMITERS}
    # Cells of a spreadsheet hold commas, and lines without tabs; a tab in a file with commas is rare.
    tabs = "\t" in text.split("\n", 1)[0] or counts["\t"] >= max(counts.values())
    delimiter = "\t" if tabs else max(_DELIMITERS, key=lambda mark: counts[mark])
    records = list(csv.reader(io.StringIO(text), delimiter=delimiter))
    swallowed = any(delimiter in cell and "\n" in cell for record in records for cell in record)
    if swallowed and (delimiter == "\t" or text.count('"') % 2):
        # A cell that begins with a lone quote took the lines after it: in this text quotes quote nothing.
        records = list(csv.reader(io.StringIO(text), delimiter=delimiter, quoting=csv.QUOTE_NONE))
    return records


def _markdown_cells(line: str) -> list[str]:
    inner = line.removeprefix("|")
    inner = inner[:-1] if inner.endswith("|") and not inner.endswith("\\|") else inner
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", inner)]
