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
class Ruling:
    """What the judge says of one statement or chunk.

    Attributes:
        verdict: None when no valid verdict came, also not when asked again.
        agreement: share of the votes that agree with the verdict, 0 to 1; a vote that was lost does not agree.
        failure: why the verdict is missing.
    """

    verdict: bool | None
    reason: str = ""
    kind: str = ""
    agreement: float = 1.0
    failure: EvaluationError | None = None

    @property
    def holds(self) -> bool:
        """A missing verdict never counts as supported."""
        return self.verdict is True

    def as_dict(self) -> dict[str, Any]:
        """Verdict as 1, 0 or null, with the reason; agreement only where votes differ."""
        entry: dict[str, Any] = {"verdict": None if self.verdict is None else int(self.verdict), "reason": self.reason}
        if self.kind:
            entry["kind"] = self.kind
        if self.agreement < 1.0:
            entry["agreement"] = round(self.agreement, 4)
        return entry


MISSING = Ruling(None, failure=EvaluationError(Reason.VERDICTS_MISSING))


def ask_by_id(
    session: JudgeSession,
    prompt: str,
    data: Mapping[str, object],
    key: str,
    items: Mapping[int, str],
    *,
    tries: int = 2,
) -> dict[int, Ruling]:
    """One ruling per item: those that the judge leaves out or answers with no valid verdict are asked about once more.

    Args:
        data: what the prompt needs besides the items.
        key: the name under which the items stand in the data.
        items: id -> text.
        tries: 1 when the items were asked about before.

    Raises:
        EvaluationError: the first call failed. A failing second call leaves its items without a verdict.
    """
    rulings: dict[int, Ruling] = {}
    for attempt in range(1, tries + 1):
        open_items = {number: text for number, text in items.items() if number not in rulings}
        if not open_items:
            break
        listed = [{"id": number, "text": text} for number, text in open_items.items()]
        try:
            reply = session.ask(prompt, {**data, key: listed}, BY_ID)
        except EvaluationError as error:
            if attempt == 1:
                raise
            return rulings | {number: Ruling(None, failure=error) for number in open_items}
        for item in reply.items:
            if item.id in open_items and item.id not in rulings:
                kind = item.kind if item.kind in UNSUPPORTED_KINDS and not item.verdict else ""
                rulings[item.id] = Ruling(item.verdict, item.reason, kind)
    return {number: rulings.get(number, MISSING) for number in items}


def judge_statements(
    session: JudgeSession, statements: Sequence[str], chunks: Sequence[str], *, batch: int = BATCH
) -> list[Ruling]:
    """Which statements the chunks support.

    Asked in batches, over windows of chunks, as often as the session votes, all in parallel.

    Args:
        statements: N texts.
        chunks: K texts, at least one.
        batch: statements per call; 1 asks about each alone.

    Returns:
        N rulings. A statement is supported when any window supports it.

    Raises:
        EvaluationError: when nothing could be judged at all.
    """
    numbered = dict(enumerate(statements, start=1))
    batches = [dict(list(numbered.items())[start : start + batch]) for start in range(0, len(numbered), batch)]

    def one_batch(items: dict[int, str]) -> dict[int, Ruling]:
        return over_windows(
            session,
            chunks,
            lambda window: ask_by_id(session, "faithfulness.verdicts", {"contexts": window}, "statements", items),
            list(items),
        )

    def one_vote() -> dict[int, Ruling]:
        return merge(session.gather([partial(one_batch, items) for items in batches]), batches)

    rulings = by_majority(session, one_vote, list(numbered))
    return [rulings[number] for number in numbered]


def merge(
    outcomes: Sequence[dict[int, Ruling] | EvaluationError], batches: Sequence[dict[int, str]]
) -> dict[int, Ruling]:
    """The batches' rulings together; a failed batch leaves its items without a verdict.

    Raises:
        EvaluationError: every batch failed.
    """
    raise_if_all_failed(outcomes)
    rulings: dict[int, Ruling] = {}
    for outcome, items in zip(outcomes, batches, strict=True):
        if isinstance(outcome, EvaluationError):
            rulings |= {number: Ruling(None, failure=outcome) for number in items}
        else:
            rulings |= outcome
    return rulings


