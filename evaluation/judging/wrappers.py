"""What judges wrap their reply in: the words of a tool call, or a name for it."""

import json
import re
from collections.abc import Iterator, Mapping

# A call needs a name beside its arguments.
_ARGUMENTS = ("arguments", "parameters", "input", "args", "kwargs", "tool_input", "tool_args")
_CALLED_BY = frozenset({"name", "function", "tool", "tool_name", "action", "recipient_name"})
_NAMES = (
    "response",
    "result",
    "output",
    "reply",
    "final",
    "final_answer",
    "json",
    "function",
    "function_call",
    "tool_call",
    "tool_calls",
    "action_input",
    "structured_output",
)
# These may hold what the judge was given too, as a text.
_NAMES_OF_OBJECTS = ("answer", "data", "evaluation", "judgement", "judgment", "call", "message")
# What it is called or called by when it is no reply yet.
_NO_REPLY = r"draft|example|sample|thought|think|reason|schema|template|guess|下書き|例|草稿|示例"
_SAID_OF_IT = ("name", "type", "kind", "role", "status", "title", "label", "channel", "action", "tool")
_DEEPEST = 5


def unwrapped(value: object, depth: int = _DEEPEST) -> Iterator[object]:
    """The value, then what it may wrap, the outermost first. A draft or an example is not looked into.

    A list wraps its only element: of several nobody knows which is meant.
    """
    yield value
    if depth == 0:
        return
    if isinstance(value, list):
        if len(value) == 1 and isinstance(value[0], Mapping):
            yield from unwrapped(value[0], depth - 1)
    elif isinstance(value, Mapping) and not _is_no_reply(value):
        for key in (*_NAMES, *(_ARGUMENTS if _CALLED_BY & value.keys() else ())):
            inner = value.get(key)
            if isinstance(inner, str):
                inner = _parsed(inner)
            if isinstance(inner, (Mapping, list)):
                yield from unwrapped(inner, depth - 1)
        for key in _NAMES_OF_OBJECTS:
            if isinstance(value.get(key), Mapping):
                yield from unwrapped(value[key], depth - 1)


def _is_no_reply(value: Mapping[str, object]) -> bool:
    said = (text for key in _SAID_OF_IT if isinstance(text := value.get(key), str))
    names = [*said, *(key for key in value if value[key] is True)]
    return any(re.search(_NO_REPLY, name, re.IGNORECASE) for name in names)


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
