"""Retrieval measured without a judge, where the documents that should be found are known by name."""

import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from evaluation.sample import Chunk


@dataclass(frozen=True)
class DocumentScores:
    """How the retrieved chunks compare with the expected documents.

    Attributes:
        hit_rate: 1.0 when any expected document is among the chunks, else 0.0.
        reciprocal_rank: 1 / rank of the first chunk that comes from an expected document, 0.0 without one.
        recall: share of the expected documents that are among the K chunks (recall@K).
        missing: the expected documents that are not.
        expected: how many documents are expected.
    """

    hit_rate: float
    reciprocal_rank: float
    recall: float
    missing: tuple[str, ...]
    expected: int

    def as_dict(self) -> dict[str, Any]:
        return {
            "hit_rate": self.hit_rate,
            "reciprocal_rank": self.reciprocal_rank,
            "recall_at_k": self.recall,
            "missing_documents": list(self.missing),
            "expected_documents": self.expected,
        }


def read_documents(value: object) -> list[str]:
    """The expected documents' names or ids: a list, JSON, or a text with one per line or separated by commas."""
    if isinstance(value, str):
        try:
            parsed = json.loads(value)
        except ValueError:
            parsed = None
        value = parsed if isinstance(parsed, list) else re.split(r"[\n,;、，；]", value)
    names = value if isinstance(value, (list, tuple)) else []
    return list(dict.fromkeys(name.strip() for name in names if isinstance(name, str) and name.strip()))


def score_documents(chunks: Sequence[Chunk], expected: Sequence[str]) -> DocumentScores | None:
    """The comparison; None when no document is expected.

    Names are compared without case and width, with or without their ending; ids as they are.
    """
    if not expected:
        return None
    keys = [{_key(name), _stem(name)} for name in expected]
    of_chunks = [{key for name in chunk.documents for key in (_key(name), _stem(name))} for chunk in chunks]
    ranks = [rank for rank, names in enumerate(of_chunks, start=1) if any(names & key for key in keys)]
    missing = [name for name, key in zip(expected, keys, strict=True) if not any(key & names for names in of_chunks)]
    recall = 1 - len(missing) / len(expected)
    return DocumentScores(float(bool(ranks)), 1 / ranks[0] if ranks else 0.0, recall, tuple(missing), len(expected))


def _key(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold().strip()


def _stem(name: str) -> str:
    return PurePath(_key(name)).stem
