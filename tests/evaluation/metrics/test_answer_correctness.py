from typing import Any

import pytest

from evaluation.errors import Reason
from evaluation.metrics import evaluate_metric
from evaluation.metrics.answer_correctness import score_statements
from evaluation.metrics.scoring import cosines, f_score, weighted_mean
from evaluation.metrics.verdicts import Verdict
from evaluation.report.markdown import finding
from evaluation.texts import load_texts
from tests.evaluation.fakes import ScriptedJudge, failing, sample, session, statements
from tests.evaluation.metrics.test_parity import of_metric

# What we refuse or give where Ragas's two versions differ, or give NaN.
DIFFERENCES = {
    "answer_correctness/zero_vector_response": None,  # no cosine: embedding_invalid
    "answer_correctness/zero_vector_reference": None,
    "answer_correctness/weights_bad_zero": ValueError,
    "answer_correctness/weights_bad_neg": ValueError,
    "answer_correctness/weights_bad_three": ValueError,
    "answer_correctness/weights_bad_one": ValueError,
    "answer_correctness/beta_int": 0.5555555555555556,  # an int is a number too: 0.75 x 4/9 + 0.25 x 8/9
}


@pytest.mark.parametrize("case", of_metric("answer_correctness"))
def test_formula_gives_what_ragas_gives(case: dict[str, Any]) -> None:
    judge, params = case["judge"], case["params"]
    f1 = f_score(judge["tp"], judge["fp"], judge["fn"], params.get("beta", 1.0))
    one, other = judge["response_vector_collections"], judge["reference_vector_collections"]
    weights = params.get("weights", [0.75, 0.25])
    if case["id"] in DIFFERENCES and DIFFERENCES[case["id"]] in {ValueError, None}:
        with pytest.raises(Exception, match=r"weights|embedding_invalid"):
            weighted_mean([f1, cosines(one, [other])[0]], weights)
        return
    ours = weighted_mean([f1, max(0.0, cosines(one, [other])[0])], weights)
    legacy, collections = case["legacy"], case["collections"]
    expected = DIFFERENCES.get(case["id"], collections)
    if case["id"] not in DIFFERENCES and legacy != collections:
        # They differ on no statements: F1 is 0 in the one, 1 in the other. Nothing found is 0 here too.
        expected = weighted_mean([0.0, cosines(one, [other])[0]], weights)
        if case["id"].startswith("answer_correctness/empty"):
            return  # an empty answer or reference is said in words: see below
        assert expected == pytest.approx(legacy, abs=1e-12)
    if case["id"] in {"answer_correctness/no_statements_both", "answer_correctness/empty_both"}:
        # Both versions call nothing against nothing right; a reference here always has a statement.
        return
    assert ours == pytest.approx(expected, abs=1e-12)


def classified(answer: list[Any], reference: list[Any]) -> dict[str, Any]:
    sides = {"answer": answer, "reference": reference}
    return {
        side: [{"id": n, "reason": "理由", "verdict": v} for n, v in enumerate(values, start=1)]
        for side, values in sides.items()
    }


def judge(answer: list[Any], reference: list[Any], **replies: Any) -> ScriptedJudge:
    return ScriptedJudge(
        **{
            "faithfulness.statements": statements(*[f"回答{n}" for n in range(1, len(answer) + 1)]),
            "correctness.statements": statements(*[f"参照{n}" for n in range(1, len(reference) + 1)]),
            "correctness.classify": classified(answer, reference),
            **replies,
        }
    )


def test_f1_alone_without_an_embedding_model_and_it_says_so() -> None:
    asked = judge([1, 0], [1, 0, 0])
    result = evaluate_metric("answer_correctness", session(asked), sample(), {})
    # tp 1, fp 1, fn 2: 1 / (1 + (1 + 2) / 2) = 0.4
    assert result.score == pytest.approx(0.4, abs=1e-12)
    assert result.details["method"] == "f1"
    line = finding(result, load_texts("ja"))
    assert line == (
        "参照の3項目のうち2項目が回答にありません：「参照2」、「参照3」。"
        "回答の2件の主張のうち1件が参照にありません：「回答2」→ 理由（埋め込みモデルがないため、F1 だけで採点しました）"
    )
    assert asked.names().count("correctness.classify") == 1
    assert len(asked.calls) == 3


