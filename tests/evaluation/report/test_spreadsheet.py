"""The report as a spreadsheet, read back."""

import csv
import html
import io
import zipfile
from dataclasses import replace
from typing import Any

import pytest
from openpyxl import load_workbook
from openpyxl.worksheet.worksheet import Worksheet

from evaluation.languages import LANGUAGES, Language
from evaluation.report.spreadsheet import CELL_UNITS, render_xlsx, safe_text
from evaluation.texts import load_texts
from tests.evaluation.report.test_run_report import every_kind_of_run
from tests.evaluation.sample_runs import failed, record, report_of, sample_run, settings

JA = load_texts("ja")
MARK = JA.get("report.cut_mark")
FORMULAS = [
    "=1+1",
    "+1+1",
    "-2+3",
    "@SUM(A1)",
    "＝1+1",
    "＋1",
    "－1",
    "＠x",
    "\t=1+1",
    " =1+1",
    "\r\n=1",
    "\u200b=1",
    "=cmd|'/C calc'!A0",
]


def sheets(report: Any, language: Language = "ja") -> tuple[Worksheet, Worksheet]:
    summary, rows = load_workbook(io.BytesIO(render_xlsx(report, load_texts(language)))).worksheets
    return summary, rows


def table(sheet: Worksheet) -> list[dict[str, Any]]:
    """The rows of a sheet by the names in its first row."""
    names, *rows = list(sheet.iter_rows(values_only=True))
    return [dict(zip(map(str, names), row, strict=True)) for row in rows]


@pytest.fixture(scope="module")
def sample() -> tuple[Worksheet, Worksheet]:
    return sheets(sample_run("ja"))


# --- what it holds ---


def test_the_summary_holds_verdict_means_counts_thresholds_and_comparison(sample: tuple[Worksheet, Worksheet]) -> None:
    lines = [list(row) for row in sample[0].iter_rows(values_only=True)]
    assert lines[0][0] == "社内規程アシスタント（社内FAQ ハイブリッド検索 #2）"
    assert str(lines[1][0]).startswith("合格です。")
    start = next(number for number, line in enumerate(lines) if line[0] == "指標")
    names = [str(name) for name in lines[start]]
    assert names == [
        *(
            "指標",
            "カテゴリ",
            "平均",
            "下限",
            "上限",
            "採点",
            "一部だけ判定",
            "対象外",
            "採点できず",
            "しきい値",
            "しきい値に対して",
        ),
        *("差", "下限", "上限", "同じ質問", "一方で採点に失敗", "変化"),
    ]
    statistics = sample_run("ja").statistics["faithfulness"]
    first = lines[start + 1]
    assert first[:2] == ["忠実性", None]
    # With full precision, as numbers.
    assert first[2:5] == pytest.approx([statistics.mean, statistics.low, statistics.high])
    assert first[5:11] == [16, 0, 2, 2, 0.8, "しきい値以上"]
    assert first[14:] == [16, 0, "明らかな差なし"]


def test_the_summary_holds_every_category(sample: tuple[Worksheet, Worksheet]) -> None:
    cells = {row[1] for row in sample[0].iter_rows(values_only=True)}
    assert {"休暇", "経費", "在宅勤務", "情報システム"} <= cells


def test_every_row_is_there_in_the_tables_order(sample: tuple[Worksheet, Worksheet]) -> None:
    rows = table(sample[1])
    assert [row["番号"] for row in rows] == list(range(1, 21))
    assert [row["質問"] for row in rows] == [made.question for made in sample_run("ja").records]


def test_a_row_says_what_is_wrong_and_what_to_try(sample: tuple[Worksheet, Worksheet]) -> None:
    row = table(sample[1])[4]
    assert row["結果"] == "採点済み"
    assert (row["忠実性"], row["回答関連性"]) == (0.5, 0.95)
    assert row["問題"] == "資料と食い違う内容を答えています"
    assert str(row["最初に試すこと"]).startswith("LLM ノードのプロンプトに")
    assert row["資料で確認できない主張"] == "日当は1日3,000円である（資料では2,000円となっている）"
    assert row["検索された文書"] == "1. 出張旅費.md\n2. 出張旅費.md"
    assert row["アプリの応答（秒）"] == 1.2


def test_a_row_without_a_score_has_an_empty_cell_and_the_reason(sample: tuple[Worksheet, Worksheet]) -> None:
    rows = table(sample[1])
    assert (rows[14]["結果"], rows[14]["コンテキスト精度"]) == ("一部の指標を採点できず", None)
    assert str(rows[14]["採点できなかった理由"]).startswith("コンテキスト精度：判定モデルの返答を")
    assert (rows[17]["結果"], rows[17]["忠実性"], rows[17]["回答"]) == ("アプリの失敗", None, None)
    assert "503" in str(rows[17]["採点できなかった理由"])


def test_columns_come_with_what_they_are_for() -> None:
    plain = replace(record(1, faithfulness=1.0), inputs={"部署": "営業", "名前": "=A1"})
    assert set(table(sheets(report_of([plain], settings=settings(metrics=("faithfulness",))))[1])[0]) == {
        *("番号", "質問", "回答", "参照（正解）", "結果", "忠実性", "問題", "最初に試すこと", "資料で確認できない主張"),
        *(
            "採点できなかった理由",
            "検索された文書",
            "検索されたチャンク",
            "アプリの応答（秒）",
            "アプリのトークン",
            "判定のトークン",
        ),
        *("入力：部署", "入力：名前"),
    }
    scores = {"missing_documents": ["a.md", "b.md"]}
    full = replace(record(1, answer_correctness=0.5), category="休暇", document_scores=scores, reused=True)
    row = table(sheets(report_of([full], settings=settings(metrics=("answer_correctness",), repeat=2)))[1])[0]
    assert (row["カテゴリ"], row["何回目"], row["検索されていない文書"]) == ("休暇", 1, "a.md\nb.md")
    assert row["前の採点を使った質問"] == "はい"
    assert "回答にない参照の内容" in row


