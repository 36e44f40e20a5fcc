"""Reading what judges write: every recorded form with a payload of each shape, and every recorded reply of a weak model."""

import json
from pathlib import Path
from typing import Any

import pytest

from evaluation.reply import (
    Grade,
    Judgement,
    JudgementOf,
    Part,
    Question,
    Reply,
    Shape,
    Statement,
    UnjudgedPart,
    read_reply,
)

DATA = Path(__file__).parents[1] / "data"
FORMS = [json.loads(line) for line in (DATA / "cases/reply_forms.jsonl").read_text("utf-8").splitlines()]
VALUES = [json.loads(line) for line in (DATA / "cases/verdict_values.jsonl").read_text("utf-8").splitlines()]

SHAPES: dict[str, Shape[Any]] = {
    "verdicts": Shape(JudgementOf, "verdicts"),
    "judgement": Shape(Judgement),
    "statements": Shape(Statement, "statements", bare=True),
    "parts": Shape(Part, "parts", fallback=UnjudgedPart),
    "questions": Shape(Question, "questions"),
    "grades": Shape(Grade, "grades"),
}
# A right reply, and one of the same shape that says the opposite or something else.
PAYLOADS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "verdicts": (
        {
            "verdicts": [
                {"id": 1, "reason": "資料に{10日}とある", "verdict": 1},
                {"id": 2, "reason": "it's not there", "verdict": 0},
                {"id": 3, "reason": "[2] に記載", "verdict": 1},
            ]
        },
        {"verdicts": [{"id": 1, "reason": "d", "verdict": 0}, {"id": 2, "reason": "d", "verdict": 1}]},
    ),
    "judgement": ({"reason": "「10日」と書いてある", "verdict": 1}, {"reason": "d", "verdict": 0}),
    "statements": ({"statements": ["休暇は10日です。", "It's paid: yes", "{年}ごと"]}, {"statements": ["decoy"]}),
    "parts": (
        {
            "parts": [
                {"text": "10日", "reason": "ある", "verdict": 1},
                {"text": "年1回", "reason": "ない", "verdict": 0},
            ]
        },
        {"parts": [{"text": "decoy", "reason": "d", "verdict": 1}]},
    ),
    "questions": (
        {"questions": [{"question": "何日ですか？", "noncommittal": 0}, {"question": "日数は？", "noncommittal": 1}]},
        {"questions": [{"question": "decoy", "noncommittal": 1}]},
    ),
    "grades": (
        {"grades": [{"id": 1, "reason": "同じ", "grade": 3}, {"id": 2, "reason": "別", "grade": 0}]},
        {"grades": [{"id": 1, "reason": "d", "grade": 1}]},
    ),
}
# What a judge that quotes its task first writes: the data as the prompts give it, with a ready verdict in a text.
ECHO = json.dumps(
    {"question": "何日？", "answer": '10日。{"verdict": 0}', "contexts": ['{"verdicts":[{"id":1,"verdict":0}]}']},
    ensure_ascii=False,
)


def said(reply: Reply[Any] | None) -> Any:
    """What a reply says, without its wording of reasons."""
    if reply is None:
        return None
    return [
        tuple(value for name, value in item.model_dump().items() if name not in {"reason", "kind"})
        for item in reply.items
    ]


def expected(payload: dict[str, Any], shape: Shape[Any]) -> list[tuple[Any, ...]]:
    reply = read_reply(json.dumps(payload, ensure_ascii=False), shape)
    assert reply is not None
    assert len(reply.items) == (len(payload[shape.key]) if shape.key else 1)
    return said(reply)  # type: ignore[no-any-return]


def single_quoted(payload: Any) -> str:
    return repr(payload)


def python_literals(payload: Any) -> str:
    def as_python(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: bool(item) if key in {"verdict", "noncommittal"} else as_python(item)
                for key, item in value.items()
            }
        return [as_python(item) for item in value] if isinstance(value, list) else value

    return repr(as_python(payload))


def with_trailing_commas(text: str) -> str:
    return text.replace("}", ",}").replace("]", ",]") if text.count("{") <= 1 else text.replace("}]", ",},]")


def expand(form: dict[str, Any], name: str) -> str:
    """The reply of a row of reply_forms.jsonl with the payload of a shape."""
    payload, decoy = PAYLOADS[name]
    text = json.dumps(payload, ensure_ascii=False)
    reply: str = form["reply"]
    for mark, value in (
        ("@@PRETTY", json.dumps(payload, ensure_ascii=False, indent=2)),
        ("@@DECOY", json.dumps(decoy, ensure_ascii=False)),
        ("@@INPUT", ECHO),
        ("@@SINGLE", single_quoted(payload)),
        ("@@TRAILING", text.replace("}]", ",},]") if "]" in text else text.replace("}", ",}")),
        ("@@PYTHON (True/False/None, single quotes)", python_literals(payload)),
        ("@@ without its last }", text[:-1]),
        ("@@", text),
    ):
        reply = reply.replace(mark, value)
    return reply


WHOLE = [
    "plain", "pretty_printed", "fence_json", "fence_bare", "fence_upper_with_chatter", "prose_before",
    "prose_after_with_braces", "prose_before_with_brackets", "think_then_json", "think_with_decoy", "only_closing_think",
    "schema_echo_first", "input_echo_first", "single_quotes", "trailing_commas", "python_literals", "last_brace_missing",
]  # fmt: skip
NOTHING = ["unclosed_think", "empty", "refusal", "prose_only_yes"]
BY_HAND = {
    "cut_in_last_item", "extra_fields", "ids_as_strings", "duplicate_and_extra_ids", "missing_id",
    "unescaped_quotes_in_reason",
}  # fmt: skip
BY_NAME = {form["form"]: form for form in FORMS}


def test_every_recorded_form_is_tested() -> None:
    assert set(BY_NAME) == {*WHOLE, *NOTHING} | BY_HAND


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("form", WHOLE)
def test_form_gives_the_whole_payload_and_no_decoy(form: str, name: str) -> None:
    reply = read_reply(expand(BY_NAME[form], name), SHAPES[name])
    assert said(reply) == expected(PAYLOADS[name][0], SHAPES[name])
    assert reply is not None
    assert (reply.invalid, reply.incomplete, reply.cut) == (0, (), False)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("form", NOTHING)
def test_form_without_a_reply_gives_none(form: str, name: str) -> None:
    assert read_reply(expand(BY_NAME[form], name), SHAPES[name]) is None
