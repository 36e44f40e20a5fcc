"""Judging some answers a second time, so that a run with repetitions shows how much of its spread is the judge's."""

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import wait
from functools import partial

from evaluation.errors import EvaluationError, whereabouts
from evaluation.judging.clock import Deadline, spawn
from evaluation.runs.records import RowRecord
from evaluation.runs.scorer import Scorer
from evaluation.runs.store import RunStore
from evaluation.statistics.spread import Spread, spread

logger = logging.getLogger(__name__)

# From so many questions on whose answer came twice, the judge's part is known without asking it again.
ENOUGH_QUESTIONS = 5
# Else the first answer of so many questions is judged again.
MOST_QUESTIONS = 10
# With less time left nothing is begun.
LEAST_SECONDS = 5.0


def to_judge_again(records: Sequence[RowRecord]) -> list[RowRecord]:
    """The answers to judge a second time: of none, when enough came twice and were judged each time."""
    twice = {rows[0].row for rows in _same_answers(records).values() if len(rows) > 1}
    tried = {record.row for record in records if record.again is not None}
    if len(twice | tried) >= ENOUGH_QUESTIONS:
        return []
    first = [record for record in records if record.repetition == 1 and record.state == "done" and record.judged]
    return [record for record in first if record.row not in twice | tried][: MOST_QUESTIONS - len(tried)]


def judge_again(records: Sequence[RowRecord], store: RunStore, number: int, scorer: Scorer, deadline: Deadline) -> None:
    """Judges the records a second time, all at once; those that are not through by the deadline stay as they are."""
    if deadline.left() < LEAST_SECONDS:
        return

    def judge(record: RowRecord) -> RowRecord | None:
        # In memory its chunks are shortened.
        whole = store.read_row(number, record.key)
        if whole is not None:
            scorer.score_again(whole, max(0.0, deadline.left()))
        return whole

    running = [(record, spawn(partial(judge, record))) for record in records]
    wait([future for _, future in running], timeout=max(0.0, deadline.left()))
    for record, future in running:
        if not future.done():
            continue
        try:
            if (whole := future.result()) is not None:
                store.write_row(number, whole)
                record.again, record.usage = whole.again, whole.usage
        except EvaluationError:
            raise
        except Exception:
            logger.exception("judging row %s again failed unexpectedly: %s", record.key, whereabouts())


def spreads(records: Sequence[RowRecord], metrics: Sequence[str]) -> dict[str, Spread]:
    """By metric, how much the scores of a question asked several times differ; {} where none was."""
    found = {metric: spread(_by_question(records, metric), _by_answer(records, metric)) for metric in metrics}
    return {metric: entry for metric, entry in found.items() if entry is not None}


def _by_question(records: Sequence[RowRecord], metric: str) -> list[list[float]]:
    grouped: dict[int, list[float]] = {}
    for record in records:
        if (score := record.score(metric)) is not None:
            grouped.setdefault(record.row, []).append(score)
    return list(grouped.values())


def _by_answer(records: Sequence[RowRecord], metric: str) -> list[list[float]]:
    groups = []
    for rows in _same_answers(records).values():
        once = [score for record in rows if (score := record.score(metric)) is not None]
        twice = [score for record in rows if (score := (record.again or {}).get(metric)) is not None]
        groups.append(once + twice)
    return groups


def _same_answers(records: Sequence[RowRecord]) -> Mapping[str, list[RowRecord]]:
    """The judged records by what their scores depend on: question, answer, chunks, reference."""
    grouped: dict[str, list[RowRecord]] = {}
    for record in records:
        if record.state == "done" and record.fingerprint:
            grouped.setdefault(record.fingerprint, []).append(record)
    return grouped
