import io
import os
import re
import zipfile
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import pytest
from openpyxl import Workbook

from evaluation.errors import EvaluationError, Reason
from evaluation.golden import files, workbook
from evaluation.golden.files import MAX_FILE_BYTES, read_table_file
from evaluation.golden.table import Row, Table
from evaluation.languages import LANGUAGES, Language
from evaluation.report.markdown import reason_sentence
from evaluation.report.tables import table_remarks
from evaluation.texts import load_texts

JAPANESE = "質問,参照\n有給休暇は何日ですか,10日です\n"
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


def rows(data: bytes, name: str = "questions.csv") -> tuple[Row, ...]:
    return read_table_file(name, data).rows


def refused(data: bytes, name: str = "questions.csv") -> EvaluationError:
    with pytest.raises(EvaluationError) as caught:
        read_table_file(name, data)
    return caught.value


# --- what a file is ---


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


def old_office(stream: str) -> bytes:
    """A container of Office files with a stream of that name."""
    return OLE + bytes(500) + stream.encode("utf-16-le") + bytes(3000)


WRONG: dict[str, tuple[bytes, str, str]] = {
    "old Excel": (old_office("Workbook"), "old_excel", ""),
    "older Excel": (old_office("Book"), "old_excel", ""),
    "password": (old_office("EncryptedPackage"), "protected", ""),
    "old Word": (old_office("WordDocument"), "no_table_file", "Word"),
    "pdf": (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n" + os.urandom(500), "no_table_file", "PDF"),
    "picture": (b"\x89PNG\r\n\x1a\n" + os.urandom(500), "no_table_file", "PNG"),
    "gzip": (b"\x1f\x8b" + os.urandom(500), "no_table_file", ".gz"),
    "zeros": (bytes(100), "encoding", ""),
    "bytes": (bytes(range(256)) * 4, "encoding", ""),
    "cut UTF-16": (JAPANESE.encode("utf-16")[:-1], "encoding", ""),
    "web page": (
        b"<html><body><table><tr><td>Q</td></tr></table></body></html>",
        "other_spreadsheet",
        "HTML",
    ),
    "XML of 2003": (b'<?xml version="1.0"?>\n<Workbook><Worksheet/></Workbook>', "other_spreadsheet", "XML"),
}


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_no_table_is_told_with_its_name_and_what_to_save_it_as(kind: str, language: Language) -> None:
    data, why, shown = WRONG[kind]
    error = refused(data, "uploads/質問.xls")
    assert (error.reason, error.values["why"], error.values.get("kind", "")) == (Reason.TABLE_UNREADABLE, why, shown)
    sentence = reason_sentence(error.reason, error.values, load_texts(language))
    assert "質問.xls" in sentence
    assert "uploads" not in sentence
    assert ".xlsx" in sentence
    assert shown in sentence


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


SHEET = "xl/worksheets/sheet1.xml"
HEADER = ["質問", "参照", "部署"]


def test_a_workbook_is_read_with_its_further_columns() -> None:
    data = book([HEADER, ["有給休暇は何日ですか", "10日です", "総務"], ["日当はいくらですか", None, None]])

    assert rows(data) == (
        Row("有給休暇は何日ですか", "10日です", others={"部署": "総務"}),
        Row("日当はいくらですか", "", others={"部署": ""}),
    )


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
        (True, "TRUE"),
        (date(2026, 4, 1), "2026-04-01"),
        (datetime.fromisoformat("2026-04-01T00:00"), "2026-04-01"),
        (datetime.fromisoformat("2026-04-01T09:30"), "2026-04-01 9:30:00"),
        (time(9, 30), "9:30:00"),
        ("00123", "00123"),
        ("  前後の空白  ", "前後の空白"),
        ("一行目\n二行目", "一行目\n二行目"),
        ("#N/A", ""),
    ],
)
def test_a_cell_reads_as_it_is_shown(value: object, text: str) -> None:
    assert rows(book([HEADER[:2], ["質問1", value]])) == (Row("質問1", text),)


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

    claimed = edited(data, SHEET, b'<dimension ref="A1:B2"', b'<dimension ref="A1:XFD1048576"')

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
        edited(WHOLE, SHEET, b"", b"<worksheet><sheetData><row><c>"),
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
    bomb = archive(**{SHEET: b" " * 60_000})

    assert refused(bomb).reason is Reason.TABLE_UNREADABLE
    assert len(rows(book([HEADER[:2], ["質問1", "正解1"]]))) == 1


