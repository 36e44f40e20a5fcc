"""Nothing that happens in a tool leaves it other than as its outputs."""

import json
import logging
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from dify_plugin.config.logger_format import plugin_logger_handler
from dify_plugin.entities.tool import ToolRuntime

from bridge.dify.messages import sendable
from bridge.edge import EvaluatorTool, Output, OutputFile, is_true, language_of
from evaluation.errors import EvaluationError, Reason
from evaluation.texts import Texts

SECRET = "sk-planted-secret"


class Probe(EvaluatorTool):
    """A tool that does what the test says."""

    does: Callable[[], Output]

    def run(self, parameters: Mapping[str, Any], texts: Texts) -> Output:  # noqa: ARG002
        return self.does()

    def failed(self, error: EvaluationError, texts: Texts) -> Output:
        return Output(texts.reason(error.reason, error.values), {"score": None, "reason": error.reason.value})


def call(does: Callable[[], Output], **parameters: Any) -> list[Any]:
    session: Any = SimpleNamespace(app_id="a1")
    tool = Probe(runtime=ToolRuntime(credentials={}, user_id=None, session_id=None), session=session)
    tool.does = does  # type: ignore[method-assign]
    return list(tool._invoke(parameters))


def raising(error: BaseException) -> Callable[[], Output]:
    def does() -> Output:
        raise error

    return does


def content(messages: list[Any]) -> tuple[str, dict[str, Any], dict[str, Any]]:
    kinds = [message.type.value for message in messages]
    assert kinds[:2] == ["text", "json"]
    assert set(kinds[2:]) <= {"variable"}
    variables = {m.message.variable_name: m.message.variable_value for m in messages[2:]}
    return messages[0].message.text, messages[1].message.json_object, variables


def test_text_json_and_each_variable_are_given_in_this_order() -> None:
    text, data, variables = content(call(lambda: Output("行", {"score": 0.5, "passed": None, "details": {"a": [1]}})))
    assert text == "行"
    assert data == variables == {"score": 0.5, "passed": None, "details": {"a": [1]}}
    assert list(variables) == ["score", "passed", "details"]


def test_files_come_last() -> None:
    messages = call(lambda: Output("t", {"a": 1}, [OutputFile("report.html", "text/html", b"<p>")]))
    assert [message.type.value for message in messages] == ["text", "json", "variable", "blob"]
    assert messages[-1].message.blob == b"<p>"
    assert messages[-1].meta == {"mime_type": "text/html", "filename": "report.html"}


def test_error_that_a_user_may_be_told_is_worded_in_the_language_of_the_question() -> None:
    error = EvaluationError(Reason.NO_QUESTION)
    for question, words in (
        ("何日ですか", "質問がありません"),
        ("How many?", "There is no question"),
        ("这有几天", "没有问题"),
    ):
        text, _, variables = content(call(raising(error), question=question))
        assert words in text
        assert variables == {"score": None, "reason": "no_question"}


@pytest.mark.parametrize(
    "error",
    [
        KeyError(SECRET),
        RuntimeError(f"request failed: Bearer {SECRET}"),
        SystemExit(SECRET),
        KeyboardInterrupt(SECRET),
        RecursionError(SECRET),
        MemoryError(SECRET),
        AssertionError(SECRET),
        BaseException(SECRET),
        UnicodeEncodeError("utf-8", SECRET, 0, 1, SECRET),
    ],
    ids=lambda error: type(error).__name__,
)
def test_anything_else_is_a_general_sentence_without_what_it_said(error: BaseException) -> None:
    messages = call(raising(error), question="何日ですか")
    text, _, variables = content(messages)
    assert text.startswith("評価中に予期しない問題が起きました")
    assert variables == {"score": None, "reason": "internal_error"}
    assert SECRET not in json.dumps([message.model_dump(mode="json") for message in messages])


def test_log_tells_the_place_but_not_what_the_error_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, logger="rag_evaluator"):
        call(raising(RuntimeError(SECRET)))
    [record] = caplog.records
    assert "RuntimeError in test_edge.py" in record.message
    assert SECRET not in record.message
    assert SECRET not in plugin_logger_handler.format(record)


@pytest.mark.parametrize("value", [{1, 2}, object(), b"x", {"a": {1}}])
def test_output_that_is_no_json_is_an_unexpected_error(value: Any) -> None:
    _, _, variables = content(call(lambda: Output("t", {"score": value})))
    assert variables["reason"] == "internal_error"


def test_halves_of_characters_can_be_written_on_the_wire() -> None:
    messages = call(lambda: Output("a\ud83d", {"details": {"reason\udc00": ["\ud83d", "😀"]}}))
    for message in messages:
        message.model_dump_json()
    text, data, _ = content(messages)
    assert (text, data) == ("a?", {"details": {"reason?": ["?", "😀"]}})


def test_what_can_be_sent_stays_as_it_is() -> None:
    value = {"a": [1, 0.1, None, True, "東京 😀 \n"], "b": {}}
    assert sendable(value) == value
    with pytest.raises(TypeError):
        sendable({"a": object()})


@pytest.mark.parametrize(
    ("parameters", "language"),
    [
        ({"question": "何日ですか"}, "ja"),
        ({"question": "How many?"}, "en"),
        ({"question": "这有几天"}, "zh"),
        ({"question": "何日ですか", "language": "en"}, "en"),
        ({"language": "auto", "question": "llm.text", "answer": "10日です"}, "ja"),
        ({"question": None, "contexts": [{"content": "日本語です", "metadata": {"score": 0.5}}]}, "ja"),
        ({"question": "5", "golden": "質問はこちら\t参照"}, "ja"),
        ({"question": ["何日ですか"]}, "ja"),
        ({"question": 5, "answer": object()}, "en"),
        ({}, "en"),
    ],
)
def test_language_from_the_setting_or_the_inputs(parameters: dict[str, Any], language: str) -> None:
    assert language_of(parameters) == language


@pytest.mark.parametrize(
    ("parameters", "language"),
    [
        ({}, "zh"),
        ({"language": "auto", "question": "5", "answer": "llm.text"}, "zh"),
        ({"question": "何日ですか"}, "ja"),
        ({"language": "en"}, "en"),
    ],
)
def test_the_usual_language_is_that_of_inputs_without_any(parameters: dict[str, Any], language: str) -> None:
    assert language_of(parameters, lambda: "zh") == language
    assert language_of(parameters, lambda: None) == (language if language != "zh" else "en")


def test_input_that_breaks_the_choice_of_language_breaks_no_chat() -> None:
    class Broken(str):
        __slots__ = ()

        def strip(self, *_: Any) -> str:  # type: ignore[override]
            raise RuntimeError(SECRET)

    text, _, variables = content(call(lambda: Output("t", {}), question=Broken("x"), language="ja"))
    assert variables["reason"] == "internal_error"
    assert SECRET not in text


@pytest.mark.parametrize(
    ("value", "true"),
    [
        (True, True),
        ("true", True),
        (" YES ", True),
        ("1", True),
        (1, True),
        (False, False),
        ("false", False),
        (0, False),
        ("", False),
        (None, False),
        ("no", False),
        ([], False),
    ],
)
def test_boolean_parameter(value: object, true: bool) -> None:
    assert is_true(value) is true
