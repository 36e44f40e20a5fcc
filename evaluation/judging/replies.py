"""Model text -> JSON values -> a reply of the right shape.

Judges wrap their JSON in reasoning, fences and chatter, quote what they were given, cut it off, or write it with
the wrong quotes. The last value that has the shape asked for wins; a part of a larger value is never taken for the
whole.
"""

import json
import re
import unicodedata
from dataclasses import dataclass
from typing import Annotated, Any

import json_repair
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from evaluation.judging.verdict_words import read_verdict
from evaluation.judging.wrappers import unwrapped
from evaluation.reasoning import spoken

_CLOSERS = {"{": "}", "[": "]"}
# A judge may babble without end; its reply stands at the end of what it says.
READ_CHARACTERS = 40_000
_MOST_CANDIDATES = 100
# Replies are two or three deep; what goes deeper is babble, and reading it as JSON takes minutes.
_DEEPEST = 12
_DEEP_CHARACTERS = 4000
_TOO_DEEP = r"(?:[{\[｛［][^{}\[\]｛｝［］]*)" + f"{{{_DEEPEST + 1}}}"
# What may close a string that a quote opened: judges mix straight and typographic ones.
_QUOTES = {'"': '"”＂', "“": '”"', "”": '”"', "＂": '＂"', "'": "'’", "‘": "’'"}
_STRAIGHT = str.maketrans("“”＂", '"""')
_FULL_WIDTH = str.maketrans("｛｝［］", "{}[]")


def _read_text(value: object) -> str:
    """A reason or kind is never worth losing a verdict for."""
    return value if isinstance(value, str) else ""


def _read_grade(value: object) -> int:
    number = float(unicodedata.normalize("NFKC", value)) if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, (int, float)) or number not in (0, 1, 2, 3):
        raise ValueError("not a grade from 0 to 3")
    return int(number)


def _read_id(value: object) -> int:
    number = float(unicodedata.normalize("NFKC", value)) if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not number.is_integer():
        raise ValueError("not an id")
    return int(number)


def _read_sentence(value: object) -> str:
    """A sentence, given as text or as an object with one text in it."""
    if isinstance(value, dict):
        texts = [item for item in value.values() if isinstance(item, str)]
        value = texts[0] if len(texts) == 1 else value.get("statement", value.get("text"))
    if not isinstance(value, str) or not value.strip():
        raise ValueError("not a sentence")
    return value.strip()


YesNo = Annotated[bool, BeforeValidator(read_verdict)]
Text = Annotated[str, BeforeValidator(_read_text)]
Id = Annotated[int, BeforeValidator(_read_id)]
Sentence = Annotated[str, BeforeValidator(_read_sentence)]


class Item(BaseModel):
    """One element of a reply's list, or a whole reply without a list."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Judgement(Item):
    """{"reason", "verdict"}: one chunk or one claim."""

    reason: Text = ""
    verdict: YesNo


class JudgementOf(Judgement):
    """{"id", "reason", "verdict"}: one of several, matched by id. `kind` tells why a claim is not supported."""

    id: Id
    kind: Text = ""


class Part(Judgement):
    """{"text", "reason", "verdict"}: a part of the reference."""

    text: Sentence


class UnjudgedPart(Item):
    """A part whose verdict can't be read; its text is kept and asked about again."""

    text: Sentence


class Question(Item):
    """{"question", "noncommittal"}: a question that the answer would answer."""

    question: Text
    noncommittal: YesNo


class Grade(Item):
    """{"id", "reason", "grade"}: 0 another question to 3 the same question."""

    id: Id
    reason: Text = ""
    grade: Annotated[int, BeforeValidator(_read_grade)]


class Statement(Item):
    """A statement of the answer or the reference."""

    text: Sentence


@dataclass(frozen=True)
class Shape[T: Item]:
    """What a prompt's reply looks like.

    Args:
        item: the model of an element, or of the whole reply when `key` is "".
        key: the name of the reply's list.
        fallback: a smaller model, tried for an element that `item` refuses, so that what it does say is not lost.
        bare: elements are plain texts.
    """

    item: type[T]
    key: str = ""
    fallback: type[Item] | None = None
    bare: bool = False


