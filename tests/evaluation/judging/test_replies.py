"""What judges write: every recorded form with a payload of each shape, and every recorded reply of a weak model."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from evaluation.judging.replies import (
    Grade,
    Item,
    Judgement,
    JudgementOf,
    Part,
    Question,
    Reply,
    Sentence,
    Shape,
    Statement,
    Text,
    UnjudgedPart,
    YesNo,
    read_reply,
)
from evaluation.judging.verdict_words import read_verdict

DATA = Path(__file__).parents[2] / "data"
FORMS = [json.loads(line) for line in (DATA / "cases/reply_forms.jsonl").read_text("utf-8").splitlines()]
VALUES = [json.loads(line) for line in (DATA / "cases/verdict_values.jsonl").read_text("utf-8").splitlines()]

SHAPES: dict[str, Shape[Any]] = {
    "verdicts": Shape(JudgementOf, "verdicts"),
    "judgement": Shape(Judgement),
    "verdict_first": Shape(Judgement),
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
    "verdict_first": ({"verdict": 1, "reason": "「10日」, [1] と{書いて}ある"}, {"verdict": 0, "reason": "d"}),
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


def python_literals(value: Any) -> Any:
    """The payload with True and False for its flags."""
    if isinstance(value, dict):
        return {
            key: bool(item) if key in {"verdict", "noncommittal"} else python_literals(item)
            for key, item in value.items()
        }
    return [python_literals(item) for item in value] if isinstance(value, list) else value


def expand(form: dict[str, Any], name: str) -> str:
    """The reply of a row of reply_forms.jsonl with the payload of a shape."""
    payload, decoy = PAYLOADS[name]
    text = json.dumps(payload, ensure_ascii=False)
    reply: str = form["reply"]
    for mark, value in (
        ("@@PRETTY", json.dumps(payload, ensure_ascii=False, indent=2)),
        ("@@DECOY", json.dumps(decoy, ensure_ascii=False)),
        ("@@INPUT", ECHO),
        ("@@SINGLE", repr(payload)),
        ("@@TRAILING", text.replace("}]", ",},]") if "]" in text else text.replace("}", ",}")),
        ("@@PYTHON (True/False/None, single quotes)", repr(python_literals(payload))),
        ("@@ without its last }", text[:-1]),
        ("@@", text),
    ):
        reply = reply.replace(mark, value)
    return reply


WHOLE = [
    "plain",
    "pretty_printed",
    "fence_json",
    "fence_bare",
    "fence_upper_with_chatter",
    "prose_before",
    "prose_after_with_braces",
    "prose_before_with_brackets",
    "think_then_json",
    "think_with_decoy",
    "only_closing_think",
    "schema_echo_first",
    "input_echo_first",
    "single_quotes",
    "trailing_commas",
    "python_literals",
    "last_brace_missing",
]
NOTHING = ["unclosed_think", "empty", "refusal", "prose_only_yes"]
BY_HAND = {
    "cut_in_last_item",
    "extra_fields",
    "ids_as_strings",
    "duplicate_and_extra_ids",
    "missing_id",
    "unescaped_quotes_in_reason",
}
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


@pytest.mark.parametrize("style", ["json", "single_quotes", "pretty", "fenced", "smart_quotes"])
@pytest.mark.parametrize("name", SHAPES)
def test_reply_cut_off_anywhere_keeps_complete_elements_and_says_that_it_is_cut(name: str, style: str) -> None:
    payload, shape = PAYLOADS[name][0], SHAPES[name]
    text = {
        "json": json.dumps(payload, ensure_ascii=False),
        "single_quotes": repr(payload),
        "pretty": json.dumps(payload, ensure_ascii=False, indent=1),
        "fenced": f"```json\n{json.dumps(payload, ensure_ascii=False, indent=2)}\n```",
        "smart_quotes": json.dumps(payload, ensure_ascii=False).replace('"', "”"),
    }[style]
    whole = expected(payload, shape)
    kept = 0
    for end in range(len(text)):
        reply = read_reply(text[:end], shape)
        found = said(reply) or []
        assert found == whole[: len(found)], text[:end]
        assert len(found) >= kept, text[:end]
        kept = len(found)
        if reply is not None and kept < len(whole):
            assert reply.cut or reply.invalid, text[:end]
    assert kept == len(whole)


def test_cut_in_last_item_keeps_the_others() -> None:
    text = (
        '{"verdicts": [{"id": 1, "reason": "a", "verdict": 1}, {"id": 2, "reason": "b", "verdict": 0}, {"id": 3, "rea'
    )
    reply = read_reply(text, SHAPES["verdicts"])
    assert said(reply) == [(True, 1), (False, 2)]
    assert reply is not None
    assert reply.cut


@pytest.mark.parametrize("name", SHAPES)
def test_extra_fields_are_ignored(name: str) -> None:
    payload, shape = PAYLOADS[name][0], SHAPES[name]
    with_more: dict[str, Any] = {**payload, "confidence": 0.9, "note": {"verdict": 0}}
    if shape.key and not shape.bare:
        with_more[shape.key] = [{**item, "score": 1, "evidence": ["x"]} for item in payload[shape.key]]
    assert said(read_reply(json.dumps(with_more), shape)) == expected(payload, shape)


def test_verdict_before_a_reason_that_is_cut_off_is_kept() -> None:
    reply = read_reply('{"verdict": 0, "reason": "資料には「10日」とあ', SHAPES["judgement"])
    assert said(reply) == [(False,)]
    assert reply is not None
    assert reply.cut
    assert read_reply('{"reason": "資料には「10日」とあ', SHAPES["judgement"]) is None


@pytest.mark.parametrize("written", ['"1"', "1.0", '"1.0"', '"１"', " 1"])
def test_ids_are_read_from_text_and_floats(written: str) -> None:
    reply = read_reply('{"verdicts": [{"id": @, "verdict": 1}]}'.replace("@", written), SHAPES["verdicts"])
    assert said(reply) == [(True, 1)]


@pytest.mark.parametrize("written", ['"a"', "1.5", "true", "null", "[1]", "{}", "1e999", "NaN"])
def test_element_without_a_usable_id_is_counted_as_invalid(written: str) -> None:
    reply = read_reply(
        '{"verdicts": [{"id": @, "verdict": 1}, {"id": 2, "verdict": 1}]}'.replace("@", written), SHAPES["verdicts"]
    )
    assert said(reply) == [(True, 2)]
    assert reply is not None
    assert reply.invalid == 1


def test_an_endless_number_is_an_id_that_nobody_asked_for() -> None:
    reply = read_reply('{"verdicts": [{"id": @, "verdict": 1}]}'.replace("@", "1" * 400), SHAPES["verdicts"])
    assert said(reply) == [(True, int("1" * 400))]


def test_quotes_inside_a_reason_lose_nothing() -> None:
    assert said(read_reply(BY_NAME["unescaped_quotes_in_reason"]["reply"], SHAPES["judgement"])) == [(True,)]
    first = '{"id": 1, "reason": "the "20 days" differ", "verdict": 0}'
    listed = '{"verdicts": [' + first + ', {"id": 2, "reason": "「"10日"」", "verdict": 1}]}'
    assert said(read_reply(listed, SHAPES["verdicts"])) == [(False, 1), (True, 2)]


@pytest.mark.parametrize(
    "written",
    [
        "｛“verdict”：1，“reason”：“可”｝",
        '{"verdict"：1，"reason"："ある，ない：両方"}',
        '{"verdict": １, "reason": "全角"}',
        "{verdict: 1, reason: 'no quotes'}",
        '{"reason": "a\nb", "verdict": 1,}',
        '"{\\"verdict\\": 1}"',
        '{"verdict": yes}',
        '{"VERDICT": 0} {"verdict": 1}',
        '{"reason": "he said \\"}\\"", "verdict": 1,}',
        '{"reason": "r", "verdict": 1 "note": [}',
    ],
)
def test_wrong_punctuation_is_read(written: str) -> None:
    assert said(read_reply(written, SHAPES["judgement"])) == [(True,)]


@pytest.mark.parametrize(
    "written", ["0 or 1", "1 or 0", "0か1", "0|1", "0または1", "1/0", "not sure", "[1]", '{"is": 1}']
)
def test_what_is_no_clear_verdict_is_invalid_not_a_number(written: str) -> None:
    reply = read_reply('{"reason": "x", "verdict": @}'.replace("@", written), SHAPES["judgement"])
    assert said(reply) == []
    assert reply is not None
    assert reply.invalid == 1


@pytest.mark.parametrize("case", VALUES, ids=lambda case: json.dumps(case["value"], ensure_ascii=False))
def test_verdict_values(case: dict[str, Any]) -> None:
    reply = read_reply(json.dumps({"verdict": case["value"]}), SHAPES["judgement"])
    assert reply is not None
    if case["want"] == "invalid":
        assert (reply.items, reply.invalid) == ((), 1)
        with pytest.raises(ValueError, match="not a verdict"):
            read_verdict(case["value"])
    else:
        assert [item.verdict for item in reply.items] == [case["want"] == 1]


@pytest.mark.parametrize(
    ("grade", "want"),
    [
        (0, 0),
        (3, 3),
        ("2", 2),
        ("２", 2),
        (1.0, 1),
        (4, None),
        (-1, None),
        (2.5, None),
        (True, None),
        (None, None),
        ("x", None),
    ],
)
def test_grades_are_whole_numbers_from_0_to_3(grade: object, want: int | None) -> None:
    reply = read_reply(json.dumps({"grades": [{"id": 1, "grade": grade}]}), SHAPES["grades"])
    assert reply is not None
    assert [item.grade for item in reply.items] == ([] if want is None else [want])


def test_reason_and_kind_that_are_no_text_lose_no_verdict() -> None:
    reply = read_reply('{"verdicts": [{"id": 1, "reason": ["a"], "kind": null, "verdict": 1}]}', SHAPES["verdicts"])
    assert reply is not None
    assert [(item.reason, item.kind, item.verdict) for item in reply.items] == [("", "", True)]


def test_statements_given_as_objects_are_read_and_others_counted() -> None:
    elements = [
        " a ",
        {"statement": "b"},
        {"id": 3, "statement": "c", "reason": "r"},
        {"text": "d", "x": "y"},
        "",
        5,
        {},
        {"n": 1},
    ]
    reply = read_reply(json.dumps({"statements": elements}), SHAPES["statements"])
    assert said(reply) == [("a",), ("b",), ("c",), ("d",)]
    assert reply is not None
    assert reply.invalid == 4


def test_part_without_a_readable_verdict_keeps_its_text() -> None:
    text = (
        '{"parts": [{"text": "a", "verdict": "perhaps"}, {"text": "b", "verdict": 1}, {"text": "c"}, {"verdict": 1}]}'
    )
    reply = read_reply(text, SHAPES["parts"])
    assert reply is not None
    assert [item.text for item in reply.items] == ["b"]
    assert [item.text for item in reply.incomplete] == ["a", "c"]
    assert reply.invalid == 1


@pytest.mark.parametrize(
    "text",
    [
        '{"type": "object", "properties": {"verdicts": {"type": "array", "items": {"type": "object"}}}}',
        '{"$defs": {"verdict": {"enum": [0, 1]}}, "properties": {"verdict": {"type": "integer"}}}',
        '{"draft": {"verdicts": [{"id": 1, "verdict": 1}]}}',
        '[[{"id": 1, "verdict": 1}]]',
        '{"answer": "{\\"verdicts\\": [{\\"id\\": 1, \\"verdict\\": 1}]}"}',
        "[1, 2, 3]",
        "[]",
        "verdicts: 1, 1, 1",
        "<reasoning>{'verdicts': [{'id': 1, 'verdict': 1}]}",
        '{"verdicts": [{"id": 1, "verdict": 1}], "verdict": 1}</think> I can not say.',
        "{verdicts}",
        "{",
        '{"a": ' + "[[1], " * 20 + '{"verdict": 1}',
        '{"verdicts"',
        '"',
    ],
)
@pytest.mark.parametrize("name", ["verdicts", "judgement"])
def test_what_only_looks_like_a_reply_is_none(text: str, name: str) -> None:
    assert read_reply(text, SHAPES[name]) is None


def test_last_reply_wins_and_bare_lists_count() -> None:
    reply = '{"verdicts": [{"id": 1, "verdict": 0}]} Corrected: [{"id": 1, "verdict": 1}] (see {note: 5})'
    assert said(read_reply(reply, SHAPES["verdicts"])) == [(True, 1)]
    assert said(read_reply(reply, SHAPES["verdicts"], wrapped=True)) == [(False, 1)]


def test_empty_list_is_a_reply() -> None:
    reply = read_reply('{"statements": []}', SHAPES["statements"])
    assert reply == Reply(())


class Claim(Item):
    """An element of the recorded replies, which were asked for in another form than ours."""

    statement: Text = ""
    reason: Text = ""
    verdict: YesNo


class Unjudged(Item):
    statement: Sentence


# For each recorded reply, read by eye: the verdicts; "?" for a statement without one; "…" when it is cut off; "-" when
# there is nothing to read.
RECORDED = """
gemma-3-270m__free_en01 ?                 the prompt's form, echoed: "verdict": 0 or 1
gemma-3-270m__free_en07 ?                 the same, then the beginning of it again
gemma-3-270m__free_en10 ?
gemma-3-270m__free_ja01 ?
gemma-3-270m__free_ja04 ????…             statements without verdicts
gemma-3-270m__free_ja07 ?
gemma-3-270m__schema_en04 -               cut off inside the first statement
gemma-3-270m__schema_en10 -
gemma-3-270m__schema_ja01 010
gemma-3-270m__schema_ja04 01
gemma-3-270m__schema_ja10 0101
qwen2.5-coder-0.5b__free_en01 000         last } missing
qwen2.5-coder-0.5b__free_en05 0100
qwen2.5-coder-0.5b__free_en07 011         last } missing
qwen2.5-coder-0.5b__free_en10 0100
qwen2.5-coder-0.5b__free_en11 01
qwen2.5-coder-0.5b__free_en12 0000        last } missing
qwen2.5-coder-0.5b__free_ja03 010
qwen2.5-coder-0.5b__free_ja04 01          last } missing
qwen2.5-coder-0.5b__free_ja06 011
qwen2.5-coder-0.5b__free_ja07 011
qwen2.5-coder-0.5b__free_ja08 000         last } missing
qwen2.5-coder-0.5b__free_ja10 0100        last } missing
qwen2.5-coder-0.5b__free_ja12 0110
qwen2.5-coder-0.5b__schema_en01 000
qwen2.5-coder-0.5b__schema_en05 0100
qwen2.5-coder-0.5b__schema_en06 010
qwen2.5-coder-0.5b__schema_en12 0000
qwen2.5-coder-0.5b__schema_ja01 011
qwen2.5-coder-0.5b__schema_ja03 010
qwen2.5-coder-0.5b__schema_ja04 01
qwen2.5-coder-0.5b__schema_ja06 011
qwen2.5-coder-0.5b__schema_ja09 011
qwen2.5-coder-0.5b__schema_ja11 01
qwen2.5-coder-1.5b__free_en01 111
qwen2.5-coder-1.5b__free_en02 1000
qwen2.5-coder-1.5b__free_en05 1010
qwen2.5-coder-1.5b__free_en09 101
qwen2.5-coder-1.5b__free_ja02 1101
qwen2.5-coder-1.5b__free_ja04 01
qwen2.5-coder-1.5b__free_ja07 110
qwen2.5-coder-1.5b__free_ja08 101
qwen2.5-coder-1.5b__free_ja10 1111
qwen2.5-coder-1.5b__free_ja11 10
qwen2.5-coder-1.5b__jaschema_ja01 111
qwen2.5-coder-1.5b__jaschema_ja02 1111
qwen2.5-coder-1.5b__jaschema_ja05 0001
qwen2.5-coder-1.5b__jaschema_ja08 101
qwen2.5-coder-1.5b__jaschema_ja09 111
qwen2.5-coder-1.5b__jaschema_ja10 0001
qwen2.5-coder-1.5b__jaschema_ja11 10
qwen2.5-coder-1.5b__schema_en03 100
qwen2.5-coder-1.5b__schema_en08 110
qwen2.5-coder-1.5b__schema_en12 1010
qwen2.5-coder-1.5b__schema_ja02 1101
qwen2.5-coder-1.5b__schema_ja06 111
qwen2.5-coder-1.5b__schema_ja07 110
qwen2.5-coder-1.5b__schema_ja08 101
qwen2.5-coder-1.5b__schema_ja09 111
qwen2.5-coder-1.5b__schema_ja11 10
qwen2.5-coder-1.5b__schema_ja12 1010
variety_qwen2.5-coder-0.5b__chatty_en05 ????   all statements, no verdicts
variety_qwen2.5-coder-0.5b__chatty_en10 ???…
variety_qwen2.5-coder-0.5b__chatty_ja10 -      single objects without verdicts, between prose
variety_qwen2.5-coder-0.5b__ja_t0.8_en05 111…  single objects first, then the list, cut off in its fourth
variety_qwen2.5-coder-0.5b__ja_t0.8_en10 1     a list without its wrapper
variety_qwen2.5-coder-0.5b__ja_t0.8_ja02 0     prose, then a list of one
variety_qwen2.5-coder-0.5b__ja_t0.8_ja10 ????
variety_qwen2.5-coder-0.5b__short_t0_ja10 -    prose
variety_qwen2.5-coder-0.5b__short_t1_en05 1    four objects with a quote missing in each: the last one counts
variety_qwen2.5-coder-0.5b__truncated_en10 -   cut off inside the first verdict
variety_qwen2.5-coder-0.5b__truncated_ja10 -   prose
"""
READ_BY_EYE = dict(line.split()[:2] for line in RECORDED.strip().splitlines())


def test_every_recorded_reply_was_read_by_eye() -> None:
    assert {path.stem for path in (DATA / "judge_outputs").glob("*.txt")} == set(READ_BY_EYE)


@pytest.mark.parametrize("name", READ_BY_EYE)
def test_recorded_reply_of_a_weak_model(name: str) -> None:
    text = (DATA / f"judge_outputs/{name}.txt").read_text("utf-8")
    reply = read_reply(text, Shape(Claim, "statements", fallback=Unjudged))
    if reply is None:
        found = "-"
    else:
        found = "".join(str(int(item.verdict)) for item in reply.items) + "?" * len(reply.incomplete)
        found += "…" if reply.cut else ""
    assert found == READ_BY_EYE[name]


BABBLE = [
    "the answer is good ",
    "[",
    "{",
    '{"',
    '{"a":',
    "[1,",
    '["',
    "{'it's ",
    "{x:1} ",
    "{'a':'b'} ",
    "<think>",
    '"',
    '{"verdicts":[',
    "\\",
    "[['a'], ",
    "{'a': {'b': 1}, 'c': ",
]


@pytest.mark.parametrize("unit", BABBLE)
def test_babble_of_five_megabytes_is_read_in_bounded_time(unit: str) -> None:
    text = unit * (5_000_000 // len(unit))
    begun = time.process_time()
    assert read_reply(text, SHAPES["verdicts"]) is None
    assert time.process_time() - begun < 4


def test_only_the_last_of_many_broken_values_are_repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    repaired: list[str] = []
    monkeypatch.setattr("evaluation.judging.replies.json_repair.loads", repaired.append)
    assert read_reply("{'a':'b'} " * 1000, SHAPES["verdicts"]) is None
    assert len(repaired) == 100


def test_reply_behind_five_megabytes_of_babble_is_found() -> None:
    text = "thinking about {this} and [that]; " * 150_000
    assert said(read_reply(text + '{"reason": "r", "verdict": 1}', SHAPES["judgement"])) == [(True,)]
    assert said(read_reply("[" * 100 + '{"reason": "r", "verdict": 1}', SHAPES["judgement"])) is None


def test_decoys_in_reasoning_without_end_do_not_win_however_long_it_is() -> None:
    text = "<think>" + 'so {"verdict": 1} or ' * 10_000
    assert read_reply(text, SHAPES["judgement"]) is None
    assert said(read_reply(text + "</think>" + " " * 50_000 + '{"verdict": 0}', SHAPES["judgement"])) == [(False,)]


@pytest.mark.parametrize("tag", ["think", "thinking", "reasoning", "THINK"])
def test_reasoning_blocks_are_passed_over(tag: str) -> None:
    text = f'<{tag}>{{"verdict": 0}}</{tag}>{{"verdict": 1}}<{tag}>or {{"verdict": 0}}'
    assert said(read_reply(text, SHAPES["judgement"])) == [(True,)]
