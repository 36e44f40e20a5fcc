"""Texts as they are compared: what people write differently without meaning another thing is taken away."""

import re
import unicodedata

# A point between digits and a minus before one tell numbers apart; they stand in for themselves while marks go.
_POINT, _MINUS = "\ue000", "\ue001"
_KEPT = frozenset("#%&@+" + _POINT + _MINUS)
_KANJI_NUMERALS = "〇一二三四五六七八九十百千万億"
_CJK = r"[\u3041-\u30ff\u3400-\u9fff]"


def fold(text: str) -> str:
    """The text as it is compared: NFKC, case folded, without white space and punctuation.

    Signs that tell things apart stay: # % & @ +, a point between digits, a minus before a digit.
    """
    plain = unicodedata.normalize("NFKC", text).casefold().replace("~", "")
    plain = re.sub(r"(?<=\d)\.(?=\d)", _POINT, plain)
    plain = re.sub(r"(?<!\w)-(?=\d)", _MINUS, plain)
    return "".join(char for char in plain if char in _KEPT or unicodedata.category(char)[0] not in "PZC")


def may_be_the_same(one: str, other: str) -> bool:
    """Whether nothing tells two texts apart that nearly all their characters agreeing would hide.

    Such are other numbers, also in Chinese numerals; other Latin words in two Japanese or Chinese texts
    (「Aプラン」, 「Bプラン」); another letter that stands alone ("plan B").
    """
    plain = [re.sub(r"(?<=\d),(?=\d{3})", "", unicodedata.normalize("NFKC", text).casefold()) for text in (one, other)]
    numbers = [re.findall(rf"-?\d+(?:\.\d+)?|[{_KANJI_NUMERALS}]+", text) for text in plain]
    if numbers[0] != numbers[1]:
        return False
    scripts = {bool(re.search(_CJK, text)) for text in plain}
    if scripts == {False}:
        # Without "a" and "I", which are words.
        letters = [re.findall(r"(?<![\w'’])[b-hj-z](?![\w'’])", text) for text in plain]
        return letters[0] == letters[1]
    names = [re.findall(r"[a-z]+", text) for text in plain]
    return scripts == {True, False} or not all(names) or names[0] == names[1]
