"""Events of apps' streams, for tests of what is read from them."""

import json
from pathlib import Path
from typing import Any

import pytest

from evaluation.errors import EvaluationError
from evaluation.runs.app_events import AppAnswer, read_events

REPORTS = Path(__file__).parents[2] / "data" / "reports"
END: dict[str, Any] = {"event": "message_end", "metadata": {"retriever_resources": []}}
SOURCE = {"content": "有給休暇は10日", "document_name": "規程.md", "document_id": "d-1", "title": None}


def message(text: str, node: str = "", kind: str = "message") -> dict[str, Any]:
    selector = {"from_variable_selector": [node, "text"]} if node else {}
    return {"event": kind, "answer": text, **selector}


def node(kind: str, name: str = "n", **data: Any) -> dict[str, Any]:
    return {
        "event": "node_finished",
        "data": {"node_id": name, "node_type": kind, "status": "succeeded", "outputs": {}, **data},
    }


def finished(status: str = "succeeded", **data: Any) -> dict[str, Any]:
    return {"event": "workflow_finished", "data": {"status": status, "outputs": {}, "total_tokens": 0, **data}}


def refused(*events: object) -> EvaluationError:
    with pytest.raises(EvaluationError) as caught:
        read_events(events)
    return caught.value


def of_report(name: str) -> AppAnswer:
    return read_events(json.loads((REPORTS / f"{name}.json").read_text(encoding="utf-8")))


def thought(text: str = "", tool: str = "", observation: str = "", number: int = 1) -> dict[str, Any]:
    return {
        "event": "agent_thought",
        "id": f"t{number}",
        "thought": text,
        "tool": tool,
        "observation": json.dumps({tool: observation}) if observation else "",
    }


def says(*pieces: str) -> list[dict[str, Any]]:
    return [message(piece, kind="agent_message") for piece in pieces]


SEARCHED = [thought("", "dataset_1"), thought("", "dataset_1", "有給休暇は10日")]


def call_log(node: str = "agent", **data: Any) -> dict[str, Any]:
    return {"event": "agent_log", "data": {"node_id": node, "label": "CALL search", "data": data}}
