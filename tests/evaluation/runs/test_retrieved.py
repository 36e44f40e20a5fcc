"""What can be seen of an app's retrieval, whatever retrieved."""

import json
from typing import Any

import pytest

from evaluation.errors import Reason
from evaluation.runs.app_events import read_events
from evaluation.sample import Contexts
from tests.evaluation.runs.events import END, SOURCE, call_log, finished, message, node, of_report, says, thought


@pytest.mark.parametrize("name", ["agent_node", "workflow_tool"])
def test_retrieval_by_an_agent_node_or_a_tool_is_seen(name: str) -> None:
    answer = of_report(f"19_agent_node_retrieval/{name}")

    assert answer.text == "有給休暇は10日です。"
    assert answer.contexts.texts == ["有給休暇は入社6か月後に10日付与されます。"]


CHUNK = {"content": "有給休暇は10日", "metadata": {"document_name": "規程.md", "score": 0.9}, "title": "規程.md"}
SEGMENT = {"content": "有給休暇は10日", "document_id": "d-1", "document": {"id": "d-1", "name": "規程.md"}}


def give(kind: str, **outputs: Any) -> list[dict[str, Any]]:
    """A chatflow in which one node of that kind gives this out."""
    return [node(kind, outputs=outputs), message("10日です"), END, finished(outputs={"answer": "10日です"})]


def body(value: object, status: int = 200) -> list[dict[str, Any]]:
    return give("http-request", status_code=status, body=json.dumps(value), headers={"x": "[]"}, files=[])


def agent_node(**log: Any) -> list[dict[str, Any]]:
    own_words = {"label": "gpt Thought", "data": {"output": "検索しよう", "tool_name": "search", "tool_input": []}}
    return give("agent", text="10日です", json=[own_words, {"label": "CALL search", "data": log}, {"data": []}])


@pytest.mark.parametrize(
    "events",
    [
        # Dify's own shapes.
        give("tool", text="", json=[{"result": [CHUNK]}]),
        give("tool", text=json.dumps([CHUNK]), json=[{"data": []}]),
        give("tool", text="", json=[CHUNK], files=[]),
        give("code", result=[CHUNK]),
        give("tool", text="", json=[{"検索結果": [{"content": "有給休暇は10日"}]}]),
        give("tool", text="", json=[{"data": [{"page_content": "有給休暇は10日"}]}]),
        give("code", chunks=["有給休暇は10日"]),
        give("tool", text=str({"result": [{**CHUNK, "title": None}]}), json=[]),
        body({"query": {"content": "何日"}, "records": [{"segment": SEGMENT, "score": 0.8, "child_chunks": []}]}),
        body({"records": [{"content": "有給休暇は10日", "score": 0.8, "title": "規程.md", "metadata": None}]}),
        body({"answer": "10日", "metadata": {"retriever_resources": [SOURCE]}}),
        # Agents.
        agent_node(output={"tool_call_name": "search", "tool_response": "有給休暇は10日"}),
        agent_node(tool_name="search", tool_call_args={"query": "何日"}, output="有給休暇は10日"),
        agent_node(output={"tool_response": "tool response: " + json.dumps({"result": [CHUNK]}) + "."}),
        [call_log(output={"tool_response": json.dumps([CHUNK])}), message("10日です"), END, finished()],
        [thought("", "search", json.dumps({"result": [CHUNK]})), *says("10日です"), END],
        # Search services and vector databases.
        body({"results": [{"title": "規程", "url": "https://example.com", "content": "有給休暇は10日", "score": 1}]}),
        body({"organic": [{"title": "規程", "link": "https://example.com", "snippet": "有給休暇は10日"}]}),
        body({"matches": [{"id": "1", "score": 0.9, "metadata": {"text": "有給休暇は10日"}}]}),
        body({"hits": {"total": 1, "hits": [{"_id": "1", "_source": {"content": "有給休暇は10日"}}]}}),
        body({"result": {"points": [{"id": 1, "score": 0.9, "payload": {"text": "有給休暇は10日"}}]}}),
        body({"retrievalResults": [{"content": {"text": "有給休暇は10日"}, "score": 0.9}]}),
        body({"documents": [["有給休暇は10日"]], "distances": [[0.1]]}),
        body({"source_nodes": [{"node": {"text": "有給休暇は10日"}, "score": 0.9}]}),
        body({"results": [{"index": 0, "relevance_score": 0.9, "document": {"text": "有給休暇は10日"}}]}),
    ],
)
def test_chunks_are_read_from_what_retrieved(events: list[dict[str, Any]]) -> None:
    contexts = read_events(events).contexts

    assert contexts.texts == ["有給休暇は10日"]
    assert contexts.hidden is Reason.NONE


