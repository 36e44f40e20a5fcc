"""Question tables in whatever form people paste them."""

import json
from typing import Any

import pytest

from evaluation.errors import EvaluationError, Reason
from evaluation.golden.table import Row, Table, read_table

LEAVE = ("有給休暇は何日ですか", "入社6か月後に10日です")
TRIP = ("出張の日当はいくらですか", "国内は2,000円です")
ROWS = [LEAVE, TRIP]


def pairs(table: Table) -> list[tuple[str, str]]:
    return [(row.question, row.reference) for row in table.rows]


def refused(text: str) -> Reason:
    with pytest.raises(EvaluationError) as caught:
        read_table(text)
    return caught.value.reason


def delimited(mark: str, end: str = "\n", header: str = "質問{}参照") -> str:
    """The rows with a mark between the cells, without a final line end."""
    rows = [mark.join(row) for row in ROWS]
    return end.join([header.format(mark), *rows] if header else rows)


FORMS = {
    "tabs with a header": delimited("\t"),
    "tabs without a header": delimited("\t", header=""),
    "tabs, Windows line ends, empty lines": "\ufeff" + delimited("\t", "\r\n\r\n\t\r\n") + "\r\n",
    "old Mac line ends": delimited("\t", "\r") + "\r",
    "commas": delimited(",").replace(TRIP[1], f'"{TRIP[1]}"'),
    "commas, all quoted": '"' + delimited('","', '"\n"') + '"',
    "semicolons": delimited(";"),
    "full-width commas": delimited("，"),
    "Markdown": "| " + delimited(" | ", " |\n| ", "質問 | 参照 |\n|---|:---:") + " |",
    "Markdown without bars at the ends, under a title": "# 質問集\n\n"
    + delimited(" | ", header="質問 | 参照\n--- | ---"),
    "objects": json.dumps([{"question": q, "reference": r} for q, r in ROWS], ensure_ascii=False),
    "escaped objects": json.dumps([{"question": q, "ground_truth": r} for q, r in ROWS], indent=2),
    "objects in an object": json.dumps(
        {"name": "x", "tags": ["a"], "items": [{"質問": q, "正解": r} for q, r in ROWS]}
    ),
    "objects deep in an object": json.dumps({"data": {"rows": [{"query": q, "expected_output": r} for q, r in ROWS]}}),
    "objects with two unknown names": json.dumps([{"Frage": q, "Antwort": r} for q, r in ROWS]),
    "lists": json.dumps([list(row) for row in ROWS]),
    "lists with a header": json.dumps([["Question", "Answer"], *map(list, ROWS)]),
    "questions as keys": json.dumps(dict(ROWS)),
    "JSON lines": "\n".join(json.dumps({"question": q, "answer": r}, ensure_ascii=False) for q, r in ROWS) + "\n\n",
    "JSON lines of lists": "\n".join(json.dumps(list(row)) for row in ROWS),
}


@pytest.mark.parametrize("form", FORMS)
def test_table_is_read_from(form: str) -> None:
    table = read_table(FORMS[form])
    assert pairs(table) == ROWS
    assert (table.unreadable, table.without_reference) == (0, 0)


@pytest.mark.parametrize(
    "header",
    [
        "質問\t参照",
        "ユーザーの質問\t模範解答",
        "Question\tGround Truth",
        "user_input\treference",
        "QUESTION\tExpected_Answer",
        "Q\tA",
        "问题\t标准答案",
        "用户问题\t参考答案",
        "質問内容\t想定回答",
        " 質問 \t 正解 ",
    ],
)
def test_header_is_recognised_in_three_languages(header: str) -> None:
    assert pairs(read_table(f"{header}\nQ1\tR1")) == [("Q1", "R1")]


