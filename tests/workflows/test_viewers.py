"""Who sees the scores: the environment variable of the chat templates, through graphon with tools of a stand-in."""

import uuid
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from devhost.chatflow import Chatflow, ChatReply, choose
from devhost.dify_side import ModelServer
from tests.model_server import ScriptedModelServer
from tests.workflows.stand_in import StandIn

ROOT = Path(__file__).parents[2]
REPLY = "10日付与されます。"
METRICS = ("answer_relevancy", "faithfulness", "context_recall", "context_precision")
SCORED = "\n".join(f"- {metric}" for metric in METRICS)
# The texts that a template's scoring nodes give.
TEMPLATES = {
    "rag_chat_scored.yml": SCORED,
    "rag_chat_scored_en.yml": SCORED,
    "rag_chat_scorecard.yml": "- evaluate_answer",
    "rag_chat_scorecard_en.yml": "- evaluate_answer",
}
# A draft has an id of its own, every published version another; accounts and users of a web app have such ids, too.
DRAFT, PUBLISHED, ME, COLLEAGUE, STRANGER = (str(uuid.UUID(int=number << 100 | number)) for number in range(1, 6))

type Ask = Callable[..., ChatReply]


@pytest.fixture(params=TEMPLATES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def plugin() -> StandIn:
    return StandIn(ROOT)


@pytest.fixture
def ask(name: str, plugin: StandIn, model_server: ScriptedModelServer) -> Ask:
    """Ask the template as a user in the preview (the draft) or the published app; `show_to` is its author's choice."""
    model_server.on_chat(REPLY)

    def run(show_to: str | None = None, *, workflow_id: str = PUBLISHED, user_id: str = STRANGER) -> ChatReply:
        document = choose(ROOT / "workflows" / name, chat_model="bot", judge_model="judge")
        [variable] = document["workflow"]["environment_variables"]
        if show_to is not None:
            variable["value"] = show_to
        flow = Chatflow(document, plugin, ModelServer(model_server.url))
        flow.workflow_id = workflow_id
        reply = flow.run("有給休暇は?", user_id=user_id)
        assert (reply.error, reply.streamed) == (None, reply.final)
        return reply

    return run


def nobody(name: str) -> str:
    return "nobody" if name.endswith("_en.yml") else "なし"


def test_as_imported_everyone_sees_them(name: str, ask: Ask) -> None:
    expected = f"{REPLY}\n\n---\n\n{TEMPLATES[name]}"
    assert ask().final == expected
    assert ask(workflow_id=DRAFT, user_id=ME).final == expected


def test_shown_to_nobody_they_are_kept_all_the_same(name: str, ask: Ask, plugin: StandIn) -> None:
    reply = ask(nobody(name))
    assert reply.final == REPLY
    kept = [outputs["text"] for node, outputs in reply.node_outputs.items() if node in {*METRICS, "evaluate"}]
    assert sorted(kept) == sorted(TEMPLATES[name].split("\n"))
    assert [tool for tool, *_ in plugin.calls[:2]] == ["judge_settings", "reference_lookup"]
    assert "scores" not in reply.order


@pytest.mark.parametrize("user_id", [ME, STRANGER])
def test_the_drafts_id_shows_them_in_the_preview_alone(user_id: str, name: str, ask: Ask) -> None:
    assert TEMPLATES[name] in ask(DRAFT, workflow_id=DRAFT, user_id=user_id).final
    assert ask(DRAFT, workflow_id=PUBLISHED, user_id=user_id).final == REPLY


@pytest.mark.parametrize("between", [" ", "\n", ", ", "、"])
def test_users_ids_show_them_to_these_users_alone(between: str, name: str, ask: Ask) -> None:
    chosen = between.join([ME, COLLEAGUE])
    for user_id in (ME, COLLEAGUE):
        assert TEMPLATES[name] in ask(chosen, user_id=user_id).final
    assert ask(chosen).final == REPLY
    assert ask(chosen, workflow_id=DRAFT).final == REPLY


def test_preview_and_chosen_users_may_stand_together(ask: Ask) -> None:
    chosen = f"{DRAFT}\n{ME}"
    seen: dict[tuple[str, str], Any] = {
        (workflow_id, user_id): ask(chosen, workflow_id=workflow_id, user_id=user_id).final != REPLY
        for workflow_id in (DRAFT, PUBLISHED)
        for user_id in (ME, STRANGER)
    }
    assert [where for where, shown in seen.items() if not shown] == [(PUBLISHED, STRANGER)]


@pytest.mark.parametrize("name", ["rag_chat_scored.yml"], indirect=True)
@pytest.mark.parametrize("first", METRICS)
def test_nothing_of_them_is_streamed_to_others_whichever_tool_ends_first(
    first: str, name: str, ask: Ask, plugin: StandIn
) -> None:
    for order in [order for order in permutations(METRICS) if order[0] == first]:
        plugin.finish_in(order)
        assert ask(nobody(name)).streamed == REPLY
        plugin.finish_in(order)
        assert ask().streamed == f"{REPLY}\n\n---\n\n{SCORED}"
