"""What users are told of how a table was read."""

import html
import tomllib
from pathlib import Path

import pytest

from evaluation import texts as sentences
from evaluation.golden.grid import Note
from evaluation.golden.matching import Match
from evaluation.golden.questions import Questions
from evaluation.golden.table import Row, Table
from evaluation.languages import LANGUAGES, Language
from evaluation.report.lookup import lookup_line
from evaluation.report.tables import table_remarks
from evaluation.texts import load_texts

FOLDER = Path(sentences.__file__).parent / "texts"
ROW = Row("有給は？", "10日")


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_note_on_a_table_has_its_sentence(language: Language) -> None:
    notes = [
        Note("header", {"row": 3, "names": ["No.", "質問", "正解"]}),
        Note("sheet", {"sheet": "FAQ", "names": ["表紙"]}),
        Note("second_table", {"names": ["質問"]}),
        Note("below", {"rows": [9]}),
        Note("no_reference", {"names": ["部署"]}),
        Note("too_many_cells", {"rows": [2, 5]}),
        Note("put_together", {"rows": [3]}),
        Note("several_texts", {"rows": [4]}),
        Note("nothing", {"words": ["nan"], "count": 2}),
        Note("beside", {"names": ["メモ"]}),
        Note("hidden_rows", {"count": 1}),
        Note("hidden_columns", {"names": ["B"]}),
        Note("formulas", {"cells": ["B2"]}),
        Note("errors", {"cells": ["C3"]}),
        Note("first_rows", {"count": 900}),
    ]
    texts = load_texts(language)
    names = tomllib.loads((FOLDER / f"{language}.toml").read_text("utf-8"))["table"].keys()
    assert {note.name for note in notes} == names - {"of_file"}
    for note in notes:
        (sentence,) = table_remarks(Table((ROW,), notes=(note,)), texts)
        for value in note.values.values():
            for part in value if isinstance(value, list) else [value]:
                assert str(part).replace(".", "") in sentence.replace(".", "")


def test_a_note_names_its_file_and_the_first_of_many_rows_with_what_is_quoted_escaped() -> None:
    note = Note("too_many_cells", {"rows": list(range(2, 12))}, file="a_b<x>.csv")
    (sentence,) = table_remarks(Table((ROW,), notes=(note,)), load_texts("ja"))
    assert "2、3、4、5、6、ほか5件" in sentence
    assert "<" not in sentence
    assert html.unescape(sentence).startswith("ファイル「a_b<x>.csv」：")


def test_a_lookup_tells_what_is_odd_about_its_table() -> None:
    table = Table((ROW,), unreadable=1, notes=(Note("too_many_cells", {"rows": [3]}),))
    line = lookup_line(Match(ROW, ROW.question, 1.0), Questions(table), load_texts("ja"), None)
    assert "読み取れない行が1件あります" in line
    assert "3行目" in line