@dataclass(frozen=True)
class Reply[T: Item]:
    """A reply that had the right shape.

    Attributes:
        items: the valid elements in order (one for a reply without a list).
        incomplete: elements that only `Shape.fallback` could read.
        invalid: how many elements were left out because they could not be read.
        cut: the reply ended in the middle; what was complete is kept.
    """

    items: tuple[T, ...]
    incomplete: tuple[Any, ...] = ()
    invalid: int = 0
    cut: bool = False


def read_reply[T: Item](text: str, shape: Shape[T], *, wrapped: bool = False) -> Reply[T] | None:
    """The last value in the text that has the shape, or None.

    Args:
        wrapped: a list without its wrapper is not taken, because another list was asked for with it.
    """
    said = spoken(_unquoted(text), "json").text
    for candidate in reversed(_candidates(said[-READ_CHARACTERS:])[-_MOST_CANDIDATES:]):
        value = _repair(candidate.broken) if candidate.broken else candidate.value
        for inner in unwrapped(value):
            reply = None if wrapped and isinstance(inner, list) else _fit(inner, shape, candidate.cut)
            if reply is not None:
                return reply
    return None


def _fit[T: Item](value: object, shape: Shape[T], cut: bool) -> Reply[T] | None:
    if not shape.key:
        if not isinstance(value, dict) or not shape.item.model_fields.keys() & value.keys() - {"reason"}:
            return None
        try:
            return Reply((shape.item.model_validate(value),), cut=cut)
        except ValidationError:
            return Reply((), invalid=1, cut=cut)
    # A list without its wrapper is the whole reply too, as small judges like to write it.
    elements = value.get(shape.key) if isinstance(value, dict) else value
    if not isinstance(elements, list):
        return None
    items: list[T] = []
    incomplete: list[Item] = []
    invalid = 0
    for element in elements:
        fields = {"text": element} if shape.bare else element
        try:
            items.append(shape.item.model_validate(fields))
        except ValidationError:
            rest = _fallback(fields, shape)
            if rest is None:
                invalid += 1
            else:
                incomplete.append(rest)
    if not isinstance(value, dict) and not items:
        return None
    return Reply(tuple(items), tuple(incomplete), invalid, cut)


def _fallback(fields: object, shape: Shape[Any]) -> Item | None:
    if shape.fallback is None:
        return None
    try:
        return shape.fallback.model_validate(fields)
    except ValidationError:
        return None


@dataclass(frozen=True)
class _Candidate:
    """A JSON value in a text, or the broken text of one; `cut` when it ended in the middle."""

    value: object = None
    broken: str = ""
    cut: bool = False


def _candidates(text: str) -> list[_Candidate]:
    """What may be a reply, in order."""
    found: list[_Candidate] = []
    decoder = json.JSONDecoder()
    position = 0
    for match in re.finditer(r"[{\[｛［]", text):
        start = match.start()
        if start < position:
            continue
        position = match.end()
        if re.match(_TOO_DEEP, text[start : start + _DEEP_CHARACTERS]):
            continue
        try:
            # From a slice, because a decoder's error counts all lines before it: seconds over a long reply in brackets.
            value, length = decoder.raw_decode(text[start:])
            position = start + length
            found.append(_Candidate(value))
        except (ValueError, RecursionError):
            segment = _segment(text, start)
            if segment is not None:
                position = segment.end
                found.append(_Candidate(broken=segment.text, cut=segment.cut))
    return found


def _unquoted(text: str) -> str:
    """The text, or the JSON in it when it was encoded twice (a JSON string that holds an object)."""
    if not text.lstrip().startswith('"'):
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, str) else text


