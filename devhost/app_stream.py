"""The events that Dify streams while an app runs for a plugin, made of graphon's events or of a script.

The shapes are those of the recorded lines (tests/data/wire/tool_runs_app.jsonl); those of chatbots, agents and
workflows, which were not recorded line by line, follow what Dify 1.16 was seen to send.
"""

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphon.enums import BuiltinNodeTypes
from graphon.file.models import File
from graphon.graph_events.base import GraphEngineEvent
from graphon.graph_events.graph import GraphRunFailedEvent, GraphRunStartedEvent
from graphon.graph_events.node import (
    NodeRunExceptionEvent,
    NodeRunFailedEvent,
    NodeRunRetrieverResourceEvent,
    NodeRunStartedEvent,
    NodeRunStreamChunkEvent,
    NodeRunSucceededEvent,
)
from graphon.model_runtime.entities.llm_entities import LLMUsage
from graphon.variables.segments import Segment

from devhost.chatflow import FlowRun

type Event = dict[str, Any]

RESOURCE_FIELDS = (
    "content",
    "data_source_type",
    "dataset_id",
    "dataset_name",
    "doc_metadata",
    "document_id",
    "document_name",
    "files",
    "hit_count",
    "index_node_hash",
    "page",
    "position",
    "retriever_from",
    "score",
    "segment_id",
    "segment_position",
    "summary",
    "title",
    "word_count",
)


@dataclass
class Envelope:
    """What stands around every event of one call: the message, the conversation and the task that it belongs to."""

    chat: bool
    run_id: str | None = None
    conversation_id: str = ""
    message_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    task_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    created_at: int = field(default_factory=lambda: int(time.time()))

    def event(self, kind: str, **fields: Any) -> Event:
        """An event of a message, such as message_end or agent_thought."""
        ids = {"conversation_id": self.conversation_id, "message_id": self.message_id} if self.chat else {}
        stamp = {"created_at": self.created_at} if self.chat else {}
        return {"event": kind, "task_id": self.task_id, **ids, **stamp, **fields}

    def message(self, kind: str, answer: str, **fields: Any) -> Event:
        """A piece of an answer: kind is message or agent_message."""
        return self.event(kind, id=self.message_id, answer=answer, **fields)

    def message_end(self, resources: Sequence[Mapping[str, Any]], usage: Mapping[str, Any]) -> Event:
        """The end of an answer, with its sources."""
        metadata = {"annotation_reply": None, "reasoning": {}, "retriever_resources": list(resources), "usage": usage}
        return self.event("message_end", id=self.message_id, metadata=metadata, files=[])

    def run_event(self, kind: str, data: Mapping[str, Any]) -> Event:
        """An event of a workflow run, such as node_finished or text_chunk."""
        return self.event(kind, workflow_run_id=self.run_id, data=dict(data))

    def error(self, message: str, code: str = "invalid_param", status: int = 400) -> Event:
        """What the app says when it fails."""
        return self.event("error", code=code, message=message, status=status)


def stream(run: FlowRun, *, chat: bool) -> Iterator[Event]:
    """The events of a chatflow's run, or with `chat` false of a workflow's."""
    yield from FlowStream(run, Envelope(chat, run.call.run_id, run.call.conversation_id)).events()


