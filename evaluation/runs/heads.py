"""What is kept of a run beside its rows: its head, written when it begins, and a small summary of how it came out."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from evaluation.runs.records import SCHEMA, RunSettings


@dataclass(frozen=True)
class RunHead:
    """What a run is. Written when it begins, and again when a later call has other thresholds or another gate.

    Attributes:
        name: the run's name as the user gave it; "" where the app stands for it.
        number: counts the runs of that name from 1.
        started_at: ISO 8601, UTC.
        app_name: what people call the app, "" where nothing is known.
        table: a hash of the rows that are asked; `rows` is their number, without repetitions.
        versions: of the judge's prompts and of the metrics, by name.
        fresh: no scores were taken from earlier runs.
        table_name, table_version: of the kept table that the rows are from; "" and None for a pasted one.
    """

    name: str
    number: int
    started_at: str
    settings: RunSettings
    table: str
    rows: int
    versions: Mapping[str, str] = field(default_factory=dict)
    app_name: str = ""
    fresh: bool = False
    table_name: str = ""
    table_version: int | None = None

    @property
    def keys(self) -> list[str]:
        """The names of its records, in the order in which they are asked."""
        repetitions = range(1, self.settings.repeat + 1)
        return [f"{row}-{repetition}" for repetition in repetitions for row in range(1, self.rows + 1)]

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {"schema": SCHEMA, **asdict(self), "settings": self.settings.as_dict()}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> "RunHead | None":
        """The head that was kept, None when it is damaged, of another schema, or there is none."""
        if value.get("schema") != SCHEMA:
            return None
        try:
            settings = RunSettings.from_dict(value["settings"])
            return cls(**{**_known(cls, value), "settings": settings})
        except (KeyError, TypeError, AttributeError):
            return None


@dataclass(frozen=True)
class RunSummary:
    """How a run came out, so far or at its end: all that a list of runs shows, without their rows.

    Attributes:
        finished: all rows are done or have failed.
        ended_at: when the last call for it ended. ISO 8601, UTC.
        total, done, failed, troubled, reused: rows times repetitions: all; with an end; without an answer; with
            anything that could not be scored; with scores of an earlier run.
        metrics: by name, {"mean", "low", "high", "scored", "partial", "not_applicable", "failed"}.
        passed: whether every mean reaches its threshold, None where that is not known.
        more: what is concluded of the rows, as RunReport.conclusions gives it.
    """

    head: RunHead
    finished: bool
    ended_at: str
    total: int
    done: int
    failed: int
    troubled: int
    reused: int
    metrics: Mapping[str, Mapping[str, Any]]
    passed: bool | None
    more: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON types: the head's fields and its own."""
        own = {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.name != "head"}
        return {**self.head.as_dict(), **own}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> "RunSummary | None":
        """The summary that was kept; as RunHead.from_dict."""
        head = RunHead.from_dict(value)
        try:
            return None if head is None else cls(head, **_known(cls, value, "head"))
        except TypeError:
            return None


def _known(kind: type[RunHead | RunSummary], value: Mapping[str, Any], *other: str) -> dict[str, Any]:
    """The fields of the class; those that another build of this format has added are left out."""
    names = {entry.name for entry in fields(kind)} - {*other}
    return {name: item for name, item in value.items() if name in names}
