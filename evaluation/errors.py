"""Reason codes, and the errors that carry them.

EvaluationError            safe to show: a reason code and the values its sentence needs
└── JudgeError             the judge or the embedding model did not deliver
"""

import sys
import traceback
from enum import StrEnum
from pathlib import Path


class Reason(StrEnum):
    """Why a score is missing, partial or special. The codes are part of the tools' contract."""

    NONE = ""
    NO_QUESTION = "no_question"
    NO_ANSWER = "no_answer"
    ONLY_THOUGHTS = "only_thoughts"
    NO_REFERENCE = "no_reference"
    NO_CONTEXTS = "no_contexts"
    CONTEXTS_NOT_VISIBLE = "contexts_not_visible"
    CITATIONS_OFF = "citations_off"
    NO_CLAIMS = "no_claims"
    NONCOMMITTAL = "noncommittal"
    NOT_TEXT = "not_text"
    NOT_CONNECTED = "variable_not_connected"
    INPUT_TOO_LONG = "input_too_long"
    INVALID_SETTING = "invalid_setting"
    MODEL_NOT_SELECTED = "model_not_selected"
    JUDGE_UNPARSEABLE = "judge_unparseable"
    JUDGE_REFUSED = "judge_refused"
    VERDICTS_MISSING = "verdicts_missing"
    RATE_LIMITED = "rate_limited"
    QUOTA_EXHAUSTED = "quota_exhausted"
    DIFY_BUSY = "dify_busy"
    TIMEOUT = "timeout"
    CONTEXT_TOO_LONG = "context_too_long"
    MODEL_UNAVAILABLE = "model_unavailable"
    MODEL_UNAUTHORIZED = "model_unauthorized"
    MODEL_NOT_FOUND = "model_not_found"
    MODEL_ERROR = "model_error"
    EMBEDDING_INVALID = "embedding_invalid"
    INTERNAL_ERROR = "internal_error"
    NO_TABLE = "no_table"
    TABLE_UNREADABLE = "table_unreadable"
    NOT_FOUND = "not_found"
    AMBIGUOUS_MATCH = "ambiguous_match"
    NO_APP = "no_app"
    FILE_TOO_LARGE = "file_too_large"
    FILE_UNREACHABLE = "file_unreachable"
    TOO_MANY_ROWS = "too_many_rows"
    APP_NOT_SELECTED = "app_not_selected"
    APP_IS_SELF = "app_is_self"
    APP_NOT_FOUND = "app_not_found"
    APP_NOT_PUBLISHED = "app_not_published"
    APP_INPUT_MISSING = "app_input_missing"
    APP_KIND_UNSUPPORTED = "app_kind_unsupported"
    APP_FAILED = "app_failed"
    APP_QUOTA_EXHAUSTED = "app_quota_exhausted"
    APP_UNAVAILABLE = "app_unavailable"
    APP_EMPTY_ANSWER = "app_empty_answer"
    RUN_BUSY = "run_busy"
    RUN_NOT_FOUND = "run_not_found"
    RUN_UNREADABLE = "run_unreadable"
    RUN_CHANGED = "run_changed"
    RUN_TAKEN_OVER = "run_taken_over"
    STORAGE_FULL = "storage_full"
    STORAGE_FAILED = "storage_failed"
    NO_TABLE_NAME = "no_table_name"
    TABLE_NOT_FOUND = "table_not_found"
    TABLE_VERSION_NOT_FOUND = "table_version_not_found"
    TABLE_CONFLICT = "table_conflict"
    TABLE_BUSY = "table_busy"
    TABLE_TOO_LARGE = "table_too_large"
    TABLE_EMPTY = "table_empty"
    KEPT_BY_NEWER = "kept_by_newer_plugin"
    KNOWLEDGE_ADDRESS = "knowledge_address"
    KNOWLEDGE_UNAUTHORIZED = "knowledge_unauthorized"
    KNOWLEDGE_NOT_FOUND = "knowledge_not_found"
    KNOWLEDGE_UNAVAILABLE = "knowledge_unavailable"
    KNOWLEDGE_FAILED = "knowledge_failed"
    NO_PASSAGES = "no_passages"
    FEWER_DRAFTS = "fewer_drafts"
    CALL_LIMIT = "call_limit"
    DRAFTING_BUSY = "drafting_busy"


# Nobody can see what was retrieved, or whether anything was.
UNSEEN = frozenset({Reason.CONTEXTS_NOT_VISIBLE, Reason.CITATIONS_OFF})

# The same call may succeed a moment later.
TRANSIENT = frozenset({Reason.RATE_LIMITED, Reason.MODEL_UNAVAILABLE, Reason.DIFY_BUSY})

# The same call may succeed later although nobody changes anything.
PASSING = TRANSIENT | {
    Reason.TIMEOUT,
    Reason.JUDGE_UNPARSEABLE,
    Reason.VERDICTS_MISSING,
    Reason.INTERNAL_ERROR,
    Reason.FILE_UNREACHABLE,
    Reason.APP_UNAVAILABLE,
    Reason.RUN_BUSY,
    Reason.RUN_TAKEN_OVER,
    Reason.STORAGE_FAILED,
}


class EvaluationError(Exception):
    """Something that a user may be told.

    Args:
        reason: the code; the sentence for it stands in texts/<language>.toml under [reasons].
        values: what the sentence names, e.g. field="question".
    """

    def __init__(self, reason: Reason, **values: object) -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.values = values


class JudgeError(EvaluationError):
    """A model call that failed. `retry_after` is in seconds, when the provider named a time."""

    def __init__(self, reason: Reason, *, retry_after: float | None = None, **values: object) -> None:
        super().__init__(reason, **values)
        self.retry_after = retry_after


def whereabouts() -> str:
    """Type and place of the error being handled, for the log. Its text is left out: it may quote inputs or keys."""
    error = sys.exception()
    frames = traceback.extract_tb(error.__traceback__ if error else None)[-4:]
    places = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in reversed(frames)]
    return f"{type(error).__name__} in {' < '.join(places)}"
