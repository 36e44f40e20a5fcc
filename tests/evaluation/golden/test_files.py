import io
import os
import zipfile
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from typing import Any

import pytest
from openpyxl import Workbook

from evaluation.errors import EvaluationError, Reason
from evaluation.golden import files
from evaluation.golden.files import MAX_FILE_BYTES, decode, read_table_file
from evaluation.golden.table import Row

JAPANESE = "質問,参照\n有給休暇は何日ですか,10日です\n"
CHINESE = "问题,参考答案\n年假有几天,十天\n"
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


def rows(data: bytes, name: str = "questions.csv") -> tuple[Row, ...]:
    return read_table_file(name, data).rows


def refused(data: bytes, name: str = "questions.csv") -> EvaluationError:
    with pytest.raises(EvaluationError) as caught:
        read_table_file(name, data)
    return caught.value


# --- texts ---


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (JAPANESE, "utf-8"),
        (JAPANESE, "utf-8-sig"),
        (JAPANESE, "utf-16"),
        (JAPANESE, "cp932"),
        (JAPANESE, "shift_jis"),
        (JAPANESE, "euc-jp"),
        ("質問\t参照\n有給休暇は何日ですか\t10日です\n", "utf-16"),
        # What only Windows adds to Shift_JIS; a Chinese reading of it would be full of rare characters.
        ("質問,回答\n①番目の㈱は？,№1です\n", "cp932"),
        ("質問,参照\nｶﾀｶﾅﾊﾝｶｸ,ﾃｽﾄ\n", "cp932"),
        ("有給休暇日数,十日\n夏季休暇日数,五日\n", "cp932"),
        ("question,reference\nWhat is 有休?,10 days\n", "cp932"),
        ("question,reference\n出張の日当はいくらですか,2,000円\n", "euc-jp"),
        ("質問,参照\n" + "出張の日当はいくらですか。,日当は2,000円です。\n" * 50, "cp932"),
        (CHINESE, "utf-8-sig"),
        (CHINESE, "utf-16"),
        (CHINESE, "gbk"),
        (CHINESE, "gb18030"),
        ("年假天数,十天\n婚假天数,三天\n", "gbk"),
        ("question,reference\nWhat is 年假?,10 days\n", "gbk"),
        ("问题,参考答案\n" + "出差补贴是多少？,每天200元。\n" * 50, "gbk"),
        ("question,reference\nDon’t I get a café voucher?,You do\n", "cp1252"),
        ("question,reference\nHow many days?,Ten\n", "ascii"),
    ],
)
def test_a_text_is_read_in_the_encoding_that_it_was_written_in(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding)) == text


def test_the_content_decides_what_a_file_is_and_not_its_name() -> None:
    expected = (Row("有給休暇は何日ですか", "10日です"),)

    assert rows(JAPANESE.encode("cp932"), "questions.xlsx") == expected
    assert rows(book([["質問", "参照"], ["有給休暇は何日ですか", "10日です"]]), "questions.csv") == expected
    assert rows('[{"質問": "有給休暇は何日ですか", "参照": "10日です"}]'.encode(), "questions.txt") == expected
    assert rows('{"質問": "有給休暇は何日ですか", "参照": "10日です"}\n'.encode(), "questions.jsonl") == expected


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_json_with_a_mark_at_its_beginning_is_json(encoding: str) -> None:
    text = '[{"question": "有給休暇は何日ですか", "reference": "10日です", "category": "休暇"}]'

    assert rows(text.encode(encoding)) == (Row("有給休暇は何日ですか", "10日です", category="休暇"),)


@pytest.mark.parametrize(
    "data",
    [
        OLE + os.urandom(3000),
        OLE + bytes(500) + b"\xff" * 512,
        b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n" + os.urandom(500),
        b"\x89PNG\r\n\x1a\n" + os.urandom(500),
        b"\x1f\x8b" + os.urandom(500),
        bytes(100),
        # UTF-16 without its mark, or cut off in the middle of a character.
        JAPANESE.encode("utf-16-le"),
        "question,reference\nwhat,that\n".encode("utf-16-le"),
        JAPANESE.encode("utf-16")[:-1],
        # An encoding that is not supported is told; it is not read as something else.
        "вопрос,ответ\nсколько дней отпуска,десять\n".encode("cp1251"),
    ],
    ids=["xls", "empty xls", "pdf", "png", "gzip", "zeros", "unmarked", "unmarked ascii", "cut", "cp1251"],
)
def test_what_is_no_table_is_told(data: bytes) -> None:
    assert refused(data, "questions.xls").reason is Reason.TABLE_UNREADABLE


@pytest.mark.parametrize("data", [b"", b" \n\n ", b"\xef\xbb\xbf", b"\xff\xfe"])
def test_an_empty_file_has_no_table(data: bytes) -> None:
    assert refused(data).reason is Reason.NO_TABLE


def test_a_file_over_the_limit_is_refused_with_both_sizes() -> None:
    error = refused(b"x" * (MAX_FILE_BYTES + 1), "/uploads/質問.csv")

    assert error.reason is Reason.FILE_TOO_LARGE
    assert error.values == {"file": "質問.csv", "size": 10.000001, "limit": 10.0}


def test_a_file_at_the_limit_is_read() -> None:
    line = "質問が長いときもあります,参照\n".encode()
    data = "質問,参照\n".encode() + line * 1000
    padding = b"\n" * (MAX_FILE_BYTES - len(data))

    assert len(rows(data + padding)) == 1000


