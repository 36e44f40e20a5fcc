import threading
from dataclasses import replace
from typing import Any

import pytest

from evaluation.errors import UNSEEN, EvaluationError, Reason
from evaluation.metrics import METRICS, evaluate_metric
from evaluation.result import MetricResult
from evaluation.sample import Contexts
from evaluation.scorecard import FOUR, Scorecard, evaluate_answer, read_metrics
from tests.evaluation.fakes import ScriptedJudge, failing, parts, questions, sample, session, statements, verdicts

CHUNKS = ["有給休暇は10日", "日当は2,000円", "夏季休暇は5日"]
RELEVANT = {CHUNKS[0]: 1, CHUNKS[1]: 0, CHUNKS[2]: 1}
VECTORS = {"有給休暇は何日ですか": [1.0, 0.0], "何日もらえますか": [3.0, 4.0], "有給は何日ですか": [1.0, 0.0]}


def chunk_verdicts() -> list[dict[str, Any]]:
    return [{"id": n, "reason": "理由", "verdict": RELEVANT[text]} for n, text in enumerate(CHUNKS, start=1)]


def judge(**replies: Any) -> ScriptedJudge:
    return ScriptedJudge(
        **{
            "relevancy.questions": questions("何日もらえますか", "有給は何日ですか"),
            "faithfulness.statements": statements("10日付与される", "当日申請できる"),
            "faithfulness.verdicts": verdicts(1, 0),
            "recall.parts": parts(1, 0),
            "precision.chunk": lambda data: {"reason": "理由", "verdict": RELEVANT[data["context"]]},
            "precision.chunks": {"verdicts": chunk_verdicts()},
            "retrieval.economy": {**parts(1, 0), "chunks": chunk_verdicts()},
            "correctness.statements": statements("10日付与される"),
            "correctness.classify": {
                "answer": verdicts(1, 0)["verdicts"],
                "reference": verdicts(1)["verdicts"],
            },
            **replies,
        }
    )


def vectors(texts: Any) -> list[list[float]]:
    return [VECTORS.get(text, [1.0, 1.0]) for text in texts]


@pytest.mark.parametrize("depth", ["economy", "standard", "careful"])
def test_the_scores_are_those_of_the_single_metrics(depth: str) -> None:
    options = {"depth": depth}
    replies = {"faithfulness.verdicts": by_text} if depth == "careful" else {}
    if depth == "careful":
        replies["correctness.statements"] = statements("部分1", "部分2")
    asked = sample(contexts=CHUNKS)
    together = evaluate_answer(session(judge(**replies), vectors), asked, FOUR, options=options)
    for name in FOUR:
        alone = evaluate_metric(name, session(judge(**replies), vectors), asked, options)
        assert together.results[name].score == alone.score
        assert together.results[name].status == alone.status == "scored"
    assert together.results["faithfulness"].score == 0.5
    assert together.results["context_recall"].score == 0.5
    # hits at ranks 1 and 3: (1 + 2/3) / 2
    assert together.results["context_precision"].score == pytest.approx(5 / 6, abs=1e-12)
    assert together.results["answer_relevancy"].score == pytest.approx((0.6 + 1.0) / 2, abs=1e-12)


def by_text(data: dict[str, Any]) -> dict[str, Any]:
    """A verdict for each statement asked about, as in the other depths."""
    true = {"10日付与される", "部分1"}
    return {
        "verdicts": [{"id": s["id"], "reason": "理由", "verdict": int(s["text"] in true)} for s in data["statements"]]
    }


@pytest.mark.parametrize(
    ("depth", "calls"),
    [
        # questions, statements, verdicts, parts, one per chunk
        ("standard", 1 + 1 + 1 + 1 + 3),
        # recall and precision share one
        ("economy", 1 + 1 + 1 + 1),
        # questions; statements, one per claim; statements of the reference, one per part; one per chunk
        ("careful", 1 + (1 + 2) + (1 + 2) + 3),
    ],
)
def test_judge_calls_of_each_depth(depth: str, calls: int) -> None:
    replies = {"faithfulness.verdicts": by_text, "correctness.statements": statements("部分1", "部分2")}
    asked = judge(**replies)
    evaluate_answer(session(asked, vectors), sample(contexts=CHUNKS), FOUR, options={"depth": depth})
    assert len(asked.calls) == calls


