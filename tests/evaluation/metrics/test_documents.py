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


def test_nothing_expected_is_no_score() -> None:
    assert score_documents([chunk("a.md")], []) is None


def test_names_come_from_the_metadata_of_difys_chunks() -> None:
    item = {
        "content": "甲",
        "title": "休暇規程.txt",
        "metadata": {"document_name": "休暇規程.txt", "document_id": "id-1"},
    }
    assert read_contexts([item]).chunks[0].documents == ("休暇規程.txt", "id-1")
