"""Question tables in whatever form people paste them."""

import json
from pathlib import Path
from typing import Any

import pytest

from evaluation.errors import EvaluationError, Reason
from evaluation.golden.table import Row, Table, read_table
from evaluation.languages import LANGUAGES, Language
from evaluation.report.markdown import reason_sentence
from evaluation.texts import load_texts

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


def told(table: Table) -> dict[str, dict[str, Any]]:
    """What is noted of a table, by name."""
    return {note.name: dict(note.values) for note in table.notes}


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


def test_rows_with_more_columns_than_the_header_are_told_and_not_scored() -> None:
    table = read_table("質問,参照\nQ1,国内, 海外,その他\nQ2,R2,,\nQ3,a,b\n")
    assert (pairs(table), table.unreadable) == ([("Q2", "R2")], 2)
    assert told(table) == {"too_many_cells": {"rows": [2, 4]}}


def test_the_same_without_a_header() -> None:
    table = read_table("Q1,10日\nQ2,国内,海外\nQ3,5日")
    assert (pairs(table), table.unreadable) == ([("Q1", "10日"), ("Q3", "5日")], 1)
    assert told(table) == {"too_many_cells": {"rows": [2]}}


@pytest.mark.parametrize(
    ("row", "reference"),
    [
        ("Q,1,000円です", "1,000円です"),
        ("Q,合計1,234,567円", "合計1,234,567円"),
        ("Q,$12,500", "$12,500"),
        ('Q,{"answer": "2,000"}', "2,000"),
        ('Q,{"answer": "a, b", "score": 1}', "a, b"),
        ('Q,["a", "b"]', "a\nb"),
    ],
)
def test_commas_that_are_clearly_inside_a_cell_part_none_and_that_is_told(row: str, reference: str) -> None:
    table = read_table(f"質問,参照\n{row}\nQ2,R2\n")
    assert (pairs(table), table.unreadable) == ([("Q", reference), ("Q2", "R2")], 0)
    assert told(table) == {"put_together": {"rows": [2]}}


@pytest.mark.parametrize(
    "row", ["Q,1,000円,2,000円,x", "Q,12,34", "Q,1,0000", "Q, a,b", "1,000円は？,はい,いいえ", "Q,{1,2", "Q,[a,b"]
)
def test_commas_that_may_part_cells_do(row: str) -> None:
    table = read_table(f"質問,参照\n{row}\nQ2,R2\n")
    assert (pairs(table), told(table)) == ([("Q2", "R2")], {"too_many_cells": {"rows": [2]}})


def test_cells_beside_a_pasted_table_are_told_and_left_aside() -> None:
    table = read_table("質問\t参照\nQ1\tR1\tメモ\nQ2\tR2")
    assert (pairs(table), told(table)) == ([("Q1", "R1"), ("Q2", "R2")], {"beside": {"names": ["メモ"]}})


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


@pytest.mark.parametrize(
    "value",
    [
        {"question": ["Q1", "Q2"], "contexts": [["a"], ["b"]], "ground_truth": ["R1", "R2"]},
        # What pandas writes when it is told nothing else.
        {"question": {"0": "Q1", "1": "Q2"}, "ground_truth": {"0": "R1", "1": "R2"}},
    ],
)
def test_an_object_of_columns_is_a_table(value: dict[str, Any]) -> None:
    assert pairs(read_table(json.dumps(value))) == [("Q1", "R1"), ("Q2", "R2")]


@pytest.mark.parametrize("text", ["Q: 有給は？\nA: 10日\nQ: 日当は？\nA: 2,000円", "こんにちは\nはい、どうぞ\nまたね"])
def test_lines_with_a_comma_here_and_there_are_no_table(text: str) -> None:
    assert refused(text) is Reason.TABLE_UNREADABLE


def test_a_break_in_a_markdown_cell_is_a_line_end() -> None:
    assert pairs(read_table("|質問|参照|\n|-|-|\n|Q|1<br>2 <BR/> 3|")) == [("Q", "1\n2\n3")]


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
        "1\t2\n3\t4",
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


