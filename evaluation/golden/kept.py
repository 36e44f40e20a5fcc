"""Question tables kept by name: each save is a new version, and none is lost when two edit at once.

Keys: tables/names/… (the register), tables/<name>/head (the versions that are kept, each with its parts),
tables/<name>/<part> (some rows, compressed, under the hash of their content, so that versions share what they have in
common), tables/<name>/lock. <name> is a hash, as names may be long and hold anything. A version is there once the head
names it.
"""

import contextlib
import hashlib
import json
import re
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

from evaluation.errors import EvaluationError, Reason
from evaluation.golden.kept_rows import KeptRow, counted, differences, stamped
from evaluation.storage.lock import Lock
from evaluation.storage.many import read_all
from evaluation.storage.register import Register
from evaluation.storage.values import MAX_VALUE_BYTES, Values, discard, read, write

SCHEMA = 1
KEPT_VERSIONS = 20
MAX_ROWS = 5000
MAX_NAME_CHARACTERS = 100
# A part holds so many rows, fewer where they are long: an edit writes one part anew.
PART_ROWS = 100
# How long a save waits for another one of the same table.
WAITING_SECONDS = 10.0

type Edit = Callable[[Sequence[KeptRow]], Sequence[KeptRow]]


@dataclass(frozen=True)
class Version:
    """One save of a table.

    Attributes:
        number: from 1; a number is never given twice.
        at: when, in ISO 8601. by: who, "" when it is not known.
        action: what was done: "replace", "append", "edit", "restore", "draft".
        counts: rows by state.
        parts: names of the keys that hold the rows, in order.
    """

    number: int
    at: str
    by: str
    action: str
    counts: Mapping[str, int]
    parts: tuple[str, ...]

    @property
    def rows(self) -> int:
        return sum(self.counts.values())


@dataclass(frozen=True)
class TableHead:
    """What is known of a table without its rows: its name as it was first saved, and its versions, the newest first."""

    name: str
    versions: tuple[Version, ...]

    @property
    def newest(self) -> Version:
        return self.versions[0]


@dataclass(frozen=True)
class KeptTable:
    """A table's rows in one version."""

    head: TableHead
    version: Version
    rows: tuple[KeptRow, ...]


class ConflictError(EvaluationError):
    """A save that began from a version which is no longer the newest. Nothing was saved.

    Attributes:
        mine: the rows that were to be saved.
        theirs: the newest version.
    """

    def __init__(self, base: int, mine: Sequence[KeptRow], theirs: KeptTable) -> None:
        values = {"table": theirs.head.name, "base": base, "version": theirs.version.number}
        super().__init__(Reason.TABLE_CONFLICT, **values, rows=len(differences(mine, theirs.rows)))
        self.mine = tuple(mine)
        self.theirs = theirs


