"""Retrieval measured without a judge, where the documents that should be found are known by name."""

import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.sample import Chunk

# What stands between names in one text.
_SEPARATORS = r"\n,;、，；"
# An id of Dify.
_ID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
# Endings of files that people put into a knowledge base. What follows the last dot of another name belongs to it: v1.2.
_ENDING = (
    "txt|mdx?|markdown|rst|adoc|pdf|m?html?|xml|jsonl?|ya?ml|[ct]sv|log|eml|msg|epub|vtt|srt|properties|doc[xm]?|dotx|rtf"
    "|xls[xmb]?|ppt[xm]?|od[tsp]|hwpx?|wps|jtd|pages|numbers|key|gdoc|gsheet|png|jpe?g|gif|webp|svg|bmp|tiff?"
    "|mp[34]|m4a|wav|mov|zip"
)


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
    """The expected documents' names or ids: a list, JSON, or a text with one per line or separated by commas.

    A name in quotation marks may hold commas.
    """
    if isinstance(value, str):
        try:
            parsed = json.loads(value)
        except ValueError:
            parsed = None
        value = parsed if isinstance(parsed, list) else re.findall(rf'"[^"\n]+"|[^{_SEPARATORS}]+', value)
    names = (
        [name.strip(' \t\r"') for name in value if isinstance(name, str)] if isinstance(value, (list, tuple)) else []
    )
    return list(dict.fromkeys(filter(None, names)))


def score_documents(chunks: Sequence[Chunk], expected: Sequence[str]) -> DocumentScores | None:
    """The comparison; None when no document is expected.

    Names are compared without case and width. Their folders and the ending of their file count where both sides have
    them: "handbook" is hr/handbook.pdf, it/handbook.pdf is not. Ids are compared as they are.
    """
    if not expected:
        return None
    of_chunks = [[_read(name) for name in chunk.documents] for chunk in chunks]
    wanted = _put_together(expected, [name for names in of_chunks for name in names])
    hits = [[any(name.tells(one) for name in names) for names in of_chunks] for one in map(_read, wanted)]
    rank = next((rank for rank, found in enumerate(zip(*hits, strict=True), start=1) if any(found)), 0)
    missing = tuple(one for one, found in zip(wanted, hits, strict=True) if not any(found))
    recall = 1 - len(missing) / len(wanted)
    return DocumentScores(float(rank > 0), 1 / rank if rank else 0.0, recall, missing, len(wanted))


@dataclass(frozen=True)
class _Name:
    """A document's name or id in its parts; `ending` is "" where the name has none of a file."""

    exact: str
    folders: tuple[str, ...]
    stem: str
    ending: str

    def tells(self, other: "_Name") -> bool:
        """Whether both are names of the same document."""
        if self.exact == other.exact or any(re.fullmatch(_ID, name.exact, re.IGNORECASE) for name in (self, other)):
            return self.exact == other.exact
        depth = min(len(self.folders), len(other.folders))
        return (
            self.stem == other.stem
            and (not self.ending or not other.ending or self.ending == other.ending)
            and self.folders[len(self.folders) - depth :] == other.folders[len(other.folders) - depth :]
        )


def _read(name: str) -> _Name:
    *folders, base = [part.strip() for part in re.split(r"[/\\]", _key(name)) if part.strip()] or [_key(name)]
    stem, _, ending = base.rpartition(".")
    if not stem or not re.fullmatch(_ENDING, ending):
        stem, ending = base, ""
    return _Name(name, tuple(folders), stem, ending)


def _put_together(expected: Sequence[str], retrieved: Sequence[_Name]) -> list[str]:
    """The expected names, where a retrieved one holds commas that one instead of the pieces that it was cut into."""
    with_commas = [name.exact for name in retrieved if re.search(f"[{_SEPARATORS}]", name.exact)]
    names: list[str] = []
    start = 0
    while start < len(expected):
        wholes = ((_whole(expected[start:end], with_commas), end) for end in range(len(expected), start + 1, -1))
        whole, start = next((found for found in wholes if found[0]), (expected[start], start + 1))
        names.append(whole)
    return names


def _whole(pieces: Sequence[str], names: Sequence[str]) -> str:
    """The name whose pieces these are, "" when there is none."""
    joined = _squeezed("".join(pieces))
    return next((name for name in names if _squeezed(name).tells(joined)), "")


def _squeezed(name: str) -> _Name:
    return _read(re.sub(f"[{_SEPARATORS} ]", "", name))


def _key(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold().strip()
