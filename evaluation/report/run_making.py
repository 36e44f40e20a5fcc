"""How a run was made and what it cost, in words."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from evaluation.report.escape import one_line
from evaluation.report.run_words import price
from evaluation.runs.records import RowRecord
from evaluation.runs.summary import RunReport
from evaluation.texts import Texts

NAME_CHARACTERS = 80


def time_text(iso: str) -> str:
    """The time to the minute."""
    try:
        return datetime.fromisoformat(iso).strftime("%Y-%m-%d %H:%M UTC")
    except ValueError:
        return one_line(iso, NAME_CHARACTERS)


def making(report: RunReport, texts: Texts) -> Iterator[tuple[str, str]]:
    """How the run was made and what it cost: pairs of a name and a value."""
    made, used = report.settings, report.usage
    yield texts.get("report.app"), one_line(report.app_name, NAME_CHARACTERS)
    yield texts.get("report.started_at"), time_text(report.started_at)
    yield texts.get("report.judge"), one_line(made.judge, NAME_CHARACTERS)
    yield (
        texts.get("report.embedding_model"),
        one_line(made.embedding_model, NAME_CHARACTERS) or texts.get("report.no_embedding_model"),
    )
    yield texts.get("report.depth"), texts.get(f"report.depths.{made.depth}")
    yield texts.get("report.votes"), texts.get("report.times", count=made.votes)
    if made.repeat > 1:
        yield texts.get("report.repeat"), texts.get("report.times", count=made.repeat)
    yield texts.get("report.language"), texts.get(f"report.languages.{made.language}")
    seconds = [record.app_seconds for record in report.records if record.app_seconds]
    if seconds:
        mean, longest = f"{sum(seconds) / len(seconds):.1f}", f"{max(seconds):.1f}"
        value = texts.get("report.app_seconds", mean=mean, longest=longest, count=len(seconds))
        yield texts.get("report.app_time"), value
    if used.get("app_tokens"):
        yield texts.get("report.app_tokens"), f"{used['app_tokens']:,}"
    calls = texts.get("report.calls", judge=used.get("judge_calls", 0), embedding=used.get("embedding_calls", 0))
    yield texts.get("report.judge_calls"), calls
    yield texts.get("report.tokens"), f"{used.get('total_tokens', 0):,}"
    if cost := price(used.get("prices", {}), texts):
        yield texts.get("report.price"), cost
    if report.reused_rows:
        yield texts.get("report.reused"), texts.get("report.count", count=report.reused_rows)
    if versions := _versions(report.records):
        yield texts.get("report.versions"), _listed({texts.get(f"metrics.{n}"): v for n, v in versions.items()}, texts)
    if report.prompts:
        yield texts.get("report.prompts"), _listed(report.prompts, texts)


def _versions(records: Sequence[RowRecord]) -> dict[str, str]:
    versions: dict[str, str] = {}
    for record in records:
        versions |= {name: str(kept.get("version", "")) for name, kept in record.metrics.items()}
    return versions


def _listed(versions: Mapping[str, str], texts: Texts) -> str:
    return texts.get("separator").join(f"{name} {version}" for name, version in versions.items() if version)
