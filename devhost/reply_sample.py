"""One question put to a template over graphon and the plugin, with models that say what a sample file says.

The samples in reply_samples/ are made up, so that the README's pictures are the same wherever they are made: the
scores, sentences and the account below them come from the plugin.
"""

import math
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from devhost.chatflow import Chatflow, ChatReply, choose
from devhost.daemon import PluginProcess
from devhost.dify_side import DifySide, ModelServer
from devhost.flow_nodes import read_yaml
from devhost.knowledge import KnowledgeBase
from tests.model_server import Request, ScriptedModelServer

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "devhost" / "reply_samples"
KNOWLEDGE = ROOT / "devhost" / "demo" / "knowledge"
JUDGE = "judge-model"

type Sample = Mapping[str, Any]


def read_sample(language: str) -> Sample:
    """The sample of a language ("en" or "ja")."""
    return read_yaml(SAMPLES / f"{language}.yaml")


def reply_of(sample: Sample, plugin: PluginProcess) -> ChatReply:
    """The template's reply to the sample's question.

    Args:
        sample: see reply_samples/en.yaml.
        plugin: this repository's, running; from now on the sample's models answer its calls.

    Raises:
        RuntimeError: the flow failed.
    """
    with ScriptedModelServer() as server, _knowledge(sample) as knowledge:
        _script(server, sample)
        models = ModelServer(server.url)
        document = choose(
            ROOT / "workflows" / sample["template"],
            knowledge=[knowledge],
            chat_model="chat-model",
            judge_model=JUDGE,
            embedding_model="embedding-model",
        )
        plugin.dify = DifySide(models)
        reply = Chatflow(document, plugin, models, [knowledge]).run(sample["question"])
    if reply.error is not None:
        raise RuntimeError(reply.error)
    return reply


@contextmanager
def _knowledge(sample: Sample) -> Iterator[KnowledgeBase]:
    """The sample's own documents, or the demo's."""
    if "documents" not in sample:
        yield KnowledgeBase(KNOWLEDGE)
        return
    with tempfile.TemporaryDirectory() as folder:
        for name, text in sample["documents"].items():
            Path(folder, name).write_text(text, encoding="utf-8")
        yield KnowledgeBase(Path(folder), name="company rules")


def _script(server: ScriptedModelServer, sample: Sample) -> None:
    def about_chunk(request: Request) -> dict[str, Any]:
        relevant = sample["relevant_chunk"] in request.user.partition('"context"')[2]
        return {"reason": sample["relevant_reason" if relevant else "irrelevant_reason"], "verdict": int(relevant)}

    server.on_chat(sample["answer"])
    for prompt, reply in sample["judge"].items():
        server.on(prompt, reply)
    server.on("precision.chunk", about_chunk)
    server.embed_as(sample["question"], [1.0, 0.0])
    questions = sample["judge"]["relevancy.questions"]["questions"]
    for asked, similarity in zip(questions, sample["similarities"], strict=True):
        server.embed_as(asked["question"], [similarity, math.sqrt(1 - similarity**2)])
