"""A run's result for the chat reply, and on one line."""

from dataclasses import replace

from evaluation.report.escape import escape
from evaluation.report.markdown import mark_of
from evaluation.report.numbers import difference_text, interval_text, score_against, score_text
from evaluation.report.run_words import (
    compared,
    counts,
    decisive,
    first_step,
    price,
    progress,
    remarks,
    sentences_of,
    verdict,
    with_questions,
)
from evaluation.runs.conclusions import MetricStatistics
from evaluation.runs.summary import RunReport
from evaluation.texts import Texts

NAME_CHARACTERS = 60
QUESTION_CHARACTERS = 40


def run_text(report: RunReport, texts: Texts) -> str:
    """The verdict, the means in a table, what changed, what to do first and what it cost, as Markdown."""
    report = _escaped(report)
    sections = [f"**{verdict(report, texts)}**", sentences_of(remarks(report, texts), texts)]
    if report.done:
        sections += [_table(report, texts), compared(report, texts), _next(report, texts, "**")]
    if not report.finished:
        sections.append(f"⏳ **{progress(report, texts)}**")
    sections.append(_cost(report, texts))
    return "\n\n".join(section for section in sections if section)


def run_line(report: RunReport, texts: Texts) -> str:
    """The run's name, the verdict, every mean with its count, what changed and what to do first."""
    report = _escaped(report)
    means = [
        texts.aside(
            f"{texts.get(f'metrics.{name}')} {score_text(stats.mean)}", texts.get("report.count", count=stats.scored)
        )
        for name, stats in report.statistics.items()
        if stats.mean is not None
    ]
    parts = [verdict(report, texts), texts.get("separator").join(means)]
    parts.append(compared(report, texts))
    if report.findings:
        parts.append(_next(report, texts))
    if not report.finished:
        parts.append(progress(report, texts))
    return texts.get("with_quotes", sentence=f"{report.name} #{report.number}", quotes=sentences_of(parts, texts))


def _escaped(report: RunReport) -> RunReport:
    """The report with the names that users give made safe for Markdown."""
    return replace(
        with_questions(report, lambda question: escape(question, QUESTION_CHARACTERS)),
        name=escape(report.name, NAME_CHARACTERS),
        compared_with=escape(report.compared_with, NAME_CHARACTERS),
    )


def _table(report: RunReport, texts: Texts) -> str:
    """Metric, mean with interval and mark, rows, and the difference where there is one."""
    names = ["metric", "mean", "rows", *(["difference"] if report.comparison else [])]
    lines = [
        f"| {' | '.join(texts.get(f'report.{name}') for name in names)} |",
        "|---|---|---|" + "---:|" * (len(names) - 3),
    ]
    for name, stats in report.statistics.items():
        cells = [
            texts.get(f"metrics.{name}"),
            _mean(name, stats, report, texts),
            texts.get("dot").join(counts(stats, texts)),
        ]
        if report.comparison:
            found = report.comparison.differences[name]
            pairs = texts.get("report.count", count=found.pairs)
            cells.append("" if found.mean is None else texts.aside(difference_text(found.mean), pairs))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _mean(name: str, stats: MetricStatistics, report: RunReport, texts: Texts) -> str:
    if stats.mean is None or stats.low is None or stats.high is None:
        return texts.get("not_evaluated")
    threshold = report.settings.thresholds.get(name)
    text = score_text(stats.mean) if threshold is None else score_against(stats.mean, threshold)
    return f"{text} [{interval_text(stats.low, stats.high)}] {mark_of(decisive(name, stats, report), threshold)}"


def _next(report: RunReport, texts: Texts, bold: str = "") -> str:
    step = first_step(report, texts) or texts.get("report.nothing_to_change")
    return texts.get("with_quotes", sentence=f"{bold}{texts.get('report.first_steps')}{bold}", quotes=step)


def _cost(report: RunReport, texts: Texts) -> str:
    used = report.usage
    if not used.get("judge_calls"):
        return ""
    items = [
        texts.get("scorecard.judged_by", model=escape(report.settings.judge.name, NAME_CHARACTERS)),
        texts.get("report.cost_calls", count=used["judge_calls"]),
        texts.get("scorecard.tokens", tokens=used["total_tokens"]),
        price(used["prices"], texts),
    ]
    return f"<sub>{texts.get('dot').join(item for item in items if item)}</sub>"
