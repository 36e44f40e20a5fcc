"""Drafting questions from passages: written by the judge, checked in their final wording, thrown away with a reason.

Three calls a question: it is written; the judge is asked whether it is clear to one who sees nothing else; and whether
the reference answers it and the quotes bear it out (of a question that the documents are not to answer: whether the
nearest passages do answer it). Everything that can be told by code is told before the judge is asked.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any

from pydantic import BeforeValidator

from evaluation.errors import EvaluationError, Reason
from evaluation.golden.drafts.checks import Draft, Flaw, Known, bearing_quote, find_quote, flaw_of, not_told
from evaluation.golden.drafts.passages import Passage, nearest
from evaluation.golden.drafts.plan import Made, Plan, Task, documents_cell
from evaluation.golden.kept_rows import KeptRow, Source
from evaluation.golden.table import Row
from evaluation.judging.replies import Item, Judgement, Shape, Text
from evaluation.judging.session import JudgeSession
from evaluation.judging.usage import Usage
from evaluation.languages import Language
from evaluation.texts import load_texts

CALLS_EACH = 3
# Questions that are drafted at the same time.
PARALLEL_DRAFTS = 4
# A judge that gives nothing readable so often in a row will not begin to.
FAILURES_IN_A_ROW = 6
# How many of the questions that a passage has given are shown, so that it gives another one.
SHOWN_QUESTIONS = 8
# Passages that a question without an answer is held against.
NEAREST_PASSAGES = 5
# Of the drafts that were thrown away, so many are kept to be looked at.
SHOWN_FLAWED = 50
_UNREADABLE = frozenset({Reason.JUDGE_UNPARSEABLE, Reason.JUDGE_REFUSED, Reason.CONTEXT_TOO_LONG})


def _read_texts(value: object) -> tuple[str, ...]:
    items = value if isinstance(value, list) else [value]
    return tuple(item for item in items if isinstance(item, str))


class Written(Item):
    """{"question", "reference", "quote" or "quotes"}: a question as the judge wrote it."""

    question: Text
    reference: Text = ""
    quote: Text = ""
    quotes: Annotated[tuple[str, ...], BeforeValidator(_read_texts)] = ()


WRITTEN = Shape(Written)
VERDICT = Shape(Judgement)


@dataclass
class Progress:
    """How far a drafting is, over all calls that go on with it.

    Attributes:
        count: how many questions are wanted; mix: the kinds' weights.
        rows: the drafts that were not put into the table yet.
        dropped: how many were thrown away, by flaw.
        flawed: some of them, as {"question", "flaw", "why", "kind", "document"}.
        calls: judge calls.
        finished: all are made, or no passage is left to try.
    """

    count: int
    mix: Mapping[str, float]
    made: Made = field(default_factory=lambda: Made(Counter(), Counter(), Counter()))
    rows: list[KeptRow] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    flawed: list[dict[str, str]] = field(default_factory=list)
    calls: int = 0
    finished: bool = False


@dataclass(frozen=True)
class DraftRequest:
    """What one call asks for.

    Attributes:
        examples: questions of the user's, whose style is followed.
        max_calls: judge calls of this call.
    """

    examples: tuple[str, ...] = ()
    max_calls: int = 200
    parallel: int = PARALLEL_DRAFTS


class Sessions:
    """The judge's sessions, one for each language of the passages, with one account of what they use.

    Args:
        make: makes one; all of them end at the same time.
    """

    def __init__(self, make: Callable[[Language], JudgeSession]) -> None:
        self._make = make
        self._sessions: dict[Language, JudgeSession] = {}
        self.usage = Usage()

    def of(self, language: Language) -> JudgeSession:
        """The session for prompts in the language."""
        if language not in self._sessions:
            self._sessions[language] = self._make(language)
            self._sessions[language].usage = self.usage
        return self._sessions[language]


class _FlawedDraftError(Exception):
    def __init__(self, flaw: Flaw, draft: Draft, why: str = "") -> None:
        super().__init__(flaw.value)
        self.flaw, self.draft, self.why = flaw, draft, why


class Drafter:
    """Drafts for one call.

    Args:
        table: rows that are there already: none of the drafts asks what they ask.
        save: called with the progress after each round, so that what is paid for is not lost.
    """

    def __init__(
        self,
        request: DraftRequest,
        passages: Sequence[Passage],
        table: Sequence[KeptRow],
        sessions: Sessions,
        save: Callable[[Progress], None],
    ) -> None:
        self._request = request
        self._passages = passages
        self._sessions = sessions
        self._save = save
        self._known = Known()
        self._asked: dict[str, list[str]] = {}
        for example in request.examples:
            self._known.add(Draft(example, ""), "")
        for kept in table:
            self._take_in(kept)

    def run(self, progress: Progress) -> EvaluationError | None:
        """Goes on with a drafting as far as calls and time allow; `progress` is changed.

        Returns:
            Why it stopped before all were made: call_limit, timeout, fewer_drafts when no passage is left to try, or
            what is wrong with the judge. None when all are made.
        """
        for kept in progress.rows:
            self._take_in(kept)
        plan = Plan(self._passages, progress.count, progress.mix)
        failures, before, error = 0, progress.calls, None
        while error is None and progress.made.kept < progress.count:
            affordable = (self._request.max_calls - self._sessions.usage.judge_calls) // CALLS_EACH
            tasks = plan.next_tasks(progress.made, self._request.parallel)
            if not tasks:
                progress.finished = True
                return EvaluationError(Reason.FEWER_DRAFTS)
            if affordable < 1:
                return EvaluationError(Reason.CALL_LIMIT)
            tasks = tasks[:affordable]
            session = self._sessions.of(tasks[0].passages[0].language)
            time = session.seconds_left()
            outcomes = session.gather([partial(self._attempt, task) for task in tasks])
            for task, outcome in zip(tasks, outcomes, strict=True):
                if isinstance(outcome, EvaluationError) and outcome.reason not in _UNREADABLE:
                    # Nothing is known of the question; it is tried again.
                    error = error or outcome
                    continue
                failures = failures + 1 if isinstance(outcome, EvaluationError) else 0
                try:
                    self._record(progress, task, outcome)
                except EvaluationError as unknown:
                    # Whether it asks the same as another one can't be told without the embedding model.
                    error = error or unknown
                if failures >= FAILURES_IN_A_ROW and isinstance(outcome, EvaluationError):
                    error = error or outcome
            progress.calls = before + self._sessions.usage.judge_calls
            progress.finished = progress.made.kept >= progress.count
            self._save(progress)
            if not progress.finished and time - session.seconds_left() > session.seconds_left():
                # Another round like this one would not come to its end, and what it asks be paid for in vain.
                error = error or EvaluationError(Reason.TIMEOUT)
        return error

    def _record(self, progress: Progress, task: Task, outcome: "Draft | _FlawedDraftError | EvaluationError") -> None:
        progress.made.attempts[task.key] += 1
        if isinstance(outcome, EvaluationError):
            outcome = _FlawedDraftError(Flaw.JUDGE_FAILED, Draft("", ""), outcome.reason.value)
        if isinstance(outcome, Draft) and self._known.has(outcome, task.kind, self._embed(task)):
            # Here and not in the attempt: another one of the same round may have asked it.
            outcome = _FlawedDraftError(Flaw.DUPLICATE, outcome)
        if isinstance(outcome, _FlawedDraftError):
            progress.dropped[outcome.flaw.value] += 1
            flawed = {
                "question": outcome.draft.question,
                "flaw": outcome.flaw.value,
                "why": outcome.why,
                "kind": task.kind,
                "document": task.passages[0].document,
            }
            progress.flawed = [*progress.flawed, flawed][-SHOWN_FLAWED:]
            if outcome.draft.question:
                # Asked again in the same words, the passage would give the same.
                for passage in task.passages:
                    self._asked.setdefault(passage.text, []).append(outcome.draft.question)
            return
        kept = _kept(outcome, task)
        self._take_in(kept)
        progress.rows.append(kept)
        progress.made.kinds[task.kind] += 1
        progress.made.documents[task.passages[0].document] += 1

    def _take_in(self, kept: KeptRow) -> None:
        quotes = tuple(source.quote for source in kept.sources if source.quote)
        self._known.add(Draft(kept.row.question, kept.row.reference, quotes), kept.kind)
        for source in kept.sources:
            self._asked.setdefault(source.chunk, []).append(kept.row.question)

    def _embed(self, task: Task) -> Callable[[Sequence[str]], Sequence[Sequence[float]]] | None:
        session = self._sessions.of(task.passages[0].language)
        return session.embed if session.embedder else None

    def _attempt(self, task: Task) -> Draft | _FlawedDraftError:
        """A draft that holds, or one that does not with what is wrong.

        Raises:
            EvaluationError: the judge.
        """
        try:
            draft = self._write(task)
            flaw = flaw_of(draft, task.passages, task.kind)
            if flaw is None and self._known.has(draft, task.kind):
                # Before the judge is paid for it; once more when it is taken in, with all that is known then.
                flaw = Flaw.DUPLICATE
            if flaw is not None:
                return _FlawedDraftError(flaw, draft)
            self._judge(task, draft)
        except _FlawedDraftError as flawed:
            return flawed
        return draft

    def _write(self, task: Task) -> Draft:
        asked = [question for passage in task.passages for question in self._asked.get(passage.text, [])]
        data: dict[str, Any] = {
            "passages": [_shown(passage) for passage in task.passages],
            **({"asked": asked[-SHOWN_QUESTIONS:]} if asked else {}),
            **({"examples": list(self._request.examples)} if self._request.examples else {}),
        }
        reply = self._sessions.of(task.passages[0].language).ask(f"draft.{task.kind}", data, WRITTEN)
        if not reply.items:
            raise _FlawedDraftError(Flaw.INCOMPLETE, Draft("", ""))
        written = reply.items[0]
        question, reference = written.question.strip(), written.reference.strip()
        if task.kind == "unanswerable":
            return Draft(question, not_told(task.passages[0].language))
        draft = Draft(question, reference)
        return replace(draft, quotes=_quotes(draft, written.quotes or (written.quote,), task.passages))

    def _judge(self, task: Task, draft: Draft) -> None:
        """Raises _FlawedDraftError when the judge finds the draft unclear or its reference unfounded."""
        language = task.passages[0].language
        self._require(language, "draft.clear", {"question": draft.question}, True, Flaw.UNCLEAR, draft)
        if task.kind == "unanswerable":
            near = nearest(draft.question, self._passages, NEAREST_PASSAGES)
            passages = [*task.passages, *(passage for passage in near if passage not in task.passages)]
            data: dict[str, Any] = {"question": draft.question, "passages": [_shown(passage) for passage in passages]}
            self._require(language, "draft.answerable", data, False, Flaw.ANSWERABLE, draft)
        else:
            data = {"facts": "\n".join(draft.quotes), "question": draft.question, "answer": draft.reference}
            self._require(language, "draft.check", data, True, Flaw.NOT_SUPPORTED, draft)

    def _require(
        self, language: Language, prompt: str, data: Mapping[str, Any], verdict: bool, flaw: Flaw, draft: Draft
    ) -> None:
        reply = self._sessions.of(language).ask(prompt, data, VERDICT)
        if not reply.items:
            raise EvaluationError(Reason.JUDGE_UNPARSEABLE)
        if reply.items[0].verdict is not verdict:
            raise _FlawedDraftError(flaw, draft, reply.items[0].reason)


def _shown(passage: Passage) -> dict[str, str]:
    # Not the document's name: judges then ask where it is.
    return {**({"about": passage.about} if passage.about else {}), "text": passage.text}


def _quotes(draft: Draft, quotes: Sequence[str], passages: Sequence[Passage]) -> tuple[str, ...]:
    """The stretch of each passage that is quoted, "" where none is; the judge may have changed their order."""
    if len(passages) == 1:
        return (bearing_quote(quotes[0] if quotes else "", passages[0].text, draft),)
    return tuple(
        next((found for quote in quotes if (found := find_quote(quote, passage.text))), "") for passage in passages
    )


def _kept(draft: Draft, task: Task) -> KeptRow:
    sources = tuple(
        Source(passage.document, quote, passage.text)
        for passage, quote in zip(task.passages, draft.quotes or ("",) * len(task.passages), strict=True)
    )
    # Nothing is to be found where nothing is told.
    documents = documents_cell(passage.document for passage in task.passages) if draft.quotes else ""
    category = load_texts(task.passages[0].language).get(f"kept.kinds.{task.kind}")
    row = Row(draft.question, draft.reference, documents, category)
    return replace(KeptRow(row), state="draft", kind=task.kind, sources=sources)