def test_columns_are_found_by_name_and_the_others_kept() -> None:
    text = "No,カテゴリ,正解,質問,担当,文書,\n1,休暇,10日,有給は？,人事,規程.md,\n2,出張,2000円,日当は？,,旅費.md,"
    assert read_table(text).rows == (
        Row("有給は？", "10日", "規程.md", "休暇", {"No": "1", "担当": "人事"}),
        Row("日当は？", "2000円", "旅費.md", "出張", {"No": "2", "担当": ""}),
    )


def test_column_named_most_like_a_reference_wins_over_the_bots_answers() -> None:
    table = read_table("question,answer,ground_truth\nQ,bot's,right")
    assert table.rows == (Row("Q", "right", others={"answer": "bot's"}),)
    assert pairs(read_table("回答,質問,参照\n誤り,Q,正")) == [("Q", "正")]


def test_first_column_without_a_name_is_left_aside() -> None:
    assert pairs(read_table("\t質問\t参照\n1\tQ1\tR1\n2\tQ2\tR2")) == [("Q1", "R1"), ("Q2", "R2")]


@pytest.mark.parametrize("numbers", [["1", "2"], ["1.", "2."], ["Q1", "Q2"], ["①1", "①2"]])
def test_row_numbers_before_the_questions_are_left_aside_without_a_header(numbers: list[str]) -> None:
    text = "\n".join(f"{number}\t質問{i}です\t参照{i}です" for i, number in enumerate(numbers))
    assert pairs(read_table(text)) == [("質問0です", "参照0です"), ("質問1です", "参照1です")]


def test_two_columns_of_numbers_are_questions_and_references() -> None:
    assert pairs(read_table("1\t2\n3\t4")) == [("1", "2"), ("3", "4")]


def test_cells_with_line_breaks_tabs_and_quotes_as_a_spreadsheet_copies_them() -> None:
    text = '質問\t参照\n"複数行の\n質問？"\t"1行目\n2行目, ""引用"""\n次の質問\t次の参照'
    assert pairs(read_table(text)) == [("複数行の\n質問？", '1行目\n2行目, "引用"'), ("次の質問", "次の参照")]


def test_cells_with_line_breaks_and_commas_in_a_file_with_commas() -> None:
    text = '質問,参照\n"複数行,の\n質問？","1行目,\n2行目 ""引用"""\n次,参照'
    assert pairs(read_table(text)) == [("複数行,の\n質問？", '1行目,\n2行目 "引用"'), ("次", "参照")]


@pytest.mark.parametrize("mark", ["\t", ","])
def test_lone_quote_does_not_swallow_the_rows_after_it(mark: str) -> None:
    text = f'Q1{mark}"10日 と書く\nQ2{mark}5日\nQ3{mark}3日'
    assert pairs(read_table(text)) == [("Q1", '"10日 と書く'), ("Q2", "5日"), ("Q3", "3日")]


def test_quotes_inside_a_cell_are_text() -> None:
    assert pairs(read_table('画面は6"ですか\t13"です\nQ\tR')) == [('画面は6"ですか', '13"です'), ("Q", "R")]


def test_unquoted_commas_belong_to_the_last_column() -> None:
    assert pairs(read_table("質問,参照\nQ1,国内, 海外,その他\nQ2,R2,,")) == [("Q1", "国内, 海外, その他"), ("Q2", "R2")]


def test_unquoted_commas_without_a_header_belong_to_the_reference() -> None:
    assert pairs(read_table("Q1,10日\nQ2,国内,海外\nQ3,5日")) == [("Q1", "10日"), ("Q2", "国内, 海外"), ("Q3", "5日")]


def test_tabs_win_over_commas_in_the_cells() -> None:
    assert pairs(read_table("はい,いいえ\t甲,乙\n赤,青\t丙,丁")) == [("はい,いいえ", "甲,乙"), ("赤,青", "丙,丁")]


def test_single_tab_in_a_file_with_commas_changes_nothing() -> None:
    assert pairs(read_table("質問,参照\nQ1,a\tb\nQ2,R2")) == [("Q1", "a\tb"), ("Q2", "R2")]


