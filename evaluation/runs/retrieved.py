"""Chunks in what an app's nodes and an agent's tools gave out, where it has the shape of a retrieval's result.

The shapes: Dify's Knowledge Retrieval and Knowledge API, tools, workflows published as tools, search services and
vector databases over HTTP, code. What a language model wrote is never one.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evaluation.sample import repr_as_json

# Lists of these names are what a retrieval found, also when they are empty or hold plain texts.
_RETRIEVED = frozenset(
    [
        "chunks",
        "context",
        "contexts",
        "docs",
        "documents",
        "passages",
        "records",
        "retrieval_results",
        "retrievalresults",
        "retrieved",
        "retrieved_documents",
        "retriever_resources",
        "segments",
        "source_documents",
    ]
)
# Lists of these names are one when their items have a text.
_FOUND = frozenset(
    ["citations", "hits", "matches", "nodes", "references", "result", "results", "search_results", "sources"]
)
# What stands beside the text of a chunk, and seldom beside another one.
_BESIDE = frozenset(
    [
        "@search.score",
        "chunk_id",
        "dataset_id",
        "distance",
        "document",
        "document_id",
        "document_name",
        "file_name",
        "filename",
        "link",
        "metadata",
        "rank",
        "relevance_score",
        "score",
        "segment_id",
        "similarity",
        "source",
        "title",
        "url",
    ]
)
_TEXTS = ("content", "text", "page_content", "chunk", "passage", "snippet")
# Those that need nothing beside them; "text" is anything's.
_TELLING = frozenset(_TEXTS) - {"text"}
# Where the text lies one level deeper: Dify's Knowledge API, rerank tools, search engines, vector databases.
_INNER = ("segment", "document", "chunk", "node", "_source", "payload", "metadata", "content", "entity")
_TITLES = ("title", "document_name", "name", "file_name", "filename", "source", "url", "link")
# A message of a conversation, a part of one, a verdict of an evaluation.
_NO_CHUNK = frozenset({"role", "verdict", "tool_calls"})
_DEEPEST = 8
# How Dify's agents begin what is only a failure of a tool.
_TOOL_ERRORS = ("tool invoke error", "there is not a tool named", "maximum iteration limit", "tool response: error")
_TOOL_RESPONSE = "tool response: "
# What a tool of ours says of an answer is no source of it.
_SCORES = '"score_text"'


@dataclass
class Retrieved:
    """What was found.

    Attributes:
        items: chunks in the order in which they came, as `read_contexts` takes them.
        looked: something retrieved, whether or not it found anything.
    """

    items: list[object] = field(default_factory=list)
    looked: bool = False

    def add_outputs(self, outputs: object, written: Sequence[str] = ()) -> None:
        """Takes what a node or a tool gave out: the lists of chunks in it, at any depth, also in JSON texts.

        Args:
            written: what models wrote before; a node that only takes their words apart has retrieved nothing.
        """
        found = Retrieved()
        found._walk(outputs, "", _DEEPEST)
        if not (found.items and all(_is_written(item, written) for item in found.items)):
            self.items += found.items
            self.looked = self.looked or found.looked

    def add_observation(self, text: str, tool: str = "") -> None:
        """Takes what an agent's tool told it: the chunks in it, else the text as a whole."""
        text = text.strip()
        if text.lower().startswith(_TOOL_ERRORS) or _SCORES in text:
            return
        inner = Retrieved()
        inner.add_outputs(_unwrapped(text))
        if not inner.looked and text:
            inner = Retrieved([text], looked=True)
        self.items += inner.items
        # A knowledge base is a tool of this name; another one that said nothing need not have looked for anything.
        self.looked = self.looked or inner.looked or tool.startswith("dataset_")

    def add_observations(self, observed: str) -> None:
        """Takes the observation of an agent's thought: JSON of tool name -> text, or a plain text."""
        value = _parsed(observed)
        if isinstance(value, Mapping) and all(isinstance(text, str) for text in value.values()):
            for tool, text in value.items():
                self.add_observation(text, str(tool))
        else:
            self.add_observation(observed)

    def add_agent_log(self, log: object) -> None:
        """Takes the tool calls in an agent node's log; its other entries are the model's own words."""
        for text in _tool_responses(log, _DEEPEST):
            self.add_observation(text)

    def _walk(self, value: object, name: str, depth: int) -> None:
        if isinstance(value, str):
            value = _parsed(value)
        if depth == 0 or not isinstance(value, (Mapping, list, tuple)):
            return
        if isinstance(value, Mapping):
            for key, inner in value.items():
                self._walk(inner, str(key).lower(), depth - 1)
            return
        chunks = _chunks(value, name)
        if chunks is None:
            for item in value:
                self._walk(item, name, depth - 1)
        else:
            self.items += chunks
            self.looked = True


