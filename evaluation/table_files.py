"""Question tables from files: CSV, TSV, Excel, JSON, JSON lines, in the encodings that spreadsheets write."""

import io
from pathlib import PurePath

from charset_normalizer import from_bytes

from evaluation.errors import EvaluationError, Reason
from evaluation.golden import Table, read_table, table_of

MAX_FILE_BYTES = 10_000_000
# Excel's .xlsx is a zip archive.
_ZIP = b"PK\x03\x04"
# What spreadsheets in Japan and China write where it is not UTF-8.
_ENCODINGS = ("cp932", "gb18030")


def read_table_file(name: str, data: bytes) -> Table:
    """The table in a file; its content decides what it is, not its name.

    Args:
        name: for the message.

    Raises:
        EvaluationError: input_too_long beyond 10 MB; table_unreadable; no_table when it is empty.
    """
    if len(data) > MAX_FILE_BYTES:
        raise EvaluationError(
            Reason.FILE_TOO_LARGE, file=PurePath(name).name, size=len(data) / 1e6, limit=MAX_FILE_BYTES / 1e6
        )
    if data.startswith(_ZIP):
        return table_of(_spreadsheet(data))
    return read_table(decode(data))


def decode(data: bytes) -> str:
    """The text in UTF-8, UTF-16 with its mark, Shift_JIS (CP932) or GBK, whichever fits.

    Raises:
        EvaluationError: table_unreadable.
    """
    marked = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        return data.decode("utf-16" if marked else "utf-8-sig")
    except UnicodeDecodeError:
        best = from_bytes(data, cp_isolation=list(_ENCODINGS)).best()
    if best is None:
        raise EvaluationError(Reason.TABLE_UNREADABLE)
    return str(best)


def _spreadsheet(data: bytes) -> list[list[str]]:
    """The cells of a workbook's first sheet that has any, as texts.

    Raises:
        EvaluationError: table_unreadable.
    """
    # A large library that only these files need.
    from openpyxl import load_workbook  # noqa: PLC0415

    try:
        book = load_workbook(io.BytesIO(data), read_only=True, data_only=True)
    except Exception:  # noqa: BLE001 - it raises whatever the damaged part of the archive leads to
        raise EvaluationError(Reason.TABLE_UNREADABLE) from None
    for sheet in book.worksheets:
        records = [[_cell(value) for value in row] for row in sheet.iter_rows(values_only=True)]
        records = [record for record in records if any(record)]
        if records:
            width = max(
                len(record) - next((i for i, cell in enumerate(reversed(record)) if cell), 0) for record in records
            )
            return [record[:width] for record in records]
    raise EvaluationError(Reason.NO_TABLE)


def _cell(value: object) -> str:
    """A cell as it reads: whole numbers without ".0", dates without a time of midnight."""
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    text = str(value).strip()
    return text.removesuffix(" 00:00:00")
