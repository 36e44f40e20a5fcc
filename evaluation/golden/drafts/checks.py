"""The checks of a draft's final text that need no judge. On plain texts."""

import re
import tomllib
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from rapidfuzz import fuzz, process

from evaluation.folding import fold, may_be_the_same
from evaluation.golden.drafts.passages import Passage, script_of
from evaluation.languages import Language, choose_language
from evaluation.metrics.scoring import cosines

SHORTEST_QUESTION, LONGEST_QUESTION, LONGEST_REFERENCE = 4, 300, 1000
# A shorter quote stands anywhere.
SHORTEST_QUOTE = 4
# Two questions with so much in common ask the same, unless a number or a name tells them apart.
SAME_CHARACTERS, SAME_MEANING = 88, 0.93
# So many of the known questions, the nearest by characters, are compared by meaning.
NEAREST = 20
# A shorter reference, such as "VPN", is in any language.
TELLING_LETTERS = 12
_NUMBER = r"\d+(?:\.\d+)?"


class Flaw(StrEnum):
    """Why a draft is thrown away."""

    INCOMPLETE = "incomplete"
    TOO_LONG = "too_long"
    WRONG_LANGUAGE = "wrong_language"
    POINTS_AT_PASSAGE = "points_at_passage"
    QUOTE_NOT_FOUND = "quote_not_found"
    NUMBER_NOT_QUOTED = "number_not_quoted"
    DUPLICATE = "duplicate"
    UNCLEAR = "unclear"
    NOT_SUPPORTED = "not_supported"
    ANSWERABLE = "answerable"
    JUDGE_FAILED = "judge_failed"


@dataclass(frozen=True)
class Draft:
    """A question with its reference, as it would be kept.

    Attributes:
        quotes: one for each passage that it was made from; none for a question that the documents do not answer.
    """

    question: str
    reference: str
    quotes: tuple[str, ...] = ()


@cache
def _data() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("checks.toml").read_text(encoding="utf-8"))


def not_told(language: Language) -> str:
    """The reference of a question that the documents do not answer."""
    return str(_data()["not_told"][language])


def flaw_of(draft: Draft, passages: Sequence[Passage], *, computed: bool = False) -> Flaw | None:
    """What is wrong with the text, None when nothing is.

    Args:
        passages: those that it was made from, in the order of its quotes.
        computed: the reference may hold numbers that are computed from the quoted ones, such as a difference.
    """
    told = not draft.quotes and draft.reference == not_told(passages[0].language)
    if len(fold(draft.question)) < SHORTEST_QUESTION or not draft.reference.strip():
        return Flaw.INCOMPLETE
    if len(draft.question) > LONGEST_QUESTION or len(draft.reference) > LONGEST_REFERENCE:
        return Flaw.TOO_LONG
    if not _same_language(draft, passages[0]):
        return Flaw.WRONG_LANGUAGE
    if points_at_passage(draft.question) or (not told and points_at_passage(draft.reference)):
        return Flaw.POINTS_AT_PASSAGE
    return None if told else _flaw_of_quotes(draft, passages, computed=computed)


def _flaw_of_quotes(draft: Draft, passages: Sequence[Passage], *, computed: bool) -> Flaw | None:
    if len(draft.quotes) != len(passages) or not all(draft.quotes):
        return Flaw.QUOTE_NOT_FOUND
    known = _numbers(" ".join([draft.question, *draft.quotes]))
    return None if computed or _numbers(draft.reference) <= known else Flaw.NUMBER_NOT_QUOTED


def _same_language(draft: Draft, passage: Passage) -> bool:
    """Whether question and reference are in the passage's language, as far as script tells."""
    texts = [draft.question, *([draft.reference] if _letters(draft.reference) >= TELLING_LETTERS else [])]
    for text in texts:
        if choose_language(None, text, draft.reference, draft.question) != passage.language:
            return False
        # What is no Japanese and no Chinese counts as English here, whatever it is.
        if passage.language == "en" and script_of(text) not in {passage.script, ""}:
            return False
    return True


def _letters(text: str) -> int:
    return sum(char.isalpha() for char in text)


def points_at_passage(text: str) -> bool:
    """Whether a text speaks of the passage as of something that its reader has before him."""
    plain = unicodedata.normalize("NFKC", text)
    return any(re.search(pattern, plain) for pattern in _data()["pointing"])


def _numbers(text: str) -> set[str]:
    plain = re.sub(r"(?<=\d),(?=\d{3})", "", unicodedata.normalize("NFKC", text))
    return {number.lstrip("0") or "0" for number in re.findall(_NUMBER, plain)}


def find_quote(quote: str, text: str) -> str:
    """The stretch of the text that the quote was copied from, as the text has it; "" when it is not there.

    White space, width, case and punctuation may differ.
    """
    wanted = fold(quote)
    if len(wanted) < SHORTEST_QUOTE or wanted not in fold(text):
        return ""
    if quote.strip() in text:
        return quote.strip()
    sentences = [part for part in re.split(r"(?<=[。．.！？!?\n])", text) if part.strip()]
    for length in range(1, len(sentences) + 1):
        for start in range(len(sentences) - length + 1):
            stretch = "".join(sentences[start : start + length])
            if wanted in fold(stretch):
                return stretch.strip()
    return text.strip()


class Known:
    """The questions that are there already, to tell a new one that asks the same."""

    def __init__(self) -> None:
        self._questions: list[str] = []
        self._facts: set[tuple[str, ...]] = set()
        self._vectors: dict[str, Sequence[float]] = {}

    def add(self, draft: Draft, kind: str) -> None:
        """Takes one in; without quotes it is known by its question alone."""
        self._questions.append(draft.question)
        if draft.quotes:
            self._facts.add(_fact(draft, kind))

    def has(
        self, draft: Draft, kind: str, embed: Callable[[Sequence[str]], Sequence[Sequence[float]]] | None = None
    ) -> bool:
        """Whether one of them asks the same: in the same or other words, or of the same kind for the same answer.

        Questions that differ in a number or a name are never taken for one another.

        Args:
            embed: texts -> vectors; with it, other words for the same are known too.

        Raises:
            EvaluationError: from `embed`, or embedding_invalid.
        """
        if _fact(draft, kind) in self._facts:
            return True
        others = [question for question in self._questions if may_be_the_same(draft.question, question)]
        ranked = process.extract(_core(draft.question), list(map(_core, others)), scorer=fuzz.ratio, limit=NEAREST)
        if any(score >= SAME_CHARACTERS for _, score, _ in ranked):
            return True
        near = [others[place] for _, _, place in ranked]
        if embed is None or not near:
            return False
        missing = [text for text in dict.fromkeys([draft.question, *near]) if text not in self._vectors]
        self._vectors |= dict(zip(missing, embed(missing), strict=True))
        return max(cosines(self._vectors[draft.question], [self._vectors[text] for text in near])) >= SAME_MEANING


def _core(question: str) -> str:
    return re.sub(_data()["endings"], "", fold(question))


def _fact(draft: Draft, kind: str) -> tuple[str, ...]:
    return (kind, fold(draft.reference), *map(fold, draft.quotes))
