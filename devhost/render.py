"""Shows a scored reply as Dify's chat does: Markdown to an HTML page, and a picture of it by a headless Chromium.

    python -m devhost.render                  the pictures of the READMEs, in readme/images
    python -m devhost.render --look FOLDER    every sample in columns as wide as Dify's, to look at

Chromium is found on the PATH (Debian: apt-get install chromium fonts-noto-cjk fonts-noto-color-emoji), or named by the
environment variable CHROMIUM.
"""

import argparse
import html
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from markdown_it import MarkdownIt

from devhost.daemon import PluginProcess
from devhost.dify_side import DifySide, ModelServer
from devhost.reply_sample import ROOT, SAMPLES, read_sample, reply_of

IMAGES = ROOT / "readme" / "images"
LANGUAGES = ("en", "ja")
# The column of a reply in CSS pixels: on a phone, in a narrow window, in Dify's web app.
COLUMNS = {"phone": 210, "narrow": 390, "web_app": 560}
# What a chat is wider than this column.
MARGINS = 56
PICTURE_WIDTH = 780
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# A browser that shows a page and asks nobody for anything.
QUIET_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
FLAGS = (*QUIET_FLAGS, "--force-device-scale-factor=1")


class RenderError(Exception):
    """No picture could be made; the text says why."""


def page(question: str, reply: str, language: str, width: int) -> str:
    """A chat with one question and its reply as an HTML page.

    Dify's chat takes tables, raw HTML and every line end as it is written. What it makes of them is in
    reply_samples/chat.css.

    Args:
        question: plain text.
        reply: Markdown.
        language: of the page, such as "ja"; it decides the shapes of kanji.
        width: of the chat, in CSS pixels.
    """
    markdown = MarkdownIt("commonmark", {"html": True, "breaks": True}).enable(["table", "strikethrough"])
    style = (SAMPLES / "chat.css").read_text(encoding="utf-8")
    return (
        f'<!DOCTYPE html>\n<html lang="{language}"><head><meta charset="utf-8"><style>{style}</style></head>\n'
        f'<body style="width: {width}px"><main><div class="question">{html.escape(question)}</div>\n'
        f'<div class="reply">{markdown.render(reply)}</div></main></body></html>\n'
    )


def screenshot(document: str, path: Path, width: int) -> None:
    """Write a PNG of a whole page.

    Args:
        document: the page's HTML.
        path: of the PNG.
        width: of the picture, in pixels; its height is that of the page.

    Raises:
        RenderError: there is no Chromium, or it made no picture.
    """
    measured = document.replace("</body>", "<script>document.title = document.body.offsetHeight</script></body>")
    dom = _chromium(measured, ["--dump-dom", f"--window-size={width},800"])
    height = re.search(r"<title>(\d+)</title>", dom)
    if height is None:
        raise RenderError("Chromium did not measure the page")
    path.unlink(missing_ok=True)
    _chromium(document, [f"--screenshot={path.resolve()}", f"--window-size={width},{height[1]}"])
    if not path.exists():
        raise RenderError("Chromium made no picture")


def _chromium(document: str, arguments: Sequence[str]) -> str:
    browser = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise RenderError("Chromium is not installed (Debian: apt-get install chromium), and CHROMIUM names none")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "page.html")
        source.write_text(document, encoding="utf-8")
        command = [browser, *FLAGS, f"--user-data-dir={folder}/profile", *arguments, source.as_uri()]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Pictures of a scored reply, as Dify's chat shows it.")
    parser.add_argument("--look", type=Path, metavar="FOLDER", help="write all samples in all columns there instead")
    folder: Path | None = parser.parse_args(arguments).look
    (folder or IMAGES).mkdir(parents=True, exist_ok=True)
    try:
        with PluginProcess(ROOT, DifySide(ModelServer(""))) as plugin:
            for language in LANGUAGES:
                _write(language, plugin, folder)
    except (RenderError, subprocess.SubprocessError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _write(language: str, plugin: PluginProcess, folder: Path | None) -> None:
    """The README's picture of one language, or with a folder its Markdown and a picture in each width."""
    sample = read_sample(language)
    reply = reply_of(sample, plugin).streamed
    wanted = {IMAGES / sample["picture"]: PICTURE_WIDTH}
    if folder:
        (folder / f"{language}.md").write_text(reply, encoding="utf-8")
        wanted = {folder / f"{language}_{name}.png": column + MARGINS for name, column in COLUMNS.items()}
    for path, width in wanted.items():
        screenshot(page(sample["question"], reply, language, width), path, width)
        print(f"wrote {path} ({path.stat().st_size / 1024:.0f} kB)")


if __name__ == "__main__":
    sys.exit(main())
