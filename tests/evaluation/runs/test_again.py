"""A run with repetitions shows how much of its spread is the judge's and how much the app's."""

from typing import Any

import pytest

from evaluation.errors import Reason
from evaluation.judging.clock import Deadline
from evaluation.runs.again import ENOUGH_QUESTIONS, MOST_QUESTIONS, spreads, to_judge_again
from evaluation.runs.records import RowRecord
from evaluation.runs.run import run
from evaluation.runs.store import RunStore, run_base
from tests.evaluation.fakes import failing, parts
from tests.evaluation.runs.fakes import ManualClock, answer, done, metric
from tests.evaluation.runs.workspace import CALLS_PER_ROW, Bot, Place, judge, request, table

TWICE = {"repeat": 2}


def changing_bot() -> Bot:
    """An app that answers each time in another way."""
    return Bot(lambda record: answer(f"{record.question}の{record.repetition}回目の答え"))


def of(row: int, repetition: int, score: float, fingerprint: str = "", **changes: Any) -> RowRecord:
    metrics = {"faithfulness": metric(score)}
    fingerprint = fingerprint or f"{row}-{repetition}"
    return done(row, fingerprint, repetition=repetition, metrics=metrics, **changes)


# --- which answers ---


def test_an_answer_that_came_twice_is_not_judged_again() -> None:
    records = [of(row, repetition, 0.5, f"same {row}") for row in range(1, 6) for repetition in (1, 2)]

    assert to_judge_again(records) == []


def test_the_first_answers_of_ten_questions_are_judged_again_when_too_few_came_twice() -> None:
    rows = range(1, 31)
    same = [of(row, repetition, 0.5, f"same {row}") for row in rows[: ENOUGH_QUESTIONS - 1] for repetition in (1, 2)]
    others = [of(row, repetition, 0.5) for row in rows[ENOUGH_QUESTIONS - 1 :] for repetition in (1, 2)]

    chosen = to_judge_again([*same, *others])

    assert [(record.row, record.repetition) for record in chosen] == [(row, 1) for row in range(5, 15)]
    assert len(chosen) == MOST_QUESTIONS


def test_what_was_judged_again_is_not_judged_a_third_time() -> None:
    records = [of(row, 1, 0.5, again={"faithfulness": 0.5}) for row in range(1, 4)] + [of(4, 1, 0.5)]

    assert [record.row for record in to_judge_again(records)] == [4]
    assert to_judge_again(records[:3]) == []


@pytest.mark.parametrize("changes", [{"state": "failed"}, {"metrics": {"faithfulness": metric(None, "failed", "x")}}])
def test_what_could_not_be_judged_is_not_judged_again(changes: dict[str, Any]) -> None:
    record = of(1, 1, 0.5)
    vars(record).update(changes)

    assert to_judge_again([record]) == []


# --- the spread ---


def test_the_spread_of_a_judge_that_flickers_and_a_bot_that_changes() -> None:
    records = [
        # The same answer, scored differently: the judge's.
        of(1, 1, 0.4, "same"),
        of(1, 2, 0.6, "same"),
        # Other answers, and a second judging of the first one.
        of(2, 1, 0.2, again={"faithfulness": 0.2}),
        of(2, 2, 0.8),
    ]

    found = spreads(records, ["faithfulness", "context_recall"])

    # Within questions: squares 0.02 and 0.18, 2 degrees of freedom: 0.1. Within answers: 0.02 and 0, 2 degrees: 0.01.
    assert list(found) == ["faithfulness"]
    assert found["faithfulness"].whole == pytest.approx(0.1**0.5, abs=1e-12)
    assert found["faithfulness"].judge == pytest.approx(0.1, abs=1e-12)
    assert found["faithfulness"].judge_share == pytest.approx(0.1, abs=1e-12)


# --- whole runs ---


def test_a_run_without_repetitions_judges_nothing_again() -> None:
    place = Place()

    assert place.run().spread == {}
    assert place.calls() == 3 * CALLS_PER_ROW


def test_answers_that_differ_are_judged_once_more_which_is_in_the_account() -> None:
    flicker = iter([1, 0] * 20)
    place = Place(changing_bot(), judge(**{"recall.parts": lambda _: parts(next(flicker))}))

    report = place.run(rows=table(3), settings=TWICE)

    assert place.calls() == (2 * 3 + 3) * CALLS_PER_ROW
    assert report.usage["judge_calls"] == (2 * 3 + 3) * CALLS_PER_ROW
    assert (report.spread["context_recall"].answers, report.spread["faithfulness"].answers) == (3, 3)
    assert report.spread["faithfulness"].whole == 0
    assert report.spread["context_recall"].judge is not None
    # The means stay those of the repetitions.
    assert report.statistics["faithfulness"].scored == 6
    kept = RunStore(place.values, run_base("朝の評価", "app-2")).read_row(1, "1-1")
    assert kept is not None
    assert set(kept.again or {}) == {"faithfulness", "context_recall"}


def test_scores_that_are_taken_over_bring_their_second_judging_with_them() -> None:
    place = Place(changing_bot())
    first = place.run(rows=table(3), settings=TWICE)
    place.calls()

    second = place.run(rows=table(3), settings=TWICE)

    assert place.calls() == 0
    assert (second.reused_rows, second.usage["judge_calls"]) == (6, 0)
    assert second.spread == first.spread


def test_five_questions_whose_answer_came_twice_are_enough() -> None:
    place = Place()

    report = place.run(rows=table(6), settings=TWICE)

    assert place.calls() == 2 * 6 * CALLS_PER_ROW
    assert report.spread["faithfulness"].answers == 6


def test_a_second_judging_that_fails_costs_no_score() -> None:
    count = 0

    def flaky(_: Any) -> Any:
        nonlocal count
        count += 1
        return parts(1) if count <= 6 else failing(Reason.MODEL_ERROR)

    place = Place(changing_bot(), judge(**{"recall.parts": flaky}))

    report = place.run(rows=table(3), settings=TWICE)

    assert report.statistics["context_recall"].scored == 6
    assert report.spread["context_recall"].judge is None
    assert report.spread["faithfulness"].judge == 0.0
    assert report.finished


def test_without_time_nothing_is_judged_again_and_the_part_is_not_known() -> None:
    clock = ManualClock()

    def reply(record: RowRecord) -> Any:
        clock.pass_by(234 if record.key == "1-2" else 0)
        return answer(f"{record.repetition}回目")

    place = Place()
    outcome = run(
        request(rows=table(1), settings=TWICE, deadline=Deadline(240, clock)),
        place.values,
        Bot(reply),
        place.judge,
        None,
    )

    assert outcome.report.finished
    assert place.calls() == 2 * CALLS_PER_ROW
    assert outcome.report.spread["faithfulness"].judge is None
