"""Where runs are kept: one key for a run's head, one for each row, none that two rows write.

Keys: runs/<name>/head (which number is the newest), runs/<name>/lock, runs/<name>/<number>/head,
runs/<name>/<number>/<row>, scores/<fingerprint> (which row has these scores). <name> is a hash, as names may be long
and hold anything.
"""

import contextlib
import hashlib
import json
import time
import uuid
import zlib
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

from evaluation.batch.records import RowRecord, RunSettings
from evaluation.errors import EvaluationError, Reason

# A call that was killed leaves its lock behind; one that lives renews it far more often than this.
LOCK_SECONDS = 30.0
LOCK_RENEWAL_SECONDS = 5.0
# A value travels as hex in one line, which must stay far below 5 MB.
MAX_VALUE_BYTES = 900_000
# Dify's words for a write that it refused for the storage's size.
_FULL = "max storage size"


class Values(Protocol):
    """A key-value store. A missing key raises."""

    def get(self, key: str) -> bytes: ...
    def set(self, key: str, val: bytes) -> None: ...
    def delete(self, key: str) -> None: ...


@dataclass(frozen=True)
class RunHead:
    """What a run is: its settings and table. Written when it begins and when it is finished, by one call alone.

    Attributes:
        table: a hash of the rows that are asked.
        keys: the records' names.
    """

    number: int
    started_at: str
    settings: RunSettings
    table: str
    keys: tuple[str, ...] = field(default=())
    finished: bool = False


class RunStore:
    """The runs of one name."""

    def __init__(self, values: Values, name: str) -> None:
        self._values = values
        self._base = f"runs/{hashlib.sha256(name.encode()).hexdigest()[:24]}"
        self._owner = uuid.uuid4().hex

    def newest(self) -> RunHead | None:
        """The newest run of the name, None when there is none."""
        number = self._read_json(f"{self._base}/head").get("number")
        return self.head(int(number)) if number else None

    def head(self, number: int) -> RunHead | None:
        """The head of a run, None when it was deleted or never was."""
        value = self._read_json(f"{self._base}/{number}/head")
        if not value:
            return None
        settings = value["settings"]
        settings["metrics"] = tuple(settings["metrics"])
        return RunHead(**{**value, "settings": RunSettings(**settings), "keys": tuple(value["keys"])})

    def write_head(self, head: RunHead) -> None:
        """Keeps a run's head and makes the run the newest of its name."""
        self._write_json(f"{self._base}/{head.number}/head", asdict(head))
        if self._read_json(f"{self._base}/head").get("number", 0) < head.number:
            self._write_json(f"{self._base}/head", {"number": head.number})

    def read_row(self, number: int, key: str) -> RowRecord | None:
        """A row's record, None when it is not kept."""
        try:
            return RowRecord.from_json(zlib.decompress(self._values.get(f"{self._base}/{number}/{key}")))
        except Exception:  # noqa: BLE001 - Dify tells a missing key by a bare exception
            return None

    def read_rows(self, head: RunHead) -> list[RowRecord]:
        """The records of a run that are kept."""
        return [record for key in head.keys if (record := self.read_row(head.number, key)) is not None]

    def write_row(self, number: int, record: RowRecord) -> None:
        """Keeps a row's record.

        Raises:
            EvaluationError: storage_full or storage_failed. The record may be there all the same.
        """
        data = zlib.compress(record.as_json())
        if len(data) > MAX_VALUE_BYTES:
            data = zlib.compress(_shortened(record).as_json())
        self._set(f"{self._base}/{number}/{record.key}", data)
        if record.fingerprint and record.state == "done" and not record.reused:
            place = {"base": self._base, "number": number, "key": record.key}
            self._write_json(f"scores/{record.fingerprint}", place)

    def find_scores(self, fingerprint: str) -> RowRecord | None:
        """An earlier row, of any run, whose scores depend on just the same; None when none is kept."""
        place = self._read_json(f"scores/{fingerprint}")
        if not place:
            return None
        try:
            data = self._values.get(f"{place['base']}/{place['number']}/{place['key']}")
            record = RowRecord.from_json(zlib.decompress(data))
        except Exception:  # noqa: BLE001 - the run may have been deleted since
            return None
        return record if record.fingerprint == fingerprint and record.state == "done" else None

    def delete_before(self, number: int) -> int:
        """Deletes the runs of the name that are older than a number; gives how many."""
        deleted = 0
        for old in range(number - 1, 0, -1):
            head = self.head(old)
            if head is None:
                break
            for key in (*head.keys, "head"):
                with contextlib.suppress(Exception):
                    self._values.delete(f"{self._base}/{old}/{key}")
            deleted += 1
        return deleted

    def lock(self) -> None:
        """Takes the name for this call.

        Raises:
            EvaluationError: run_busy when another call has it.
        """
        held = self._read_json(f"{self._base}/lock")
        if held and held.get("owner") != self._owner and time.time() - held.get("at", 0) < LOCK_SECONDS:
            raise EvaluationError(Reason.RUN_BUSY)
        self.renew_lock()
        # Two calls may both have found it free: the one that wrote last has it.
        if self._read_json(f"{self._base}/lock").get("owner") != self._owner:
            raise EvaluationError(Reason.RUN_BUSY)

    def renew_lock(self) -> None:
        """Says that the call is still at work."""
        self._write_json(f"{self._base}/lock", {"owner": self._owner, "at": time.time()})

    def unlock(self) -> None:
        """Gives the name free."""
        with contextlib.suppress(Exception):
            self._values.delete(f"{self._base}/lock")

    def _read_json(self, key: str) -> dict[str, Any]:
        try:
            value = json.loads(self._values.get(key))
        except Exception:  # noqa: BLE001 - Dify tells a missing key by a bare exception
            return {}
        return value if isinstance(value, dict) else {}

    def _write_json(self, key: str, value: dict[str, Any]) -> None:
        self._set(key, json.dumps(value, ensure_ascii=False).encode())

    def _set(self, key: str, value: bytes) -> None:
        try:
            self._values.set(key, value)
        except Exception as error:
            full = _FULL in str(error)
            raise EvaluationError(Reason.STORAGE_FULL if full else Reason.STORAGE_FAILED) from error


def _shortened(record: RowRecord) -> RowRecord:
    """The record with its chunks cut to what a report shows: the whole would not go through in one line."""
    contexts = [{**chunk, "text": chunk["text"][:1000] + "…"} for chunk in record.contexts]
    return replace(record, contexts=contexts, answer=record.answer[:20_000])