def test_markdown_cells_may_be_empty_and_hold_escaped_bars() -> None:
    table = read_table("| 質問 | 参照 |\n| --- | --- |\n| a \\| b | c |\n|  | 参照だけ |\n| Q |  |")
    assert pairs(table) == [("a | b", "c"), ("Q", "")]
    assert (table.unreadable, table.without_reference) == (1, 1)


def test_rows_without_reference_or_question_are_kept_or_counted() -> None:
    table = read_table("質問\t参照\nQ1\tR1\nQ2\t\nQ3\n\tR4\n\t\n \tR5 ")
    assert pairs(table) == [("Q1", "R1"), ("Q2", ""), ("Q3", "")]
    assert (table.without_reference, table.unreadable) == (2, 2)


def test_table_whose_first_row_has_no_question_keeps_its_columns() -> None:
    table = read_table("\tR1\nQ2\tR2\n")
    assert (pairs(table), table.unreadable) == ([("Q2", "R2")], 1)


def test_rows_mostly_without_reference_still_have_two_columns() -> None:
    assert pairs(read_table("Q1\nQ2\tR2\nQ3\nQ4")) == [("Q1", ""), ("Q2", "R2"), ("Q3", ""), ("Q4", "")]


def test_column_of_questions_alone_is_a_table_only_with_a_header() -> None:
    assert pairs(read_table("質問\nQ1\nQ2")) == [("Q1", ""), ("Q2", "")]
    assert refused("Q1\nQ2") is Reason.TABLE_UNREADABLE


def test_values_of_objects_that_are_no_text_are_written_out() -> None:
    rows: list[dict[str, Any]] = [
        {"question": "Q1", "reference": ["a", "b"]},
        {"question": "Q2", "reference": 10, "more": {"x": None}},
        {"question": "Q3", "reference": None},
        {"question": "Q4"},
        {"reference": "R5"},
    ]
    table = read_table(json.dumps(rows))
    assert pairs(table) == [("Q1", "a\nb"), ("Q2", "10"), ("Q3", ""), ("Q4", "")]
    assert table.rows[1].others == {"more": '{"x": null}'}
    assert table.unreadable == 1


def test_one_object_is_one_row() -> None:
    assert pairs(read_table('{"question": "Q", "reference": "R"}')) == [("Q", "R")]


def test_line_separator_inside_json_lines_is_text() -> None:
    assert pairs(read_table('{"question": "a\u2028b", "reference": "R"}\n{"question": "Q"}')) == [
        ("a\u2028b", "R"),
        ("Q", ""),
    ]


@pytest.mark.parametrize("text", ["", "  ", "\n\n", "\ufeff", "\t\t", " \t\n\t "])
def test_no_table(text: str) -> None:
    assert refused(text) is Reason.NO_TABLE


@pytest.mark.parametrize(
    "text",
    [
        "ただの文章です。",
        "質問\t参照",
        "質問\t参照\n\t参照だけ",
        "番号\t参照\n1\tR",
        "[]",
        "{}",
        '["Q1", "Q2"]',
        '[{"id": 1, "text": "x", "label": "y"}]',
        '[{"question": "Q", "reference": "R"},]',
        '{"question": "Q"',
        '[{"question": "Q"}, 5]',
        '{"version": 1}\n{broken',
        "[" * 3000,
        "|---|---|",
    ],
)
def test_unreadable_table_is_said_to_be(text: str) -> None:
    assert refused(text) is Reason.TABLE_UNREADABLE


def test_ordinary_text_in_brackets_is_no_json() -> None:
    assert pairs(read_table("[社内]とは\t会社の中\n{x}とは\t変数")) == [("[社内]とは", "会社の中"), ("{x}とは", "変数")]


def test_cell_longer_than_csvs_own_limit_is_read() -> None:
    assert len(read_table("質問\t参照\nQ\t" + "あ" * 200_000).rows[0].reference) == 200_000
