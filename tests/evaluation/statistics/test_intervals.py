"""The interval of a mean: worked values, and how often it holds the true mean."""

import json
import random
import statistics
from dataclasses import asdict

import pytest

from benchmarks.conclusions import POPULATIONS, SIZES, by_bootstrap, by_wilson, coverage, ours
from evaluation.statistics.intervals import mean_interval, student, wilson

# --- Student's t ---


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    # From the tables; 5.3 and 55.5 from scipy.stats.t.ppf(0.975, ...).
    [(1, 12.706205), (2, 4.302653), (3, 3.182446), (5.3, 2.527428), (10, 2.228139), (55.5, 2.003640), (1e6, 1.959966)],
)
def test_the_quantile_of_t_is_that_of_the_tables(freedom: float, quantile: float) -> None:
    assert student(freedom) == pytest.approx(quantile, abs=1e-6)


# --- worked values ---


def test_wilsons_interval_is_that_of_the_textbook() -> None:
    # 81 of 263 (Newcombe 1998, table I): 0.2553 to 0.3662. Of 0 of 20 the upper end is z^2 / (20 + z^2) = 0.1611.
    assert wilson(81 / 263, 263, 1.959964) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(0.0, 20, 1.959964) == pytest.approx((0.0, 0.1611), abs=5e-5)


def test_five_ones_may_come_from_a_mean_of_a_half() -> None:
    # Prior 1 + 6 x 1 = 7, so 11 degrees of freedom and t = 2.200985; the design effect is 1.
    # Wilson for 5 of 5: low = 5 / (5 + t^2) = 5 / 9.844336 = 0.507906.
    found = mean_interval([1.0] * 5)
    assert (found.mean, found.high, found.count) == (1.0, 1.0, 5)
    assert found.low == pytest.approx(0.507906, abs=1e-6)


def test_scores_close_together_have_the_interval_of_more_scores_by_yes_and_no() -> None:
    # Mean 0.8, m(1 - m) = 0.16; variance (0.01 + 0 + 0.01) / 2 = 0.01, against 0.16: 0.0625.
    # Prior 1, 3 degrees of freedom, t = 3.182446. Effect (1 + 2 x 0.0625) / 3 = 0.375, so 3 scores count as 8.
    # Wilson for 0.8 of 8: weight 10.127965 / 8 = 1.265996; (0.8 + 0.632998 -+ sqrt(0.202559 + 0.400686)) / 2.265996.
    found = mean_interval([0.7, 0.8, 0.9])
    assert (found.low, found.high) == pytest.approx((0.289632, 0.975152), abs=1e-5)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([1.0], id="one"),
        pytest.param([0.4], id="one inside"),
        pytest.param([0.0, 0.0], id="all 0"),
        pytest.param([1.0] * 50, id="fifty ones"),
        pytest.param([0.9] * 8, id="all equal"),
        pytest.param([0.9] * 2000, id="very many"),
        pytest.param([0.0, 1.0], id="both ends"),
        pytest.param([1e-17, 1.0, 1.0 - 1e-16], id="nearly the ends"),
        pytest.param([0.1 + 0.2] * 3, id="not exact"),
    ],
)
def test_an_interval_holds_its_mean_lies_between_0_and_1_and_has_a_width(values: list[float]) -> None:
    found = mean_interval(values)
    assert 0.0 <= found.low <= found.mean <= found.high <= 1.0
    assert found.high - found.low > 0.0005
    json.dumps(asdict(found), allow_nan=False)


def test_scores_the_other_way_round_have_the_interval_the_other_way_round() -> None:
    values = [0.0, 0.3, 0.9, 1.0, 1.0]
    found, other = mean_interval(values), mean_interval([1 - value for value in values])
    assert (other.low, other.high) == pytest.approx((1 - found.high, 1 - found.low))


def test_a_single_score_says_next_to_nothing() -> None:
    assert mean_interval([1.0]).low < 0.2
    found = mean_interval([0.5])
    assert (found.low < 0.05, found.high > 0.95) == (True, True)


@pytest.mark.parametrize("score", [1.0, 0.8])
def test_more_of_the_same_scores_make_it_narrower(score: float) -> None:
    widths = [found.high - found.low for found in (mean_interval([score] * count) for count in range(1, 40))]
    assert widths == sorted(widths, reverse=True)


def test_the_interval_of_many_scores_is_that_of_the_normal_distribution() -> None:
    source = random.Random(11)
    values = [source.random() for _ in range(500)]
    half = 1.96 * statistics.stdev(values) / 500**0.5
    found = mean_interval(values)
    assert found.low == pytest.approx(found.mean - half, abs=half / 10)
    assert found.high == pytest.approx(found.mean + half, abs=half / 10)


# --- how often it holds the true mean ---


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("population", POPULATIONS)
def test_at_least_92_of_100_intervals_hold_the_true_mean(population: str, size: int) -> None:
    draw, mean = POPULATIONS[population]
    held, _ = coverage(ours, draw, mean, size, 1200)
    assert held >= 0.92


def test_the_simulation_sees_intervals_that_are_too_narrow() -> None:
    # The percentile bootstrap held 61 % at n = 5 (issue 8).
    draw, mean = POPULATIONS["80 % ones, else uniform"]
    held, _ = coverage(by_bootstrap, draw, mean, 5, 400)
    assert held == pytest.approx(0.61, abs=0.08)


@pytest.mark.parametrize(("size", "least_gain"), [(5, 1.4), (10, 2.2), (20, 2.8), (50, 3.5)])
def test_scores_close_together_have_a_far_narrower_interval_than_wilsons(size: int, least_gain: float) -> None:
    draw, mean = POPULATIONS["beta(18, 2)"]
    _, width = coverage(ours, draw, mean, size, 300)
    _, of_wilson = coverage(by_wilson, draw, mean, size, 300)
    assert of_wilson / width > least_gain


@pytest.mark.parametrize("size", SIZES)
def test_scores_at_the_ends_have_hardly_a_wider_one(size: int) -> None:
    draw, mean = POPULATIONS["80 % ones, else uniform"]
    _, width = coverage(ours, draw, mean, size, 300)
    _, of_wilson = coverage(by_wilson, draw, mean, size, 300)
    assert width < 1.15 * of_wilson
