"""Asking a judge: a prompt and data in, a reply of the right shape out, within a time budget."""

import json
import random
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from evaluation.errors import TRANSIENT, EvaluationError, JudgeError, Reason
from evaluation.judging.clock import Clock, spawn
from evaluation.judging.models import Charge, Embedder, Judge
from evaluation.judging.prompts import load_prompt, user_message
from evaluation.judging.replies import Item, Reply, Shape, read_reply
from evaluation.judging.usage import Usage
from evaluation.judging.windows import WINDOW_CHARACTERS, split_windows
from evaluation.languages import Language
from evaluation.reasoning import spoken
from evaluation.texts import Texts, is_refusal, load_texts

PARALLEL_CALLS = 8
TRIES = 4
# A call that has not answered within this, or within its share of what is left, is asked once more.
CALL_SECONDS, CALL_SHARE = 45.0, 3
# A provider may ask for a longer wait than a chat can bear; a later try would come too late anyway.
LONGEST_WAIT_SECONDS = 30.0
# An empty reply takes a token or two; one that took more was spent on thoughts, which the provider keeps to itself.
FEWEST_THINKING_TOKENS = 16
# How much of a wrong reply is shown to the judge when it is asked again.
SHOWN_CHARACTERS = 300
EMBEDDING_BATCH = 50


class Slots(Protocol):
    """A limit of calls at the same time, such as a threading.Semaphore."""

    def acquire(self, *, timeout: float) -> bool:
        """Whether there was a place within the seconds."""
        ...

    def release(self) -> None:
        """Gives it back."""
        ...