class FlowStream:
    """Turns the events of one run into those of its stream."""

    def __init__(self, run: FlowRun, envelope: Envelope) -> None:
        self._run = run
        self._envelope = envelope
        self._started = time.time()
        self._usage = LLMUsage.empty_usage()
        self._resources: list[Mapping[str, Any]] = []
        self._titles: dict[str, str] = {}
        self._steps = 0
        self._error: str | None = None

    def events(self) -> Iterator[Event]:
        """The stream, to its end. A run that fails ends with workflow_finished, and in a chat with an error."""
        for event in self._run.events():
            yield from self._taken(event)
        if self._envelope.chat and self._error is None:
            resources = [_resource(item) for item in self._resources]
            yield self._envelope.message_end(resources, plain(self._usage.model_dump(mode="json")))
        yield self._finished()
        if self._envelope.chat and self._error is not None:
            yield self._envelope.error(self._error)

    def _taken(self, event: GraphEngineEvent) -> Iterator[Event]:
        match event:
            case GraphRunStartedEvent():
                yield self._begun()
            case NodeRunStartedEvent():
                self._titles[event.id] = event.node_title
                yield self._envelope.run_event("node_started", self._node_started(event))
            case NodeRunStreamChunkEvent():
                yield self._chunk(event)
            case NodeRunSucceededEvent() | NodeRunFailedEvent() | NodeRunExceptionEvent():
                self._steps += 1
                self._add(event.node_run_result.llm_usage)
                yield self._envelope.run_event("node_finished", self._node_finished(event))
                if isinstance(event, NodeRunFailedEvent):
                    self._error = event.error
            case NodeRunRetrieverResourceEvent():
                self._resources.extend(event.retriever_resources)
            case GraphRunFailedEvent():
                self._error = self._error or event.error

    def _begun(self) -> Event:
        # The conversation's id is not among them, though it is a system variable.
        system = {f"sys.{name}": value for name, value in self._run.system.items() if name != "conversation_id"}
        data = {
            "id": self._run.call.run_id,
            "workflow_id": self._run.system["workflow_id"],
            "inputs": plain({**self._run.inputs, **system}),
            "created_at": int(self._started),
            "reason": "initial",
        }
        return self._envelope.run_event("workflow_started", data)

    def _node_started(self, event: NodeRunStartedEvent) -> Event:
        icon = {"icon": "/icon.svg"} if event.node_type == BuiltinNodeTypes.TOOL else {}
        return {
            **_node_fields(event, event.node_title),
            "agent_strategy": None,
            "created_at": int(event.start_at.timestamp()),
            "extras": icon,
            "inputs": None,
        }

    def _node_finished(self, event: NodeRunSucceededEvent | NodeRunFailedEvent | NodeRunExceptionEvent) -> Event:
        result = event.node_run_result
        outputs = dict(result.outputs)
        if event.node_type == BuiltinNodeTypes.START:
            # graphon lists the system variables among them, Dify does not.
            outputs = {name: value for name, value in outputs.items() if not name.startswith("sys.")}
        finished = event.finished_at or event.start_at
        status = {NodeRunSucceededEvent: "succeeded", NodeRunFailedEvent: "failed", NodeRunExceptionEvent: "exception"}
        error = None if isinstance(event, NodeRunSucceededEvent) else event.error
        return {
            **_node_fields(event, self._titles.get(event.id, "")),
            "created_at": int(event.start_at.timestamp()),
            "elapsed_time": round((finished - event.start_at).total_seconds(), 6),
            "error": error,
            "execution_metadata": plain({str(key): value for key, value in result.metadata.items()}) or None,
            "files": [],
            "finished_at": int(finished.timestamp()),
            "inputs": plain(result.inputs),
            "outputs": plain(outputs),
            "outputs_truncated": False,
            "process_data": plain(result.process_data),
            "process_data_truncated": False,
            "status": status[type(event)],
        }

    def _chunk(self, event: NodeRunStreamChunkEvent) -> Event:
        selector = list(event.selector)
        if self._envelope.chat:
            return self._envelope.message("message", event.chunk, from_variable_selector=selector)
        return self._envelope.run_event("text_chunk", {"text": event.chunk, "from_variable_selector": selector})

    def _finished(self) -> Event:
        data = {
            "id": self._run.call.run_id,
            "workflow_id": self._run.system["workflow_id"],
            "status": "succeeded" if self._error is None else "failed",
            "outputs": plain(self._run.outputs),
            "error": self._error,
            "elapsed_time": round(time.time() - self._started, 4),
            "total_tokens": self._usage.total_tokens,
            "total_steps": self._steps,
            "created_by": {"id": str(uuid.uuid4()), "user": self._run.call.user_id},
            "created_at": int(self._started),
            "finished_at": int(time.time()),
            "exceptions_count": 0,
            "files": [],
        }
        return self._envelope.run_event("workflow_finished", data)

    def _add(self, usage: LLMUsage) -> None:
        if usage.total_tokens:
            self._usage = self._usage.plus(usage) if self._usage.total_tokens else usage


def _node_fields(event: Any, title: str) -> Event:
    """What node_started and node_finished have in common."""
    return {
        "id": event.id,
        "node_id": event.node_id,
        "node_type": str(event.node_type),
        "title": title,
        "index": 1,
        "predecessor_node_id": None,
        "iteration_id": event.in_iteration_id,
        "loop_id": event.in_loop_id,
        "inputs_truncated": False,
    }


def _resource(item: Mapping[str, Any]) -> Event:
    return {name: plain(item.get(name)) for name in RESOURCE_FIELDS}


def plain(value: Any) -> Any:
    """A value of the engine as JSON knows it."""
    if isinstance(value, Segment):
        value = value.to_object()
    if isinstance(value, File):
        value = value.to_dict()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float) else str(value)
