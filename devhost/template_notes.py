"""Notes on a canvas as Dify's Studio exports them, as high as their text."""

import json
import math
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from devhost.template_nodes import Node, Place, placed

WIDTH = 640
# The largest size that Studio offers for notes; the smallest, its default, can't be read at a template's zoom.
FONT_PIXELS = 16
STYLE = f"font-size: {FONT_PIXELS}px;"
LINE_PIXELS = 24
# Studio's frame around the text: its bar, padding and border.
FRAME_HEIGHT = 30
FRAME_WIDTH = 26
# How wide a character of a Latin text is on average, in those of a Japanese one; and what is lost where lines break.
NARROW = 0.52
BREAKS = 1.06
BLOCK = {"direction": "ltr", "format": "", "indent": 0, "version": 1}

type Text = Mapping[str, Any]


def note(node_id: str, corner: tuple[int, int], text: Text, *, theme: str = "yellow", width: int = WIDTH) -> Node:
    """One note; `text` has a title and lines, and becomes the state of a Lexical editor, as JSON."""
    place = Place(*corner, height(text, width))
    return {
        "data": {
            "author": "RAG Evaluator",
            "desc": "",
            "height": place.height,
            "selected": False,
            "showAuthor": False,
            "text": json.dumps(lexical(text["title"], text["lines"]), ensure_ascii=False, separators=(",", ":")),
            "theme": theme,
            "title": "",
            "type": "",
            "width": width,
        },
        **placed(node_id, place, "custom-note", width),
    }


def height(text: Text, width: int = WIDTH) -> int:
    """What a note needs for its title and lines, in canvas pixels, with room for one line more (see tests/browser)."""
    room = (width - FRAME_WIDTH) / FONT_PIXELS
    lines = sum(math.ceil(_columns(line) * BREAKS / room) for line in (text["title"], *text["lines"]))
    return FRAME_HEIGHT + LINE_PIXELS * (lines + 1)


def _columns(line: str) -> float:
    """A line's width in full-width characters."""
    return sum(1 if unicodedata.east_asian_width(character) in "WFA" else NARROW for character in line)


def lexical(title: str, lines: Sequence[str]) -> dict[str, Any]:
    """A Lexical document: the title in bold, then one paragraph a line."""
    bold = 1
    paragraphs = [paragraph(title, bold), *(paragraph(line, 0) for line in lines)]
    return {"root": {**BLOCK, "children": paragraphs, "type": "root"}}


def paragraph(text: str, text_format: int) -> dict[str, Any]:
    """One paragraph of one text run; `text_format` is Lexical's bit field (1 is bold)."""
    run = {"detail": 0, "format": text_format, "mode": "normal", "style": STYLE, "text": text}
    run |= {"type": "text", "version": 1}
    return {**BLOCK, "children": [run], "textFormat": text_format, "textStyle": "", "type": "paragraph"}
