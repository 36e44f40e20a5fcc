"""A judge's yes or no, as it may write it."""

import re
import tomllib
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

# What may stand around a verdict without changing it: quotes, Markdown, a full stop, an emoji's variation.
_AROUND = " \t\r\n.。!,、\"'`*_「」『』“”‘’()[]【】\ufe0e\ufe0f"
_LONGEST = 1000
# What follows a verdict that a sentence begins with. "No doubt", "是否" and "正しいとは言えない" begin with none.
_AFTER_WORD = r"\s*(?:[,.;:!\-\u2013\u2014(「、。，．：；（]|\s[\-\u2013\u2014]\s)"
_AFTER_WIDE_WORD = rf"(?:{_AFTER_WORD}|\s)"
# "Yes the contexts say so".
_AFTER_YES_OR_NO = r"\s+(?=(?:the|it|this|that|these|because|since|as|there|they)\b)"
# "Verdict: yes", 「判定：はい」.
_LABELS = "verdict|answer|judge?ment|decision|判定|回答|答え|結果|结论|判断|判定结果|答案"
_LABEL = rf"[\s\"'*_「【\[]*(?:{_LABELS})[\s\"'*_」】\]]*[:=]\s*"
# "1. …" may be the first of a list, "0,5" is half, "1-2" a range.
_AFTER_NUMBER = r"\s*[:,(、，：（\-\u2013\u2014](?!\s*\d)"


def read_verdict(value: object) -> bool:
    """A judge's verdict as a boolean: a number, a word, a sign, or a sentence that begins with one of them.

    Raises:
        ValueError: anything that is neither a clear yes nor a clear no (2, -1, 0.5, null, "unknown", "Yes, but …").
    """
    if isinstance(value, (bool, int, float)) and value in (0, 1):
        return bool(value)
    if isinstance(value, str) and (found := _read(value)) is not None:
        return found
    raise ValueError("not a verdict")


@cache
def _words() -> Mapping[str, Sequence[str]]:
    data: Mapping[str, Sequence[str]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return data


@cache
def _beginnings() -> str:
    """A verdict and what must follow it, in a group that says which it is."""
    groups = []
    for name in ("yes", "no"):
        longest_first = sorted(_words()[name], key=len, reverse=True)
        numbers = [word for word in longest_first if word[0].isdigit()]
        wide = [word for word in longest_first if not word.isascii()]
        latin = [word for word in longest_first if word.isascii() and word not in numbers]
        forms = [
            f"(?:{_any(_words()[f'{name}_signs'])})\ufe0f?",
            f"(?:{_any(numbers)}){_AFTER_NUMBER}",
            f"(?:{_any(wide)}){_AFTER_WIDE_WORD}",
            rf"(?:{_any(latin)})(?:{_AFTER_WORD}|\s+by\b)",
            rf"{name}{_AFTER_YES_OR_NO}",
        ]
        groups.append(f"(?P<{name}>{'|'.join(forms)})")
    return "|".join(groups)


def _any(words: Sequence[str]) -> str:
    return "|".join(map(re.escape, words))


def _read(value: str) -> bool | None:
    """The verdict in a text, None when it is not clear."""
    first = _split(re.sub(rf"\A{_LABEL}", "", unicodedata.normalize("NFKC", value[:_LONGEST]).casefold()))
    if first is None:
        return None
    verdict, rest = first
    second = _split(rest)
    if second is not None and second[0] != verdict:
        return None
    words, own, other = _words(), *(("yes", "no") if verdict else ("no", "yes"))
    hedged = any(_says(rest, hedge) if verdict else rest.startswith(hedge) for hedge in words["hedges"])
    against = any(_says(rest, phrase) for phrase in [*words[f"against_{own}"], *words[f"{other}_signs"]])
    return None if hedged or against else verdict


def _split(text: str) -> tuple[bool, str] | None:
    """The verdict that a text is or begins with, and what stands behind it."""
    text = text.strip(_AROUND)
    for name in ("yes", "no"):
        if text in _words()[name] or text in _words()[f"{name}_signs"]:
            return name == "yes", ""
    match = re.match(_beginnings(), text)
    return None if match is None else (match.lastgroup == "yes", text[match.end() :].strip(_AROUND))


def _says(text: str, phrase: str) -> bool:
    return bool(re.search(rf"\b{re.escape(phrase)}\b", text)) if phrase.isascii() else phrase in text
