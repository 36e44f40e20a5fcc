"""A run's result for the chat reply, and on one line."""

from evaluation.report.escape import escape
from evaluation.report.markdown import scored_head
from evaluation.report.numbers import difference_text, interval_text, score_against, score_text
from evaluation.report.run_words import (
    compared,
    counts,
    decisive,
    next_step,
    price,
    progress,
    quoting,
    remarks,
    sentences_of,
    sign_word,
    suggested_threshold,
    title_of,
    verdict,
)
from evaluation.runs.conclusions import MetricStatistics
from evaluation.runs.summary import RunReport
from evaluation.statistics.comparison import Difference
from evaluation.texts import Texts

QUESTION_CHARACTERS = 40
MODEL_CHARACTERS = 60


def run_text(report: RunReport, texts: Texts) -> str:
    """The verdict, a list of the means, what changed, what to do first, and what was asked and what it cost."""
    report, texts = quoting(report, escape, QUESTION_CHARACTERS), texts.of_runs()
    sections = [f"**{verdict(report, texts)}**", "\n".join(f"- {remark}" for remark in remarks(report, texts))]
    if any(stats.scored for stats in report.statistics.values()):
        sections += [f"**{texts.get('report.means')}**", _means(report, texts), compared(report, texts)]
    if report.done:
        sections += [_next(report, texts, "**"), suggested_threshold(report, texts)]
    if not report.finished:
        sections.append(f"⏳ **{progress(report, texts)}**")
    sections.append(_made(report, texts))
    return "\n\n".join(section for section in sections if section)


def run_line(report: RunReport, texts: Texts) -> str:
    """App and run, the verdict, every mean with its count, what changed and what to do first; made for Markdown."""
    report, texts = quoting(report, escape, QUESTION_CHARACTERS), texts.of_runs()
    means = [
        texts.aside(
            f"{texts.get(f'metrics.{name}')} {score_text(stats.mean)}", texts.get("report.count", count=stats.scored)
        )
        for name, stats in report.statistics.items()
        if stats.mean is not None
    ]
    parts = [verdict(report, texts), texts.get("separator").join(means)]
    if means:
        parts.append(compared(report, texts))
    if report.findings or (report.cause and report.cause.failed):
        parts.append(_next(report, texts))
    if not report.finished:
        parts.append(progress(report, texts))
    return texts.get("with_quotes", sentence=title_of(report, texts), quotes=sentences_of(parts, texts))


def _means(report: RunReport, texts: Texts) -> str:
    """An item a metric, as narrow as a phone: mark and mean, its interval and rows, and how it differs from before."""
    items = []
    for name, stats in report.statistics.items():
        lines = [_head(name, stats, report, texts), texts.get("dot").join(_about(stats, texts))]
        if report.comparison:
            lines.append(_difference(report.comparison.differences[name], texts))
        items.append("- " + "\n  ".join(lines))
    return "\n".join(items)


def _head(name: str, stats: MetricStatistics, report: RunReport, texts: Texts) -> str:
    label, threshold = texts.get(f"metrics.{name}"), report.settings.thresholds.get(name)
    if stats.mean is None:
        return scored_head(label, texts.get("not_evaluated"), None, threshold, texts)
    shown = score_text(stats.mean) if threshold is None else score_against(stats.mean, threshold)
    side = "report.low_end_" if report.settings.gate == "sure" else ""
    return scored_head(label, shown, decisive(name, stats, report), threshold, texts, side)


def _about(stats: MetricStatistics, texts: Texts) -> list[str]:
    if stats.low is None or stats.high is None:
        return counts(stats, texts)
    return [texts.get("report.interval", interval=interval_text(stats.low, stats.high)), *counts(stats, texts)]


def _difference(difference: Difference, texts: Texts) -> str:
    """The difference with what it says; where there is none, why."""
    if difference.mean is None:
        return texts.get("with_quotes", sentence=texts.get("report.difference"), quotes=sign_word(difference, texts))
    said = [sign_word(difference, texts), texts.get("report.pairs", count=difference.pairs)]
    shown = f"{texts.get('report.difference')} {difference_text(difference.mean)}"
    return texts.aside(shown, texts.get("separator").join(said))


def _next(report: RunReport, texts: Texts, bold: str = "") -> str:
    step = next_step(report, texts)
    return (
        texts.get("with_quotes", sentence=f"{bold}{texts.get('report.first_steps')}{bold}", quotes=step) if step else ""
    )


def _made(report: RunReport, texts: Texts) -> str:
    """Which app and run it is, who judged and what that cost."""
    used, items = report.usage, [title_of(report, texts)]
    if used.get("judge_calls"):
        items += [
            texts.get("scorecard.judged_by", model=escape(report.settings.judge.name, MODEL_CHARACTERS)),
            texts.get("report.cost_calls", count=used["judge_calls"]),
            texts.get("scorecard.tokens", tokens=used["total_tokens"]),
            price(used["prices"], texts),
        ]
    return f"<sub>{texts.get('dot').join(item for item in items if item)}</sub>"
