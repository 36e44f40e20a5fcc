"""A storage, a clock and rows in memory for whole runs."""

import threading
from collections.abc import Callable
from typing import Any

from devhost.dify_side import Storage
from evaluation.judging.clock import Clock
from evaluation.judging.models import ModelIdentity
from evaluation.runs.app_events import AppAnswer
from evaluation.runs.heads import RunHead, RunSummary
from evaluation.runs.records import RowRecord, RunSettings
from evaluation.sample import read_contexts
from evaluation.scorecard import FOUR

type Watch = Callable[[str, str], None]

CHUNKS = ("有給休暇は10日", "日当は2,000円")


class Killed(BaseException):
    """The plugin's process has ended."""


class MemoryValues:
    """A plugin's storage as Dify behaves: its wording, its cache, values that are there although they were refused.

    Attributes:
        before: called with "get", "set", "delete" or "exist" and the key, before each call; may raise.
    """

    def __init__(self, storage: Storage | None = None) -> None:
        self.storage = storage or Storage()
        self.before: Watch = lambda _operation, _key: None

    def get(self, key: str) -> bytes:
        self.before("get", key)
        return self.storage.get(key)

    def set(self, key: str, val: bytes) -> None:
        self.before("set", key)
        self.storage.set(key, val)

    def delete(self, key: str) -> None:
        self.before("delete", key)
        self.storage.delete(key)

    def exist(self, key: str) -> bool:
        self.before("exist", key)
        return self.storage.exists(key)

    def names(self) -> list[str]:
        return sorted(self.storage.snapshot())

    def kill_at(self, number: int, operation: str = "set") -> None:
        """From the n-th such call on everything fails, as nothing does any more in a killed process."""
        count, lock = 0, threading.Lock()

        def before(name: str, _key: str) -> None:
            nonlocal count
            with lock:
                count += name == operation
                if count >= number:
                    raise Killed

        self.before = before

    def after_restart(self) -> "MemoryValues":
        """The same storage for the next process, the dead one's lock old enough."""
        for key in self.names():
            if key.endswith("/lock"):
                self.storage.delete(key)
        return MemoryValues(self.storage)


class ManualClock(Clock):
    """Time that passes when a test says so, or while somebody sleeps."""

    def __init__(self) -> None:
        self.time = 0.0
        self.slept: list[float] = []
        self._lock = threading.Lock()

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.pass_by(seconds)

    def pass_by(self, seconds: float) -> None:
        with self._lock:
            self.time += seconds


def settings(**changes: Any) -> RunSettings:
    fields: dict[str, Any] = {
        "app_id": "app-2",
        "judge": ModelIdentity("scripts", "scripted", {"temperature": 0}),
        "embedding_model": ModelIdentity(),
        "metrics": FOUR,
        "options": {"depth": "standard", "question_count": 3},
        "votes": 1,
        "language": "ja",
    }
    return RunSettings(**{**fields, **changes})


def answer(text: str = "10日です", *chunks: str) -> AppAnswer:
    return AppAnswer(text, read_contexts(list(chunks or CHUNKS)), 30)


def metric(score: float | None = 1.0, status: str = "scored", reason: str = "", **details: Any) -> dict[str, Any]:
    kept = {"score": score, "status": status, "reason": reason, "reason_values": {}, "version": "1"}
    return {**kept, "details": details}


def failed_metric(reason: str, **details: Any) -> dict[str, Any]:
    return metric(None, "failed", reason, **details)


def done(row: int = 1, fingerprint: str = "f1", **changes: Any) -> RowRecord:
    fields = {"question": f"質問{row}", "answer": "10日です", "metrics": {"faithfulness": metric(0.5)}, **changes}
    return RowRecord(row, fingerprint=fingerprint, state="done", **fields)


def run_head(number: int = 1, rows: int = 1, **changes: Any) -> RunHead:
    made = settings(thresholds={"faithfulness": 0.7})
    return RunHead("朝の評価", number, "2026-11-30T09:00:00+00:00", made, "t", rows, {"faithfulness": "1"}, **changes)


def run_summary(number: int = 1, rows: int = 1, **changes: Any) -> RunSummary:
    fields: dict[str, Any] = {
        "finished": True,
        "ended_at": "2026-11-30T09:05:00+00:00",
        "total": rows,
        "done": rows,
        "failed": 0,
        "troubled": 0,
        "reused": 0,
        "metrics": {"faithfulness": {"mean": 0.5, "low": 0.4, "high": 0.6, "scored": rows}},
        "passed": False,
    }
    return RunSummary(run_head(number, rows), **{**fields, **changes})
