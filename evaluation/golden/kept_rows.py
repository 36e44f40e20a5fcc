"""The rows of a kept table: a question with its state, who changed it last, and where a draft comes from.

On plain values; where they are kept is evaluation/golden/kept.py.
"""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal

from evaluation.folding import fold
from evaluation.golden.table import Row, Table
from evaluation.languages import LANGUAGES, Language
from evaluation.texts import load_texts

State = Literal["draft", "confirmed", "off"]
STATES: tuple[State, ...] = ("draft", "confirmed", "off")
# What a draft is made as.
KINDS = ("fact", "condition", "comparison", "messy", "false_premise", "unanswerable")
# Columns of a kept table that is shown, beside those of the question.
COLUMNS = ("state", "kind", "quote", "document", "id")


def _new_id() -> str:
    return uuid.uuid4().hex[:12]


@dataclass(frozen=True)
class Source:
    """Where a draft comes from: the passage that bears its reference out, word for word, and the chunk around it."""

    document: str = ""
    quote: str = ""
    chunk: str = ""


@dataclass(frozen=True)
class KeptRow:
    """A row of a kept table.

    Attributes:
        id: stays the same through all versions, whatever else of the row changes.
        state: drafts are used only when asked for, rows that are off never.
        changed_by: who changed it last, "" when it is not known; changed_at: when, in ISO 8601.
        kind: of a draft: which kind of question it was made as, "" else.
        sources: of a draft.
    """

    row: Row
    id: str = field(default_factory=_new_id)
    state: State = "confirmed"
    changed_by: str = ""
    changed_at: str = ""
    kind: str = ""
    sources: tuple[Source, ...] = ()

    @property
    def key(self) -> tuple[str, ...]:
        """What makes it the same question: its words, and the inputs that it is asked with."""
        filled = sorted((name, cell) for name, cell in self.row.others.items() if cell)
        return (fold(self.row.question) or self.row.question, *(f"{name}={cell}" for name, cell in filled))

    def says_the_same(self, other: "KeptRow") -> bool:
        """Whether nothing differs that a person would have changed. An empty cell is as good as none."""
        return self._said() == other._said()

    def _said(self) -> tuple[object, ...]:
        others = {name: cell for name, cell in self.row.others.items() if cell}
        return replace(self.row, others=others), self.state, self.kind, self.sources

    def as_dict(self) -> dict[str, Any]:
        """As it is kept: JSON types only."""
        # Not asdict, which copies every text: a table has thousands of rows.
        row = {**vars(self.row), "others": dict(self.row.others)}
        return {**vars(self), "row": row, "sources": [dict(vars(source)) for source in self.sources]}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> "KeptRow":
        """The row that was kept; fields of another version that are not known are left out.

        Raises:
            ValueError: it is none.
        """
        try:
            row = Row(**_known(Row, value["row"]))
            name = str(value["id"])
            sources = tuple(Source(**_known(Source, source)) for source in value.get("sources", ()))
            kept = cls(**{**_known(cls, value), "row": row, "id": name, "sources": sources})
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError("not a kept row") from error
        return kept if kept.state in STATES else replace(kept, state="draft")


def _known(kind: type[Any], value: Mapping[str, Any]) -> dict[str, Any]:
    # As dataclasses.fields, which makes a list of them for each row.
    names = kind.__dataclass_fields__
    return {name: item for name, item in value.items() if name in names}


def counted(rows: Iterable[KeptRow]) -> dict[str, int]:
    """How many rows are in each state."""
    states = [kept.state for kept in rows]
    return {state: states.count(state) for state in STATES}


def rows_of(table: Table) -> list[KeptRow]:
    """The rows of a table that was pasted or read from a file, with ids and states where it has columns of ours.

    Rows without a state are confirmed: a person has written them.
    """
    columns = {name for row in table.rows for name in row.others}
    ours = {name: column for name in columns if (column := _words("columns").get(fold(name)))}
    # An app may have an input of that name; a column of ours holds nothing but our words.
    words = _words("states")
    for name in [name for name, column in ours.items() if column == "state"]:
        if any(fold(cell) not in words for row in table.rows if (cell := row.others.get(name))):
            del ours[name]
    return [_kept(row, ours) for row in table.rows]


def _kept(row: Row, ours: Mapping[str, str]) -> KeptRow:
    cells = {column: cell for name, column in ours.items() if (cell := row.others.get(name, ""))}
    state = _words("states").get(fold(cells.get("state", "")), "confirmed")
    source = (Source(cells.get("document", ""), cells["quote"]),) if "quote" in cells else ()
    others = {name: cell for name, cell in row.others.items() if name not in ours}
    kind = _words("kinds").get(fold(cells.get("kind", "")), "")
    kept = KeptRow(replace(row, others=others), state=state, kind=kind, sources=source)
    return replace(kept, id=cells["id"][:40]) if "id" in cells else kept


