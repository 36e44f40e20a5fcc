"""What the page of a run shows of the runs before it, as plain values for its template."""

from evaluation.report.escape import one_line
from evaluation.report.numbers import score_text
from evaluation.report.page_rows import NAME_CHARACTERS, View
from evaluation.report.times import time_text
from evaluation.runs.heads import RunSummary
from evaluation.runs.names import RunName
from evaluation.runs.summary import RunReport
from evaluation.texts import Texts

MOST_NAMES = 50


def past_of(report: RunReport, texts: Texts) -> View | None:
    """The last runs of the name, and the names under which there are others; None when there is neither."""
    named = any(name.name == report.name for name in report.names)
    names = [_shown(name) for name in report.names if not _is_own(name, report, named=named)]
    if not report.past and not names:
        return None
    listed = texts.get("separator").join(names[:MOST_NAMES])
    if len(names) > MOST_NAMES:
        listed = texts.get("separator").join([listed, texts.get("more", count=len(names) - MOST_NAMES)])
    return {"rows": [_run(summary, report, texts) for summary in report.past], "names": listed}


def _is_own(name: RunName, report: RunReport, *, named: bool) -> bool:
    """Whether the run stands under the name; of a run without a name the app does."""
    return name.name == report.name if named else name.app_id == report.settings.app_id


def _shown(name: RunName) -> str:
    """How the name is written in `compare_with`; of an app that nobody has called anything, its id."""
    return one_line(name.name or name.app_name or name.app_id, NAME_CHARACTERS)


def _run(summary: RunSummary, report: RunReport, texts: Texts) -> View:
    head, known = summary.head, summary.metrics
    means = [
        f"{texts.get(f'metrics.{name}')} {score_text(mean)}"
        for name in report.settings.metrics
        if (mean := known.get(name, {}).get("mean")) is not None
    ]
    about = [texts.get("report.past_other_app")] if head.settings.app_id != report.settings.app_id else []
    if not summary.finished:
        about.append(texts.get("report.badge_unfinished", done=summary.done, total=summary.total))
    return {
        "number": f"#{head.number}",
        "when": time_text(head.started_at, texts),
        "means": texts.get("separator").join(means) or texts.get("report.no_mean"),
        "about": texts.get("dot").join(about),
        "verdict": texts.get(f"report.badge_{'passed' if summary.passed else 'not_passed'}")
        if summary.passed is not None
        else "",
        "tone": {True: "good", False: "bad", None: "plain"}[summary.passed],
    }
