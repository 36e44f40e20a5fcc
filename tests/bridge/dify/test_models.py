"""Calling the workspace's models: parameters, refusals, replies of every kind, what it costs."""

import json
import threading
from collections.abc import Callable
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from dify_plugin.entities.model.llm import LLMUsage
from dify_plugin.entities.model.message import TextPromptMessageContent
from dify_plugin.entities.model.text_embedding import TextEmbeddingModelConfig

from bridge.dify.models import DifyEmbedder, DifyJudge, NoModel
from evaluation.errors import JudgeError, Reason
from evaluation.judging.models import Charge

SELECTOR = {"provider": "a/b/c", "model": "judge-1", "mode": "chat", "model_type": "llm", "completion_params": {}}


def usage(tokens: tuple[int, int] = (10, 5), price: str = "0.0021", currency: str = "USD") -> LLMUsage:
    empty = LLMUsage.empty_usage()
    prompt, completion = tokens
    return empty.model_copy(
        update={
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_price": Decimal(price),
            "currency": currency,
        }
    )


class Models:
    """A session's `model`: notes every call, answers or raises what it is given."""

    def __init__(self, answer: Callable[[dict[str, Any]], Any]) -> None:
        self.calls: list[dict[str, Any]] = []
        self._answer = answer
        self.llm = SimpleNamespace(invoke=self._invoke)
        self.text_embedding = SimpleNamespace(invoke=self._invoke)

    def _invoke(self, **call: Any) -> Any:
        self.calls.append(call)
        answer = self._answer(call)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def parameters(self) -> list[dict[str, Any]]:
        return [call["model_config"]["completion_params"] for call in self.calls]


def said(content: Any, cost: Any = None) -> Any:
    return SimpleNamespace(message=SimpleNamespace(content=content), usage=cost)


def refusing(*names: str) -> Callable[[dict[str, Any]], Any]:
    """A model that refuses these parameters, the first of them first."""

    def answer(call: dict[str, Any]) -> Any:
        given = {**call["model_config"]["completion_params"], **({"stop": call["stop"]} if call["stop"] else {})}
        for name in names:
            if name in given:
                return Exception(f"Unsupported parameter: '{name}' is not supported with this model.")
        return said("ok")

    return answer


def failed(call: Callable[[], Any]) -> JudgeError:
    with pytest.raises(JudgeError) as caught:
        call()
    return caught.value


def test_messages_and_selector_reach_the_model_as_they_are() -> None:
    models = Models(lambda _: said("はい", usage()))
    selector = {**SELECTOR, "completion_params": {"top_p": 0.5, "max_tokens": 99}}
    before = json.dumps(selector)
    text, charge = DifyJudge(models, selector).complete("指示", "データ {x} 😀")
    assert (text, charge) == ("はい", Charge(10, 5, 0.0021, "USD"))
    [call] = models.calls
    assert [(message.role.value, message.content) for message in call["prompt_messages"]] == [
        ("system", "指示"),
        ("user", "データ {x} 😀"),
    ]
    assert call["model_config"] == {**selector, "completion_params": {"temperature": 0, "top_p": 0.5, "max_tokens": 99}}
    assert (call["stream"], call["stop"]) == (False, None)
    assert json.dumps(selector) == before


@pytest.mark.parametrize("params", [{}, None])
def test_temperature_is_0_unless_the_user_set_one(params: Any) -> None:
    models = Models(lambda _: said("ok"))
    DifyJudge(models, {**SELECTOR, "completion_params": params}).complete("s", "u")
    without = {name: value for name, value in SELECTOR.items() if name != "completion_params"}
    DifyJudge(models, without).complete("s", "u")
    DifyJudge(models, {**SELECTOR, "completion_params": {"temperature": 0.7}}).complete("s", "u")
    assert models.parameters == [{"temperature": 0}, {"temperature": 0}, {"temperature": 0.7}]


def test_refused_parameter_is_left_out_and_not_sent_again() -> None:
    models = Models(refusing("temperature"))
    judge = DifyJudge(models, {**SELECTOR, "completion_params": {"top_p": 0.5}})
    assert [judge.complete("s", "u")[0] for _ in range(2)] == ["ok", "ok"]
    assert models.parameters == [{"temperature": 0, "top_p": 0.5}, {"top_p": 0.5}, {"top_p": 0.5}]


def test_each_refused_parameter_is_left_out() -> None:
    models = Models(refusing("temperature", "top_p", "stop"))
    chosen = {"temperature": 0.2, "top_p": 0.5, "stop": ["\n"], "seed": 1}
    assert DifyJudge(models, {**SELECTOR, "completion_params": chosen}).complete("s", "u")[0] == "ok"
    assert models.parameters[-1] == {"seed": 1}
    assert models.calls[-1]["stop"] is None
    assert len(models.calls) == 4
    assert chosen == {"temperature": 0.2, "top_p": 0.5, "stop": ["\n"], "seed": 1}


