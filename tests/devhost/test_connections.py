"""A played Dify whose database has few connections fails as the real one does."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from devhost.app_stream import Envelope, Event
from devhost.apps import USAGE, AppCall, Apps, NodeModels, PlayedApp
from devhost.connections import Connections, NoConnectionError
from devhost.dify_side import DifySide, ModelError, ModelServer, ReverseCall, ReverseCallError
from tests.model_server import ScriptedModelServer

CHAT = {"model": "m", "prompt_messages": [{"role": "user", "content": "x"}]}
ALLOWED = {"model": {"enabled": True, "llm": True, "text_embedding": True}, "app": {"enabled": True}}
ALLOWED["storage"] = {"enabled": True, "size": 1048576}  # type: ignore[dict-item]


def call(kind: str, **request: object) -> ReverseCall:
    return ReverseCall(kind, request, ALLOWED)


@pytest.fixture
def few(model_server: ScriptedModelServer) -> Iterator[DifySide]:
    """A Dify with one connection, which is in use."""
    dify = DifySide(ModelServer(model_server.url), connections=Connections(1, 0, 0.01))
    apps = Apps()
    dify.handlers["app"] = apps.answer
    assert dify.connections
    with dify.connections.one():
        yield dify


def refusal(dify: DifySide, asked: ReverseCall) -> str:
    with pytest.raises(ReverseCallError) as caught:
        list(dify.answer(asked))
    return str(caught.value)


def test_there_are_as_many_connections_as_the_pool_holds() -> None:
    connections = Connections(3, 1, 0.01)
    with ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(connections.one())
        with pytest.raises(NoConnectionError, match=r"^QueuePool limit of size 3 overflow 1 reached, connection timed"):
            stack.enter_context(connections.one())
    with connections.one():
        assert (connections.most, connections.failures) == (4, 1)


def test_a_call_waits_for_a_connection_as_long_as_the_pool_allows() -> None:
    connections = Connections(1, 0, 5.0)
    order = []

    def hold(name: str) -> None:
        with connections.one():
            order.append(name)
            time.sleep(0.02)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(hold, "abcd"))
    assert sorted(order) == ["a", "b", "c", "d"]
    assert (connections.most, connections.failures) == (1, 0)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            call("llm", **CHAT),
            "invoke llm model failed: request failed with status code: 400 and respond with: {",
        ),
        (call("text_embedding", model="m", texts=["x"]), "invoke text-embedding model failed: request failed with"),
    ],
)
def test_a_model_call_without_a_connection_knows_no_user(few: DifySide, asked: ReverseCall, words: str) -> None:
    text = refusal(few, asked)
    assert text.startswith(words)
    assert '"message": "user not found"' in text


@pytest.mark.parametrize(
    "asked", [call("app", app_id="a", query="q", response_mode="streaming"), call("storage", opt="get", key="k")]
)
def test_other_calls_without_a_connection_are_a_bare_server_error(few: DifySide, asked: ReverseCall) -> None:
    text = refusal(few, asked)
    assert "request failed with status code: 500" in text
    assert "Internal Server Error" in text


def test_an_app_holds_a_connection_for_its_call_one_for_its_run_and_one_for_each_call_of_its_model(
    model_server: ScriptedModelServer,
) -> None:
    connections = Connections(3, 0, 0.01)
    models = NodeModels(model_server.url, connections)
    seen: list[int] = []

    def play(_: AppCall, envelope: Envelope) -> Iterator[Event]:
        for chunk in models.chat(CHAT):
            seen.append(connections._in_use)
            yield envelope.message("message", chunk["delta"]["message"]["content"])
        yield envelope.message_end([], USAGE)

    apps = Apps(connections=connections)
    apps.publish("a", PlayedApp("chat", play))
    dify = DifySide(ModelServer(model_server.url), connections=connections)
    dify.handlers["app"] = apps.answer
    asked = call("app", app_id="a", query="q", response_mode="streaming")

    assert [event["event"] for _, event in dify.answer(asked)] == ["message", "message_end"]
    assert set(seen) == {3}
    # With one connection less the model's call gets none, with two less the run.
    with connections.one():
        with pytest.raises(ModelError, match="QueuePool limit of size 3"):
            list(dify.answer(asked))
        with connections.one():
            assert refusal(dify, asked).startswith("read app failed: QueuePool limit of size 3 overflow 0 reached")
    assert connections._in_use == 0


def test_a_connection_is_free_again_when_the_caller_goes_away() -> None:
    connections = Connections(1, 0, 0.01)
    with ScriptedModelServer() as server:
        dify = DifySide(ModelServer(server.url), connections=connections)
        replies = dify.answer(call("llm", **CHAT))
        next(replies)
        assert connections._in_use == 1
        replies.close()  # type: ignore[attr-defined]
    assert connections._in_use == 0
