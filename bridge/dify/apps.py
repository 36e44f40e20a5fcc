"""Other apps of the workspace, called through Dify's reverse invocation."""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from bridge.dify.failures import failure, innermost, is_busy
from bridge.dify.messages import sendable
from bridge.dify.places import watched
from bridge.dify.wording import useful
from evaluation.errors import TRANSIENT, EvaluationError, Reason
from evaluation.runs.app_events import AppAnswer, read_events
from evaluation.runs.records import RowRecord

# How much of what an app says of its failure is shown.
MESSAGE_CHARACTERS = 200
# A workflow has no query: the question goes into its Start node's variable of one of these names.
QUESTION_INPUTS = ("question", "query", "input", "text")
# Dify waits half a minute for a connection to its database before it fails; what it refuses for good comes at once.
QUICK_SECONDS = 5.0


class AppCalls(Protocol):
    """What is used of a dify_plugin session's `app`."""

    chat: Any


def read_app(value: object, own_app_id: str | None) -> tuple[str, dict[str, Any]]:
    """The id and the fixed inputs of the app that a selector names.

    Raises:
        EvaluationError: app_not_selected, or app_is_self: an app that evaluates itself would call itself without end.
    """
    app_id = value.get("app_id") if isinstance(value, Mapping) else None
    if not isinstance(app_id, str) or not app_id:
        raise EvaluationError(Reason.APP_NOT_SELECTED)
    if app_id == own_app_id:
        raise EvaluationError(Reason.APP_IS_SELF)
    inputs = value.get("inputs") if isinstance(value, Mapping) else None
    return app_id, dict(inputs) if isinstance(inputs, Mapping) else {}


def asker(
    apps: AppCalls, app_id: str, fixed_inputs: Mapping[str, Any], calm: Callable[[], bool] = lambda: True
) -> Callable[[RowRecord], AppAnswer]:
    """Asks the app a row's question, whatever kind of app it is, and reads its stream to the end.

    Args:
        calm: whether Dify serves its other calls; while it doesn't, nothing is concluded from its server errors.
    """
    return _Asker(apps, app_id, fixed_inputs, calm)


class _Asker:
    def __init__(self, apps: AppCalls, app_id: str, fixed_inputs: Mapping[str, Any], calm: Callable[[], bool]) -> None:
        self._apps = apps
        self._app_id = app_id
        self._fixed_inputs = fixed_inputs
        self._calm = calm
        # Inputs of those names that mean something else in this app: a choice, a number, a short text.
        self._unfit: set[str] = set()
        # Whether the app has answered anything, be it that it refuses.
        self._known = False
        self._suspected: set[str] = set()

    def __call__(self, record: RowRecord) -> AppAnswer:
        with watched():
            return self._ask(record)

    def _ask(self, record: RowRecord) -> AppAnswer:
        given = {**self._fixed_inputs, **record.inputs}
        refusals: dict[str, str] = {}
        while True:
            left_out = {*self._unfit, *refusals} - given.keys()
            guessed = {name: record.question for name in QUESTION_INPUTS if name not in {*given, *left_out}}
            started = time.monotonic()
            try:
                return self._invoke(record.question, guessed | given)
            except EvaluationError:
                raise
            except Exception as error:
                text = str(error)
                refused = re.search(r"(\w+) in input form must be|(\w+) is required in input form", text)
                name = (refused.group(1) or refused.group(2)) if refused else ""
                if name in guessed:
                    refusals[name] = text
                    self._unfit.add(name)
                elif name in left_out:
                    # It is the question's place after all, and this question does not fit, or another one did not.
                    self._unfit.discard(name)
                    if name in refusals:
                        raise app_failure(refusals[name]) from error
                elif self._is_for_now(text, time.monotonic() - started):
                    raise EvaluationError(Reason.DIFY_BUSY) from error
                elif _is_bare(text) and not self._known:
                    return self._ask_otherwise(record, guessed | given)
                else:
                    raise app_failure(text) from error

    def _invoke(self, query: str, inputs: Mapping[str, Any]) -> AppAnswer:
        """One call. Raises EvaluationError for what the app itself says, a bare exception for what Dify says."""
        stream = self._apps.chat.invoke(
            app_id=self._app_id, response_mode="streaming", **sendable({"query": query, "inputs": inputs})
        )
        try:
            return read_events(self._watched(stream))
        except EvaluationError as error:
            raise _of_stream(error) from error
        except Exception as error:
            self._known = self._known or not _may_be_for_now(str(error))
            raise

    def _watched(self, stream: Iterable[object]) -> Iterator[object]:
        for event in stream:
            self._known = True
            yield event

    def _is_for_now(self, text: str, seconds: float) -> bool:
        """Whether Dify will answer otherwise once it has a free connection: it looks for one for a while."""
        return _may_be_for_now(text) and (self._known or seconds >= QUICK_SECONDS)

    def _ask_otherwise(self, record: RowRecord, inputs: Mapping[str, Any]) -> AppAnswer:
        """What to make of a server error that came at once, from an app that has not yet answered anything.

        Dify runs no text generation app from a plugin: it misses the query even where there is one, and fails with a
        bare 500. A chat is told by refusing an empty query, a workflow by running without one: both are no such app.

        Raises:
            EvaluationError: app_unavailable, once; app_kind_unsupported when the same row gets no further again.
        """
        calm = self._calm()
        if calm and record.key in self._suspected:
            raise EvaluationError(Reason.APP_KIND_UNSUPPORTED)
        try:
            return self._invoke("", inputs)
        except EvaluationError:
            raise
        except Exception as error:
            if self._known or not calm:
                raise EvaluationError(Reason.DIFY_BUSY) from error
            self._suspected.add(record.key)
            raise EvaluationError(Reason.APP_UNAVAILABLE) from error


