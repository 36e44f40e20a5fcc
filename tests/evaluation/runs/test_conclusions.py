"""From rows to means, comparisons and the gate."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import pytest

from evaluation.runs.conclusions import Comparison, Lost, Named, compare, gate_of, metric_statistics
from evaluation.runs.records import RowRecord
from evaluation.statistics.comparison import Difference
from evaluation.statistics.gate import Gate
from evaluation.statistics.intervals import mean_interval
from tests.evaluation.sample_runs import failed, record, settings


def faithfulness(*scores: float | None) -> list[RowRecord]:
    return [record(row, f"質問{row}", faithfulness=score) for row, score in enumerate(scores, start=1)]


def unscored(row: int, question: str = "質問", metric: str = "faithfulness") -> RowRecord:
    """A row whose app answered and whose metric could not be scored."""
    made = record(row, question)
    made.metrics[metric] = {"score": None, "status": "failed", "reason": "timeout", "version": "1"}
    return made


# --- a metric over rows ---

NOTHING = dict.fromkeys(("scored", "partial", "not_applicable", "failed", "questions"), 0)


@pytest.mark.parametrize(
    ("records", "mean", "counts"),
    [
        pytest.param([], None, {}, id="none"),
        pytest.param(faithfulness(0.3), 0.3, {"scored": 1, "questions": 1}, id="one"),
        pytest.param([failed(1), failed(2)], None, {"failed": 2}, id="all failed"),
        pytest.param(faithfulness(None, None), None, {"not_applicable": 2}, id="none applies"),
        pytest.param([record(1, context_recall=1.0)], None, {"failed": 1}, id="without the metric"),
        pytest.param([RowRecord(1, "質問"), RowRecord(2, "質問", state="answered")], None, {}, id="not finished"),
        pytest.param(
            [*faithfulness(0.5, None), failed(3), unscored(4)],
            0.5,
            {"scored": 1, "questions": 1, "not_applicable": 1, "failed": 2},
            id="mixed",
        ),
    ],
)
def test_a_metrics_counts_add_up_to_the_finished_rows(
    records: list[RowRecord], mean: float | None, counts: dict[str, int]
) -> None:
    found = metric_statistics(records, "faithfulness")
    assert found.mean == mean
    assert {name: getattr(found, name) for name in NOTHING} == {**NOTHING, **counts}
    finished = sum(made.state in {"done", "failed"} for made in records)
    assert found.scored + found.not_applicable + found.failed == finished
    json.dumps(asdict(found), allow_nan=False)


def test_rows_judged_in_part_are_scored_and_counted_apart() -> None:
    records = faithfulness(1.0, 0.0)
    records[1].metrics["faithfulness"]["status"] = "partial"
    found = metric_statistics(records, "faithfulness")
    assert (found.scored, found.partial, found.mean) == (2, 1, 0.5)


def test_repetitions_of_a_question_count_as_one() -> None:
    # Question 1: 1, 1, 0.4; question 2: 0, 0.3. Their means 0.8 and 0.15 are two values, not five.
    scores = {(1, 1): 1.0, (1, 2): 1.0, (1, 3): 0.4, (2, 1): 0.0, (2, 2): 0.3}
    records = [record(row, repetition=again, faithfulness=score) for (row, again), score in scores.items()]
    found, of_two = metric_statistics(records, "faithfulness"), mean_interval([0.8, 0.15])
    assert (found.mean, found.low, found.high) == pytest.approx((0.475, of_two.low, of_two.high))
    assert (found.scored, found.questions) == (5, 2)


# --- against an earlier run ---


def compared(now: Sequence[RowRecord], before: Sequence[RowRecord]) -> Comparison:
    return compare(now, before, ["faithfulness"])


def difference(now: Sequence[RowRecord], before: Sequence[RowRecord]) -> Difference:
    return compared(now, before).differences["faithfulness"]


def test_a_difference_is_that_of_the_same_rows() -> None:
    # Gains 0.5 and 0.1; the others have no counterpart with a score.
    found = difference(faithfulness(1.0, 0.4, None, 0.9), faithfulness(0.5, 0.3, 1.0, None))
    assert (found.pairs, found.questions, found.inapplicable) == (2, 2, 2)
    assert found.mean == pytest.approx(0.3)


def test_repeated_questions_do_not_make_a_difference_clear() -> None:
    # Five questions asked three times are 15 pairs, and still five questions: by chance all signs agree in 1 of 16.
    def asked(score: float) -> list[RowRecord]:
        return [record(row, f"質問{row}", again, faithfulness=score) for row in range(1, 6) for again in (1, 2, 3)]

    found = difference(asked(1.0), asked(0.5))
    assert (found.pairs, found.questions, found.p, found.sign) == (15, 5, 2 / 32, "no_clear_difference")


def test_a_repetition_is_paired_with_the_same_repetition() -> None:
    now = [record(1, "同じ", 2, faithfulness=0.5), record(1, "同じ", 1, faithfulness=1.0)]
    before = [record(1, "同じ", 1, faithfulness=1.0), record(1, "同じ", 2, faithfulness=0.5)]
    assert compared(now, before).changes == []


def test_questions_are_paired_by_their_text_wherever_they_stand() -> None:
    now = [record(1, "Ｑ１ は何ですか？", faithfulness=1.0), record(2, "新しい質問", faithfulness=0.0)]
    before = [record(1, "消えた質問", faithfulness=0.0), record(7, "q1は何ですか", faithfulness=0.5)]
    found = compared(now, before)
    assert found.differences["faithfulness"].mean == 0.5
    assert (found.only_now, found.only_before, found.paired) == (1, 1, 1)
    assert [(change.row, change.before, change.after) for change in found.changes] == [(1, 0.5, 1.0)]


SHOPS = {"東京": 1.0, "大阪": 0.0, "名古屋": 1.0, "福岡": 1.0, "札幌": 0.0, "仙台": 0.0, "広島": 1.0, "那覇": 0.0}


def shops(*names: str, column: str = "店舗") -> list[RowRecord]:
    """The same question for each of the shops, whose scores never change."""
    return [
        replace(record(row, "営業時間は何時からですか", faithfulness=SHOPS.get(name, 1.0)), inputs={column: name})
        for row, name in enumerate(names, start=1)
    ]


@pytest.mark.parametrize(
    ("now", "only_now", "only_before"),
    [
        pytest.param(shops("神戸", *SHOPS), 1, 0, id="a row on top"),
        pytest.param(shops(*reversed(SHOPS)), 0, 0, id="the other way round"),
        pytest.param(shops(*list(SHOPS)[3:]), 0, 3, id="rows taken away"),
        pytest.param(shops(*SHOPS, column=" 店舗 "), 0, 0, id="blanks"),
        pytest.param(
            [replace(made, inputs={**made.inputs, "備考": ""}) for made in shops(*SHOPS)], 0, 0, id="an empty column"
        ),
    ],
)
def test_the_same_question_for_other_inputs_is_another_one(
    now: list[RowRecord], only_now: int, only_before: int
) -> None:
    found = compared(now, shops(*SHOPS))
    assert (found.changes, found.only_now, found.only_before) == ([], only_now, only_before)
    of_metric = found.differences["faithfulness"]
    assert (of_metric.mean, of_metric.low, of_metric.high) == (0.0, 0.0, 0.0)


def test_a_question_that_stands_there_twice_is_paired_in_order() -> None:
    now = [record(1, "同じ", faithfulness=1.0), record(2, "同じ", faithfulness=0.4)]
    before = [record(1, "同じ", faithfulness=0.5), record(2, "同じ", faithfulness=0.4)]
    found = compared(now, before)
    assert found.differences["faithfulness"].pairs == 2
    assert [(change.row, change.before, change.after) for change in found.changes] == [(1, 0.5, 1.0)]


def test_the_largest_changes_come_first_and_ten_are_kept() -> None:
    scores = [number / 20 for number in range(15)]
    found = compared(faithfulness(*scores), faithfulness(*[0.0] * 15))
    assert [change.after for change in found.changes] == sorted(scores, reverse=True)[:10]


# --- pairs that are none ---


def test_pairs_lost_to_failures_are_counted_and_named_and_no_sign_is_given() -> None:
    # The ten hard questions scored 0.1 and fail now; the easy ten went from 0.90 to 0.92.
    hard, easy = [f"難問{n}" for n in range(1, 11)], [f"易問{n}" for n in range(11, 21)]
    before = [record(n, q, faithfulness=0.1) for n, q in enumerate(hard, 1)]
    before += [record(n, q, faithfulness=0.9) for n, q in enumerate(easy, 11)]
    now = [failed(n, q) for n, q in enumerate(hard, 1)]
    now += [record(n, q, faithfulness=0.92) for n, q in enumerate(easy, 11)]

    found = compared(now, before)

    of_metric = found.differences["faithfulness"]
    assert (of_metric.sign, of_metric.why, of_metric.lost, of_metric.pairs) == (
        "no_clear_difference",
        "lost_pairs",
        10,
        10,
    )
    assert (of_metric.p, of_metric.low, of_metric.high) == (None, None, None)
    assert found.lost_rows == 10
    assert [(row.question, row.metrics, row.failed_now) for row in found.lost] == [
        (question, ("faithfulness",), True) for question in hard
    ]
    json.dumps(asdict(found), allow_nan=False)


def test_a_pair_is_lost_whichever_run_failed_and_wherever() -> None:
    now = [record(1, "A", faithfulness=1.0), unscored(2, "B"), record(3, "C", faithfulness=1.0), failed(4, "D")]
    before = [failed(1, "A"), record(2, "B", faithfulness=1.0), unscored(3, "C"), failed(4, "D")]
    found = compared(now, before)
    # D failed in both runs: nothing of it was known before, nothing is now.
    assert found.differences["faithfulness"].lost == 3
    assert found.lost == [
        Lost(1, "A", ("faithfulness",), failed_now=False),
        Lost(2, "B", ("faithfulness",), failed_now=True),
        Lost(3, "C", ("faithfulness",), failed_now=False),
    ]


def test_a_question_asked_several_times_is_named_once_and_counts_as_one() -> None:
    metrics = ["faithfulness", "answer_relevancy"]
    scored = [record(1, "A", faithfulness=1.0, answer_relevancy=1.0), record(2, "B", faithfulness=1.0)]
    before = [replace(made, repetition=n, reference="10日") for n in (1, 2, 3) for made in scored]
    now = [replace(failed(1, "A"), repetition=n, reference="20日") for n in (1, 2, 3)]
    found = compare([*now, *before[1::2]], before, metrics)
    assert found.lost == [Lost(1, "A", ("faithfulness", "answer_relevancy"), failed_now=True)]
    assert (found.lost_rows, found.differences["faithfulness"].lost) == (1, 3)
    assert (found.references_changed, found.changed_references) == (1, [Named(1, "A")])


def test_a_metric_that_was_not_asked_for_before_has_no_pairs_and_lost_none() -> None:
    now = [record(row, f"質問{row}", faithfulness=1.0, context_recall=1.0) for row in range(1, 9)]
    before = [*faithfulness(*[0.5] * 7), failed(8, "質問8")]
    found = compare(now, before, ["faithfulness", "context_recall"])
    assert (found.differences["context_recall"].lost, found.differences["context_recall"].why) == (0, "no_pairs")
    assert found.differences["faithfulness"].lost == 1
    assert found.lost == [Lost(8, "質問8", ("faithfulness",), failed_now=False)]
    # An earlier run that failed as a whole was asked for everything.
    assert compare(now, [failed(1, "質問1")], ["context_recall"]).differences["context_recall"].lost == 1


def test_only_metrics_that_lost_pairs_have_no_sign() -> None:
    now = [record(n, f"質問{n}", faithfulness=1.0, answer_relevancy=1.0) for n in range(1, 10)]
    before = [record(n, f"質問{n}", faithfulness=0.5, answer_relevancy=0.5) for n in range(1, 10)]
    now[0].metrics["faithfulness"] = {"score": None, "status": "failed", "reason": "timeout", "version": "1"}
    found = compare(now, before, ["faithfulness", "answer_relevancy"])
    assert {name: entry.sign for name, entry in found.differences.items()} == {
        "faithfulness": "no_clear_difference",
        "answer_relevancy": "better",
    }
    assert [row.metrics for row in found.lost] == [("faithfulness",)]


def test_a_question_that_is_not_finished_yet_is_neither_missing_nor_lost_and_delays_the_sign() -> None:
    now = [*faithfulness(*[1.0] * 9), RowRecord(10, "質問10")]
    found = compared(now, faithfulness(*[0.5] * 10))
    of_metric = found.differences["faithfulness"]
    assert (found.only_now, found.only_before, found.lost_rows) == (0, 0, 0)
    assert (of_metric.pairs, of_metric.waiting, of_metric.sign, of_metric.why) == (
        9,
        1,
        "no_clear_difference",
        "unfinished",
    )


def test_rows_to_which_a_metric_applies_once_are_counted_and_no_failure() -> None:
    found = difference(faithfulness(None, *[1.0] * 9), faithfulness(0.1, *[0.5] * 9))
    assert (found.inapplicable, found.lost, found.pairs, found.sign) == (1, 0, 9, "better")


# --- a reference that changed ---


def with_reference(reference: str, *records: RowRecord) -> list[RowRecord]:
    return [replace(made, reference=reference) for made in records]


def test_a_changed_reference_is_named_and_not_compared_where_it_is_read() -> None:
    def rows(score: float) -> list[RowRecord]:
        return [record(n, f"質問{n}", faithfulness=score, context_recall=score) for n in range(1, 10)]

    before = with_reference("10日です", *rows(0.5))
    now = [*with_reference("２０日です", rows(1.0)[0]), *with_reference("10日です。", *rows(1.0)[1:])]
    found = compare(now, before, ["faithfulness", "context_recall"])
    assert found.changed_references == [Named(1, "質問1")]
    assert found.references_changed == 1
    assert {name: entry.pairs for name, entry in found.differences.items()} == {"faithfulness": 9, "context_recall": 8}
    assert {(change.metric, change.row) for change in found.changes} >= {("faithfulness", 1)}
    assert ("context_recall", 1) not in {(change.metric, change.row) for change in found.changes}


def test_rows_that_are_alike_are_paired_by_their_reference_first() -> None:
    leave = with_reference("10日", record(1, "何日ですか", context_recall=1.0))
    travel = with_reference("2日", record(2, "何日ですか", context_recall=0.0))
    new = with_reference("5日", record(3, "何日ですか", context_recall=0.0))
    found = compare([*new, *travel, *leave], [*leave, *travel, *new], ["context_recall"])
    assert (found.changes, found.references_changed) == ([], 0)
    found = compare([*travel, *new], [*leave, *travel], ["context_recall"])
    assert (found.references_changed, found.changed_references) == (1, [Named(3, "何日ですか")])


# --- the gate ---


def gate(records: Sequence[RowRecord], **changes: Any) -> Gate:
    made = settings(**{"thresholds": {"faithfulness": 0.8}, "metrics": ("faithfulness",), **changes})
    found = gate_of(records, {name: metric_statistics(records, name) for name in made.metrics}, made)
    assert found is not None
    return found


def test_one_good_row_of_twenty_is_no_pass() -> None:
    found = gate([record(1, faithfulness=1.0), *(failed(row) for row in range(2, 21))])
    assert (found.verdict, found.passed) == ("not_measured", None)
    assert [reason.cause for reason in found.reasons] == ["failed_rows"]
    assert (found.rows, found.done, found.failed) == (20, 20, 19)


def test_a_row_has_failed_when_its_app_or_a_metric_with_a_threshold_did() -> None:
    records = [record(1, faithfulness=1.0), failed(2), unscored(3), record(4, faithfulness=None)]
    assert gate(records).failed == 2
    # Nobody has asked anything of the context recall.
    records = [record(1, faithfulness=1.0), unscored(2, metric="context_recall")]
    records[1].metrics["faithfulness"] = records[0].metrics["faithfulness"]
    found = gate(records, metrics=("faithfulness", "context_recall"))
    assert (found.failed, found.passed) == (0, True)


def test_a_threshold_of_what_nobody_can_see_is_not_measured_and_never_passed() -> None:
    hidden = {"score": None, "status": "not_applicable", "reason": "citations_off", "version": "1"}
    records = [replace(made, metrics={**made.metrics, "context_recall": hidden}) for made in faithfulness(1.0, 1.0)]
    both = settings(thresholds={"faithfulness": 0.5, "context_recall": 0.5}, metrics=("faithfulness", "context_recall"))

    def gate(rows: list[RowRecord]) -> Gate | None:
        return gate_of(rows, {name: metric_statistics(rows, name) for name in both.metrics}, both)

    found = gate(records)
    assert found is not None
    assert (found.passed, [(reason.cause, reason.metric) for reason in found.reasons]) == (
        None,
        [("nothing_scored", "context_recall")],
    )
    # Seen in one row, the mean is that of the rows in which it was.
    records[0].metrics["context_recall"] = {**hidden, "score": 0.75, "status": "scored", "reason": ""}
    found = gate(records)
    assert found is not None
    assert found.passed is True


def test_without_thresholds_there_is_no_gate() -> None:
    statistics = {"faithfulness": metric_statistics(faithfulness(1.0), "faithfulness")}
    assert gate_of(faithfulness(1.0), statistics, settings(thresholds={})) is None
    assert gate_of(faithfulness(1.0), statistics, settings(thresholds={"context_recall": 0.5})) is None


def test_what_failed_counts_as_1_where_a_mean_is_below_for_sure() -> None:
    # (3 x 0.2 + 1) / 4 = 0.4 at best.
    assert gate([*faithfulness(0.2, 0.2, 0.2), failed(4)], thresholds={"faithfulness": 0.5}).passed is False
    # (0.2 + 3) / 4 = 0.8 at best.
    assert gate([*faithfulness(0.2), failed(2), failed(3), failed(4)], thresholds={"faithfulness": 0.5}).passed is None


def test_the_surer_gate_asks_for_the_lower_end() -> None:
    records = faithfulness(*[1.0] * 5)
    assert gate(records).passed is True
    assert gate(records, gate="sure").passed is False
    assert gate(faithfulness(*[1.0] * 60), gate="sure").passed is True
