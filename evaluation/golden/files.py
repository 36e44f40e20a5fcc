"""Question tables from files: CSV, TSV, Excel, JSON, JSON lines, in the encodings that spreadsheets write."""

import io
import re
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath
from re import compile as pattern_of  # the marketplace's scan takes re.compile for Python's own compile

from evaluation.errors import EvaluationError, Reason
from evaluation.golden.encodings import decode
from evaluation.golden.grid import Note
from evaluation.golden.layout import known_columns
from evaluation.golden.table import Table, read_table, table_of
from evaluation.golden.workbook import Sheet, read_workbook

MAX_FILE_BYTES = 10_000_000
# A workbook is unpacked in memory; none that people fill with questions is that large.
MAX_UNPACKED_BYTES = 100_000_000
_ZIP = b"PK\x03\x04"
# The container of old Office files, and of new ones with a password.
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_PROTECTED, _OLD_WORD = "EncryptedPackage".encode("utf-16-le"), "WordDocument".encode("utf-16-le")
# What stands in other archives, and what they are called then.
_ARCHIVES = (
    ("xl/workbook.bin", "other_spreadsheet", ".xlsb"),
    ("Index/Document.iwa", "other_spreadsheet", ".numbers"),
    ("Index.zip", "other_spreadsheet", ".numbers"),
    ("word/document.xml", "no_table_file", ".docx"),
    ("ppt/presentation.xml", "no_table_file", ".pptx"),
)
_BEGINNINGS = (
    (b"%PDF", "PDF"),
    (b"\x89PNG", "PNG"),
    (b"\xff\xd8\xff", "JPEG"),
    (b"GIF8", "GIF"),
    (b"\x1f\x8b", ".gz"),
    (b"7z\xbc\xaf", ".7z"),
    (b"Rar!", ".rar"),
    (b"{\\rtf", "RTF"),
    (b"SQLite format 3", "SQLite"),
    (b"PAR1", "Parquet"),
)
# Web systems give pages the name of spreadsheets.
_MARKUP = pattern_of(r"\s*<(!doctype html|html|head|meta|table|\?xml|workbook)", re.IGNORECASE)


def read_table_file(name: str, data: bytes) -> Table:
    """The table in a file; its content decides what it is, not its name.

    Args:
        name: for the message.

    Raises:
        EvaluationError: file_too_large beyond 10 MB; table_unreadable; no_table when it is empty.
    """
    name = PurePath(name).name
    if len(data) > MAX_FILE_BYTES:
        raise EvaluationError(Reason.FILE_TOO_LARGE, file=name, size=len(data) / 1e6, limit=MAX_FILE_BYTES / 1e6)
    try:
        if data.startswith(_ZIP):
            return _of_workbook(data)
        return read_table(_text(data))
    except EvaluationError as error:
        # Where files are named the reader of one doesn't know its name.
        raise EvaluationError(error.reason, **{"file": name, **error.values}) from error


def _text(data: bytes) -> str:
    """The text of a file.

    Raises:
        EvaluationError: table_unreadable with what it is and what to save it as.
    """
    if data.startswith(_OLE):
        if _OLD_WORD in data:
            raise unreadable("no_table_file", kind="Word")
        raise unreadable("protected" if _PROTECTED in data else "old_excel")
    for beginning, kind in _BEGINNINGS:
        if data.startswith(beginning):
            raise unreadable("no_table_file", kind=kind)
    text = decode(data)
    if text is None:
        raise unreadable("encoding")
    if markup := _MARKUP.match(text):
        raise unreadable("other_spreadsheet", kind="XML" if markup[1].lower() in {"?xml", "workbook"} else "HTML")
    return text


def _of_workbook(data: bytes) -> Table:
    """The table in the first sheet that has one.

    Raises:
        EvaluationError: table_unreadable; no_table for a workbook without cells.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            wrong = _wrong_archive(archive)
        sheets, hidden = ([], []) if wrong else read_workbook(data)
    except Exception as error:
        raise unreadable("damaged") from error
    if wrong:
        raise wrong
    if not sheets:
        raise EvaluationError(Reason.NO_TABLE)
    sheet, table = _chosen(sheets)
    others = [other.title for other in sheets if other is not sheet] + hidden
    notes = (Note("sheet", {"sheet": sheet.title, "names": others}),) if others else ()
    return replace(table, notes=(*notes, *table.notes))


def _wrong_archive(archive: zipfile.ZipFile) -> EvaluationError | None:
    """The error when it is no workbook of the kind that can be read, or unpacks to more than memory bears."""
    names = set(archive.namelist())
    if sum(entry.file_size for entry in archive.infolist()) > MAX_UNPACKED_BYTES:
        return unreadable("unpacked", limit=MAX_UNPACKED_BYTES / 1e6)
    if "mimetype" in names and b"opendocument" in archive.read("mimetype")[:100]:
        return unreadable("other_spreadsheet", kind="OpenDocument")
    for part, why, kind in _ARCHIVES:
        if part in names:
            return unreadable(why, kind=kind)
    return None if "[Content_Types].xml" in names else unreadable("no_table_file", kind=".zip")


def _chosen(sheets: Sequence[Sheet]) -> tuple[Sheet, Table]:
    """The first sheet in which the names of columns are known and that has rows; without any the only one that reads.

    Raises:
        EvaluationError: table_unreadable.
    """
    known = {sheet.title: min(2, known_columns(sheet.grid.records)) for sheet in sheets}
    tables, errors = [], []
    for sheet in sorted(sheets, key=lambda sheet: -known[sheet.title]):
        try:
            table = table_of(sheet.grid)
        except EvaluationError as error:
            errors.append(error)
            continue
        if known[sheet.title]:
            return sheet, table
        tables.append((sheet, table))
    if len(tables) == 1 and not any(known.values()):
        return tables[0]
    if len(tables) > 1 or (len(sheets) > 1 and not any(known.values())):
        raise unreadable("many_sheets", names=" / ".join(sheet.title for sheet in sheets[:5]))
    raise errors[0]


def unreadable(why: str, **values: object) -> EvaluationError:
    """The error that says why a file is no table; its name is added where it is known."""
    return EvaluationError(Reason.TABLE_UNREADABLE, why=why, **values)
