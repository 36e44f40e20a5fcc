"""How a run was made and what it cost, in words."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evaluation.judging.models import ModelIdentity
from evaluation.report.escape import one_line
from evaluation.report.run_words import price
from evaluation.report.times import time_text
from evaluation.runs.records import RowRecord
from evaluation.runs.summary import RunReport
from evaluation.statistics.spread import Spread
from evaluation.texts import Texts

NAME_CHARACTERS = 80
MODEL_CHARACTERS = 200


def making(report: RunReport, texts: Texts) -> Iterator[tuple[str, str]]:
    """How the run was made and what it cost: pairs of a name and a value."""
    made, used = report.settings, report.usage
    yield from _what(report, texts)
    yield texts.get("report.judge"), _model(made.judge, texts)
    yield texts.get("report.embedding_model"), _model(made.embedding_model, texts)
    for name, value in made.options.items():
        yield texts.get(f"report.{name}"), texts.get(f"report.depths.{value}") if name == "depth" else f"{value:g}"
    yield texts.get("report.votes"), texts.get("report.times", count=made.votes)
    if made.repeat > 1:
        yield texts.get("report.repeat"), texts.get("report.times", count=made.repeat)
    if found := report.spread:
        yield texts.get("report.spread"), texts.get("separator").join(_spread(*item, texts) for item in found.items())
    if report.gate:
        yield texts.get("report.gate"), texts.get(f"report.gates.{made.gate}")
        yield texts.get("report.max_failed"), f"{100 * made.max_failed:g}%"
    yield texts.get("report.language"), texts.get(f"report.languages.{made.language}")
    if made.inputs:
        yield texts.get("report.inputs"), _listed(made.inputs, texts, "=")
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


def _what(report: RunReport, texts: Texts) -> Iterator[tuple[str, str]]:
    """Which app was asked, when, and the questions of which kept table."""
    if report.app_name:
        yield texts.get("report.app"), one_line(report.app_name, NAME_CHARACTERS)
    yield texts.get("report.app_id"), report.settings.app_id
    yield texts.get("report.started_at"), time_text(report.started_at, texts)
    if report.table_name:
        name = one_line(report.table_name, NAME_CHARACTERS)
        yield texts.get("report.table"), texts.get("kept.shown", table=name, version=report.table_version)


def _model(model: ModelIdentity, texts: Texts) -> str:
    """The model's name, with its provider and parameters behind it."""
    if not model.name:
        return texts.get("report.no_embedding_model")
    about = [model.provider.rpartition("/")[2], _listed(model.parameters, texts)]
    return one_line(texts.aside(model.name, texts.get("separator").join(filter(None, about))), MODEL_CHARACTERS)


def _spread(metric: str, found: Spread, texts: Texts) -> str:
    """A metric's standard deviation over repetitions, and the shares of the judge and of the app's answers."""
    line = f"{texts.get(f'metrics.{metric}')} {found.whole:.2f}"
    if found.judge_share is None:
        return line if found.whole == 0 else texts.aside(line, texts.get("report.spread_unknown"))
    judges = round(100 * found.judge_share)
    return texts.aside(line, texts.get("report.spread_shares", judge=judges, app=100 - judges))


def _versions(records: Sequence[RowRecord]) -> dict[str, str]:
    versions: dict[str, str] = {}
    for record in records:
        versions |= {name: str(kept.get("version", "")) for name, kept in record.metrics.items()}
    return versions


def _listed(values: Mapping[str, Any], texts: Texts, between: str = " ") -> str:
    listed = [f"{name}{between}{value}" for name, value in values.items() if value not in (None, "")]
    return texts.get("separator").join(one_line(entry, NAME_CHARACTERS) for entry in listed)
