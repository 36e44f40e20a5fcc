import pytest

from evaluation.metrics.documents import read_documents, score_documents
from evaluation.sample import Chunk, read_contexts


def chunk(*names: str) -> Chunk:
    return Chunk("text of " + names[0], names[0], names)


def test_documents_are_read_from_every_way_to_list_them() -> None:
    for value in ("a.md, b.md", "a.md\nb.md", "a.md、b.md", "a.md；b.md", '["a.md", "b.md"]', ["a.md", "b.md", "a.md"]):
        assert read_documents(value) == ["a.md", "b.md"]
    for value in (None, "", " ", [], [None], 5):
        assert read_documents(value) == []


@pytest.mark.parametrize(
    ("retrieved", "expected", "scores"),
    [
        # first hit at rank 2; one of the two expected documents found
        (["c.md", "a.md", "c.md"], ["a.md", "b.md"], (1.0, 1 / 2, 1 / 2, ("b.md",))),
        (["a.md", "b.md"], ["b.md", "a.md"], (1.0, 1.0, 1.0, ())),
        (["c.md"], ["a.md"], (0.0, 0.0, 0.0, ("a.md",))),
        ([], ["a.md"], (0.0, 0.0, 0.0, ("a.md",))),
    ],
)
def test_scores_by_hand(
    retrieved: list[str], expected: list[str], scores: tuple[float, float, float, tuple[str, ...]]
) -> None:
    result = score_documents([chunk(name) for name in retrieved], expected)
    assert result is not None
    assert (result.hit_rate, result.reciprocal_rank, result.recall, result.missing) == scores
    assert result.expected == len(expected)


def test_names_match_without_case_width_or_ending_and_ids_too() -> None:
    chunks = [chunk("休暇規程.TXT", "9927b644-ca68-4249-bf2f-06be4101e9ea")]
    for name in ("休暇規程", "休暇規程.txt", "休暇規程.ｔｘｔ", "9927b644-ca68-4249-bf2f-06be4101e9ea"):
        result = score_documents(chunks, [name])
        assert result is not None
        assert result.hit_rate == 1.0
    other = score_documents(chunks, ["休暇"])
    assert other is not None
    assert other.hit_rate == 0.0


@pytest.mark.parametrize(
    ("expected", "retrieved"),
    [
        # Only a file's ending is taken off, not what else follows a dot.
        ("料金表v1.2", "料金表v1.pdf"),
        ("就業規則 v1.2", "就業規則 v1.3"),
        ("就業規則 v1.2.pdf", "就業規則 v1.3.pdf"),
        ("No.1", "No.2"),
        ("No.1", "No.10"),
        ("規程2024.04", "規程2024.10.docx"),
        ("Release 3.1.4", "Release 3.1.5"),
        ("handbook.pdf", "handbook.md"),
        # Folders count where both have some.
        ("hr/handbook.pdf", "it/handbook.pdf"),
        ("hr/handbook", "it/handbook.pdf"),
        ("人事\\規程.pdf", "総務\\規程.pdf"),
        ("https://example.com/hr/faq", "https://example.com/it/faq"),
        # Ids are no names.
        ("9927b644-ca68-4249-bf2f-06be4101e9ea", "9927b644-ca68-4249-bf2f-06be4101e9eb"),
        ("9927b644-ca68-4249-bf2f-06be4101e9ea", "9927B644-CA68-4249-BF2F-06BE4101E9EA"),
        ("9927b644-ca68-4249-bf2f-06be4101e9ea", "9927b644-ca68-4249-bf2f-06be4101e9ea.txt"),
        (".md", ".pdf"),
        ("Q1.pdf", "Sales, Q1.pdf"),
    ],
)
def test_another_document_is_not_found(expected: str, retrieved: str) -> None:
    result = score_documents([chunk(retrieved)], [expected])
    assert result is not None
    assert (result.hit_rate, result.missing) == (0.0, (expected,))


@pytest.mark.parametrize(
    ("expected", "retrieved"),
    [
        ("料金表v1.2", "料金表v1.2.pdf"),
        ("料金表V1.2.PDF", "料金表v1.2"),
        ("handbook", "hr/handbook.pdf"),
        ("hr/handbook.pdf", "handbook.pdf"),
        ("hr/handbook.pdf", "docs\\HR\\handbook.pdf"),
        ("./hr/handbook", "hr/handbook.md"),
        ("No.1", "Ｎｏ.１"),
        ("か\u3099いど.txt", "がいど.txt"),
        ("id-1", "id-1"),
    ],
)
def test_the_same_document_is_found(expected: str, retrieved: str) -> None:
    result = score_documents([chunk(retrieved)], [expected])
    assert result is not None
    assert (result.hit_rate, result.missing) == (1.0, ())


def test_a_name_that_holds_commas_is_one_document() -> None:
    expected = read_documents("b.md, Sales, Q1.pdf, A、B規程")
    result = score_documents([chunk("Sales, Q1.pdf"), chunk("A、B規程.docx")], expected)
    assert result is not None
    assert (result.expected, result.missing, result.recall) == (3, ("b.md",), pytest.approx(2 / 3))
    assert read_documents('"Sales, Q1.pdf", b.md') == ["Sales, Q1.pdf", "b.md"]


def test_nothing_expected_is_no_score() -> None:
    assert score_documents([chunk("a.md")], []) is None


def test_names_come_from_the_metadata_of_difys_chunks() -> None:
    item = {
        "content": "甲",
        "title": "休暇規程.txt",
        "metadata": {"document_name": "休暇規程.txt", "document_id": "id-1"},
    }
    assert read_contexts([item]).chunks[0].documents == ("休暇規程.txt", "id-1")