def _may_be_for_now(text: str) -> bool:
    """Whether Dify says so too when it found no connection in time: it takes an app for unknown then."""
    return is_busy(text) or "app not found" in innermost(text)[0]


def _is_bare(text: str) -> bool:
    """Whether Dify reports a server error without a word of its own."""
    return is_busy(text) and "status code: 5" in text[:200]


def _of_stream(error: EvaluationError) -> EvaluationError:
    """The app's own failure, told apart by what it says: its model may be busy."""
    if error.reason is not Reason.APP_FAILED:
        return error
    text = str(error.values["text"])
    shown = useful(text)[:MESSAGE_CHARACTERS]
    reason = failure(text).reason
    if reason is Reason.DIFY_BUSY:
        return EvaluationError(reason)
    if reason is Reason.QUOTA_EXHAUSTED:
        return EvaluationError(Reason.APP_QUOTA_EXHAUSTED, text=shown)
    return EvaluationError(Reason.APP_UNAVAILABLE if reason in TRANSIENT else error.reason, text=shown)


def app_failure(text: str) -> EvaluationError:
    """Why a call of an app failed, from the text in which Dify reports it."""
    found = re.search(r"request failed with status code: (\d{3})", text[:200])
    status = int(found.group(1)) if found else 0
    message = innermost(text)[0].strip()
    reason = _reason_of(status, message, text)
    if reason in {Reason.APP_FAILED, Reason.APP_INPUT_MISSING}:
        return EvaluationError(reason, text=useful(message)[:MESSAGE_CHARACTERS])
    return EvaluationError(reason)


def _reason_of(status: int, message: str, text: str) -> Reason:
    if is_busy(text) and not _is_bare(text):
        return Reason.DIFY_BUSY
    if "app not found" in message:
        return Reason.APP_NOT_FOUND
    # A workflow that was never published is refused without a word.
    if "unexpected app type" in message or "not published" in message or (status == 400 and not message):
        return Reason.APP_NOT_PUBLISHED
    if "exited without response" in message:
        return Reason.TIMEOUT
    if status >= 500 or status == 429:
        return Reason.APP_UNAVAILABLE
    missing = re.search(r"is required in input form|missing (query|inputs?)", message)
    return Reason.APP_INPUT_MISSING if missing else Reason.APP_FAILED
