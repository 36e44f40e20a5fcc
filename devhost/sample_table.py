"""The sample question files beside the templates: the table of the chatflows, as CSV and as an Excel workbook."""

import csv
import io
from pathlib import Path

from openpyxl import Workbook, load_workbook
from openpyxl.styles import Alignment, Font
from openpyxl.utils import get_column_letter

TEXTS = Path(__file__).parent / "template_texts"
# Japanese as the templates: without a language in the name.
FILES = {"sample_questions": "ja", "sample_questions_en": "en"}
WIDTHS = (44, 64, 24)


def records(language: str) -> list[list[str]]:
    """The sample table's rows, the names of its columns first."""
    lines = (TEXTS / f"golden_{language}.tsv").read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines]


def sample_files() -> dict[str, bytes]:
    """The content of each file by its name."""
    made = {}
    for stem, language in FILES.items():
        made[f"{stem}.csv"] = _csv(records(language))
        made[f"{stem}.xlsx"] = _xlsx(records(language))
    return made


def is_same(path: Path, content: bytes) -> bool:
    """Whether the file has that content; of workbooks the cells count, as each save writes other bytes."""
    if not path.exists():
        return False
    if path.suffix != ".xlsx":
        return path.read_bytes() == content
    return _cells(path.read_bytes()) == _cells(content)


def _csv(rows: list[list[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    # With its mark, or Excel takes it for the encoding of the country.
    return text.getvalue().encode("utf-8-sig")


def _xlsx(rows: list[list[str]]) -> bytes:
    book, data = Workbook(), io.BytesIO()
    sheet = book.worksheets[0]
    for cells in rows:
        sheet.append(cells)
    for index, width in enumerate(WIDTHS, start=1):
        sheet.column_dimensions[get_column_letter(index)].width = width
    for row in sheet.iter_rows():
        for cell in row:
            cell.alignment = Alignment(wrap_text=True, vertical="top")
            cell.font = Font(bold=cell.row == 1)
    sheet.freeze_panes = "A2"
    book.save(data)
    return data.getvalue()


def _cells(data: bytes) -> list[list[object]]:
    return [list(row) for row in load_workbook(io.BytesIO(data)).worksheets[0].iter_rows(values_only=True)]