def over_windows(
    session: JudgeSession,
    chunks: Sequence[str],
    ask: Callable[[list[str]], dict[int, Ruling]],
    ids: Sequence[int],
) -> dict[int, Ruling]:
    """One ruling per id over all windows: yes when any says yes, missing when none does and one is missing."""
    outcomes = session.over_windows(chunks, ask)
    raise_if_all_failed(outcomes)
    return {number: _any([_of(outcome, number) for outcome in outcomes]) for number in ids}


def _of(outcome: dict[int, Ruling] | EvaluationError, number: int) -> Ruling:
    return Ruling(None, failure=outcome) if isinstance(outcome, EvaluationError) else outcome[number]


def _any(rulings: Sequence[Ruling]) -> Ruling:
    order = {True: 0, None: 1, False: 2}
    return min(rulings, key=lambda ruling: order[ruling.verdict])


def by_majority(session: JudgeSession, vote: Callable[[], dict[int, Ruling]], ids: Sequence[int]) -> dict[int, Ruling]:
    """One ruling per id: that of the majority of the session's votes. A tie, after votes were lost, is not a yes.

    Raises:
        EvaluationError: every vote failed.
    """
    outcomes = session.gather([vote] * session.votes)
    raise_if_all_failed(outcomes)
    return {number: majority([_of(outcome, number) for outcome in outcomes]) for number in ids}


def majority(rulings: Sequence[Ruling]) -> Ruling:
    """The ruling that most of the given ones agree with, with its agreement."""
    cast = [ruling for ruling in rulings if ruling.verdict is not None]
    if not cast:
        return rulings[0]
    yes = sum(ruling.holds for ruling in cast)
    verdict = 2 * yes > len(cast)
    winner = next((ruling for ruling in cast if ruling.verdict is verdict), cast[0])
    return replace(winner, verdict=verdict, agreement=max(yes, len(cast) - yes) / len(rulings))


def raise_if_all_failed(outcomes: Sequence[object]) -> None:
    """Raises the first error when there is nothing but errors."""
    if outcomes and all(isinstance(outcome, EvaluationError) for outcome in outcomes):
        raise outcomes[0]  # type: ignore[misc]


def coverage(rulings: Sequence[Ruling]) -> dict[str, Any]:
    """How many verdicts were asked for and how many came; the mean agreement of the votes when they differ."""
    judged = [ruling for ruling in rulings if ruling.verdict is not None]
    result: dict[str, Any] = {"judged": len(judged), "of": len(rulings)}
    if judged and min(ruling.agreement for ruling in judged) < 1.0:
        result["agreement"] = round(sum(ruling.agreement for ruling in judged) / len(judged), 4)
    return result


def first_failure(rulings: Sequence[Ruling]) -> EvaluationError | None:
    """Why a verdict is missing, when one is."""
    return next((ruling.failure or MISSING.failure for ruling in rulings if ruling.verdict is None), None)


def outcome(
    metric: str, version: str, score: float, rulings: Sequence[Ruling], details: dict[str, Any], *, cut: bool = False
) -> MetricResult:
    """The result of a metric that scores rulings: partial when a verdict or a part of the list is missing.

    Args:
        details: the claims, parts or chunks; the coverage is added.
        cut: the judge's list of statements or parts was cut off.

    Raises:
        EvaluationError: not a single verdict came: 0 would be a score of the judge, not of the answer.
    """
    if rulings and all(ruling.verdict is None for ruling in rulings):
        raise rulings[0].failure or EvaluationError(Reason.VERDICTS_MISSING)
    details = {**details, "coverage": coverage(rulings) | {"list_cut": cut}}
    missing = first_failure(rulings) or (EvaluationError(Reason.JUDGE_UNPARSEABLE) if cut else None)
    if missing is not None:
        return MetricResult(metric, version, "partial", score, missing.reason, missing.values, details)
    return MetricResult(metric, version, "scored", score, details=details)


def listed(texts: Sequence[str], rulings: Sequence[Ruling]) -> list[dict[str, Any]]:
    """Texts with their rulings, numbered from 1, for the details."""
    pairs = enumerate(zip(texts, rulings, strict=True), start=1)
    return [{"id": number, "text": text, **ruling.as_dict()} for number, (text, ruling) in pairs]