# --- workbooks ---


def book(*sheets: Sequence[Sequence[Any]], changed: Callable[[Workbook], None] | None = None) -> bytes:
    """An .xlsx file with those cells."""
    made = Workbook()
    made.remove(made.active)
    for cells in sheets:
        sheet = made.create_sheet()
        for row in cells:
            sheet.append(list(row))
    if changed:
        changed(made)
    buffer = io.BytesIO()
    made.save(buffer)
    return buffer.getvalue()


HEADER = ["質問", "参照", "部署"]


def test_a_workbook_is_read_with_its_further_columns() -> None:
    data = book([HEADER, ["有給休暇は何日ですか", "10日です", "総務"], ["日当はいくらですか", None, None]])

    assert rows(data) == (
        Row("有給休暇は何日ですか", "10日です", others={"部署": "総務"}),
        Row("日当はいくらですか", "", others={"部署": ""}),
    )


def test_the_first_sheet_with_any_cells_is_read() -> None:
    data = book([], [[None, ""], ["  "]], [HEADER[:2], ["質問1", "正解1"]], [HEADER[:2], ["質問2", "正解2"]])

    assert rows(data) == (Row("質問1", "正解1"),)


def test_empty_rows_and_columns_around_the_table_are_passed_over() -> None:
    empty: list[Any] = [None] * 9
    data = book([empty, empty, [*HEADER[:2], *empty], empty, ["質問1", "正解1", None], empty])

    assert rows(data) == (Row("質問1", "正解1"),)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (10, "10"),
        (10.0, "10"),
        (0.1 + 0.2, "0.3"),
        (1234.5, "1234.5"),
        (1e15, "1000000000000000"),
        (True, "True"),
        (date(2026, 4, 1), "2026-04-01"),
        (datetime.fromisoformat("2026-04-01T00:00"), "2026-04-01"),
        (datetime.fromisoformat("2026-04-01T09:30"), "2026-04-01 09:30:00"),
        (time(9, 30), "09:30:00"),
        ("00123", "00123"),
        ("  前後の空白  ", "前後の空白"),
        ("一行目\n二行目", "一行目\n二行目"),
        ("#N/A", ""),
    ],
)
def test_a_cell_reads_as_it_is_shown(value: object, text: str) -> None:
    assert rows(book([HEADER[:2], ["質問1", value]])) == (Row("質問1", text),)


def test_a_formula_counts_with_the_value_that_was_kept_for_it() -> None:
    # openpyxl keeps none; spreadsheet programs do.
    data = book([HEADER[:2], ["質問1", "=1+1"], ["質問2", "正解2"]])
    calculated = edited(data, "xl/worksheets/sheet1.xml", b"<v></v>", b"<v>2</v>")

    assert [row.reference for row in rows(data)] == ["", "正解2"]
    assert [row.reference for row in rows(calculated)] == ["2", "正解2"]


def edited(data: bytes, name: str, old: bytes, new: bytes) -> bytes:
    """The archive with a change in one of its files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as before, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as after:
        assert name in before.namelist()
        for entry in before.namelist():
            content = before.read(entry)
            if entry == name:
                assert old in content or old == b""
                content = content.replace(old, new) if old else new
            after.writestr(entry, content)
    return buffer.getvalue()


def test_a_sheet_that_claims_a_million_rows_is_read_as_far_as_it_goes() -> None:
    data = book([HEADER[:2], ["質問1", "正解1"]])

    claimed = edited(data, "xl/worksheets/sheet1.xml", b'<dimension ref="A1:B2"', b'<dimension ref="A1:XFD1048576"')

    assert rows(claimed) == (Row("質問1", "正解1"),)


def archive(**files: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        for name, content in files.items():
            made.writestr(name, content)
    return buffer.getvalue()


WHOLE = book([HEADER[:2], *[[f"質問{n}", f"正解{n}"] for n in range(200)]])


@pytest.mark.parametrize(
    "data",
    [
        b"PK\x03\x04" + os.urandom(300),
        WHOLE[: len(WHOLE) // 2],
        WHOLE[:-100],
        archive(readme=b"hello"),
        archive(**{"word/document.xml": b"<w:document/>", "[Content_Types].xml": b"<Types/>"}),
        edited(WHOLE, "xl/worksheets/sheet1.xml", b"", b"<worksheet><sheetData><row><c>"),
        edited(WHOLE, "xl/styles.xml", b"", b"not XML"),
        edited(WHOLE, "xl/workbook.xml", b"", b"\x00"),
    ],
    ids=["noise", "half", "without its end", "another archive", "docx", "cut sheet", "broken styles", "broken book"],
)
def test_a_damaged_workbook_is_told(data: bytes) -> None:
    assert refused(data, "questions.xlsx").reason is Reason.TABLE_UNREADABLE


def test_a_workbook_without_cells_has_no_table() -> None:
    assert refused(book([], [[None]])).reason is Reason.NO_TABLE


def test_a_workbook_that_unpacks_to_more_than_memory_bears_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_UNPACKED_BYTES", 50_000)
    bomb = archive(**{"xl/worksheets/sheet1.xml": b" " * 60_000})

    assert refused(bomb).reason is Reason.TABLE_UNREADABLE
    assert len(rows(book([HEADER[:2], ["質問1", "正解1"]]))) == 1
