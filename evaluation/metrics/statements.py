"""Splitting a text into statements, which several metrics begin with."""

from evaluation.errors import EvaluationError, Reason
from evaluation.judging.replies import Shape, Statement
from evaluation.judging.session import JudgeSession

STATEMENTS = Shape(Statement, "statements", bare=True)
# The statements of a text are about as long as the text, and a judge's reply is shorter than what it can read.
WINDOW_CHARACTERS = 10_000


def answer_statements(session: JudgeSession, question: str, answer: str) -> tuple[list[str], bool]:
    """The statements of an answer; see `_split`. Metrics of one session share them."""
    return session.once(
        ("statements", "answer", answer), lambda: _split(session, "faithfulness.statements", question, "answer", answer)
    )


def reference_statements(session: JudgeSession, question: str, reference: str) -> tuple[list[str], bool]:
    """The statements of a reference; one that has none counts as a single statement."""
    statements, cut = session.once(
        ("statements", "reference", reference),
        lambda: _split(session, "correctness.statements", question, "reference", reference),
    )
    return statements or [reference], cut


def _split(session: JudgeSession, prompt: str, question: str, name: str, text: str) -> tuple[list[str], bool]:
    """The statements of a text, in order, each once; and whether the judge's list was cut off (what is there is kept).

    Raises:
        EvaluationError: a part of the text could not be split, so that statements would be missing unseen.
    """

    def split(window: list[str]) -> tuple[list[str], bool]:
        reply = session.ask(prompt, {"question": question, name: "".join(window)}, STATEMENTS)
        if not reply.items and reply.invalid:
            raise EvaluationError(Reason.JUDGE_UNPARSEABLE)
        return [item.text for item in reply.items], reply.cut or bool(reply.invalid)

    statements: list[str] = []
    incomplete = False
    for outcome in session.over_windows([text], split, WINDOW_CHARACTERS):
        if isinstance(outcome, EvaluationError):
            raise outcome
        statements += outcome[0]
        incomplete = incomplete or outcome[1]
    return list(dict.fromkeys(statements)), incomplete
