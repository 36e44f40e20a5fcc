"""Where runs are kept: one key for a run's head, one for each row, none that two rows write.

Keys: runs/<name>/head (which number is the newest, and the oldest that may be kept), runs/<name>/lock,
runs/<name>/<number>/head, runs/<name>/<number>/<row>, scores/<fingerprint> (which row has these scores). <name> is a
hash, as names may be long and hold anything.
"""

import contextlib
import hashlib
import json
import time
import uuid
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

from evaluation.errors import EvaluationError, Reason
from evaluation.result import bounded
from evaluation.runs.records import RowRecord, RunSettings

# A call that was killed leaves its lock behind; one that lives renews it far more often than this.
LOCK_SECONDS = 30.0
LOCK_RENEWAL_SECONDS = 5.0
# Far more than a write takes.
LOCK_SETTLING_SECONDS = 0.2
# What deleting old runs may take of a call; the rest is deleted by the next one.
DELETING_SECONDS = 15.0
# A value travels as hex in one line, which must stay far below 5 MB.
MAX_VALUE_BYTES = 900_000
# How a record that is larger is cut: chunks, characters of each, characters of the answer and of each metric.
_CUTS = ((500, 1000, 20_000, 20_000), (100, 300, 5_000, 5_000), (20, 100, 1_000, 1_000))
# Dify's words for a write that it refused for the storage's size.
_FULL = "max storage size"


