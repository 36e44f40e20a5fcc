"""What was before a run: the run that it is compared with, the last ones of its name, and all names."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from evaluation.errors import EvaluationError, Reason
from evaluation.runs.heads import RunSummary
from evaluation.runs.names import RunName, find_name, list_names
from evaluation.runs.records import RowRecord, RunSettings
from evaluation.runs.store import RunStore
from evaluation.storage.values import Values

# Past runs of a name that a report lists.
LISTED_RUNS = 10

# Why there is nothing to compare with.
NoComparison = Literal["", "first_run", "unreadable"]


@dataclass(frozen=True)
class Other:
    """A run to compare with: a finished one, and how its name is called."""

    store: RunStore
    title: str
    summary: RunSummary


@dataclass(frozen=True)
class Past:
    """What was before a run of a name.

    Attributes:
        rows: of the run to compare with, as its index has them; None without one.
        title: how that run is called, "name #2"; "" without one.
        settings: it was made with.
        none: why there is none.
        listed: the last runs of the name before this one, the newest first.
        names: under which there are runs, the latest first.
    """

    rows: Sequence[RowRecord] | None = None
    title: str = ""
    settings: RunSettings | None = None
    none: NoComparison = ""
    listed: Sequence[RunSummary] = ()
    names: Sequence[RunName] = ()


def find_other(values: Values, own: RunName, wanted: str) -> Other | None:
    """The run to compare with, None when it is the finished one before of the own name.

    Args:
        wanted: another name, whose newest finished run it is; or a name and a number, as reports write it ("name #2").

    Raises:
        EvaluationError: run_not_found; run_unreadable when another version of the plugin kept it.
    """
    if wanted in {"", own.name}:
        return None
    store, newest = _runs_of(values, wanted)
    title, number = wanted, 0
    if not newest and (numbered := re.fullmatch(r"(.*?)\s*[#＃]\s*(\d{1,9})", wanted)):
        title, number = numbered[1] or own.name or own.app_name, int(numbered[2])
        store, newest = _runs_of(values, numbered[1]) if numbered[1] else (RunStore(values, own.base), number)
    if store.base == own.base and not number:
        return None
    if number:
        summary = store.summary(number)
        summary = summary if summary and summary.finished else None
    else:
        summary = _newest_finished(_before(store, newest + 1))
    if summary is None:
        reason = Reason.RUN_UNREADABLE if store.is_foreign(number or newest) else Reason.RUN_NOT_FOUND
        raise EvaluationError(reason, run=wanted)
    return Other(store, title, summary)


def _runs_of(values: Values, wanted: str) -> tuple[RunStore, int]:
    """The runs of a name, or of the app that is called so, and the newest one's number, 0 without one."""
    store = RunStore(values, RunName(wanted).base)
    newest = store.numbers()[1]
    if not newest and (found := find_name(values, wanted)):
        store = RunStore(values, found.base)
        newest = store.numbers()[1]
    return store, newest


def read_past(values: Values, own: RunName, title: str, number: int, other: Other | None) -> Past:
    """What was before the run of a number.

    Args:
        title: how the own name is called.
        other: the run to compare with, else it is the finished one before of the own name.

    Raises:
        EvaluationError: storage_failed.
    """
    store, names = RunStore(values, own.base), list_names(values)
    earlier = _before(store, number)
    listed = list(islice(earlier, LISTED_RUNS))
    if other is None:
        before = _newest_finished(iter(listed)) or _newest_finished(earlier)
        if before is None:
            none: NoComparison = "unreadable" if store.is_foreign(number - 1) else "first_run"
            return Past(none=none, listed=listed, names=names)
        other = Other(store, title, before)
    head = other.summary.head
    return Past(
        other.store.index(head),
        f"{other.title} #{head.number}",
        head.settings,
        listed=listed,
        names=names,
    )


def _before(store: RunStore, number: int) -> Iterator[RunSummary]:
    """The summaries of the runs of a name before a number, the newest first, read some at a time."""
    oldest = store.numbers()[0]
    for newest in range(number - 1, oldest - 1, -LISTED_RUNS):
        numbers = range(newest, max(oldest, newest - LISTED_RUNS + 1) - 1, -1)
        yield from (summary for summary in store.summaries(numbers) if summary is not None)


def _newest_finished(summaries: Iterator[RunSummary]) -> RunSummary | None:
    return next((summary for summary in summaries if summary.finished), None)