def test_faithfulness_and_correctness_share_the_answers_statements() -> None:
    asked = judge()
    card = evaluate_answer(session(asked, vectors), sample(contexts=CHUNKS), (*FOUR, "answer_correctness"))
    assert asked.names().count("faithfulness.statements") == 1
    # tp 1, fp 1, fn 0: 1 / 1.5; the texts' vectors are equal
    assert card.results["answer_correctness"].score == pytest.approx(0.75 * (1 / 1.5) + 0.25, abs=1e-12)


def test_one_metrics_failure_leaves_the_others_alone() -> None:
    asked = judge(**{"recall.parts": failing(Reason.MODEL_ERROR)})
    card = evaluate_answer(session(asked, vectors), sample(contexts=CHUNKS))
    assert card.results["context_recall"].reason is Reason.MODEL_ERROR
    assert [name for name in FOUR if card.results[name].score is not None] == [
        "faithfulness",
        "answer_relevancy",
        "context_precision",
    ]
    assert card.status == "partial"
    assert card.telling is card.results["context_recall"]


def test_all_metrics_failing_is_a_card_too() -> None:
    broken = failing(Reason.MODEL_UNAUTHORIZED)
    names = ["relevancy.questions", "faithfulness.statements", "recall.parts", "precision.chunk"]
    card = evaluate_answer(session(judge(**dict.fromkeys(names, broken)), vectors), sample(contexts=CHUNKS))
    assert card.status == "failed"
    assert {result.reason for result in card.results.values()} == {Reason.MODEL_UNAUTHORIZED}
    assert card.findings == []
    assert card.passed is None


def test_a_failing_shared_call_fails_both_and_a_long_one_is_split() -> None:
    failed = judge(**{"retrieval.economy": failing(Reason.MODEL_ERROR)})
    card = evaluate_answer(session(failed, vectors), sample(contexts=CHUNKS), options={"depth": "economy"})
    for name in ("context_recall", "context_precision"):
        assert card.results[name].reason is Reason.MODEL_ERROR
    long = judge(**{"retrieval.economy": failing(Reason.CONTEXT_TOO_LONG)})
    card = evaluate_answer(session(long, vectors), sample(contexts=CHUNKS), options={"depth": "economy"})
    assert card.results["context_recall"].score == 0.5
    assert card.results["context_precision"].score == pytest.approx(5 / 6, abs=1e-12)


def test_chunks_that_the_shared_call_leaves_out_are_asked_about_again() -> None:
    short = {**parts(1, 0), "chunks": chunk_verdicts()[:2]}
    rest = {"verdicts": chunk_verdicts()[2:]}
    asked = judge(**{"retrieval.economy": short, "precision.chunks": rest})
    card = evaluate_answer(session(asked, vectors), sample(contexts=CHUNKS), options={"depth": "economy"})
    assert card.results["context_precision"].status == "scored"
    assert card.results["context_precision"].score == pytest.approx(5 / 6, abs=1e-12)
    missing = judge(**{"retrieval.economy": short, "precision.chunks": {"verdicts": []}})
    card = evaluate_answer(session(missing, vectors), sample(contexts=CHUNKS), options={"depth": "economy"})
    assert card.results["context_precision"].status == "partial"
    assert card.results["context_precision"].score == 1.0  # only the first of the judged two is relevant


@pytest.mark.parametrize("missing", ["question", "answer", "reference", "contexts"])
def test_any_missing_input_is_each_metrics_own_affair(missing: str) -> None:
    fields = {"contexts": CHUNKS, missing: [] if missing == "contexts" else ""}
    card = evaluate_answer(session(judge(), vectors), sample(**fields), (*FOUR, "answer_correctness"))
    without = {name for name, result in card.results.items() if result.score is None}
    assert (
        without
        == {
            "question": {*FOUR, "answer_correctness"},
            "answer": {"faithfulness", "answer_relevancy", "answer_correctness"},
            "reference": {"context_recall", "context_precision", "answer_correctness"},
            "contexts": set(),
        }[missing]
    )


