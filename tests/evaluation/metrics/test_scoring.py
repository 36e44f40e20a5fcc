import math
from typing import Any

import pytest

from evaluation.errors import EvaluationError, Reason
from evaluation.metrics.scoring import answer_relevancy, average_precision, cosines, share_true


@pytest.mark.parametrize(
    ("relevant", "score"),
    [
        ([], 0.0),
        ([0, 0, 0], 0.0),
        ([1, 0, 0], 1.0),
        ([0, 1, 0], 1 / 2),
        ([0, 0, 1], 1 / 3),
        ([1, 0, 1], (1 / 1 + 2 / 3) / 2),
        ([1, 1, 1], 1.0),
    ],
)
def test_average_precision_by_hand(relevant: list[int], score: float) -> None:
    assert average_precision([bool(value) for value in relevant]) == score


@pytest.mark.parametrize("size", [1, 7, 50])
def test_average_precision_is_exactly_one_when_all_are_relevant(size: int) -> None:
    assert average_precision([True] * size) == 1.0


def test_nothing_to_share_is_no_score() -> None:
    with pytest.raises(ValueError, match="at least one"):
        share_true([])
    with pytest.raises(ValueError, match="at least one"):
        answer_relevancy([], [])


@pytest.mark.parametrize(
    "vectors",
    [
        ([], [[]]),
        ([1.0, 0.0], [[0.0, 0.0]]),
        ([0.0, 0.0], [[1.0, 0.0]]),
        ([1.0, 0.0], [[math.nan, 1.0]]),
        ([1.0, 0.0], [[math.inf, 1.0]]),
        ([1.0, 0.0], [[1.0, 0.0, 0.0]]),
        ([1.0, 0.0], [["x", 1.0]]),
        ([1.0, 0.0], [None]),
        ([1.0, 0.0], [[[1.0], [0.0]]]),
    ],
)
def test_vectors_without_a_meaningful_cosine_are_refused(vectors: tuple[Any, Any]) -> None:
    with pytest.raises(EvaluationError) as caught:
        cosines(*vectors)
    assert caught.value.reason is Reason.EMBEDDING_INVALID


def test_cosine_of_huge_and_tiny_vectors_is_finite_and_bounded() -> None:
    assert cosines([1e200, 1e200], [[1e-200, 1e-200], [5e200, 5e200]]) == pytest.approx([1.0, 1.0], abs=1e-12)


def test_relevancy_is_clamped_and_zero_only_when_all_are_noncommittal() -> None:
    assert answer_relevancy([-1.0, -0.5], [False, False]) == 0.0
    assert answer_relevancy([1.0, 1.0, 0.4], [True, False, False]) == pytest.approx(0.8)
    assert answer_relevancy([1.0, 1.0, 0.4], [True, True, True]) == 0.0
