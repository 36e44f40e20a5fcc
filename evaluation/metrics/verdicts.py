"""The verdict step that metrics share: statements against chunks, by id, over windows, by majority."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from evaluation.errors import EvaluationError, Reason
from evaluation.judging.replies import JudgementOf, Shape
from evaluation.judging.session import JudgeSession
from evaluation.result import MetricResult

# More statements in one call than this, and judges begin to skip ids and to run out of output tokens.
BATCH = 25
BY_ID = Shape(JudgementOf, "verdicts")
UNSUPPORTED_KINDS = ("contradicted", "absent")


@dataclass(frozen=True)
class Verdict:
    """What the judge says of one statement or chunk.

    Attributes:
        value: None when no valid verdict came, also not when asked again.
        agreement: share of the votes that agree with the verdict, 0 to 1; a vote that was lost does not agree.
        failure: why the verdict is missing.
    """

    value: bool | None
    reason: str = ""
    kind: str = ""
    agreement: float = 1.0
    failure: EvaluationError | None = None

    @property
    def holds(self) -> bool:
        """A missing verdict never counts as supported."""
        return self.value is True

    def as_dict(self) -> dict[str, Any]:
        """Verdict as 1, 0 or null, with the reason; agreement only where votes differ."""
        entry: dict[str, Any] = {"verdict": None if self.value is None else int(self.value), "reason": self.reason}
        if self.kind:
            entry["kind"] = self.kind
        if self.agreement < 1.0:
            entry["agreement"] = round(self.agreement, 4)
        return entry


MISSING = Verdict(None, failure=EvaluationError(Reason.VERDICTS_MISSING))


def ask_by_id(
    session: JudgeSession,
    prompt: str,
    data: Mapping[str, object],
    key: str,
    items: Mapping[int, str],
    *,
    tries: int = 2,
) -> dict[int, Verdict]:
    """One verdict per item: those that the judge leaves out or answers with no valid verdict are asked about once more.

    Args:
        data: what the prompt needs besides the items.
        key: the name under which the items stand in the data.
        items: id -> text.
        tries: 1 when the items were asked about before.

    Raises:
        EvaluationError: the first call failed. A failing second call leaves its items without a verdict.
    """
    verdicts: dict[int, Verdict] = {}
    for attempt in range(1, tries + 1):
        open_items = {number: text for number, text in items.items() if number not in verdicts}
        if not open_items:
            break
        listed = [{"id": number, "text": text} for number, text in open_items.items()]
        try:
            reply = session.ask(prompt, {**data, key: listed}, BY_ID)
        except EvaluationError as error:
            if attempt == 1:
                raise
            return verdicts | {number: Verdict(None, failure=error) for number in open_items}
        for item in reply.items:
            if item.id in open_items and item.id not in verdicts:
                kind = item.kind if item.kind in UNSUPPORTED_KINDS and not item.verdict else ""
                verdicts[item.id] = Verdict(item.verdict, item.reason, kind)
    return {number: verdicts.get(number, MISSING) for number in items}


def judge_statements(
    session: JudgeSession, statements: Sequence[str], chunks: Sequence[str], *, batch: int = BATCH
) -> list[Verdict]:
    """Which statements the chunks support.

    Asked in batches, over windows of chunks, as often as the session votes, all in parallel.

    Args:
        statements: N texts.
        chunks: K texts, at least one.
        batch: statements per call; 1 asks about each alone.

    Returns:
        N verdicts. A statement is supported when any window supports it.

    Raises:
        EvaluationError: when nothing could be judged at all.
    """
    numbered = dict(enumerate(statements, start=1))
    batches = [dict(list(numbered.items())[start : start + batch]) for start in range(0, len(numbered), batch)]

    def one_batch(items: dict[int, str]) -> dict[int, Verdict]:
        return over_windows(
            session,
            chunks,
            lambda window: ask_by_id(session, "faithfulness.verdicts", {"contexts": window}, "statements", items),
            list(items),
        )

    def one_vote() -> dict[int, Verdict]:
        return merge(session.gather([partial(one_batch, items) for items in batches]), batches)

    verdicts = by_majority(session, one_vote, list(numbered))
    return [verdicts[number] for number in numbered]


def merge(
    outcomes: Sequence[dict[int, Verdict] | EvaluationError], batches: Sequence[dict[int, str]]
) -> dict[int, Verdict]:
    """The batches' verdicts together; a failed batch leaves its items without a verdict.

    Raises:
        EvaluationError: every batch failed.
    """
    raise_if_all_failed(outcomes)
    verdicts: dict[int, Verdict] = {}
    for outcome, items in zip(outcomes, batches, strict=True):
        if isinstance(outcome, EvaluationError):
            verdicts |= {number: Verdict(None, failure=outcome) for number in items}
        else:
            verdicts |= outcome
    return verdicts


def over_windows(
    session: JudgeSession,
    chunks: Sequence[str],
    ask: Callable[[list[str]], dict[int, Verdict]],
    ids: Sequence[int],
) -> dict[int, Verdict]:
    """One verdict per id over all windows: yes when any says yes, missing when none does and one is missing."""
    outcomes = session.over_windows(chunks, ask)
    raise_if_all_failed(outcomes)
    return {number: _any([_of(outcome, number) for outcome in outcomes]) for number in ids}


def _of(outcome: dict[int, Verdict] | EvaluationError, number: int) -> Verdict:
    return Verdict(None, failure=outcome) if isinstance(outcome, EvaluationError) else outcome[number]


def _any(verdicts: Sequence[Verdict]) -> Verdict:
    order = {True: 0, None: 1, False: 2}
    return min(verdicts, key=lambda verdict: order[verdict.value])


def by_majority(
    session: JudgeSession, vote: Callable[[], dict[int, Verdict]], ids: Sequence[int]
) -> dict[int, Verdict]:
    """One verdict per id: that of the majority of the session's votes. A tie, after votes were lost, is not a yes.

    Raises:
        EvaluationError: every vote failed.
    """
    outcomes = session.gather([vote] * session.votes)
    raise_if_all_failed(outcomes)
    return {number: majority([_of(outcome, number) for outcome in outcomes]) for number in ids}


def majority(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict that most of the given ones agree with, with its agreement."""
    cast = [verdict for verdict in verdicts if verdict.value is not None]
    if not cast:
        return verdicts[0]
    yes = sum(verdict.holds for verdict in cast)
    holds = 2 * yes > len(cast)
    winner = next((verdict for verdict in cast if verdict.value is holds), cast[0])
    return replace(winner, value=holds, agreement=max(yes, len(cast) - yes) / len(verdicts))


