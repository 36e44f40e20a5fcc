"""A run in sentences, the same in chat, page and spreadsheet. Plain text: whoever shows it escapes it."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import floor

from evaluation.errors import UNSEEN
from evaluation.report.markdown import capitalized
from evaluation.report.numbers import difference_text, money, score_against, score_text
from evaluation.runs.conclusions import Comparison, MetricStatistics
from evaluation.runs.summary import RunReport
from evaluation.statistics.comparison import Difference
from evaluation.statistics.gate import Gate, GateReason
from evaluation.texts import Texts

# With fewer questions a mean may still become nearly any other.
FEW_QUESTIONS = 10
# Questions that a sentence names.
MOST_NAMED = 3
# Why no sign is given -> the text, where it is not that there is no clear difference.
_UNTOLD: Mapping[str, str] = {
    "no_pairs": "no_pairs",
    "lost_pairs": "lost_pairs",
    "unfinished": "unfinished_pairs",
    "too_few_questions": "too_few_questions",
}


def sentences_of(sentences: Sequence[str], texts: Texts) -> str:
    """Sentences after one another; empty ones are left out."""
    return texts.get("report.full_stop").join(sentence for sentence in sentences if sentence)


def verdict(report: RunReport, texts: Texts) -> str:
    """How good the app is, in one sentence: passed or not, or without thresholds how many rows show nothing wrong."""
    if not report.done:
        return texts.get("report.none_done")
    if not any(stats.scored for stats in report.statistics.values()):
        return texts.get("report.no_scores")
    if report.gate:
        return _of_gate(report.gate, texts)
    return extent(report, texts)


def _of_gate(gate: Gate, texts: Texts) -> str:
    causes = texts.get("list_separator").join(_cause(reason, gate, texts) for reason in gate.reasons)
    if gate.passed:
        return texts.get("report.passed_sure" if gate.kind == "sure" else "report.passed")
    return texts.get("report.no_verdict" if gate.passed is None else "report.not_passed", causes=causes)


def _cause(reason: GateReason, gate: Gate, texts: Texts) -> str:
    if reason.cause == "failed_rows":
        allowed = floor(gate.max_failed * gate.rows + 1e-9)
        return texts.get("report.cause_failed_rows", count=gate.failed, of=gate.rows, allowed=allowed)
    if reason.cause == "unfinished":
        return texts.get("report.cause_unfinished", done=gate.done, total=gate.rows)
    values = {"mean": reason.mean, "low": reason.low}
    shown = {n: score_against(v, reason.threshold) for n, v in values.items() if v is not None and reason.threshold}
    metric, threshold = texts.get(f"metrics.{reason.metric}"), score_text(reason.threshold or 0.0)
    return texts.get(f"report.cause_{reason.cause}", metric=metric, threshold=threshold, **shown)


def extent(report: RunReport, texts: Texts) -> str:
    """How many of the finished rows show nothing wrong."""
    sound = len(report.sound)
    name = "all_sound" if sound == report.done else "sound"
    return texts.get(f"report.{name}", of=report.done, count=sound)


def remarks(report: RunReport, texts: Texts) -> list[str]:
    """What must be known beside the verdict: the weakest metric, rows that are not in the means."""
    lines = []
    if report.gate and report.done:
        lines.append(extent(report, texts))
    means = {name: stats.mean for name, stats in report.statistics.items() if stats.mean is not None}
    if report.passed is not False and means:
        name = min(means, key=lambda metric: means[metric])
        lines.append(texts.get("report.lowest", metric=texts.get(f"metrics.{name}"), mean=score_text(means[name])))
    if close := _borderline(report):
        lines.append(texts.get("report.borderline", metrics=_listed(close, texts)))
    if few := _few(report, texts):
        lines.append(few)
    if report.gate and report.gate.inapplicable and report.passed is not None:
        lines.append(texts.get("report.inapplicable", metrics=_listed(report.gate.inapplicable, texts)))
    if troubled := sum(report.troubled(record) for record in report.records):
        lines.append(texts.get("report.troubled", count=troubled))
    return [*lines, *_unseen(report, texts)]


def _unseen(report: RunReport, texts: Texts) -> list[str]:
    """Why metrics of the chunks do not apply to some of the rows, or to all."""
    counts = Counter(record.contexts_hidden for record in report.records)
    return [
        texts.aside(
            capitalized(texts.reason(reason, {})), texts.get("report.share", count=counts[reason], of=report.done)
        )
        for reason in sorted(UNSEEN)
        if counts[reason]
    ]


def _borderline(report: RunReport) -> list[str]:
    """The metrics whose interval has the threshold within it: other questions might give the other verdict."""
    return [
        name
        for name, limit in report.settings.thresholds.items()
        if report.passed is not None and report.settings.gate == "mean"
        if (stats := report.statistics.get(name)) and stats.low is not None and stats.high is not None
        if stats.low < limit <= stats.high
    ]


def _few(report: RunReport, texts: Texts) -> str:
    """That means stand on few questions; "" when none does."""
    scored = {name: stats.questions for name, stats in report.statistics.items() if stats.questions}
    few = [name for name, questions in scored.items() if questions < FEW_QUESTIONS]
    if not few:
        return ""
    return (
        texts.get("report.few") if len(few) == len(scored) else texts.get("report.few_of", metrics=_listed(few, texts))
    )


def decisive(name: str, stats: MetricStatistics, report: RunReport) -> float:
    """What decides whether a metric with a mean is good: the mean, or what must reach the threshold instead."""
    low_end = report.settings.gate == "sure" and name in report.settings.thresholds
    return (stats.low if low_end else stats.mean) or 0.0


def _listed(metrics: Sequence[str], texts: Texts) -> str:
    return texts.get("separator").join(texts.get(f"metrics.{name}") for name in metrics)


def progress(report: RunReport, texts: Texts) -> str:
    """How far an unfinished run is, and how it goes on."""
    return texts.get("report.unfinished", done=report.done, total=report.total)


def with_questions(report: RunReport, shown: Callable[[str], str]) -> RunReport:
    """The report with the questions that `compared` names as they are shown."""
    if report.comparison is None:
        return report
    lost = [replace(row, question=shown(row.question)) for row in report.comparison.lost[:MOST_NAMED]]
    changed = [replace(row, question=shown(row.question)) for row in report.comparison.changed_references[:MOST_NAMED]]
    return replace(report, comparison=replace(report.comparison, lost=lost, changed_references=changed))


def compared(report: RunReport, texts: Texts) -> str:
    """What became better or worse since the run compared with, and of what that can't be said; "" without one."""
    if report.comparison is None:
        return ""
    comparison, before = report.comparison, report.compared_with
    differences = comparison.differences
    if all(difference.why == "no_pairs" for difference in differences.values()):
        return texts.get("report.compared_unscored" if comparison.paired else "report.compared_nothing", before=before)
    sentences = []
    for sign in ("better", "worse"):
        names = [
            f"{texts.get(f'metrics.{name}')} {difference_text(difference.mean)}"
            for name, difference in differences.items()
            if difference.sign == sign and difference.mean is not None
        ]
        if names:
            listed = texts.get("separator").join(names)
            sentences.append(texts.get(f"report.compared_{sign}", before=before, metrics=listed))
    if lost := [name for name, difference in differences.items() if difference.why == "lost_pairs"]:
        questions = _questions([row.question for row in comparison.lost], comparison.lost_rows, texts)
        values = {"metrics": _listed(lost, texts), "count": comparison.lost_rows, "questions": questions}
        sentences.append(texts.get("report.compared_lost", before=before, **values))
    elif any(difference.why == "unfinished" for difference in differences.values()):
        sentences.append(texts.get("report.compared_unfinished", before=before))
    if not sentences:
        sentences.append(texts.get("report.compared_same", before=before))
    if count := comparison.references_changed:
        questions = _questions([row.question for row in comparison.changed_references], count, texts)
        sentences.append(texts.get("report.compared_references", count=count, questions=questions))
    return sentences_of(sentences, texts)


