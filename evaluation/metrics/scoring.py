"""The formulas, and nothing else: plain numbers and booleans in, a number out.

Sources: Ragas 0.4.3 (faithfulness, context recall, context precision, response relevancy, answer correctness).
Where we differ, the function says so.
"""

import math
from collections.abc import Sequence

from evaluation.errors import EvaluationError, Reason


def share_true(verdicts: Sequence[bool]) -> float:
    """Share of verdicts that are true: faithfulness over claims, context recall over parts of the reference.

    Args:
        verdicts: one per claim or part that was produced, at least one. A verdict that is missing is passed as False.

    Returns:
        0 to 1, higher is better.

    Raises:
        ValueError: no verdicts. Nothing to score is not a score; callers report it as not applicable.
    """
    if not verdicts:
        raise ValueError("share_true needs at least one verdict")
    return sum(verdicts) / len(verdicts)


def average_precision(relevant: Sequence[bool]) -> float:
    """Context precision: the mean of precision@k over the ranks k that hold a relevant chunk.

    Args:
        relevant: K verdicts, best rank first.

    Returns:
        0 to 1, higher is better; exactly 1.0 when every relevant chunk stands above every irrelevant one, exactly
        0.0 when none is relevant or K is 0. Unlike Ragas no 1e-10 is added to the denominator, so 1.0 is reached.
    """
    hit_ranks = [rank for rank, hit in enumerate(relevant, start=1) if hit]
    if not hit_ranks:
        return 0.0
    return sum(found / rank for found, rank in enumerate(hit_ranks, start=1)) / len(hit_ranks)


def cosines(one: Sequence[float], many: Sequence[Sequence[float]]) -> list[float]:
    """Cosine similarity of one vector with each of several.

    Args:
        one: D numbers.
        many: N vectors of D numbers each.

    Returns:
        N numbers, -1 to 1; exactly 1.0 for the same direction, whatever the rounding (within 1e-12).

    Raises:
        EvaluationError: embedding_invalid when a vector is empty, of another length, all zero, or holds NaN or infinity
            (where a cosine would be NaN, or a number without meaning).
    """
    anchor = _checked(one)
    others = [_checked(vector) for vector in many]
    if any(len(vector) != len(anchor) for vector in others):
        raise EvaluationError(Reason.EMBEDDING_INVALID)
    return [_cosine(anchor, vector) for vector in others]


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """Of two unit vectors."""
    similarity = math.sumprod(one, other)
    return 1.0 if similarity > 1.0 - 1e-12 else max(-1.0, similarity)


def _checked(values: Sequence[float]) -> list[float]:
    """The vector scaled to unit length. Scaling by the largest entry first keeps huge and tiny entries finite."""
    try:
        vector = [float(value) for value in values]
    except (TypeError, ValueError):
        raise EvaluationError(Reason.EMBEDDING_INVALID) from None
    if not all(map(math.isfinite, vector)) or not any(vector):
        raise EvaluationError(Reason.EMBEDDING_INVALID)
    largest = max(map(abs, vector))
    scaled = [value / largest for value in vector]
    length = math.sqrt(math.sumprod(scaled, scaled))
    return [value / length for value in scaled]


def answer_relevancy(similarities: Sequence[float], noncommittal: Sequence[bool]) -> float:
    """Mean similarity of the generated questions to the real one, 0 when the answer commits to nothing.

    Args:
        similarities: one per generated question, at least one; cosines (-1 to 1) or grades divided by 3 (0 to 1).
        noncommittal: one flag per generated question; the score is 0 only when all are set, as in Ragas.

    Returns:
        0 to 1. Unlike Ragas a negative mean becomes 0.
    """
    if not similarities:
        raise ValueError("answer_relevancy needs at least one generated question")
    if noncommittal and all(noncommittal):
        return 0.0
    return min(1.0, max(0.0, sum(similarities) / len(similarities)))


def f_score(true_positives: int, false_positives: int, false_negatives: int, beta: float = 1.0) -> float:
    """F-beta of statements found, made up and missed (Ragas 0.4.3's factual correctness inside answer correctness).

    Args:
        true_positives: statements of the answer that the reference makes too.
        false_positives: statements of the answer that the reference does not make.
        false_negatives: statements of the reference that the answer does not make.
        beta: above 1 weighs what is missed more, below 1 what is made up.

    Returns:
        0 to 1; 0.0 when nothing is found.
    """
    if not true_positives:
        return 0.0
    weight = beta * beta
    found = (1 + weight) * true_positives
    return found / (found + weight * false_negatives + false_positives)


def weighted_mean(values: Sequence[float], weights: Sequence[float]) -> float:
    """Mean of the values by weight. Weights need not add up to 1.

    Raises:
        ValueError: a negative weight, none above 0, or not one per value.
    """
    if len(values) != len(weights) or min(weights) < 0 or not sum(weights):
        raise ValueError("weights: one per value, none negative, not all zero")
    return sum(value * weight for value, weight in zip(values, weights, strict=True)) / sum(weights)
