"""The nodes that graphon leaves to its host: tools, language models and knowledge retrieval.

graphon, Dify's workflow engine, runs the graph. Here its node factory is taught to send a tool node to a plugin
process, an LLM node to an OpenAI-compatible server, and to build a Knowledge Retrieval node, which graphon lacks.
"""

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Protocol

import yaml
from graphon.dsl.node_factory import SlimDslNodeFactory
from graphon.dsl.tool_runtime import SlimToolAction, SlimToolNodeRuntime
from graphon.entities.base_node_data import BaseNodeData
from graphon.enums import BuiltinNodeTypes, WorkflowNodeExecutionMetadataKey, WorkflowNodeExecutionStatus
from graphon.file.models import File
from graphon.model_runtime.entities.common_entities import I18nObject
from graphon.model_runtime.entities.llm_entities import LLMMode, LLMResult, LLMResultChunk, LLMUsage
from graphon.model_runtime.entities.message_entities import PromptMessage
from graphon.model_runtime.entities.model_entities import AIModelEntity, FetchFrom, ModelPropertyKey, ModelType
from graphon.model_runtime.errors.invoke import InvokeError
from graphon.node_events.base import NodeRunResult
from graphon.nodes.base.node import Node
from graphon.nodes.tool.entities import ToolNodeData
from graphon.nodes.tool.exc import ToolNodeError
from graphon.nodes.tool.tool_node import ToolNode
from graphon.variables.segments import ArrayObjectSegment
from pydantic import Field

from devhost.daemon import Message, ToolFailed
from devhost.dify_side import ModelError, ModelServer
from devhost.files import HostedFiles
from devhost.knowledge import DEFAULT_TOP_K, KnowledgeBase

KNOWLEDGE_RETRIEVAL = "knowledge-retrieval"
# libyaml's, where PyYAML was built with it: seven times as fast.
SAFE_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class ToolHost(Protocol):
    """What a flow needs of a plugin process; `devhost.daemon.PluginProcess` is one."""

    folder: Path

    def invoke_tool(
        self,
        tool: str,
        parameters: Mapping[str, Any],
        *,
        provider: str,
        app_id: str | None,
        conversation_id: str | None,
    ) -> Iterator[Message]: ...


@dataclass(frozen=True)
class Surroundings:
    """What the nodes of one run need besides the graph.

    Attributes:
        plugin: runs the tools.
        models: answers the LLM nodes.
        knowledge: the knowledge bases of the workspace; a node names those that it uses by their ids.
        app_id: the app's id, as tools see it.
        conversation_id: the conversation's id, as tools see it; None in a workflow.
        files: keeps the files that tools make, None when no tool may make any.
    """

    plugin: ToolHost
    models: ModelServer
    knowledge: Sequence[KnowledgeBase]
    app_id: str
    conversation_id: str | None
    files: HostedFiles | None = None


@cache
def declared_tools(folder: Path) -> dict[str, dict[str, Any]]:
    """The tools that the plugin in `folder` declares: name to the content of the tool's YAML file, read once."""
    manifest = read_yaml(folder / "manifest.yaml")
    providers = [read_yaml(folder / path) for path in manifest["plugins"]["tools"]]
    tools = [read_yaml(folder / path) for provider in providers for path in provider["tools"]]
    return {tool["identity"]["name"]: tool for tool in tools}


