"""The READMEs' steps from an empty chatflow to one that scores its replies, done as they are written and then run."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from devhost.chatflow import Chatflow
from devhost.daemon import PluginProcess
from devhost.dify_side import ModelServer
from devhost.flow_nodes import declared_tools
from devhost.knowledge import KnowledgeBase
from tests.model_server import ScriptedModelServer
from tests.workflows.dsl import checklist, graph_of
from tests.workflows.scripted import ANSWER, DOCUMENTS, WITH_REFERENCE
from tests.workflows.studio_hands import StudioHands, empty_chatflow, problems, steps_of

ROOT = Path(__file__).parents[2]
TOOLS = declared_tools(ROOT)
READMES = {
    "en_US": "README.md",
    "ja_JP": "readme/README_ja_JP.md",
    "zh_Hans": "readme/README_zh_Hans.md",
}
TABLE = f"質問\t参照\n{WITH_REFERENCE}\t6か月で10日付与し、翌年度まで繰り越せます。"
CHAIN = ["start", "kr", "llm", "answer1", "judge_settings", "reference_lookup", "evaluate_answer", "answer2"]
METRICS = ("faithfulness", "answer_relevancy", "context_recall", "context_precision")
CHOICES = {"knowledge": "kb", "chat_model": "bot", "judge_model": "judge", "table": TABLE}


def steps(language: str) -> list[str]:
    return steps_of((ROOT / READMES[language]).read_text(encoding="utf-8"))


def done(language: str, written: list[str], choices: dict[str, str]) -> dict[str, Any]:
    hands = StudioHands(empty_chatflow(language), language, TOOLS, choices)
    for step in written:
        hands.follow(step)
    return hands.document


@pytest.mark.parametrize("language", READMES)
def test_the_steps_lead_from_an_empty_chatflow_to_scores_under_the_reply(
    language: str, plugin: PluginProcess, judge: ScriptedModelServer, knowledge: KnowledgeBase
) -> None:
    document = done(language, steps(language), CHOICES | {"knowledge": knowledge.id})
    assert checklist(document, TOOLS) == []
    assert problems(document) == []
    assert {(edge["source"], edge["target"]) for edge in graph_of(document)["edges"]} == set(pairwise(CHAIN))

    reply = Chatflow(document, plugin, ModelServer(judge.url), [knowledge]).run(WITH_REFERENCE)

    assert (reply.error, reply.order, reply.streamed) == (None, CHAIN, reply.final)
    outputs = reply.node_outputs["evaluate_answer"]
    assert outputs["status"] == "scored"
    assert None not in [outputs[metric] for metric in METRICS]
    assert reply.final == f"{ANSWER}\n\n{outputs['text']}"
    # The scores are no part of the reply's paragraph.
    first, *_ = [token for token in MarkdownIt().parse(reply.final) if token.type == "inline"]
    assert first.content == ANSWER
    [asked] = [request for request in judge.requests if request.body["model"] == "bot"]
    assert asked.user == WITH_REFERENCE
    assert DOCUMENTS["paid_leave.md"] in asked.system


@pytest.mark.parametrize("left_out", range(7))
@pytest.mark.parametrize("language", READMES)
def test_no_step_is_there_for_nothing(language: str, left_out: int) -> None:
    written = steps(language)
    assert len(written) == 7
    try:
        document = done(language, written[:left_out] + written[left_out + 1 :], CHOICES)
        found = problems(document) + checklist(document, TOOLS)
    except (AssertionError, KeyError, ValueError) as error:
        found = [repr(error)]
    assert found