class KeptTables:
    """All kept tables of a workspace.

    Everything here raises EvaluationError: storage_failed, kept_by_newer_plugin for what a later format has written,
    and what is named at the methods.
    """

    def __init__(self, values: Values) -> None:
        self._values = values
        self._register = Register(values, "tables/names")

    def heads(self) -> list[TableHead]:
        """All tables, the last changed first; without those whose head can't be read, which `names` has."""
        heads: list[TableHead] = []
        for data in read_all(self._values, [f"{table_key(name)}/head" for name in self._register.names()]):
            with contextlib.suppress(EvaluationError):
                heads += [_read_head(data)] if data is not None else []
        return sorted(heads, key=lambda head: head.newest.at, reverse=True)

    def names(self) -> list[str]:
        """The names of all tables, the latest first."""
        return self._register.names()

    def head(self, name: str) -> TableHead | None:
        """The table's head, None when there is no such table."""
        data = read(self._values, f"{table_key(name)}/head")
        return None if data is None else _read_head(data)

    def read(self, name: str, number: int | None = None) -> KeptTable:
        """The table's newest version, or the one of that number.

        Raises:
            EvaluationError: table_not_found, table_version_not_found.
        """
        head = self.head(name)
        if head is None:
            raise self._not_found(_shown(name))
        version = head.newest
        if number is not None:
            found = [version for version in head.versions if version.number == number]
            if not found:
                first, last = head.versions[-1].number, head.newest.number
                raise EvaluationError(
                    Reason.TABLE_VERSION_NOT_FOUND, table=head.name, version=number, first=first, last=last
                )
            version = found[0]
        return KeptTable(head, version, self._rows(name, version))

    def save(
        self, name: str, edit: Edit, *, base: int | None = None, by: str = "", action: str = "edit"
    ) -> tuple[KeptTable, bool]:
        """Saves what the edit makes of the newest version's rows, of none for a new table, as a new version.

        Args:
            name: as people type it: width, case and white space of two names tell no two tables apart.
            edit: may be called again after another save came between.
            base: the version that the edit began from, 0 for a table that was not there; None for any.

        Returns:
            The table, and whether anything was saved: rows that say the same as before are no new version.

        Raises:
            ConflictError: the newest version is not `base`.
            EvaluationError: no_table_name, input_too_long for the name, table_too_large, table_busy, storage_full.
        """
        plain = checked_name(name)
        lock = Lock(self._values, f"{table_key(name)}/lock", Reason.TABLE_BUSY)
        lock.take(WAITING_SECONDS)
        try:
            saved = self._save(plain, edit, base, Version(0, _now(), by, action, {}, ()), lock)
        finally:
            lock.release()
        # A register that lost the name gets it back with the next save.
        self._register.add(saved[0].head.name)
        return saved

    def restore(self, name: str, number: int, *, by: str = "") -> tuple[KeptTable, bool]:
        """Saves an earlier version's rows as a new version.

        Raises:
            EvaluationError: table_not_found, table_version_not_found, and as `save`.
        """
        earlier = self.read(name, number)
        return self.save(name, lambda _: earlier.rows, by=by, action="restore")

    def _save(self, name: str, edit: Edit, base: int | None, version: Version, lock: Lock) -> tuple[KeptTable, bool]:
        head = self.head(name)
        before = KeptTable(head, head.newest, self._rows(name, head.newest)) if head else None
        if before is None and base:
            raise self._not_found(name)
        old = before.rows if before else ()
        rows = stamped(old, edit(old), version.by, version.at)
        if len(rows) > MAX_ROWS:
            raise EvaluationError(Reason.TABLE_TOO_LARGE, rows=len(rows), limit=MAX_ROWS)
        if before and base is not None and base != before.version.number:
            raise ConflictError(base, rows, before)
        if before and _same(old, rows):
            return before, False
        packed = _packed(rows)
        version = replace(
            version,
            number=before.version.number + 1 if before else 1,
            counts=counted(rows),
            parts=tuple(part for part, _ in packed),
        )
        kept = head.versions if head else ()
        new_head = TableHead(head.name if head else name, (version, *kept[: KEPT_VERSIONS - 1]))
        known = {part for one in kept for part in one.parts}
        try:
            for part, data in packed:
                if part not in known:
                    write(self._values, f"{table_key(name)}/{part}", data)
            # Whoever took this call for dead has the table now, and this one must not write over its version.
            lock.require()
        except EvaluationError:
            self._discard(name, set(version.parts) - known)
            raise
        self._write_head(name, new_head, head)
        self._discard(name, known - {part for one in new_head.versions for part in one.parts})
        found = self.head(name)
        if found is None or version not in found.versions:
            raise ConflictError(version.number - 1, rows, self.read(name))
        return KeptTable(new_head, version, tuple(rows)), True

    def _write_head(self, name: str, head: TableHead, before: TableHead | None) -> None:
        key = f"{table_key(name)}/head"
        try:
            write(self._values, key, _head_json(head))
        except EvaluationError:
            # What is refused for its size is written all the same. The parts stay: this may fail too, and a head must
            # never name what is gone.
            with contextlib.suppress(Exception):
                if before:
                    self._values.set(key, _head_json(before))
                else:
                    self._values.delete(key)
            raise

    def _rows(self, name: str, version: Version) -> tuple[KeptRow, ...]:
        rows: list[KeptRow] = []
        for data in read_all(self._values, [f"{table_key(name)}/{part}" for part in version.parts]):
            try:
                rows += [KeptRow.from_dict(value) for value in json.loads(zlib.decompress(data or b""))]
            except (ValueError, zlib.error) as error:
                raise EvaluationError(Reason.STORAGE_FAILED) from error
        return tuple(rows)

    def _not_found(self, name: str) -> EvaluationError:
        return EvaluationError(Reason.TABLE_NOT_FOUND, table=name, known=", ".join(self.names()[:5]) or "—")

    def _discard(self, name: str, parts: Iterable[str]) -> None:
        for part in parts:
            discard(self._values, f"{table_key(name)}/{part}")


def _shown(name: str) -> str:
    """The name as it is shown: half and full width are one, and so is any white space."""
    return re.sub(r"\s+", " ", unicodedata.normalize("NFKC", name)).strip()


def checked_name(name: str) -> str:
    """The name as it is shown.

    Raises:
        EvaluationError: no_table_name, input_too_long.
    """
    plain = _shown(name)
    if not plain:
        raise EvaluationError(Reason.NO_TABLE_NAME)
    if len(plain) > MAX_NAME_CHARACTERS:
        raise EvaluationError(
            Reason.INPUT_TOO_LONG, field="table_name", characters=len(plain), limit=MAX_NAME_CHARACTERS
        )
    return plain


def table_key(name: str) -> str:
    """With what the keys of a table begin."""
    folded = _shown(name).casefold().encode(errors="replace")
    return f"tables/{hashlib.sha256(folded).hexdigest()[:24]}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _same(old: Sequence[KeptRow], new: Sequence[KeptRow]) -> bool:
    return len(old) == len(new) and all(
        one.id == other.id and one.says_the_same(other) for one, other in zip(old, new, strict=True)
    )


def _packed(rows: Sequence[KeptRow]) -> list[tuple[str, bytes]]:
    """The rows in parts, each with the hash of its content."""
    parts: list[list[str]] = [[]]
    size = 0
    for kept in rows:
        text = json.dumps(kept.as_dict(), ensure_ascii=False)
        length = len(text.encode(errors="replace"))
        if parts[-1] and (len(parts[-1]) == PART_ROWS or size + length > MAX_VALUE_BYTES):
            parts.append([])
            size = 0
        parts[-1].append(text)
        size += length + 1
    texts = [f"[{','.join(part)}]".encode(errors="replace") for part in parts if part]
    return [(hashlib.sha256(text).hexdigest()[:24], zlib.compress(text)) for text in texts]


def _head_json(head: TableHead) -> bytes:
    return json.dumps({"schema": SCHEMA, **asdict(head)}, ensure_ascii=False).encode(errors="replace")


def _read_head(data: bytes) -> TableHead:
    """A head that can't be read must not look like a table that is not there: a save would begin it anew."""
    try:
        value = json.loads(data)
        if value["schema"] > SCHEMA:
            raise EvaluationError(Reason.KEPT_BY_NEWER, table=str(value.get("name", "")))
        versions = [Version(**{**version, "parts": tuple(version["parts"])}) for version in value["versions"]]
        return TableHead(value["name"], (versions[0], *versions[1:]))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise EvaluationError(Reason.STORAGE_FAILED) from error
