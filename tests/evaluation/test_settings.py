from collections.abc import Callable
from typing import Any

import pytest

from evaluation.errors import EvaluationError, Reason
from evaluation.settings import read_count, read_depth, read_number, read_threshold, read_votes


def refused(call: Callable[[], Any]) -> EvaluationError:
    with pytest.raises(EvaluationError) as caught:
        call()
    assert caught.value.reason is Reason.INVALID_SETTING
    return caught.value


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (None, None),
        ("", None),
        ("  ", None),
        (0, 0.0),
        (1, 1.0),
        (0.7, 0.7),
        ("0.7", 0.7),
        ("0,7", 0.7),
        ("０．７", 0.7),
        ("70%", 0.7),
        ("70 %", 0.7),
        ("７０　％", 0.7),
        ("７０％", 0.7),
        (" .5 ", 0.5),
        ("0,500", 0.5),
        ("+1.", 1.0),
    ],
)
def test_threshold_is_read(value: object, number: float | None) -> None:
    assert read_threshold(value) == number


@pytest.mark.parametrize(
    "value",
    [
        -0.1,
        1.1,
        70,
        "70",
        "1e-1",
        "nan",
        float("nan"),
        float("inf"),
        True,
        False,
        [],
        {},
        "high",
        "0.7.1",
        "-",
        "1,000",
        "300%",
    ],
)
def test_threshold_that_is_no_number_from_0_to_1_is_refused(value: object) -> None:
    error = refused(lambda: read_threshold(value))
    assert (error.values["field"], error.values["low"], error.values["high"]) == ("threshold", "0", "1")


def test_refused_value_is_quoted_shortly_and_only_when_it_is_text_or_a_number() -> None:
    assert refused(lambda: read_threshold("x" * 100)).values["value"] == "x" * 40
    assert refused(lambda: read_threshold(7)).values["value"] == "7"
    assert refused(lambda: read_threshold({"api_key": "secret"})).values["value"] == "…"


def test_number_has_its_own_limits() -> None:
    assert read_number("15", "x", 10, 20) == 15.0
    error = refused(lambda: read_number(21, "x", 10, 20.5))
    assert (error.values["low"], error.values["high"]) == ("10", "20.5")


@pytest.mark.parametrize(
    ("value", "number"),
    [("1,000", 1000), ("1,234.5", 1234.5), ("１，２３４，５６７", 1_234_567), ("1,5", 1.5), ("10,25", 10.25)],
)
def test_commas_part_thousands_or_decimals(value: str, number: float) -> None:
    assert read_number(value, "x", 0, 10_000_000) == number


@pytest.mark.parametrize("value", ["1,000,5", "1,,000", ",000", "1,0000,000", "300%", "3%"])
def test_what_is_no_number_of_things_is_refused(value: str) -> None:
    refused(lambda: read_number(value, "max_rows", 1, 2000))


@pytest.mark.parametrize(("value", "count"), [(None, 3), ("", 3), (1, 1), (5.0, 5), ("10", 10), ("５", 5)])
def test_count_is_read(value: object, count: int) -> None:
    assert read_count(value, "question_count", 3, 10) == count


@pytest.mark.parametrize("value", [0, 11, 1.5, "2.5", "x", True, [], "300%", "1,000", "1,5"])
def test_count_that_is_no_whole_number_in_range_is_refused(value: object) -> None:
    assert refused(lambda: read_count(value, "question_count", 3, 10)).values["high"] == "10"


@pytest.mark.parametrize(("value", "votes"), [(None, 1), ("", 1), (1, 1), ("3", 3), (5.0, 5)])
def test_votes_are_read(value: object, votes: int) -> None:
    assert read_votes(value) == votes


@pytest.mark.parametrize("value", [0, 2, 4, 6, 7, "two", True])
def test_other_numbers_of_votes_are_refused(value: object) -> None:
    assert refused(lambda: read_votes(value)).values["field"] == "votes"


@pytest.mark.parametrize(
    ("value", "depth"),
    [(None, "standard"), ("", "standard"), ("economy", "economy"), ("standard", "standard"), ("careful", "careful")],
)
def test_depth_is_read(value: object, depth: str) -> None:
    assert read_depth(value) == depth


@pytest.mark.parametrize("value", ["deep", "Economy", 1, [], {}, ["economy"]])
def test_other_depths_are_refused(value: object) -> None:
    assert refused(lambda: read_depth(value)).values["field"] == "depth"
