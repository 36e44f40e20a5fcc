"""What is judged, read from every shape in which Dify hands it over."""

import json
import re
import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from evaluation.errors import EvaluationError, Reason
from evaluation.pictures import without_pictures
from evaluation.reasoning import Spoken, spoken

# Longer than anything a chatbot answers; beyond it the input is refused in plain words and not cut.
MAX_TEXT_CHARACTERS = 100_000
MAX_CONTEXTS_CHARACTERS = 2_000_000

# Output names of Dify's nodes and of our tools. A text field that names one and nothing else was never filled in:
# Dify leaves the variable's name as text when it does not exist.
_OUTPUT_NAMES = frozenset(
    [
        "answer",
        "body",
        "class_name",
        "context",
        "contexts",
        "conversation_id",
        "details",
        "dialogue_count",
        "documents",
        "files",
        "found",
        "instruction",
        "matched_question",
        "output",
        "outputs",
        "passed",
        "question",
        "query",
        "reason",
        "reasoning_content",
        "reference",
        "result",
        "score",
        "score_text",
        "similarity",
        "status",
        "status_code",
        "structured_output",
        "summary",
        "text",
        "usage",
        "user_id",
        "workflow_run_id",
    ]
)
_SYSTEM_NAMES = frozenset(
    [
        "app_id",
        "conversation_id",
        "dialogue_count",
        "files",
        "query",
        "timestamp",
        "user_id",
        "workflow_id",
        "workflow_run_id",
    ]
)
# Inputs that are written by people or bots, about anything.
_PROSE = frozenset({"question", "answer", "reference"})
# Nodes that templates give names instead of numbers, and what these nodes give out.
_NAMED_NODES = r"(?:llm|kr|knowledge(?:[_-]?retrieval)?)(?:[_-]?\d+)?"
_NAMED_OUTPUTS = frozenset({"text", "result", "structured_output", "reasoning_content"})
_VARIABLE = r"(?:\{\{#)?(?P<node>[\w-]+)\.(?:[\w-]+\.)*(?P<output>[A-Za-z_]\w*)(?:#\}\})?"
# At the ends of a chunk it makes no difference: white space of any script, and what has no width.
_BLANK = string.whitespace + "\u00a0\u3000\u2028\u2029\u200b\ufeff"
_TEXT_KEYS = ("content", "text", "page_content")
_LIST_KEYS = ("result", "contexts", "retriever_resources", "documents", "records")
# An item of Dify's Knowledge API: the text lies in it.
_SEGMENT = "segment"


@dataclass(frozen=True)
class Chunk:
    """One retrieved text, its document's title ("" when unknown), and every name and id that tells the document."""

    text: str
    title: str = ""
    documents: tuple[str, ...] = ()


@dataclass(frozen=True)
class Contexts:
    """The retrieved chunks, best rank first.

    Attributes:
        chunks: those with text, each once, at its first rank.
        dropped: items left out because they hold no text.
        duplicates: items left out because the same text stands at a better rank.
        hidden: why it can't be seen what was retrieved, if anything was; "" when it can. No chunks and not hidden: the
            retrieval found nothing.
    """

    chunks: tuple[Chunk, ...] = ()
    dropped: int = 0
    duplicates: int = 0
    hidden: Reason = Reason.NONE

    @property
    def texts(self) -> list[str]:
        return [chunk.text for chunk in self.chunks]


@dataclass(frozen=True)
class Sample:
    """One answer with what is needed to judge it. Texts are "" when they were not given.

    Attributes:
        answer: what the bot says; what it only thought aloud is no part of it.
        only_thought: there is no answer because the bot did nothing but think.
    """

    question: str = ""
    answer: str = ""
    reference: str = ""
    contexts: Contexts = field(default_factory=Contexts)
    only_thought: bool = False


