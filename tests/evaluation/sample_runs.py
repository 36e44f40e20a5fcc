"""Runs to report on: tests/data/runs/<language>.toml as records, scored by the project's own formulas and rules."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evaluation.diagnosis import diagnose
from evaluation.errors import EvaluationError, Reason
from evaluation.judging.models import Charge, ModelIdentity
from evaluation.judging.prompts import prompt_versions
from evaluation.judging.usage import Usage
from evaluation.languages import Language
from evaluation.metrics.scoring import average_precision, share_true
from evaluation.result import MetricResult
from evaluation.runs.records import RowRecord, RunSettings, kept_result
from evaluation.runs.summary import RunReport, build_report
from evaluation.scorecard import FOUR

DATA = Path(__file__).parents[1] / "data" / "runs"
THRESHOLDS = {"faithfulness": 0.8, "context_recall": 0.8}


def settings(language: Language = "ja", **changes: Any) -> RunSettings:
    made = RunSettings(
        app_id="0f8c6f0e-5b9a-4a39-9d0b-3f3a6f1d2c11",
        judge=ModelIdentity("langgenius/openai/openai", "gpt-4o-mini", {"temperature": 0}),
        embedding_model=ModelIdentity("langgenius/openai/openai", "text-embedding-3-small"),
        metrics=FOUR,
        options={"depth": "standard", "question_count": 3},
        votes=1,
        language=language,
        thresholds=THRESHOLDS,
    )
    return replace(made, **changes)


def record(row: int = 1, question: str = "質問", repetition: int = 1, **scores: float | None) -> RowRecord:
    """A finished row with these scores and nothing else; None is a metric that does not apply."""
    metrics = {
        name: {
            "score": score,
            "status": "not_applicable" if score is None else "scored",
            "reason": "no_reference" if score is None else "",
            "reason_values": {},
            "version": "1",
            "details": {},
        }
        for name, score in scores.items()
    }
    return RowRecord(row, question, repetition, state="done", answer="回答", metrics=metrics)


def failed(row: int = 1, question: str = "質問", reason: str = "app_failed", message: str = "503") -> RowRecord:
    return RowRecord(row, question, state="failed", app_reason=reason, app_message=message)


def report_of(records: Sequence[RowRecord], language: Language = "ja", **options: Any) -> RunReport:
    made_with = options.pop("settings", settings(language))
    return build_report("run", 2, "2026-11-30T09:15:00+00:00", "app", made_with, records, **options)


def sample_run(language: Language, *, compared: bool = True, **changes: Any) -> RunReport:
    """The language's twenty rows as a finished run, compared with one before it."""
    data = tomllib.loads((DATA / f"{language}.toml").read_text(encoding="utf-8"))
    # Three of the rows fail.
    changes = {"max_failed": 0.2, **changes}
    records = [_record(number, row) for number, row in enumerate(data["row"], start=1)]
    before = [_before(made, row.get("before", {})) for made, row in zip(records, data["row"], strict=True)]
    return build_report(
        data["name"],
        2,
        "2026-11-30T09:15:00+00:00",
        data["app"],
        settings(language, **changes),
        records,
        before=before if compared else None,
        compared_with=f"{data['name']} #1",
        settings_before=settings(language, **changes),
        prompts=prompt_versions(language),
    )


def _record(number: int, row: Mapping[str, Any]) -> RowRecord:
    made = RowRecord(
        number,
        row["question"],
        reference=row.get("reference", ""),
        category=row.get("category", ""),
        app_seconds=1.2 + number % 5,
        app_tokens=900 + 37 * number,
    )
    if "failure" in row:
        made.state, made.app_reason, made.app_message = "failed", row["failure"], row.get("message", "")
        return made
    made.state, made.answer = "done", row["answer"]
    made.contexts = [{"text": text, "title": title, "documents": [title]} for title, text, _ in row["chunks"]]
    results = _results(row)
    made.metrics = {name: kept_result(result, 60_000) for name, result in results.items()}
    found = diagnose(results, chunks=len(made.contexts), thresholds=THRESHOLDS)
    made.findings = [{"name": finding.name, "settings": list(finding.settings)} for finding in found]
    usage = Usage(judge_calls=5, embedding_calls=1, prompt_tokens=2100, completion_tokens=240)
    usage.add(Charge(0, 0, 0.00046, "USD"))
    made.usage = usage.as_dict()
    return made


def _results(row: Mapping[str, Any]) -> dict[str, MetricResult]:
    claims = [_entry(n, *claim) for n, claim in enumerate(row["claims"], start=1)]
    parts = [_entry(n, *part) for n, part in enumerate(row.get("parts", []), start=1)]
    chunks = [
        {"rank": rank, "title": title, "text": text[:200], "verdict": verdict, "reason": ""}
        for rank, (title, text, verdict) in enumerate(row["chunks"], start=1)
    ]
    scores: dict[str, tuple[float, dict[str, Any]] | Reason] = {
        "faithfulness": (share_true([c["verdict"] == 1 for c in claims]), {"claims": claims})
        if claims
        else Reason.NO_CLAIMS,
        "answer_relevancy": (
            row.get("relevancy", 0.0),
            {"method": "embedding", "questions": [{"text": row["question"], "similarity": row.get("relevancy")}]},
        ),
        "context_recall": (share_true([p["verdict"] == 1 for p in parts]), {"parts": parts})
        if parts
        else Reason.NO_REFERENCE,
        "context_precision": (average_precision([c["verdict"] == 1 for c in chunks]), {"chunks": chunks})
        if parts
        else Reason.NO_REFERENCE,
    }
    scores |= {name: Reason(reason) for name, reason in row.get("failed", {}).items()}
    results = {}
    for name, found in scores.items():
        if isinstance(found, Reason):
            results[name] = MetricResult.without_score(name, "1", EvaluationError(found))
        else:
            refused = name == "answer_relevancy" and row.get("refusal")
            reason = Reason.NONCOMMITTAL if refused else Reason.NONE
            results[name] = MetricResult(name, "1", "scored", found[0], reason, details=found[1])
    return results


def _entry(number: int, text: str, verdict: int | str, reason: str) -> dict[str, Any]:
    kind = {"kind": verdict} if isinstance(verdict, str) else {}
    return {"id": number, "text": text, "verdict": 0 if kind else verdict, "reason": reason, **kind}


def _before(now: RowRecord, scores: Mapping[str, float]) -> RowRecord:
    """The row as the run before scored it."""
    metrics = {
        name: {**kept, "score": scores.get(name, kept["score"])} if kept["score"] is not None else kept
        for name, kept in now.metrics.items()
    }
    return replace(now, metrics=metrics)
