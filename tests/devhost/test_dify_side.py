"""Requests to the model server and refusals, without a plugin process."""

from decimal import Decimal
from typing import Any

import pytest

from devhost.dify_side import DifySide, ModelServer, Prices, ReverseCall, ReverseCallError
from tests.model_server import ScriptedModelServer

MESSAGES = [{"role": "system", "content": "s", "name": None}, {"role": "user", "content": "u", "name": None}]


def chat(server: ModelServer, **fields: Any) -> list[dict[str, Any]]:
    return list(server.chat({"model": "m", "prompt_messages": MESSAGES, **fields}))


def test_the_request_carries_messages_parameters_and_key(model_server: ScriptedModelServer) -> None:
    chat(
        ModelServer(model_server.url + "/", "secret"),
        completion_params={"temperature": 0, "response_format": "json_object"},
        stop=["END"],
    )
    [request] = model_server.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == "Bearer secret"
    assert request.body == {
        "model": "m",
        "stream": False,
        "temperature": 0,
        "response_format": {"type": "json_object"},
        "stop": ["END"],
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],
    }


def test_a_json_schema_is_sent_as_an_object(model_server: ScriptedModelServer) -> None:
    chat(
        ModelServer(model_server.url),
        completion_params={"response_format": "json_schema", "json_schema": '{"name": "n", "schema": {}}'},
    )
    assert model_server.requests[0].body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "n", "schema": {}},
    }


def test_content_in_parts_is_sent_as_text_parts(model_server: ScriptedModelServer) -> None:
    parts = [{"type": "text", "data": "あ"}, {"type": "text", "data": "い"}]
    chat(ModelServer(model_server.url), prompt_messages=[{"role": "user", "content": parts}])
    assert model_server.requests[0].body["messages"][0]["content"] == [
        {"type": "text", "text": "あ"},
        {"type": "text", "text": "い"},
    ]


def test_a_call_without_stream_is_one_chunk_that_hides_the_finish_reason(model_server: ScriptedModelServer) -> None:
    model_server.finish_reason = "length"
    model_server.on_chat("cut short")
    [chunk] = chat(ModelServer(model_server.url))
    assert chunk["delta"]["message"]["content"] == "cut short"
    assert chunk["delta"]["finish_reason"] == ""


def test_a_streamed_call_gives_the_text_in_parts_and_usage_at_the_end(model_server: ScriptedModelServer) -> None:
    model_server.on_chat("一二三四五六七八九十")
    chunks = chat(ModelServer(model_server.url), stream=True)
    assert [chunk["delta"]["message"]["content"] for chunk in chunks] == ["一二三四五六七八", "九十", ""]
    assert [chunk["delta"]["index"] for chunk in chunks] == [0, 1, 2]
    assert [chunk["delta"]["usage"] is None for chunk in chunks] == [True, True, False]
    assert chunks[-1]["delta"]["finish_reason"] == "stop"
    assert chunks[-1]["delta"]["usage"]["completion_tokens"] == 10


def test_prices_are_charged_by_token_and_written_as_text(model_server: ScriptedModelServer) -> None:
    model_server.usage = {"prompt_tokens": 2000, "completion_tokens": 500, "total_tokens": 2500}
    prices = Prices(Decimal("0.15"), Decimal("0.60"), Decimal("0.000001"))
    usage = chat(ModelServer(model_server.url, prices=prices))[0]["delta"]["usage"]
    # 2000 x 0.15 / 10^6 = 0.0003; 500 x 0.60 / 10^6 = 0.0003
    assert (usage["prompt_price"], usage["completion_price"], usage["total_price"]) == (
        "0.0003000",
        "0.0003000",
        "0.0006000",
    )


def test_a_server_that_reports_no_usage_gets_an_estimate(model_server: ScriptedModelServer) -> None:
    model_server.usage = {}
    model_server.on_chat("1234567")
    usage = chat(ModelServer(model_server.url))[0]["delta"]["usage"]
    assert usage["completion_tokens"] == 3  # 7 characters, three a token, rounded up


def test_embeddings_may_come_from_another_server(model_server: ScriptedModelServer) -> None:
    with ScriptedModelServer() as other:
        models = ModelServer(model_server.url, "a", embedding_base_url=other.url, embedding_api_key="b")
        result = models.embed({"model": "e", "texts": ["あ", "い"]})
        assert other.requests[0].body["input"] == ["あ", "い"]
        assert other.requests[0].headers["authorization"] == "Bearer b"
    assert len(result["embeddings"]) == 2
    assert model_server.requests == []


@pytest.mark.parametrize("kind", ["rerank", "app", "no such thing"])
def test_other_calls_are_refused_in_the_daemons_words(kind: str) -> None:
    with pytest.raises(ReverseCallError, match=f"^unsupported invoke type: {kind}$"):
        list(DifySide(ModelServer("http://127.0.0.1:9")).answer(ReverseCall(kind, {})))


def test_a_further_kind_of_call_is_one_more_handler() -> None:
    side = DifySide(ModelServer("http://127.0.0.1:9"))
    side.handlers["app"] = lambda call: iter([("stream", {"event": "message", "answer": call.request["query"]})])
    call = ReverseCall("app", {"query": "q"}, {"app": {"enabled": True}})
    assert list(side.answer(call)) == [("stream", {"event": "message", "answer": "q"})]


@pytest.mark.parametrize(
    ("kind", "permission", "name"),
    [
        ("llm", {"model": {"enabled": True, "llm": False}}, "llm"),
        ("llm", {"model": None}, "llm"),
        ("text_embedding", {"model": {"enabled": False, "text_embedding": True}}, "text-embedding"),
        ("storage", {}, "storage"),
    ],
)
def test_what_the_manifest_does_not_declare_is_refused(kind: str, permission: dict[str, Any], name: str) -> None:
    side = DifySide(ModelServer("http://127.0.0.1:9"))
    with pytest.raises(
        ReverseCallError, match=f"^permission denied, you need to enable {name} access in plugin manifest$"
    ):
        list(side.answer(ReverseCall(kind, {}, permission)))