def read_text(value: object, name: str, limit: int = MAX_TEXT_CHARACTERS, *, strip: bool = True) -> str:
    """A text input; "" when there is none.

    Args:
        value: what the tool was given: a text, None, [None] or [""] (an unset variable), or something that is no text.
        name: the parameter's name, for the message.
        limit: characters; a longer text is refused, not cut.
        strip: without white space at its ends; a table needs the tabs there.

    Raises:
        EvaluationError: not_text (a file, a number, an object), variable_not_connected (the bare name of a
            variable), or input_too_long.
    """
    if value is None or (isinstance(value, (list, tuple)) and all(item is None or item == "" for item in value)):
        return ""
    if isinstance(value, (list, tuple)) and len(value) == 1:
        value = value[0]
    if not isinstance(value, str):
        raise EvaluationError(Reason.NOT_TEXT, field=name)
    if name in _PROSE:
        value = without_pictures(value)
    _check(value.strip(), name, limit)
    return value.strip() if strip else value


def read_answer(value: object) -> Spoken:
    """The `answer` input: what the bot says in it.

    Raises:
        EvaluationError: as read_text.
    """
    said = spoken(read_text(value, "answer"))
    return replace(said, text=said.text.strip())


def _check(text: str, name: str, limit: int) -> None:
    if is_variable_name(text, name):
        raise EvaluationError(Reason.NOT_CONNECTED, field=name, text=text)
    if len(text) > limit:
        raise EvaluationError(Reason.INPUT_TOO_LONG, field=name, characters=len(text), limit=limit)


def is_variable_name(text: str, field: str) -> bool:
    """Whether a text is nothing but the name of a Dify variable that was never filled in ("{{#llm.text#}}").

    Args:
        field: whose text it is. "config.text" may well be asked about, and be the answer: there only a name counts
            that no text has but one that Dify left. Elsewhere any name of a node's output does.
    """
    match = re.fullmatch(_VARIABLE, text.strip(), re.ASCII) if len(text) < 200 else None
    if match is None:
        return False
    node, output = match["node"], match["output"]
    if (
        text.lstrip().startswith("{{#")
        or (node == "sys" and output in _SYSTEM_NAMES)
        # Ids of nodes are times in milliseconds; "3.x" is a version.
        or (node.isdigit() and len(node) >= 10)
        or (re.fullmatch(_NAMED_NODES, node) and output in _NAMED_OUTPUTS)
    ):
        return True
    return field not in _PROSE and (node in {"env", "conversation", "start"} or output in _OUTPUT_NAMES)


def read_contexts(value: object) -> Contexts:
    """The retrieved chunks from any shape: Knowledge Retrieval's list, texts, nested lists, JSON, a Python repr.

    Args:
        value: what the tool was given as `contexts`; None, "", [None] and [""] are no contexts.

    Raises:
        EvaluationError: not_text when it holds neither texts nor items with text but something else (files, numbers);
            variable_not_connected; input_too_long beyond 2,000,000 characters in all.
    """
    chunks: dict[str, Chunk] = {}
    dropped = duplicates = foreign = 0
    for item in _items(value):
        chunk = _chunk(item)
        if chunk is None:
            dropped += 1
            foreign += item is not None and not isinstance(item, (str, Mapping))
        elif chunk.text in chunks:
            duplicates += 1
            first = chunks[chunk.text]
            chunks[chunk.text] = replace(first, documents=tuple(dict.fromkeys((*first.documents, *chunk.documents))))
        else:
            chunks[chunk.text] = chunk
    if foreign and not chunks:
        raise EvaluationError(Reason.NOT_TEXT, field="contexts")
    if len(chunks) == 1:
        _check(next(iter(chunks)), "contexts", MAX_CONTEXTS_CHARACTERS)
    total = sum(map(len, chunks))
    if total > MAX_CONTEXTS_CHARACTERS:
        raise EvaluationError(Reason.INPUT_TOO_LONG, field="contexts", characters=total, limit=MAX_CONTEXTS_CHARACTERS)
    return Contexts(tuple(chunks.values()), dropped, duplicates)


# What a template or a code node makes of a variable that holds nothing.
_WRITTEN_NOTHING = ("None", "null", "undefined")


