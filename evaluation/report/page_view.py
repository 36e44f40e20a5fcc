"""What the page of a run shows, as plain values for its template."""

from collections.abc import Mapping

from evaluation.languages import LANGUAGE_TAGS
from evaluation.report.escape import one_line
from evaluation.report.markdown import capitalized
from evaluation.report.numbers import difference_text, interval_text, score_against, score_text
from evaluation.report.page_past import past_of
from evaluation.report.page_rows import (
    NAME_CHARACTERS,
    QUESTION_CHARACTERS,
    Limits,
    View,
    failures_of,
    label_of,
    row_of,
)
from evaluation.report.run_making import making
from evaluation.report.run_rows import level
from evaluation.report.run_words import (
    compared,
    counts,
    decisive,
    next_step,
    not_compared,
    progress,
    quoting,
    remarks,
    sign_word,
    suggested_threshold,
    verdict,
)
from evaluation.report.times import time_text
from evaluation.runs.conclusions import MetricStatistics
from evaluation.runs.summary import RunReport
from evaluation.statistics.comparison import Difference
from evaluation.texts import Texts

MOST_FINDINGS = 3
MOST_CATEGORIES = 30
MOST_ROW_LINKS = 12
# The smallest range of the pictures of differences to either side, so that a tiny difference looks tiny.
LEAST_RANGE = 0.1


def page_of(report: RunReport, texts: Texts, limits: Limits) -> View:
    """All values of the template."""
    report = quoting(report, one_line, QUESTION_CHARACTERS)
    scored = [record for record in report.worst if any(record.score(name) is not None for name in record.metrics)]
    shown = scored[: limits.rows]
    anchors = {record.key for record in shown}
    return {
        "lang": LANGUAGE_TAGS[texts.language],
        "name": report.name,
        "number": report.number,
        # An id would tell nobody anything at the top of the page.
        "app": report.app_name if report.app_name != report.name else "",
        "started": time_text(report.started_at, texts),
        "total": report.total,
        "before": report.compared_with,
        "verdict": _verdict(report, texts),
        "next": next_step(report, texts),
        "findings": [_finding(report, found, anchors, texts) for found in report.findings[:MOST_FINDINGS]],
        "metrics": [_metric(name, stats, report, texts) for name, stats in report.statistics.items()],
        "comparison": _comparison(report, anchors, texts),
        "categories": _categories(report, texts),
        "rows": [row_of(record, report, texts, limits) for record in shown],
        "scored": len(scored),
        "failures": failures_of(report, texts),
        "past": past_of(report, texts),
        "making": list(making(report, texts)),
    }


def _verdict(report: RunReport, texts: Texts) -> View:
    tone = {True: "good", False: "bad", None: "plain"}[report.passed]
    badges = []
    if report.settings.thresholds and report.done:
        name = {True: "badge_passed", False: "badge_not_passed", None: "badge_not_told"}[report.passed]
        badges.append(texts.get(f"report.{name}"))
    if not report.finished:
        badges.append(texts.get("report.badge_unfinished", done=report.done, total=report.total))
    said = remarks(report, texts)
    lines = [*said[:1], compared(report, texts), *said[1:]]
    if not report.finished:
        lines.append(progress(report, texts))
    lines.append(suggested_threshold(report, texts))
    return {
        "tone": tone,
        "badges": badges,
        "sentence": verdict(report, texts),
        "lines": [line for line in lines if line],
        "shares": _shares(report),
    }


def _shares(report: RunReport) -> list[View]:
    """The rows by how they ended, as parts of one bar."""
    tones = {"sound": "good", "findings": "bad", "troubled": "fair", "not_applicable": "open", "open": "open"}
    return [
        {"name": f"count_{name}", "tone": tones[name], "count": count, "percent": _percent(count / report.total)}
        for name, count in vars(report.row_counts).items()
        if count
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.2f}%"


def _finding(report: RunReport, found: tuple[str, tuple[str, ...], int], anchors: set[str], texts: Texts) -> View:
    name, settings, count = found
    steps = [texts.get(f"settings_to_try.{setting}") for setting in settings]
    rows = [record for record in report.worst if record.findings and record.findings[0]["name"] == name]
    return {
        "step": capitalized(steps[0]),
        "others": [capitalized(step) for step in steps[1:]],
        "cause": texts.get(f"diagnosis.{name}"),
        "share": texts.get("report.share", count=count, of=report.done),
        "rows": [label_of(record, report, anchors) for record in rows[:MOST_ROW_LINKS]],
        "more": max(0, len(rows) - MOST_ROW_LINKS),
    }


