"""Knowledge retrieval over a folder: chunks, ranking, and items in the shape of Dify's."""

import hashlib
import json
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from devhost.flow_nodes import retrieve
from devhost.knowledge import KnowledgeBase, overlap, split

RECORDED = json.loads((Path(__file__).parent / "data" / "recorded_call.json").read_text(encoding="utf-8"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "社内規程"
    folder.mkdir()
    (folder / "休暇.md").write_text("# 休暇\n\n有給休暇は10日付与されます。\n\n夏季休暇は5日です。\n", encoding="utf-8")
    (folder / "経費.txt").write_text("交通費は14日以内に申請します。", encoding="utf-8")
    (folder / "画像.png").write_bytes(b"\x89PNG")
    return folder


def contents(items: Sequence[dict[str, Any]]) -> list[str]:
    return [item["content"] for item in items]


def test_items_have_the_keys_and_types_of_recorded_ones(folder: Path) -> None:
    recorded = RECORDED["tool_parameters"]["contexts"][0]
    [item, *_] = KnowledgeBase(folder).retrieve("有給休暇")
    assert {name: type(value) for name, value in item.items()} == {
        name: type(value) for name, value in recorded.items()
    }
    assert {name: type(value) for name, value in item["metadata"].items()} == {
        name: type(value) for name, value in recorded["metadata"].items()
    }


def test_metadata_tell_the_place_of_a_chunk(folder: Path) -> None:
    item = KnowledgeBase(folder).retrieve("夏季休暇は何日")[0]
    metadata = item["metadata"]
    assert (item["content"], item["title"]) == ("夏季休暇は5日です。", "休暇.md")
    assert (metadata["dataset_name"], metadata["document_name"]) == ("社内規程", "休暇.md")
    assert (metadata["position"], metadata["segment_position"], metadata["segment_word_count"]) == (1, 2, 10)
    assert metadata["segment_index_node_hash"] == hashlib.sha256("夏季休暇は5日です。".encode()).hexdigest()
    for name in ("dataset_id", "document_id", "segment_id"):
        assert str(uuid.UUID(metadata[name])) == metadata[name]


def test_the_same_folder_gives_the_same_ids(folder: Path) -> None:
    assert KnowledgeBase(folder).retrieve("休暇") == KnowledgeBase(folder).retrieve("休暇")


def test_without_a_model_chunks_rank_by_shared_character_pairs(folder: Path) -> None:
    # Of the pairs 交通 通費 the last document has both, the others none.
    items = KnowledgeBase(folder).retrieve("交通費")
    assert contents(items)[0] == "交通費は14日以内に申請します。"
    assert [item["metadata"]["score"] for item in items] == [1.0, 0.0, 0.0]
    assert [item["metadata"]["position"] for item in items] == [1, 2, 3]


def test_with_a_model_chunks_rank_by_cosine_and_documents_are_embedded_once(folder: Path) -> None:
    asked: list[list[str]] = []

    def embed(texts: Sequence[str]) -> list[list[float]]:
        asked.append(list(texts))
        return [[3.0, 4.0] if "夏" in text else [0.0, 2.0] if "有給" in text else [0.0, 0.0] for text in texts]

    knowledge = KnowledgeBase(folder, embed=embed)
    items = knowledge.retrieve("夏休み")
    # (3,4)/5 with itself: 1; with (0,1): 4/5; with a vector of zeros: 0.
    assert [item["metadata"]["score"] for item in items] == pytest.approx([1.0, 0.8, 0.0], abs=1e-12)
    assert contents(items)[:2] == ["夏季休暇は5日です。", "# 休暇\n有給休暇は10日付与されます。"]
    knowledge.retrieve("夏")
    assert [len(texts) for texts in asked] == [3, 1, 1]


def test_top_k_and_the_threshold_cut_the_list(folder: Path) -> None:
    knowledge = KnowledgeBase(folder)
    assert len(knowledge.retrieve("休暇", top_k=2)) == 2
    assert contents(knowledge.retrieve("交通費", score_threshold=0.5)) == ["交通費は14日以内に申請します。"]
    assert len(knowledge.retrieve("交通費", score_threshold=0.0)) == 3


def test_an_empty_folder_or_question_finds_nothing(folder: Path, tmp_path: Path) -> None:
    empty = tmp_path / "空"
    empty.mkdir()
    assert KnowledgeBase(empty).retrieve("休暇") == []
    assert KnowledgeBase(folder).retrieve("  ") == []


def test_a_missing_folder_a_foreign_encoding_and_a_bad_length_are_said(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no knowledge folder"):
        KnowledgeBase(tmp_path / "none")
    with pytest.raises(ValueError, match="max_chunk_length is 0"):
        KnowledgeBase(tmp_path, max_chunk_length=0)
    (tmp_path / "sjis.txt").write_bytes("有給休暇".encode("shift_jis"))
    with pytest.raises(ValueError, match=r"sjis\.txt is not UTF-8"):
        KnowledgeBase(tmp_path)


def test_several_knowledge_bases_are_ranked_together_and_numbered_anew(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "別"
    other.mkdir()
    (other / "a.txt").write_text("交通費\n\n宿泊費", encoding="utf-8")
    items = retrieve([KnowledgeBase(folder), KnowledgeBase(other)], "交通費の申請", {"top_k": 3})
    # Pairs: 交通 通費 費の の申 申請. The first document has 交通 通費 申請, the other one 交通 通費.
    assert [(item["title"], item["metadata"]["score"]) for item in items[:2]] == [("経費.txt", 0.6), ("a.txt", 0.4)]
    assert [item["metadata"]["position"] for item in items] == [1, 2, 3]
    assert retrieve([], "交通費", {"top_k": 3, "score_threshold": None}) == []


@pytest.mark.parametrize(
    ("text", "length", "chunks"),
    [
        ("", 10, []),
        ("\n \n\n", 10, []),
        ("一。\n\n二。", 10, ["一。", "二。"]),
        ("一。\r\n\r\n二。", 10, ["一。", "二。"]),
        ("# 題\n\n## 小見出し\n\n本文。\n\n次。", 50, ["# 題\n## 小見出し\n本文。", "次。"]),
        ("本文。\n\n# 題だけ", 50, ["本文。", "# 題だけ"]),
        ("一文目。二文目。三文目。", 8, ["一文目。二文目。", "三文目。"]),
        ("いろはにほへと", 3, ["いろは", "にほへ", "と"]),
        ("One. Two. Three.", 10, ["One. Two.", "Three."]),
    ],
)
def test_documents_are_cut_at_paragraphs_then_sentences_then_characters(
    text: str, length: int, chunks: list[str]
) -> None:
    assert split(text, length) == chunks
    assert all(len(chunk) <= length for chunk in chunks)


@pytest.mark.parametrize(
    ("query", "text", "share"),
    [("abc", "ABC", 1.0), ("abcd", "ab", 1 / 3), ("a b", "ab", 1.0), ("あ", "あい", 0.0), ("", "abc", 0.0)],
)
def test_overlap_is_the_share_of_the_querys_pairs(query: str, text: str, share: float) -> None:
    assert overlap(query, text) == pytest.approx(share, abs=1e-12)
