"""What a report shows of one row, in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.errors import Reason
from evaluation.report.escape import one_line, unescape
from evaluation.report.markdown import finding, kind_of
from evaluation.result import MetricResult
from evaluation.runs.records import RowRecord
from evaluation.statistics.gate import FAIR, GOOD, reaches
from evaluation.texts import Texts


@dataclass(frozen=True)
class Judged:
    """One entry of a metric's list: a claim, a part, a chunk or a question.

    Attributes:
        verdict: 1, 0, or None without a verdict.
        kind: why a claim is not supported, in words, "" when it is not known.
        similarity: of a question, None for everything else.
    """

    text: str
    verdict: int | None
    reason: str = ""
    kind: str = ""
    similarity: float | None = None


def sentence(result: MetricResult, texts: Texts) -> str:
    """What the metric found, or why it has no score, as plain text."""
    try:
        return unescape(finding(result, texts, quoted=False))
    except (KeyError, ValueError):
        # Details that were cut to fit the storage, or a reason kept without what its sentence names.
        return ""


def entries(result: MetricResult, name: str, texts: Texts) -> tuple[list[Judged], int]:
    """The entries of a list in the metric's details, and how many more there were before they were cut."""
    kept, omitted = [], 0
    for entry in result.details.get(name, ()):
        if "omitted" in entry:
            omitted = int(entry["omitted"])
        else:
            kept.append(_judged(entry, texts))
    return kept, omitted


def _judged(entry: Mapping[str, Any], texts: Texts) -> Judged:
    verdict, similarity = entry.get("verdict"), entry.get("similarity")
    return Judged(
        str(entry.get("text", "")),
        verdict if verdict in {0, 1} else None,
        str(entry.get("reason", "")),
        unescape(kind_of(texts, entry)),
        None if similarity is None else max(0.0, float(similarity)),
    )


def lacking(record: RowRecord, metric: str, name: str, texts: Texts) -> list[str]:
    """The texts of a list whose verdict is no, with the kind or the judge's reason behind each."""
    result = record.result(metric)
    if result is None:
        return []
    wrong = [entry for entry in entries(result, name, texts)[0] if entry.verdict == 0]
    return [texts.aside(entry.text, entry.reason) if entry.reason else entry.text + entry.kind for entry in wrong]


def row_failure(record: RowRecord, texts: Texts) -> str:
    """Why the app gave no answer, as plain text; "" when it gave one."""
    if record.state != "failed":
        return ""
    known = record.app_reason and record.app_reason in set(Reason)
    reason = Reason(record.app_reason) if known else Reason.APP_FAILED
    return app_sentence(reason, one_line(record.app_message), texts)


def app_sentence(reason: Reason, message: str, texts: Texts) -> str:
    """Why an app gave no answer.

    Args:
        message: what it said of that, as it is to be shown; of a timeout, how many seconds it had.
    """
    if reason is Reason.TIMEOUT:
        return texts.get("report.app_too_slow", seconds=message) if message else texts.get("report.app_timeout")
    try:
        return texts.reason(reason, {"text": message})
    except KeyError:
        return texts.get("report.app_said", message=message)


def metric_failures(record: RowRecord, metrics: Sequence[str], texts: Texts) -> list[tuple[str, str]]:
    """The metrics that could not be scored, each with the reason in words."""
    results = [result for name in metrics if (result := record.result(name)) is not None]
    return [(result.metric, sentence(result, texts)) for result in results if result.status == "failed"]


def state_word(record: RowRecord, metrics: Sequence[str], texts: Texts) -> str:
    """How the row ended, in a few words."""
    statuses = {record.metrics.get(metric, {}).get("status", "failed") for metric in metrics}
    if record.state == "failed":
        name = "failed"
    else:
        name = "troubled" if "failed" in statuses else "partial" if "partial" in statuses else "done"
    return texts.get(f"report.state_{name}")


def level(score: float, threshold: float | None) -> str:
    """good, fair or bad, as the marks in the chat reply have it."""
    if threshold is not None:
        return "good" if reaches(score, threshold) else "bad"
    return "good" if reaches(score, GOOD) else "fair" if reaches(score, FAIR) else "bad"
