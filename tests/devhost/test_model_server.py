"""The scripted model server that the other tests lean on."""

import math
from typing import Any

import pytest
import requests

from tests.model_server import HttpError, ScriptedModelServer, bigram_vector


def ask(server: ScriptedModelServer, system: str, user: str = "u") -> requests.Response:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    return requests.post(f"{server.url}/chat/completions", json={"model": "m", "messages": messages}, timeout=10)


def reply(server: ScriptedModelServer, system: str, user: str = "u") -> Any:
    return ask(server, system, user).json()["choices"][0]["message"]["content"]


def test_replies_go_by_the_prompts_name(model_server: ScriptedModelServer) -> None:
    model_server.on("faithfulness.verdicts", {"verdicts": []})
    model_server.on_chat("the bot")
    assert reply(model_server, "rag-evaluator faithfulness.verdicts v1 ja\nJudge.") == '{"verdicts": []}'
    assert reply(model_server, "You are a helpful bot.") == "the bot"
    [call] = model_server.calls("faithfulness.verdicts")
    assert (call.version, call.language, call.user) == ("1", "ja", "u")
    assert call.ended is not None
    assert model_server.judge_calls == [call]


def test_a_list_is_used_one_by_one_and_its_last_reply_stays(model_server: ScriptedModelServer) -> None:
    model_server.on("p", ["one", HttpError(500, "no"), "two"])
    answers = [ask(model_server, "rag-evaluator p v1 en") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 500, 200, 200]
    assert answers[3].json()["choices"][0]["message"]["content"] == "two"


def test_a_function_sees_the_request(model_server: ScriptedModelServer) -> None:
    model_server.on("p", lambda request: {"seen": request.user})
    assert reply(model_server, "rag-evaluator p v2 zh", "問い") == '{"seen": "問い"}'


def test_a_prompt_without_a_script_is_an_error(model_server: ScriptedModelServer) -> None:
    answer = ask(model_server, "rag-evaluator p v1 ja")
    assert answer.status_code == 501
    assert "no reply for the prompt p" in answer.text


def test_characters_of_judge_calls_are_counted_and_those_of_others_not(model_server: ScriptedModelServer) -> None:
    model_server.on("p", "x")
    ask(model_server, "rag-evaluator p v1 ja", "123")
    ask(model_server, "bot", "123456")
    assert model_server.prompt_characters() == len("rag-evaluator p v1 ja") + 3


def test_default_vectors_are_of_unit_length_and_near_for_texts_alike() -> None:
    question, same, other = map(bigram_vector, ["有給休暇は何日ですか", "有給休暇は何日？", "the weather"])
    assert math.hypot(*question) == pytest.approx(1.0, abs=1e-12)
    assert math.sumprod(question, same) > math.sumprod(question, other)
    assert math.hypot(*bigram_vector("")) == pytest.approx(1.0, abs=1e-12)


def test_vectors_can_be_set(model_server: ScriptedModelServer) -> None:
    def embed(*texts: str) -> list[list[float]]:
        body = {"model": "e", "input": list(texts)}
        data = requests.post(f"{model_server.url}/embeddings", json=body, timeout=10).json()["data"]
        return [item["embedding"] for item in data]

    model_server.embed_as("a", [0.0, 0.0])
    assert embed("a", "b") == [[0.0, 0.0], bigram_vector("b")]
    model_server.on_embedding(lambda texts: [[float(len(text))] for text in texts[:1]])
    assert embed("abc", "b") == [[3.0]]
    assert len(model_server.embedding_calls) == 2
