"""Which columns of a grid hold what, and in which of its rows."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from re import compile as pattern_of  # the marketplace's scan takes re.compile for Python's own compile

from evaluation.errors import EvaluationError, Reason
from evaluation.golden.cells import cleaned
from evaluation.golden.grid import Grid, Note, Record
from evaluation.golden.headers import COLUMNS, Kind, columns_of, header_name

# Titles, notes and dates above a table take no more rows.
_ABOVE = 40
# Of a further table below.
_TITLE_ROWS = 5
_BLOCKS = 500
_SEEN_CELLS, _SEEN_CHARACTERS = 6, 20
# Numbers, dates, times, amounts, marks: nothing that anybody asks.
_NO_WORDS = r"[\W\d年月日時分秒円元]*"
_MOST_ASK = 0.8
_LIKE_A_QUESTION = (
    r"[?？]\s*$|(か|かな|でしょう|たい|ますでしょうか)[。．]?$|教えて|ください|下さい|何|どこ|いつ|誰|なぜ|どう|いくら"
    r"|[吗呢]|什么|怎么|如何|多少|哪|几|是否|請問|什麼|怎麼|까요|나요|니까|무엇|어떻게"
    r"|^(what|how|when|where|who|why|which|is|are|do|does|can|could|may|wie|was|wann|wo|wer|comment|quel|combien|qué|cómo|cuándo)\b"
)


@dataclass(frozen=True)
class Layout:
    """The columns of a table, and its rows.

    Attributes:
        names: one a column.
        columns: where the known kinds stand, from 0, None without one.
        others: the names of the further columns by where they stand.
        body: the rows below the names.
        below: the numbers of rows further below that are no questions.
    """

    names: Sequence[str]
    columns: Mapping[Kind, int | None]
    others: Mapping[int, str]
    body: Sequence[Record]
    notes: tuple[Note, ...] = ()
    below: Sequence[int] = ()

    @property
    def question(self) -> int:
        """The column of the questions; there is one in every layout."""
        return self.columns["question"] or 0


def layouts_of(grid: Grid) -> list[Layout]:
    """The layout of the table, and of those below it that have names again.

    Raises:
        EvaluationError: table_unreadable when the questions' column can't be told.
    """
    records = grid.records
    start = header_index(records)
    if start is None:
        return [_without_names(records, written=bool(grid.delimiter))]
    starts = [start, *_further(records, start), len(records)]
    return [_with_names(grid, begin, _end(records, begin, end)) for begin, end in pairwise(starts)]


def header_index(records: Sequence[Record]) -> int | None:
    """Where the row of names stands: the first of those with the most known ones, below a title at most."""
    best, most = None, 0
    for index, record in enumerate(records[:_ABOVE]):
        columns = columns_of(record.cells)
        known = sum(place is not None for place in columns.values())
        if columns["question"] is not None and known > most:
            best, most = index, known
    titles_only = best is not None and all(_filled(record) < 2 for record in records[:best])
    return best if most > 1 or titles_only else None


def known_columns(records: Sequence[Record]) -> int:
    """How many kinds of columns are known by their names, 0 without a row of names."""
    start = header_index(records)
    return 0 if start is None else sum(place is not None for place in columns_of(records[start].cells).values())


def _further(records: Sequence[Record], start: int) -> list[int]:
    """Where names stand again: the same, or known ones that begin a block of their own."""
    names = {cell.strip() for cell in records[start].cells if cell.strip()}
    found = []
    # Where each row has an empty one above it, looking at all of them would take minutes.
    left = _BLOCKS
    for index in range(start + 1, len(records)):
        cells = [cell.strip() for cell in records[index].cells]
        same = len(names) > 1 and names == {cell for cell in cells if cell}
        begins = _block_start(records, index) < index or _gap(records, index)
        if same or (begins and _filled(records[index]) > 1 and (left := left - 1) > 0 and _is_header(cells)):
            found.append(index)
    return found


def _is_header(cells: Sequence[str]) -> bool:
    columns = columns_of(cells)
    return columns["question"] is not None and columns["reference"] is not None


def _end(records: Sequence[Record], begin: int, end: int) -> int:
    """Where the rows of a table end: before the title of the next one, which stands below an empty row."""
    return end if end == len(records) else max(begin + 1, _block_start(records, end))


def _block_start(records: Sequence[Record], index: int) -> int:
    """The first of the rows of one cell each that stand right above a row, after an empty one; else the row itself."""
    first = index
    while index - _TITLE_ROWS < first > 0 and not _gap(records, first) and _filled(records[first - 1]) == 1:
        first -= 1
    return first if _gap(records, first) else index


def _gap(records: Sequence[Record], index: int) -> bool:
    return index > 0 and records[index].number - records[index - 1].number > 1


def _filled(record: Record) -> int:
    return sum(bool(cell.strip()) for cell in record.cells)


def _with_names(grid: Grid, begin: int, end: int) -> Layout:
    header = grid.records[begin]
    names = [cleaned(cell) for cell in header.cells]
    body = list(grid.records[begin + 1 : end])
    question = columns_of(names)["question"] or 0
    while body and grid.joined.get((body[0].number, question)) == header.number:
        # The names take two rows: what stands in the lower one is the column's own name.
        lower = body.pop(0)
        width = max(len(names), len(lower.cells))
        own = ["" if (lower.number, i) in grid.joined else cleaned(cell) for i, cell in enumerate(lower.cells)]
        pairs = zip(own + [""] * width, names + [""] * width, strict=False)
        names = [below or above for below, above in list(pairs)[:width]]
    columns = columns_of(names)
    body, below = _without_others(body, columns["question"] or 0)
    again = next((i for i, name in enumerate(names) if i > question and name == names[question]), len(names))
    used = {place for place in columns.values() if place is not None}
    others = {i: name for i, name in enumerate(names[:again]) if name and i not in used}
    if len(used) == 1:
        _check_upright(body, question, header)
    notes = []
    if begin > 0:
        notes.append(Note("header", {"row": header.number, "names": list(filter(None, names))}))
    if again < len(names):
        notes.append(Note("second_table", {"names": list(filter(None, names[again:]))}))
    if columns["reference"] is None and others:
        notes.append(Note("no_reference", {"names": list(others.values())}))
    return Layout(names, columns, others, body, tuple(notes), [record.number for record in below])


def _without_others(body: Sequence[Record], question: int) -> tuple[list[Record], list[Record]]:
    """The rows of questions, and those of other tables and remarks that stand below an empty row.

    They begin with a row of one cell or with names of columns, and ask nothing where the rows above do.
    """
    starts = [0, *(index for index in range(1, len(body)) if _gap(body, index)), len(body)]
    blocks = [body[begin:end] for begin, end in pairwise(starts)]
    if not blocks or _share(_LIKE_A_QUESTION, [_cell(record, question) for record in blocks[0]]) < _MOST_ASK:
        return list(body), []
    kept, others = list(blocks[0]), list[Record]()
    for block in blocks[1:]:
        # Names are looked for last: it costs more.
        asks = any(asks_something(cell) for record in block for cell in record.cells)
        begins = not asks and (_filled(block[0]) == 1 or any(map(_named, block[0].cells)))
        (others if begins else kept).extend(block)
    return kept, others


def asks_something(cell: str) -> bool:
    """Whether a text reads like a question."""
    return re.search(_LIKE_A_QUESTION, cell, re.IGNORECASE) is not None


def _check_upright(body: Sequence[Record], question: int, header: Record) -> None:
    """Raises when names stand in the first column too: each question is a column, or a card of its own."""
    cells = [cell for record in body[:_ABOVE] if (cell := _cell(record, question))]
    names = sum(map(_named, cells))
    if cells and names * 2 >= len(cells):
        raise unclear(header)


def _without_names(records: Sequence[Record], *, written: bool) -> Layout:
    """The layout of a table without a row of names, as far as its columns tell themselves.

    Args:
        written: a mark parts the cells that ordinary lines have too, such as a comma.

    Raises:
        EvaluationError: table_unreadable.
    """
    width = _usual_width(records)
    if not records or width < 2:
        if records and any(_named(cell) for cell in records[0].cells):
            raise unclear(records[0])
        raise EvaluationError(Reason.TABLE_UNREADABLE)
    if written and 2 * sum(_filled(record) > 1 for record in records) < len(records):
        raise EvaluationError(Reason.TABLE_UNREADABLE)
    columns = [[_cell(record, index) for record in records] for index in range(width)]
    question = int(width > 2 and _are_numbers(columns[0]))
    if _is_unclear(columns, question):
        raise unclear(records[0])
    places: dict[Kind, int | None] = {**dict.fromkeys(COLUMNS), "question": question, "reference": question + 1}
    names = [str(number) for number in range(1, width + 1)]
    others = {index: name for index, name in enumerate(names) if index not in {question, question + 1}}
    return Layout(names, places, others, records)


def _is_unclear(columns: Sequence[Sequence[str]], question: int) -> bool:
    """Whether the questions may well stand in another column, or the first row may be names that are not known."""
    first = [column[0] for column in columns]
    rest = [[cell for cell in column[1:] if cell] for column in columns]
    asked = [_share(_LIKE_A_QUESTION, column) for column in columns]
    named = any(_named(cell) for cell in first)
    no_words = _share(_NO_WORDS, columns[question]) >= 0.5
    elsewhere = max(asked) >= 0.5 > 2 * asked[question]
    # Words above row numbers, or above questions what is none.
    above_numbers = len(rest[0]) > 1 and not re.fullmatch(_NO_WORDS, first[0]) and _share(_NO_WORDS, rest[0]) == 1
    above_questions = (
        len(rest[question]) > 1
        and _share(_LIKE_A_QUESTION, rest[question]) == 1
        and not re.search(_LIKE_A_QUESTION, first[question], re.IGNORECASE)
        and len(first[question]) < min(map(len, rest[question]))
    )
    return named or no_words or elsewhere or above_numbers or above_questions


def _named(cell: str) -> bool:
    """Whether a cell is the name of a column; one letter may well be an answer."""
    return len(re.sub(r"\W", "", cell)) > 1 and header_name(cell) is not None


def _share(pattern: str, cells: Sequence[str]) -> float:
    """How many of the cells that hold anything match, as a share; the whole of a cell where the pattern ends in *."""
    filled = [cell for cell in cells if cell]
    matches = pattern_of(pattern, re.IGNORECASE)
    find = matches.fullmatch if pattern is _NO_WORDS else matches.search
    return sum(find(cell) is not None for cell in filled) / max(1, len(filled))


def _cell(record: Record, index: int) -> str:
    return record.cells[index].strip() if index < len(record.cells) else ""


def _usual_width(records: Sequence[Record]) -> int:
    """How many cells most records have, not counting those with one alone, which has no reference.

    Of equally frequent numbers the smaller: unquoted commas add cells.
    """
    filled = (max((i for i, cell in enumerate(record.cells, start=1) if cell.strip()), default=0) for record in records)
    counts = Counter(width for width in filled if width > 1)
    return min(counts, key=lambda width: (-counts[width], width), default=1)


def _are_numbers(cells: Sequence[str]) -> bool:
    """Whether a column numbers the rows."""
    return all(re.fullmatch(r"\D?\d+\D?", cell) for cell in cells)


def unclear(record: Record) -> EvaluationError:
    """The error that shows what stands in a row that may be the names of the columns, and asks for known ones."""
    cells = [cell.strip() for cell in record.cells if cell.strip()]
    shown = [cell if len(cell) <= _SEEN_CHARACTERS else f"{cell[:_SEEN_CHARACTERS]}…" for cell in cells[:_SEEN_CELLS]]
    return EvaluationError(Reason.TABLE_UNREADABLE, why="columns", seen=" / ".join(shown))
