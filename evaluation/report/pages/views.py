"""What the pages of runs show, as plain values for their templates. Lists are made from summaries, never from rows."""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from evaluation.report.escape import one_line
from evaluation.report.numbers import difference_text, interval_text, score_text
from evaluation.report.run_rows import level, row_failure
from evaluation.report.times import time_text
from evaluation.runs.heads import RunSummary
from evaluation.runs.records import RowRecord, RunSettings
from evaluation.statistics.comparison import Difference
from evaluation.texts import Texts

View = dict[str, Any]
Result = Literal["sound", "wrong", "troubled", "not_applicable", "open"]

NAME_CHARACTERS, QUESTION_CHARACTERS = 80, 160
# The chart of a metric over runs, in units of its view box.
_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 640, 150, 34, 8, 24


def card_of(summary: RunSummary, texts: Texts) -> View:
    """A run in a list: its means, their change, whether it passed."""
    metrics = summary.head.settings.metrics
    differences = (summary.more.get("comparison") or {}).get("differences", {})
    return {
        "number": summary.head.number,
        "date": time_text(summary.head.started_at, texts),
        "badge": _badge(summary),
        "progress": None if summary.finished else {"done": summary.done, "total": summary.total},
        "rows": summary.total,
        "troubled": summary.troubled,
        "metrics": [
            _mean_of(name, summary.metrics.get(name, {}), differences.get(name), summary.head.settings, texts)
            for name in metrics
        ],
    }


def _badge(summary: RunSummary) -> str:
    if not summary.head.settings.thresholds:
        return "none"
    return {True: "passed", False: "not_passed", None: "not_told"}[summary.passed]


def _mean_of(
    name: str,
    entry: Mapping[str, Any],
    difference: Mapping[str, Any] | None,
    settings: RunSettings,
    texts: Texts,
) -> View:
    mean = entry.get("mean")
    sign = (difference or {}).get("sign", "")
    change = (difference or {}).get("mean")
    return {
        "label": label_of(name, texts),
        "mean": None if mean is None else score_text(mean),
        "tone": "plain" if mean is None else level(mean, settings.thresholds.get(name)),
        "interval": "" if entry.get("low") is None else interval_text(entry["low"], entry["high"]),
        "change": "" if change is None else difference_text(change),
        # An arrow only where the difference is no chance.
        "sign": sign if sign in {"better", "worse"} else "",
        "scored": entry.get("scored", 0),
    }


def label_of(metric: str, texts: Texts) -> str:
    """The metric's name; as it was kept where this version has no such metric."""
    try:
        return texts.get(f"metrics.{metric}")
    except KeyError:
        return metric


def breaks(summaries: Sequence[RunSummary], texts: Texts) -> list[View]:
    """Where runs are not made alike: between which numbers, and what has changed. In order of the runs."""
    found = []
    for before, now in pairwise(summaries):
        names = [texts.get(f"report.{name}") for name in now.head.settings.differing(before.head.settings)]
        if now.head.versions != before.head.versions:
            names.append(texts.get("pages.versions"))
        if now.head.table != before.head.table:
            names.append(texts.get("pages.table"))
        if now.head.settings.app_id != before.head.settings.app_id:
            names.append(texts.get("report.app"))
        if names:
            changed = texts.get("separator").join(dict.fromkeys(names))
            found.append({"before": before.head.number, "now": now.head.number, "changed": changed})
    return found


def charts(summaries: Sequence[RunSummary], broken: Iterable[int], texts: Texts) -> list[View]:
    """Each metric over the runs, oldest first: points with their intervals, lines where runs are made alike.

    Args:
        broken: numbers of runs that are not made as the one before.
    """
    names = dict.fromkeys(name for summary in summaries for name in summary.head.settings.metrics)
    cut = set(broken)
    step = (_WIDTH - _LEFT - 20) / max(1, len(summaries) - 1)
    places = {summary.head.number: round(_LEFT + 10 + i * step, 1) for i, summary in enumerate(summaries)}
    return [_chart(name, summaries, places, cut, texts) for name in names]


def _y(value: float) -> float:
    return round(_TOP + (1 - value) * (_HEIGHT - _TOP - _BOTTOM), 1)


def _chart(
    name: str, summaries: Sequence[RunSummary], places: Mapping[int, float], cut: set[int], texts: Texts
) -> View:
    points: list[View] = []
    lines: list[str] = []
    line: list[str] = []
    for summary in summaries:
        number, entry = summary.head.number, summary.metrics.get(name, {})
        if number in cut or entry.get("mean") is None:
            lines, line = [*lines, " ".join(line)], []
        if entry.get("mean") is None:
            continue
        x, y = places[number], _y(entry["mean"])
        line.append(f"{x},{y}")
        points.append(
            {
                "number": number,
                "x": x,
                "y": y,
                "low": _y(entry.get("low", entry["mean"])),
                "high": _y(entry.get("high", entry["mean"])),
                "tone": level(entry["mean"], summary.head.settings.thresholds.get(name)),
                "label": f"#{number} {score_text(entry['mean'])}",
            }
        )
    limit = summaries[-1].head.settings.thresholds.get(name) if summaries else None
    return {
        "label": label_of(name, texts),
        "points": points,
        "lines": [entry for entry in [*lines, " ".join(line)] if " " in entry],
        "limit": None if limit is None else {"y": _y(limit), "text": score_text(limit)},
        "ticks": [{"y": _y(value), "text": f"{value:g}"} for value in (0.0, 0.5, 1.0)],
        "labels": [{"x": places[point["number"]], "text": f"#{point['number']}"} for point in points],
        "box": f"0 0 {_WIDTH} {_HEIGHT}",
        "left": _LEFT,
        "right": _WIDTH - 10,
        "floor": _HEIGHT - _BOTTOM,
    }


