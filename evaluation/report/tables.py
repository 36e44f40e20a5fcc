"""What users are told of how a question table was read."""

from evaluation.golden.grid import Note
from evaluation.golden.table import Table
from evaluation.report.escape import escape
from evaluation.texts import Texts

# Of a list of rows, cells or names the first are told.
SHOWN = 5
_NAME_CHARACTERS = 40


def table_remarks(table: Table, texts: Texts) -> list[str]:
    """One sentence each, with Markdown escaped."""
    counted = [texts.get("lookup.rows_unreadable", count=table.unreadable)] if table.unreadable else []
    return counted + [_sentence(note, texts) for note in table.notes]


def _sentence(note: Note, texts: Texts) -> str:
    values = {name: _shown(value, texts) for name, value in note.values.items()}
    sentence = texts.get(f"table.{note.name}", **values)
    return texts.get("table.of_file", file=_shown(note.file, texts), note=sentence) if note.file else sentence


def _shown(value: object, texts: Texts) -> object:
    if isinstance(value, list):
        parts = [str(_shown(item, texts)) for item in value[:SHOWN]]
        if len(value) > SHOWN:
            parts.append(texts.get("more", count=len(value) - SHOWN))
        return texts.get("separator").join(parts)
    return escape(value, _NAME_CHARACTERS) if isinstance(value, str) else value
