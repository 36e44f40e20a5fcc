"""A folder of documents as a Dify knowledge base: chunks, a ranking, and result items in the shape of Dify's own."""

import hashlib
import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

SUFFIXES = (".md", ".txt")
DEFAULT_CHUNK_LENGTH = 500
DEFAULT_TOP_K = 4

# Ids are derived from names and contents, so that two runs over the same folder give the same results.
ID_NAMESPACE = uuid.UUID("8f7b5f0c-6a0e-4d1c-9f7c-2f6f4c1d9a57")
SENTENCE_END = re.compile(r"(?<=[。．！？!?\n])|(?<=\. )")
HEADING = re.compile(r"#{1,6} .*")

type Embed = Callable[[Sequence[str]], Sequence[Sequence[float]]]
"""Texts to vectors, one vector of one common length per text, in the texts' order."""


@dataclass(frozen=True)
class Segment:
    """One chunk of a document; `position` counts from 1 within the document."""

    document: str
    position: int
    content: str


class KnowledgeBase:
    """The .md and .txt files below a folder, cut into paragraphs.

    Ranked by the cosine of embeddings when `embed` is given, else by the share of the question's character pairs that
    a chunk contains (0 to 1). Higher is better.
    """

    def __init__(
        self,
        folder: Path,
        *,
        name: str | None = None,
        embed: Embed | None = None,
        max_chunk_length: int = DEFAULT_CHUNK_LENGTH,
    ) -> None:
        """Read and cut the documents; embeddings are made at the first question.

        Args:
            folder: must exist; it may be empty.
            name: shown as the knowledge's name; the folder's name when not given.
            embed: the embedding model.
            max_chunk_length: characters, at least 1.

        Raises:
            ValueError: the folder is missing, a file is not UTF-8, or the length is below 1.
        """
        if not folder.is_dir():
            raise ValueError(f"no knowledge folder at {folder}")
        if max_chunk_length < 1:
            raise ValueError(f"max_chunk_length is {max_chunk_length}, expected 1 or more")
        self.name = name or folder.name
        self.id = stable_id("dataset", self.name)
        self.segments = [
            Segment(path.relative_to(folder).as_posix(), position, content)
            for path in sorted(folder.rglob("*"))
            if path.suffix.lower() in SUFFIXES and path.is_file()
            for position, content in enumerate(split(_read(path), max_chunk_length), start=1)
        ]
        self._embed = embed
        self._vectors: np.ndarray | None = None

    def retrieve(self, query: str, top_k: int = DEFAULT_TOP_K, score_threshold: float | None = None) -> list[Any]:
        """The best `top_k` chunks, best first, as the items of a Knowledge Retrieval node's `result`.

        Chunks below `score_threshold` are left out, and so are all for an empty query. Equal scores keep the
        documents' order.
        """
        if not query.strip() or not self.segments:
            return []
        scores = self._scores(query)
        ranked = sorted(range(len(scores)), key=lambda index: -scores[index])
        kept = [index for index in ranked if score_threshold is None or scores[index] >= score_threshold][:top_k]
        return [self._item(self.segments[index], scores[index], rank) for rank, index in enumerate(kept, start=1)]

    def _scores(self, query: str) -> list[float]:
        if self._embed is None:
            return [overlap(query, segment.content) for segment in self.segments]
        if self._vectors is None:
            self._vectors = _unit(self._embed([segment.content for segment in self.segments]))
        scores: list[float] = (self._vectors @ _unit(self._embed([query]))[0]).tolist()
        return scores

    def _item(self, segment: Segment, score: float, rank: int) -> dict[str, Any]:
        return {
            "metadata": {
                "_source": "knowledge",
                "dataset_id": self.id,
                "dataset_name": self.name,
                "document_id": stable_id(self.id, segment.document),
                "document_name": segment.document,
                "data_source_type": "upload_file",
                "segment_id": stable_id(self.id, segment.document, str(segment.position)),
                "retriever_from": "workflow",
                "score": score,
                "child_chunks": [],
                "segment_hit_count": 0,
                "segment_word_count": len(segment.content),
                "segment_position": segment.position,
                "segment_index_node_hash": hashlib.sha256(segment.content.encode()).hexdigest(),
                "doc_metadata": None,
                "position": rank,
            },
            "title": segment.document,
            "files": None,
            "content": segment.content,
            "summary": None,
        }


def split(text: str, max_length: int) -> list[str]:
    """Paragraphs of at most `max_length` characters, in order.

    Blank lines part paragraphs, a Markdown heading stays with the paragraph that follows it, and a longer paragraph is
    cut after a sentence, or anywhere when a sentence alone is longer.
    """
    chunks: list[str] = []
    heading = ""
    for block in re.split(r"\n\s*\n", text.replace("\r\n", "\n")):
        paragraph = block.strip()
        if HEADING.fullmatch(paragraph):
            heading = f"{heading}{paragraph}\n"
        elif paragraph:
            chunks.extend(_cut(heading + paragraph, max_length))
            heading = ""
    return chunks + _cut(heading.strip(), max_length)


def overlap(query: str, text: str) -> float:
    """The share of the query's character pairs, without spaces and case, that occur in the text: 0 to 1."""
    wanted, found = _pairs(query), _pairs(text)
    return len(wanted & found) / len(wanted) if wanted else 0.0


def _cut(paragraph: str, max_length: int) -> list[str]:
    pieces: list[str] = []
    current = ""
    for sentence in SENTENCE_END.split(paragraph):
        if current and len(current) + len(sentence) > max_length:
            pieces.append(current)
            current = ""
        current += sentence
        while len(current) > max_length:
            pieces.append(current[:max_length])
            current = current[max_length:]
    return [piece.strip() for piece in [*pieces, current] if piece.strip()]


def _pairs(text: str) -> set[str]:
    folded = "".join(text.casefold().split())
    return {folded[start : start + 2] for start in range(max(1, len(folded) - 1))} - {""}


def _unit(vectors: Sequence[Sequence[float]]) -> np.ndarray:
    matrix = np.asarray(vectors, dtype=float)
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    # A vector of zeros has no direction: it is like nothing, and divides by one instead.
    return np.asarray(matrix / np.where(lengths == 0, 1.0, lengths))


def stable_id(*parts: str) -> str:
    """An id that two runs over the same folder share."""
    return str(uuid.uuid5(ID_NAMESPACE, "\n".join(parts)))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path.name} is not UTF-8 text") from error
