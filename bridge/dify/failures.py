"""Why a model call failed, from the text in which Dify reports it.

Every failure arrives as a bare exception whose text wraps the provider's message several times, under a status of
400 that is Dify's own. The real status and message are the innermost ones. Request ids around them may hold any
number, so nothing is searched for in the whole text.
"""

import json
import re
from collections.abc import Sequence

from bridge.dify.quota import is_used_up
from evaluation.errors import JudgeError, Reason

_OUTER = r"request failed with status code: (\d+) and respond with: (.*)\s*$"
# A status in the words of HTTP libraries, of the providers' own packages, and of Google's ("503 UNAVAILABLE. …").
_STATUS = (
    r"\b(?:status[ _]code|(?:error )?code|HTTP(?:Error)?)[^\w/]{0,3}([45]\d\d)\b"
    r"|\b([45]\d\d) (?:Client|Server) Error\b"
    r"|\b([45]\d\d) (?-i:[A-Z][A-Z_]{7,})\b"
)
_TOO_LONG = (
    r"context[ _](length|window|size|limit)|maximum (context|input|prompt)|(prompt|input) is too long"
    r"|too many tokens|range of input length|reduce the length|exceeds? the (model'?s? )?(max|context|available)"
)
# A limit per minute that a single request goes beyond: waiting does not help.
_TOO_LARGE = r"request too large|tokens must be reduced"
# The SDK's own error types, whose names its model plugins keep.
_BY_TYPE = {
    "InvokeRateLimitError": Reason.RATE_LIMITED,
    "InvokeServerUnavailableError": Reason.MODEL_UNAVAILABLE,
    "InvokeConnectionError": Reason.MODEL_UNAVAILABLE,
    "InvokeAuthorizationError": Reason.MODEL_UNAUTHORIZED,
    "CredentialsValidateFailedError": Reason.MODEL_UNAUTHORIZED,
}
_BY_STATUS = {
    401: Reason.MODEL_UNAUTHORIZED,
    402: Reason.QUOTA_EXHAUSTED,
    403: Reason.MODEL_UNAUTHORIZED,
    404: Reason.MODEL_NOT_FOUND,
    408: Reason.MODEL_UNAVAILABLE,
    413: Reason.CONTEXT_TOO_LONG,
    425: Reason.MODEL_UNAVAILABLE,
    429: Reason.RATE_LIMITED,
    501: Reason.MODEL_ERROR,
}
_NO_ACCESS = (
    r"not initialized|incorrect (api key|model credentials)|invalid api[ _]key|api key not valid|unauthorized"
    r"|authorization error|access ?denied|model is not configured"
)
# Dify's API itself, when its database has no connection left: these look-ups fail for no other reason.
_NO_CONNECTION = r"QueuePool limit of size|remaining connection slots are reserved|too many clients already"
_LOOKUPS = ("user not found", "tenant not found")
# Passing for a server, but not these: there is no such service, here or in this country.
_LASTING = r"certificate verify failed|(not available|unavailable|not supported) in your (country|region)"
# What tells more than a status of 400, under which some providers report everything.
_BY_CLEAR_WORDS = (
    (
        r"content[ _](management policy|filter)|data_?inspection_?failed|inappropriate content|responsible ai policy",
        Reason.JUDGE_REFUSED,
    ),
    (_NO_ACCESS, Reason.MODEL_UNAUTHORIZED),
    (
        r"(model|provider) \S+ (not exist|does not exist|not found)|(model|provider) not (found|exist)|no such model",
        Reason.MODEL_NOT_FOUND,
    ),
    (r"rate limit (reached|exceeded|error)|throttl|please wait before trying again", Reason.RATE_LIMITED),
)
# Where no status is named, how Dify, its SDK and the libraries under them begin or word their messages.
_BY_WORDS = (
    *_BY_CLEAR_WORDS,
    (r"rate limit|too many requests|quota|resource (has been )?exhausted", Reason.RATE_LIMITED),
    (r"exited without response|killed by timeout", Reason.TIMEOUT),
    # The SDK could not read what came: a vector with null where the model had NaN, half a response.
    (r"failed to parse response", Reason.JUDGE_UNPARSEABLE),
    (
        r"unavailable|overloaded|connection|timed? ?out|ended prematurely|remote end closed|expecting value",
        Reason.MODEL_UNAVAILABLE,
    ),
)
_SAMPLING = r"(temperature|top_p|top_k|presence_penalty|frequency_penalty|repetition_penalty|seed|response_format)"
_REFUSED_PARAMETER = (
    r"unsupported (?:value|parameter):? [`'\"](\w+)",
    r"[`'\"](\w+)[`'\"] (?:is|are) (?:not supported|unsupported|deprecated)",
    r"(?:parameter|argument):? [`'\"](\w+)[`'\"]",
    r"argument supplied: (\w+)",
    r"[`'\"](\w+)[`'\"] (?:was unexpected|may only be set)",
    rf"\b{_SAMPLING}\b.{{0,60}}?(?:not support|cannot|can't|must|should|only|invalid|not allowed|非法|不支持)",
    rf"\b(?:invalid|illegal|unsupported)\b.{{0,30}}?\b{_SAMPLING}\b",
)


