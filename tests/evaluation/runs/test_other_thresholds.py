"""Other thresholds or another gate than a run has begun with: nothing is asked anew, and the new ones count."""

from typing import Any

import pytest

from evaluation.runs.store import RunStore, run_base
from tests.evaluation.runs.fakes import Killed
from tests.evaluation.runs.workspace import CALLS_PER_ROW, Bot, Place, failing_bot, request, run_until, unseen

BASE = run_base("朝の評価", "app-2")
STRICT = {"thresholds": {"faithfulness": 0.9}}


def kept_findings(place: Place) -> list[list[str]]:
    """What is wrong with each row of the first run, as its rows are kept."""
    rows = RunStore(place.values, BASE).read_rows(1, ["1-1", "2-1", "3-1"])
    return [[finding["name"] for finding in row.findings] for row in rows if row is not None]


@pytest.mark.parametrize("changes", [STRICT, {"max_failed": 0.5}, {**STRICT, "gate": "sure"}])
def test_an_unfinished_run_goes_on_with_other_thresholds_and_the_new_ones_count(changes: dict[str, Any]) -> None:
    place = Place()
    run_until(place, 2)

    outcome = place.run_anyhow(settings=changes)

    assert (outcome.how, outcome.report.number, outcome.report.finished) == ("go_on", 1, True)
    assert (place.bot.asked.total(), place.calls()) == (3, 3 * CALLS_PER_ROW)
    kept = RunStore(place.values, BASE)
    head, summary = kept.head(1), kept.summary(1)
    assert head is not None
    assert summary is not None
    assert head.settings == summary.head.settings == outcome.report.settings == request(settings=changes).settings


def test_rows_of_earlier_calls_are_held_against_the_new_thresholds_too() -> None:
    place = Place()
    run_until(place, 2)
    report = place.run(settings={"thresholds": {"faithfulness": 0.4}})

    assert kept_findings(place) == [[]] * 3
    assert [record.findings for record in report.records] == [[]] * 3
    assert report.passed is True

    place = Place()
    run_until(place, 2)
    report = place.run(settings=STRICT)

    found = kept_findings(place)
    assert found[0]
    assert found == [found[0]] * 3
    assert report.passed is False


def test_a_run_that_was_finished_unseen_is_shown_with_the_new_thresholds_and_kept_so() -> None:
    place = Place()
    unseen(place)

    outcome = place.run_anyhow(settings=STRICT)

    assert (outcome.how, outcome.report.number, outcome.report.passed) == ("unseen", 1, False)
    assert (place.bot.asked.total(), place.calls()) == (3, 3 * CALLS_PER_ROW)
    summary = RunStore(place.values, BASE).summary(1)
    assert summary is not None
    assert (summary.finished, summary.passed) == (True, False)
    assert place.run_anyhow(settings=STRICT).how == "new"


@pytest.mark.parametrize(("failing_rows", "how"), [((2,), "retry"), ((), "nothing_failed")])
def test_failed_rows_are_tried_again_with_other_thresholds(failing_rows: tuple[int, ...], how: str) -> None:
    place = Place(failing_bot(*failing_rows))
    place.run()
    place.bot = Bot()

    outcome = place.run_anyhow(retry_failed=True, settings=STRICT)

    assert (outcome.how, outcome.report.number, outcome.report.passed) == (how, 1, False)
    assert place.bot.asked.total() == len(failing_rows)
    assert len(kept_findings(place)) == 3
    assert all(kept_findings(place))


def test_a_call_that_dies_while_new_thresholds_are_applied_is_made_up_for() -> None:
    place = Place()
    run_until(place, 2)
    # The lock, then the first row.
    place.values.kill_at(2)
    with pytest.raises(Killed):
        place.run(settings=STRICT)
    place.values = place.values.after_restart()

    assert place.run(settings=STRICT).passed is False
    assert all(kept_findings(place))