class JudgeSession:
    """One judge (and perhaps an embedding model) asked for one tool call.

    Holds what all its questions share: the language, the time budget, the limit of parallel calls, the usage.

    Args:
        judge: the chat model.
        embedder: the embedding model, or None.
        language: of prompts and results.
        budget: seconds that all calls together may take. A call that does not come back by then is left behind.
        votes: how often each verdict step is repeated; the majority counts.
        window_characters: how many characters of chunks go into one call.
        places: for calls at the same time, 8 by default; sessions that share them share the limit.
        clock: sessions that ask the same judge at the same time share it.
    """

    def __init__(
        self,
        judge: Judge,
        embedder: Embedder | None,
        language: Language,
        *,
        budget: float = 200.0,
        votes: int = 1,
        window_characters: int = WINDOW_CHARACTERS,
        clock: Clock | None = None,
        places: Slots | None = None,
    ) -> None:
        self.judge = judge
        self.embedder = embedder
        self.language = language
        self.votes = votes
        self.window_characters = window_characters
        self.usage = Usage()
        self.prompts_used: dict[str, int] = {}
        self._clock = clock or Clock()
        self._deadline = self._clock.now() + budget
        self._places: Slots = places or threading.Semaphore(PARALLEL_CALLS)
        self._shared: dict[Hashable, Future[Any]] = {}
        self._lock = threading.Lock()

    @property
    def texts(self) -> Texts:
        """The sentences in the session's language."""
        return load_texts(self.language)

    def ask[T: Item](self, prompt: str, data: Mapping[str, object], shape: Shape[T]) -> Reply[T]:
        """The judge's reply to a prompt about the data.

        A reply without the right shape is asked for once more, with what was wrong. So is one that was cut off, unless
        its elements have ids: then the caller asks for the missing ones alone.

        Raises:
            EvaluationError: judge_unparseable or judge_refused after the second try, or why the call failed.
        """
        return self.ask_for(prompt, data, (shape,))[0]

    def ask_for(self, prompt: str, data: Mapping[str, object], shapes: Sequence[Shape[Any]]) -> list[Reply[Any]]:
        """As `ask`, for a reply that holds several lists: one Reply per shape, in their order."""
        loaded = load_prompt(prompt, self.language)
        self.prompts_used[prompt] = loaded.version
        message = user_message(data)
        said = self._complete(loaded.system, message)
        first = _read_all(said.text.replace(loaded.form, ""), shapes)
        if first and not any(_must_be_whole(reply, shape) for reply, shape in zip(first, shapes, strict=True)):
            return first
        note = self.texts.get("ask_again.cut" if first else "ask_again.shape")
        shown = json.dumps(said.text[:SHOWN_CHARACTERS], ensure_ascii=False)
        second: list[Reply[Any]] = []
        try:
            said = self._complete(loaded.system, f"{message}\n\n{note} {shown}")
            second = _read_all(said.text.replace(loaded.form, ""), shapes)
        except EvaluationError:
            if not first:
                raise
        if not first and not second:
            raise said.no_reply()
        if not second or (any(reply.cut for reply in second) and _length(second) < _length(first)):
            return first
        return second

    def once[R](self, key: Hashable, call: Callable[[], R]) -> R:
        """What the call gives; metrics that need the same in one session share a single call, and its error."""
        with self._lock:
            future = self._shared.get(key)
            mine = future is None
            if future is None:
                future = self._shared[key] = Future()
        if mine:
            try:
                future.set_result(call())
            except BaseException as error:  # noqa: BLE001 - raised again below, for each that waits
                future.set_exception(error)
        result: R = future.result()
        return result

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector per text.

        Raises:
            EvaluationError: embedding_invalid when the model gives another number of vectors, or why the call failed.
        """
        embedder = self.embedder
        if embedder is None:
            raise EvaluationError(Reason.MODEL_NOT_SELECTED, field="embedding_model")

        def embed_batch(batch: Sequence[str]) -> list[list[float]]:
            self.usage.count(embedding_calls=1)
            vectors = self._with_retries(lambda: embedder.embed(batch))
            if len(vectors) != len(batch):
                raise EvaluationError(Reason.EMBEDDING_INVALID)
            return vectors

        batches = [texts[start : start + EMBEDDING_BATCH] for start in range(0, len(texts), EMBEDDING_BATCH)]
        vectors: list[list[float]] = []
        for outcome in self.gather([partial(embed_batch, batch) for batch in batches]):
            if isinstance(outcome, EvaluationError):
                raise outcome
            vectors += outcome
        return vectors

    def _complete(self, system: str, user: str) -> "_Said":
        self.usage.count(judge_calls=1, prompt_characters=len(system) + len(user))

        def call() -> tuple[_Said, Charge]:
            text, charge = self.judge.complete(system, user)
            return _Said(text, charge.completion_tokens), charge

        return self._with_retries(call)

    def _with_retries[R](self, call: Callable[[], tuple[R, Charge]]) -> R:
        """The call's result; a passing failure is tried again after a wait that doubles, with jitter.

        A few times, but while Dify itself is busy as long as there is time: it would be so for any other call.
        """
        attempt = 1
        while True:
            try:
                return self._bounded(call)
            except JudgeError as error:
                wait = error.retry_after if error.retry_after is not None else 2.0 ** (attempt - 1)
                wait = min(wait, LONGEST_WAIT_SECONDS) * random.uniform(1.0, 1.3)
                worth = error.reason in TRANSIENT and (attempt < TRIES or error.reason is Reason.DIFY_BUSY)
                if not worth or wait >= self.seconds_left():
                    raise
                self.usage.count(retries=1)
                self._clock.sleep(wait)
                attempt += 1

    def seconds_left(self) -> float:
        """What is left of the budget, never below 0."""
        return max(0.0, self._deadline - self._clock.now())

    def _bounded[R](self, call: Callable[[], tuple[R, Charge]]) -> R:
        """The call's result; one that does not come in time is asked for once more, and the first to answer counts.

        Raises:
            JudgeError: timeout when neither answers in time or the budget ends; then they are left behind, not joined.
        """
        running: list[Future[R]] = []
        for wait_for_place in (self.seconds_left(), 0.0):
            if self._acquire(wait_for_place):
                self.usage.count(retries=len(running))
                running.append(spawn(partial(self._call, call)))
            if running and (answered := self._first_answer(running)):
                return answered.result()
        raise JudgeError(Reason.TIMEOUT)

    def _acquire(self, seconds: float) -> bool:
        """Whether there was a place within the seconds and while there is time."""
        if not self._places.acquire(timeout=seconds):
            return False
        if self.seconds_left() > 0:
            return True
        self._places.release()
        return False

    def _call[R](self, call: Callable[[], tuple[R, Charge]]) -> R:
        begun = self._clock.now()
        try:
            result, charge = call()
        finally:
            self._clock.answered = self._clock.now()
            self._places.release()
        self._clock.slowest = max(self._clock.slowest, self._clock.now() - begun)
        self.usage.add(charge)
        return result

    def _first_answer[R](self, running: Sequence[Future[R]]) -> Future[R] | None:
        """Of calls that run, the first that succeeds, or the last when all fail; None when that takes too long.

        The time is counted anew whenever the judge answers another call: it may work on one after the other. It is
        never less than twice what an answer has taken before.
        """
        limit = max(min(CALL_SECONDS, self.seconds_left() / CALL_SHARE), 2 * self._clock.slowest)
        begun = self._clock.now()
        pending: set[Future[R]] = set(running)
        while True:
            heard = max(begun, self._clock.answered)
            patience = min(heard + limit - self._clock.now(), self.seconds_left())
            done, pending = wait(pending, timeout=max(0.0, patience), return_when=FIRST_COMPLETED)
            for future in done:
                if future.exception() is None or not pending:
                    return future
            if not done and max(begun, self._clock.answered) == heard:
                return None

    def gather[R](self, calls: Sequence[Callable[[], R]]) -> list[R | EvaluationError]:
        """Runs the calls at the same time; a failing one gives its error in its place.

        Each call is bounded by the session's budget through `ask` and `embed`, so this returns too.
        """
        if len(calls) == 1:
            return [_outcome(calls[0])]
        futures = [spawn(partial(_outcome, call)) for call in calls]
        return [future.result() for future in futures]

    def over_windows[R](
        self, pieces: Sequence[str], call: Callable[[list[str]], R], size: int | None = None
    ) -> list[R | EvaluationError]:
        """Calls for as many pieces at a time as the judge can read, all windows at once.

        When a call fails because it is too long, everything is asked again with windows of half the size, once.

        Args:
            pieces: texts in order; one longer than a window is split.
            call: takes the pieces of one window.
            size: characters of a window, where less than the session's.
        """
        windows = split_windows(pieces, min(size or self.window_characters, self.window_characters))
        outcomes = self.gather([partial(call, window) for window in windows])
        if any(
            isinstance(outcome, EvaluationError) and outcome.reason == Reason.CONTEXT_TOO_LONG for outcome in outcomes
        ):
            longest = max(sum(map(len, window)) for window in windows)
            windows = split_windows(pieces, max(1, -(-longest // 2)))
            outcomes = self.gather([partial(call, window) for window in windows])
        return outcomes


@dataclass(frozen=True)
class _Said:
    """What a judge said, and how many tokens it took to say it, 0 where that is not known."""

    text: str
    tokens: int = 0

    def no_reply(self) -> JudgeError:
        """Why it holds no reply of the right shape; one that was spent on reasoning is told as that."""
        found = spoken(self.text, "json")
        if is_refusal(found.text):
            return JudgeError(Reason.JUDGE_REFUSED)
        silent = not self.text.strip() and self.tokens >= FEWEST_THINKING_TOKENS
        if silent or found.unfinished or found.only_thought:
            return JudgeError(Reason.JUDGE_UNPARSEABLE, why="spent_on_thinking")
        return JudgeError(Reason.JUDGE_UNPARSEABLE)


def _read_all(text: str, shapes: Sequence[Shape[Any]]) -> list[Reply[Any]]:
    """One reply per shape, [] when one of them is not there."""
    replies = [read_reply(text, shape, wrapped=len(shapes) > 1) for shape in shapes]
    return [reply for reply in replies if reply is not None] if None not in replies else []


def _must_be_whole(reply: Reply[Any], shape: Shape[Any]) -> bool:
    return reply.cut and not (reply.items and (not shape.key or "id" in shape.item.model_fields))


def _length(replies: Sequence[Reply[Any]]) -> int:
    return sum(len(reply.items) for reply in replies)


def _outcome[R](call: Callable[[], R]) -> R | EvaluationError:
    try:
        return call()
    except EvaluationError as error:
        return error