def _metric(name: str, stats: MetricStatistics, report: RunReport, texts: Texts) -> View:
    threshold = report.settings.thresholds.get(name)
    view: View = {
        "name": texts.get(f"metrics.{name}"),
        "what": texts.get(f"words.{name}.what"),
        "counts": counts(stats, texts),
        "mean": None,
        "threshold": None if threshold is None else score_text(threshold),
        "limit_at": None if threshold is None else _percent(threshold),
    }
    if stats.mean is None or stats.low is None or stats.high is None:
        return view
    return view | {
        "mean": score_text(stats.mean) if threshold is None else score_against(stats.mean, threshold),
        "interval": interval_text(stats.low, stats.high),
        "tone": level(decisive(name, stats, report), threshold),
        "dot_at": _percent(stats.mean),
        "band_at": _percent(stats.low),
        "band_width": _percent(stats.high - stats.low),
    }


def _comparison(report: RunReport, anchors: set[str], texts: Texts) -> View | None:
    if report.comparison is None:
        return None
    differences = report.comparison.differences
    ends = [abs(end) for d in differences.values() for end in (d.mean, d.low, d.high) if end is not None]
    reach = max([LEAST_RANGE, *ends])
    differing = [texts.get(f"report.{name}") for name in report.differing]
    notes = not_compared(report.comparison, report.compared_with, texts)
    if differing:
        listed = texts.get("separator").join(differing)
        notes.insert(0, texts.get("report.differing", before=report.compared_with, settings=listed))
    return {
        "differences": [_difference(name, difference, reach, texts) for name, difference in differences.items()],
        "reach": difference_text(reach)[1:],
        "notes": notes,
        "any": bool(ends),
        "changes": [
            {
                "label": _change_label(change.row, anchors),
                "question": one_line(change.question, QUESTION_CHARACTERS),
                "metric": texts.get(f"metrics.{change.metric}"),
                "before": score_text(change.before),
                "after": score_text(change.after),
                "difference": difference_text(change.after - change.before),
                "tone": "good" if change.after > change.before else "bad",
            }
            for change in report.comparison.changes
        ],
    }


def _change_label(row: int, anchors: set[str]) -> View:
    key = f"{row}-1"
    return {"text": f"#{row}", "anchor": f"row-{key}" if key in anchors else ""}


def _difference(name: str, difference: Difference, reach: float, texts: Texts) -> View:
    view: View = {
        "name": texts.get(f"metrics.{name}"),
        "sign": sign_word(difference, texts),
        "tone": {"better": "good", "worse": "bad", "no_clear_difference": "plain"}[difference.sign],
        "pairs": _pairs(difference, texts),
        "mean": None,
    }
    if difference.mean is None:
        return view

    def at(value: float) -> str:
        return _percent((value + reach) / (2 * reach))

    # Without an interval the picture has the dot alone.
    low, high = difference.low, difference.high
    known = low is not None and high is not None
    ends = (low, high) if low is not None and high is not None else (difference.mean, difference.mean)
    return view | {
        "mean": difference_text(difference.mean),
        "interval": interval_text(*ends, difference_text) if known else "",
        "dot_at": at(difference.mean),
        "band_at": at(ends[0]),
        "band_width": _percent((ends[1] - ends[0]) / (2 * reach)),
    }


def _pairs(difference: Difference, texts: Texts) -> str:
    """How many rows both runs scored, and how many only one did since the other failed."""
    pairs = texts.get("report.pairs", count=difference.pairs)
    count = texts.get("report.count", count=difference.lost)
    return texts.get("dot").join([pairs, *([texts.aside(texts.get("report.lost"), count)] if difference.lost else [])])


def _categories(report: RunReport, texts: Texts) -> View | None:
    if not report.categories:
        return None

    def worst_first(item: tuple[str, Mapping[str, MetricStatistics]]) -> float:
        means = [stats.mean for stats in item[1].values() if stats.mean is not None]
        return sum(means) / len(means) if means else 2.0

    ordered = sorted(report.categories.items(), key=worst_first)
    return {
        "rows": [
            {
                "name": one_line(category, NAME_CHARACTERS) or texts.get("report.no_category"),
                "count": sum(record.category == category for record in report.records),
                "cells": [_cell(name, stats, report, texts) for name, stats in of_metrics.items()],
            }
            for category, of_metrics in ordered[:MOST_CATEGORIES]
        ],
        "left": max(0, len(ordered) - MOST_CATEGORIES),
    }


def _cell(name: str, stats: MetricStatistics, report: RunReport, texts: Texts) -> View:
    mean = stats.mean
    return {
        "metric": texts.get(f"metrics.{name}"),
        "mean": None if mean is None else score_text(mean),
        "width": None if mean is None else _percent(mean),
        "tone": "plain" if mean is None else level(decisive(name, stats, report), report.settings.thresholds.get(name)),
        "count": texts.get("report.count", count=stats.scored),
    }
