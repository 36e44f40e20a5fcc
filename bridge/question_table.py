"""The tool that keeps question tables by name."""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from bridge.edge import EvaluatorTool, Output
from bridge.tables import check_length, read_given
from evaluation.errors import EvaluationError, Reason
from evaluation.golden.kept import ConflictError, KeptTable, KeptTables, Version
from evaluation.golden.kept_rows import (
    STATES,
    Duplicates,
    KeptRow,
    appended,
    differences,
    records_of,
    replaced,
    rows_of,
)
from evaluation.golden.table import Row
from evaluation.languages import language_of_texts
from evaluation.report.escape import unescape
from evaluation.report.kept_table import conflict_text, duplicates_remarks, rows_text, tables_text, title
from evaluation.report.markdown import reason_sentence
from evaluation.report.tables import table_remarks
from evaluation.result import bounded, status_of
from evaluation.sample import read_text
from evaluation.settings import read_choice, read_count
from evaluation.texts import Texts, load_texts

ACTIONS = ("show", "replace", "append", "restore", "list")
SHOWN_STATES = ("all", *STATES)
# A table that is longer is cut at its end, so that the line with all outputs stays below what the plugin may send.
TABLE_BYTES = 1_200_000
HIGHEST_VERSION = 1_000_000
LANGUAGE_ROWS = 20


class QuestionTableTool(EvaluatorTool):
    """Shows, saves, brings back and lists tables."""

    def run(self, parameters: Mapping[str, Any], texts: Texts) -> Output:
        action = read_choice(parameters.get("action"), "action", ACTIONS)
        tables = KeptTables(self.storage)
        if action == "list":
            return _listed(tables, parameters, texts)
        name = read_text(parameters.get("table_name"), "table_name")
        if not name:
            raise EvaluationError(Reason.NO_TABLE_NAME)
        number = read_count(parameters.get("version"), "version", 0, HIGHEST_VERSION) or None
        if action == "show":
            table = tables.read(name, number)
            return _shown(table, read_choice(parameters.get("state"), "state", SHOWN_STATES), parameters, texts)
        if action == "restore":
            return self._restored(tables, name, number, parameters, texts)
        return self._saved(tables, name, number, parameters, texts, append=action == "append")

    def _restored(
        self, tables: KeptTables, name: str, number: int | None, parameters: Mapping[str, Any], texts: Texts
    ) -> Output:
        if number is None:
            # The one before the newest is what was meant by "undo".
            head = tables.read(name).head
            number = head.versions[min(1, len(head.versions) - 1)].number
        table, saved = tables.restore(name, number, by=self.runtime.user_id or "")
        texts = _texts_of((kept.row for kept in table.rows), table.head.name, parameters, texts)
        values = {"earlier": number} if saved else {}
        return _output(table, title(table, texts, "restored" if saved else "unchanged", **values), texts, saved=saved)

    def _saved(
        self,
        tables: KeptTables,
        name: str,
        base: int | None,
        parameters: Mapping[str, Any],
        texts: Texts,
        *,
        append: bool,
    ) -> Output:
        given = read_given(parameters)
        if given is None:
            raise EvaluationError(Reason.NO_TABLE)
        texts = _texts_of(given.rows, name, parameters, texts)
        for row in given.rows:
            check_length(row)
        new = rows_of(given)
        duplicates = Duplicates()
        added = 0

        def edit(old: Sequence[KeptRow]) -> Sequence[KeptRow]:
            nonlocal duplicates, added
            rows, duplicates = appended(old, new) if append else (replaced(old, new), Duplicates())
            added = len(rows) - len(old)
            return rows

        action = "append" if append else "replace"
        try:
            table, saved = tables.save(name, edit, base=base, by=self.runtime.user_id or "", action=action)
        except ConflictError as conflict:
            return _refused(conflict, texts)
        line = title(table, texts, "saved" if saved else "unchanged")
        remarks = [texts.get("kept.added", count=added)] if append and saved else []
        remarks += duplicates_remarks(duplicates, texts)
        remarks += table_remarks(given, texts)
        said = {"added": added, "already_there": list(duplicates.same), "other_reference": list(duplicates.differing)}
        return _output(table, line, texts, remarks=remarks, saved=saved, details=said if append else {})

    def failed(self, error: EvaluationError, texts: Texts) -> Output:
        line = reason_sentence(error.reason, error.values, texts)
        return Output(line, _variables(None, (), line, texts, error=error))


