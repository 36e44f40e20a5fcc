"""Where the runs of one name are kept. What lies under which key, and what each value holds: docs/storage.md."""

import hashlib
import json
import zlib
from collections.abc import Sequence
from typing import Any

from evaluation.errors import EvaluationError
from evaluation.runs.heads import RunHead, RunSummary
from evaluation.runs.packing import light, packed, packed_index, unpacked, unpacked_index
from evaluation.runs.records import SCHEMA, RowRecord
from evaluation.storage.many import at_once, read_all
from evaluation.storage.values import Values, discard, read, read_json, write, write_json

# Rows of an index in one value.
INDEX_ROWS = 250
# Rows that are noted as begun at once.
BEGUN_AT_ONCE = 50
# What a run's lock is called.
LOCK = "lock"


def run_base(name: str, app_id: str) -> str:
    """What the keys of a name's runs begin with: a hash, as names may be long and hold anything.

    Args:
        name: of the run; "" where the app stands for it.
        app_id: of the app that is evaluated.
    """
    # No name begins with this: names are stripped of white space.
    identity = name or f"\n{app_id}"
    return f"runs/{hashlib.sha256(identity.encode(errors='replace')).hexdigest()[:24]}"


class RunStore:
    """The runs of one name.

    Reading raises storage_failed when the storage does, writing storage_full or storage_failed; a value may be there
    although it was refused.

    Args:
        base: as run_base gives it.
    """

    def __init__(self, values: Values, base: str) -> None:
        self.values = values
        self.base = base

    def key(self, number: int, name: str) -> str:
        """The key of something of a run: head, summary, lock, or a row."""
        return f"{self.base}/{number}/{name}"

    # --- numbers ---

    def numbers(self) -> tuple[int, int]:
        """The numbers of the oldest run that may be kept and of the newest; (1, 0) when there was none yet."""
        kept = read_json(self.values, f"{self.base}/head")
        newest = _whole(kept.get("number"), 0)
        # Of two runs that began at once one may have lost its note.
        while read_json(self.values, self.key(newest + 1, "head")):
            newest += 1
        return _whole(kept.get("oldest"), 1), newest

    def write_numbers(self, oldest: int, newest: int) -> None:
        write_json(self.values, f"{self.base}/head", {"schema": SCHEMA, "oldest": oldest, "number": newest})

    # --- heads and summaries ---

    def head(self, number: int) -> RunHead | None:
        """The head of a run, None when it was deleted, never was, is damaged or of another schema."""
        return RunHead.from_dict(self.raw_head(number))

    def raw_head(self, number: int) -> dict[str, Any]:
        """The head as it is kept, of whatever schema; {} without one."""
        return read_json(self.values, self.key(number, "head"))

    def is_foreign(self, number: int) -> bool:
        """Whether another version of the plugin has kept the run, in a way that this one does not read."""
        head = self.raw_head(number)
        return bool(head) and head.get("schema") != SCHEMA

    def write_head(self, head: RunHead, oldest: int = 1) -> None:
        """Keeps the head of a run that begins, the newest of its name from now on."""
        self.rewrite_head(head)
        self.write_numbers(oldest, head.number)

    def rewrite_head(self, head: RunHead) -> None:
        """Keeps the head of a run that is there."""
        write_json(self.values, self.key(head.number, "head"), head.as_dict())

    def summary(self, number: int) -> RunSummary | None:
        """A run's summary, None without one: no call for it has ended yet, or it is being deleted."""
        return self.summaries([number])[0]

    def summaries(self, numbers: Sequence[int]) -> list[RunSummary | None]:
        """The summaries of several runs, None for those without one."""
        found = read_all(self.values, [self.key(number, "summary") for number in numbers])
        return [RunSummary.from_dict(_object(data)) for data in found]

    def write_summary(self, summary: RunSummary) -> None:
        write_json(self.values, self.key(summary.head.number, "summary"), summary.as_dict())

    # --- rows ---

    def read_row(self, number: int, key: str) -> RowRecord | None:
        """A row's record, None when it is not kept or can't be read."""
        return unpacked(read(self.values, self.key(number, key)))

    def read_rows(self, number: int, keys: Sequence[str]) -> list[RowRecord | None]:
        """The records of several rows, None for those that are not kept or can't be read."""
        return at_once(lambda key: self.read_row(number, key), keys)

    def write_row(self, number: int, record: RowRecord) -> None:
        """Keeps a row's record, and where its scores are when it is judged."""
        write(self.values, self.key(number, record.key), packed(record))
        if record.state == "done" and record.judged:
            write_json(self.values, scores_key(record), self.place(number, record.key))

    def begun(self, number: int) -> int:
        """How many of a run's rows, in the order in which they are asked, may have been begun: no other is kept."""
        return _whole(read_json(self.values, self.key(number, "begun")).get("rows"), BEGUN_AT_ONCE)

    def write_begun(self, number: int, rows: int) -> None:
        write_json(self.values, self.key(number, "begun"), {"rows": rows})

    def find_scores(self, fingerprint: str, repetition: int, number: int) -> RowRecord | None:
        """A row of an earlier run, of any name, whose scores depend on just the same; None when none can be read.

        Never one of the run itself: what it asks several times shall show how much the judge's scores vary.

        Args:
            number: of the run that asks.
        """
        try:
            place = _object(self.values.get(f"scores/{fingerprint}-{repetition}"))
            if (place["base"], place["number"]) == (self.base, number):
                return None
            record = unpacked(self.values.get(f"{place['base']}/{place['number']}/{place['key']}"))
        except Exception:  # noqa: BLE001 - the run may have been deleted since, and scores can be given anew
            return None
        usable = record and record.fingerprint == fingerprint and record.state == "done" and record.judged
        return record if usable else None

    def place(self, number: int, key: str) -> dict[str, Any]:
        """Where a row is kept, as an entry of scores says it."""
        return {"base": self.base, "number": number, "key": key}

    # --- the index ---

    def index(self, head: RunHead) -> list[RowRecord]:
        """The run's rows without their long texts, as its last call left them; [] when no call has ended."""
        keys = self.index_keys(head.number, len(head.keys))
        return [record for part in read_all(self.values, keys) for record in unpacked_index(part)]

    def write_index(self, number: int, records: Sequence[RowRecord]) -> None:
        """Keeps of all rows what a list of them and a comparison need."""
        rows = [light(record) for record in records]
        parts = [rows[start : start + INDEX_ROWS] for start in range(0, len(rows), INDEX_ROWS)]
        keys = self.index_keys(number, len(rows))
        at_once(lambda pair: write(self.values, pair[0], packed_index(pair[1])), list(zip(keys, parts, strict=True)))

    def index_keys(self, number: int, rows: int) -> list[str]:
        """The keys of the index of a run of so many rows."""
        return [self.key(number, f"index/{part}") for part in range(-(-rows // INDEX_ROWS))]

    # --- who has seen it ---

    def has_been_seen(self, number: int) -> bool:
        """Whether the run's report has gone out as far as it can be known, and nobody has come for it in vain."""
        return self._seen(number) == "shown"

    def is_wanted(self, number: int) -> bool:
        """Whether somebody has come for the run's report in vain."""
        return self._seen(number) == "wanted"

    def _seen(self, number: int) -> object:
        return read_json(self.values, self.key(number, "seen")).get("state")

    def tell_seen(self, number: int, *, shown: bool) -> None:
        """Keeps that the report went out, or that somebody came for it before it was there."""
        try:
            write_json(self.values, self.key(number, "seen"), {"state": "shown" if shown else "wanted"})
        except EvaluationError:
            # Then the report is shown once more.
            discard(self.values, self.key(number, "seen"))


def scores_key(record: RowRecord) -> str:
    """The key that tells where the scores of a row are. Each repetition has its own, so that they stay apart."""
    return f"scores/{record.fingerprint}-{record.repetition}"


def score_keys_in(data: bytes) -> list[str]:
    """The keys that may tell where the scores of a kept row are, in whatever format it was kept."""
    try:
        kept = json.loads(zlib.decompress(data))
        found = kept["fingerprint"]
        keys = [f"scores/{found}-{kept['repetition']}", f"scores/{found}"]
    except (ValueError, KeyError, TypeError, zlib.error):
        return []
    return keys[: 1 if "schema" in kept else 2] if found else []


def _whole(value: object, otherwise: int) -> int:
    """The number that was kept; what is none was kept by another version, or is damaged."""
    return value if isinstance(value, int) and value >= 0 else otherwise


def _object(data: bytes | None) -> dict[str, Any]:
    try:
        value = json.loads(data or b"{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