def innermost(text: str) -> tuple[str, str]:
    """The provider's own message, and the error type that its model plugin gave it ("" when none is named)."""
    kind = ""
    outer = re.search(_OUTER, text, re.DOTALL)
    if outer and isinstance(body := _object(outer.group(2)), dict):
        text = str(body.get("message", text))
    inner = re.search(r"PluginInvokeError: (\{.*\})\s*$", text, re.DOTALL)
    if inner and isinstance(body := _object(inner.group(1)), dict):
        kind, text = str(body.get("error_type", "")), str(body.get("message", text))
    return text, kind


def _object(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None


def failure(text: str) -> JudgeError:
    """The failed call as an error with a reason code and, when the provider named one, the time to wait."""
    if is_busy(text):
        return JudgeError(Reason.DIFY_BUSY)
    message, kind = innermost(text)
    # Many providers escape what is not ASCII.
    message = re.sub(r"\\u([0-9a-fA-F]{4})", lambda match: chr(int(match.group(1), 16)), message)
    # What the provider echoes of our prompt, after its own words, must not decide.
    head = message[:600]
    match = re.search(_STATUS, head, re.IGNORECASE)
    status = int(next(filter(None, match.groups()))) if match else 0
    reason = _of_status(status, head) if status else _BY_TYPE.get(kind) or _of_words(head, _BY_WORDS)
    if is_used_up(message, head, limited=reason is Reason.RATE_LIMITED):
        return JudgeError(Reason.QUOTA_EXHAUSTED)
    too_long = _TOO_LARGE if reason is Reason.RATE_LIMITED else _TOO_LONG
    if reason in {Reason.MODEL_ERROR, Reason.MODEL_UNAVAILABLE, Reason.RATE_LIMITED} and _says(too_long, head):
        reason = Reason.CONTEXT_TOO_LONG
    elif reason is Reason.MODEL_UNAVAILABLE and _says(_LASTING, head):
        reason = Reason.MODEL_ERROR
    return JudgeError(reason, retry_after=retry_after(head))


def is_busy(text: str) -> bool:
    """Whether Dify itself could not serve the call for now, most often for want of a database connection.

    What a provider says in such words is another matter: "User not found." is a wrong API key at one of them.
    """
    message = innermost(text)[0]
    if _says(_NO_CONNECTION, message[:600]):
        return True
    outer = re.search(_OUTER, text, re.DOTALL)
    if outer is None or "PluginInvokeError" in text or message.startswith("[models]"):
        return False
    if int(outer.group(1)) < 500:
        return message.strip().rstrip(".").casefold() in _LOOKUPS
    # "Internal Server Error", or the page of a gateway in front of Dify.
    head = (outer.group(2) if message == text else message)[:600]
    return not re.search(_STATUS, head, re.IGNORECASE) and not _tells(head)


def _tells(head: str) -> bool:
    """Whether the words of a server error are about the model rather than about the server."""
    return _of_words(head, _BY_CLEAR_WORDS) is not Reason.MODEL_ERROR or is_used_up(head, head, limited=False)


def _of_status(status: int, message: str) -> Reason:
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return Reason.MODEL_UNAVAILABLE if status >= 500 else _of_words(message, _BY_CLEAR_WORDS)


def _of_words(message: str, words: Sequence[tuple[str, Reason]]) -> Reason:
    return next((reason for pattern, reason in words if _says(pattern, message)), Reason.MODEL_ERROR)


def _says(pattern: str, message: str) -> bool:
    return re.search(pattern, message, re.IGNORECASE) is not None


def retry_after(message: str) -> float | None:
    """Seconds that the provider asks to wait ("try again in 1m20s", "retry after 20 seconds", "in 250ms"), or None."""
    match = re.search(
        r"(?:try again|retry)(?: again)? (?:in|after) (?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)\s*(ms|s|sec|seconds?)\b)?",
        message,
        re.IGNORECASE,
    )
    if not match or not (match.group(1) or match.group(2)):
        return None
    seconds = float(match.group(2) or 0) / (1000 if match.group(3) == "ms" else 1)
    return 60.0 * int(match.group(1) or 0) + seconds


def refused_parameter(text: str) -> str:
    """The name of the model parameter that a failed call complains about, "" when it complains about something else."""
    head = innermost(text)[0][:600]
    matches = (re.search(pattern, head, re.IGNORECASE) for pattern in _REFUSED_PARAMETER)
    return next((match.group(1) for match in matches if match), "")