def _listed(tables: KeptTables, parameters: Mapping[str, Any], texts: Texts) -> Output:
    heads = tables.heads()
    if parameters.get("language") in {None, "", "auto"} and heads:
        texts = load_texts(language_of_texts(" ".join(head.name for head in heads)) or texts.language)
    line = texts.get("kept.tables", count=len(heads)) if heads else texts.get("kept.no_tables")
    details = {"tables": [{"name": head.name, **_version(head.newest)} for head in heads]}
    return Output(tables_text(heads, texts), _variables(None, (), line, texts, details=details))


def _shown(table: KeptTable, state: str, parameters: Mapping[str, Any], texts: Texts) -> Output:
    texts = _texts_of((kept.row for kept in table.rows), table.head.name, parameters, texts)
    newest = table.head.newest.number
    earlier = {} if table.version.number == newest else {"newest": newest}
    line = title(table, texts, "shown_earlier" if earlier else "shown", **earlier)
    rows = [kept for kept in table.rows if state in {"all", kept.state}]
    return _output(table, line, texts, rows=rows)


def _refused(conflict: ConflictError, texts: Texts) -> Output:
    """Both sides, so that nothing of either is lost."""
    theirs = conflict.theirs
    line = reason_sentence(conflict.reason, conflict.values, texts)
    language = texts.language
    pairs = [
        {name: records_of([kept], language)[0] if kept else None for name, kept in (("yours", mine), ("saved", their))}
        for mine, their in differences(conflict.mine, theirs.rows)
    ]
    details = {"differences": pairs, "yours": records_of(conflict.mine, language)}
    variables = _variables(theirs, theirs.rows, line, texts, error=conflict, details=details)
    return Output(conflict_text(conflict, texts), variables)


def _texts_of(rows: Iterable[Row], name: str, parameters: Mapping[str, Any], texts: Texts) -> Texts:
    """In the language of the name and the rows, unless one is set: of a kept table's nothing was known before."""
    if parameters.get("language") not in {None, "", "auto"}:
        return texts
    cells = [text for row in islice(rows, LANGUAGE_ROWS) for text in (row.question, row.reference)]
    return load_texts(language_of_texts(" ".join([name, *cells])) or texts.language)


def _output(
    table: KeptTable,
    line: str,
    texts: Texts,
    *,
    rows: Sequence[KeptRow] | None = None,
    remarks: Sequence[str] = (),
    saved: bool = False,
    details: Mapping[str, Any] | None = None,
) -> Output:
    rows = table.rows if rows is None else rows
    variables = _variables(table, rows, line, texts, saved=saved, details=details)
    if left := len(rows) - variables["rows"]:
        remarks = [*remarks, texts.get("kept.cut", count=left)]
    text = "\n".join([f"**{line}**", *(f"- ⚠️ {remark}" for remark in remarks), "", rows_text(rows, texts)])
    for remark in remarks:
        variables["summary"] = texts.aside(variables["summary"], unescape(remark))
    return Output(text, variables)


def _variables(
    table: KeptTable | None,
    rows: Sequence[KeptRow],
    line: str,
    texts: Texts,
    *,
    saved: bool = False,
    error: EvaluationError | None = None,
    details: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    text, count = _as_text(records_of(rows, texts.language))
    versions = [_version(version) for version in table.head.versions] if table else []
    return {
        "table": text,
        "table_name": table.head.name if table else "",
        "version": table.version.number if table else None,
        "rows": count,
        "saved": saved,
        "status": status_of(error),
        "reason": error.reason.value if error else "",
        # A line for reading; `text` is Markdown.
        "summary": unescape(line),
        "details": bounded({"versions": versions, **(details or {})}),
    }


def _as_text(records: Sequence[Mapping[str, str]]) -> tuple[str, int]:
    """As many of the records as an output can hold, as JSON, and how many that are; "" for none."""
    lines: list[str] = []
    size = 0
    for record in records:
        line = json.dumps(record, ensure_ascii=False)
        size += len(line.encode(errors="replace")) + 2
        if size > TABLE_BYTES:
            break
        lines.append(line)
    return (f"[{',\n'.join(lines)}]" if lines else ""), len(lines)


def _version(version: Version) -> dict[str, Any]:
    return {
        "version": version.number,
        "at": version.at,
        "by": version.by,
        "action": version.action,
        "rows": version.rows,
        **version.counts,
    }
