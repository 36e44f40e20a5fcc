"""What a model thought aloud, told from what it says: one reader for judges' replies and for bots' answers.

A thought stands between two marks (<think>, <thought>, [THINK], ◁think▷, <|channel|>analysis …) or is folded in
<details>, as older Dify shows it. What follows a mark that is never closed is thought too; so is all that stands before
a closing mark without an opening one. Time is linear in the length of the text.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

_NAME = (
    r"(?:[a-z][a-z0-9]*[:_-]|ant|lobe|deep)?(?:think(?:ing)?|thoughts?|reasoning|reflection|scratch_?pad|chain_?of_?thought"
    r"|inner_?(?:thoughts?|monologue))(?:[_-](?:process|content|fast))?"
)
_WORD = r"(?:think(?:ing)?|thoughts?|reasoning)"
# Models with channels: what they say in the channel `final` is the answer.
_STARTED = r"(?:<\|start\|>\s*(?:assistant\s*)?)?<\|channel\|>\s*"
_HEADED = r"(?:[^<]{0,80}(?:<\|constrain\|>[^<]{0,40})?<\|message\|>)?"
_ENDED = r"<\|(?:end|return|call)\|>"
# The fold of a thought: by its type, or by what its summary says.
_SUMMARY = (
    r"(?:deep(?:ly)?\s+)?(?:think(?:ing)?|thoughts?|reason(?:ed|ing))(?:\s+(?:process|time|for\b[^<]{0,30}))?"
    r"|chain\s+of\s+thought|(?:已|正在)?(?:深度)?思考(?:中|過程|过程|プロセス|内容|時間|时间|完了|完成|了)?|推理(?:過程|过程)|考え中"
)
_DETAILS = (
    r"<details\b[^<>]*\btype\s*=\s*[\"']?(?:reasoning|thinking)\b[^<>]*>"
    rf"|<details\b[^<>]*>\s*<summary\b[^<>]*>(?:\s|[^\w\s<])*(?:{_SUMMARY})(?:[^\w<]|\d|s\b|秒)*</summary>"
)
_MARKS = (
    # Opens a thought.
    rf"(?P<open>[<＜]\s*(?:{_NAME})(?:\s[^<>]*)?(?<!/)[>＞]|(?P<square>\[\s*{_WORD}\s*\])|◁\s*{_WORD}\s*▷"
    rf"|<\|(?:(?:begin|start)_(?:of_)?)?{_WORD}(?:_start)?\|>|<\|channel\|?>\s*(?:thought|thinking)|<unused94>)"
    # Closes one.
    rf"|(?P<close>[<＜]\s*/\s*(?:{_NAME})\s*[>＞]|\[\s*/\s*{_WORD}\s*\]|◁\s*/\s*{_WORD}\s*▷"
    rf"|<\|(?:/|end_(?:of_)?){_WORD}\|>|<\|{_WORD}_end\|>|<channel\|>|<unused95>|{_STARTED}final{_HEADED})"
    rf"|(?P<details>{_DETAILS})"
    rf"|(?P<channel>{_STARTED}(?:analysis|commentary){_HEADED}|\A\s*(?:analysis|commentary)\s*<\|message\|>)"
    # Says nothing.
    rf"|(?P<token>{_ENDED}|<\|start\|>\s*(?:assistant)?(?:<\|message\|>)?|<\s*(?:{_NAME})\s*/>)"
)
# A pattern of its own, because the places to look at begin anywhere in a text.
_pattern: Callable[[str], re.Pattern[str]] = partial(re.compile, flags=re.IGNORECASE | re.MULTILINE | re.DOTALL)
_ANY = _pattern(_MARKS)
_FOLDS = _pattern(r"<(?P<close>/)?\s*details\b[^<>]*>")
_CHANNEL_ENDS = _pattern(rf"{_ENDED}|(?=<\|start\|>|<\|channel\|>)")
_SQUARE_CLOSE = _pattern(rf"\[\s*/\s*{_WORD}\s*\]")
# Where marks may stand that are only talked about.
_OUTSIDE = {
    "code": _pattern(rf"(?P<fence>^[ \t>]*(?:```|~~~)[^\n]*)|(?P<quoted>`[^`\n]+`)|{_MARKS}"),
    "json": _pattern(
        r"(?P<quoted>[\[{,:]\s*(?:\"[^\"\\]*(?:\\.[^\"\\]*)*\"|'[^'\\]*(?:\\.[^'\\]*)*')(?=\s*[,:}\]]))" + f"|{_MARKS}"
    ),
}
_FENCE_ENDS = {mark: _pattern(rf"^[ \t>]*{mark}") for mark in ("```", "~~~")}
_QUOTES = frozenset({"``", "「」", "『』", "“”", '""', "''"})
_CALLED = _pattern(r" ?(?:(?:tags?|blocks?)\b|タグ|ブロック|标签|標籤|标记)")
# Names that other things have too, marks that were escaped, fences: a thought only at the beginning.
_LESS_CLEAR = (
    r"analysis|cot|reason|internal|ponder(?:ing)?|deliberation|self_?reflection|(?:思考|推理|推論|推论)\w{0,6}"
)
# What a judge calls so is not its reply; a bot may well be asked for one.
_NO_REPLY = rf"{_LESS_CLEAR}|draft|plan(?:ning)?|rationale|work(?:ings?)?|notes?"
_LESS_THAN, _GREATER_THAN = r"(?:[<＜]|\\<|&lt;)", r"(?:\\?[>＞]|&gt;)"
_FIRST = {
    quoting: _pattern(
        rf"\s*(?:(?:{_LESS_THAN}\s*(?P<name>{names})|(?:\\<|&lt;)\s*(?P<escaped>{_NAME}))(?:\s[^<>&]*)?{_GREATER_THAN}"
        rf"|(?P<fence>```|~~~)\s*{_WORD}\s*$)"
    )
    for quoting, names in (("code", _LESS_CLEAR), ("json", _NO_REPLY))
}
# The channels' tokens in plain letters, as servers leave them that drop the tokens themselves.
_PLAIN_ANALYSIS, _PLAIN_FINAL = r"\s*analysis(?=\S)", "assistantfinal"

Quoting = Literal["code", "json"]


@dataclass(frozen=True)
class Spoken:
    """A text without its thoughts.

    Attributes:
        text: what is said.
        thought: whether anything was left out.
        unfinished: the text ends inside a thought, so that the model has not come to its answer.
    """

    text: str
    thought: bool = False
    unfinished: bool = False

    @property
    def only_thought(self) -> bool:
        """Whether there was nothing but thoughts."""
        return self.thought and not self.text.strip()


def spoken(text: str, quoting: Quoting = "code") -> Spoken:
    """What a text says.

    Args:
        quoting: where a mark is only talked about: in "code" (Markdown), or in the strings of "json".
    """
    said = _after_plain_analysis(text, quoting)
    said = said and _after_first(said, quoting)
    if said is None:
        return Spoken("", thought=True, unfinished=True)
    marked = _Marked(said)
    kept: list[str] = []
    start = position = 0
    thought = said is not text
    while match := _OUTSIDE[quoting].search(said, position):
        position = match.end()
        kind = match.lastgroup
        if kind == "fence":
            closing = _FENCE_ENDS[match.group().strip(" \t>")[:3]].search(said, position)
            position = closing.end() if closing else position
        elif kind != "quoted" and marked.means(match):
            kept.append(said[start : match.start()])
            thought = True
            if kind == "close":
                kept.clear()
            elif kind != "token":
                end = marked.end_of(match)
                if end is None:
                    return Spoken("".join(kept), thought, unfinished=True)
                position = end
            start = position
    return Spoken("".join([*kept, said[start:]]) if thought else text, thought)


def _after_first(text: str, quoting: Quoting) -> str | None:
    """The text behind a thought that it begins with, where its mark is less clear; None when a judge's is not closed.

    Where a bot says nothing behind it, it is what the bot says.
    """
    opening = _FIRST[quoting].match(text)
    if opening is None:
        return text
    name = opening["name"] or opening["escaped"]
    closing = rf"{_LESS_THAN}\s*/\s*{re.escape(name)}\s*{_GREATER_THAN}" if name else rf"^\s*{opening['fence']}"
    end = _pattern(closing).search(text, opening.end())
    rest = text[end.end() :] if end else ""
    if quoting == "code" and not rest.strip():
        return text
    return rest if end else None


def _after_plain_analysis(text: str, quoting: Quoting) -> str | None:
    """The text behind a channel of thought whose tokens were dropped; None when nothing follows it."""
    match = re.match(_PLAIN_ANALYSIS, text)
    if match is None:
        return text
    _, found, answer = text.rpartition(_PLAIN_FINAL)
    if found:
        return answer
    first = text[match.end()]
    # A bot may say something of an analysis, a judge begins with no word that the next one follows so closely.
    return None if (first.isalpha() if quoting == "json" else first.isascii() and first.isupper()) else text


class _Marked:
    """A text in which marks were found."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._beginning = len(text) - len(text.lstrip())
        self._last_square = max((match.end() for match in _SQUARE_CLOSE.finditer(text)), default=0)

    def means(self, mark: re.Match[str]) -> bool:
        """Whether a mark is one, and is not only talked about: in quotation marks, or called a tag."""
        start, end = mark.span()
        if self._text[start - 1 : start] + self._text[end : end + 1] in _QUOTES:
            return False
        if not mark["open"] or start <= self._beginning:
            return True
        # In small letters it may be a word in brackets, unless something closes it.
        if mark["square"] and not mark.group().isupper() and self._last_square <= end:
            return False
        return _CALLED.match(self._text, end) is None

    def end_of(self, opening: re.Match[str]) -> int | None:
        """Where the thought ends that a mark opens; None when it does not."""
        if opening["channel"]:
            end = _CHANNEL_ENDS.search(self._text, opening.end())
            return end.end() if end else None
        folded = bool(opening["details"])
        depth, last = 1, opening.end()
        for mark in (_FOLDS if folded else _ANY).finditer(self._text, opening.end()):
            if not folded and not self.means(mark):
                continue
            if mark["close"]:
                depth -= 1
            elif folded or mark["open"]:
                # A template opens the thought, and the model opens it once more: that is one thought.
                depth += folded or bool(self._text[last : mark.start()].strip())
                last = mark.end()
            if not depth:
                return mark.end()
        return None