def _is_written(item: object, written: Sequence[str]) -> bool:
    text = str(item["content"] if isinstance(item, Mapping) else item)
    forms = {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    return any(form in words for words in written for form in forms)


def _unwrapped(text: str) -> str:
    return text.removeprefix(_TOOL_RESPONSE).rstrip(".") if text.startswith(_TOOL_RESPONSE) else text


def _parsed(text: str) -> object:
    """The JSON or Python repr that a text spells out, None when it is none."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    for read in (str, repr_as_json):
        try:
            return json.loads(read(text))
        except (ValueError, RecursionError):
            continue
    return None


def _chunks(values: Sequence[Any], name: str) -> list[object] | None:
    """The chunks that a list holds; None when it is no retrieval's."""
    retrieved = name in _RETRIEVED
    if not values:
        return [] if retrieved else None
    if all(isinstance(item, str) for item in values):
        return list(values) if retrieved else None
    items = [item for item in values if isinstance(item, Mapping)]
    if len(items) < len(values) or any(_NO_CHUNK & item.keys() for item in items):
        return None
    chunks = [_chunk(item) for item in items]
    if not any(chunks):
        return None
    if retrieved or name in _FOUND or all(_is_told_by_its_keys(item) for item in items):
        return [chunk for chunk in chunks if chunk]
    return None


def _is_told_by_its_keys(item: Mapping[str, Any]) -> bool:
    # Parts of a model's message have a type, and a chunk has none.
    return bool(_BESIDE & {key.lower() for key in item}) or ("type" not in item and bool(_TELLING & item.keys()))


def _chunk(item: Mapping[str, Any]) -> dict[str, Any] | None:
    """An item as a Knowledge Retrieval node writes it; None without a text."""
    text = _text(item)
    within = [inner for key in _INNER if isinstance(inner := item.get(key), Mapping)]
    text = text or next((found for inner in within if (found := _text(inner))), "")
    if not text:
        return None
    levels = [item, *within, *(inner["document"] for inner in within if isinstance(inner.get("document"), Mapping))]
    names = [level[key] for level in levels for key in _TITLES if isinstance(level.get(key), str) and level[key]]
    ids = [level["document_id"] for level in levels if isinstance(level.get("document_id"), str)]
    document = {"document_name": names[-1] if names else None, "document_id": ids[0] if ids else None}
    return {"content": text, "title": names[0] if names else None, "metadata": document}


def _text(item: Mapping[str, Any]) -> str:
    return next((item[key] for key in _TEXTS if isinstance(item.get(key), str) and item[key].strip()), "")


def _tool_responses(entry: object, depth: int) -> Iterator[str]:
    """What the tools answered, as the two agent strategies of Dify write it into their logs."""
    if depth == 0:
        return
    if isinstance(entry, (list, tuple)):
        for item in entry:
            yield from _tool_responses(item, depth - 1)
    elif isinstance(entry, Mapping):
        response = entry.get("tool_response", entry.get("output") if "tool_call_args" in entry else None)
        if response is not None:
            yield response if isinstance(response, str) else json.dumps(response, ensure_ascii=False)
            return
        for inner in entry.values():
            yield from _tool_responses(inner, depth - 1)
