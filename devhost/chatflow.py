"""Runs a chatflow's or a workflow's DSL file with graphon, Dify's own workflow engine, against a plugin process."""

import copy
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphon.dsl.entities import DslCredentials
from graphon.entities.graph_init_params import GraphInitParams
from graphon.graph.graph import Graph
from graphon.graph_engine import GraphEngine
from graphon.graph_engine.command_channels import InMemoryChannel
from graphon.graph_engine.config import GraphEngineConfig
from graphon.graph_engine.filters import GraphEventFilterContext, ResponseStreamFilter, filter_graph_events
from graphon.graph_events.base import GraphEngineEvent
from graphon.graph_events.graph import GraphRunFailedEvent
from graphon.graph_events.node import (
    NodeRunFailedEvent,
    NodeRunStartedEvent,
    NodeRunStreamChunkEvent,
    NodeRunSucceededEvent,
)
from graphon.runtime.graph_runtime_state import GraphRuntimeState
from graphon.runtime.variable_pool import VariablePool

from devhost.dify_side import ModelServer
from devhost.files import HostedFiles
from devhost.flow_inputs import start_inputs
from devhost.flow_nodes import FlowNodeFactory, Surroundings, ToolHost, declared_tools, read_yaml
from devhost.knowledge import KnowledgeBase

MODEL_PROVIDER = "langgenius/openai_api_compatible/openai_api_compatible"
DEFAULT_APP_ID = "3f0c9f5e-7a55-4f37-9d0e-6b6a1c2f8d10"

# Dify 1.16's own settings.
ENGINE_CONFIG = GraphEngineConfig(min_workers=3, max_workers=10, scale_up_threshold=3, scale_down_idle_time=5.0)

type Dsl = Mapping[str, Any] | Path


@dataclass
class ChatReply:
    """One reply of a chatflow, or what one run of a workflow gave.

    Attributes:
        streamed: the chunks that reached the chat while the flow ran, joined.
        final: the Answer nodes' own outputs, joined in the order in which they finished; "" for a workflow.
        outputs: the flow's own outputs, for a workflow those of its Output nodes.
        node_outputs: a finished node's outputs by its id.
        order: the ids of the finished nodes, in order.
        seconds: from a finished node's start to its end, by its id.
        error: why the run failed, None when it succeeded. What was streamed before stays.
    """

    streamed: str = ""
    final: str = ""
    outputs: dict[str, Any] = field(default_factory=dict)
    node_outputs: dict[str, dict[str, Any]] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    error: str | None = None


@dataclass(frozen=True)
class FlowCall:
    """One call of a flow: the system variables that a caller decides, and its inputs.

    Attributes:
        query: the user's message; "" for a workflow.
        inputs: of the Start node, by variable name; what the node does not declare is dropped.
        conversation_id, user_id, run_id: new ids when not given.
    """

    query: str = ""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    conversation_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    user_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    run_id: str = field(default_factory=lambda: str(uuid.uuid4()))


@dataclass(frozen=True)
class NodeProgress:
    """A node that starts or ends; `state` is "started", "succeeded" or "failed"."""

    node_id: str
    title: str
    state: str


def load_dsl(dsl: Dsl) -> dict[str, Any]:
    """A DSL document as a mapping of its own, from a mapping or a file."""
    if isinstance(dsl, Path):
        return read_yaml(dsl)
    return copy.deepcopy(dict(dsl))


def choose(
    dsl: Dsl,
    *,
    knowledge: Sequence[KnowledgeBase] = (),
    chat_model: str | None = None,
    judge_model: str | None = None,
    embedding_model: str | None = None,
    judge_parameters: Mapping[str, Any] | None = None,
    app_id: str | None = None,
) -> dict[str, Any]:
    """A copy of the document in which a user has chosen what a template leaves open.

    Args:
        dsl: a DSL file or its content; it is not changed.
        knowledge: set in every Knowledge Retrieval node.
        chat_model: set in every LLM node without a model.
        judge_model: set as `model` in every judge_settings node.
        embedding_model: set as `embedding_model` in every judge_settings node.
        judge_parameters: the judge model's completion parameters; none when not given.
        app_id: set as `app` in every evaluate_app node.
    """
    document = load_dsl(dsl)
    for node in document["workflow"]["graph"]["nodes"]:
        data = node["data"]
        match data.get("type"):
            case "knowledge-retrieval":
                data["dataset_ids"] = [base.id for base in knowledge]
            case "llm" if chat_model and not data["model"]["name"]:
                data["model"] |= {"provider": MODEL_PROVIDER, "name": chat_model}
            case "tool" if data["tool_name"] == "judge_settings":
                settings = data["tool_configurations"]
                if judge_model:
                    settings["model"] = selector("llm", judge_model, judge_parameters)
                if embedding_model:
                    settings["embedding_model"] = selector("text-embedding", embedding_model)
            case "tool" if data["tool_name"] == "evaluate_app" and app_id:
                value = {"app_id": app_id, "files": [], "inputs": {}}
                data["tool_configurations"]["app"] = {"type": "constant", "value": value}
    return document


