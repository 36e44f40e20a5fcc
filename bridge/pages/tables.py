"""The pages of kept question tables: list, one table with its rows and versions, one row to edit, files in and out."""

import csv
import io
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from werkzeug import Response

from bridge.pages.site import Visit
from evaluation.errors import EvaluationError, Reason
from evaluation.golden.files import read_table_file
from evaluation.golden.kept import ConflictError, KeptTable, KeptTables, TableHead, table_key
from evaluation.golden.kept_rows import STATES, KeptRow, State, appended, differences, records_of, replaced, rows_of
from evaluation.golden.table import Row
from evaluation.report.escape import one_line, unescape
from evaluation.report.kept_table import counts_text, duplicates_remarks
from evaluation.report.spreadsheet import cells_to_xlsx, safe_text
from evaluation.report.tables import table_remarks
from evaluation.report.times import time_text
from evaluation.sample import MAX_TEXT_CHARACTERS

MOST_ROWS = 300
# The mark that keeps a spreadsheet from running a CSV file's cell as a formula; see safe_text.
PROTECTED = r"^'(?=\s*[=+\-@＝＋－＠])"
FIELDS = ("question", "reference", "documents", "category")


def tables(visit: Visit) -> Response:
    """All kept tables."""
    heads = KeptTables(visit.values).heads()
    return visit.page(
        "tables.html.jinja",
        tables=[
            {
                "base": _id(head),
                "name": head.name,
                "counts": counts_text(head.newest, visit.texts),
                "version": head.newest.number,
                "at": time_text(head.newest.at, visit.texts),
            }
            for head in heads
        ],
    )


def table(visit: Visit, base: str) -> Response:
    """One table, with the rows that the address asks for."""
    kept, number = _table(visit, base), visit.request.args.get("version", "")
    if number.isdigit():
        kept = KeptTables(visit.values).read(kept.head.name, int(number))
    return _show(visit, kept)


def _show(visit: Visit, kept: KeptTable, remarks: Sequence[str] = (), status: int = 200) -> Response:
    asked = visit.request.args.get("state", "")
    text = visit.request.args.get("text", "")[:200]
    rows = [
        row
        for row in kept.rows
        if asked in {"", row.state} and text.casefold() in f"{row.row.question}\n{row.row.reference}".casefold()
    ]
    newest = kept.version.number == kept.head.newest.number
    return visit.page(
        "table.html.jinja",
        status,
        base=_id(kept.head),
        name=kept.head.name,
        version=kept.version.number,
        newest=newest,
        counts=counts_text(kept.version, visit.texts),
        rows=[_line(row) for row in rows[:MOST_ROWS]],
        left=max(0, len(rows) - MOST_ROWS),
        state=asked,
        states=STATES,
        text=text,
        remarks=remarks,
        versions=[
            {"number": entry.number, "at": time_text(entry.at, visit.texts), "counts": counts_text(entry, visit.texts)}
            for entry in kept.head.versions
        ],
    )


def _line(row: KeptRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "state": row.state,
        **{name: getattr(row.row, name) for name in FIELDS},
        "others": {name: cell for name, cell in row.row.others.items() if cell},
        "kind": row.kind,
        "sources": [{"document": s.document, "quote": s.quote, "chunk": s.chunk} for s in row.sources],
    }


def edit(visit: Visit, base: str, row: str) -> Response:
    """One row to edit, its passages beside it; "new" for a new one."""
    kept = _table(visit, base)
    found = next((entry for entry in kept.rows if entry.id == row), None)
    if found is None and row != "new":
        raise EvaluationError(Reason.NOT_FOUND)
    mine = found or KeptRow(Row(visit.request.args.get("question", "")[:MAX_TEXT_CHARACTERS]))
    return _form(visit, kept, mine, row)


def _form(
    visit: Visit, kept: KeptTable, mine: KeptRow, row: str, theirs: KeptRow | None = None, status: int = 200
) -> Response:
    ids = [entry.id for entry in kept.rows if entry.state == "draft"]
    after = ids[ids.index(row) + 1] if row in ids[:-1] else (ids[0] if ids and row not in ids else "")
    return visit.page(
        "table_row.html.jinja",
        status,
        base=_id(kept.head),
        name=kept.head.name,
        version=kept.version.number,
        id=row,
        fields=[(name, visit.texts.get(f"kept.columns.{name}"), getattr(mine.row, name)) for name in FIELDS],
        mine=_line(mine),
        theirs=_line(theirs) if theirs else None,
        states=STATES,
        next_draft=after,
    )


def save(visit: Visit, base: str, row: str) -> Response:
    """Keeps a row as it was edited. Who began from an older version is shown both and loses nothing."""
    form, kept = visit.request.form, _table(visit, base)
    cells: dict[str, Any] = {name: form.get(name, "").strip()[:MAX_TEXT_CHARACTERS] for name in FIELDS}
    state = _state(form.get("state", ""))
    if not cells["question"]:
        raise EvaluationError(Reason.NO_QUESTION)
    found = next((entry for entry in kept.rows if entry.id == row), None)
    changed = replace(
        found or KeptRow(Row("")), row=replace(found.row if found else Row(""), **cells), state=state or "confirmed"
    )

    def put(rows: Sequence[KeptRow]) -> list[KeptRow]:
        there = any(entry.id == changed.id for entry in rows)
        return [changed if entry.id == changed.id else entry for entry in rows] + ([] if there else [changed])

    try:
        KeptTables(visit.values).save(kept.head.name, put, base=_base(form.get("version", "")))
    except ConflictError as conflict:
        pairs = differences([changed], [entry for entry in conflict.theirs.rows if entry.id == changed.id])
        theirs = next((other for _, other in pairs if other), None)
        return _form(visit, conflict.theirs, changed, row, theirs, 409)
    following = form.get("next", "")
    if following:
        return visit.send_on("table_row", base=base, row=following)
    return visit.send_on("table", base=base)


