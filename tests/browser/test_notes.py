"""The notes of the templates, as Studio shows them at the templates' zoom."""

import html
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.browser.browser import Browser

WORKFLOWS = Path(__file__).parents[2] / "workflows"
NAMES = sorted(path.name for path in WORKFLOWS.glob("*.yml"))
# Studio's note: a coloured bar, then a frame that scrolls; a paragraph is 12px unless its text says otherwise.
STYLE = """
body { margin: 0; font-family: Inter, "Noto Sans", "Noto Sans CJK JP", sans-serif; line-height: 1.5 }
.note { box-sizing: border-box; border: 1px solid #ddd; display: flex; flex-direction: column }
.bar { height: 8px; flex-shrink: 0 }
.text { flex: 1; overflow-y: auto; padding: 10px 12px }
p { margin: 0; font-size: 12px }
"""
LEAST_PIXELS = 12
# Room for a font that runs a little wider, but no hole.
SPARE = (0, 75)


def notes(name: str) -> Iterator[dict[str, Any]]:
    document = yaml.safe_load((WORKFLOWS / name).read_text(encoding="utf-8"))
    yield from (node for node in document["workflow"]["graph"]["nodes"] if node["type"] == "custom-note")


def page(note: dict[str, Any]) -> str:
    root = json.loads(note["data"]["text"])["root"]
    lines = [
        "<p>" + "".join(f'<span style="{run["style"]}">{html.escape(run["text"])}</span>' for run in block["children"])
        for block in root["children"]
    ]
    size = f"width: {note['width']}px; height: {note['height']}px"
    return (
        f'<!DOCTYPE html><meta charset="utf-8"><style>{STYLE}</style>'
        f'<div class="note" style="{size}"><div class="bar"></div><div class="text">{"</p>".join(lines)}</div></div>'
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_notes_text_fills_it_without_scrolling_and_can_be_read_at_the_templates_zoom(
    name: str, browser: Browser, tmp_path: Path
) -> None:
    document = yaml.safe_load((WORKFLOWS / name).read_text(encoding="utf-8"))
    zoom = document["workflow"]["graph"]["viewport"]["zoom"]
    path = tmp_path / "note.html"
    for note in notes(name):
        path.write_text(page(note), encoding="utf-8")
        browser.show(path, 800)
        spare = browser.value(
            "(() => { const text = document.querySelector('.text'); const last = text.lastElementChild;"
            "return text.getBoundingClientRect().bottom - 10 - last.getBoundingClientRect().bottom })()"
        )
        assert SPARE[0] <= spare <= SPARE[1], (note["id"], spare)
        sizes = browser.value(
            "[...document.querySelectorAll('span')].map(e => parseFloat(getComputedStyle(e).fontSize))"
        )
        assert min(sizes) * zoom >= LEAST_PIXELS, note["id"]
