"""What an app answered and what it retrieved, from the events of its stream: any kind of Dify app, unchanged.

Sources of the chunks, the first that has some: the Knowledge Retrieval nodes' node_finished events; retriever_resources
of message_end; what an agent's tools observed, and what other nodes that may retrieve gave out.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evaluation.errors import EvaluationError, Reason
from evaluation.pictures import without_pictures
from evaluation.reasoning import spoken
from evaluation.runs.agent_words import AgentWords
from evaluation.runs.retrieved import Retrieved
from evaluation.sample import Contexts, read_contexts

# Our own tools in the app that is asked: what they show are scores, not the answer.
_OWN_PROVIDER = "rag_evaluator"
# An output that each of those that score has, and no other.
_SCORING_OUTPUTS = frozenset({"score_text", "diagnosis"})
# Which of their outputs are texts to show.
_SCORE_TEXTS = ("text", "summary", "score_text", "diagnosis")
# Nodes beside Knowledge Retrieval that may retrieve. What a model writes is no source of its own answer.
_RETRIEVING = frozenset({"tool", "http-request", "code"})
_WRITING = frozenset({"llm", "parameter-extractor", "question-classifier"})
# Nodes that hand on what others gave.
_HANDING_ON = frozenset({"template-transform", "variable-aggregator", "code"})
_THOUGHT_OUTPUTS = frozenset({"reasoning_content", "reasoning", "thinking", "thought"})
_ANSWER_OUTPUTS = ("answer", "text", "result", "output", "reply")


@dataclass
class AppAnswer:
    """What came of one call.

    Attributes:
        text: the answer, "" when there is none.
        contexts: the retrieved chunks, best rank first.
        tokens: that the app used, 0 when it does not say.
    """

    text: str = ""
    contexts: Contexts = field(default_factory=Contexts)
    tokens: int = 0


def read_events(events: Iterable[object]) -> AppAnswer:
    """The answer in a stream of events, read to its end.

    Raises:
        EvaluationError: app_failed with what the app says; app_unavailable when the stream breaks off, so that its
            answer may be half of one; app_empty_answer; only_thoughts when the app did nothing but think.
    """
    stream = _Stream()
    for event in events:
        stream.take(event)
    return stream.answer()


@dataclass(frozen=True)
class _Part:
    """A piece of what the app shows, and the node whose output it is, "" when it does not say."""

    text: str
    node: str = ""


class _Stream:
    def __init__(self) -> None:
        self._parts: list[_Part] = []
        self._is_chat = self._is_agent = self._has_nodes = False
        self._answer_nodes: set[str] = set()
        self._score_nodes: set[str] = set()
        self._scores: list[str] = []
        self._after_scores: set[str] = set()
        self._retrieved: list[Any] = []
        self._resources: Sequence[Any] = ()
        self._agent = AgentWords()
        self._observed: dict[str, str] = {}
        self._logs: dict[str, object] = {}
        self._given: list[tuple[object, int]] = []
        self._written: list[str] = []
        self._outputs: Mapping[str, Any] = {}
        self._error = ""
        self._ended = False
        self._tokens = 0

    def take(self, event: object) -> None:
        """Reads one event; kinds that say nothing of the answer are passed over, a bare "ping" too."""
        if not isinstance(event, Mapping):
            return
        kind = event.get("event")
        data = event.get("data")
        handler = getattr(self, f"_on_{kind}", None)
        if handler is not None:
            handler(event if not isinstance(data, Mapping) else data)

    def _on_message(self, event: Mapping[str, Any]) -> None:
        self._is_chat = True
        self._parts.append(_Part(str(event.get("answer") or ""), _node_of(event)))

    def _on_agent_message(self, event: Mapping[str, Any]) -> None:
        self._is_chat = self._is_agent = True
        self._agent.say(str(event.get("answer") or ""))

    def _on_message_replace(self, event: Mapping[str, Any]) -> None:
        self._parts = [_Part(str(event.get("answer") or ""))]
        self._agent.replace(self._parts[0].text)

    def _on_text_chunk(self, data: Mapping[str, Any]) -> None:
        self._parts.append(_Part(str(data.get("text") or ""), _node_of(data)))

    def _on_agent_thought(self, event: Mapping[str, Any]) -> None:
        # A thought is sent again when its tool has answered.
        observation = str(event.get("observation") or "")
        self._observed[str(event.get("id"))] = observation
        self._agent.think(str(event.get("thought") or ""), calls=bool(event.get("tool") or observation))

    def _on_agent_log(self, data: Mapping[str, Any]) -> None:
        # An entry is sent again when it has ended.
        self._logs[str(data.get("id") or data.get("message_id") or len(self._logs))] = data
        if str(data.get("label", "")).startswith("CALL "):
            # What an agent says before it calls a tool is no part of its answer.
            self._parts = [part for part in self._parts if part.node != str(data.get("node_id"))]

    def _on_message_end(self, event: Mapping[str, Any]) -> None:
        self._ended = True
        metadata = event.get("metadata") or {}
        self._resources = metadata.get("retriever_resources") or ()
        self._tokens = self._tokens or _number((metadata.get("usage") or {}).get("total_tokens"))

    def _on_node_started(self, data: Mapping[str, Any]) -> None:
        if self._scores:
            self._after_scores.add(str(data.get("node_id")))

    def _on_node_finished(self, data: Mapping[str, Any]) -> None:
        self._has_nodes = True
        node, kind, outputs = str(data.get("node_id")), data.get("node_type"), data.get("outputs") or {}
        if kind == "knowledge-retrieval":
            self._retrieved.append(outputs.get("result"))
        if kind == "answer":
            self._answer_nodes.add(node)
        tool = (data.get("execution_metadata") or {}).get("tool_info") or {}
        if str(tool.get("provider_id", "")).endswith(f"/{_OWN_PROVIDER}"):
            self._score_nodes.add(node)
            if _SCORING_OUTPUTS & set(outputs):
                self._scores += [text for name in _SCORE_TEXTS if (text := _text_of(outputs.get(name)))]
        if kind == "agent":
            self._logs[str(data.get("id") or node)] = [
                outputs.get("json"),
                (data.get("execution_metadata") or {}).get("agent_log"),
            ]
        elif kind in _RETRIEVING and node not in self._score_nodes:
            self._given.append((outputs, len(self._written)))
        elif kind in _WRITING:
            self._written += [text for value in outputs.values() if (text := _text_of(value))]
        if kind in _HANDING_ON and node in self._after_scores:
            given = [text for value in outputs.values() if (text := _text_of(value))]
            if any(score in text for score in self._scores for text in given):
                self._score_nodes.add(node)
        if data.get("status") == "failed":
            self._error = self._error or str(data.get("error") or "")

    def _on_workflow_paused(self, data: Mapping[str, Any]) -> None:
        del data
        self._error = "workflow_paused: Human Input"

    def _on_workflow_finished(self, data: Mapping[str, Any]) -> None:
        self._ended = self._has_nodes = True
        self._outputs = data.get("outputs") or {}
        self._tokens = _number(data.get("total_tokens")) or self._tokens
        if data.get("status") in {"failed", "stopped"}:
            self._error = str(data.get("error") or "") or self._error or str(data["status"])
        else:
            # A node that failed and was handled inside the app is the app's affair.
            self._error = ""

    def _on_error(self, event: Mapping[str, Any]) -> None:
        self._error = str(event.get("message") or event.get("code") or "error")

    def answer(self) -> AppAnswer:
        if self._error:
            raise EvaluationError(Reason.APP_FAILED, text=self._error)
        if not self._ended:
            raise EvaluationError(Reason.APP_UNAVAILABLE)
        said = spoken(self._text())
        if not said.text.strip():
            raise EvaluationError(Reason.ONLY_THOUGHTS if said.thought else Reason.APP_EMPTY_ANSWER)
        return AppAnswer(without_pictures(said.text).strip(), self._contexts(), self._tokens)

    def _contexts(self) -> Contexts:
        """The chunks of the first source that has some; without any, whether something looked for them."""
        others = Retrieved()
        for observed in self._observed.values():
            others.add_observations(observed)
        for log in self._logs.values():
            others.add_agent_log(log)
        for outputs, written in self._given:
            others.add_outputs(outputs, self._written[:written])
        nodes = [item for item in self._retrieved if item]
        for found in (nodes, list(self._resources), others.items):
            contexts = read_contexts(found)
            if contexts.chunks:
                return contexts
        if self._retrieved or others.looked:
            return Contexts()
        return Contexts(hidden=Reason.CONTEXTS_NOT_VISIBLE if self._has_nodes else Reason.CITATIONS_OFF)

    def _text(self) -> str:
        """The answer: what the chat shows without its scores; of a workflow what it gives out."""
        if not self._is_chat and self._outputs:
            return _answer_of(self._outputs)
        if self._is_agent:
            return self._agent.answer
        shown = (part.text for part in self._parts if part.node not in self._score_nodes)
        return self._text_before_scores() or "".join(shown).strip()

    def _text_before_scores(self) -> str:
        """What is shown before the first score, without the words of the Answer node that lead to it."""
        whole = len(self._parts)
        end = next((index for index, part in enumerate(self._parts) if part.node in self._score_nodes), whole)
        before = self._parts[:end]
        if end < whole and before and before[-1].node in self._answer_nodes:
            leading = before[-1].node
            kept = list(before)
            while kept and kept[-1].node == leading:
                kept.pop()
            before = kept if any(part.text.strip() for part in kept) else before
        text = "".join(part.text for part in before).strip()
        return re.sub(r"\s*-{3,}$", "", text) if end < whole else text


def _text_of(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _node_of(event: Mapping[str, Any]) -> str:
    selector = event.get("from_variable_selector")
    return str(selector[0]) if isinstance(selector, list) and selector else ""


def _answer_of(outputs: Mapping[str, Any]) -> str:
    """The answer among a workflow's outputs: by its name, else the only text, else all that is not empty as JSON."""
    given = {name: _said(value) for name, value in outputs.items() if name not in _THOUGHT_OUTPUTS}
    given = {name: value for name, value in given.items() if value not in (None, "", [], {})}
    texts = {name: text for name, value in given.items() if (text := _text_of(value))}
    named = next((texts[name] for name in _ANSWER_OUTPUTS if name in texts), "")
    if named or len(texts) == 1:
        return named or next(iter(texts.values()))
    return json.dumps(given, ensure_ascii=False) if given else ""


def _said(value: object) -> object:
    """An output without thoughts; where it is nothing else, it is left to be told as that."""
    found = spoken(value) if isinstance(value, str) else None
    return value if found is None or found.only_thought else found.text.strip()


def _number(value: object) -> int:
    return int(value) if isinstance(value, (int, float)) else 0
