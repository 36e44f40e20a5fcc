"""The passages of a document, and which is asked for what."""

from collections import Counter

import pytest

from evaluation.golden.drafts.passages import PASSAGE_CHARACTERS, Passage, nearest, read_passages, script_of
from evaluation.golden.drafts.plan import MOST_ATTEMPTS, USUAL_MIX, Made, Plan, Task, documents_cell, shares
from evaluation.golden.kept_rows import KINDS
from evaluation.sample import Chunk

SENTENCE = "有給休暇は入社して6か月たった社員に10日付与し、申請は3営業日前までです。"


def passage(name: str, document: str = "") -> Passage:
    return Passage(f"{name}{SENTENCE}", document or f"{name}.md", "ja", "CJK")


def nothing() -> Made:
    return Made(Counter(), Counter(), Counter())


# --- passages ---


def test_headings_and_scraps_are_left_out_and_counted() -> None:
    chunks = [Chunk("# 出張旅費の規程（株式会社あおぞら文具店）", "a.md"), Chunk("12", "a.md"), Chunk(SENTENCE, "a.md")]

    passages, thin = read_passages(chunks)

    assert ([one.text for one in passages], thin) == ([SENTENCE], 2)


def test_a_long_text_is_taken_apart_at_sentences_and_nothing_is_lost() -> None:
    text = "".join(f"第{n}条。{SENTENCE}" for n in range(200))

    passages, thin = read_passages([Chunk(text, "規程.md")])

    assert "".join(one.text for one in passages) == text
    assert thin == 0
    assert all(len(one.text) <= PASSAGE_CHARACTERS and one.text.endswith("。") for one in passages)


@pytest.mark.parametrize(
    ("first", "document", "about"),
    [
        ("# 出張旅費の規程", "travel.md", "出張旅費の規程"),
        (f"# 出張旅費の規程\n\n{SENTENCE}", "travel.md", "出張旅費の規程"),
        (SENTENCE, "人事/出張旅費規程 v1.2.pdf", "出張旅費規程 v1.2"),
        (SENTENCE, "", ""),
    ],
)
def test_a_passage_is_told_what_its_document_is_about(first: str, document: str, about: str) -> None:
    passages, _ = read_passages([Chunk(first, document), Chunk(f"ただし、{SENTENCE}", document)])

    assert passages[-1].about == about
    # Those that say it themselves need not be told.
    assert all(one.about not in one.text for one in passages if one.about)


def test_the_same_chunk_twice_is_one_passage() -> None:
    passages, _ = read_passages([Chunk(SENTENCE, "a.md"), Chunk(SENTENCE, "a.md"), Chunk(SENTENCE, "b.md")])

    assert [one.document for one in passages] == ["a.md", "b.md"]


def test_a_passage_without_kana_is_in_the_language_of_its_document() -> None:
    table = "年次有給休暇付与日数一覧表勤続年数六箇月十日一年六箇月十一日二年六箇月十二日"
    passages, _ = read_passages([Chunk(table, "a.md"), Chunk(SENTENCE, "a.md"), Chunk(table, "")])

    assert [one.language for one in passages] == ["ja", "ja", "zh"]


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("有給は10日", "CJK"),
        ("ユウキュウ", "CJK"),
        ("leave", "LATIN"),
        ("휴가", "HANGUL"),
        ("отпуск", "CYRILLIC"),
        ("10", ""),
    ],
)
def test_the_script_is_that_of_most_letters(text: str, script: str) -> None:
    assert script_of(text) == script


def test_the_nearest_passages_share_most_with_the_question() -> None:
    others = [passage("出張"), Passage("在宅勤務は週3日までできます。", "b", "ja", "CJK"), passage("旅費")]

    assert [one.document for one in nearest("在宅勤務は何日できますか", others, 1)] == ["b"]


# --- shares ---