def _questions(questions: Sequence[str], count: int, texts: Texts) -> str:
    """The first questions in quotes, and how many more there are."""
    marks = texts.get("open_quote"), texts.get("close_quote")
    named = [f"{marks[0]}{question}{marks[1]}" for question in questions[:MOST_NAMED]]
    more = [texts.get("more", count=count - len(named))] if count > len(named) else []
    return texts.get("separator").join([*named, *more])


def sign_word(difference: Difference, texts: Texts) -> str:
    """Better, worse, no clear difference, or why that can't be told."""
    return texts.get(f"report.{_UNTOLD.get(difference.why, difference.sign)}")


def not_compared(comparison: Comparison, before: str, texts: Texts) -> list[str]:
    """Which rows have no counterpart in the other run."""
    counts = {"only_now": comparison.only_now, "only_before": comparison.only_before}
    notes = [texts.get(f"report.{name}", count=count, before=before) for name, count in counts.items() if count]
    once = {name: found.inapplicable for name, found in comparison.differences.items() if found.inapplicable}
    if once:
        counted = [texts.aside(texts.get(f"metrics.{n}"), texts.get("report.count", count=c)) for n, c in once.items()]
        notes.append(texts.get("report.applies_once", metrics=texts.get("separator").join(counted)))
    return notes


def first_step(report: RunReport, texts: Texts) -> str:
    """The setting to change first, with its cause and in how many rows it was found; "" when nothing is wrong."""
    if not report.findings:
        return ""
    name, settings, count = report.findings[0]
    return texts.get(
        "report.first_step",
        step=capitalized(texts.get(f"settings_to_try.{settings[0]}")),
        cause=texts.get(f"diagnosis.{name}"),
        count=count,
        of=report.done,
    )


def counts(statistics: MetricStatistics, texts: Texts) -> list[str]:
    """How many rows a mean stands on, and how many have no score."""
    names = ("partial", "not_applicable", "failed")
    lacking = [(name, getattr(statistics, name)) for name in names]
    return [
        texts.get("report.scored", count=statistics.scored),
        *(texts.get(f"report.{name}", count=count) for name, count in lacking if count),
    ]


def price(prices: Mapping[str, float], texts: Texts) -> str:
    """Prices by currency in one text; "" where the models have none."""
    return texts.get("separator").join(money(amount, currency) for currency, amount in prices.items() if amount)