def test_similarity_counts_a_quarter_or_as_set() -> None:
    vectors = {"10日です": [3.0, 4.0], "10日付与されます": [1.0, 0.0]}
    for options, expected in (
        ({}, 0.75 * 1.0 + 0.25 * 0.6),
        ({"similarity_weight": 0.5}, 0.8),
        ({"similarity_weight": 0.0}, 1.0),
    ):
        asking = session(judge([1], [1]), lambda texts: [vectors[text] for text in texts])
        result = evaluate_metric("answer_correctness", asking, sample(), options)
        assert result.score == pytest.approx(expected, abs=1e-12)
        assert result.status == "scored"


def test_a_statement_left_out_is_asked_about_again_and_then_counts_against() -> None:
    first, second = classified([1], [1]), classified([1], [1])
    asked = judge([1, 1], [1, 1], **{"correctness.classify": [first, second]})
    result = evaluate_metric("answer_correctness", session(asked), sample(), {})
    assert asked.names().count("correctness.classify") == 2
    assert result.status == "partial"
    assert result.reason is Reason.VERDICTS_MISSING
    # tp 1, fp 1 (no verdict), fn 1 (no verdict)
    assert result.score == pytest.approx(0.5)
    assert result.details["coverage"]["judged"] == 2
    assert result.details["coverage"]["of"] == 4


def test_a_second_try_fills_in_what_was_left_out() -> None:
    partly = classified([1], [1])
    whole = classified([0, 1], [1, 1])
    asked = judge([1, 1], [1, 1], **{"correctness.classify": [partly, whole]})
    result = evaluate_metric("answer_correctness", session(asked), sample(), {})
    # The first verdict for the answer's statement 1 stands.
    assert result.status == "scored"
    assert result.score == 1.0


def test_an_answer_that_claims_nothing_has_none_of_the_reference() -> None:
    asked = judge([], [1, 1])
    result = evaluate_metric("answer_correctness", session(asked), sample(answer="わかりません"), {})
    assert (result.status, result.score) == ("scored", 0.0)
    assert "correctness.classify" not in asked.names()


@pytest.mark.parametrize(
    ("fields", "reason", "status"),
    [
        ({"question": ""}, Reason.NO_QUESTION, "failed"),
        ({"answer": ""}, Reason.NO_ANSWER, "not_applicable"),
        ({"reference": ""}, Reason.NO_REFERENCE, "not_applicable"),
    ],
)
def test_missing_inputs_are_said_without_a_call(fields: dict[str, str], reason: Reason, status: str) -> None:
    asked = judge([1], [1])
    result = evaluate_metric("answer_correctness", session(asked), sample(**fields), {})
    assert (result.status, result.reason, result.score) == (status, reason, None)
    assert asked.calls == []


def test_a_failing_judge_or_a_zero_vector_is_no_score() -> None:
    broken = judge([1], [1], **{"correctness.classify": failing(Reason.MODEL_ERROR)})
    assert evaluate_metric("answer_correctness", session(broken), sample(), {}).reason is Reason.MODEL_ERROR
    zero = session(judge([1], [1]), lambda texts: [[0.0, 0.0] for _ in texts])
    assert evaluate_metric("answer_correctness", zero, sample(), {}).reason is Reason.EMBEDDING_INVALID


def test_votes_decide_by_majority() -> None:
    asked = judge(
        [1], [1], **{"correctness.classify": [classified([1], [1]), classified([0], [1]), classified([1], [1])]}
    )
    result = evaluate_metric("answer_correctness", session(asked, votes=3), sample(), {})
    assert result.score == 1.0
    assert result.details["coverage"]["agreement"] == pytest.approx((2 / 3 + 1) / 2, abs=1e-4)


def test_f1_of_statements_by_hand() -> None:
    yes, no, missing = Verdict(True), Verdict(False), Verdict(None)
    # tp 2, fp 1, fn 2: 2 / (2 + 3 / 2)
    assert score_statements({"answer": [yes, yes, missing], "reference": [yes, no, missing]}) == pytest.approx(4 / 7)