def test_refusal_of_what_was_not_sent_is_a_failure_not_a_loop() -> None:
    models = Models(lambda _: Exception("Unsupported parameter: 'json_schema' is not supported with this model."))
    assert failed(lambda: DifyJudge(models, SELECTOR).complete("s", "u")).reason is Reason.MODEL_ERROR
    assert len(models.calls) == 1
    models = Models(lambda _: Exception("Unsupported value: 'temperature' does not support 0 with this model."))
    assert failed(lambda: DifyJudge(models, SELECTOR).complete("s", "u")).reason is Reason.MODEL_ERROR
    assert len(models.calls) == 2


def test_parallel_calls_that_are_all_refused_are_all_asked_again() -> None:
    together = threading.Barrier(4, timeout=5)

    def answer(call: dict[str, Any]) -> Any:
        if call["model_config"]["completion_params"]:
            together.wait()
            return Exception("Unsupported value: 'temperature' does not support 0")
        return said("ok")

    judge, replies = DifyJudge(Models(answer), SELECTOR), []
    threads = [threading.Thread(target=lambda: replies.append(judge.complete("s", "u")[0])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert replies == ["ok"] * 4


@pytest.mark.parametrize(
    ("stop", "sent"), [(["\n"], ["\n"]), (("a", "b"), ["a", "b"]), ([], None), ("a", None), (None, None)]
)
def test_stop_words_travel_apart_from_the_parameters(stop: Any, sent: Any) -> None:
    models = Models(lambda _: said("ok"))
    DifyJudge(models, {**SELECTOR, "completion_params": {"stop": stop}}).complete("s", "u")
    assert models.parameters == [{"temperature": 0}]
    assert models.calls[0]["stop"] == sent


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("a", "a"),
        ("", ""),
        (None, ""),
        ([], ""),
        ([TextPromptMessageContent(data="a"), TextPromptMessageContent(data="b")], "ab"),
        ([SimpleNamespace(other=1), TextPromptMessageContent(data="b")], "b"),
        (5, ""),
    ],
)
def test_reply_of_every_kind_is_a_text(content: Any, text: str) -> None:
    assert DifyJudge(Models(lambda _: said(content)), SELECTOR).complete("s", "u") == (text, Charge())


def test_failure_has_its_reason_and_its_wait() -> None:
    error = failed(
        lambda: DifyJudge(Models(lambda _: Exception("Error code: 429. Please try again in 2s")), SELECTOR).complete(
            "s", "u"
        )
    )
    assert (error.reason, error.retry_after) == (Reason.RATE_LIMITED, 2.0)
    assert isinstance(error.__cause__, Exception)


def test_half_of_a_character_is_sent_as_a_question_mark() -> None:
    models = Models(lambda _: said("ok"))
    DifyJudge(models, SELECTOR).complete("s", "絵文字\ud83d。")
    assert models.calls[0]["prompt_messages"][1].content == "絵文字?。"


def test_name_is_the_models() -> None:
    assert DifyJudge(Models(said), SELECTOR).name == "judge-1"


def embedded(vectors: Any, cost: Any = None) -> Any:
    cost = cost or SimpleNamespace(total_tokens=7, total_price=Decimal("0.001"), currency="USD")
    return SimpleNamespace(embeddings=vectors, usage=cost)


def test_texts_are_embedded_with_the_selected_model() -> None:
    models = Models(lambda _: embedded([[1.0, 2.0], [3.0, 4.0]]))
    embedder = DifyEmbedder(models, {"provider": "a/b/c", "model": "embed-1", "mode": "chat"})
    assert embedder.embed(("東京", "b\ud83d")) == ([[1.0, 2.0], [3.0, 4.0]], Charge(7, 0, 0.001, "USD"))
    [call] = models.calls
    assert call["model_config"] == TextEmbeddingModelConfig(provider="a/b/c", model="embed-1")
    assert call["texts"] == ["東京", "b?"]
    assert embedder.name == "embed-1"


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("Error code: 401 - no", Reason.MODEL_UNAUTHORIZED),
        ("Failed to parse response: Input should be a valid number", Reason.EMBEDDING_INVALID),
        ("[models] Error: odd", Reason.MODEL_ERROR),
    ],
)
def test_failing_embedding_model_has_its_reason(message: str, reason: Reason) -> None:
    embedder = DifyEmbedder(Models(lambda _: Exception(message)), {"provider": "p", "model": "m"})
    assert failed(lambda: embedder.embed(["a"])).reason is reason


def test_without_a_model_every_call_says_so() -> None:
    error = failed(lambda: NoModel().complete("s", "u"))
    assert (error.reason, error.values, NoModel().name) == (Reason.MODEL_NOT_SELECTED, {"field": "model"}, "")
