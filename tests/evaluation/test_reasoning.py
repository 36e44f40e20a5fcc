"""What is said and what was only thought, in replies of judges and in answers of bots."""

import re
from collections.abc import Callable

import pytest

from evaluation.reasoning import Quoting, Spoken, spoken
from tests.evaluation.pace import assert_linear

ANSWER = "有給休暇は10日です。"
THOUGHT = '20日だったかもしれない。{"verdict": 1} いや'
DIFY = (
    '<details style="color:gray;background-color: #f8f8f8;padding: 8px;border-radius: 4px;" open>'
    " <summary> Thinking... </summary>"
)
MARKS = [
    ("<think>", "</think>"),
    ("<THINK>", "</Think>"),
    ('<think time="3">', "</think>"),
    ("<think\nclass='x' data-a=1>", "</think >"),
    ("< think >", "< / think >"),
    ("<thinking>", "</thinking>"),
    ("<think>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<thoughts>", "</thoughts>"),
    ("<reasoning>", "</reasoning>"),
    ("<Reasoning_Content>", "</Reasoning_Content>"),
    ("<antThinking>", "</antThinking>"),
    ("<seed:think>", "</seed:think>"),
    ("<longcat_think>", "</longcat_think>"),
    ("<thinking_process>", "</thinking_process>"),
    ("<scratchpad>", "</scratchpad>"),
    ("<inner_monologue>", "</inner_monologue>"),
    ("<chain_of_thought>", "</chain_of_thought>"),
    ("＜think＞", "＜／think＞".replace("／", "/")),
    ("[THINK]", "[/THINK]"),
    ("[think]", "[/think]"),
    ("[Reasoning]", "[/Reasoning]"),
    ("◁think▷", "◁/think▷"),
    ("<|thinking|>", "<|/thinking|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|think_start|>", "<|think_end|>"),
    ("<|channel>thought\n", "<channel|>"),
    ("<unused94>thought\n", "<unused95>"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    ("<|start|>assistant<|channel|>analysis<|message|>", "<|end|>"),
    ("<|channel|>commentary to=functions.search <|constrain|>json<|message|>", "<|call|>"),
    ("analysis<|message|>", "<|end|><|start|>assistant<|channel|>final <|constrain|>json<|message|>"),
    ("analysisWe need ", "assistantfinal"),
    (DIFY, "</details>"),
    ("<details open>\n<summary>Thinking</summary>", "</details>"),
    ("<DETAILS><SUMMARY>💭 Thought for 12.5 seconds</SUMMARY>", "</DETAILS>"),
    ("<details><summary><思考中...></summary>".replace("<思考中...>", "思考中..."), "</details>"),
    ("<details><summary>已深度思考（5秒）</summary>", "</details>"),
    ("<details><summary>思考プロセス</summary>", "</details>"),
    ('<details type="reasoning" done="true"><summary>12 s</summary>', "</details>"),
]  # fmt: skip


@pytest.mark.parametrize("quoting", ["code", "json"])
@pytest.mark.parametrize(("opening", "closing"), MARKS)
def test_a_thought_is_not_said(opening: str, closing: str, quoting: Quoting) -> None:
    assert spoken(f"{opening}{THOUGHT}{closing}\n\n{ANSWER}", quoting) == Spoken(f"\n\n{ANSWER}", thought=True)


@pytest.mark.parametrize("quoting", ["code", "json"])
@pytest.mark.parametrize("opening", dict.fromkeys(opening for opening, _ in MARKS if opening != "[think]"))
def test_what_follows_a_mark_that_is_not_closed_is_no_answer(opening: str, quoting: Quoting) -> None:
    found = spoken(f"{opening}{THOUGHT}", quoting)

    assert found == Spoken("", thought=True, unfinished=True)
    assert found.only_thought


@pytest.mark.parametrize(
    ("text", "said"),
    [
        # Several.
        ("<think>a</think>10日<think>b</think>です", "10日です"),
        ("<think>a</think>\n[THINK]b[/THINK]10日", "\n10日"),
        # One within the other.
        ("<think>a<think>b</think>c</think>10日", "10日"),
        ("<think>a<thought>b</thought>c</think>10日", "10日"),
        (f"{DIFY}a<details><summary>表</summary>b</details>c</details>10日", "10日"),
        # Opened by the template and once more by the model.
        ("<think>\n<think>a</think>10日", "10日"),
        ("<think>\n<think>a</think>\n</think>10日", "10日"),
        # Closed, never opened.
        ("まだ考え中</think>10日", "10日"),
        ("a</think>b</think>10日", "10日"),
        ("下書き[/THINK]10日", "10日"),
        ("20日か<|channel|>final<|message|>10日<|return|>", "10日"),
        ("<think>a</think>b</think>10日", "10日"),
        # Empty.
        ("<think></think>10日", "10日"),
        ("<think/>10日", "10日"),
        ("<|channel>thought\n<channel|>10日", "10日"),
        # A mark inside a thought that is only talked about.
        ("<think>I put it in <think> tags. Then</think>10日", "10日"),
        ("<think>「</think>」で閉じること</think>10日", "10日"),
        ("<think>`</think>` closes it</think>10日", "10日"),
        ("<think>タグとは何か</think>タグは印です", "タグは印です"),
        # In a fold that is none of a thought's.
        (
            "<details><summary>内訳</summary><think>a</think>基本10日</details>",
            "<details><summary>内訳</summary>基本10日</details>",
        ),
        ("<details><summary>内訳</summary><br>基本10日", "<details><summary>内訳</summary><br>基本10日"),
        # Said before a thought that does not end.
        ("10日です。<think>いや", "10日です。"),
    ],
)  # fmt: skip
def test_what_is_said_between_thoughts(text: str, said: str) -> None:
    assert spoken(text).text == said


LESS_CLEAR = [
    ("<analysis>", "</analysis>"),
    ("<cot>", "</cot>"),
    ("<思考過程>", "</思考過程>"),
    ("&lt;think&gt;", "&lt;/think&gt;"),
    ("\\<think\\>", "\\</think\\>"),
    ("```thinking\n", "\n```"),
]


@pytest.mark.parametrize("quoting", ["code", "json"])
@pytest.mark.parametrize(("opening", "closing"), LESS_CLEAR)
def test_a_mark_that_is_less_clear_is_one_at_the_beginning(opening: str, closing: str, quoting: Quoting) -> None:
    assert spoken(f"{opening}{THOUGHT}{closing}\n\n{ANSWER}", quoting) == Spoken(f"\n\n{ANSWER}", thought=True)
    assert spoken(f"{ANSWER}\n{opening}{THOUGHT}{closing}").text.startswith(ANSWER)


@pytest.mark.parametrize("opening", [*(opening for opening, _ in LESS_CLEAR), "<draft>", "<plan>", "analysisまず "])
def test_a_judges_draft_in_an_open_mark_is_no_reply(opening: str) -> None:
    assert spoken(f"{opening}{THOUGHT}", "json") == Spoken("", thought=True, unfinished=True)


@pytest.mark.parametrize(
    "text",
    ["<analysis>売上は増えました。</analysis>", "<draft>拝啓</draft> 以上です", "<analysis> 要素は必須です。"],
)
def test_what_a_bot_says_in_such_a_mark_is_said(text: str) -> None:
    assert spoken(text) == Spoken(text)


@pytest.mark.parametrize(
    "text",
    [
        "<think>outer <think>inner</think> still",
        f"{DIFY}a<details>b</details>c",
        "<think>a</think><think>b",
        "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>analysis<|message|>b",
        "10日かも</think>",
    ],
)
def test_nothing_but_thoughts(text: str) -> None:
    assert spoken(text).only_thought


@pytest.mark.parametrize(
    "text",
    [
        "",
        ANSWER,
        "`<think>` で囲むと表示されません。",
        "モデルは `<think>` と `</think>` の間で考えます。",
        "例：\n```xml\n<think>ここで考える</think>\n```\nのように書きます。",
        "~~~\n<think>\n~~~\n囲みを使います。",
        "「<think>」は開始タグです。",
        'Use "</think>" to close it.',
        "出力の<think>タグを消します。",
        "Put it between <think> tags.",
        "札は [think] と [thinking] です。",
        "<details><summary>有給休暇の内訳</summary>\n基本10日、追加2日\n</details>",
        "<details open><summary>考え方のポイント</summary>順に見ます</details>",
        "<details><summary>Thoughts on pricing</summary>…</details>",
        "a < b かつ think > c",
        "<thinker>x</thinker>",
        "rethink </b>",
        "Analysis: 売上は増えました。",
        "AnalysisReport を開きます。",
        "analysis ツールを使います。",
        "analysisツールを使います。",
        "<|channel はただの文字です",
    ],
)
def test_a_text_about_such_marks_stays_as_it_is(text: str) -> None:
    assert spoken(text) == Spoken(text)


def test_a_mark_in_a_judges_reason_is_only_talked_about() -> None:
    reply = '{"verdicts": [{"id": 1, "verdict": 0, "reason": "回答は <think> で始まり \\"</think>\\" で終わる"}]}'

    assert spoken(reply, "json") == Spoken(reply)
    assert spoken(f"<think>{THOUGHT}</think>{reply}", "json") == Spoken(reply, thought=True)
    assert spoken(f"{THOUGHT}</think>{reply}", "json") == Spoken(reply, thought=True)


LONG: dict[str, Callable[[int], str]] = {
    "opened": lambda n: "<think>" * n,
    "closed": lambda n: "</think>" * n,
    "pairs": lambda n: "<think>a</think>" * n,
    "half a mark": lambda n: "<think " * n,
    "spaces": lambda n: "<" + " " * n,
    "many brackets": lambda n: "< " * n,
    "letters": lambda n: "<" + "a" * n,
    "squares": lambda n: "[think]" * n,
    "folds": lambda n: "<details><summary>Thinking</summary>" * n,
    "half a fold": lambda n: "<details><summary>" + "thinking " * n,
    "summary": lambda n: "<details><summary>thinking" + " " * n,
    "channels": lambda n: "<|start|>assistant<|channel|>analysis<|message|>a<|end|>" * n,
    "half a channel": lambda n: "<|channel|>analysis" + " " * n,
    "starts": lambda n: "<|start|>" + " " * n + "<|start|>",
    "backticks": lambda n: "`" * n,
    "fences": lambda n: "```\n" * n,
    "open code": lambda n: "`<think>\n" * n,
    "strings": lambda n: ':"' * n,
    "escapes": lambda n: ':"' + "\\" * n,
    "an open string": lambda n: '{"a": "' + "<think>" * n,
    "less clear": lambda n: "<analysis>" * n,
    "half of one": lambda n: "<analysis " * n,
    "half an end": lambda n: "<analysis>" + "&lt; " * n,
    "plain": lambda n: "analysis" + "assistant" * n,
    "text": lambda n: "有給休暇は10日です。" * n,
}


@pytest.mark.parametrize("quoting", ["code", "json"])
@pytest.mark.parametrize("kind", LONG)
def test_the_time_grows_with_the_length(kind: str, quoting: Quoting) -> None:
    assert_linear(lambda text: spoken(text, quoting), LONG[kind])


def test_no_mark_is_left_over() -> None:
    for opening, closing in MARKS:
        assert not re.search(r"think|analysis|details", spoken(f"{opening}x{closing}10日").text, re.IGNORECASE)
