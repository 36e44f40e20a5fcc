"""A run in sentences, the same in chat, page and spreadsheet. Plain text: whoever shows it escapes it."""

from collections import Counter
from collections.abc import Mapping, Sequence

from evaluation.errors import UNSEEN
from evaluation.report.markdown import capitalized
from evaluation.report.numbers import difference_text, money, score_against, score_text
from evaluation.runs.statistics import Comparison, MetricStatistics
from evaluation.runs.summary import RunReport
from evaluation.statistics.gate import reaches
from evaluation.texts import Texts

# Below it an interval by bootstrap is too narrow to be taken at its word.
FEW_ROWS = 10


def sentences_of(sentences: Sequence[str], texts: Texts) -> str:
    """Sentences after one another; empty ones are left out."""
    return texts.get("report.full_stop").join(sentence for sentence in sentences if sentence)


def verdict(report: RunReport, texts: Texts) -> str:
    """How good the app is, in one sentence: passed or not, or without thresholds how many rows show nothing wrong."""
    if not report.done:
        return texts.get("report.none_done")
    if not any(stats.scored for stats in report.statistics.values()):
        return texts.get("report.no_scores")
    if report.passed:
        return texts.get("report.passed")
    if report.passed is False:
        return texts.get("report.not_passed", misses=texts.get("list_separator").join(_misses(report, texts)))
    unknown = [
        texts.get(f"metrics.{name}")
        for name in report.settings.thresholds
        if name in report.statistics and report.statistics[name].mean is None
    ]
    if unknown:
        return texts.get("report.not_told", metrics=texts.get("separator").join(unknown))
    return extent(report, texts)


def _misses(report: RunReport, texts: Texts) -> list[str]:
    return [
        texts.get(
            "report.miss",
            metric=texts.get(f"metrics.{name}"),
            mean=score_against(mean, limit),
            threshold=score_text(limit),
        )
        for name, limit in report.settings.thresholds.items()
        if name in report.statistics and (mean := report.statistics[name].mean) is not None and not reaches(mean, limit)
    ]


def extent(report: RunReport, texts: Texts) -> str:
    """How many of the finished rows show nothing wrong."""
    sound = len(report.sound)
    name = "all_sound" if sound == report.done else "sound"
    return texts.get(f"report.{name}", of=report.done, count=sound)


def remarks(report: RunReport, texts: Texts) -> list[str]:
    """What must be known beside the verdict: the weakest metric, rows that are not in the means."""
    lines = []
    if report.passed is not None and report.done:
        lines.append(extent(report, texts))
    means = {name: stats.mean for name, stats in report.statistics.items() if stats.mean is not None}
    if report.passed is not False and means:
        name = min(means, key=lambda metric: means[metric])
        lines.append(texts.get("report.lowest", metric=texts.get(f"metrics.{name}"), mean=score_text(means[name])))
    if close := _borderline(report, texts):
        lines.append(texts.get("report.borderline", metrics=texts.get("separator").join(close)))
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


def _borderline(report: RunReport, texts: Texts) -> list[str]:
    """The metrics whose interval has the threshold within it: other questions might give the other verdict."""
    return [
        texts.get(f"metrics.{name}")
        for name, limit in report.settings.thresholds.items()
        if (stats := report.statistics.get(name)) and stats.low is not None and stats.high is not None
        if stats.low < limit <= stats.high and stats.low < stats.high
    ]


def progress(report: RunReport, texts: Texts) -> str:
    """How far an unfinished run is, and how it goes on."""
    return texts.get("report.unfinished", done=report.done, total=report.total)


def compared(report: RunReport, texts: Texts) -> str:
    """What became better or worse since the run compared with; "" without one."""
    if report.comparison is None:
        return ""
    differences = report.comparison.differences
    if not any(difference.pairs for difference in differences.values()):
        return texts.get("report.compared_nothing", before=report.compared_with)
    sentences = []
    for sign in ("better", "worse"):
        names = [
            f"{texts.get(f'metrics.{name}')} {difference_text(difference.mean)}"
            for name, difference in differences.items()
            if difference.sign == sign and difference.mean is not None
        ]
        if names:
            listed = texts.get("separator").join(names)
            sentences.append(texts.get(f"report.compared_{sign}", before=report.compared_with, metrics=listed))
    return sentences_of(sentences, texts) or texts.get("report.compared_same", before=report.compared_with)


def not_compared(comparison: Comparison, before: str, texts: Texts) -> list[str]:
    """Which rows have no counterpart in the other run."""
    counts = {"only_now": comparison.only_now, "only_before": comparison.only_before}
    return [texts.get(f"report.{name}", count=count, before=before) for name, count in counts.items() if count]


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
