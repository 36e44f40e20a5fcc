"""Question lists with references: reading a table, and finding a question in it."""

import csv
import io
import json
import re
import tomllib
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from rapidfuzz import fuzz, process

from evaluation.errors import EvaluationError, Reason
from evaluation.scoring import cosines

# Similarity that counts as the same question when the node sets none. Characters: short questions about different
# things share most of theirs, so only near-identical wording passes. Embeddings: paraphrases reach .85 with most
# models.
CHARACTER_MINIMUM, EMBEDDING_MINIMUM = 0.9, 0.85
# Two questions this close to each other in similarity can't be told apart by it.
TIE = 0.01
# A table is embedded anew for each question; beyond this the candidates nearest by characters are.
EMBEDDED_ROWS = 300
MAX_TABLE_CHARACTERS = 5_000_000
_MEANINGFUL = "#%&@+"
_DELIMITERS = "\t,;，"

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


@dataclass(frozen=True)
class Match:
    """A table's row for a question.

    Attributes:
        row: None when nothing is similar enough, or several rows are equally so.
        nearest: the most similar question of the table, "" when there is none.
        similarity: of the nearest, 0 to 1.
        minimum: the similarity that counts as the same.
        method: "exact", "characters" or "embedding".
        ambiguous: several rows with different references are equally similar.
        conflicts: questions that stand in the table again with another reference; the first counts.
    """

    row: Row | None
    nearest: str = ""
    similarity: float = 0.0
    minimum: float = 1.0
    method: str = "exact"
    ambiguous: bool = False
    conflicts: int = 0

    def error(self) -> EvaluationError | None:
        """Why there is no reference, None when there is one."""
        if self.row is not None:
            return None if self.row.reference else EvaluationError(Reason.NO_REFERENCE)
        return EvaluationError(Reason.AMBIGUOUS_MATCH if self.ambiguous else Reason.NOT_FOUND)


def read_table(text: str) -> Table:
    """The table in a text: pasted from a spreadsheet, CSV, TSV, a Markdown table, JSON or JSON lines.

    Column names are recognised in Japanese, English and Chinese (texts/headers.toml); without any the first column
    holds the questions and the second the references.

    Raises:
        EvaluationError: no_table, or table_unreadable when it has neither a second column nor a header.
    """
    stripped = text.strip().lstrip("\ufeff")
    if not stripped:
        raise EvaluationError(Reason.NO_TABLE)
    return table_of(_json_records(stripped) or _lines(stripped))


def table_of(records: Sequence[Sequence[str]]) -> Table:
    """The table whose records are the rows' cells, with or without a header.

    Raises:
        EvaluationError: table_unreadable when no record has a second cell and no header names the questions, or when
            the header names the references but no questions.
    """
    width = max((len(record) for record in records), default=0)
    header = [_header_kind(cell) for cell in records[0]] if records else []
    if "question" in header:
        names, body = [cell.strip() for cell in records[0]], records[1:]
        question = header.index("question")
        reference = _best_reference(names)
        documents, category = (header.index(kind) if kind in header else None for kind in ("documents", "category"))
    else:
        names, body = [str(number) for number in range(1, width + 1)], records
        question, reference, documents, category = 0, 1, None, None
        # One letter may well be an answer.
        names_references = any(kind == "reference" and len(records[0][i].strip()) > 1 for i, kind in enumerate(header))
        if width < 2 or names_references:
            raise EvaluationError(Reason.TABLE_UNREADABLE)
    rows, unreadable = [], 0
    for record in body:
        cells = _fitted([cell.strip() for cell in record], len(names))
        if not any(cells):
            continue
        if not cells[question]:
            unreadable += 1
            continue
        used = {question, reference, documents, category}
        others = {name: cells[i] for i, name in enumerate(names) if i not in used and name}
        further = {"documents": _at(cells, documents), "category": _at(cells, category), "others": others}
        rows.append(Row(cells[question], _at(cells, reference), **further))  # type: ignore[arg-type]
    if not rows:
        raise EvaluationError(Reason.TABLE_UNREADABLE)
    return Table(tuple(rows), unreadable)


def _at(cells: Sequence[str], column: int | None) -> str:
    return "" if column is None else cells[column]


def _fitted(cells: list[str], width: int) -> list[str]:
    """As many cells as there are columns. What is too much belongs to the last one: an unquoted comma inside it."""
    if len(cells) > width:
        return [*cells[: width - 1], ", ".join(filter(None, cells[width - 1 :]))]
    return cells + [""] * (width - len(cells))


@cache
def _headers() -> dict[str, dict[str, int]]:
    path = Path(__file__).parent / "texts" / "headers.toml"
    lists = tomllib.loads(path.read_text(encoding="utf-8"))
    return {kind: {fold(name): rank for rank, name in enumerate(names)} for kind, names in lists.items()}


def _header_kind(cell: str) -> str:
    return next((kind for kind, names in _headers().items() if fold(cell.replace("_", " ")) in names), "")


