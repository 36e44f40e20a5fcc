"""The question table of a call: pasted, in files, or kept under a name."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from dify_plugin.file.file import File

from bridge.dify.files import fetch
from bridge.edge import is_true
from evaluation.errors import EvaluationError, Reason
from evaluation.golden.files import MAX_FILE_BYTES, read_table_file
from evaluation.golden.kept import KeptTables
from evaluation.golden.pasted import MAX_TABLE_CHARACTERS
from evaluation.golden.questions import Questions, kept_questions, pasted_questions
from evaluation.golden.table import Row, Table, joined_table, read_table
from evaluation.languages import Language, language_of_texts
from evaluation.sample import MAX_TEXT_CHARACTERS, read_text
from evaluation.storage.values import Values


def read_questions(parameters: Mapping[str, Any], storage: Values) -> Questions:
    """The questions of the table that was pasted or given as files, else of the kept table that is named.

    Raises:
        EvaluationError: no_table without any; table_not_found, table_empty, and as `read_given`.
    """
    drafts = is_true(parameters.get("include_drafts"))
    name = read_text(parameters.get("table_name"), "table_name")
    given = read_given(parameters)
    if given is not None:
        return pasted_questions(given, drafts=drafts, unused_name=name)
    if not name:
        raise EvaluationError(Reason.NO_TABLE)
    return kept_questions(KeptTables(storage).read(name), drafts=drafts)


def read_given(parameters: Mapping[str, Any]) -> Table | None:
    """The rows of the pasted table and of the files, in this order; None when neither is given.

    Files are read before anything else is called: their addresses expire.

    Raises:
        EvaluationError: table_unreadable, file_too_large, file_unreachable, and what reading a text may give.
    """
    value = parameters.get("golden_file")
    files = [file for file in (value if isinstance(value, list) else [value]) if isinstance(file, File)]
    tables = [(name, read_table_file(name, fetch(file, MAX_FILE_BYTES))) for name, file in _named(files)]
    pasted = read_text(parameters.get("golden"), "golden", MAX_TABLE_CHARACTERS, strip=False)
    if pasted.strip():
        tables.insert(0, ("", read_table(pasted)))
    return joined_table(tables) if tables else None


def _named(files: Iterable[File]) -> list[tuple[str, File]]:
    return [(file.filename or "file", file) for file in files]


def check_length(row: Row) -> None:
    """Told before anything is asked or kept; a row this long would not go through a plugin's lines either.

    Raises:
        EvaluationError: input_too_long.
    """
    texts = {"question": row.question, "reference": row.reference, "documents": row.documents}
    sizes = {name: len(text) for name, text in texts.items()} | {"golden": sum(map(len, row.others.values()))}
    longest = max(sizes, key=lambda name: sizes[name])
    if sum(sizes.values()) > MAX_TEXT_CHARACTERS:
        raise EvaluationError(
            Reason.INPUT_TOO_LONG, field=longest, characters=sum(sizes.values()), limit=MAX_TEXT_CHARACTERS
        )


def language_of_table(table: Table) -> Language | None:
    """That of the questions together, as a first one such as "VPN?" has none of its own; None without letters."""
    first = table.rows[:20]
    return language_of_texts(" ".join(row.question for row in first), " ".join(row.reference for row in first))


def table_details(questions: Questions) -> dict[str, Any]:
    """Which table it is and what is left out of it, for a tool's details."""
    return {
        "name": questions.name,
        "version": questions.version,
        "rows": len(questions.table.rows),
        "drafts": len(questions.drafts),
        "drafts_left_out": questions.drafts_left,
        "off_left_out": questions.off_left,
        "unused_name": questions.unused_name,
        "notes": [asdict(note) for note in questions.table.notes],
    }
