"""Rows with states: what a pasted table becomes, additions, replacements, and what two editions differ in."""

import json
from dataclasses import replace

import pytest

from evaluation.golden.headers import header_kind
from evaluation.golden.kept_rows import (
    KINDS,
    STATES,
    KeptRow,
    Source,
    appended,
    differences,
    records_of,
    replaced,
    rows_of,
    stamped,
)
from evaluation.golden.table import Row, read_table
from evaluation.languages import LANGUAGES, Language
from evaluation.texts import load_texts

LEAVE = Row("有給休暇は何日ですか", "10日です", "就業規則.md", "休暇")
TRIP = Row("出張の日当はいくらですか", "2,000円です")


def rows(*questions: str, **changes: object) -> list[KeptRow]:
    return [KeptRow(Row(text, f"{text}の答え"), id=text, **changes) for text in questions]  # type: ignore[arg-type]


def questions(kept: list[KeptRow]) -> list[str]:
    return [one.row.question for one in kept]


# --- as it is kept ---


def test_a_row_comes_back_as_it_was() -> None:
    kept = KeptRow(
        replace(LEAVE, others={"部署": "営業"}),
        state="draft",
        changed_by="u-1",
        changed_at="2026-12-01T00:00:00+00:00",
        kind="fact",
        sources=(Source("就業規則.md", "10日付与", "有給休暇は10日付与されます"),),
    )

    assert KeptRow.from_dict(json.loads(json.dumps(kept.as_dict()))) == kept


def test_what_a_later_version_adds_is_left_out_and_an_unknown_state_is_a_draft() -> None:
    value = {"id": "a", "row": {"question": "質問", "later": 1}, "state": "待ち", "later": 2}

    assert KeptRow.from_dict(value) == KeptRow(Row("質問"), id="a", state="draft")


@pytest.mark.parametrize("value", [{}, {"id": "a"}, {"id": "a", "row": {}}, {"id": "a", "row": 3}, [], "x"])
def test_what_is_no_row_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="not a kept row"):
        KeptRow.from_dict(value)  # type: ignore[arg-type]


# --- there and back as a table ---


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_table_that_was_shown_reads_back_the_same(language: Language) -> None:
    kept = [
        KeptRow(replace(LEAVE, others={"部署": "営業\n一課"}), id="a1"),
        KeptRow(TRIP, id="b2", state="draft", kind="messy", sources=(Source("規程.md", "日当は\t2,000円"),)),
        KeptRow(Row("参照なし"), id="c3", state="off"),
    ]
    text = json.dumps(records_of(kept, language), ensure_ascii=False)

    back = rows_of(read_table(text))

    assert [one.id for one in back] == ["a1", "b2", "c3"]
    assert all(one.says_the_same(other) for one, other in zip(back, kept, strict=True))


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_columns_are_named_so_that_they_are_recognised(language: Language) -> None:
    label = load_texts(language).get
    for kind in ("question", "reference", "documents", "category"):
        assert header_kind(label(f"kept.columns.{kind}")) == kind
    labels = [
        label(f"kept.{group}.{name}") for group, names in (("states", STATES), ("kinds", KINDS)) for name in names
    ]
    assert len(set(labels)) == len(labels)


def test_a_table_shows_no_columns_that_nobody_filled() -> None:
    assert list(records_of([KeptRow(TRIP)], "ja")[0]) == ["質問", "参照", "行の状態", "行ID"]


def test_rows_without_a_state_are_confirmed() -> None:
    kept = rows_of(read_table("質問\t参照\t行の状態\nQ1\tA1\t下書き\nQ2\tA2\t\nQ3\tA3\tOFF"))

    assert [one.state for one in kept] == ["draft", "confirmed", "off"]
    assert len({one.id for one in kept}) == 3


def test_columns_of_the_users_stay_inputs_whatever_they_are_called() -> None:
    text = "question,reference,state,quote,Row state\nQ1,A1,Texas,Time flies,solid\nQ2,A2,off,,off"
    kept = rows_of(read_table(text))

    assert kept[0].row.others == {"state": "Texas", "quote": "Time flies", "Row state": "solid"}
    assert [one.state for one in kept] == ["confirmed", "confirmed"]
    # And are shown as they are, even where a column of ours has that name.
    assert records_of(kept, "en")[0]["Row state"] == "solid"


# --- additions ---


def test_an_addition_says_which_questions_were_there_already() -> None:
    before = rows("有給は？", "日当は？")
    added = [
        KeptRow(Row("有給は ？", "有給は？の答え。")),
        KeptRow(Row("日当は?", "3,000円")),
        KeptRow(Row("新しい質問", "答え")),
        KeptRow(Row("新しい質問。", "答え")),
    ]

    result, duplicates = appended(before, added)

    assert questions(result) == ["有給は？", "日当は？", "日当は?", "新しい質問"]
    assert duplicates.same == ("有給は ？", "新しい質問。")
    assert duplicates.differing == ("日当は?",)


def test_the_same_question_with_other_inputs_is_another_one() -> None:
    shops = [KeptRow(Row("営業時間は？", "9時", others={"店": name})) for name in ("札幌", "福岡")]

    result, duplicates = appended(shops[:1], shops[1:])

    assert len(result) == 2
    assert duplicates.same == ()


def test_an_added_row_with_the_id_of_another_gets_its_own() -> None:
    result, _ = appended(rows("有給は？"), [KeptRow(Row("日当は？"), id="有給は？")])

    assert len({one.id for one in result}) == 2


# --- replacements ---


def test_the_same_row_keeps_its_id_and_where_it_comes_from() -> None:
    source = (Source("規程.md", "10日付与"),)
    before = [KeptRow(LEAVE, id="a", kind="fact", sources=source, state="draft"), KeptRow(TRIP, id="b")]
    new = [
        KeptRow(Row("新しい質問")),
        KeptRow(replace(LEAVE, reference="11日です")),
        KeptRow(Row("変えた質問"), id="b"),
    ]

    result = replaced(before, new)

    assert [one.id for one in result[1:]] == ["a", "b"]
    assert result[0].id not in {"a", "b"}
    assert (result[1].kind, result[1].sources, result[1].state) == ("fact", source, "confirmed")


def test_a_row_that_stands_twice_in_the_new_table_gets_a_second_id() -> None:
    result = replaced(rows("有給は？"), [*rows("有給は？"), *rows("有給は？")])

    assert result[0].id == "有給は？"
    assert len({one.id for one in result}) == 2


# --- editions beside each other ---


def test_editions_differ_in_rows_changed_added_and_gone() -> None:
    one, two, three = rows("一", "二", "三")
    changed = replace(two, state="off")
    found = differences([one, changed, three], [one, two, *rows("四")])

    assert found == [(changed, two), (three, None), (None, rows("四")[0])]


def test_only_rows_that_say_something_else_carry_the_new_hand() -> None:
    before = stamped([], rows("一", "二"), "u-1", "t1")
    after = stamped(before, [before[0], replace(before[1], state="off")], "u-2", "t2")

    assert [(one.changed_by, one.changed_at) for one in after] == [("u-1", "t1"), ("u-2", "t2")]


def test_no_two_rows_have_the_same_id() -> None:
    before = rows("一")
    after = stamped(before, [before[0], before[0], before[0]], "u-1", "t1")

    assert after[0].id == "一"
    assert len({one.id for one in after}) == 3
