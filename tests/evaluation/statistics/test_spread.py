from random import Random

import pytest

from evaluation.statistics.spread import Spread, spread


def test_a_worked_example() -> None:
    # Questions: (0.5, 1.0): squares 2 x 0.0625 = 0.125, 1 degree; (0, 0.5, 1): squares 0.5, 2 degrees. 0.625 / 3.
    # Answers: (0.5, 0.75): squares 2 x 0.015625 = 0.03125, 1 degree.
    found = spread([(0.5, 1.0), (0.0, 0.5, 1.0), (0.3,)], [(0.5, 0.75), (1.0,)])

    assert found is not None
    assert found.whole == pytest.approx((0.625 / 3) ** 0.5, abs=1e-12)
    assert found.judge == pytest.approx(0.03125**0.5, abs=1e-12)
    assert found.bot == pytest.approx((0.625 / 3 - 0.03125) ** 0.5, abs=1e-12)
    assert found.judge_share == pytest.approx(0.03125 / (0.625 / 3), abs=1e-12)
    assert (found.questions, found.answers) == (2, 1)


@pytest.mark.parametrize(
    ("questions", "answers", "expected"),
    [
        ([], [], None),
        ([(0.5,), (1.0,)], [(0.1, 0.9)], None),
        ([(0.5, 0.5)], [], Spread(0.0, None, None, 1, 0)),
        # Nothing varies: the judge has no share of nothing.
        ([(0.5, 0.5)], [(0.5, 0.5)], Spread(0.0, 0.0, 0.0, 1, 1)),
        # The judge flickers on the few answers that were judged twice more than all repetitions do.
        ([(0.5, 0.5)], [(0.0, 1.0)], Spread(0.0, 0.0, 0.0, 1, 1)),
        # A bot that always says the same: all of it is the judge's.
        ([(0.0, 1.0)], [(0.0, 1.0)], Spread(0.5**0.5, 0.5**0.5, 0.0, 1, 1)),
    ],
)
def test_edges(questions: list[tuple[float, ...]], answers: list[tuple[float, ...]], expected: Spread | None) -> None:
    found = spread(questions, answers)

    assert found == expected
    assert found is None or (found.judge_share is None) == (found.whole == 0 or found.judge is None)


def test_the_parts_of_a_simulated_judge_and_bot_are_found_again() -> None:
    # Standard deviations 0.05 of the judge and 0.12 of the bot: 0.13 together, the judge's share 0.148.
    generator = Random(7)
    means = [generator.uniform(0.3, 0.7) for _ in range(2000)]
    questions = [[mean + generator.gauss(0, 0.12) + generator.gauss(0, 0.05) for _ in range(3)] for mean in means]
    answers = [[mean + generator.gauss(0, 0.05) for _ in range(2)] for mean in means]

    found = spread(questions, answers)

    assert found is not None
    assert found.whole == pytest.approx(0.13, abs=0.004)
    assert found.judge == pytest.approx(0.05, abs=0.002)
    assert found.bot == pytest.approx(0.12, abs=0.004)
