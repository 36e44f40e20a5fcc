"""The checks of a draft's final text that need no judge. On plain texts."""

import re
import tomllib
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from rapidfuzz import fuzz, process

from evaluation.folding import fold, may_be_the_same
from evaluation.golden.drafts.passages import Passage, pairs_of, script_of, title_line
from evaluation.languages import Language, choose_language
from evaluation.metrics.scoring import cosines

SHORTEST_QUESTION, LONGEST_QUESTION, LONGEST_REFERENCE = 4, 300, 1000
# A shorter quote stands anywhere.
SHORTEST_QUOTE = 4
# Where the quote is looked for in the judge's place: so many sentences, which share so much with the reference.
QUOTED_SENTENCES, LEAST_SHARE = 2, 0.5
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
    NOT_A_QUESTION = "not_a_question"
    TOO_GENERAL = "too_general"
    OTHER_KIND = "other_kind"
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


def flaw_of(draft: Draft, passages: Sequence[Passage], kind: str = "") -> Flaw | None:
    """What is wrong with the text, None when nothing is.

    Args:
        passages: those that it was made from, in the order of its quotes.
        kind: as which it was made. The reference of a comparison may hold numbers that are computed from the quoted
            ones, such as a difference; that of a false premise must put it right.
    """
    told = not draft.quotes and draft.reference == not_told(passages[0].language)
    if len(fold(draft.question)) < SHORTEST_QUESTION or not draft.reference.strip():
        return Flaw.INCOMPLETE
    if len(draft.question) > LONGEST_QUESTION or len(draft.reference) > LONGEST_REFERENCE:
        return Flaw.TOO_LONG
    flaws = {
        Flaw.WRONG_LANGUAGE: not _same_language(draft, passages[0]),
        Flaw.POINTS_AT_PASSAGE: points_at_passage(draft.question) or (not told and points_at_passage(draft.reference)),
        Flaw.NOT_A_QUESTION: _is_statement(draft.question, passages),
        Flaw.TOO_GENERAL: is_too_general(draft.question),
        Flaw.UNCLEAR: _says("dangling", draft.question),
        Flaw.OTHER_KIND: kind == "false_premise" and not _says("correcting", draft.reference),
    }
    found = next((flaw for flaw, holds in flaws.items() if holds), None)
    return found if found or told else _flaw_of_quotes(draft, passages, kind)


def _flaw_of_quotes(draft: Draft, passages: Sequence[Passage], kind: str) -> Flaw | None:
    if len(draft.quotes) != len(passages) or not all(draft.quotes):
        return Flaw.QUOTE_NOT_FOUND
    known = _numbers(" ".join([draft.question, *draft.quotes]))
    quoted = kind == "comparison" or _numbers(draft.reference) <= known
    return None if quoted else Flaw.NUMBER_NOT_QUOTED


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
    return _says("pointing", text)


def is_too_general(question: str) -> bool:
    """Whether a question fits any text on its subject, so that no one answer is the right one."""
    return _says("general", question)


def _says(patterns: str, text: str) -> bool:
    plain = unicodedata.normalize("NFKC", text).strip()
    return any(re.search(pattern, plain) for pattern in _data()[patterns])


def _is_statement(question: str, passages: Sequence[Passage]) -> bool:
    """Whether it was copied from a passage, or ends as no question and no request does."""
    if any(fold(question) in fold(passage.text) for passage in passages):
        return True
    return question.strip().endswith("。") and not re.search(
        r"(?:か|ください|下さい|教えて|たい|吗|呢)。$", question.strip()
    )


def _numbers(text: str) -> set[str]:
    plain = re.sub(r"(?<=\d),(?=\d{3})", "", unicodedata.normalize("NFKC", text))
    return {number.lstrip("0") or "0" for number in re.findall(_NUMBER, plain)}


def find_quote(quote: str, text: str) -> str:
    """The stretch of the text that the quote was copied from, as the text has it; "" when it is not there.

    White space, width, case and punctuation may differ. A title bears nothing out and is no quote.
    """
    title = title_line(text)
    wanted = fold(quote.strip().removeprefix(title)).removeprefix(fold(title))
    text = text.strip().removeprefix(title).strip()
    if len(wanted) < SHORTEST_QUOTE or wanted not in fold(text):
        return ""
    if quote.strip() in text:
        return quote.strip()
    return next((stretch for stretch in _stretches(text) if wanted in fold(stretch)), text.strip())


def bearing_quote(quote: str, text: str, draft: Draft) -> str:
    """The stretch of the text that bears the draft's reference out; "" when there is none.

    That is what was quoted, unless it lacks a number of the reference: judges often copy the sentence beside the right
    one. Then it is the one or two sentences that have the numbers and most in common with the reference.
    """
    found = find_quote(quote, text)
    numbers = _numbers(draft.reference) - _numbers(draft.question)
    if found and numbers <= _numbers(found):
        return found
    wanted = pairs_of(draft.reference)
    shares = {
        stretch: len(wanted & pairs_of(stretch)) / max(1, len(wanted))
        for stretch in _stretches(text.strip().removeprefix(title_line(text)), QUOTED_SENTENCES)
        if numbers <= _numbers(stretch)
    }
    # Of those that have as much in common the shortest, which comes first.
    best = max(shares, key=lambda stretch: shares[stretch], default="")
    return best if best and shares[best] >= LEAST_SHARE else found


def _stretches(text: str, longest: int | None = None) -> Iterator[str]:
    """Neighbouring sentences of the text: each alone, then two at a time, and so on."""
    sentences = [part for part in re.split(r"(?<=[。．！？!?\n])|(?<=\.)(?=\s)", text) if part.strip()]
    for length in range(1, min(longest or len(sentences), len(sentences)) + 1):
        for start in range(len(sentences) - length + 1):
            yield "".join(sentences[start : start + length]).strip()


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