@pytest.mark.parametrize("reason", sorted(UNSEEN))
@pytest.mark.parametrize("depth", ["economy", "standard", "careful"])
def test_where_the_retrieval_can_not_be_seen_the_metrics_of_the_chunks_do_not_apply(reason: Reason, depth: str) -> None:
    asked, scripted = replace(sample(), contexts=Contexts(hidden=reason)), judge()
    card = evaluate_answer(
        session(scripted, vectors), asked, FOUR, options={"depth": depth}, expected_documents=["規程.md"]
    )
    assert {name: (result.status, result.reason) for name, result in card.results.items() if result.score is None} == {
        name: ("not_applicable", reason) for name in FOUR if name != "answer_relevancy"
    }
    # Nobody is asked about what does not apply, and no document is said to be missing.
    assert scripted.names() == ["relevancy.questions"]
    assert card.documents is None
    assert card.findings == []
    assert card.status == "scored"


def test_independent_calls_run_at_the_same_time() -> None:
    together = threading.Barrier(4, timeout=5)

    def wait_for_all(reply: Any) -> Any:
        def answer(_: dict[str, Any]) -> Any:
            together.wait()
            return reply

        return answer

    firsts = {
        "relevancy.questions": wait_for_all(questions("有給は何日ですか")),
        "faithfulness.statements": wait_for_all(statements("10日付与される")),
        "recall.parts": wait_for_all(parts(1)),
        "precision.chunk": wait_for_all({"verdict": 1}),
    }
    replies = {**firsts, "faithfulness.verdicts": verdicts(1)}
    card = evaluate_answer(session(judge(**replies), vectors), sample(contexts=CHUNKS[:1]))
    assert card.status == "scored"


def result(name: str, score: float | None, reason: Reason = Reason.TIMEOUT) -> MetricResult:
    if score is None:
        return MetricResult.without_score(name, "1", EvaluationError(reason))
    return MetricResult(name, "1", "scored", score)


@pytest.mark.parametrize(
    ("scores", "thresholds", "passed"),
    [
        ({"faithfulness": 0.8, "context_recall": 0.9}, {}, None),
        ({"faithfulness": 0.8, "context_recall": 0.9}, {"faithfulness": 0.8}, True),
        ({"faithfulness": 0.79, "context_recall": 0.9}, {"faithfulness": 0.8, "context_recall": 0.8}, False),
        ({"faithfulness": 0.9, "context_recall": None}, {"faithfulness": 0.8, "context_recall": 0.8}, None),
        ({"faithfulness": 0.1, "context_recall": None}, {"faithfulness": 0.8, "context_recall": 0.8}, False),
    ],
)
def test_passed(scores: dict[str, float | None], thresholds: dict[str, float], passed: bool | None) -> None:
    card = Scorecard({name: result(name, score) for name, score in scores.items()}, thresholds)
    assert card.passed is passed


def test_what_does_not_apply_neither_passes_nor_fails() -> None:
    results = {
        "faithfulness": result("faithfulness", 0.9),
        "context_recall": result("context_recall", None, Reason.NO_REFERENCE),
    }
    assert Scorecard(results, {"faithfulness": 0.8, "context_recall": 0.8}).passed is True
    assert Scorecard({"context_recall": results["context_recall"]}, {"context_recall": 0.8}).passed is None
    assert Scorecard({"context_recall": results["context_recall"]}).status == "not_applicable"
    assert Scorecard(results).status == "scored"


@pytest.mark.parametrize(
    ("setting", "metrics"),
    [
        (None, FOUR),
        ("", FOUR),
        ("four", FOUR),
        ("four_and_correctness", (*FOUR, "answer_correctness")),
        ("answer", ("faithfulness", "answer_relevancy")),
        ("retrieval", ("context_recall", "context_precision")),
        ("context_recall, faithfulness", ("faithfulness", "context_recall")),
        (["answer_correctness"], ("answer_correctness",)),
    ],
)
def test_metrics_setting(setting: Any, metrics: tuple[str, ...]) -> None:
    assert read_metrics(setting) == metrics
    assert set(metrics) <= METRICS.keys()


@pytest.mark.parametrize("setting", ["all", ["bleu"], 5, "faithfulness,x"])
def test_unknown_metrics_are_refused_in_words(setting: Any) -> None:
    with pytest.raises(EvaluationError) as caught:
        read_metrics(setting)
    assert caught.value.reason is Reason.INVALID_SETTING
