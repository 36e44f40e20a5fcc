"""Templates to HTML. Everything is escaped; nothing of a page is style or script inside it."""

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from evaluation.languages import LANGUAGE_TAGS, LANGUAGES
from evaluation.texts import Texts, load_texts

_FOLDER = Path(__file__).parent
# The pages' files by name, with what they are; the report's style comes first in theirs.
ASSETS = {"pages.css": "text/css; charset=utf-8", "pages.js": "text/javascript; charset=utf-8"}


def render(template: str, texts: Texts, **values: Any) -> str:
    """The template with its values, in a language."""
    languages = [(language, load_texts(language).get("pages.own_name")) for language in LANGUAGES]
    shared = {"t": texts.get, "lang": LANGUAGE_TAGS[texts.language], "language": texts.language, "languages": languages}
    return _templates().get_template(template).render(shared | values)


@cache
def _templates() -> Environment:
    return Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def asset(name: str) -> str:
    """A file of the pages as it is served."""
    text = (_FOLDER / name).read_text(encoding="utf-8")
    if name == "pages.css":
        return (_FOLDER.parent / "report.html.css").read_text(encoding="utf-8") + text
    return text


@cache
def asset_version(name: str) -> str:
    """Changes with the file, so that browsers may keep it."""
    return hashlib.sha256(asset(name).encode()).hexdigest()[:12]