def _best_reference(names: Sequence[str]) -> int | None:
    """The column named most like a reference: a table may hold the bot's answers beside the right ones."""
    ranks = _headers()["reference"]
    known = [(ranks[key], i) for i, name in enumerate(names) if (key := fold(name.replace("_", " "))) in ranks]
    return min(known)[1] if known else None


def _json_records(text: str) -> list[list[str]]:
    """Records with a header from JSON or JSON lines; [] when it is neither."""
    if text[0] not in "[{":
        return []
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        try:
            value = [json.loads(line) for line in text.splitlines() if line.strip()]
        except (ValueError, RecursionError):
            return []
    if isinstance(value, Mapping):
        inner = next((item for item in value.values() if isinstance(item, list)), None)
        if inner is None:
            pairs = [[key, item] for key, item in value.items() if isinstance(item, str)]
            one_record = any(_header_kind(key) for key, _ in pairs)
            value = [value] if one_record else pairs
        else:
            value = inner
    if all(isinstance(item, Mapping) for item in value):
        names = list(dict.fromkeys(str(name) for item in value for name in item))
        return [names, *([_cell(item.get(name)) for name in names] for item in value)]
    return [[_cell(cell) for cell in item] for item in value if isinstance(item, list)]


def _cell(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return "\n".join(value)
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _lines(text: str) -> list[list[str]]:
    """The records of delimited text; the delimiter is the one that most lines have, tabs before all others."""
    lines = [line for line in text.splitlines() if line.strip()]
    if all(line.strip().startswith("|") for line in lines):
        records = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]
        return [record for record in records if not all(re.fullmatch(r":?-+:?", cell) for cell in record)]
    counts = {delimiter: sum(delimiter in line for line in lines) for delimiter in _DELIMITERS}
    delimiter = "\t" if counts["\t"] else max(_DELIMITERS, key=lambda mark: counts[mark])
    records = list(csv.reader(io.StringIO(text), delimiter=delimiter))
    swallowed = any(delimiter in cell and "\n" in cell for record in records for cell in record)
    if swallowed and delimiter == "\t":
        # A cell that begins with a lone quote took the lines after it: in this text quotes quote nothing.
        records = list(csv.reader(io.StringIO(text), delimiter=delimiter, quoting=csv.QUOTE_NONE))
    return records


def fold(text: str) -> str:
    """The text as it is compared: NFKC, case folded, without white space and punctuation.

    Signs that tell things apart stay: # % & @ +, a point between digits, a minus before a digit.
    """
    plain = unicodedata.normalize("NFKC", text).casefold()
    plain = re.sub(
        r"(?<=\d)\.(?=\d)|(?<!\w)-(?=\d)", lambda match: {".": "\ue000", "-": "\ue001"}[match.group()], plain
    )
    kept = (
        char for char in plain if char in _MEANINGFUL or unicodedata.category(char)[0] not in "PZC" or char >= "\ue000"
    )
    return "".join(kept)


def find_reference(
    question: str,
    table: Table,
    minimum: float | None = None,
    embed: Callable[[Sequence[str]], Iterable[Sequence[float]]] | None = None,
) -> Match:
    """The table's row for a question: the same after `fold`, else the nearest that is similar enough.

    Questions with different numbers in them are never taken for one another (「2024年度」, 「2025年度」).

    Args:
        minimum: similarity that counts as the same question; by default .9 by characters, .85 by embeddings.
        embed: texts -> vectors; without it similarity is the share of characters in common (rapidfuzz's ratio).

    Raises:
        EvaluationError: from `embed`, or embedding_invalid.
    """
    rows: dict[str, Row] = {}
    conflicts = 0
    for row in table.rows:
        first = rows.setdefault(fold(row.question), row)
        conflicts += first.reference != row.reference
    key = fold(question)
    if key in rows:
        row = rows[key]
        return Match(row, row.question, 1.0, conflicts=conflicts)
    if minimum is None:
        minimum = EMBEDDING_MINIMUM if embed else CHARACTER_MINIMUM
    numbers = re.findall(r"\d+", key)
    candidates = {other: row for other, row in rows.items() if re.findall(r"\d+", other) == numbers}
    ranked = [
        (score / 100, other)
        for other, score, _ in process.extract(key, list(candidates), scorer=fuzz.ratio, limit=EMBEDDED_ROWS)
    ]
    method = "characters"
    if embed and ranked:
        method = "embedding"
        texts = [question, *(candidates[other].question for _, other in ranked)]
        vectors = list(embed(texts))
        similarities = cosines(vectors[0], vectors[1:])
        ranked = sorted(zip(similarities, [other for _, other in ranked], strict=True), reverse=True)
    if not ranked:
        return Match(None, minimum=minimum, method=method, conflicts=conflicts)
    similarity, best = ranked[0]
    row = candidates[best]
    tied = [candidates[other] for score, other in ranked[1:] if similarity - score < TIE]
    ambiguous = similarity >= minimum and any(other.reference != row.reference for other in tied)
    found = similarity >= minimum and not ambiguous
    return Match(row if found else None, row.question, max(0.0, similarity), minimum, method, ambiguous, conflicts)