def selector(model_type: str, model: str, parameters: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A model selector's constant as Studio exports it; `model_type` is "llm" or "text-embedding"."""
    value = {
        "completion_params": dict(parameters or {}),
        "mode": "chat" if model_type == "llm" else "",
        "model": model,
        "model_type": model_type,
        "provider": MODEL_PROVIDER,
    }
    return {"type": "constant", "value": value}


class Chatflow:
    """A chatflow that can be asked questions, or a workflow that can be run; every question is a run of its own.

    Not played: the memory of LLM nodes, structured output and node types that graphon does not know, save Knowledge
    Retrieval.

    Attributes:
        app_id: the app's id, as tools see it.
        mode: "advanced-chat" or "workflow".
        workflow_id: the same for all runs.
    """

    def __init__(
        self,
        dsl: Dsl,
        plugin: ToolHost,
        models: ModelServer,
        knowledge: Sequence[KnowledgeBase] = (),
        *,
        app_id: str = DEFAULT_APP_ID,
        files: HostedFiles | None = None,
    ) -> None:
        """Read the document.

        Args:
            dsl: a DSL file or its content, with what a user chooses filled in (see `choose`).
            plugin: runs the tools.
            models: answers the LLM nodes.
            knowledge: the workspace's knowledge bases; a node uses those whose ids it names.
            app_id: the app's id, as tools see it.
            files: keeps the files that tools make; without it such a tool fails its node.

        Raises:
            ValueError: the document holds no chatflow or workflow.
        """
        document = load_dsl(dsl)
        workflow = document.get("workflow")
        if not workflow:
            raise ValueError("the document holds no chatflow or workflow")
        self.mode: str = document["app"]["mode"]
        self.workflow_id = str(uuid.uuid4())
        self._graph_config = workflow["graph"]
        self._start = next(node for node in self._graph_config["nodes"] if node["data"]["type"] == "start")
        self._declared_variables = {
            "env": workflow.get("environment_variables") or [],
            "conversation": workflow.get("conversation_variables") or [],
        }
        self._plugin = plugin
        self._models = models
        self._knowledge = knowledge
        self.app_id = app_id
        self._files = files
        self._tools = declared_tools(plugin.folder)

    def run(
        self,
        query: str,
        conversation_id: str | None = None,
        *,
        inputs: Mapping[str, Any] | None = None,
        user_id: str | None = None,
        on_text: Callable[[str], None] | None = None,
        on_node: Callable[[NodeProgress], None] | None = None,
    ) -> ChatReply:
        """Ask one question, or run a workflow.

        Args:
            query: the user's message; "" for a workflow.
            conversation_id: a new conversation when not given.
            inputs: of the Start node, by variable name.
            user_id: a new user when not given.
            on_text: called with every chunk as it is streamed.
            on_node: called when a node starts and ends.

        Returns:
            The reply; a failed run is told in its `error`, as Dify shows it.

        Raises:
            ValueError: an LLM node has no model, or an input is missing or does not fit.
        """
        given = {"conversation_id": conversation_id, "user_id": user_id}
        call = FlowCall(query, inputs or {}, **{name: value for name, value in given.items() if value})
        watch = _Watch(on_text, on_node)
        run = self.start(call)
        for event in run.events():
            watch.take(event)
        watch.reply.outputs = run.outputs
        watch.reply.final = run.outputs.get("answer", "") if self.mode == "advanced-chat" else ""
        return watch.reply

    def start(self, call: FlowCall) -> "FlowRun":
        """Prepare a run.

        Raises:
            ValueError: an LLM node has no model, or an input is missing or does not fit.
        """
        system: dict[str, Any] = {
            "user_id": call.user_id,
            "app_id": self.app_id,
            "workflow_id": self.workflow_id,
            "workflow_run_id": call.run_id,
            "files": [],
        }
        if self.mode == "advanced-chat":
            system |= {"query": call.query, "conversation_id": call.conversation_id, "dialogue_count": 1}
        inputs = start_inputs(self._start["data"]["variables"], call.inputs)
        return FlowRun(call, system, inputs, self._engine(call, system, inputs))

    def _engine(self, call: FlowCall, system: Mapping[str, Any], inputs: Mapping[str, Any]) -> GraphEngine:
        graph_config, workflow_id = self._graph_config, self.workflow_id
        conversation_id = call.conversation_id if self.mode == "advanced-chat" else None
        state = GraphRuntimeState(variable_pool=self._variables(system, inputs), start_at=time.time())
        factory = FlowNodeFactory(
            graph_config=graph_config,
            graph_init_params=GraphInitParams(
                workflow_id=workflow_id, graph_config=graph_config, run_context={}, call_depth=0
            ),
            graph_runtime_state=state,
            credentials=DslCredentials(),
            dependencies=[],
            surroundings=Surroundings(
                self._plugin, self._models, self._knowledge, self.app_id, conversation_id, self._files
            ),
            tools=self._tools,
        )
        return GraphEngine(
            workflow_id=workflow_id,
            graph=Graph.init(graph_config=graph_config, node_factory=factory, root_node_id=self._start["id"]),
            graph_runtime_state=state,
            command_channel=InMemoryChannel(),
            config=ENGINE_CONFIG,
        )

    def _variables(self, system: Mapping[str, Any], inputs: Mapping[str, Any]) -> VariablePool:
        pool = VariablePool()
        for name, value in inputs.items():
            pool.add((self._start["id"], name), value)
        for name, value in system.items():
            pool.add(("sys", name), value)
        for group, variables in self._declared_variables.items():
            for variable in variables:
                pool.add((group, variable["name"]), variable["value"])
        return pool


@dataclass
class FlowRun:
    """A run that has been prepared.

    Attributes:
        call: what was asked.
        system: the system variables, by name without "sys.".
        inputs: of the Start node.
    """

    call: FlowCall
    system: Mapping[str, Any]
    inputs: Mapping[str, Any]
    engine: GraphEngine

    def events(self) -> Iterator[GraphEngineEvent]:
        """The engine's events while it runs, with the response's chunks in the order in which a chat shows them."""
        context = GraphEventFilterContext.from_engine(self.engine)
        failed = False
        try:
            for event in filter_graph_events(self.engine.run(), context=context, filters=[ResponseStreamFilter()]):
                failed = failed or isinstance(event, NodeRunFailedEvent | GraphRunFailedEvent)
                yield event
        except Exception:
            # graphon tells a failed run by an event and then raises the error as well.
            if not failed:
                raise

    @property
    def outputs(self) -> dict[str, Any]:
        """The flow's outputs so far."""
        return dict(self.engine.graph_runtime_state.outputs)


class _Watch:
    """Turns the engine's events into a reply."""

    def __init__(self, on_text: Callable[[str], None] | None, on_node: Callable[[NodeProgress], None] | None) -> None:
        self.reply = ChatReply()
        self._on_text = on_text
        self._on_node = on_node
        self._titles: dict[str, str] = {}

    def take(self, event: GraphEngineEvent) -> None:
        match event:
            case NodeRunStreamChunkEvent(chunk=chunk) if chunk:
                self.reply.streamed += chunk
                if self._on_text:
                    self._on_text(chunk)
            case NodeRunStartedEvent():
                self._titles[event.node_id] = event.node_title
                self._tell(event.node_id, "started")
            case NodeRunSucceededEvent():
                self._finish(event)
                self._tell(event.node_id, "succeeded")
            case NodeRunFailedEvent():
                self.reply.error = event.error
                self._tell(event.node_id, "failed")
            case GraphRunFailedEvent():
                self.reply.error = self.reply.error or event.error

    def _finish(self, event: NodeRunSucceededEvent) -> None:
        reply, node_id = self.reply, event.node_id
        reply.order.append(node_id)
        outputs = event.node_run_result.outputs
        reply.node_outputs[node_id] = {name: getattr(value, "value", value) for name, value in outputs.items()}
        if event.finished_at is not None:
            reply.seconds[node_id] = (event.finished_at - event.start_at).total_seconds()

    def _tell(self, node_id: str, state: str) -> None:
        if self._on_node:
            self._on_node(NodeProgress(node_id, self._titles[node_id], state))