@pytest.mark.parametrize(
    ("count", "mix", "wanted"),
    [
        # 4 2 1 1 1 1 of 10
        (10, USUAL_MIX, (4, 2, 1, 1, 1, 1)),
        # 20/10 each: exact
        (20, USUAL_MIX, (8, 4, 2, 2, 2, 2)),
        # .4 .2 .1 .1 .1 .1: the largest remainder
        (1, USUAL_MIX, (1, 0, 0, 0, 0, 0)),
        # 2.8 1.4 .7 .7 .7 .7: whole 2 1 0 0 0 0 = 3, four are left for the largest remainders .8 .7 .7 .7
        (7, USUAL_MIX, (3, 1, 1, 1, 1, 0)),
        (3, {"messy": 1}, (0, 0, 0, 3, 0, 0)),
        (3, {"fact": 0.5, "condition": 0.5}, (2, 1, 0, 0, 0, 0)),
        (3, {}, (0, 0, 0, 0, 0, 0)),
    ],
)
def test_shares_are_whole_and_add_up(count: int, mix: dict[str, float], wanted: tuple[int, ...]) -> None:
    found = shares(count, mix)
    assert tuple(found[kind] for kind in KINDS) == wanted


# --- the plan ---


def run(plan: Plan, made: Made, holds: float = 1.0) -> list[Task]:
    """Does tasks until none is left; every n-th draft is kept."""
    done: list[Task] = []
    while tasks := plan.next_tasks(made, 4):
        for task in tasks:
            done.append(task)
            made.attempts[task.key] += 1
            if int(len(done) * holds) > int((len(done) - 1) * holds):
                made.kinds[task.kind] += 1
                made.documents[task.passages[0].document] += 1
    return done


def test_just_as_many_as_wanted_are_made_in_the_kinds_wanted() -> None:
    made = nothing()
    run(Plan([passage(str(n)) for n in range(10)], 10, USUAL_MIX), made)

    assert made.kinds == {"fact": 4, "condition": 2, "comparison": 1, "messy": 1, "false_premise": 1, "unanswerable": 1}


def test_no_more_are_tried_at_the_same_time_than_are_missing() -> None:
    plan = Plan([passage(str(n)) for n in range(10)], 10, {"fact": 1})

    assert len(plan.next_tasks(Made(Counter(fact=8), Counter(), Counter()), 4)) == 2


def test_documents_give_alike_however_many_passages_they_have() -> None:
    long = [passage(str(n), "long.md") for n in range(20)]
    made = nothing()
    run(Plan([*long, passage("a", "short.md"), passage("b", "short.md")], 8, {"fact": 1}), made)

    # The short one has two passages, each is asked once before any is asked again.
    assert made.documents == {"long.md": 6, "short.md": 2}


def test_different_kinds_are_asked_of_different_passages_first() -> None:
    done = run(Plan([passage(str(n), "a.md") for n in range(6)], 6, dict.fromkeys(KINDS, 1)), nothing())

    assert len({task.passages[0].key for task in done}) == 6


def test_a_passage_is_asked_a_few_times_and_then_left() -> None:
    made = nothing()
    done = run(Plan([passage("a"), passage("b")], 10, {"fact": 1}), made, holds=0)

    assert len(done) == 2 * MOST_ATTEMPTS
    assert made.kept == 0


def test_what_a_kind_can_not_give_falls_to_the_others() -> None:
    made = nothing()
    # One passage alone can't be compared with another.
    run(Plan([passage("a")], 4, {"fact": 1, "comparison": 3, "messy": 1}), made)

    assert made.kept == 4
    assert made.kinds["comparison"] == 0


def test_a_comparison_takes_two_passages_that_are_alike() -> None:
    passages = [
        passage("休暇の規程。"),
        Passage("在宅勤務は週3日までできます。", "b", "ja", "CJK"),
        passage("旅費の規程。"),
    ]
    [task] = Plan(passages, 1, {"comparison": 1}).next_tasks(nothing(), 4)

    assert [one.document for one in task.passages] == ["休暇の規程。.md", "旅費の規程。.md"]


def test_names_with_commas_stand_in_quotation_marks() -> None:
    from evaluation.metrics.documents import read_documents  # noqa: PLC0415 - how the cell is read

    cell = documents_cell(["規程.md", "a, b.pdf", "規程.md", ""])

    assert read_documents(cell) == ["規程.md", "a, b.pdf"]
