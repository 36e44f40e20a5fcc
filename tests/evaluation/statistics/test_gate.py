"""Whether a run passes, and why not."""

import json
from dataclasses import asdict
from typing import Any

import pytest

from evaluation.statistics.gate import Gate, GateReason, Measured, judge_run, reaches


def judged(*measured: Measured, **changes: Any) -> Gate:
    """Of twenty finished rows; the metrics are called a, b, c."""
    counts = {"rows": 20, "done": 20, "failed": 0, "kind": "mean", "max_failed": 0.0, **changes}
    return judge_run(dict(zip("abc", measured, strict=False)), **counts)


GOOD = Measured(0.8, 0.9, 0.75, 0.9)
LOW = Measured(0.8, 0.6, 0.5, 0.6)
NEVER_SCORED = Measured(0.8, None, None, 1.0)
INAPPLICABLE = Measured(0.8, None, None, None)


@pytest.mark.parametrize(
    ("gate", "passed", "reasons"),
    [
        pytest.param(judged(GOOD), True, [], id="above"),
        pytest.param(judged(GOOD, LOW), False, [("mean_below", "b")], id="one below"),
        pytest.param(judged(LOW, LOW), False, [("mean_below", "a"), ("mean_below", "b")], id="two below"),
        pytest.param(judged(GOOD, kind="sure"), False, [("low_end_below", "a")], id="sure"),
        pytest.param(judged(LOW, kind="sure"), False, [("mean_below", "a")], id="sure and the mean below"),
        pytest.param(judged(Measured(0.7, 0.9, 0.75, 0.9), kind="sure"), True, [], id="sure and above"),
        # Sums of floats: (0.6 + 0.8) / 2 is a hair below 0.7.
        pytest.param(judged(Measured(0.7, (0.6 + 0.8) / 2, 0.5, 0.7)), True, [], id="by a hair"),
        # Failures.
        pytest.param(judged(GOOD, failed=1), None, [("failed_rows", "")], id="one failed"),
        pytest.param(judged(GOOD, failed=2, max_failed=0.1), True, [], id="as many failed as may"),
        pytest.param(judged(GOOD, failed=3, max_failed=0.1), None, [("failed_rows", "")], id="one more"),
        pytest.param(judged(GOOD, failed=20, max_failed=1.0), True, [], id="all may"),
        # A share that no float holds exactly: 0.15 x 20 = 3.
        pytest.param(judged(GOOD, failed=3, max_failed=0.15), True, [], id="a share by a hair"),
        pytest.param(
            judged(Measured(0.8, 0.6, 0.5, 0.79), failed=9), False, [("mean_below", "a")], id="below at its best"
        ),
        pytest.param(judged(Measured(0.8, 0.6, 0.5, 0.8), failed=10), None, [("failed_rows", "")], id="perhaps below"),
        pytest.param(
            judged(Measured(0.8, 0.6, 0.5, 0.9), failed=1, max_failed=0.1),
            False,
            [("mean_below", "a")],
            id="few",
        ),
        # The lower end may well be below although the mean can't be told.
        pytest.param(
            judged(Measured(0.8, 0.9, 0.7, 0.95), failed=1, kind="sure"), None, [("failed_rows", "")], id="sure, failed"
        ),
        # Nothing to measure.
        pytest.param(judged(GOOD, INAPPLICABLE), True, [], id="one applies"),
        pytest.param(judged(LOW, INAPPLICABLE), False, [("mean_below", "a")], id="one applies and is below"),
        pytest.param(judged(INAPPLICABLE), None, [("nothing_scored", "a")], id="none applies"),
        pytest.param(judged(NEVER_SCORED, failed=20), None, [("failed_rows", "")], id="all failed"),
        pytest.param(
            judged(GOOD, NEVER_SCORED, failed=20, max_failed=1), None, [("nothing_scored", "b")], id="one never scored"
        ),
        pytest.param(
            judged(LOW, NEVER_SCORED, failed=20, max_failed=1), False, [("mean_below", "a")], id="below all the same"
        ),
        # Not finished.
        pytest.param(judged(GOOD, done=19), None, [("unfinished", "")], id="a row is open"),
        pytest.param(judged(LOW, done=19), None, [("unfinished", "")], id="a row is open and the mean below"),
        pytest.param(judged(LOW, done=0, failed=0), None, [("unfinished", "")], id="nothing done"),
    ],
)
def test_a_run_passes_is_below_or_was_not_measured(
    gate: Gate, passed: bool | None, reasons: list[tuple[str, str]]
) -> None:
    assert gate.passed is passed
    assert gate.verdict == {True: "passed", False: "below", None: "not_measured"}[passed]
    assert [(reason.cause, reason.metric) for reason in gate.reasons] == reasons
    json.dumps(asdict(gate), allow_nan=False)


def test_a_reason_says_which_metric_misses_what_by_how_much() -> None:
    (reason,) = judged(GOOD, LOW).reasons
    assert reason == GateReason("mean_below", "b", 0.6, 0.5, 0.8, pytest.approx(0.2))
    (reason,) = judged(GOOD, kind="sure").reasons
    assert reason == GateReason("low_end_below", "a", 0.9, 0.75, 0.8, pytest.approx(0.05))


def test_the_counts_are_kept() -> None:
    gate = judged(GOOD, INAPPLICABLE, failed=1, max_failed=0.25)
    assert (gate.rows, gate.done, gate.failed, gate.max_failed, gate.inapplicable) == (20, 20, 1, 0.25, ("b",))


def test_a_score_at_its_threshold_reaches_it() -> None:
    assert reaches(0.7, 0.7)
    assert reaches((0.6 + 0.8) / 2, 0.7)
    assert not reaches(0.69999, 0.7)
