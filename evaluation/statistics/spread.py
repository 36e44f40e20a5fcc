"""How much the scores of a question asked several times differ, and how much of that is the judge's.

Inside a question scores differ because the bot answers otherwise and because the judge scores the same answer
otherwise. Where one answer was judged several times only the judge is left. Both are pooled variances within groups, as
in a one-way analysis of variance; what the judge does not account for is the bot's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean


@dataclass(frozen=True)
class Spread:
    """Standard deviations of a metric's scores within questions.

    Attributes:
        whole: over the repetitions of a question.
        judge: over the judgings of one answer, at most `whole`; None where no answer was judged twice.
        bot: what remains, in such a way that whole^2 = judge^2 + bot^2; None with it.
        questions: with at least two scores.
        answers: that were judged at least twice.
    """

    whole: float
    judge: float | None
    bot: float | None
    questions: int
    answers: int

    @property
    def judge_share(self) -> float | None:
        """The judge's share of the variance, 0 to 1; None where it is not known or nothing varies."""
        return None if self.judge is None or not self.whole else (self.judge / self.whole) ** 2


def spread(questions: Sequence[Sequence[float]], answers: Sequence[Sequence[float]]) -> Spread | None:
    """The spread of a metric, None when no question has two scores.

    Args:
        questions: the scores of each question's repetitions.
        answers: the scores that each answer got, of one question or another.
    """
    whole, repeated = _pooled(questions)
    if whole is None:
        return None
    judges, judged = _pooled(answers)
    if judges is None:
        return Spread(sqrt(whole), None, None, repeated, 0)
    judge = min(judges, whole)
    return Spread(sqrt(whole), sqrt(judge), sqrt(whole - judge), repeated, judged)


def _pooled(groups: Sequence[Sequence[float]]) -> tuple[float | None, int]:
    """The variance within groups of two values or more, and how many these are; None without one."""
    counting = [group for group in groups if len(group) > 1]
    freedom = sum(len(group) - 1 for group in counting)
    if not freedom:
        return None, 0
    squares = sum((value - fmean(group)) ** 2 for group in counting for value in group)
    return squares / freedom, len(counting)
