"""Every case of what Ragas 0.4.3 returned for given verdicts, through our metrics: equal at 1e-12, or listed below."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from evaluation.errors import EvaluationError
from evaluation.metrics import evaluate_metric
from evaluation.metrics.scoring import average_precision, cosines
from evaluation.result import MetricResult
from evaluation.sample import Sample, read_contexts
from tests.evaluation.fakes import ScriptedJudge, session

CASES = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "data/parity/ragas_formula_cases.jsonl").read_text("utf-8").splitlines()
]

# What we give where Ragas gives another number, none, or an error: (status, score, why).
DIFFERENCES: dict[str, tuple[str, float | None, str]] = {
    "answer_relevancy/zero_question_vector": ("failed", None, "a zero vector has no direction: no NaN"),
    "answer_relevancy/zero_generated_vector_one": ("failed", None, "the same"),
    "answer_relevancy/zero_generated_vector_all": ("failed", None, "the same"),
    "answer_relevancy/noncommittal_all_zero_vector": (
        "scored",
        0.0,
        "nothing needs comparing when all are noncommittal",
    ),
    "answer_relevancy/noncommittal_value_2": ("failed", None, "2 is no flag"),
    "answer_relevancy/noncommittal_value_minus1": ("failed", None, "-1 is no flag"),
    "answer_relevancy/noncommittal_string_1": ("scored", 0.0, "'1' is read as 1"),
    "answer_relevancy/noncommittal_true": ("scored", 0.0, "true is read as 1"),
    "answer_relevancy/noncommittal_float_1.0": ("scored", 0.6, "1.0 is read as 1; two of three flags do not zero it"),
    "answer_relevancy/empty_question_3of3": ("failed", None, "no question was written: not the answer's fault"),
    "answer_relevancy/blank_question_3of3": ("failed", None, "the same"),
    "answer_relevancy/negative": ("scored", 0.0, "clamped"),
    "answer_relevancy/random64_n3": ("scored", 0.0, "clamped"),
    "answer_relevancy/random64_n5": ("scored", 0.0, "clamped"),
    "answer_relevancy/huge_vectors": ("scored", None, "finite: scaled before the norm"),
    "answer_relevancy/tiny_vectors": ("scored", None, "finite: scaled before the norm"),
    "answer_relevancy/empty_answer": ("not_applicable", None, "said in words"),
    "answer_relevancy/blank_answer": ("not_applicable", None, "said in words"),
    "faithfulness/no_statements": ("not_applicable", None, "no claims"),
    "faithfulness/fewer_verdicts_2of4_all1": ("partial", 2 / 4, "missing verdicts count as not supported"),
    "faithfulness/fewer_verdicts_1of4_0": ("partial", 0.0, "the same; the score is Ragas's, its status is not"),
    "faithfulness/blank_statements": ("failed", None, "blank statements are none: the reply is not usable"),
    "faithfulness/more_verdicts_5for3": ("scored", 2 / 3, "ids that were not asked for are ignored"),
    "faithfulness/verdict_minus1": ("partial", 1 / 3, "-1 is no verdict"),
    "faithfulness/verdict_10": ("partial", 0.0, "10 is no verdict"),
    "faithfulness/verdict_string": ("scored", 2 / 3, "'1' is read as 1"),
    "faithfulness/verdict_bool": ("scored", 2 / 3, "true is read as 1"),
    "faithfulness/empty_answer": ("not_applicable", None, "said in words"),
    "faithfulness/empty_user_input": ("failed", None, "said in words"),
    "context_recall/no_classifications": ("failed", None, "a reference has parts: the reply is not usable"),
    "context_recall/value_2": ("partial", 1 / 3, "2 is no verdict"),
    "context_recall/value_minus1": ("partial", 1 / 3, "-1 is no verdict"),
    "context_recall/value_10": ("partial", 0.0, "10 is no verdict"),
    "context_recall/value_string": ("scored", 2 / 3, "'1' is read as 1"),
    "context_recall/value_float_1.0": ("scored", 2 / 3, "1.0 is read as 1"),
    "context_recall/empty_contexts": ("scored", 0.0, "0.0 without a call"),
    "context_recall/empty_reference": ("not_applicable", None, "said in words"),
    "context_recall/empty_user_input": ("failed", None, "said in words"),
    "context_precision/value_2": ("partial", (1 / 3) / 1, "2 is no verdict"),
    "context_precision/value_minus1": ("partial", (1 / 2) / 1, "-1 is no verdict"),
    "context_precision/value_10": ("partial", (1 / 2) / 1, "10 is no verdict"),
    "context_precision/value_string": ("scored", (1 + 2 / 3) / 2, "'1' is read as 1"),
    "context_precision/value_bool": ("scored", (1 + 2 / 3) / 2, "true is read as 1"),
    "context_precision/value_float": ("scored", (1 + 2 / 3) / 2, "1.0 is read as 1"),
    "context_precision/empty_reference": ("not_applicable", None, "said in words"),
    "context_precision/empty_user_input": ("failed", None, "said in words"),
}
INPUTS = {"response": "answer", "user_input": "question", "reference": "reference", "retrieved_contexts": "contexts"}


def of_metric(*names: str) -> list[Any]:
    return [pytest.param(case, id=case["id"]) for case in CASES if case["metric"] in names]


def scripted(case: dict[str, Any]) -> MetricResult:
    """Our metric, with a judge that says what Ragas's judge said."""
    judge, metric = case["judge"], case["metric"]
    texts = {"question": "Q?", "answer": "A.", "reference": "R."}
    texts |= {INPUTS[name]: "" for name in case.get("empty_inputs", []) if name != "retrieved_contexts"}
    if case["id"].endswith("/blank_answer"):
        texts["answer"] = ""
    values = judge.get("verdicts", judge.get("attributed", []))
    chunks = [f"C{i}" for i in range(1, len(values) + 1)] if metric == "context_precision" else ["C1"]
    if "retrieved_contexts" in case.get("empty_inputs", []):
        chunks = []
    given = dict(zip(chunks, values, strict=False))
    replies = {
        "relevancy.questions": {
            "questions": [
                {"question": question, "noncommittal": flag}
                for question, flag in zip(judge.get("questions", []), judge.get("noncommittal", []), strict=True)
            ]
        },
        "faithfulness.statements": {"statements": judge.get("statements", [])},
        "faithfulness.verdicts": {"verdicts": [{"id": i, "verdict": v} for i, v in enumerate(values, start=1)]},
        "recall.parts": {"parts": [{"text": f"P{i}", "verdict": v} for i, v in enumerate(values, start=1)]},
        "precision.chunk": lambda data: {"verdict": given[data["context"]]},
    }
    if metric == "context_recall":
        # The parts whose verdict could not be read are asked about again by id, and answered as before.
        unread = [value for value in values if value not in (0, 1, "0", "1")]
        replies["faithfulness.verdicts"] = {
            "verdicts": [{"id": i, "verdict": v} for i, v in enumerate(unread, start=1)]
        }
    vectors = {"Q?": judge.get("question_vector")}
    vectors |= dict(zip(judge.get("questions", []), judge.get("generated_vectors", []), strict=True))
    count = {"question_count": case["params"].get("strictness", 3)}
    asking = session(ScriptedJudge(**replies), lambda asked: [vectors[text] for text in asked])
    return evaluate_metric(metric, asking, Sample(**texts, contexts=read_contexts(chunks)), count)