# --- where the names of the columns stand ---


@pytest.mark.parametrize(
    "above",
    [
        "人事FAQ 評価用の質問一覧\n",
        "人事FAQ,,\n作成日：2026/4/1,,作成者：山田\n\n",
        "\n\n質問一覧,,\n,,\n",
        "質問と回答,,\n※ 黄色の行は確認中,,\n",
        "質問\n",
    ],
)
def test_titles_notes_and_empty_rows_may_stand_above(above: str) -> None:
    table = read_table(above + "No.,質問,解答\n1,有給は？,10日\n2,日当は？,2000円\n")
    assert pairs(table) == [("有給は？", "10日"), ("日当は？", "2000円")]
    assert told(table) == {"header": {"row": above.count("\n") + 1, "names": ["No.", "質問", "解答"]}}


def test_a_title_may_stand_above_questions_alone() -> None:
    assert pairs(read_table("人事FAQ\n質問\nQ1\nQ2")) == [("Q1", ""), ("Q2", "")]


UNCLEAR = {
    "unknown names above numbers": "No.\t1\t2\n1\t2\t3\n2\t3\t4",
    "one row below": "No.\t1\t2\n1\t2\t3",
    "numbers alone": "1\t2\t3\n4\t5\t6",
    "dates": "2026/4/1\t2026/4/2\n2026/4/3\t2026/4/4",
    "times and amounts": "9:00\t¥1,000\n10:30\t¥2,000",
    "unknown names beside row numbers": "No.\t内容\t備考\n1\t有給は？\t10日\n2\t日当は？\t千円",
    "names of another language": "Tanong\tSagot\nAno ito?\tIto ay\nSaan ito?\tDito",
    "a category first": "休暇\t有給は何日ですか\t10日\n出張\t日当はいくらですか\t千円",
    "no name for the questions": "番号\t参照\n1\tR",
    "questions side by side": "質問\t有給は？\t日当は？\n回答\t10日\t千円",
    "a card for each question": "質問\t有給は？\n回答\t10日\n質問\t日当は？\n回答\t千円",
    "objects": '[{"id": 1, "text": "x", "label": "y"}]',
}