def _items(value: object) -> Iterable[object]:
    """The single items of a value that may be nested, or written as text."""
    if value is None or value == "" or value in _WRITTEN_NOTHING:
        return
    if isinstance(value, str):
        parsed = _parse_list(value)
        if parsed is None:
            yield value
        else:
            yield from _items(parsed)
    elif isinstance(value, (list, tuple)):
        for item in value:
            if isinstance(item, (list, tuple)) or (isinstance(item, str) and len(value) == 1):
                yield from _items(item)
            else:
                yield item
    elif isinstance(value, Mapping) and not any(key in value for key in (*_TEXT_KEYS, _SEGMENT)):
        inner = next((value[key] for key in _LIST_KEYS if isinstance(value.get(key), (list, tuple))), None)
        if inner is None:
            yield value
        else:
            yield from _items(inner)
    else:
        yield value


def _chunk(item: object) -> Chunk | None:
    if isinstance(item, str):
        text = without_pictures(item).strip(_BLANK)
        return Chunk(text) if text else None
    if isinstance(item, Mapping):
        item = _of_segment(item)
        text = next((item[key] for key in _TEXT_KEYS if isinstance(item.get(key), str)), "")
        text = without_pictures(text).strip(_BLANK)
        if text:
            metadata = item.get("metadata")
            sources = metadata if isinstance(metadata, Mapping) else item
            names = (item.get("title"), sources.get("document_name"), sources.get("document_id"))
            known = tuple(dict.fromkeys(name for name in names if isinstance(name, str) and name))
            return Chunk(text, known[0] if known else "", known)
    return None


def _of_segment(item: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """The segment of a Knowledge API's record with its document's name; any other item as it is."""
    segment = item.get(_SEGMENT)
    if not isinstance(segment, Mapping):
        return item
    document = segment.get("document")
    return {**segment, "title": document.get("name") if isinstance(document, Mapping) else None}


def _parse_list(text: str) -> object | None:
    """The list or object that a text spells out, as JSON or as a Python repr; None when it is just text.

    A list of plain numbers or words is just text, such as "[1]" or "[注意]", and so is JSON without contexts in it.
    """
    stripped = text.strip()
    if not re.match(r"\[\s*[\[{\"'\]N]|\{\s*[\"']", stripped):
        return None
    for candidate in (stripped, repr_as_json(stripped)):
        try:
            value = json.loads(candidate)
        except (ValueError, RecursionError):
            continue
        return value if isinstance(value, (list, dict)) and _holds_texts(value) else None
    return None


def _holds_texts(value: object) -> bool:
    """Whether a value is made like contexts; a chunk may be JSON about something else, and is a text then."""
    if isinstance(value, Mapping):
        return (
            any(key in value and isinstance(value[key], (str, type(None))) for key in _TEXT_KEYS)
            or isinstance(value.get(_SEGMENT), dict)
            or any(isinstance(value.get(key), list) for key in _LIST_KEYS)
        )
    if isinstance(value, list):
        return not value or any(map(_holds_texts, value))
    return value is None or isinstance(value, str)


def repr_as_json(text: str) -> str:
    """The repr of a list of dicts as JSON: string literals, None, True and False are what differs between the two."""
    return re.sub(
        r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\b(?:None|True|False|nan|inf)\b|[()]",
        _token_as_json,
        text,
        flags=re.DOTALL,
    )


def _token_as_json(match: re.Match[str]) -> str:
    token = match.group()
    names = {"None": "null", "True": "true", "False": "false", "nan": "null", "inf": "null", "(": "[", ")": "]"}
    if token in names:
        return names[token]
    return json.dumps(re.sub(r"\\(x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|.)", _escape, token[1:-1], flags=re.DOTALL))


def _escape(match: re.Match[str]) -> str:
    code = match.group(1)
    if len(code) > 1:
        return chr(int(code[1:], 16))
    return {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "a": "\a", "0": "\0"}.get(code, code)