def as_dify_passes(parameter_type: str, value: Any) -> Any:
    """A parameter's value as Dify casts it before it calls the plugin.

    Raises:
        ToolNodeError: a text that is no number for a number, or no mapping for a selector; the node fails.
    """
    cast: Callable[[Any], Any] = CASTS.get(parameter_type, _text)
    return cast(value)


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file."""
    content: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), Loader=SAFE_LOADER)  # noqa: S506 - it is safe
    return content


def _number(value: Any) -> int | float | None:
    if isinstance(value, int | float):
        return value
    if not isinstance(value, str) or not value:
        return None
    try:
        return float(value) if "." in value else int(value)
    except ValueError as error:
        raise ToolNodeError(f"The tool parameter value {value!r} is not in correct type of number.") from error


def _boolean(value: Any) -> bool:
    if not isinstance(value, str):
        return bool(value)
    words = {"true": True, "yes": True, "y": True, "1": True, "false": False, "no": False, "n": False, "0": False}
    return words.get(value.lower(), bool(value))


def _array(value: Any) -> list[Any]:
    parsed = _parsed(value)
    return parsed if isinstance(parsed, list) else [value]


def _object(value: Any) -> dict[str, Any]:
    parsed = _parsed(value)
    return parsed if isinstance(parsed, dict) else {}


def _parsed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _selector(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ToolNodeError("The selector must be a dictionary.")
    return value


def _files(value: Any) -> list[Any]:
    return [
        item.to_plugin_parameter() if isinstance(item, File) else item
        for item in (value if isinstance(value, list) else [value])
    ]


def _any(value: Any) -> Any:
    return value


def _text(value: Any) -> str:
    return "" if value is None else str(value)


CASTS: Mapping[str, Callable[[Any], Any]] = {
    "number": _number,
    "boolean": _boolean,
    "array": _array,
    "object": _object,
    "model-selector": _selector,
    "app-selector": _selector,
    "files": _files,
    "any": _any,
}


@dataclass(frozen=True)
class ToolCalls:
    """Answers graphon's tool runtime out of a plugin process."""

    surroundings: Surroundings
    tools: Mapping[str, Mapping[str, Any]]

    def __call__(
        self, _plugin_id: str, action: str | SlimToolAction, data: Mapping[str, Any]
    ) -> Iterable[Mapping[str, Any]]:
        """Do one action: name a tool's parameters, or call the tool.

        Raises:
            ToolNodeError: the plugin does not declare the tool, or the tool raised.
        """
        tool = self.tools.get(data["tool"])
        if tool is None:
            raise ToolNodeError(f"the plugin declares no tool {data['tool']}")
        if action == SlimToolAction.GET_TOOL_RUNTIME_PARAMETERS:
            yield {"parameters": tool.get("parameters") or []}
            return
        yield from self._messages(data, {item["name"]: item["type"] for item in tool.get("parameters") or []})

    def _messages(self, data: Mapping[str, Any], types: Mapping[str, str]) -> Iterator[Message]:
        parameters = {
            name: as_dify_passes(types[name], value) if name in types else value
            for name, value in data["tool_parameters"].items()
        }
        try:
            yield from self.surroundings.plugin.invoke_tool(
                data["tool"],
                parameters,
                provider=data["provider"],
                app_id=self.surroundings.app_id,
                conversation_id=self.surroundings.conversation_id,
            )
        except ToolFailed as failure:
            raise ToolNodeError(
                f"An error occurred in the {data['provider']}, "
                f"please contact the author of {data['provider']} for help, "
                f"error type: {failure.error_type}, error details: {failure.message}"
            ) from failure


class ServedModel:
    """An LLM node's model on an OpenAI-compatible server; graphon's LLMProtocol, always streamed, text only."""

    def __init__(self, models: ModelServer, provider: str, model_name: str, parameters: Mapping[str, Any]) -> None:
        self._models = models
        self.provider = provider
        self.model_name = model_name
        self.parameters: Mapping[str, Any] = dict(parameters)
        self.stop: Sequence[str] | None = None

    def get_model_schema(self) -> AIModelEntity:
        return AIModelEntity(
            model=self.model_name,
            label=I18nObject(en_US=self.model_name),
            model_type=ModelType.LLM,
            fetch_from=FetchFrom.CUSTOMIZABLE_MODEL,
            model_properties={ModelPropertyKey.MODE: LLMMode.CHAT},
        )

    def get_llm_num_tokens(self, prompt_messages: Sequence[PromptMessage]) -> int:
        """Only a memory asks for it, and no memory is played here."""
        raise NotImplementedError

    def invoke_llm(
        self,
        *,
        prompt_messages: Sequence[PromptMessage],
        model_parameters: Mapping[str, Any],
        stop: Sequence[str] | None,
        **_: Any,
    ) -> Generator[LLMResultChunk, None, None]:
        """Stream a reply.

        Raises:
            InvokeError: the server refused or failed; the node fails with its text.
        """
        request = {
            "model": self.model_name,
            "prompt_messages": [message.model_dump(mode="json") for message in prompt_messages],
            "completion_params": {**self.parameters, **model_parameters},
            "stop": list(stop or []),
            "stream": True,
        }
        try:
            for chunk in self._models.chat(request):
                yield LLMResultChunk.model_validate(chunk)
        except ModelError as error:
            raise InvokeError(error.message) from error

    def invoke_llm_with_structured_output(self, **_: Any) -> LLMResult:
        raise InvokeError("structured output is not played here")

    def is_structured_output_parse_error(self, _error: Exception) -> bool:
        return False


class KnowledgeRetrievalNodeData(BaseNodeData):
    """The fields of a Knowledge Retrieval node that are played here."""

    type: str = KNOWLEDGE_RETRIEVAL
    dataset_ids: list[str] = Field(default_factory=list)
    query_variable_selector: list[str]
    multiple_retrieval_config: dict[str, Any] = Field(default_factory=dict)


