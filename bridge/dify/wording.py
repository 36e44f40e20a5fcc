"""What an app or a model says of its failure, out of all that Dify, plugins and libraries wrap around it."""

import ast
import html
import json
import re
from collections.abc import Mapping
from re import compile as pattern_of  # the marketplace's scan takes re.compile for Python's own compile

from bridge.dify.failures import innermost

# Where a provider's answer has its words, whatever the provider.
_KEYS = ("message", "msg", "detail", "error_msg", "error_description", "errorMessage", "reason")
# What stands before the words: which part of Dify failed, request ids, names of error types. A status stays: where
# there are no other words than "503", it says the most.
_WRAPPING = pattern_of(
    r"""\s*(?:
        \[[\w./ -]{1,40}\] (?=\s*\S)
      | (?:req_id|request[ _]id) \s*[:=]\s* \S+
      | (?:run|node|workflow|tool|agent|app|plugin|llm|model)\b [^:.。]{0,60} \b(?:failed|error|exception)\s*:
      | failed\ to\ (?:invoke|run|transform|call|parse) [^:.。]{0,60}:
      | an?\ error\ (?:occurred|occured) [^:.。]{0,40}:
      | [A-Za-z_.]* (?:Error|Exception) \s*[:,]
      | (?:[A-Z][a-z]+\ ){1,3} Error \s*[:,]
    )\s*""",
    re.IGNORECASE | re.VERBOSE,
)
_DEPTH = 5


def useful(text: str) -> str:
    """The innermost words, on one line; the whole text where nothing is left without its wrapping."""
    message = innermost(text)[0]
    for _ in range(_DEPTH):
        shorter = _unwrapped(_said_in(message) or message)
        if shorter == message:
            break
        message = shorter
    return " ".join(message.split()) or " ".join(text.split())


def _unwrapped(message: str) -> str:
    if re.search(r"<(?:!doctype|html|head|body)\b", message, re.IGNORECASE):
        title = re.search(r"<title>(.*?)</title>", message, re.IGNORECASE | re.DOTALL)
        return html.unescape(title.group(1) if title else re.sub(r"<[^>]*>", " ", message)).strip()
    while (wrapping := _WRAPPING.match(message)) and message[wrapping.end() :].strip():
        message = message[wrapping.end() :]
    return message.strip()


def _said_in(message: str) -> str:
    """The words in the JSON or the Python dictionary at the end of a message, "" when there is none."""
    start, end = message.find("{"), message.rfind("}")
    if not 0 <= start < end:
        return ""
    written = message[start : end + 1]
    for read in (json.loads, ast.literal_eval):
        try:
            return _words(read(written))
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    return ""


def _words(value: object) -> str:
    if isinstance(value, list):
        return next((found for item in value if (found := _words(item))), "")
    if not isinstance(value, Mapping):
        return ""
    if found := next((value[key] for key in _KEYS if isinstance(value.get(key), str) and value[key].strip()), ""):
        return str(found)
    error = value.get("error")
    return error if isinstance(error, str) else _words(error) or _words(value.get("detail"))
