"""Question tables from files: CSV, TSV, Excel, JSON, JSON lines, in the encodings that spreadsheets write."""

import contextlib
import io
import re
import zipfile
from datetime import datetime, time
from pathlib import PurePath

from evaluation.errors import EvaluationError, Reason
from evaluation.golden.grid import Grid, Record
from evaluation.golden.headers import header_kind
from evaluation.golden.table import Table, read_table, table_of

MAX_FILE_BYTES = 10_000_000
# Excel's .xlsx is a zip archive.
_ZIP = b"PK\x03\x04"
# A workbook is unpacked in memory; none that people fill with questions is that large.
MAX_UNPACKED_BYTES = 100_000_000
# What programs in Japan and China write where it is not UTF-8; the set of its everyday characters; and what of these
# stands in a text only when it is read in the wrong one: half-width kana, or any kana in Chinese.
_ENCODINGS = (
    ("cp932", "shift_jis", r"[\uff61-\uff9f]"),
    ("gb18030", "gb2312", r"[\u3041-\u30ff]"),
    ("euc_jp", "shift_jis", r"[\uff61-\uff9f]"),
)
# Read in the wrong one, half of the characters may be everyday ones by chance.
_LEAST_SHARE = 0.7
_CONTROL = r"[\x00-\x08\x0e-\x1b]"


def read_table_file(name: str, data: bytes) -> Table:
    """The table in a file; its content decides what it is, not its name.

    Args:
        name: for the message.

    Raises:
        EvaluationError: file_too_large beyond 10 MB; table_unreadable; no_table when it is empty.
    """
    if len(data) > MAX_FILE_BYTES:
        raise EvaluationError(
            Reason.FILE_TOO_LARGE, file=PurePath(name).name, size=len(data) / 1e6, limit=MAX_FILE_BYTES / 1e6
        )
    if data.startswith(_ZIP):
        return table_of(Grid([Record(n, r) for n, r in enumerate(_spreadsheet(data), 1)]))
    return read_table(decode(data))


def decode(data: bytes) -> str:
    """The text in UTF-8, UTF-16 with its mark, Shift_JIS (CP932) or GBK, whichever fits.

    Raises:
        EvaluationError: table_unreadable.
    """
    marked = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        text = data.decode("utf-16" if marked else "utf-8-sig")
    except UnicodeDecodeError:
        text = _in_an_older_encoding(data)
    if re.search(_CONTROL, text):
        # An old .xls, a picture, a PDF: in no encoding is that a text.
        raise EvaluationError(Reason.TABLE_UNREADABLE)
    return text


def _in_an_older_encoding(data: bytes) -> str:
    """The text in the encoding in which it has column names that are known, or else reads like its language.

    Both are needed: a table may have no header, or one in English; and a list of names may be short, or in half-width
    kana, which a Chinese text is full of when it is read as Japanese.
    """
    candidates = []
    if not re.search(rb"[\x80-\xff]{2}|(?<![A-Za-z])[\x80-\xff](?![A-Za-z])|[\x80-\xff].[\x80-\xff]", data):
        # Single ones beside Latin letters: an accent or a curly apostrophe of a European Windows.
        with contextlib.suppress(UnicodeDecodeError):
            return data.decode("cp1252")
    for encoding, everyday, strange in _ENCODINGS:
        with contextlib.suppress(UnicodeDecodeError):
            text = data.decode(encoding)
            candidates.append((_known_names(text), _share(everyday, re.sub(strange, "", text), text), text))
    names, share, text = max(candidates, default=(0, 0.0, ""), key=lambda candidate: candidate[:2])
    if not names and share < _LEAST_SHARE:
        raise EvaluationError(Reason.TABLE_UNREADABLE)
    return text


def _known_names(text: str) -> int:
    """How many of the first line's cells are column names that are recognised, of those that say anything here."""
    cells = re.split(r"[\t,;，|]", text.lstrip().split("\n", 1)[0])
    return sum(bool(header_kind(cell)) for cell in cells if not cell.isascii())


def _share(encoding: str, counted: str, text: str) -> float:
    """How many of a text's characters beyond ASCII are counted and in the encoding, as a share."""
    beyond = r"[\x00-\x7f]"
    common = re.sub(beyond, "", counted).encode(encoding, "ignore").decode(encoding)
    return len(common) / max(1, len(re.sub(beyond, "", text)))


def _spreadsheet(data: bytes) -> list[list[str]]:
    """The cells of a workbook's first sheet that has any, as texts.

    Raises:
        EvaluationError: table_unreadable.
    """
    # A large library that only these files need.
    from openpyxl import load_workbook  # noqa: PLC0415

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            unpacked = sum(entry.file_size for entry in archive.infolist())
        book = (
            load_workbook(io.BytesIO(data), read_only=True, data_only=True) if unpacked <= MAX_UNPACKED_BYTES else None
        )
        for sheet in book.worksheets if book else ():
            # Many programs write a size of a million empty rows.
            sheet.reset_dimensions()
            records = [[_cell(value) for value in row] for row in sheet.iter_rows(values_only=True)]
            if records := _without_empty(records):
                return records
    except Exception:  # noqa: BLE001 - it raises whatever the damaged part of the archive leads to
        book = None
    raise EvaluationError(Reason.NO_TABLE if book else Reason.TABLE_UNREADABLE)


def _without_empty(records: list[list[str]]) -> list[list[str]]:
    """The records without empty rows, and without empty columns to their right."""
    records = [record for record in records if any(record)]
    width = max((index for record in records for index, cell in enumerate(record, start=1) if cell), default=0)
    return [record[:width] for record in records]


def _cell(value: object) -> str:
    """A cell as it reads: numbers as a spreadsheet shows them, dates without a time of midnight."""
    if value is None:
        return ""
    if isinstance(value, float):
        # A spreadsheet keeps 15 digits: 0.1 + 0.2 is 0.3 in it.
        return str(int(value)) if value.is_integer() else f"{value:.15g}"
    if isinstance(value, datetime) and value.time() == time.min:
        return str(value.date())
    return str(value).strip()