@cache
def _words(name: str) -> dict[str, Any]:
    """What each label stands for, in any language: a table that was shown in one is read by those of another."""
    names = {"columns": COLUMNS, "states": STATES, "kinds": KINDS}[name]
    return {fold(load_texts(language).get(f"kept.{name}.{entry}")): entry for language in LANGUAGES for entry in names}


def records_of(rows: Iterable[KeptRow], language: Language) -> list[dict[str, str]]:
    """The rows as a table that people read, change and give back to `rows_of`: cells by column name.

    Columns that no row fills are left out, but for those of question, reference and state.
    """
    label = load_texts(language).get
    names = {
        name: label(f"kept.columns.{name}") for name in ("question", "reference", "documents", "category", *COLUMNS)
    }
    records = []
    for kept in rows:
        cells = {name: getattr(kept.row, name) for name in ("question", "reference", "documents", "category")}
        record = {names[name]: cell for name, cell in cells.items()}
        ours = {
            "state": label(f"kept.states.{kept.state}"),
            "kind": label(f"kept.kinds.{kept.kind}") if kept.kind in KINDS else "",
            "quote": "\n".join(source.quote for source in kept.sources),
            "document": "\n".join(source.document for source in kept.sources),
            "id": kept.id,
        }
        # Where a column of the user's has a name of ours, it is the user's that is shown.
        records.append(record | {names[name]: cell for name, cell in ours.items()} | dict(kept.row.others))
    always = {names[name] for name in ("question", "reference", "state", "id")}
    filled = always | {name for record in records for name, cell in record.items() if cell}
    return [{name: cell for name, cell in record.items() if name in filled} for record in records]


@dataclass(frozen=True)
class Duplicates:
    """Questions of an addition that the table had already.

    Attributes:
        same: with the same reference; they were not added again.
        differing: with another reference; they were added all the same.
    """

    same: tuple[str, ...] = ()
    differing: tuple[str, ...] = ()


def appended(rows: Sequence[KeptRow], added: Sequence[KeptRow]) -> tuple[list[KeptRow], Duplicates]:
    """The rows with others after them, and which of these were there already."""
    result, same, differing = list(rows), [], []
    known: dict[tuple[str, ...], list[KeptRow]] = {}
    for kept in rows:
        known.setdefault(kept.key, []).append(kept)
    ids = {kept.id for kept in rows}
    for kept in added:
        alike = known.setdefault(kept.key, [])
        if any(fold(other.row.reference) == fold(kept.row.reference) for other in alike):
            same.append(kept.row.question)
            continue
        if alike:
            differing.append(kept.row.question)
        new = replace(kept, id=_new_id()) if kept.id in ids else kept
        ids.add(new.id)
        alike.append(new)
        result.append(new)
    return result, Duplicates(tuple(same), tuple(differing))


def replaced(rows: Sequence[KeptRow], new: Sequence[KeptRow]) -> list[KeptRow]:
    """The new rows in place of the old ones; the same row keeps its id and where it comes from.

    It is the same by its id, else by its question and inputs; a row of the old table is taken once.
    """
    by_id = {kept.id: kept for kept in rows}
    by_key: dict[tuple[str, ...], list[KeptRow]] = {}
    named = {kept.id for kept in new} & by_id.keys()
    for kept in rows:
        if kept.id not in named:
            by_key.setdefault(kept.key, []).append(kept)
    result, used = [], set[str]()
    for kept in new:
        old = by_id.get(kept.id) if kept.id not in used else None
        if old is None and (alike := by_key.get(kept.key)):
            old = alike.pop(0)
        if old is not None:
            found = replace(kept, id=old.id, kind=old.kind or kept.kind, sources=old.sources or kept.sources)
        else:
            found = replace(kept, id=_new_id()) if kept.id in used else kept
        used.add(found.id)
        result.append(found)
    return result


def differences(mine: Sequence[KeptRow], theirs: Sequence[KeptRow]) -> list[tuple[KeptRow | None, KeptRow | None]]:
    """Where two editions of a table differ: pairs of the same row by its id, None where one does not have it."""
    of_mine, of_theirs = ({kept.id: kept for kept in rows} for rows in (mine, theirs))
    pairs = ((of_mine.get(name), of_theirs.get(name)) for name in of_mine | of_theirs)
    return [(one, other) for one, other in pairs if one is None or other is None or not one.says_the_same(other)]


def stamped(old: Iterable[KeptRow], new: Iterable[KeptRow], by: str, at: str) -> list[KeptRow]:
    """The new rows, each with an id of its own; those that say something else than before carry who changed them."""
    before = {kept.id: kept for kept in old}
    result, used = [], set[str]()
    for kept in new:
        earlier = before.get(kept.id) if kept.id not in used else None
        same = earlier is not None and earlier.says_the_same(kept)
        hand = (earlier.changed_by, earlier.changed_at) if earlier and same else (by, at)
        name = _new_id() if kept.id in used else kept.id
        used.add(name)
        result.append(replace(kept, id=name, changed_by=hand[0], changed_at=hand[1]))
    return result
