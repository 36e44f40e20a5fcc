"""Nodes, edges and notes of a chatflow or a workflow as Dify's Studio exports them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PROVIDER = "rag-evaluator-team/rag_evaluator/rag_evaluator"

# Studio's own sizes, in canvas pixels: a node is 244 wide, and columns 300 apart leave room for the arrows.
NODE_WIDTH = 244
FIRST_COLUMN = 80
COLUMN_STEP = 300
MAIN_ROW = 282

QUESTION = "{{#sys.query#}}"
CONTEXTS = ["knowledge", "result"]
# The environment variable that decides who sees the scores.
VIEWERS = "show_scores_to"

type Node = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """A node's top left corner and height on the canvas, in pixels."""

    x: int
    y: int
    height: int


def column(index: int) -> int:
    """The x of a column, counted from 0."""
    return FIRST_COLUMN + COLUMN_STEP * index


def node(node_id: str, place: Place, titles: Mapping[str, str], data: Mapping[str, Any]) -> Node:
    """One node as Studio exports it."""
    return {
        "data": {"desc": "", "selected": False, "title": titles[node_id], **data},
        **placed(node_id, place, "custom", NODE_WIDTH),
    }


def placed(node_id: str, place: Place, kind: str, width: int) -> dict[str, Any]:
    """Where a node or note stands on the canvas."""
    return {
        "height": place.height,
        "id": node_id,
        "position": {"x": place.x, "y": place.y},
        "positionAbsolute": {"x": place.x, "y": place.y},
        "sourcePosition": "right",
        "targetPosition": "left",
        "type": kind,
        "width": width,
        "zIndex": 0,
    }


def knowledge_data() -> dict[str, Any]:
    """The Knowledge Retrieval node without a knowledge base.

    No `reranking_mode`: with one, Studio's checklist asks for a rerank model or weights; without, it fills in the
    weights when the user chooses the knowledge.
    """
    return {
        "dataset_ids": [],
        "metadata_filtering_mode": "disabled",
        "multiple_retrieval_config": {"reranking_enable": False, "score_threshold": None, "top_k": 4},
        "query_attachment_selector": [],
        "query_variable_selector": ["sys", "query"],
        "retrieval_mode": "multiple",
        "type": "knowledge-retrieval",
    }


def llm_data(system_prompt: str) -> dict[str, Any]:
    """The LLM node without a model and without memory."""
    return {
        "context": {"enabled": True, "variable_selector": CONTEXTS},
        "model": {"completion_params": {"temperature": 0}, "mode": "chat", "name": "", "provider": ""},
        "prompt_config": {"jinja2_variables": []},
        "prompt_template": [
            {"id": "system", "role": "system", "text": system_prompt},
            {"id": "user", "role": "user", "text": QUESTION},
        ],
        "structured_output_enabled": False,
        "type": "llm",
        "variables": [],
        "vision": {"enabled": False},
    }


def answer_data(text: str) -> dict[str, Any]:
    """An Answer node that shows `text`."""
    return {"answer": text, "type": "answer", "variables": []}


def viewers_data(everyone: str) -> dict[str, Any]:
    """An IF/ELSE node that lets those through who may see the scores.

    They are named by an environment variable's text: it holds the word for everyone, the id of the workflow that runs
    (a preview runs the draft, which has an id of its own and keeps it when the app is published), or the user's id.
    """
    accepted = {"everyone": everyone, "preview": "{{#sys.workflow_id#}}", "user": "{{#sys.user_id#}}"}
    conditions = [
        {
            "comparison_operator": "contains",
            "id": name,
            "value": value,
            "varType": "string",
            "variable_selector": ["env", VIEWERS],
        }
        for name, value in accepted.items()
    ]
    case = {"case_id": "true", "conditions": conditions, "id": "true", "logical_operator": "or"}
    return {"cases": [case], "type": "if-else"}


def viewers_variable(everyone: str, description: str) -> dict[str, Any]:
    """The environment variable that `viewers_data` asks, as Studio exports it."""
    return {
        "description": description,
        "id": VIEWERS,
        "name": VIEWERS,
        "selector": ["env", VIEWERS],
        "value": everyone,
        "value_type": "string",
    }


def mixed(text: str) -> dict[str, Any]:
    """A tool's text field that may hold variables."""
    return {"type": "mixed", "value": text}


def tool_node(
    node_id: str,
    tool: str,
    corner: tuple[int, int],
    texts: Mapping[str, Any],
    inputs: Mapping[str, Any],
    settings: Mapping[str, Any] | None = None,
) -> Node:
    """A node of one of this plugin's tools; `inputs` are {type, value} pairs, `settings` plain values."""
    data = {
        "is_team_authorization": True,
        "plugin_unique_identifier": None,
        "provider_id": PROVIDER,
        "provider_name": PROVIDER,
        "provider_type": "builtin",
        "tool_configurations": {name: {"type": "constant", "value": value} for name, value in (settings or {}).items()},
        "tool_description": texts["descriptions"][node_id],
        "tool_label": texts["titles"][node_id],
        "tool_name": tool,
        "tool_node_version": "2",
        "tool_parameters": dict(inputs),
        "type": "tool",
    }
    # Studio lists a tool's settings in its node, one a line.
    return node(node_id, Place(*corner, 64 + 26 * len(settings or {})), texts["titles"], data)


def judge_settings_node(corner: tuple[int, int], texts: Mapping[str, Any]) -> Node:
    """The node that chooses the judge once. It reads no text from which "auto" could tell the language."""
    return tool_node("judge_settings", "judge_settings", corner, texts, {}, {"language": texts["language"]})


NODE_TYPES = {
    "start": "start",
    "knowledge": "knowledge-retrieval",
    "llm": "llm",
    "reply": "answer",
    "viewers": "if-else",
    "scores": "answer",
    "output": "end",
}


def edge(source: str, target: str) -> dict[str, Any]:
    """One connection as Studio exports it; of an IF/ELSE node that of its first case."""
    handle = "true" if NODE_TYPES.get(source) == "if-else" else "source"
    return {
        "data": {
            "isInIteration": False,
            "isInLoop": False,
            "sourceType": NODE_TYPES.get(source, "tool"),
            "targetType": NODE_TYPES.get(target, "tool"),
        },
        "id": f"{source}-{handle}-{target}-target",
        "source": source,
        "sourceHandle": handle,
        "target": target,
        "targetHandle": "target",
        "type": "custom",
        "zIndex": 0,
    }
