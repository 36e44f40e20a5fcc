"""Finding a question in a table."""

from collections.abc import Sequence
from typing import Any

import pytest

from evaluation.errors import EvaluationError, Reason
from evaluation.folding import fold, may_be_the_same
from evaluation.golden.matching import EMBEDDED_ROWS, find_reference
from evaluation.golden.table import Row, Table

LEAVE = Row("有給休暇は入社後いつから何日もらえますか？", "6か月後に10日")
TRIP = Row("国内出張の日当はいくらですか？", "2,000円")


def table(*rows: Row | tuple[str, str]) -> Table:
    return Table(tuple(row if isinstance(row, Row) else Row(*row) for row in rows))


def vectors(**directions: Sequence[float]) -> Any:
    return lambda texts: [list(directions[text]) for text in texts]


@pytest.mark.parametrize(
    "question",
    [
        LEAVE.question,
        "有給休暇は入社後いつから何日もらえますか",
        "有給休暇は、入社後いつから　何日もらえますか?",
        " 「有給休暇」は入社後いつから何日もらえますか！？ ",
        "\ufeff有給休暇は入社後いつから何日もらえますか\u200b",
    ],
)
def test_same_question_but_for_width_case_spaces_and_punctuation_is_exact(question: str) -> None:
    match = find_reference(question, table(TRIP, LEAVE))
    assert (match.row, match.similarity, match.method, match.error()) == (LEAVE, 1.0, "exact", None)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ＡＰＩキーは？", "APIキーは"),
        ("Is it OK?", "is  it ok"),
        ("1,000円の場合", "１０００円の場合"),
        ("ｶﾀｶﾅ", "カタカナ"),
        ("9時〜17時", "9時～17時"),
        ("㈱とは", "(株)とは"),
    ],
)
def test_what_folds_to_the_same(one: str, other: str) -> None:
    assert fold(one) == fold(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1.5倍", "15倍"),
        ("-5度", "5度"),
        ("C#とは", "Cとは"),
        ("C++とは", "Cとは"),
        ("5%", "5"),
        ("@a", "a"),
        ("A&B", "AB"),
    ],
)
def test_what_stays_different_when_folded(one: str, other: str) -> None:
    assert fold(one) != fold(other)


def test_near_wording_is_found_by_characters() -> None:
    match = find_reference("有給休暇は入社後いつから何日もらえるか？", table(TRIP, LEAVE))
    assert (match.row, match.method) == (LEAVE, "characters")
    assert match.minimum <= match.similarity < 1.0
    assert match.nearest == LEAVE.question


def test_other_question_is_not_found_and_the_nearest_is_told() -> None:
    match = find_reference("国内出張の申請はいつまでですか？", table(LEAVE, TRIP))
    assert (match.row, match.nearest) == (None, TRIP.question)
    assert 0 < match.similarity < match.minimum == 0.9
    error = match.error()
    assert error is not None
    assert error.reason is Reason.NOT_FOUND


def test_minimum_of_the_node_counts() -> None:
    question = "国内出張の申請はいつまでですか？"
    assert find_reference(question, table(LEAVE, TRIP), minimum=0.3).row == TRIP
    near = "有給休暇は入社後いつから何日もらえるか？"
    assert find_reference(near, table(LEAVE), minimum=1.0).row is None
    assert find_reference(LEAVE.question, table(LEAVE), minimum=1.0).row == LEAVE


@pytest.mark.parametrize(
    ("asked", "listed"),
    [
        ("2024年度の夏季休暇の日程を教えてください", "2025年度の夏季休暇の日程を教えてください"),
        ("第3条の内容を教えてもらえませんか", "第13条の内容を教えてもらえませんか"),
        ("1.5倍の手当が出る場合を教えてください", "15倍の手当が出る場合を教えてください"),
        ("三月の経費精算の締め日はいつになりますか", "五月の経費精算の締め日はいつになりますか"),
        ("Aプランの料金と内容を詳しく教えてください", "Bプランの料金と内容を詳しく教えてください"),
        ("WindowsでVPNを設定する方法を教えてください", "iOSでVPNを設定する方法を教えてください"),
        ("what does plan A cost per month for a team", "what does plan B cost per month for a team"),
        ("How many days for 5 years of service?", "How many days for 6 years of service?"),
        ("A方案的价格和内容是什么，请详细说明", "B方案的价格和内容是什么，请详细说明"),
    ],
)
def test_questions_that_differ_in_a_number_or_a_name_are_never_the_same(asked: str, listed: str) -> None:
    match = find_reference(asked, table((listed, "R")), minimum=0.5)
    assert match.row is None
    assert find_reference(asked, table((listed, "R")), 0.5, lambda texts: [[1.0]] * len(texts)).row is None


