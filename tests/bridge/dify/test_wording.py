"""What is left of an app's error when its wrapping is taken off."""

import json
from pathlib import Path

import pytest

from bridge.dify.apps import app_failure
from bridge.dify.wording import useful
from evaluation.errors import Reason
from evaluation.report.run_rows import row_failure as in_words
from evaluation.texts import load_texts
from tests.evaluation.sample_runs import failed

WIRE = Path(__file__).parents[2] / "data" / "wire"
KEY = "Incorrect API key provided: sk-abc. You can find your API key at your provider's page."
PLUGIN = json.dumps({"args": {}, "error_type": "InvokeAuthorizationError", "message": f"[models] Error: {KEY}"})
BODY = json.dumps({"error": {"message": KEY, "type": "invalid_request_error", "code": "invalid_api_key"}})


@pytest.mark.parametrize(
    "text",
    [
        KEY,
        f"[models] Error: {KEY}",
        f"[openai] Authorization Error, Error code: 401 - {{'error': {{'message': {KEY!r}, 'param': None}}}}",
        f"Run failed: [models] Error: API request failed with status code 401: {BODY}",
        f"Node LLM run failed: PluginInvokeError: {PLUGIN}",
        f"Failed to transform agent message: req_id: 1a2b3c4d PluginInvokeError: {PLUGIN}",
        f"req_id: 0629f61304 PluginInvokeError: {PLUGIN}",
        "invoke app failed: request failed with status code: 400 and respond with: "
        + json.dumps({"code": "invalid_param", "message": f"req_id: 1 PluginInvokeError: {PLUGIN}", "status": 400})
        + "\n",
        f"An error occurred in the retrieval: InvokeAuthorizationError: {KEY}",
        json.dumps({"detail": [{"msg": KEY, "loc": ["body"]}]}),
        json.dumps({"error": KEY}),
    ],
)
def test_the_providers_words_are_left(text: str) -> None:
    assert useful(text) == KEY


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[models] Error: PluginInvokeError: API key invalid", "API key invalid"),
        ("query is required in input form", "query is required in input form"),
        ("質問が長すぎます：2000文字まで", "質問が長すぎます：2000文字まで"),
        ("<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>", "502 Bad Gateway"),
        ("Run failed: <!DOCTYPE html><html><body><h1>Sorry</h1><p>Down</p></body></html>", "Sorry Down"),
        ("Error: {not json", "{not json"),
        ("Error: {'a': 1}", "{'a': 1}"),
        ("Error:", "Error:"),
        ("[models] Error:", "Error:"),
        ("", ""),
        ("{" * 5000 + "}" * 5000, "{" * 5000 + "}" * 5000),
        ("503 Server Error: Service Unavailable", "503 Server Error: Service Unavailable"),
        (
            "Run failed: [models] Error: API request failed with status code 400: no such thing",
            "API request failed with status code 400: no such thing",
        ),
        ("Variable {{#llm.text#}} not found", "Variable {{#llm.text#}} not found"),
    ],
)
def test_what_has_no_wrapping_or_nothing_inside_stays(text: str, said: str) -> None:
    assert useful(text) == said


def test_of_every_recorded_model_error_the_words_are_left() -> None:
    recorded = json.loads((WIRE / "judge_errors.json").read_text(encoding="utf-8"))
    assert len(recorded) == 9
    for name, answer in recorded.items():
        words = useful(answer["data"]["message"])
        for wrapping in ("PluginInvokeError", "req_id", "[models]", "{", "\\", "status code"):
            assert wrapping not in words, name
        assert len(words) > 5, name


def test_a_report_shows_an_apps_error_to_its_useful_part() -> None:
    error = app_failure(
        "invoke app failed: request failed with status code: 400 and respond with: "
        + json.dumps({"code": "completion_request_error", "message": f"[models] Error: {KEY}", "status": 400})
    )
    assert (error.reason, error.values["text"]) == (Reason.APP_FAILED, KEY)
    shown = in_words(failed(message=str(error.values["text"])), load_texts("ja"))
    assert shown == f"アプリがエラーになりました（{KEY}）"
