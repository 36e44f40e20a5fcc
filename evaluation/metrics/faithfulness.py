"""Faithfulness: does the answer say only what the retrieved documents say?

1. The judge splits the answer into statements, each a single fact.
2. It decides for each whether the contexts support it.
3. score = supported statements / statements produced (Ragas 0.4.3). Unlike Ragas a statement whose verdict stays
   missing counts as not supported, and the result is partial.

No statements: not applicable. No contexts: 0.0 when there is any statement.
"""

from typing import Any

from evaluation.errors import EvaluationError, Reason
from evaluation.judge import JudgeSession
from evaluation.metrics.verdicts import BATCH, Ruling, coverage, first_failure, judge_statements
from evaluation.reply import Shape, Statement
from evaluation.result import MetricResult
from evaluation.sample import Sample
from evaluation.scoring import share_true
from evaluation.settings import Depth

NAME = "faithfulness"
VERSION = "1"
STATEMENTS = Shape(Statement, "statements", bare=True)


def evaluate(session: JudgeSession, sample: Sample, depth: Depth = "standard") -> MetricResult:
    """Scores the sample's answer against its contexts.

    Args:
        depth: "careful" asks about each statement alone, which weak judges do much better; the others about all at
            once.

    Raises:
        EvaluationError: nothing could be judged.
    """
    if not sample.question:
        raise EvaluationError(Reason.NO_QUESTION)
    if not sample.answer:
        raise EvaluationError(Reason.NO_ANSWER)
    statements, cut = split_statements(session, "faithfulness.statements", sample.question, sample.answer)
    if not statements:
        raise EvaluationError(Reason.NO_CLAIMS)
    if not sample.contexts.chunks:
        nothing = [Ruling(False) for _ in statements]
        return MetricResult(
            NAME, VERSION, "scored", 0.0, Reason.NO_CONTEXTS, details=_details(statements, nothing, cut)
        )
    batch = 1 if depth == "careful" else BATCH
    rulings = judge_statements(session, statements, sample.contexts.texts, batch=batch)
    missing = first_failure(rulings)
    score = share_true([ruling.holds for ruling in rulings])
    details = _details(statements, rulings, cut)
    if missing is not None or cut:
        reason = missing.reason if missing else Reason.JUDGE_UNPARSEABLE
        return MetricResult(NAME, VERSION, "partial", score, reason, missing.values if missing else {}, details)
    return MetricResult(NAME, VERSION, "scored", score, details=details)


def split_statements(session: JudgeSession, prompt: str, question: str, text: str) -> tuple[list[str], bool]:
    """The statements of a text, in order, each once; and whether the judge's list was cut off (what is there is kept).

    Raises:
        EvaluationError: a part of the text could not be split, so that statements would be missing unseen.
    """

    def split(window: list[str]) -> tuple[list[str], bool]:
        reply = session.ask(prompt, {"question": question, "answer": "".join(window)}, STATEMENTS)
        if not reply.items and reply.invalid:
            raise EvaluationError(Reason.JUDGE_UNPARSEABLE)
        return [item.text for item in reply.items], reply.cut or bool(reply.invalid)

    statements: list[str] = []
    incomplete = False
    for outcome in session.over_windows([text], split):
        if isinstance(outcome, EvaluationError):
            raise outcome
        statements += outcome[0]
        incomplete = incomplete or outcome[1]
    return list(dict.fromkeys(statements)), incomplete


def _details(statements: list[str], rulings: list[Ruling], cut: bool) -> dict[str, Any]:
    claims = [
        {"id": number, "text": text, **ruling.as_dict()}
        for number, (text, ruling) in enumerate(zip(statements, rulings, strict=True), start=1)
    ]
    return {"claims": claims, "coverage": coverage(rulings) | {"statements_cut": cut}}
