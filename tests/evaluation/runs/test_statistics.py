"""Means, intervals and comparisons of runs."""

import json
import random
import statistics
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from evaluation.runs import statistics as subject
from evaluation.runs.records import RowRecord
from evaluation.runs.statistics import compare, interval, metric_statistics
from tests.evaluation.sample_runs import failed, record


def faithfulness(*scores: float | None) -> list[RowRecord]:
    return [record(row, f"質問{row}", faithfulness=score) for row, score in enumerate(scores, start=1)]


# --- the interval ---


def test_the_interval_of_two_opposite_values_spans_both() -> None:
    # Of two draws both are 0 with probability 1/4, so the 2.5 % quantile is 0; likewise 1 at the other end.
    assert interval([0.0, 1.0]) == (0.0, 1.0)


def test_the_interval_agrees_with_a_bootstrap_written_out() -> None:
    source = random.Random(7)
    values = [source.random() for _ in range(60)]
    means = sorted(statistics.fmean(source.choices(values, k=len(values))) for _ in range(4000))
    low, high = interval(values)
    # The quantiles of two bootstraps differ by chance; a tenth of the interval's width is far more than that.
    width = means[3899] - means[99]
    assert low == pytest.approx(means[99], abs=width / 10)
    assert high == pytest.approx(means[3899], abs=width / 10)


def test_the_interval_of_many_values_is_that_of_the_normal_distribution() -> None:
    source = random.Random(11)
    values = [source.random() for _ in range(500)]
    half = 1.96 * statistics.stdev(values) / 500**0.5
    low, high = interval(values)
    assert low == pytest.approx(statistics.fmean(values) - half, abs=half / 10)
    assert high == pytest.approx(statistics.fmean(values) + half, abs=half / 10)


def test_the_same_values_give_the_same_interval() -> None:
    values = [0.1, 0.5, 0.5, 0.9, 1.0]
    assert interval(values) == interval(values)


def test_values_drawn_in_blocks_give_the_interval_of_one_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    source = random.Random(3)
    values = [source.random() for _ in range(300)]
    at_once = interval(values)
    monkeypatch.setattr(subject, "DRAWN_AT_ONCE", 10_000)
    assert interval(values) == pytest.approx(at_once, abs=0.01)


@pytest.mark.parametrize(("rows", "draws"), [(1, 1), (500, 1), (10_000, 20)])
def test_resamples_are_drawn_in_as_few_calls_as_memory_allows(
    rows: int, draws: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[tuple[int, int]] = []
    make = np.random.default_rng

    class Counting:
        def __init__(self, seed: int) -> None:
            self._generator = make(seed)

        def integers(self, low: int, high: int, *, size: tuple[int, int], dtype: Any) -> Any:
            sizes.append(size)
            return self._generator.integers(low, high, size=size, dtype=dtype)

    monkeypatch.setattr(np.random, "default_rng", Counting)
    interval([0.5] * rows)
    assert len(sizes) == draws
    assert sum(size[0] for size in sizes) == subject.RESAMPLES
    assert max(size[0] * size[1] for size in sizes) <= subject.DRAWN_AT_ONCE


# --- a metric over rows ---

NOTHING = {"mean": None, "low": None, "high": None, "scored": 0, "partial": 0, "not_applicable": 0, "failed": 0}


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        pytest.param([], {}, id="none"),
        pytest.param(faithfulness(0.3), {"mean": 0.3, "low": 0.3, "high": 0.3, "scored": 1}, id="one"),
        pytest.param(faithfulness(1.0, 1.0, 1.0), {"mean": 1.0, "low": 1.0, "high": 1.0, "scored": 3}, id="all equal"),
        pytest.param([failed(1), failed(2)], {"failed": 2}, id="all failed"),
        pytest.param(faithfulness(None, None), {"not_applicable": 2}, id="none applies"),
        pytest.param([record(1, context_recall=1.0)], {"failed": 1}, id="without the metric"),
        pytest.param([RowRecord(1, "質問"), RowRecord(2, "質問", state="answered")], {}, id="not finished"),
        pytest.param(
            [*faithfulness(0.5, None), failed(3)],
            {"mean": 0.5, "low": 0.5, "high": 0.5, "scored": 1, "not_applicable": 1, "failed": 1},
            id="mixed",
        ),
    ],
)
def test_a_metrics_counts_add_up_to_the_finished_rows(records: list[RowRecord], expected: dict[str, Any]) -> None:
    found = metric_statistics(records, "faithfulness")
    assert asdict(found) == pytest.approx({**NOTHING, **expected})
    finished = sum(made.state in {"done", "failed"} for made in records)
    assert found.scored + found.not_applicable + found.failed == finished
    json.dumps(asdict(found), allow_nan=False)


def test_rows_judged_in_part_are_scored_and_counted_apart() -> None:
    records = faithfulness(1.0, 0.0)
    records[1].metrics["faithfulness"]["status"] = "partial"
    found = metric_statistics(records, "faithfulness")
    assert (found.scored, found.partial, found.mean) == (2, 1, 0.5)


