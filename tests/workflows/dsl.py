"""What Studio and Dify look at in a DSL document: its checklist, and which variable a reference means."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

REFERENCE = re.compile(r"\{\{#([a-zA-Z0-9_]{1,50}(?:\.[a-zA-Z_][a-zA-Z0-9_]{0,29}){1,10})#\}\}")
SYSTEM_VARIABLES = {"query", "files", "conversation_id", "dialogue_count", "user_id", "app_id", "workflow_id"}
NODE_OUTPUTS: Mapping[str, set[str]] = {
    "knowledge-retrieval": {"result"},
    "llm": {"text"},
    "answer": set(),
    "if-else": set(),
    "end": set(),
}
TOOL_OUTPUTS = {"text", "json", "files"}

type Document = Mapping[str, Any]


def graph_of(document: Document) -> dict[str, Any]:
    graph: dict[str, Any] = document["workflow"]["graph"]
    return graph


def data_by_id(document: Document) -> dict[str, dict[str, Any]]:
    """The data of the executable nodes by node id."""
    return {node["id"]: node["data"] for node in graph_of(document)["nodes"] if node["type"] == "custom"}


def checklist(document: Document, tools: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Studio's checklist, which blocks publishing: pairs of the node's id and what is missing in it."""
    entries = []
    for node_id, data in data_by_id(document).items():
        match data["type"]:
            case "knowledge-retrieval":
                entries += [(node_id, missing) for missing in _knowledge_gaps(data)]
            case "llm" if not (data["model"]["provider"] and data["model"]["name"]):
                entries.append((node_id, "model"))
            case "tool":
                values = data["tool_parameters"] | data["tool_configurations"]
                required = [item["name"] for item in tools[data["tool_name"]]["parameters"] if item.get("required")]
                entries += [(node_id, name) for name in required if not values.get(name, {}).get("value")]
    return entries


def _knowledge_gaps(data: Mapping[str, Any]) -> Iterator[str]:
    if not data["dataset_ids"]:
        yield "knowledge"
    config = data["multiple_retrieval_config"]
    mode = config.get("reranking_mode")
    if mode == "reranking_model" and config["reranking_enable"] and not config.get("reranking_model"):
        yield "reranking_model"
    if mode == "weighted_score" and not config.get("weights"):
        yield "weights"


def references(value: Any) -> Iterator[tuple[str, ...]]:
    """Every variable that a node's data mention: in texts, as a selector of a tool, a context or a query."""
    if isinstance(value, str):
        yield from (tuple(found.split(".")) for found in REFERENCE.findall(value))
    elif isinstance(value, list):
        for item in value:
            yield from references(item)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            is_selector = name.endswith(("variable_selector", "value_selector")) or (
                name == "value" and value.get("type") == "variable"
            )
            if is_selector:
                yield tuple(item)
            else:
                yield from references(item)


def outputs_of(data: Mapping[str, Any], tools: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """The names of the variables that a node gives."""
    if data["type"] == "start":
        return {variable["variable"] for variable in data["variables"]}
    if data["type"] != "tool":
        return NODE_OUTPUTS[data["type"]]
    return TOOL_OUTPUTS | set(tools[data["tool_name"]]["output_schema"]["properties"])


def ancestors(document: Document, node_id: str) -> set[str]:
    """All nodes from which a node can be reached."""
    before = [edge["source"] for edge in graph_of(document)["edges"] if edge["target"] == node_id]
    return set(before).union(*(ancestors(document, source) for source in before))