@cache
def _causes() -> dict[str, tuple[str, ...]]:
    kept = tomllib.loads(Path(__file__).with_name("causes.toml").read_text(encoding="utf-8"))
    return {name: tuple(findings) for name, findings in kept.items()}


# After the causes: what could not be scored, what no rule explains, what is sound, what is not there yet.
GROUPS = (*_causes(), "troubled", "other", "sound", "not_applicable", "open")


def result_of(record: RowRecord, metrics: Sequence[str]) -> Result:
    """How a row came out: with a finding it is wrong; troubled where something could not be scored that should be."""
    if record.state not in {"done", "failed"}:
        return "open"
    statuses = [record.metrics.get(metric, {}).get("status", "failed") for metric in metrics]
    if record.state == "failed" or "failed" in statuses:
        return "troubled"
    if record.findings:
        return "wrong"
    return "not_applicable" if set(statuses) == {"not_applicable"} else "sound"


def group_of(record: RowRecord, metrics: Sequence[str]) -> str:
    """The group of a row, of GROUPS."""
    result = result_of(record, metrics)
    if result != "wrong":
        return result
    name = record.findings[0]["name"]
    return next((cause for cause, findings in _causes().items() if name in findings), "other")


@dataclass(frozen=True)
class Filter:
    """What of a run's rows is shown. Empty strings mean all.

    Attributes:
        metric: only rows where this one is below its threshold.
        group, category: as the rows have them.
        text: stands in the question.
    """

    metric: str = ""
    group: str = ""
    category: str = ""
    text: str = ""

    def takes(self, record: RowRecord, settings: RunSettings) -> bool:
        if self.group and group_of(record, settings.metrics) != self.group:
            return False
        if self.category and record.category != self.category:
            return False
        if self.text and self.text.casefold() not in record.question.casefold():
            return False
        score = record.score(self.metric) if self.metric else None
        return not self.metric or (score is not None and level(score, settings.thresholds.get(self.metric)) != "good")


def row_line(record: RowRecord, settings: RunSettings, texts: Texts) -> View:
    """A row in a list."""
    first = record.findings[0] if record.findings else None
    why = row_failure(record, texts)
    return {
        "key": record.key,
        "label": f"#{record.row}" + (f"-{record.repetition}" if settings.repeat > 1 else ""),
        "question": one_line(record.question, QUESTION_CHARACTERS),
        "category": one_line(record.category, NAME_CHARACTERS),
        "cause": texts.get(f"diagnosis.{first['name']}") if first else why,
        "scores": [
            {
                "label": label_of(name, texts),
                "text": texts.get("not_evaluated") if score is None else score_text(score),
                "tone": _tone(record, name, score, settings),
            }
            for name in settings.metrics
            for score in [record.score(name)]
        ],
    }


def _tone(record: RowRecord, metric: str, score: float | None, settings: RunSettings) -> str:
    if score is None:
        return "failed" if record.metrics.get(metric, {}).get("status", "failed") == "failed" else "plain"
    return level(score, settings.thresholds.get(metric))


def grouped(records: Sequence[RowRecord], settings: RunSettings, texts: Texts, limit: int) -> list[View]:
    """The rows by group, those without a row left out; at most `limit` rows in all."""
    found: dict[str, list[RowRecord]] = {}
    for record in records:
        found.setdefault(group_of(record, settings.metrics), []).append(record)
    groups, left = [], limit
    for name in GROUPS:
        rows = found.get(name, [])
        if rows:
            shown = rows[:left]
            left -= len(shown)
            groups.append(
                {"name": name, "count": len(rows), "rows": [row_line(record, settings, texts) for record in shown]}
            )
    return groups


def difference_line(name: str, difference: Difference, texts: Texts) -> View:
    """A metric's difference between two runs."""
    interval = ""
    if difference.low is not None and difference.high is not None:
        interval = interval_text(difference.low, difference.high, difference_text)
    return {
        "label": label_of(name, texts),
        "mean": "" if difference.mean is None else difference_text(difference.mean),
        "interval": interval,
        "tone": {"better": "good", "worse": "bad"}.get(difference.sign, "plain"),
        "pairs": texts.get("report.pairs", count=difference.pairs),
    }
