"""Inputs in every shape in which Dify hands them over."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from evaluation.errors import EvaluationError, Reason
from evaluation.sample import (
    MAX_CONTEXTS_CHARACTERS,
    MAX_TEXT_CHARACTERS,
    Chunk,
    is_variable_name,
    read_answer,
    read_contexts,
    read_text,
)

CASES = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data/cases/contexts_shapes.jsonl").read_text("utf-8").splitlines()
]
KNOWLEDGE = {
    "metadata": {"_source": "knowledge", "score": 0.81, "document_name": "就業規則.md", "document_id": "d1"},
    "title": "就業規則",
    "files": None,
    "content": "有給休暇は10日です。\n\"特別\"休暇は'別'です。C:\\temp {x} %s",
    "summary": None,
}


class File:
    """Stands for a file object of the SDK, which is no text."""


def refused(call: Any, *arguments: Any) -> EvaluationError:
    with pytest.raises(EvaluationError) as caught:
        call(*arguments)
    return caught.value


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["note"])
def test_contexts_of_every_recorded_shape(case: dict[str, Any]) -> None:
    assert read_contexts(case["contexts"]).texts == case["want"]


@pytest.mark.parametrize("note", ["blank items dropped and counted", "item without text dropped and counted"])
def test_dropped_items_are_counted(note: str) -> None:
    case = next(case for case in CASES if case["note"] == note)
    assert read_contexts(case["contexts"]).dropped == len(case["contexts"]) - len(case["want"])


@pytest.mark.parametrize(
    "contexts",
    [
        ["甲", " 甲", "甲\n", "\u3000甲\u200b", "乙"],
        [{"content": "甲"}, {"content": "甲 \n\n"}, {"content": "乙\r\n"}, {"content": "\ufeff甲"}, {"content": "乙"}],
    ],
)
def test_chunks_that_differ_in_their_outer_blanks_are_one(contexts: list[Any]) -> None:
    read = read_contexts(contexts)
    assert (read.texts, read.duplicates) == (["甲", "乙"], 3)
    assert read_contexts(["\u200b\n", "甲 乙", "甲  乙"]).texts == ["甲 乙", "甲  乙"]


@pytest.mark.parametrize("written", [False, True])
def test_what_the_knowledge_api_answers_is_read_also_as_text(written: bool) -> None:
    segment = {"content": "甲", "document_id": "d1", "document": {"id": "d1", "name": "規則.md"}}
    answer = {"query": {"content": "何日"}, "records": [{"segment": segment, "score": 0.5, "child_chunks": []}]}
    for value in (answer, answer["records"]):
        read = read_contexts(json.dumps(value) if written else value)
        assert read.chunks == (Chunk("甲", "規則.md", ("規則.md", "d1")),)
    assert read_contexts({"records": []}).chunks == ()
    assert read_contexts([{"segment": "甲"}]).dropped == 1


def test_a_text_that_stands_in_two_documents_tells_both() -> None:
    contexts = read_contexts([{"content": "甲", "title": "x.pdf"}, {"content": "甲 ", "title": "y.pdf"}])
    assert [chunk.documents for chunk in contexts.chunks] == [("x.pdf", "y.pdf")]
    assert contexts.duplicates == 1


@pytest.mark.parametrize("value", ["None", "null", ["None"], "undefined", [None]])
def test_what_is_written_for_nothing_is_no_chunk(value: object) -> None:
    assert read_contexts(value).chunks == ()


def test_duplicates_keep_their_first_rank_and_are_counted() -> None:
    contexts = read_contexts([[{"content": "乙"}, {"content": "甲"}], [{"content": "甲"}, "乙", "丙"]])
    assert contexts.texts == ["乙", "甲", "丙"]
    assert (contexts.dropped, contexts.duplicates) == (0, 2)


def test_same_contexts_as_list_json_repr_and_wrapped_text() -> None:
    items = [KNOWLEDGE, {**KNOWLEDGE, "content": "日当は2,000円です。", "title": "旅費"}]
    shapes: list[Any] = [
        items,
        tuple(items),
        [items],
        json.dumps(items, ensure_ascii=False),
        json.dumps(items),
        json.dumps(items, indent=2),
        f"\n {items!r} ",
        [repr(items)],
        [[repr(items)]],
        {"result": items},
        json.dumps({"contexts": items}),
        [{"text": item["content"], "title": item["title"]} for item in items],
        [{"page_content": item["content"], "title": item["title"], "metadata": None} for item in items],
    ]
    for shape in shapes:
        contexts = read_contexts(shape)
        assert contexts.texts == [item["content"] for item in items], shape
        assert [chunk.title for chunk in contexts.chunks] == ["就業規則", "旅費"], shape


def test_chunk_knows_every_name_of_its_document() -> None:
    titled = read_contexts([KNOWLEDGE]).chunks[0]
    assert titled.documents == ("就業規則", "就業規則.md", "d1")
    untitled = read_contexts([{"content": "甲", "title": None, "document_name": "b.md"}, {"text": "乙"}, "丙"]).chunks
    assert untitled == (Chunk("甲", "b.md", ("b.md",)), Chunk("乙"), Chunk("丙"))


@pytest.mark.parametrize(
    "text",
    [
        "[1]",
        "[1] 甲の規程",
        "[注意] 火気厳禁",
        "[重要]",
        '["見出し" の説明',
        '{"price": 100, "name": "A"}',
        '[{"price": 100}]',
        '{"text": 5}',
        '{"documents": "three"}',
        '{"documents": "three", "name": "A"}',
        "[[1, 2], [3, 4]]",
        '{"a": 1} and more',
        "[{'content': 'ab",
        "[{'content': open('x')}]",
        "{}",
        "[" * 5000,
        "{'" * 5000,
        "甲, 乙",
        "- 甲\n- 乙",
    ],
)
def test_text_that_is_no_list_of_contexts_stays_one_chunk(text: str) -> None:
    assert read_contexts(text).texts == [text]
    assert read_contexts([text]).texts == [text]


def test_python_repr_is_read_without_running_it() -> None:
    text = r"[{'content': 'a\n\t\'b\' \x41\u3042\U0001f600 \\ \"c\"', 'score': nan, 'seen': (True, False, None, inf)}]"
    assert read_contexts(text).texts == ["a\n\t'b' Aあ😀 \\ \"c\""]


def test_long_repr_is_read_quickly() -> None:
    items = [{**KNOWLEDGE, "content": f'{n} it\'s "long" ' * 2000} for n in range(30)]
    begun = time.process_time()
    assert len(read_contexts(repr(items)).chunks) == 30
    assert read_contexts("[{'content': '" + "\\" * 300_000).texts
    assert time.process_time() - begun < 2


@pytest.mark.parametrize("value", [None, "", [], [None], [""], [[None], [""]], "[]", "[None]", '[""]', "  ", ["  "]])
def test_no_contexts(value: object) -> None:
    assert read_contexts(value).chunks == ()


@pytest.mark.parametrize("value", [5, 0.5, True, File(), [File()], [5, None], b"bytes", [[File(), ""]]])
def test_contexts_that_are_no_text_are_refused(value: object) -> None:
    error = refused(read_contexts, value)
    assert (error.reason, error.values["field"]) == (Reason.NOT_TEXT, "contexts")


def test_objects_without_text_are_dropped_and_counted() -> None:
    contexts = read_contexts([{"title": "a"}, {"content": ["a"]}, {"result": []}, {"content": "甲"}])
    assert (contexts.texts, contexts.dropped) == (["甲"], 3)
    assert read_contexts({"title": "a"}).dropped == 1


def test_foreign_items_beside_texts_are_dropped_and_counted() -> None:
    contexts = read_contexts(["甲", 5, File()])
    assert (contexts.texts, contexts.dropped) == (["甲"], 2)


@pytest.mark.parametrize(
    "value", ["kr.result", ["kr.result"], "{{#kr.result#}}", [{"content": "1711067409646.result"}]]
)
def test_contexts_that_were_never_connected_are_refused(value: object) -> None:
    assert refused(read_contexts, value).reason is Reason.NOT_CONNECTED


def test_too_many_characters_of_contexts_are_refused_not_cut() -> None:
    error = refused(read_contexts, ["a" * MAX_CONTEXTS_CHARACTERS, "b"])
    assert error.reason is Reason.INPUT_TOO_LONG
    assert error.values["characters"] == MAX_CONTEXTS_CHARACTERS + 1
    assert len(read_contexts(["a" * MAX_CONTEXTS_CHARACTERS]).texts[0]) == MAX_CONTEXTS_CHARACTERS


@pytest.mark.parametrize("value", [None, [None], [""], ["", None], [], (), "", " \n "])
def test_text_that_was_not_given_is_empty(value: object) -> None:
    assert read_text(value, "question") == ""


@pytest.mark.parametrize(
    ("value", "text"), [(" a\n", "a"), (["a"], "a"), (("  b",), "b"), ("0", "0"), ("「」", "「」")]
)
def test_text_is_stripped_and_taken_out_of_a_list_of_one(value: object, text: str) -> None:
    assert read_text(value, "question") == text


@pytest.mark.parametrize("value", [5, 0, 0.0, True, False, {}, {"a": 1}, ["a", "b"], File(), [File()], [5], b"a"])
def test_input_that_is_no_text_is_refused(value: object) -> None:
    error = refused(read_text, value, "answer")
    assert (error.reason, error.values["field"]) == (Reason.NOT_TEXT, "answer")


def test_too_long_text_is_refused_not_cut() -> None:
    error = refused(read_text, "a" * (MAX_TEXT_CHARACTERS + 1), "answer")
    assert (error.reason, error.values["limit"]) == (Reason.INPUT_TOO_LONG, MAX_TEXT_CHARACTERS)
    assert read_text("a" * MAX_TEXT_CHARACTERS, "answer") == "a" * MAX_TEXT_CHARACTERS
    assert refused(read_text, "abcd", "answer", 3).reason is Reason.INPUT_TOO_LONG


LEFT_BY_DIFY = [
    "kr.result",
    "llm.text",
    " llm.text ",
    "llm2.text",
    "knowledge-retrieval_2.result",
    "{{#kr.result#}}",
    " {{#1711067409646.text#}}",
    "{{#llm.structured_output.answer#}}",
    "{{#conversation.note#}}",
    "{{#sys.query#}}",
    "1711067409646.anything",
    "1711067409646.structured_output.answer",
    "sys.query",
    "llm.structured_output.text",
]
OF_ANY_NODE = ["env.TOKEN", "conversation.language", "start.topic", "reply.answer", "my_tool.score", "config.text"]


@pytest.mark.parametrize("text", LEFT_BY_DIFY)
@pytest.mark.parametrize("field", ["question", "answer", "reference", "golden"])
def test_name_of_a_variable_is_recognised(text: str, field: str) -> None:
    error = refused(read_text, text, field)
    assert (error.reason, error.values["text"]) == (Reason.NOT_CONNECTED, text.strip())
    assert refused(read_contexts, [text]).reason is Reason.NOT_CONNECTED


@pytest.mark.parametrize("text", OF_ANY_NODE)
def test_what_may_be_asked_or_answered_is_a_text_though_it_looks_like_a_name(text: str) -> None:
    for field in ("question", "answer", "reference"):
        assert read_text(text, field) == text
    assert read_answer(text).text == text
    # Nobody gives it as a table, and it is no chunk.
    assert refused(read_text, text, "golden").reason is Reason.NOT_CONNECTED
    assert refused(read_contexts, text).reason is Reason.NOT_CONNECTED


@pytest.mark.parametrize(
    "text",
    [
        "config.text",
        "response.body",
        "user.query",
        "df.result",
        "request.files",
        "order.status",
        "self.output",
        "model.usage",
        "logging.context",
        "conversation.summary",
        "start.text",
        "sys.path",
        "llm.invoke",
        "12.text",
    ],
)
def test_an_answer_such_as_config_text_is_an_answer(text: str) -> None:
    assert read_answer(text).text == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10日です",
        "3.14",
        "3.x",
        "node.js",
        "package.json",
        "sys.path",
        "www.example.com",
        "example.com",
        "a.b.c",
        "Yes.",
        "e.g.",
        "kr.result です",
        "kr. result",
        "知識.result",
        "kr.result\nkr.result",
        "{{#kr.result#}} と {{#llm.text#}}",
        "x" * 300 + ".result",
    ],
)
def test_ordinary_text_is_no_variable_name(text: str) -> None:
    for field in ("question", "answer", "contexts", "golden"):
        assert not is_variable_name(text, field)
    assert read_text(text, "answer") == text
