"""The passages that questions are drafted from."""

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evaluation.folding import fold
from evaluation.judging.windows import split_text
from evaluation.languages import Language, choose_language
from evaluation.sample import Chunk

# A passage longer than this makes questions about anywhere in it; a text that was given whole is taken apart.
PASSAGE_CHARACTERS = 1500
# Below this there is nothing to ask but what the title says: a heading, a page number. A Japanese or Chinese character
# says as much as two and a half letters.
LEAST_LETTERS = 75
TITLE_CHARACTERS = 80
_CJK = r"[\u3041-\u30ff\u3400-\u9fff]"
_CJK_LETTERS = 2.5


@dataclass(frozen=True)
class Passage:
    """A chunk, or a part of one that is long.

    Attributes:
        document: the document's name, "" when it is not known.
        language: in which its questions are asked for: that of its document.
        script: the script of most of its letters, which tells apart what `language` does not: "LATIN", "HANGUL".
        about: the document's title, for passages that do not say themselves what they are about; else "".
    """

    text: str
    document: str
    language: Language
    script: str
    about: str = ""

    @property
    def key(self) -> str:
        """A name for it that stays the same between two calls."""
        return hashlib.sha256(f"{self.document}\n{self.text}".encode(errors="replace")).hexdigest()[:16]


def read_passages(chunks: Iterable[Chunk]) -> tuple[list[Passage], int]:
    """The passages of the chunks, each once, and how many were left out for holding next to nothing."""
    parts = {
        (part.strip(), chunk.title): None for chunk in chunks for part in split_text(chunk.text, PASSAGE_CHARACTERS)
    }
    whole: dict[str, list[str]] = {}
    for text, document in parts:
        whole.setdefault(document, []).append(text)
    kept = [(text, document) for text, document in parts if _letters(text) >= LEAST_LETTERS]
    passages = []
    for text, document in kept:
        # A single passage may hold no kana; its document tells.
        texts = whole[document] if document else [text]
        title = title_of(texts[0], document)
        about = "" if title in text else title
        passages.append(Passage(text, document, choose_language(None, " ".join(texts)), script_of(text), about))
    return passages, len(parts) - len(kept)


def title_of(text: str, document: str) -> str:
    """What a document calls itself in its first line; without such a line its name as a person would say it."""
    first = title_line(f"{text}\n.").strip("#*= \t")
    return first or re.sub(r"\.[A-Za-z0-9]{1,5}$", "", document.rsplit("/", 1)[-1])


def title_line(text: str) -> str:
    """The title that a text begins with; "" without one, and for a text of a single line."""
    first, _, rest = text.strip().partition("\n")
    is_title = len(first) <= TITLE_CHARACTERS and not re.search(r"[。．.！？!?]$", first.strip())
    return first if is_title and rest.strip() else ""


def _letters(text: str) -> float:
    folded = fold(text)
    return len(folded) + (_CJK_LETTERS - 1) * len(re.findall(_CJK, folded))


def script_of(text: str) -> str:
    """The script of most of a text's letters, as Unicode names it; "" without letters. Kana count as CJK."""
    letters = [char for char in text if char.isalpha()]
    names = Counter(unicodedata.name(char, "?").split()[0] for char in letters)
    for kana in ("HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"):
        names["CJK"] += names.pop(kana, 0)
    return names.most_common(1)[0][0] if letters else ""


def pairs_of(text: str) -> frozenset[str]:
    """The pairs of neighbouring characters, by which texts in any language can be compared."""
    folded = fold(text)
    return frozenset(folded[start : start + 2] for start in range(len(folded) - 1))


def nearest(text: str, passages: Sequence[Passage], count: int) -> list[Passage]:
    """The passages that hold most of a text's pairs of characters, the nearest first."""
    wanted = pairs_of(text)
    ranked = sorted(passages, key=lambda passage: -len(wanted & pairs_of(passage.text)))
    return ranked[:count]
