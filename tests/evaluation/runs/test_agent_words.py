"""What an agent says, told from what it says to itself."""

from typing import Any

import pytest

from evaluation.errors import Reason
from evaluation.runs.app_events import read_events
from tests.evaluation.pace import assert_linear
from tests.evaluation.runs.events import END, SEARCHED, call_log, finished, message, of_report, refused, says, thought


def test_a_react_agents_answer_is_the_last_part() -> None:
    answer = of_report("17_agent_thoughts/react")

    assert (answer.text, answer.contexts.texts) == (
        "有給休暇は10日です。",
        ["有給休暇は入社6か月後に10日付与されます。"],
    )


@pytest.mark.parametrize(
    ("events", "text"),
    [
        # Function calling: words before a tool call are no part of the answer; a thought repeats the answer at the end.
        ([*says("規程を確認しますので、", "お待ちください。"), *SEARCHED, *says("10日", "です。")], "10日です。"),
        ([*says("確認します。"), *SEARCHED, *says("10日", "です。"), thought("10日です。", number=2)], "10日です。"),
        ([*says("確認します。"), *SEARCHED, *says("もう一度"), *SEARCHED, *says(*"休暇は10日。")], "休暇は10日。"),
        ([*says(*"有給休暇は1"), *says("0日です。"), thought("有給休暇は10日です。")], "有給休暇は10日です。"),
        # ReAct, as Dify streams it: letter by letter what it thinks, without the labels, then the answer in one piece.
        ([*says(*"規程を調べよう。"), *SEARCHED, *says(*"10日と分かった。\n"), *says("10日です。")], "10日です。"),
        ([*says(*"質問は挨拶である。"), *says("こんにちは。")], "こんにちは。"),
        # It gave no answer of its own: what it thought is what was shown.
        ([*says(*"有給休暇は10日です。"), *says("")], "有給休暇は10日です。"),
        ([*says(*"有給休暇は10日です。"), *says("有給休暇は10日です。")], "有給休暇は10日です。"),
        # With its labels.
        ([*says("Thought: 挨拶だ。\n", "こんにちは。")], "こんにちは。"),
        ([*says("Thought: 挨拶だ。\nFinal Answer: ", "こんにちは。")], "こんにちは。"),
        ([*says("**Thought:** a\n**Action:** x\n", *"Observation: b\n", "Final Answer: 10日\nです。")], "10日\nです。"),
        ([*says("Thought: 分かった。\n10日", "です。")], "10日です。"),
        ([*says("Thought: 答えは10日です。")], "答えは10日です。"),
        ([*says("考えます。\n最終回答：", "10日です。")], "10日です。"),
        ([*says('Thought: a\nAction: {"action": "Final Answer", "action_input": "10日です。"}')], "10日です。"),
        ([*says('Thought: a\nAction:\n```json\n{"action": "Final Answer", "action_input": "10日"}\n```')], "10日"),
        ([*says('{"action": "reserve", "action_input": "10日"}')], '{"action": "reserve", "action_input": "10日"}'),
        # An agent may think in marks, too.
        ([*says("<think>20日か</think>10日です。")], "10日です。"),
        ([*says("10日です。手順は", "次のとおり。\nAction を押す。")], "10日です。手順は次のとおり。\nAction を押す。"),
    ],
)  # fmt: skip
def test_an_agents_answer_is_what_it_says_last(events: list[dict[str, Any]], text: str) -> None:
    assert read_events([*events, END]).text == text


def test_an_agent_that_says_nothing_after_its_tools_has_not_answered() -> None:
    assert refused(*says("確認します。"), *SEARCHED, END).reason is Reason.APP_EMPTY_ANSWER


def test_what_an_agent_node_says_before_it_calls_a_tool_is_no_part_of_its_answer() -> None:
    events = [
        message("回答：", "answer"),
        message("確認します。", "agent"),
        call_log(),
        message("10日です。", "agent"),
        END,
        finished(),
    ]

    assert read_events(events).text == "回答：10日です。"


@pytest.mark.parametrize("unit", ["a", "Thought: a\n", "Action:", "Final Answer:", "\n", " ", "*", "Observation: a"])
def test_the_time_grows_with_the_length(unit: str) -> None:
    assert_linear(lambda text: read_events([*says(*text), *says("10日です"), END]), lambda count: unit * count)
