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


def distinctions(text: str) -> list[str]:
    """What makes a text another one although nearly all its characters agree, in order.

    Numbers, also in Chinese numerals; the Latin words in a Japanese or Chinese text (「Aプラン」, 「Bプラン」); letters
    that stand alone in others ("plan B").
    """
    plain = unicodedata.normalize("NFKC", text).casefold()
    plain = re.sub(r"(?<=\d),(?=\d{3})", "", plain)
    words = r"[a-z]+" if re.search(_CJK, plain) else r"(?<![\w'’])[b-hj-z](?![\w'’])"
    return re.findall(rf"-?\d+(?:\.\d+)?|[{_KANJI_NUMERALS}]+|{words}", plain)