def told(table: Table) -> dict[str, dict[str, Any]]:
    """What is noted of a table, by name."""
    return {note.name: dict(note.values) for note in table.notes}


def table(data: bytes) -> Table:
    return read_table_file("questions.xlsx", data)


def pairs(data: bytes) -> list[tuple[str, str]]:
    return [(row.question, row.reference) for row in rows(data)]


# --- other archives ---


@pytest.mark.parametrize(
    ("files", "why", "kind"),
    [
        ({"mimetype": b"application/vnd.oasis.opendocument.spreadsheet"}, "other_spreadsheet", "OpenDocument"),
        ({"[Content_Types].xml": b"", "xl/workbook.bin": b""}, "other_spreadsheet", ".xlsb"),
        ({"Index/Document.iwa": b""}, "other_spreadsheet", ".numbers"),
        ({"[Content_Types].xml": b"", "word/document.xml": b""}, "no_table_file", ".docx"),
        ({"[Content_Types].xml": b"", "ppt/presentation.xml": b""}, "no_table_file", ".pptx"),
        ({"questions.csv": JAPANESE.encode()}, "no_table_file", ".zip"),
    ],
)
def test_another_archive_is_told(files: dict[str, bytes], why: str, kind: str) -> None:
    error = refused(archive(**files), "questions.xlsx")
    assert (error.reason, error.values["why"], error.values["kind"]) == (Reason.TABLE_UNREADABLE, why, kind)
    assert error.values["file"] == "questions.xlsx"


# --- as it is shown ---

FOLDER = Path(__file__).parents[2] / "data" / "tables"


def recorded(name: str) -> bytes:
    return (FOLDER / name).read_bytes()


def test_cells_read_as_they_are_shown() -> None:
    assert [row.reference for row in rows(recorded("number_formats_table.xlsx"))] == [
        "8%",
        "7.5%",
        "0123",
        "2,000円",
        "9:00",
        "45:30",
        "2024年4月1日",
    ]


def test_a_format_of_the_country_that_the_file_does_not_spell_out_is_a_day() -> None:
    data = book([HEADER[:2], ["質問1", 45383], ["質問2", 45383], ["質問3", 0.375]])
    styles = zipfile.ZipFile(io.BytesIO(data)).read("xl/styles.xml")
    # The cells' style is that of all cells here: [$-411]ge.m.d in Japan, yyyy"年"m"月" in China.
    changed = edited(data, "xl/styles.xml", b"", styles.replace(b'numFmtId="0"', b'numFmtId="57"'))
    assert [row.reference for row in rows(changed)][:2] == ["2024年4月1日"] * 2


def test_a_carriage_return_in_a_cell_is_a_line_end() -> None:
    assert pairs(recorded("x000d_table.xlsx")) == [
        ("申請の手順を教えてください\n有給休暇の場合です", "上長に申請\n3営業日前まで")
    ]


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("a_x000D_\nb", "a\nb"),
        ("a_x000D_b", "a\nb"),
        ("a_x000A_b", "a\nb"),
        ("a_x0009_b", "a\tb"),
        ("a_x0007_b", "ab"),
        ("_x005F_x0041_", "_x0041_"),
        ("_xD83D__xDE00_", "\U0001f600"),
        ("_xD83D_", "�"),
        ("snake_x_case", "snake_x_case"),
    ],
)
def test_what_excel_escapes_is_read_back(written: str, text: str) -> None:
    data = book([HEADER[:2], ["質問1", "PLACE"]])
    assert pairs(edited(data, SHEET, b"PLACE", written.encode())) == [("質問1", text)]


def test_formatted_parts_of_a_text_are_one_text_without_its_reading_aid() -> None:
    data = book([HEADER[:2], ["質問1", "PLACE"]])
    rich = "<r><t>有給</t></r><r><rPr><b/></rPr><t>休暇</t></r><rPh sb='0' eb='2'><t>ユウキュウ</t></rPh>"
    assert pairs(edited(data, SHEET, b"<t>PLACE</t>", rich.encode())) == [("質問1", "有給休暇")]


# --- formulas and errors ---