def test_a_chunk_that_the_model_repeats_afterwards_was_retrieved_all_the_same() -> None:
    retrieving, *others = give("code", result=[CHUNK])
    writing = [node("llm", name, outputs={"text": text}) for name, text in (("a", "何日"), ("b", CHUNK["content"]))]

    assert read_events([writing[0], retrieving, writing[1], *others]).contexts.texts == ["有給休暇は10日"]


def test_a_chunk_of_the_knowledge_api_names_its_document() -> None:
    [chunk] = read_events(body({"records": [{"segment": SEGMENT, "score": 0.8}]})).contexts.chunks

    assert (chunk.title, chunk.documents) == ("規程.md", ("規程.md", "d-1"))


@pytest.mark.parametrize(
    "events",
    [
        # What a model wrote, also over HTTP or taken apart by code.
        give("llm", text=json.dumps([CHUNK]), structured_output={"chunks": [CHUNK]}),
        give("parameter-extractor", result=[CHUNK]),
        body({"choices": [{"index": 0, "message": {"role": "assistant", "content": "有給休暇は10日"}}]}),
        body({"content": [{"type": "text", "text": "有給休暇は10日"}], "role": "assistant"}),
        body({"messages": [{"role": "user", "content": "何日", "score": 1}]}),
        [node("llm", outputs={"text": json.dumps({"sources": [CHUNK]})}), *give("code", sources=[CHUNK])],
        agent_node(output="考え中", tool_name="search"),
        # Our own tools, and others that judge.
        give("tool", text="", json=[{"details": {"chunks": [{"rank": 1, "title": "a", "text": "b", "verdict": 1}]}}]),
        agent_node(output={"tool_response": '{"score": 1, "score_text": "1.00"}'}),
        # A tool that failed, or that did something else.
        agent_node(output={"tool_response": "tool invoke error: 503"}),
        give("tool", text="東京は晴れです", json=[{"data": []}]),
        give("tool", text="", json=[{"temperature": 20, "items": [{"text": "晴れ"}]}]),
        give("code", result="10日", numbers=[1, 2], names=["規程"], rows=[{"id": 1}], empty=[]),
        body({"data": []}),
        give("http-request", status_code=200, body="<html>10日</html>", headers={}, files=[]),
        give("template-transform", output=json.dumps([CHUNK])),
    ],
)
def test_what_is_no_retrieval_is_not_taken_for_one(events: list[dict[str, Any]]) -> None:
    assert read_events(events).contexts == Contexts(hidden=Reason.CONTEXTS_NOT_VISIBLE)


def test_our_own_tools_chunks_are_no_sources() -> None:
    events = give("tool", text="", json=[{"details": {"chunks": [CHUNK]}}])
    events[0]["data"]["execution_metadata"] = {"tool_info": {"provider_id": "team/rag_evaluator/rag_evaluator"}}

    assert read_events(events).contexts.hidden is Reason.CONTEXTS_NOT_VISIBLE


@pytest.mark.parametrize(
    "events",
    [
        body({"query": {"content": "何日"}, "records": []}),
        give("code", chunks=[]),
        [thought("", "dataset_1", " "), *says("分かりません"), END],
    ],
)
def test_a_search_that_found_nothing_is_seen_too(events: list[dict[str, Any]]) -> None:
    assert read_events(events).contexts == Contexts()


@pytest.mark.parametrize(
    ("events", "hidden"),
    [
        # It ran and found nothing.
        ([node("knowledge-retrieval", outputs={"result": []}), message("はい"), END, finished()], ""),
        ([node("knowledge-retrieval", outputs={"result": []}), finished(outputs={"answer": "はい"})], ""),
        # A chatflow or a workflow in which no retrieval ran.
        ([node("llm", outputs={"text": "はい"}), message("はい"), END, finished()], "contexts_not_visible"),
        ([finished(outputs={"answer": "はい"})], "contexts_not_visible"),
        # A chatbot, an agent: with citations off they say nothing of it.
        ([message("はい"), END], "citations_off"),
        ([message("はい", kind="agent_message"), END], "citations_off"),
    ],
)
def test_nothing_seen_is_not_nothing_found(events: list[dict[str, Any]], hidden: str) -> None:
    assert read_events(events).contexts == Contexts(hidden=Reason(hidden))