def switch(visit: Visit, base: str) -> Response:
    """Puts a row into another state."""
    form, kept = visit.request.form, _table(visit, base)
    state, wanted = _state(form.get("state", "")), form.get("row", "")
    if state is None:
        raise EvaluationError(Reason.NOT_FOUND)

    def put(rows: Sequence[KeptRow]) -> list[KeptRow]:
        return [replace(row, state=state) if row.id == wanted else row for row in rows]

    # What a state says does not depend on what the row says: no version is asked for.
    KeptTables(visit.values).save(kept.head.name, put)
    return visit.send_on("table", base=base, state=form.get("shown", ""))


def upload(visit: Visit, base: str) -> Response:
    """Rows from a file, in place of the table's or behind them; without a base a new table."""
    form, file = visit.request.form, visit.request.files.get("file")
    if file is None or not file.filename:
        raise EvaluationError(Reason.NO_TABLE)
    given = read_table_file(file.filename, file.read())
    if file.filename.casefold().endswith(".csv"):
        given = replace(given, rows=tuple(map(_plain, given.rows)))
    new, add = rows_of(given), form.get("how") == "append"
    name = form.get("name", "") if base == "new" else _table(visit, base).head.name
    remarks = [unescape(remark) for remark in table_remarks(given, visit.texts)]

    def put(rows: Sequence[KeptRow]) -> Sequence[KeptRow]:
        if not add:
            return replaced(rows, new)
        result, duplicates = appended(rows, new)
        remarks.extend(unescape(remark) for remark in duplicates_remarks(duplicates, visit.texts))
        return result

    begun = _base(form.get("version", ""))
    kept, _ = KeptTables(visit.values).save(name, put, base=begun, action="append" if add else "replace")
    return _show(visit, kept, list(dict.fromkeys(remarks)))


def restore(visit: Visit, base: str) -> Response:
    """Brings an earlier version back as a new one."""
    number = visit.request.form.get("number", "")
    KeptTables(visit.values).restore(_table(visit, base).head.name, int(number) if number.isdigit() else 0)
    return visit.send_on("table", base=base)


def take(visit: Visit) -> Response:
    """A run's question goes into a table as a draft."""
    form, heads = visit.request.form, KeptTables(visit.values).heads()
    head = next((head for head in heads if _id(head) == form.get("table")), None)
    if head is None:
        raise EvaluationError(Reason.NO_TABLE_NAME)
    question, reference = (form.get(name, "").strip()[:MAX_TEXT_CHARACTERS] for name in ("question", "reference"))
    if not question:
        raise EvaluationError(Reason.NO_QUESTION)
    new = KeptRow(Row(question, reference), state="draft")
    KeptTables(visit.values).save(head.name, lambda rows: appended(rows, [new])[0], action="draft")
    return visit.send_on("table", base=_id(head), state="draft")


def download(visit: Visit, base: str, ending: str) -> Response:
    """The table as a file that the upload takes back with nothing lost."""
    kept = _table(visit, base)
    records = records_of(kept.rows, visit.texts.language)
    names = list(dict.fromkeys(name for record in records for name in record))
    lines = [names, *([record.get(name, "") for name in names] for record in records)]
    make: dict[str, Callable[[], bytes]] = {
        "csv": lambda: _csv(lines),
        "xlsx": lambda: cells_to_xlsx(lines),
        "json": lambda: json.dumps(records, ensure_ascii=False).encode(errors="replace"),
    }
    return visit.file(make[ending](), f"{one_line(kept.head.name, 60)}.{ending}")


def _plain(row: Row) -> Row:
    """The row as it was before a CSV file was made safe for spreadsheets."""
    cells: dict[str, Any] = {name: re.sub(PROTECTED, "", getattr(row, name)) for name in FIELDS}
    return replace(row, **cells, others={name: re.sub(PROTECTED, "", cell) for name, cell in row.others.items()})


def _csv(lines: Sequence[Sequence[str]]) -> bytes:
    buffer = io.StringIO()
    csv.writer(buffer).writerows([[safe_text(cell, "…") for cell in line] for line in lines])
    return buffer.getvalue().encode("utf-8-sig", errors="replace")


def _table(visit: Visit, base: str) -> KeptTable:
    kept = KeptTables(visit.values)
    for name in kept.names():
        if table_key(name).rpartition("/")[2] == base:
            return kept.read(name)
    # Says which tables there are.
    return kept.read(base)


def _id(head: TableHead) -> str:
    return table_key(head.name).rpartition("/")[2]


def _state(value: str) -> State | None:
    return next((state for state in STATES if state == value), None)


def _base(value: str) -> int | None:
    return int(value) if value.isdigit() else None
