"""Text from users and models inside Markdown that Dify's chat renders."""

import html
import re

_ELLIPSIS = "…"
# As entities, not with backslashes: Dify turns \\[ and \\( into formulas before it reads the Markdown.
_ENTITIES = {ord(char): f"&#{ord(char)};" for char in "&<>|*_`[]\\$~"}
# Control, direction, zero-width and tag characters, and halves of characters, which no file can hold.
_INVISIBLE = (
    r"[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff"
    r"\U000e0000-\U000e007f\ud800-\udfff]+"
)
# Where a bare address, which becomes a link even out of entities, is taken apart by a word joiner, which nobody sees.
# Not behind "://": there it is taken for a part of the address, and browsers ignore it.
_INSIDE_ADDRESS = r"(?i)(?=://)|(?<=www)(?=\.)|(?<=mailto)(?=:)|(?<=@)(?=\w)"


def one_line(text: str, limit: int | None = None) -> str:
    """The text on one line without invisible characters, shortened with "…" beyond `limit` characters."""
    line = re.sub(r"\s+", " ", re.sub(_INVISIBLE, " ", text)).strip()
    return line if limit is None or len(line) <= limit else line[: limit - 1].rstrip() + _ELLIPSIS


def escape(text: str, limit: int | None = None) -> str:
    """One line that shows as it is: it can't close a table, open HTML, emphasis, a formula or a link."""
    line = one_line(text, limit)
    return re.sub(_INSIDE_ADDRESS, "\u2060", line).translate(_ENTITIES)


def unescape(text: str) -> str:
    """The plain text of what `escape` gave, for places that escape in their own way."""
    return html.unescape(text).replace("\u2060", "")


def visible(text: str, limit: int) -> tuple[str, bool]:
    """The text with line breaks but no other control or direction characters, and whether it was cut at `limit`."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    whole = "\n".join(re.sub(_INVISIBLE, "", line.replace("\t", "    ")) for line in lines).strip()
    return (whole, False) if len(whole) <= limit else (whole[: limit - 1].rstrip() + _ELLIPSIS, True)