def test_repetitions_of_a_question_count_as_one() -> None:
    # Question 1 three times 1, question 2 three times 0: two values, of which both draws are 0 with probability 1/4. Of
    # six values all draws are 0 with probability 1/64, so that the interval would be narrower.
    records = [record(row, repetition=again, faithfulness=2.0 - row) for row in (1, 2) for again in (1, 2, 3)]
    found = metric_statistics(records, "faithfulness")
    assert (found.mean, found.low, found.high, found.scored) == (0.5, 0.0, 1.0, 6)


# --- against an earlier run ---


def difference(now: list[float | None], before: list[float | None]) -> Any:
    return compare(faithfulness(*now), faithfulness(*before), ["faithfulness"]).differences["faithfulness"]


@pytest.mark.parametrize(
    ("now", "before", "sign"),
    [
        pytest.param([1.0] * 6, [0.5] * 6, "better", id="six better"),
        pytest.param([0.5] * 6, [1.0] * 6, "worse", id="six worse"),
        pytest.param([1.0] * 5, [0.5] * 5, "no_clear_difference", id="five are too few"),
        pytest.param([0.5] * 9, [0.5] * 9, "no_clear_difference", id="equal"),
        pytest.param([1.0, 0.0] * 5, [0.0, 1.0] * 5, "no_clear_difference", id="as many up as down"),
        pytest.param([1.0] + [0.5] * 9, [0.5] * 10, "no_clear_difference", id="one of ten up"),
        pytest.param([1.0] * 8 + [0.0], [0.5] * 9, "better", id="eight of nine up"),
    ],
)
def test_better_and_worse_need_six_questions_and_an_interval_beside_zero(
    now: list[float | None], before: list[float | None], sign: str
) -> None:
    assert difference(now, before).sign == sign


def test_a_difference_is_paired() -> None:
    # Gains 0.1, 0.1, 0.1, 0.1, 0.1, 0.2 although the scores themselves lie far apart.
    found = difference([0.1, 0.3, 0.5, 0.7, 0.9, 1.0], [0.0, 0.2, 0.4, 0.6, 0.8, 0.8])
    assert found.mean == pytest.approx(0.7 / 6)
    assert found.low == pytest.approx(0.1)
    assert found.sign == "better"


def test_rows_without_a_score_on_either_side_are_no_pairs() -> None:
    found = difference([1.0, None, 0.5], [0.5, 1.0, None])
    assert (found.pairs, found.mean) == (1, 0.5)
    assert asdict(difference([None], [1.0])) == {
        "mean": None,
        "low": None,
        "high": None,
        "pairs": 0,
        "sign": "no_clear_difference",
    }


def test_repeated_questions_do_not_make_a_difference_clear() -> None:
    # Five questions asked three times are 15 pairs, and still five questions.
    now = [record(row, f"質問{row}", again, faithfulness=1.0) for row in range(1, 6) for again in (1, 2, 3)]
    before = [record(row, f"質問{row}", again, faithfulness=0.5) for row in range(1, 6) for again in (1, 2, 3)]
    found = compare(now, before, ["faithfulness"]).differences["faithfulness"]
    assert (found.pairs, found.sign) == (15, "no_clear_difference")


def test_questions_are_paired_by_their_text_wherever_they_stand() -> None:
    now = [record(1, "Ｑ１ は何ですか？", faithfulness=1.0), record(2, "新しい質問", faithfulness=0.0)]
    before = [record(1, "消えた質問", faithfulness=0.0), record(7, "q1は何ですか", faithfulness=0.5)]
    found = compare(now, before, ["faithfulness"])
    assert found.differences["faithfulness"].mean == 0.5
    assert (found.only_now, found.only_before) == (1, 1)
    assert [(change.row, change.before, change.after) for change in found.changes] == [(1, 0.5, 1.0)]


def test_a_question_that_stands_there_twice_is_paired_in_order() -> None:
    now = [record(1, "同じ", faithfulness=1.0), record(2, "同じ", faithfulness=0.4)]
    before = [record(1, "同じ", faithfulness=0.5), record(2, "同じ", faithfulness=0.4)]
    found = compare(now, before, ["faithfulness"])
    assert found.differences["faithfulness"].pairs == 2
    assert [(change.row, change.before, change.after) for change in found.changes] == [(1, 0.5, 1.0)]


def test_the_largest_changes_come_first_and_ten_are_kept() -> None:
    scores = [number / 20 for number in range(15)]
    found = compare(faithfulness(*scores), faithfulness(*[0.0] * 15), ["faithfulness"])
    assert [change.after for change in found.changes] == sorted(scores, reverse=True)[:10]


def test_a_question_that_is_not_finished_yet_is_not_missing() -> None:
    now = [record(1, "質問1", faithfulness=1.0), RowRecord(2, "質問2")]
    found = compare(now, faithfulness(0.5, 0.5), ["faithfulness"])
    assert (found.only_now, found.only_before) == (0, 0)
    assert found.differences["faithfulness"].pairs == 1