def raise_if_all_failed(outcomes: Sequence[object]) -> None:
    """Raises the first error when there is nothing but errors."""
    if outcomes and all(isinstance(outcome, EvaluationError) for outcome in outcomes):
        raise outcomes[0]  # type: ignore[misc]


def coverage(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """How many verdicts were asked for and how many came; the mean agreement of the votes when they differ."""
    judged = [verdict for verdict in verdicts if verdict.value is not None]
    result: dict[str, Any] = {"judged": len(judged), "of": len(verdicts)}
    if judged and min(verdict.agreement for verdict in judged) < 1.0:
        result["agreement"] = round(sum(verdict.agreement for verdict in judged) / len(judged), 4)
    return result


def first_failure(verdicts: Sequence[Verdict]) -> EvaluationError | None:
    """Why a verdict is missing, when one is."""
    return next((verdict.failure or MISSING.failure for verdict in verdicts if verdict.value is None), None)


def outcome(
    metric: str, version: str, score: float, verdicts: Sequence[Verdict], details: dict[str, Any], *, cut: bool = False
) -> MetricResult:
    """The result of a metric that scores verdicts: partial when a verdict or a part of the list is missing.

    Args:
        details: the claims, parts or chunks; the coverage is added.
        cut: the judge's list of statements or parts was cut off.

    Raises:
        EvaluationError: not a single verdict came: 0 would be a score of the judge, not of the answer.
    """
    if verdicts and all(verdict.value is None for verdict in verdicts):
        raise verdicts[0].failure or EvaluationError(Reason.VERDICTS_MISSING)
    details = {**details, "coverage": coverage(verdicts) | {"list_cut": cut}}
    missing = first_failure(verdicts) or (EvaluationError(Reason.JUDGE_UNPARSEABLE) if cut else None)
    if missing is not None:
        return MetricResult(metric, version, "partial", score, missing.reason, missing.values, details)
    return MetricResult(metric, version, "scored", score, details=details)


def listed(texts: Sequence[str], verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """Texts with their verdicts, numbered from 1, for the details."""
    pairs = enumerate(zip(texts, verdicts, strict=True), start=1)
    return [{"id": number, "text": text, **verdict.as_dict()} for number, (text, verdict) in pairs]
