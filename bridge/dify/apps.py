"""Other apps of the workspace, called through Dify's reverse invocation."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from bridge.dify.failures import failure, innermost
from bridge.dify.messages import sendable
from evaluation.errors import TRANSIENT, EvaluationError, Reason
from evaluation.runs.app_events import AppAnswer, read_events
from evaluation.runs.records import RowRecord

# How much of what an app says of its failure is shown.
MESSAGE_CHARACTERS = 200
# A workflow has no query: the question goes into its Start node's variable of one of these names.
QUESTION_INPUTS = ("question", "query", "input", "text")


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


def asker(apps: AppCalls, app_id: str, fixed_inputs: Mapping[str, Any]) -> Callable[[RowRecord], AppAnswer]:
    """Asks the app a row's question, whatever kind of app it is, and reads its stream to the end."""
    # Inputs of those names that mean something else in this app: a choice, a number, a short text.
    unfit: set[str] = set()

    def ask(record: RowRecord) -> AppAnswer:
        question, given = record.question, {**fixed_inputs, **record.inputs}
        refusals: dict[str, str] = {}
        while True:
            left_out = {*unfit, *refusals} - given.keys()
            guessed = {name: question for name in QUESTION_INPUTS if name not in {*given, *left_out}}
            try:
                stream = apps.chat.invoke(
                    app_id=app_id, response_mode="streaming", **sendable({"query": question, "inputs": guessed | given})
                )
                return read_events(stream)
            except EvaluationError as error:
                raise _of_stream(error) from error
            except Exception as error:
                text = str(error)
                refused = re.search(r"(\w+) in input form must be|(\w+) is required in input form", text)
                name = (refused.group(1) or refused.group(2)) if refused else ""
                if name in guessed:
                    refusals[name] = text
                    unfit.add(name)
                elif name in left_out:
                    # It is the question's place after all, and this question does not fit, or another one did not.
                    unfit.discard(name)
                    if name in refusals:
                        raise app_failure(refusals[name]) from error
                else:
                    raise app_failure(text) from error

    return ask


def _of_stream(error: EvaluationError) -> EvaluationError:
    """The app's own failure, told apart by what it says: its model may be busy."""
    if error.reason is not Reason.APP_FAILED:
        return error
    text = str(error.values["text"])
    shown = innermost(text)[0].strip()[:MESSAGE_CHARACTERS]
    return EvaluationError(Reason.APP_UNAVAILABLE if failure(text).reason in TRANSIENT else error.reason, text=shown)


def app_failure(text: str) -> EvaluationError:
    """Why a call of an app failed, from the text in which Dify reports it."""
    status = re.search(r"request failed with status code: (\d{3})", text[:200])
    message = innermost(text)[0].strip()
    if "app not found" in message:
        return EvaluationError(Reason.APP_NOT_FOUND)
    # A workflow that was never published is refused without a word.
    if (
        "unexpected app type" in message
        or "not published" in message
        or (status and status.group(1) == "400" and not message)
    ):
        return EvaluationError(Reason.APP_NOT_PUBLISHED)
    if "exited without response" in message:
        return EvaluationError(Reason.TIMEOUT)
    if status and (int(status.group(1)) >= 500 or status.group(1) == "429"):
        return EvaluationError(Reason.APP_UNAVAILABLE)
    shown = message[:MESSAGE_CHARACTERS]
    if re.search(r"is required in input form|missing (query|inputs?)", message):
        return EvaluationError(Reason.APP_INPUT_MISSING, text=shown)
    return EvaluationError(Reason.APP_FAILED, text=shown)
