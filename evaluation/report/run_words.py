"""A run in sentences, the same in chat, page and spreadsheet. Plain text: whoever shows it escapes it."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import floor

from evaluation.errors import PASSING, UNSEEN, Reason
from evaluation.report.markdown import MESSAGE_CHARACTERS, capitalized
from evaluation.report.numbers import difference_text, money, score_against, score_text
from evaluation.report.run_rows import app_sentence
from evaluation.runs.causes import Cause
from evaluation.runs.conclusions import Comparison, MetricStatistics
from evaluation.runs.summary import RunReport
from evaluation.statistics.comparison import Difference
from evaluation.statistics.gate import GOOD, Gate, GateReason
from evaluation.texts import NAMES, Texts

# With fewer questions a mean may still become nearly any other.
FEW_QUESTIONS = 10
# Questions that a sentence names.
MOST_NAMED = 3
NAME_CHARACTERS = 80
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


def title_of(report: RunReport, texts: Texts) -> str:
    """The app by the name that people know, and which run it is; the run alone where the app has none."""
    run = f"{report.name} #{report.number}"
    return texts.aside(report.app_name, run) if report.app_name not in {"", report.name} else run


def verdict(report: RunReport, texts: Texts) -> str:
    """How good the app is, in one sentence: passed or not, or without thresholds how many rows show nothing wrong."""
    if not report.done:
        return texts.get("report.none_done")
    if not any(stats.scored for stats in report.statistics.values()):
        if report.cause is None:
            return texts.get("report.no_scores")
        name = "none_scored" if report.cause.failed else "none_applicable"
        return texts.get(f"report.{name}", of=report.done, cause=cause_words(report.cause, texts))
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


def cause_words(cause: Cause, texts: Texts) -> str:
    """Why rows have no score, and how many. The values are as they are to be shown."""
    if cause.of_app:
        sentence = capitalized(app_sentence(cause.reason, str(cause.values.get("text", "")), texts))
    else:
        try:
            sentence = capitalized(texts.reason(cause.reason, cause.values))
        except (KeyError, ValueError):
            # Kept by another version of the plugin, without what the sentence names.
            sentence = cause.reason.value
    return texts.aside(sentence, texts.get("report.cause_rows", count=cause.rows))


def extent(report: RunReport, texts: Texts) -> str:
    """In how many of the finished rows something is wrong, then how the others ended."""
    counts = {name: count for name, count in vars(report.row_counts).items() if count and name != "open"}
    if counts.keys() == {"sound"}:
        return texts.get("report.all_sound", of=report.done)
    for name in ("findings", "troubled", "sound"):
        if name in counts:
            sentence = texts.get(f"report.extent_{name}", of=report.done, count=counts.pop(name))
            others = [
                texts.get("report.counted", state=texts.get(f"report.count_{other}"), count=counts[other])
                for other in counts
            ]
            return texts.aside(sentence, texts.get("separator").join(others)) if counts else sentence
    return texts.get("report.no_scores")


def remarks(report: RunReport, texts: Texts) -> list[str]:
    """What must be known beside the verdict: the weakest metric, rows that are not in the means."""
    lines = []
    means = {name: stats.mean for name, stats in report.statistics.items() if stats.mean is not None}
    if report.gate and means:
        lines.append(extent(report, texts))
    if report.passed is not False and means:
        name = min(means, key=lambda metric: means[metric])
        lines.append(texts.get("report.lowest", metric=texts.get(f"metrics.{name}"), mean=score_text(means[name])))
    if close := _borderline(report):
        lines.append(texts.get("report.borderline", metrics=_listed(close, texts)))
    if few := _few(report, texts):
        lines.append(few)
    if report.gate and report.gate.inapplicable and report.passed is not None:
        lines.append(texts.get("report.inapplicable", metrics=_listed(report.gate.inapplicable, texts)))
    if means and report.cause and (troubled := sum(report.troubled(record) for record in report.records)):
        cause = cause_words(report.cause, texts)
        lines.append(texts.get("report.troubled", count=troubled, cause=cause))
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
    """How far an unfinished run is, and how it goes on: as it is, or only once what is wrong has been put right."""
    scored = any(stats.scored for stats in report.statistics.values())
    passing = report.stopped is Reason.NONE or report.stopped in PASSING
    helps = passing and (scored or report.cause is None or report.cause.reason in PASSING)
    return texts.get("report.unfinished" if helps else "report.unfinished_fix", done=report.done, total=report.total)


def quoting(report: RunReport, show: Callable[[str, int], str], question_characters: int) -> RunReport:
    """The report with all that its sentences quote of users, apps and models as it is to be shown.

    Args:
        show: makes such a text, shortened to a number of characters, part of a sentence.
    """

    def question(text: str) -> str:
        return show(text, question_characters)

    comparison, cause = report.comparison, report.cause
    if comparison is not None:
        lost = [replace(row, question=question(row.question)) for row in comparison.lost[:MOST_NAMED]]
        changed = [replace(row, question=question(row.question)) for row in comparison.changed_references[:MOST_NAMED]]
        comparison = replace(comparison, lost=lost, changed_references=changed)
    if cause is not None:
        shown = {
            name: show(value, MESSAGE_CHARACTERS) if isinstance(value, str) and name not in NAMES else value
            for name, value in cause.values.items()
        }
        cause = replace(cause, values=shown)
    return replace(
        report,
        name=show(report.name, NAME_CHARACTERS),
        app_name=show(report.app_name, NAME_CHARACTERS),
        compared_with=show(report.compared_with, NAME_CHARACTERS),
        comparison=comparison,
        cause=cause,
    )


def compared(report: RunReport, texts: Texts) -> str:
    """What became better or worse since the run compared with, and of what that can't be said; or why there is none."""
    if report.comparison is None:
        return texts.get(f"report.{report.no_comparison}") if report.no_comparison else ""
    comparison, before = report.comparison, report.compared_with
    differences = comparison.differences
    sentences = [texts.get("report.compared_other_app", before=before)] if report.other_app else []
    if all(difference.why == "no_pairs" for difference in differences.values()):
        name = "compared_unscored" if comparison.paired else "compared_nothing"
        return sentences_of([*sentences, texts.get(f"report.{name}", before=before)], texts)
    told = len(sentences)
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
    if len(sentences) == told:
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


def next_step(report: RunReport, texts: Texts) -> str:
    """What to do first: the setting to change, with its cause and in how many rows it was found.

    Where more rows could not be scored than have that cause, to put that right; "" when there is nothing to do.
    """
    name, settings, count = report.findings[0] if report.findings else ("", (), 0)
    if report.cause and report.cause.failed and report.cause.rows > count:
        return texts.get("report.fix_failures")
    if not name:
        return texts.get("report.nothing_to_change") if report.sound else ""
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


def suggested_threshold(report: RunReport, texts: Texts) -> str:
    """Where to set a threshold, and to what: just below what is reached, so that a loss is told; "" with one."""
    means = [stats.mean for stats in report.statistics.values() if stats.mean is not None]
    if report.settings.thresholds or not means:
        return ""
    value = max(GOOD, floor(min(means) * 20 + 1e-9) / 20)
    return texts.get("report.no_thresholds", value=score_text(value))


def price(prices: Mapping[str, float], texts: Texts) -> str:
    """Prices by currency in one text; "" where the models have none."""
    return texts.get("separator").join(money(amount, currency) for currency, amount in prices.items() if amount)
