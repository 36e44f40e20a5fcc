"""Replies inside the words of a tool call and other wrappings."""

import json
from pathlib import Path
from typing import Any

import pytest

from evaluation.judging.replies import JudgementOf, Shape, read_reply
from evaluation.judging.wrappers import unwrapped

REPORT = Path(__file__).parents[2] / "data" / "reports" / "04_judge_wrapped_in_tool_call" / "replies.json"
SHAPE = Shape(JudgementOf, "verdicts")
REPLY = {"verdicts": [{"id": 1, "verdict": 1}, {"id": 2, "verdict": 0}]}
TEXT = json.dumps(REPLY)


def verdicts(text: str) -> list[bool] | None:
    reply = read_reply(text, SHAPE)
    return None if reply is None else [item.verdict for item in reply.items]


@pytest.mark.parametrize("text", json.loads(REPORT.read_text()).values())
def test_the_reported_replies_count(text: str) -> None:
    assert verdicts(text) == [True, False]


@pytest.mark.parametrize(
    "value",
    [
        [REPLY],
        {"name": "submit", "arguments": REPLY},
        {"name": "submit", "arguments": TEXT},
        {"name": "submit", "parameters": REPLY},
        {"type": "function", "function": {"name": "submit", "arguments": TEXT}},
        {"type": "tool_use", "id": "t1", "name": "submit", "input": REPLY},
        {"tool_calls": [{"id": "c1", "type": "function", "function": {"name": "submit", "arguments": TEXT}}]},
        {"tool_calls": [{"name": "submit", "args": REPLY}]},
        {"function_call": {"name": "submit", "arguments": REPLY}},
        {"action": "submit", "action_input": REPLY},
        {"recipient_name": "functions.submit", "parameters": REPLY},
        {"response": REPLY},
        {"result": REPLY},
        {"result": TEXT},
        {"result": [REPLY]},
        {"output": {"result": REPLY}},
        {"status": "ok", "result": REPLY},
        {"draft": {"verdicts": []}, "final": REPLY},
        {"answer": REPLY},
        {"status": "ok", "data": REPLY},
        {"tool_name": "submit", "tool_input": REPLY},
        {"call": {"name": "submit", "arguments": TEXT}},
    ],
)  # fmt: skip
def test_a_wrapped_reply_counts(value: Any) -> None:
    text = json.dumps(value)
    assert verdicts(text) == [True, False]
    assert verdicts(f"```json\n{text}\n```") == [True, False]
    assert verdicts(f"<tool_call>\n{text}\n</tool_call>") == [True, False]
    assert verdicts(f"[TOOL_CALLS] {text}") == [True, False]


@pytest.mark.parametrize(
    "value",
    [
        {"draft": REPLY},
        {"example": REPLY},
        {"thought": REPLY, "result": "…"},
        {"reasoning": {"result": REPLY}},
        {"example": {"result": REPLY}},
        {"name": "example", "arguments": REPLY},
        {"type": "draft", "result": REPLY},
        {"draft": True, "result": REPLY},
        {"title": "下書き", "result": REPLY},
        {"name": "submit", "parameters": {"type": "object", "properties": {}, "example": REPLY}},
        {"arguments": REPLY},
        {"input": REPLY},
        {"question": {"result": "…"}, "contexts": [TEXT]},
        [REPLY, REPLY],
        # What the judge was given.
        {"question": "…", "answer": TEXT},
        {"tool_calls": [{"name": "submit", "arguments": REPLY}, {"name": "submit", "arguments": REPLY}]},
        {"result": {"result": {"result": {"result": {"result": {"result": REPLY}}}}}},
    ],
)  # fmt: skip
def test_what_is_no_reply_is_not_taken_out_of_its_wrapping(value: Any) -> None:
    assert verdicts(json.dumps(value)) is None


def test_a_cut_call_keeps_what_is_complete() -> None:
    reply = read_reply('{"name": "submit", "arguments": {"verdicts": [{"id": 1, "verdict": 1}, {"id": 2, "verd', SHAPE)
    assert reply is not None
    assert ([item.verdict for item in reply.items], reply.cut) == ([True], True)


def test_the_last_reply_wins_also_when_it_is_wrapped() -> None:
    other = {"verdicts": [{"id": 1, "verdict": 0}]}
    assert verdicts(f"{TEXT}\n{json.dumps({'result': other})}") == [False]
    assert verdicts(f"{json.dumps({'result': other})}\n{TEXT}") == [True, False]


def test_what_wraps_nothing_is_given_as_it_is() -> None:
    assert list(unwrapped("x")) == ["x"]
    assert list(unwrapped({"result": "x"})) == [{"result": "x"}]
