"""The tool for all metrics of one answer."""

import time
from collections.abc import Mapping
from typing import Any

from bridge.call import about, open_session, read_options, read_sample
from bridge.edge import EvaluatorTool, Output
from evaluation.errors import EvaluationError
from evaluation.metrics import METRICS
from evaluation.metrics.documents import read_documents
from evaluation.report.block import block, failure_line, sentence_of, summary_of
from evaluation.report.escape import unescape
from evaluation.report.markdown import reason_sentence, score_word
from evaluation.result import bounded, status_of
from evaluation.scorecard import Scorecard, evaluate_answer, read_metrics
from evaluation.settings import read_number
from evaluation.texts import Texts

INPUTS = ("question", "answer", "reference", "contexts")


class ScorecardTool(EvaluatorTool):
    """Reads everything once, evaluates all metrics that are asked for, and gives scores, diagnosis and advice."""

    def run(self, parameters: Mapping[str, Any], texts: Texts) -> Output:
        started = time.monotonic()
        metrics = read_metrics(parameters.get("metrics"))
        thresholds = read_thresholds(parameters)
        session = open_session(self.session, parameters, texts.language)
        sample = read_sample(parameters, INPUTS)
        card = evaluate_answer(
            session,
            sample,
            metrics,
            options=read_options(parameters),
            thresholds={name: value for name, value in thresholds.items() if name in metrics},
            expected_documents=read_documents(parameters.get("documents")),
        )
        used = {**about(session, sample), "seconds": round(time.monotonic() - started, 3)}
        return Output(block(card, texts, used), _variables(card, texts, used))

    def failed(self, error: EvaluationError, texts: Texts) -> Output:
        line = failure_line(reason_sentence(error.reason, error.values, texts), texts)
        variables = _variables(Scorecard({}), texts, {})
        status = {"status": status_of(error), "reason": error.reason.value, "summary": unescape(line)}
        return Output(f"- {line}", variables | status)


def read_thresholds(parameters: Mapping[str, Any]) -> dict[str, float]:
    """The threshold of each metric: its own, else the one for all; without either it has none."""
    common = read_number(parameters.get("threshold"), "threshold", 0, 1)
    thresholds: dict[str, float] = {}
    for name in METRICS:
        field = f"{name}_threshold"
        own = read_number(parameters.get(field), field, 0, 1)
        if own is not None or common is not None:
            thresholds[name] = own if own is not None else common  # type: ignore[assignment]
    return thresholds


def _variables(card: Scorecard, texts: Texts, used: Mapping[str, Any]) -> dict[str, Any]:
    scores = {name: card.results[name].score if name in card.results else None for name in METRICS}
    details = {
        "metrics": {
            name: {
                "score": result.score,
                "score_text": score_word(result, texts),
                "status": result.status,
                "reason": result.reason.value,
                "version": result.version,
                **result.details,
            }
            for name, result in card.results.items()
        },
        "documents": card.documents.as_dict() if card.documents else None,
        "findings": [
            {"name": found.name, "settings": list(found.settings), "sentence": sentence_of(found, texts)}
            for found in card.findings
        ],
        **used,
    }
    return {
        **scores,
        "status": card.status,
        "reason": card.telling.reason.value if card.telling else "",
        "passed": card.passed,
        "summary": summary_of(card, texts),
        "diagnosis": "\n".join(sentence_of(found, texts) for found in card.findings),
        "details": bounded(details),
    }
