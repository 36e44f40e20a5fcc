"""What an app answered and what it retrieved, from the events of its stream: any kind of Dify app, unchanged.

Sources: chatflow and workflow: the Knowledge Retrieval nodes' node_finished events; chatbot and agent:
retriever_resources of message_end; an agent that hides its sources: what its tools observed.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evaluation.errors import EvaluationError, Reason
from evaluation.sample import Contexts, read_contexts

# Our own tools in the app that is asked: what is shown from there on are scores, not the answer.
_OWN_PROVIDER = "rag_evaluator"
_ANSWER_OUTPUTS = ("answer", "text", "result", "output", "reply")
MESSAGE_CHARACTERS = 200


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


def read_events(events: Iterable[Mapping[str, Any]]) -> AppAnswer:
    """The answer in a stream of events, read to its end.

    Raises:
        EvaluationError: app_failed with what the app says, or app_empty_answer.
    """
    stream = _Stream()
    for event in events:
        stream.take(event)
    return stream.answer()


class _Stream:
    def __init__(self) -> None:
        self._parts: list[str] = []
        self._before_scores: int | None = None
        self._retrieved: list[Any] = []
        self._resources: Sequence[Any] = ()
        self._observed: list[str] = []
        self._outputs: Mapping[str, Any] = {}
        self._error = ""
        self._tokens = 0

    def take(self, event: Mapping[str, Any]) -> None:
        """Reads one event; kinds that say nothing of the answer are passed over."""
        kind = event.get("event")
        data = event.get("data")
        handler = getattr(self, f"_on_{kind}", None)
        if handler is not None:
            handler(event if not isinstance(data, Mapping) else data)

    def _on_message(self, event: Mapping[str, Any]) -> None:
        self._parts.append(str(event.get("answer") or ""))

    _on_agent_message = _on_message

    def _on_message_replace(self, event: Mapping[str, Any]) -> None:
        self._parts = [str(event.get("answer") or "")]

    def _on_text_chunk(self, data: Mapping[str, Any]) -> None:
        self._parts.append(str(data.get("text") or ""))

    def _on_agent_thought(self, event: Mapping[str, Any]) -> None:
        self._observed.append(str(event.get("observation") or ""))

    def _on_message_end(self, event: Mapping[str, Any]) -> None:
        metadata = event.get("metadata") or {}
        self._resources = metadata.get("retriever_resources") or ()
        self._tokens = self._tokens or _number((metadata.get("usage") or {}).get("total_tokens"))

    def _on_node_started(self, data: Mapping[str, Any]) -> None:
        del data  # its tool is only known once it has finished

    def _on_node_finished(self, data: Mapping[str, Any]) -> None:
        if data.get("node_type") == "knowledge-retrieval":
            self._retrieved.append((data.get("outputs") or {}).get("result"))
        tool = (data.get("execution_metadata") or {}).get("tool_info") or {}
        if self._before_scores is None and str(tool.get("provider_id", "")).endswith(f"/{_OWN_PROVIDER}"):
            self._before_scores = len(self._parts)
        if data.get("status") == "failed":
            self._error = self._error or str(data.get("error") or "")

    def _on_workflow_finished(self, data: Mapping[str, Any]) -> None:
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
            raise EvaluationError(Reason.APP_FAILED, text=self._error[:MESSAGE_CHARACTERS])
        text = self._text()
        if not text:
            raise EvaluationError(Reason.APP_EMPTY_ANSWER)
        retrieved = read_contexts([item for item in self._retrieved if item])
        if not retrieved.chunks:
            retrieved = read_contexts(list(self._resources))
        if not retrieved.chunks:
            retrieved = read_contexts([text for observed in self._observed for text in _texts_in(observed)])
        return AppAnswer(text, retrieved, self._tokens)

    def _text(self) -> str:
        whole = "".join(self._parts).strip()
        if self._before_scores is not None:
            before = "".join(self._parts[: self._before_scores]).strip()
            # The rule above the scores is streamed before them.
            whole = re.sub(r"\s*-{3,}\s*$", "", before) or whole
        return whole or _answer_of(self._outputs)


def _answer_of(outputs: Mapping[str, Any]) -> str:
    """The answer among a workflow's outputs: by its name, else the only text, else all of them as JSON."""
    texts = {name: value.strip() for name, value in outputs.items() if isinstance(value, str) and value.strip()}
    named = next((texts[name] for name in _ANSWER_OUTPUTS if name in texts), "")
    if named or not outputs:
        return named
    if len(texts) == 1:
        return next(iter(texts.values()))
    return json.dumps(outputs, ensure_ascii=False)


def _texts_in(observation: str) -> list[str]:
    """The texts in what an agent's tool observed: JSON of tool name -> text, or plain text."""
    try:
        value = json.loads(observation)
    except ValueError:
        return [observation] if observation.strip() else []
    return [text for text in value.values() if isinstance(text, str)] if isinstance(value, dict) else []


def _number(value: object) -> int:
    return int(value) if isinstance(value, (int, float)) else 0