def test_formulas_without_a_value_are_told() -> None:
    found = table(recorded("formula_without_value_table.xlsx"))
    assert [(row.question, row.reference) for row in found.rows] == [
        ("担当者のフルネームは何ですか", ""),
        ("日当はいくらですか", "2,000円です"),
    ]
    assert found.unreadable == 1
    assert told(found) == {"formulas": {"cells": ["B2", "A3"]}}
    sentence = table_remarks(found, load_texts("ja"))[1]
    assert "数式" in sentence
    assert "B2、A3" in sentence


@pytest.mark.parametrize(
    ("cell", "reference", "notes"),
    [
        (b"<f>1+1</f><v>2</v>", "2", {}),
        (b"<f>1-1</f><v>0</v>", "", {"formulas": {"cells": ["B2"]}}),
        (b"<f>1+1</f><v />", "", {"formulas": {"cells": ["B2"]}}),
        (b"<f>1+1</f>", "", {"formulas": {"cells": ["B2"]}}),
        (b"<v>0</v>", "0", {}),
    ],
)
def test_a_formula_counts_with_the_value_that_was_kept_for_it(
    cell: bytes, reference: str, notes: dict[str, Any]
) -> None:
    # openpyxl keeps none, and asks for everything to be calculated; spreadsheet programs do.
    data = book([HEADER[:2], ["質問1", "=1+1"], ["質問2", "正解2"]])
    sheet = zipfile.ZipFile(io.BytesIO(data)).read(SHEET)
    old = re.search(rb"<f>1\+1</f><v ?/>|<f>1\+1</f><v></v>", sheet)
    assert old
    found = table(edited(data, SHEET, old[0], cell))
    assert [row.reference for row in found.rows] == [reference, "正解2"]
    assert told(found) == notes


def test_a_formula_whose_result_is_empty_or_zero_in_a_calculated_file_is_a_value() -> None:
    data = book([HEADER[:2], ["質問1", "=1-1"], ["質問2", "正解2"]])
    calculated = edited(data, "xl/workbook.xml", b'fullCalcOnLoad="1"', b"")
    calculated = edited(calculated, SHEET, b"<v></v>", b"<v>0</v>")
    assert (pairs(calculated)[0], told(table(calculated))) == (("質問1", "0"), {})


def test_questions_that_are_formulas_without_values_are_the_reason() -> None:
    error = refused(book([HEADER[:2], ['="a"&"b"', "正解1"]]))
    assert (error.values["why"], error.values["cells"]) == ("formulas", "A2")


def test_errors_are_no_references_and_told() -> None:
    found = table(book([HEADER[:2], ["質問1", "#N/A"], ["#REF!", "正解2"], ["質問3", "正解3"]]))
    assert [(row.question, row.reference) for row in found.rows] == [("質問1", ""), ("質問3", "正解3")]
    assert (told(found), found.unreadable) == ({"errors": {"cells": ["B2", "A3"]}}, 1)


# --- merged cells ---


def test_merged_cells_count_for_all_their_rows() -> None:
    found = table(recorded("merged_cells_table.xlsx"))
    assert [(row.category, row.question, row.reference) for row in found.rows] == [
        ("休暇", "有給休暇は何日もらえますか", "10日です"),
        ("休暇", "申請はいつまでですか", "3営業日前までです"),
        ("出張", "日当はいくらですか", "国内は2,000円です\n海外は5,000円です"),
    ]
    assert found.unreadable == 0


@pytest.mark.parametrize("name", ["table", "table_two_columns"])
def test_a_title_above_the_names_is_no_question(name: str) -> None:
    assert pairs(recorded(f"title_row_above_header_{name}.xlsx")) == [
        ("有給休暇は何日もらえますか", "10日です"),
        ("出張の日当はいくらですか", "2,000円です"),
    ]


def merging(*ranges: str) -> Callable[[Workbook], None]:
    def change(made: Workbook) -> None:
        for cells in ranges:
            made.worksheets[0].merge_cells(cells)

    return change


def test_names_may_take_two_rows() -> None:
    cells = [["質問", "回答", None], [None, "ボット", "正解"], ["質問1", "誤り", "正解1"]]
    assert pairs(book(cells, changed=merging("A1:A2", "B1:C1"))) == [("質問1", "正解1")]


def test_the_title_of_a_part_over_all_columns_is_no_question() -> None:
    cells = [["質問", "参照", "部署"], ["■休暇", None, None], ["質問1", "正解1", "人事"], ["■出張"], ["質問2", "正解2"]]
    found = table(book(cells, changed=merging("A2:C2", "A4:C4")))
    assert [row.question for row in found.rows] == ["質問1", "質問2"]
    assert found.unreadable == 2