@pytest.mark.parametrize("name", UNCLEAR)
def test_columns_that_can_not_be_told_are_asked_about(name: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        read_table(UNCLEAR[name])
    assert (caught.value.reason, caught.value.values["why"]) == (Reason.TABLE_UNREADABLE, "columns")
    assert caught.value.values["seen"]


def test_names_that_stand_again_begin_the_table_anew() -> None:
    text = "質問,参照,部署\nQ1,R1,人事\n\n表2 出張,,\n質問,参照,部署\nQ2,R2,総務\n\n参照,質問,\nR3,Q3,\n"
    table = read_table(text)
    assert pairs(table) == [("Q1", "R1"), ("Q2", "R2"), ("Q3", "R3")]
    assert [dict(row.others) for row in table.rows] == [{"部署": "人事"}, {"部署": "総務"}, {}]
    assert table.unreadable == 0


def test_a_table_to_the_right_is_told() -> None:
    table = read_table("質問\t参照\t\t質問\t参照\nQ1\tR1\t\tQ2\tR2")
    assert (pairs(table), table.rows[0].others) == ([("Q1", "R1")], {})
    assert told(table) == {"second_table": {"names": ["質問", "参照"]}}


def test_columns_without_a_reference_among_them_are_told() -> None:
    assert told(read_table("質問\t部署\nQ1\t人事")) == {"no_reference": {"names": ["部署"]}}
    assert told(read_table("質問\nQ1")) == {}


def test_a_remark_under_the_table_is_no_question() -> None:
    table = read_table("質問\t参照\nQ1\tR1\n※ 2026年4月の規程による\n※印の行は？\tR2")
    assert (pairs(table), table.unreadable) == ([("Q1", "R1"), ("※印の行は？", "R2")], 1)


ASKING = "質問\t参照\nQ1ですか\tR1\nQ2は何日ですか\tR2\n"


@pytest.mark.parametrize(
    ("below", "rows"),
    [
        ("\n集計\nカテゴリ\t件数\n休暇\t1\n合計\t2", [5, 6, 7, 8]),
        ("\nカテゴリ\t件数\n休暇\t1", [5, 6]),
        ("\n作成者：田中\n最終更新：2026/4/1\tv1.0", [5, 6]),
        ("\n\nCopyright ACME", [6]),
    ],
)
def test_what_stands_below_the_questions_is_not_asked_and_told(below: str, rows: list[int]) -> None:
    table = read_table(ASKING + below)
    assert pairs(table) == [("Q1ですか", "R1"), ("Q2は何日ですか", "R2")]
    assert told(table) == {"below": {"rows": rows}}


@pytest.mark.parametrize("below", ["\n出張の日当\t千円", "\n出張\n日当はいくらですか\t千円", "出張の日当"])
def test_questions_below_an_empty_row_are_asked(below: str) -> None:
    table = read_table(ASKING + below)
    assert pairs(table)[2:] == [tuple([*line.split("\t"), ""][:2]) for line in below.strip("\n").split("\n")]
    assert told(table) == {}


@pytest.mark.parametrize("line", ["■休暇について", "【出張】", "◆その他", "以上", "合計", "合計\t2"])
def test_titles_of_parts_and_totals_are_no_questions(line: str) -> None:
    table = read_table(f"質問\t参照\n{line}\nQ1\tR1")
    assert (pairs(table), table.unreadable) == ([("Q1", "R1")], 1)


@pytest.mark.parametrize("question", ["■有給は何日ですか", "【至急】経費の申請", "合計金額はいくらですか"])
def test_questions_that_begin_like_a_title_are_asked(question: str) -> None:
    assert pairs(read_table(f"質問\t参照\n{question}\nQ1\tR1")) == [(question, ""), ("Q1", "R1")]


# --- marks between the cells ---


@pytest.mark.parametrize("mark", [";", "|", "\t", ",", "，"])
@pytest.mark.parametrize("told_mark", [True, False])
def test_the_mark_that_parts_known_names_parts_cells(mark: str, told_mark: bool) -> None:
    first = f"sep={mark}\n" if told_mark else ""
    table = read_table(f"{first}質問{mark}参照\n国内、海外は？{mark}10日\nQ2{mark}R2\n")
    assert pairs(table) == [("国内、海外は？", "10日"), ("Q2", "R2")]


def test_commas_in_the_cells_do_not_outweigh_the_mark_between_them() -> None:
    table = read_table("Frage;Antwort\nWas, wann, wo?;Hier, heute\nWer, wie?;Du, so\n")
    assert pairs(table) == [("Was, wann, wo?", "Hier, heute"), ("Wer, wie?", "Du, so")]


# --- what exports write into cells ---


@pytest.mark.parametrize(
    ("question", "reference"),
    [
        ('{"question": "有給は？"}', '{"answer": "10日"}'),
        ('{"input": {"question": "有給は？", "lang": "ja"}}', '{"output": {"answer": "10日", "score": 1}}'),
        ('{"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "有給は？"}]}', '"10日"'),
        ('[{"role": "user", "content": [{"type": "text", "text": "有給は？"}]}]', '{"expected_output": "10日"}'),
        ('{"args": ["有給は？"], "kwargs": {}}', '[{"type": "text", "text": "10日"}]'),
        ("{'question': '有給は？', 'history': None}", "{'answer': '10日'}"),
        ("[{'type': 'human', 'content': '有給は？'}]", "['10日']"),
        ('{"anything": "有給は？"}', '{"role": "assistant", "content": "10日"}'),
        ('"有給は？"', '{"days": "10日"}'),
        ('{"content": "有給は？", "tokens": 5}', '{"text": ["10日"], "answer_start": [3]}'),
    ],
)
def test_the_text_inside_json_is_taken(question: str, reference: str) -> None:
    table = read_table(json.dumps([{"input": question, "expected_output": reference}]))
    assert (pairs(table), table.unreadable) == ([("有給は？", "10日")], 0)


@pytest.mark.parametrize(
    ("question", "reference"),
    [
        ('{"a": "x", "b": "y"}', "R"),
        ('["x", "y"]', "R"),
        ('{"id": 1}', "R"),
        ("Q", '{"p": "x", "r": "y"}'),
    ],
)
def test_json_in_which_the_text_can_not_be_told_is_refused(question: str, reference: str) -> None:
    rows = [{"input": question, "expected_output": reference}, {"input": "Q", "expected_output": "R"}]
    table = read_table(json.dumps(rows))
    assert (pairs(table), table.unreadable) == ([("Q", "R")], 1)


@pytest.mark.parametrize("cell", ["{x}とは", "[社内]", "[1]", "{未閉じ", "[重要] 有給は？"])
def test_brackets_that_are_no_json_are_text(cell: str) -> None:
    assert pairs(read_table(f"質問\t参照\n{cell}\t{cell}")) == [(cell, cell)]


def test_a_conversation_in_one_cell_holds_question_and_reference() -> None:
    turns = [{"role": "user", "content": "有給は？"}, {"role": "assistant", "content": "10日"}]
    assert pairs(read_table(json.dumps({"messages": turns}))) == [("有給は？", "10日")]
    assert pairs(read_table("\n".join(json.dumps({"messages": turns}) for _ in range(2)))) == [("有給は？", "10日")] * 2


@pytest.mark.parametrize("word", ["nan", "NaN", "None", "null", "<NA>", "-", "N/A", "#N/A"])
def test_what_exports_write_for_nothing_is_nothing_and_told(word: str) -> None:
    table = read_table(f"質問\t参照\nQ1\t{word}\nQ2\tR2\n{word}\tR3")
    assert (pairs(table), table.unreadable) == ([("Q1", ""), ("Q2", "R2")], 1)
    assert told(table) == {"nothing": {"words": [word], "count": 1}}


@pytest.mark.parametrize("word", ["none", "なし", "0", "×", "いいえ"])
def test_short_answers_are_answers(word: str) -> None:
    table = read_table(f"質問\t参照\nQ1\t{word}")
    assert (pairs(table), table.notes) == ([("Q1", word)], ())


def test_half_a_line_end_that_excel_wrote_is_taken_out() -> None:
    assert pairs(read_table('質問\t参照\n"申請は_x000D_\n休暇です"\tR')) == [("申請は\n休暇です", "R")]


FOLDER = Path(__file__).parents[2] / "data" / "tables"


def test_a_data_set_as_langfuse_downloads_it() -> None:
    table = read_table((FOLDER / "langfuse_export_dataset.csv").read_text("utf-8"))
    assert pairs(table) == [("有給休暇は何日もらえますか", "10日です"), ("日当はいくらですか", "2,000円です")]


def test_json_without_the_quotes_of_csv() -> None:
    table = read_table((FOLDER / "json_in_csv_table.csv").read_text("utf-8"))
    assert pairs(table) == [("見積もりの日付はいつですか", "2024/09/03"), ("金額はいくらですか", "2,000")]
    assert told(table) == {"put_together": {"rows": [3]}}


def test_lists_as_pandas_writes_them_into_a_cell() -> None:
    text = "question\tanswers\nQ\t{'text': array(['10日'], dtype=object), 'answer_start': array([3])}"
    assert pairs(read_table(text)) == [("Q", "10日")]


@pytest.mark.parametrize("language", LANGUAGES)
def test_json_that_can_not_be_told_in_any_row_is_the_reason(language: Language) -> None:
    with pytest.raises(EvaluationError) as caught:
        read_table('input\texpected_output\n{"a": "x", "b": "y"}\tR')
    assert caught.value.values == {"why": "json", "rows": "2"}
    assert "question" in reason_sentence(caught.value.reason, caught.value.values, load_texts(language))