@pytest.mark.parametrize("case", of_metric("answer_relevancy", "faithfulness", "context_recall", "context_precision"))
def test_metric_gives_what_ragas_gives(case: dict[str, Any]) -> None:
    result, theirs = scripted(case), case["collections"]
    if case["id"] in DIFFERENCES:
        status, score, _ = DIFFERENCES[case["id"]]
        assert result.status == status
        if score is not None:
            assert result.score == pytest.approx(score, abs=1e-12)
        else:
            assert (result.score is None) == (status != "scored")
        return
    assert result.status == "scored"
    assert result.score is not None
    ours = result.score
    if case["metric"] == "context_precision":
        # Ragas divides by the relevant chunks + 1e-10, so its 1.0 is not quite one.
        relevant = sum(case["judge"]["verdicts"])
        ours *= relevant / (relevant + 1e-10)
    assert ours == pytest.approx(theirs, abs=1e-12)


def test_every_listed_difference_is_one() -> None:
    cases = {case["id"]: case for case in CASES}
    for name, (status, score, _) in DIFFERENCES.items():
        theirs = cases[name]["collections"]
        same_number = isinstance(theirs, float) and not math.isnan(theirs) and theirs == score
        assert status == "partial" or not same_number, name


@pytest.mark.parametrize("case", of_metric("context_utilization"))
def test_average_precision_serves_utilization_too(case: dict[str, Any]) -> None:
    if case.get("empty_inputs"):
        assert case["collections"] == "error:ValueError"
        return
    verdicts = case["judge"]["verdicts"]
    relevant = sum(verdicts)
    ours = average_precision([verdict == 1 for verdict in verdicts]) * relevant / (relevant + 1e-10)
    assert ours == pytest.approx(case["collections"], abs=1e-12)


@pytest.mark.parametrize("case", of_metric("answer_similarity"))
def test_cosine_gives_what_ragas_gives(case: dict[str, Any]) -> None:
    one, other = case["judge"]["response_vector"], case["judge"]["reference_vector"]
    if len(one) != len(other) or not any(one) or not any(other):
        with pytest.raises(EvaluationError):
            cosines(one, [other])
        return
    ours = cosines(one, [other])[0]
    threshold = case["params"].get("threshold")
    if threshold is not None:
        ours = float(ours >= threshold)
    if case["id"] in {"answer_similarity/tiny", "answer_similarity/huge"}:
        assert ours == pytest.approx(1 / math.sqrt(2), abs=1e-12)
    else:
        assert ours == pytest.approx(case["collections"], abs=1e-12)
