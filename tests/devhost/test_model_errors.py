"""How failures of a model server reach a plugin, word for word as recorded behind Dify's own daemon."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from devhost.daemon import PluginProcess, collect
from devhost.dify_side import DifySide, ModelError, ModelServer, ReverseCall, ReverseCallError
from tests.model_server import Cut, Failure, Hang, Html, HttpError, NoReply, ScriptedModelServer

RECORDED = json.loads((Path(__file__).parent.parent / "data" / "wire" / "judge_errors.json").read_text())
MODEL = {"provider": "a/b/c", "model": "stub-chat", "model_type": "llm", "mode": "chat", "completion_params": {}}
REQ_ID = re.compile(r"req_id: [0-9a-f]{10}")


def failure_behind(case: str, message: str) -> Failure:
    """Return what the model server must do so that this message comes about."""
    if case == "[cut]":
        return Cut()
    if case == "[noreply]":
        return NoReply()
    if case == "[html]":
        return Html()
    status = int(case.removeprefix("[status=").removesuffix("]"))
    seen_by_dify = json.loads(message.partition("respond with: ")[2])["message"]
    seen_by_model = json.loads(seen_by_dify.partition("PluginInvokeError: ")[2])["message"]
    return HttpError(status, seen_by_model.partition(f"status code {status}: ")[2])


@pytest.mark.parametrize("case", RECORDED)
def test_error_reaches_the_plugin_in_the_recorded_words(
    case: str, probe: PluginProcess, model_server: ScriptedModelServer
) -> None:
    message = RECORDED[case]["data"]["message"]
    model_server.on_chat(failure_behind(case, message))
    output = collect(probe.invoke_tool("take", {"question": case, "model": MODEL}, provider="probe", timeout=20))
    kind, text = output.json[0]["llm_error"]
    assert kind == "Exception"
    assert REQ_ID.sub("req_id", text) == REQ_ID.sub("req_id", message)


def test_text_in_japanese_and_markup_is_escaped_on_its_way(model_server: ScriptedModelServer) -> None:
    model_server.on_chat(HttpError(500, "<p>過負荷</p>"))
    call = ReverseCall("llm", {"model": "m", "prompt_messages": []}, {"model": {"enabled": True, "llm": True}})
    with pytest.raises(ReverseCallError) as caught:
        list(DifySide(ModelServer(model_server.url)).answer(call))
    text = str(caught.value)
    assert text.isascii()
    assert "<" not in text
    seen_by_dify = json.loads(text.partition("respond with: ")[2])["message"]
    seen_by_model = json.loads(seen_by_dify.partition("PluginInvokeError: ")[2])
    assert seen_by_model == {
        "args": {"description": "[models] Error: API request failed with status code 500: <p>過負荷</p>"},
        "error_type": "InvokeError",
        "message": "[models] Error: API request failed with status code 500: <p>過負荷</p>",
    }


@pytest.mark.parametrize(
    ("failure", "error_type", "text"),
    [
        (
            HttpError(429),
            "InvokeBadRequestError",
            "Bad Request Error, 429 Client Error: Too Many Requests for url: URL",
        ),
        (
            HttpError(503),
            "InvokeBadRequestError",
            "Bad Request Error, 503 Server Error: Service Unavailable for url: URL",
        ),
        (Cut(), "InvokeError", "Error: Response ended prematurely"),
        (Html(), "InvokeError", "Error: Expecting value: line 1 column 1 (char 0)"),
    ],
)
def test_embedding_errors_have_the_model_plugins_words(
    failure: Failure, error_type: str, text: str, model_server: ScriptedModelServer
) -> None:
    model_server.on_embedding(failure)
    with pytest.raises(ModelError) as caught:
        ModelServer(model_server.url).embed({"model": "m", "texts": ["a"]})
    assert caught.value.error_type == error_type
    assert caught.value.message == f"[models] {text}".replace("URL", f"{model_server.url}/embeddings")


def test_a_server_that_hangs_is_left_after_the_models_timeout(model_server: ScriptedModelServer) -> None:
    model_server.on_chat(Hang(30))
    with pytest.raises(ModelError, match=r"Connection Error, .*Read timed out\. \(read timeout=0\.2\)") as caught:
        list(ModelServer(model_server.url, timeout=0.2).chat({"model": "m", "prompt_messages": []}))
    assert caught.value.error_type == "InvokeConnectionError"


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with ScriptedModelServer() as gone:
        url = gone.url
    with pytest.raises(ModelError, match=r"Server Unavailable Error, .*Connection refused") as caught:
        list(ModelServer(url).chat({"model": "m", "prompt_messages": []}))
    assert caught.value.error_type == "InvokeServerUnavailableError"


@pytest.mark.parametrize(
    ("body", "text"),
    [({}, "'choices'"), ({"choices": []}, "list index out of range"), ({"choices": [{}]}, "'message'")],
)
def test_a_reply_without_the_expected_fields_is_an_error(
    body: dict[str, Any], text: str, model_server: ScriptedModelServer
) -> None:
    model_server.on_chat(HttpError(200, body))
    with pytest.raises(ModelError) as caught:
        list(ModelServer(model_server.url).chat({"model": "m", "prompt_messages": []}))
    assert caught.value.message == f"[models] Error: {text}"