def test_a_column_that_is_merged_as_a_whole_makes_no_rows() -> None:
    cells = [["質問", "参照", "カテゴリ"], ["質問1", "正解1", "休暇"], ["質問2", "正解2"]]
    data = book(cells, changed=merging("C2:C3"))
    found = table(edited(data, SHEET, b'ref="C2:C3"', b'ref="C2:C1048576"'))
    assert [(row.question, row.category) for row in found.rows] == [("質問1", "休暇"), ("質問2", "休暇")]
    assert found.unreadable == 0


# --- what is hidden, and other sheets ---


def test_more_rows_than_any_tool_takes_are_left_unread_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbook, "MAX_ROWS", 3)
    found = table(book([HEADER[:2], *[[f"質問{n}", f"正解{n}"] for n in range(5)]]))
    assert ([row.question for row in found.rows], told(found)) == (["質問0", "質問1"], {"first_rows": {"count": 3}})


def test_hidden_rows_and_columns_are_left_out_and_told() -> None:
    def hide(made: Workbook) -> None:
        sheet = made.worksheets[0]
        sheet.row_dimensions[3].hidden = True
        sheet.column_dimensions["B"].hidden = True

    cells = [
        ["質問", "参照", "模範解答"],
        ["質問1", "古い", "正解1"],
        ["質問2", "古い", "正解2"],
        ["質問3", "古い", "正解3"],
    ]
    found = table(book(cells, changed=hide))
    assert [(row.question, row.reference) for row in found.rows] == [("質問1", "正解1"), ("質問3", "正解3")]
    assert [dict(row.others) for row in found.rows] == [{}, {}]
    assert told(found) == {"hidden_rows": {"count": 1}, "hidden_columns": {"names": ["B"]}}


COVER = [["人事FAQ 評価用"], ["作成者", "山田"], ["作成日", "2026/4/1"]]
QUESTIONS = [HEADER[:2], ["質問1", "正解1"]]


@pytest.mark.parametrize(
    ("sheets", "sheet", "others"),
    [
        ([COVER, QUESTIONS], "Sheet1", ["Sheet"]),
        ([[["質問"], ["設定"]], QUESTIONS], "Sheet1", ["Sheet"]),
        ([QUESTIONS, [HEADER[:2], ["質問2", "正解2"]]], "Sheet", ["Sheet1"]),
        # The names alone, as in a form that was not filled in.
        ([[HEADER[:2]], QUESTIONS, COVER], "Sheet1", ["Sheet", "Sheet2"]),
        ([[["項目"]], [["質問です", "正解です"], ["次の質問", "次の正解"]]], "Sheet1", ["Sheet"]),
    ],
)
def test_the_sheet_with_the_questions_is_read_and_the_others_are_told(
    sheets: list[Any], sheet: str, others: list[str]
) -> None:
    found = table(book(*sheets))
    assert found.rows[0].question in {"質問1", "質問です"}
    assert told(found)["sheet"] == {"sheet": sheet, "names": others}


def test_a_sheet_alone_is_not_worth_a_word() -> None:
    assert table(book([], QUESTIONS, [[None, " "]])).notes == ()


@pytest.mark.parametrize("state", ["hidden", "veryHidden"])
def test_a_hidden_sheet_is_not_read_but_named(state: Any) -> None:
    def hide(made: Workbook) -> None:
        made.worksheets[0].sheet_state = state
        made.active = 1

    found = table(book([HEADER[:2], ["旧", "旧"]], QUESTIONS, changed=hide))
    assert [(row.question, row.reference) for row in found.rows] == [("質問1", "正解1")]
    assert told(found) == {"sheet": {"sheet": "Sheet1", "names": ["Sheet"]}}


def test_several_sheets_without_names_are_asked_about() -> None:
    error = refused(book([["質問です", "正解です"]], [["別の質問", "別の正解"]]))
    assert (error.values["why"], error.values["names"]) == ("many_sheets", "Sheet / Sheet1")


def test_tables_one_below_the_other_are_one() -> None:
    cells = [["休暇"], HEADER[:2], ["質問1", "正解1"], [], ["出張"], HEADER[:2], ["質問2", "正解2"]]
    assert pairs(book(cells)) == [("質問1", "正解1"), ("質問2", "正解2")]