class KnowledgeRetrievalNode(Node[KnowledgeRetrievalNodeData]):
    """Finds chunks for the query; without a knowledge base it succeeds with an empty list, as Dify's node does."""

    node_type = KNOWLEDGE_RETRIEVAL

    def __init__(self, *, knowledge: Sequence[KnowledgeBase], **arguments: Any) -> None:
        super().__init__(**arguments)
        self._knowledge = knowledge

    @classmethod
    def version(cls) -> str:
        return "1"

    def _run(self) -> NodeRunResult:
        variable = self.graph_runtime_state.variable_pool.get(self.node_data.query_variable_selector)
        query = "" if variable is None else variable.text
        chosen = [base for base in self._knowledge if base.id in self.node_data.dataset_ids]
        settings = self.node_data.multiple_retrieval_config
        usage = LLMUsage.empty_usage()
        return NodeRunResult(
            status=WorkflowNodeExecutionStatus.SUCCEEDED,
            inputs={"query": query},
            process_data={"usage": usage.model_dump(mode="json")},
            outputs={"result": ArrayObjectSegment(value=retrieve(chosen, query, settings))},
            metadata={
                WorkflowNodeExecutionMetadataKey.TOTAL_TOKENS: usage.total_tokens,
                WorkflowNodeExecutionMetadataKey.TOTAL_PRICE: usage.total_price,
                WorkflowNodeExecutionMetadataKey.CURRENCY: usage.currency,
            },
            llm_usage=usage,
        )


def retrieve(knowledge: Sequence[KnowledgeBase], query: str, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The best chunks of several knowledge bases together, numbered from 1 by `metadata.position`.

    `settings` holds `top_k` (4 when absent) and `score_threshold` (none when absent or None).
    """
    top_k = settings.get("top_k") or DEFAULT_TOP_K
    threshold = settings.get("score_threshold")
    found = [item for base in knowledge for item in base.retrieve(query, top_k, threshold)]
    best = sorted(found, key=lambda item: -item["metadata"]["score"])[:top_k]
    return [
        {**item, "metadata": {**item["metadata"], "position": position}} for position, item in enumerate(best, start=1)
    ]


@dataclass
class FileToolRuntime(SlimToolNodeRuntime):
    """graphon's tool runtime, which lacks the files that a tool makes."""

    files: HostedFiles = field(kw_only=True)

    def build_file_reference(self, *, mapping: Mapping[str, Any]) -> File:
        """The file that was made of a tool's blob."""
        return self.files.file(mapping["tool_file_id"])


@dataclass(slots=True)
class FlowNodeFactory(SlimDslNodeFactory):
    """graphon's node factory with the three node types above."""

    surroundings: Surroundings = field(kw_only=True)
    tools: Mapping[str, Mapping[str, Any]] = field(kw_only=True)

    def _create_tool_runtime(self, node_data: ToolNodeData) -> SlimToolNodeRuntime:
        settings: dict[str, Any] = {
            "config": self.slim_client_config,
            "plugin_id": "/".join(node_data.provider_id.split("/")[:-1]),
            "provider": node_data.provider_id.split("/")[-1],
            "provider_id": node_data.provider_id,
            "tool_name": node_data.tool_name,
            "credentials": {},
            "action_invoker": ToolCalls(self.surroundings, self.tools),
        }
        files = self.surroundings.files
        return SlimToolNodeRuntime(**settings) if files is None else FileToolRuntime(**settings, files=files)

    def _create_tool_node_with_files(self, request: Any) -> ToolNode:
        if self.surroundings.files is None:
            return self._create_tool_node(request)
        data = ToolNodeData.model_validate(request.data_payload)
        return ToolNode(
            node_id=request.node_id,
            data=data,
            graph_init_params=self.graph_init_params,
            graph_runtime_state=self.graph_runtime_state,
            tool_file_manager=self.surroundings.files,
            runtime=self._create_tool_runtime(data),
        )

    def _create_slim_llm_runtime(
        self, *, node_id: str, data: Mapping[str, Any], node_type_label: str
    ) -> tuple[dict[str, Any], Any]:
        model = data["model"]
        if not model.get("name"):
            raise ValueError(f"no model is chosen in the {node_type_label} node {node_id}")
        served = ServedModel(
            self.surroundings.models, model["provider"], model["name"], model.get("completion_params") or {}
        )
        return dict(data), served

    def _create_knowledge_node(self, request: Any) -> KnowledgeRetrievalNode:
        return KnowledgeRetrievalNode(
            knowledge=self.surroundings.knowledge,
            node_id=request.node_id,
            data=KnowledgeRetrievalNode.validate_node_data(request.data_payload),
            graph_init_params=self.graph_init_params,
            graph_runtime_state=self.graph_runtime_state,
        )

    NODE_BUILDERS: ClassVar[Mapping[Any, Any]] = {
        **SlimDslNodeFactory.NODE_BUILDERS,
        KNOWLEDGE_RETRIEVAL: _create_knowledge_node,
        BuiltinNodeTypes.TOOL: _create_tool_node_with_files,
    }
