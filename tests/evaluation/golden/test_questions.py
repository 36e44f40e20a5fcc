"""Which rows of a table are used, and what is said of the others."""

import pytest

from evaluation.errors import EvaluationError, Reason
from evaluation.golden.kept import KeptTable, KeptTables
from evaluation.golden.kept_rows import KeptRow, State
from evaluation.golden.questions import kept_questions, pasted_questions
from evaluation.golden.table import Row, read_table
from tests.evaluation.runs.fakes import MemoryValues

MIXED = "質問\t参照\t行の状態\nQ1\tA1\t確認済み\nQ2\tA2\t下書き\nQ3\tA3\t使わない\n\tA4\t"


def kept_table(*states: State) -> KeptTable:
    rows = [KeptRow(Row(f"Q{n}", f"A{n}"), state=state) for n, state in enumerate(states, start=1)]
    return KeptTables(MemoryValues()).save("表", lambda _: rows)[0]


def test_drafts_are_used_when_asked_for_and_rows_that_are_off_never() -> None:
    table = kept_table("confirmed", "draft", "off")

    without, with_drafts = kept_questions(table), kept_questions(table, drafts=True)

    assert [row.question for row in without.table.rows] == ["Q1"]
    assert (without.name, without.version, without.drafts_left, without.off_left) == ("表", 1, 1, 1)
    assert [row.question for row in with_drafts.table.rows] == ["Q1", "Q2"]
    assert (with_drafts.drafts_left, with_drafts.off_left) == (0, 1)
    assert [with_drafts.is_draft(row) for row in with_drafts.table.rows] == [False, True]


def test_a_pasted_table_with_states_is_read_by_the_same_rule() -> None:
    questions = pasted_questions(read_table(MIXED), unused_name="表")

    assert [(row.question, dict(row.others)) for row in questions.table.rows] == [("Q1", {})]
    assert (questions.name, questions.version, questions.unused_name) == ("", None, "表")
    assert (questions.drafts_left, questions.off_left, questions.table.unreadable) == (1, 1, 1)


def test_of_two_rows_alike_the_very_one_is_the_draft() -> None:
    rows = [KeptRow(Row("Q", "A")), KeptRow(Row("Q", "A"), state="draft")]
    questions = kept_questions(KeptTables(MemoryValues()).save("表", lambda _: rows)[0], drafts=True)

    assert [questions.is_draft(row) for row in questions.table.rows] == [False, True]
    assert not questions.is_draft(None)


def test_a_table_without_a_row_to_use_is_told_with_what_it_has() -> None:
    with pytest.raises(EvaluationError) as caught:
        kept_questions(kept_table("draft", "draft", "off"))

    assert caught.value.reason is Reason.TABLE_EMPTY
    assert caught.value.values == {"table": "表", "draft": 2, "off": 1}