class Values(Protocol):
    """A key-value store. Reading or deleting a missing key raises."""

    def get(self, key: str) -> bytes: ...
    def set(self, key: str, val: bytes) -> None: ...
    def delete(self, key: str) -> None: ...
    def exist(self, key: str) -> bool: ...


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
        self._base = f"runs/{hashlib.sha256(name.encode(errors='replace')).hexdigest()[:24]}"
        self._owner = uuid.uuid4().hex

    def newest_number(self) -> int:
        """The number of the newest run of the name, 0 when there is none.

        Raises:
            EvaluationError: storage_failed, as from everything that reads here.
        """
        return int(self._read_json(f"{self._base}/head").get("number", 0))

    def head(self, number: int) -> RunHead | None:
        """The head of a run, None when it was deleted, never was, or can't be read."""
        value = self._read_json(f"{self._base}/{number}/head")
        try:
            settings = RunSettings.from_dict(value["settings"])
            return RunHead(**{**value, "settings": settings, "keys": tuple(value["keys"])})
        except (KeyError, TypeError, AttributeError):
            return None

    def write_head(self, head: RunHead) -> None:
        """Keeps a run's head and makes the run the newest of its name."""
        self._write_json(f"{self._base}/{head.number}/head", asdict(head))
        numbers = self._read_json(f"{self._base}/head")
        if numbers.get("number", 0) < head.number:
            self._write_json(f"{self._base}/head", {**numbers, "number": head.number})

    def read_row(self, number: int, key: str) -> RowRecord | None:
        """A row's record, None when it is not kept or can't be read."""
        data = self._read(f"{self._base}/{number}/{key}")
        try:
            return None if data is None else RowRecord.from_json(zlib.decompress(data))
        except (ValueError, zlib.error):
            return None

    def read_rows(self, head: RunHead) -> Iterator[RowRecord]:
        """The records of a run that are kept, one after the other."""
        for key in head.keys:
            if (record := self.read_row(head.number, key)) is not None:
                yield record

    def write_row(self, number: int, record: RowRecord) -> None:
        """Keeps a row's record.

        Raises:
            EvaluationError: storage_full or storage_failed. The record may be there all the same.
        """
        self._set(f"{self._base}/{number}/{record.key}", _packed(record))
        if record.state == "done" and record.judged:
            self._write_json(f"scores/{record.fingerprint}", self._place(number, record.key))

    def find_scores(self, fingerprint: str) -> RowRecord | None:
        """An earlier row, of any run, whose scores depend on just the same; None when none can be read."""
        try:
            place = self._read_json(f"scores/{fingerprint}")
            data = self._values.get(f"{place['base']}/{place['number']}/{place['key']}")
            record = RowRecord.from_json(zlib.decompress(data))
        except Exception:  # noqa: BLE001 - the run may have been deleted since, and scores can be given anew
            return None
        return record if record.fingerprint == fingerprint and record.state == "done" and record.judged else None

    def delete_before(self, number: int) -> None:
        """Deletes the runs of the name that are older than a number, the oldest first, as far as time allows."""
        until = time.monotonic() + DELETING_SECONDS
        numbers = self._read_json(f"{self._base}/head")
        oldest = int(numbers.get("oldest", 1))
        while oldest < number and self._delete_run(oldest, until):
            oldest += 1
        if oldest != numbers.get("oldest", 1):
            self._write_json(f"{self._base}/head", {**numbers, "oldest": oldest})

    def _delete_run(self, number: int, until: float) -> bool:
        """Whether the run is gone; its head goes last, so that another call can go on with it."""
        head = self.head(number)
        for key in head.keys if head else ():
            if time.monotonic() > until:
                return False
            with contextlib.suppress(Exception):
                record = self.read_row(number, key)
                self._values.delete(f"{self._base}/{number}/{key}")
                # A later row may have taken the scores over.
                scores = f"scores/{record.fingerprint}" if record else ""
                if self._read_json(scores) == self._place(number, key):
                    self._values.delete(scores)
        with contextlib.suppress(Exception):
            self._values.delete(f"{self._base}/{number}/head")
        return True

    def _place(self, number: int, key: str) -> dict[str, Any]:
        return {"base": self._base, "number": number, "key": key}

    def lock(self) -> None:
        """Takes the name for this call.

        Raises:
            EvaluationError: run_busy when another call has it; storage that refuses.
        """
        try:
            self.renew_lock()
            # Two calls may both have found it free: by now both have written, and the last one has it.
            time.sleep(LOCK_SETTLING_SECONDS)
            self._require_lock()
        except EvaluationError:
            self.unlock()
            raise

    def renew_lock(self) -> None:
        """Says that the call is still at work.

        Raises:
            EvaluationError: run_busy when another call has taken the name, since this one stood still for too long.
        """
        self._require_lock()
        self._write_json(self._lock_key, {"owner": self._owner, "at": time.time()})

    def unlock(self) -> None:
        """Gives the name free, unless another call has it."""
        with contextlib.suppress(Exception):
            if self._read_json(self._lock_key).get("owner") == self._owner:
                self._values.delete(self._lock_key)

    @property
    def _lock_key(self) -> str:
        return f"{self._base}/lock"

    def _require_lock(self) -> None:
        held = self._read_json(self._lock_key)
        # A time in the future is no better than one long past: somebody has set a clock.
        fresh = abs(time.time() - held.get("at", 0.0)) < LOCK_SECONDS
        if held.get("owner", self._owner) != self._owner and fresh:
            raise EvaluationError(Reason.RUN_BUSY)

    def _read(self, key: str) -> bytes | None:
        """The value, None when there is none. A failing storage must not look like an empty one."""
        try:
            return self._values.get(key)
        except Exception as error:
            try:
                missing = not self._values.exist(key)
            except Exception:  # noqa: BLE001 - the first error says as much
                missing = False
            if missing:
                return None
            raise EvaluationError(Reason.STORAGE_FAILED) from error

    def _read_json(self, key: str) -> dict[str, Any]:
        """The object kept under the key, {} when there is none or it can't be read."""
        try:
            value = json.loads(self._read(key) or b"{}")
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}

    def _write_json(self, key: str, value: dict[str, Any]) -> None:
        self._set(key, json.dumps(value).encode())

    def _set(self, key: str, value: bytes) -> None:
        try:
            self._values.set(key, value)
        except Exception as error:
            full = _FULL in str(error)
            raise EvaluationError(Reason.STORAGE_FULL if full else Reason.STORAGE_FAILED) from error


def _packed(record: RowRecord) -> bytes:
    """The record as it is kept, cut to what a report shows when the whole would not go through in one line."""
    data = zlib.compress(record.as_json())
    for cut in _CUTS:
        if len(data) <= MAX_VALUE_BYTES:
            break
        data = zlib.compress(_shortened(record, *cut).as_json())
    return data


def _shortened(record: RowRecord, chunks: int, characters: int, of_answer: int, of_metric: int) -> RowRecord:
    if record.state == "answered" or not record.judged:
        # Scores of a cut answer would be those of another one: it is asked for again.
        return replace(record, state="open", answer="", contexts=[], metrics={})
    return replace(
        record,
        answer=_cut(record.answer, of_answer),
        contexts=[{**chunk, "text": _cut(chunk["text"], characters)} for chunk in record.contexts[:chunks]],
        metrics={
            name: {**metric, "details": bounded(metric["details"], of_metric)}
            for name, metric in record.metrics.items()
        },
    )


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else text[: characters - 1] + "…"
