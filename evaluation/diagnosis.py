"""From the scores of one answer to the part of the chatbot to tune. The rules are data: diagnosis.toml."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from evaluation.errors import UNSEEN, Reason
from evaluation.metrics import METRICS
from evaluation.metrics.documents import DocumentScores
from evaluation.result import MetricResult
from evaluation.statistics.gate import FAIR, GOOD, reaches


@dataclass(frozen=True)
class Finding:
    """A rule that holds: its name, and the settings to change in the order to try them."""

    name: str
    settings: tuple[str, ...]


@dataclass(frozen=True)
class Rule:
    """One entry of diagnosis.toml."""

    name: str
    when: Mapping[str, Any]
    settings: tuple[str, ...]
    alone: bool = False

    def holds(self, facts: Mapping[str, Any]) -> bool:
        return all(facts[key] in (value if isinstance(value, list) else [value]) for key, value in self.when.items())


@cache
def rules() -> tuple[Rule, ...]:
    """The rules in the order in which they are tried."""
    entries = tomllib.loads(Path(__file__).with_name("diagnosis.toml").read_text(encoding="utf-8"))["rule"]
    return tuple(Rule(e["name"], e["when"], tuple(e["try"]), e.get("alone", False)) for e in entries)


def is_known(name: str, settings: Sequence[str]) -> bool:
    """Whether a finding that was kept is one of these rules, so that there are words for it."""
    steps = {step for rule in rules() for step in rule.settings}
    return any(rule.name == name for rule in rules()) and steps.issuperset(settings)


def diagnose(
    results: Mapping[str, MetricResult],
    *,
    chunks: int,
    thresholds: Mapping[str, float] | None = None,
    documents: DocumentScores | None = None,
) -> list[Finding]:
    """What is wrong, the first thing to change first; [] when nothing is.

    Args:
        results: by metric name; metrics that were not asked for are left out.
        chunks: how many chunks were retrieved.
        thresholds: from which score on a metric is good; GOOD where none is given.
        documents: the comparison with the documents that the question table names.
    """
    return findings_of(facts_of(results, chunks, thresholds or {}, documents))


def findings_of(facts: Mapping[str, Any]) -> list[Finding]:
    """The rules that hold, in their order; one that stands alone hides those after it."""
    findings: list[Finding] = []
    for rule in rules():
        if rule.holds(facts):
            if rule.alone:
                return [Finding(rule.name, rule.settings)]
            findings.append(Finding(rule.name, rule.settings))
    return findings


def facts_of(
    results: Mapping[str, MetricResult],
    chunks: int,
    thresholds: Mapping[str, float],
    documents: DocumentScores | None,
) -> dict[str, Any]:
    """What the rules ask about; see diagnosis.toml."""
    levels = {name: _level(results.get(name), thresholds.get(name, GOOD)) for name in METRICS}
    relevancy, faithfulness = results.get("answer_relevancy"), results.get("faithfulness")
    claims = faithfulness.details.get("claims", []) if faithfulness else []
    # Where nothing could be judged, nothing is known of the retrieval either: the wiring is what is wrong.
    judged = any(result.score is not None or result.reason is Reason.NO_CLAIMS for result in results.values())
    needs_contexts = judged and any(name in results and "contexts" in metric.inputs for name, metric in METRICS.items())
    unseen = any(result.reason in UNSEEN for result in results.values())
    return {
        **levels,
        "answers": _answers(relevancy),
        "same_content": _same_content(results.get("answer_correctness")),
        "refusal": relevancy is not None and relevancy.reason is Reason.NONCOMMITTAL,
        "contexts": "unseen" if unseen else "none" if needs_contexts and not chunks else "some",
        "relevant": _relevant(results),
        "contradicted": any(claim.get("kind") == "contradicted" for claim in claims),
        "expected": "unknown" if documents is None else "found" if documents.recall == 1.0 else "missing",
    }


def _level(result: MetricResult | None, threshold: float) -> str:
    if result is None or result.score is None:
        return "none"
    if reaches(result.score, threshold):
        return "ok"
    return "none" if _unfounded(result) else "low"


def _unfounded(result: MetricResult) -> bool:
    """Whether a score is low for nothing but missing verdicts: they lower it, and nobody said anything is wrong."""
    lists = [result.details.get(listed.key, ()) for listed in METRICS[result.metric].lists if listed.role != "plain"]
    verdicts = [entry.get("verdict") for entries in lists for entry in entries]
    return result.status == "partial" and None in verdicts and 0 not in verdicts


def _answers(relevancy: MetricResult | None) -> str:
    """How far the answer answers the question, graded as the metric's own sentence is."""
    if relevancy is None or relevancy.score is None:
        return "unknown"
    return "yes" if reaches(relevancy.score, GOOD) else "partly" if reaches(relevancy.score, FAIR) else "no"


def _same_content(correctness: MetricResult | None) -> str:
    """Whether answer and reference say the same: its score is lower than 1 also for other words."""
    entries = [
        entry for key in ("facts", "claims") for entry in (correctness.details.get(key, []) if correctness else [])
    ]
    if not entries:
        return "unknown"
    return "yes" if all(entry.get("verdict") == 1 for entry in entries) else "no"


def _relevant(results: Mapping[str, MetricResult]) -> str:
    """Whether any chunk helps: by the verdicts on chunks, else by a part of the reference that was found in them."""
    entries: Sequence[Mapping[str, Any]] = []
    for name, key in (("context_precision", "chunks"), ("context_recall", "parts")):
        result = results.get(name)
        if result is not None and result.score is not None:
            entries = [*entries, *result.details.get(key, [])]
    if not entries:
        return "unknown"
    return "some" if any(entry.get("verdict") == 1 for entry in entries) else "none"