def _repair(text: str) -> object:
    """The value of broken JSON, after full-width punctuation between its elements was made plain."""
    if '"' not in text:
        text = text.translate(_STRAIGHT)
    text = re.sub(r"(?<=[\"}\]\w])(\s*[：，]\s*)(?=[\"{\[\w-])", _plain, text)
    text = re.sub(r":\s*[０-９]+(?=\s*[,，}\]])", _plain, text)
    # A choice that was copied from the form asked for ("verdict": 0 or 1) is repaired into its first number.
    text = re.sub(r"(?<=:)\s*(\d\s*(?:or|または|か|或|\|)\s*\d)(?=\s*[,}\]])", r'"\1"', text)
    value = json_repair.loads(text)
    # A cut-off object such as {"statements" is repaired into a list of its key.
    return value if isinstance(value, dict if text[0] == "{" else list) else None


def _plain(match: re.Match[str]) -> str:
    return unicodedata.normalize("NFKC", match.group())


@dataclass(frozen=True)
class _Segment:
    text: str
    end: int
    cut: bool


def _segment(text: str, start: int) -> _Segment | None:
    """The stretch of broken JSON that begins at `start`, its brackets closed; None when it is only prose in brackets.

    Its text is empty when it is babble, or cut off inside its only element: what is left of that must not be read.
    """
    if not re.match(r"[{\[｛［]\s*([\"'“”‘＂{\[｛［]|\w+\s*[:：])", text[start : start + 100]):
        return None
    brackets = _Brackets()
    position = start
    while position < len(text):
        if text[position] == "\\" and brackets.quote:
            position += 1
        elif brackets.read(text[position], text[position + 1 : position + 100], position + 1):
            return _Segment(text[start : position + 1].translate(_FULL_WIDTH), position + 1, cut=False)
        if brackets.depth > _DEEPEST:
            return _Segment("", position + 1, cut=True)
        position += 1
    return brackets.closed(text, start)


class _Brackets:
    """Follows brackets and quotes through broken JSON.

    A quote ends a string only where something follows that may follow a string in JSON, so that quotes inside a reason
    do not end it.
    """

    def __init__(self) -> None:
        self.quote = ""
        self._open: list[str] = []
        self._safe_end, self._safe_open = 0, list[str]()
        self._pair_end = 0

    @property
    def depth(self) -> int:
        return len(self._open)

    def read(self, char: str, rest: str, end: int) -> bool:
        """Takes the next character, what follows it and the position behind it; True when it closes the whole."""
        char = char.translate(_FULL_WIDTH)
        if self.quote:
            if char in self.quote and re.match(r"\s*([,:}\]，：｝］]|\Z)", rest):
                self.quote = ""
                self._element_ends(end)
        elif char in _QUOTES:
            self.quote = _QUOTES[char]
        elif char in ",，" and len(self._open) == 1:
            self._pair_end = end - 1
        elif char in _CLOSERS:
            self._open.append(_CLOSERS[char])
        elif char in self._open:
            # A closer of the wrong kind closes what was left open inside it.
            while self._open.pop() != char:
                pass
            self._element_ends(end)
            return not self._open
        return False

    def _element_ends(self, end: int) -> None:
        if self._open and self._open[-1] == "]":
            self._safe_end, self._safe_open = end, list(self._open)

    def closed(self, text: str, start: int) -> _Segment:
        """The text whose end is missing, up to its last complete list element, or without a list to its last value."""
        if self._safe_end:
            # Only a list that was closed, with no further key after it, is known to be complete.
            rest = text[self._safe_end :].translate(_FULL_WIDTH)
            cut = not re.match(r"[\s,，]*\](?!\s*[,，])", rest)
            whole, brackets = text[start : self._safe_end], self._safe_open
        elif "]" in self._open or (self.quote and not self._pair_end):
            return _Segment("", len(text), cut=True)
        elif self.quote:
            cut, whole, brackets = True, text[start : self._pair_end], ["}"]
        else:
            cut, whole, brackets = False, text[start:], self._open
        return _Segment(whole.translate(_FULL_WIDTH) + "".join(reversed(brackets)), len(text), cut)