@pytest.mark.parametrize(
    ("one", "other", "may"),
    [
        ("2024年度と２０２５年度", "２０２４年度と2025年度", True),
        ("2024年度と2025年度", "2025年度と2024年度", False),
        ("1,000円", "1000円", True),
        ("1.5倍", "15倍", False),
        ("十二月", "十一月", False),
        ("AプランのSLAは？", "ａプランのsla", True),
        ("Aプランは？", "Bプランは？", False),
        ("PCの持ち出し", "パソコンの持ち出し", True),
        ("plan B", "a plan B", True),
        ("I don't know plan B", "I don't know plan C", False),
        ("days of leave", "day of leave", True),
        ("days of leave", "days of leave 甲", True),
        ("How many days of leave?", "休暇は何日ですか", True),
        ("How many days after 5 years?", "5年後は何日ですか", True),
        ("How many days after 5 years?", "6年後は何日ですか", False),
        ("", "", True),
    ],
)
def test_what_tells_texts_apart_although_nearly_all_characters_agree(one: str, other: str, may: bool) -> None:
    assert may_be_the_same(one, other) is may
    assert may_be_the_same(other, one) is may


def test_two_rows_that_are_equally_near_with_different_references_are_ambiguous() -> None:
    rows = table(("経費の精算はいつまでに行いますか", "月末"), ("経費の申請はいつまでに行いますか", "翌月"))
    match = find_reference("経費の承認はいつまでに行いますか", rows, minimum=0.8)
    assert (match.row, match.ambiguous) == (None, True)
    error = match.error()
    assert error is not None
    assert error.reason is Reason.AMBIGUOUS_MATCH


def test_two_rows_that_are_equally_near_with_the_same_reference_are_found() -> None:
    rows = table(("経費の精算はいつまでに行いますか", "月末"), ("経費の申請はいつまでに行いますか", "月末"))
    match = find_reference("経費の承認はいつまでに行いますか", rows, minimum=0.8)
    assert match.row is not None
    assert (match.row.reference, match.ambiguous) == ("月末", False)


def test_nothing_near_is_not_ambiguous() -> None:
    match = find_reference("まったく別の話", table(("経費の精算", "a"), ("経費の申請", "b")))
    assert (match.row, match.ambiguous) == (None, False)


def test_row_without_reference_is_found_and_told_as_such() -> None:
    match = find_reference("Q1", table(("Q1", ""), ("Q2", "R2")))
    error = match.error()
    assert match.row == Row("Q1")
    assert error is not None
    assert error.reason is Reason.NO_REFERENCE


def test_first_of_conflicting_references_counts_and_the_others_are_counted() -> None:
    match = find_reference(
        "質問？", table(("質問", "甲"), ("質問！", "乙"), ("質問", "甲"), ("他", "x"), ("質問", "丙"))
    )
    assert match.row is not None
    assert (match.row.reference, match.conflicts) == ("甲", 2)


def test_row_with_a_reference_comes_before_one_without_and_is_no_conflict() -> None:
    match = find_reference("質問", table(("質問", ""), ("質問？", "甲"), ("質問", "")))
    assert match.row is not None
    assert (match.row.reference, match.conflicts) == ("甲", 0)


def test_questions_of_marks_alone_are_told_apart() -> None:
    match = find_reference("！！", table(("？？", "a"), ("……", "b")))
    assert match.row is None


def test_empty_table_finds_nothing() -> None:
    match = find_reference("Q", table())
    assert (match.row, match.nearest, match.similarity) == (None, "", 0.0)


def test_embeddings_find_what_characters_do_not() -> None:
    rows = table(("休みはいくつ", "10日"), ("日当は", "2000円"))
    embed = vectors(有給は何日=[1.0, 0.0], 休みはいくつ=[0.95, 0.3122], 日当は=[0.0, 1.0])
    match = find_reference("有給は何日", rows, embed=embed)
    assert match.row is not None
    assert (match.row.reference, match.method, match.minimum) == ("10日", "embedding", 0.85)
    assert match.similarity == pytest.approx(0.95, abs=1e-4)


def test_embeddings_below_their_minimum_or_opposite_find_nothing() -> None:
    embed = vectors(問=[1.0, 0.0], 甲=[0.8, 0.6], 乙=[-1.0, 0.0])
    match = find_reference("問", table(("甲", "a")), embed=embed)
    assert (match.row, match.similarity) == (None, pytest.approx(0.8))
    assert find_reference("問", table(("乙", "a")), embed=embed).similarity == 0.0


def test_exact_match_needs_no_embedding() -> None:
    assert find_reference("甲？", table(("甲", "a")), embed=lambda _: pytest.fail("embedded")).row == Row("甲", "a")


def test_only_the_nearest_by_characters_are_embedded_in_a_large_table() -> None:
    sizes = []

    def embed(texts: Sequence[str]) -> list[list[float]]:
        sizes.append(len(texts))
        return [[1.0, float(text == "あいうえ")] for text in texts]

    rows = table(
        *((f"別{'かきくけこ'[n % 5] * (n + 1)}", "x") for n in range(EMBEDDED_ROWS + 50)), ("あいうえ", "近い")
    )
    match = find_reference("あいうお", rows, minimum=0.5, embed=embed)
    assert sizes == [EMBEDDED_ROWS + 1]
    assert match.method == "embedding"


@pytest.mark.parametrize("given", [[[1.0, 0.0], [0.0, 0.0]], [[1.0, 0.0], [1.0]], [[1.0, 0.0], [float("nan"), 1.0]]])
def test_unusable_vectors_are_said_to_be(given: Any) -> None:
    with pytest.raises(EvaluationError) as caught:
        find_reference("問", table(("甲", "a")), embed=lambda _: given)
    assert caught.value.reason is Reason.EMBEDDING_INVALID