def test_it_opens_ready_to_read(sample: tuple[Worksheet, Worksheet]) -> None:
    rows = sample[1]
    assert rows.freeze_panes == "C2"
    assert rows.auto_filter.ref == rows.dimensions
    assert all(rows.column_dimensions[cell.column_letter].width >= 7 for cell in rows[1])
    assert rows["B1"].font.bold
    assert rows["B2"].alignment.wrap_text
    # A low score is coloured, an empty cell is not: the rule asks for a number.
    rules = [rule for found in rows.conditional_formatting for rule in found.rules]
    assert rules[0].formula == ["AND(ISNUMBER(G2),G2<0.8)"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_all_kinds_of_runs_can_be_written_and_hold_no_missing_value(language: Language) -> None:
    for report in every_kind_of_run(language):
        for sheet in sheets(report, language):
            values = [value for row in sheet.iter_rows(values_only=True) for value in row]
            assert not any(isinstance(value, str) and value in {"None", "nan", ""} for value in values)


# --- texts that a spreadsheet would run ---


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_is_text_here_and_in_a_csv_file_made_of_it(text: str) -> None:
    made = replace(record(1, text, faithfulness=1.0), answer=text, reference=text, category=text, inputs={"列": text})
    summary, rows = sheets(replace(report_of([made, failed(2, text, message=text)]), name=text, app_name=text))
    cells = [cell for sheet in (summary, rows) for row in sheet.iter_rows() for cell in row if cell.value is not None]
    assert {cell.data_type for cell in cells} <= {"s", "n"}
    buffer = io.StringIO()
    csv.writer(buffer).writerows([[cell.value for cell in row] for row in rows.iter_rows()])
    saved = [value for row in csv.reader(io.StringIO(buffer.getvalue())) for value in row]
    assert sum(value.startswith("'") for value in saved) == 6
    assert not any(value.strip(" \t\r\n\u200b\ufeff").startswith(tuple("=+-@＝＋－＠")) for value in saved)


@pytest.mark.parametrize("text", ["10日です", "1+1=2", "A=B", "'x", "a@b", "…", "＃1", "#N/A", "2026-11-30"])
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert safe_text(text, MARK) == text
    cell = sheets(report_of([record(1, text, faithfulness=1.0)]))[1]["B2"]
    assert (cell.value, cell.data_type) == (text, "s")


def test_numbers_may_be_negative() -> None:
    before = [record(row, f"質問{row}", faithfulness=1.0) for row in range(1, 4)]
    now = [record(row, f"質問{row}", faithfulness=0.5) for row in range(1, 4)]
    summary, _ = sheets(report_of(now, before=before, compared_with="x #1"))
    assert any(cell.value == -0.5 and cell.data_type == "n" for row in summary.iter_rows() for cell in row)


# --- texts that the format can't hold ---


def test_characters_that_the_format_forbids_are_left_out() -> None:
    text = "a\x00b\x0bc\x1fd\ud83de\ufffef\r\ng\th\x85i"
    assert safe_text(text, MARK) == "abcdef\ng\th\x85i"
    assert table(sheets(report_of([record(1, text, faithfulness=1.0)]))[1])[0]["質問"] == "abcdef\ng\th\x85i"


def test_what_looks_like_an_escape_of_the_format_is_one_no_more() -> None:
    data = render_xlsx(report_of([record(1, "_x0041_ と _x", faithfulness=1.0)]), JA)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        content = "".join(archive.read(name).decode() for name in archive.namelist() if name.endswith(".xml"))
    assert "<t>_x005F_x0041_ と _x</t>" in html.unescape(content)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        pytest.param("あ" * CELL_UNITS, CELL_UNITS, id="just fits"),
        pytest.param("あ" * (CELL_UNITS + 1), CELL_UNITS - len(MARK), id="one too long"),
        # Outside the basic plane a character is two units, and none is cut in half.
        pytest.param("😀" * CELL_UNITS, (CELL_UNITS - len(MARK)) // 2, id="pairs"),
    ],
)
def test_a_cell_ends_where_the_limit_is_and_says_so(text: str, kept: int) -> None:
    cell = safe_text(text, MARK)
    assert len(cell.encode("utf-16-le")) // 2 <= CELL_UNITS
    assert cell == text if kept == CELL_UNITS else cell == text[0] * kept + MARK


def test_a_long_answer_is_cut_in_the_file_too() -> None:
    made = replace(record(1, faithfulness=1.0), answer="=" + "あ" * 40_000)
    answer = table(sheets(report_of([made]))[1])[0]["回答"]
    assert len(answer) == CELL_UNITS
    assert answer.startswith("'=あ")
    assert answer.endswith(MARK)


def test_many_rows_stay_small() -> None:
    made = [replace(record(row, f"質問{row}", faithfulness=0.5), answer="回答" * 200) for row in range(500)]
    data = render_xlsx(report_of(made), JA)
    assert len(data) < 500_000
    assert len(table(load_workbook(io.BytesIO(data)).worksheets[1])) == 500
