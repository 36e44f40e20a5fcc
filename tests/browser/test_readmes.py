"""The packaged READMEs as Dify's plugin page shows them: no table cell wraps, and no picture need load."""

from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from devhost.package import published, read_manifest
from devhost.reply_sample import SAMPLES
from tests.browser.browser import Browser

ROOT = Path(__file__).parents[2]
READMES = ("README.md", "readme/README_ja_JP.md", "readme/README_zh_Hans.md")
WIDTH = 540
# Dify's rules for Markdown, without the bubble that a chat has around it.
STYLE = (
    (SAMPLES / "chat.css").read_text(encoding="utf-8")
    + """
body, .reply { padding: 0; background: none }
code, pre { font-family: "DejaVu Sans Mono", monospace; font-size: 12px }
pre { overflow: auto }
"""
)
# Elements whose content is wider than the place for it. The addresses in a fence may be scrolled: they are copied.
CUT = """
[...document.querySelectorAll("body *")]
  .filter(element => !element.closest("pre") && element.scrollWidth > element.clientWidth && element.clientWidth)
  .map(element => element.tagName + ": " + element.textContent.slice(0, 40))
"""


def page(text: str) -> str:
    body = MarkdownIt("commonmark").enable("table").render(text)
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><style>{STYLE}</style>'
    return f'<!DOCTYPE html>{head}<body><main><div class="reply">{body}</div></main></body>'


def readme(name: str) -> str:
    return published((ROOT / name).read_text(encoding="utf-8"), name, read_manifest())


@pytest.mark.parametrize("name", READMES)
def test_nothing_in_a_readme_is_cut(name: str, browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "readme.html"
    path.write_text(page(readme(name)), encoding="utf-8")
    browser.show(path, WIDTH)
    assert browser.value("document.documentElement.scrollWidth") == WIDTH
    assert browser.value(CUT) == []
    # Where a picture does not load, its text says what it shows.
    texts = browser.value("[...document.images].map(image => image.alt)")
    assert all(len(text) > 20 for text in texts)


def test_a_table_that_is_too_wide_would_be_seen(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "wide.html"
    cell = "a table cell that does not wrap " * 4
    path.write_text(page(f"|a|b|\n|---|---|\n|{cell}|b|\n"), encoding="utf-8")
    browser.show(path, WIDTH)
    assert browser.value(CUT) != []
