"""The templates with the real plugin process and a scripted judge."""

import re
from pathlib import Path
from typing import Any

import pytest

from devhost.chatflow import Chatflow, ChatReply, choose
from devhost.daemon import PluginProcess
from devhost.dify_side import ModelServer
from devhost.flow_nodes import declared_tools
from devhost.knowledge import KnowledgeBase
from tests.model_server import ScriptedModelServer
from tests.workflows.scripted import DOCUMENTS, Ask, script

ROOT = Path(__file__).parents[2]
WORKFLOWS = ROOT / "workflows"
TOOLS = declared_tools(ROOT)
NO_VALUE = re.compile(r"\b(None|null|nan|True|False)\b|\{\{#")


@pytest.fixture
def knowledge(tmp_path: Path) -> KnowledgeBase:
    for name, text in DOCUMENTS.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return KnowledgeBase(tmp_path)


@pytest.fixture
def judge(model_server: ScriptedModelServer) -> ScriptedModelServer:
    script(model_server)
    return model_server


@pytest.fixture
def ask(plugin: PluginProcess, judge: ScriptedModelServer, knowledge: KnowledgeBase) -> Ask:
    """Ask a template one question; every reply must come out of the stream as it is stored."""

    def run(
        query: str,
        *,
        template: str,
        bases: list[KnowledgeBase] | None = None,
        embedding_model: str | None = "embedding",
        judge_model: str | None = "judge",
        **settings: Any,
    ) -> ChatReply:
        chosen = [knowledge] if bases is None else bases
        document = choose(
            WORKFLOWS / template,
            knowledge=chosen,
            chat_model="bot",
            judge_model=judge_model,
            embedding_model=embedding_model,
        )
        for node in document["workflow"]["graph"]["nodes"]:
            declared = TOOLS.get(node["data"].get("tool_name"), {"parameters": []})["parameters"]
            for name in settings.keys() & {item["name"] for item in declared if item["form"] == "form"}:
                node["data"]["tool_configurations"][name] = {"type": "constant", "value": settings[name]}
        reply = Chatflow(document, plugin, ModelServer(judge.url), chosen).run(query)
        assert reply.error is None
        assert reply.streamed == reply.final
        assert reply.final.startswith(reply.node_outputs["llm"]["text"] + "\n\n---\n\n")
        assert NO_VALUE.findall(reply.final) == []
        return reply

    return run
