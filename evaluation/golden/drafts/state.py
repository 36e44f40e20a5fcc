"""How far a drafting is, kept under its table's name, so that the next call goes on with it.

Keys: tables/<name>/drafting (the progress, with the drafts that were not put into the table yet), and
tables/<name>/drafting/lock.
"""

import contextlib
import json
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from evaluation.errors import Reason
from evaluation.golden.drafts.drafting import Progress
from evaluation.golden.drafts.plan import Made
from evaluation.golden.kept import KeptTable, KeptTables, checked_name, table_key
from evaluation.golden.kept_rows import KeptRow, appended
from evaluation.storage.lock import RenewedLock
from evaluation.storage.values import Values, read, write

SCHEMA = 1


class DraftStore:
    """The drafting of one table, for one call at a time.

    Args:
        name: the table's.
        by: who asks for the drafts, "" when it is not known.

    Raises:
        EvaluationError: no_table_name, input_too_long for the name.
    """

    def __init__(self, values: Values, name: str, by: str = "") -> None:
        self._values = values
        self._name = checked_name(name)
        self._by = by
        self._key = f"{table_key(name)}/drafting"
        self._lock = RenewedLock(values, f"{self._key}/lock", Reason.DRAFTING_BUSY)

    def begin(self, count: int, mix: Mapping[str, float]) -> Progress:
        """Takes the drafting for this call: the unfinished one if it is the same, else a new one.

        Drafts that an earlier call has made but did not bring into the table come into it now.

        Raises:
            EvaluationError: drafting_busy, storage_full, storage_failed.
        """
        self._lock.take()
        try:
            progress = self._load()
            if progress is not None and progress.rows:
                self.finish(progress)
        except BaseException:
            self._lock.release()
            raise
        if progress is not None and not progress.finished and (progress.count, progress.mix) == (count, dict(mix)):
            return progress
        return Progress(count, dict(mix))

    def save(self, progress: Progress) -> None:
        """Keeps how far it is.

        Raises:
            EvaluationError: drafting_busy when another call has taken it over, storage_full, storage_failed.
        """
        self._lock.require()
        made = {entry.name: dict(getattr(progress.made, entry.name)) for entry in fields(Made)}
        value = {
            **{entry.name: getattr(progress, entry.name) for entry in fields(Progress)},
            "schema": SCHEMA,
            "made": made,
            "rows": [kept.as_dict() for kept in progress.rows],
        }
        write(self._values, self._key, zlib.compress(json.dumps(value, ensure_ascii=False).encode(errors="replace")))

    def finish(self, progress: Progress) -> KeptTable | None:
        """Puts the drafts into the table, in one version; None when there are none to put.

        Raises:
            EvaluationError: as KeptTables.save.
        """
        if not progress.rows:
            return None
        rows = tuple(progress.rows)
        tables = KeptTables(self._values)
        table, _ = tables.save(self._name, lambda old: appended(old, rows)[0], by=self._by, action="draft")
        progress.rows = []
        self.save(progress)
        return table

    def release(self) -> None:
        """Lets another call draft for the table."""
        self._lock.release()

    def _load(self) -> Progress | None:
        """The progress that is kept; None when there is none, or it can't be read: then it begins anew."""
        data = read(self._values, self._key)
        with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError, zlib.error):
            value: dict[str, Any] = json.loads(zlib.decompress(data or b""))
            if value.pop("schema") == SCHEMA:
                made = Made(**{name: Counter(counts) for name, counts in value.pop("made").items()})
                rows = [KeptRow.from_dict(row) for row in value.pop("rows")]
                dropped = Counter(value.pop("dropped"))
                return Progress(**value, made=made, rows=rows, dropped=dropped)
        return None
