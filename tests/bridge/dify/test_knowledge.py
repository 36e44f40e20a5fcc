"""The Knowledge API's client against a real HTTP server: what Dify was recorded to answer, and what goes wrong."""

import json
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from bridge.dify import knowledge
from bridge.dify.knowledge import Dataset, KnowledgeApi
from devhost.knowledge import KnowledgeBase
from devhost.knowledge_api import Answer, KnowledgeApiServer, Served
from evaluation.errors import EvaluationError, Reason

RECORDED = Path(__file__).parents[2] / "data" / "knowledge_api"
KEY = "dataset-secretKey123"
UNKNOWN = "00000000-0000-0000-0000-000000000000"
HTML = "<!doctype html>\n<title>404 Not Found</title>\n"


def recording(file: str, name: str) -> dict[str, Any]:
    entries = json.loads((RECORDED / f"{file}.json").read_text(encoding="utf-8"))
    found: dict[str, Any] = next(entry for entry in entries if entry["name"] == name)
    return found


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knowledge.time, "sleep", lambda _seconds: None)


@pytest.fixture
def base(tmp_path: Path) -> KnowledgeBase:
    """250 chunks in one document, one chunk in each of the others."""
    (tmp_path / "長い規程.md").write_text("\n\n".join(f"第{n}条の定めです。" for n in range(250)), encoding="utf-8")
    (tmp_path / "旅費.md").write_text("出張の日当は2,000円です。", encoding="utf-8")
    return KnowledgeBase(tmp_path, name="社内規程")


@pytest.fixture
def server(base: KnowledgeBase) -> Iterator[KnowledgeApiServer]:
    with KnowledgeApiServer([base], KEY) as running:
        yield running


@pytest.fixture
def api(server: KnowledgeApiServer) -> KnowledgeApi:
    return KnowledgeApi(server.url, KEY)


def refused(call: Callable[[], Any]) -> EvaluationError:
    with pytest.raises(EvaluationError) as caught:
        call()
    return caught.value


def replay(server: KnowledgeApiServer, file: str, name: str) -> None:
    entry = recording(file, name)
    server.before = lambda _request: (entry["status"], entry["response"])


# --- as Dify was recorded ---


def test_knowledge_bases_are_read_as_recorded(server: KnowledgeApiServer, api: KnowledgeApi) -> None:
    replay(server, "datasets", "one")

    found = api.find_dataset("b1c87d8f-8677-408d-a75b-992112b28c5b")

    assert found == Dataset(
        "b1c87d8f-8677-408d-a75b-992112b28c5b",
        "社内規程",
        3,
        "high_quality",
        "text_model",
        recording("datasets", "one")["response"]["retrieval_model_dict"],
    )


def test_documents_are_read_as_recorded(server: KnowledgeApiServer, api: KnowledgeApi) -> None:
    replay(server, "documents", "list")

    [document] = api.documents(UNKNOWN)

    assert (document.name, document.available, document.form) == ("travel_expenses.md", True, "text_model")
    replay(server, "documents", "status_disabled_one")
    assert [document.available for document in api.documents(UNKNOWN)] == [False]


def test_chunks_are_read_as_recorded(server: KnowledgeApiServer, api: KnowledgeApi) -> None:
    replay(server, "segments", "limit2_page2")
    server_more = recording("segments", "limit2_page2")
    server_more["response"]["has_more"] = False
    server.before = lambda _request: (200, server_more["response"])

    chunks = list(api.segments(UNKNOWN, UNKNOWN))

    assert chunks[0].text.startswith("宿泊費は、1泊12,000円を上限に")
    assert (chunks[0].position, chunks[0].available) == (3, True)


def test_a_question_and_answer_chunk_reads_as_a_chatflow_hands_it_on(
    server: KnowledgeApiServer, api: KnowledgeApi
) -> None:
    replay(server, "segments", "qa_list")

    assert [chunk.text for chunk in api.segments(UNKNOWN, UNKNOWN)][:1] == [
        "question:有給休暇は何日もらえますか \nanswer:入社6か月後に10日付与されます。"
    ]


def test_parent_child_chunks_tell_their_children(server: KnowledgeApiServer, api: KnowledgeApi) -> None:
    replay(server, "segments", "segments F parent-child")

    first = next(api.segments(UNKNOWN, UNKNOWN))

    assert first.children
    assert all(first.children)


def test_hits_are_read_as_recorded(server: KnowledgeApiServer, api: KnowledgeApi) -> None:
    replay(server, "retrieve", "no_retrieval_model")

    hits = api.retrieve(UNKNOWN, "有給休暇は何日もらえますか")

    assert hits[0].document == "travel_expenses.md"
    assert hits[0].score == pytest.approx(0.20033416152)
    assert hits[0].segment.text.startswith("新幹線は普通車の指定席")
    assert server.requests[-1].body == {"query": "有給休暇は何日もらえますか"}


@pytest.mark.parametrize(
    ("file", "name", "reason"),
    [
        ("datasets", "wrong_key", "knowledge_unauthorized"),
        ("datasets", "no_key", "knowledge_unauthorized"),
        ("datasets", "app_key", "knowledge_unauthorized"),
        ("datasets", "one_unknown", "knowledge_not_found"),
        ("datasets", "one_not_uuid", "knowledge_address"),
        ("datasets", "root", "knowledge_address"),
        ("retrieve", "unknown_dataset", "knowledge_not_found"),
        ("retrieve", "default F economy", "knowledge_failed"),
        ("retrieve", "bad_method", "knowledge_failed"),
        ("retrieve", "top_k_0", "knowledge_failed"),
        ("retrieve", "not_json", "knowledge_failed"),
    ],
)
def test_refusals_are_told_as_recorded_and_not_tried_again(
    file: str, name: str, reason: str, server: KnowledgeApiServer, api: KnowledgeApi
) -> None:
    replay(server, file, name)

    assert refused(lambda: api.retrieve(UNKNOWN, "質問")).reason == reason
    assert len(server.requests) == 1


# --- the played API is as the recorded one ---


PLAYED = [
    *(("datasets", name) for name in ("list", "list_limit0", "list_page_past_end", "list_limit_text", "one_unknown")),
    *(("datasets", name) for name in ("wrong_key", "no_key", "one_not_uuid", "trailing_slash")),
    *(("documents", name) for name in ("list", "list_limit1000", "unknown_dataset")),
    *(("segments", name) for name in ("list", "past_end", "unknown_document")),
    *(("retrieve", name) for name in ("no_retrieval_model", "semantic_search", "top_k_0", "bad_method", "empty_query")),
    *(("retrieve", name) for name in ("query_251", "unknown_dataset", "get_method")),
]


@pytest.mark.parametrize(("file", "name"), PLAYED)
def test_the_played_api_answers_like_the_recorded_one(
    file: str, name: str, server: KnowledgeApiServer, base: KnowledgeBase, api: KnowledgeApi
) -> None:
    entry = recording(file, name)
    document = next(api.documents(base.id)).id
    path = entry["request"]["path"].replace("b1c87d8f-8677-408d-a75b-992112b28c5b", base.id)
    path = path.replace("2b94ad3e-4ba6-45c9-a360-bbdc29d50460", document)
    key = {"wrong_key": "Bearer x", "no_key": ""}.get(name, f"Bearer {KEY}")

    status, body = server.answer(
        Served(entry["request"]["method"], path, entry["request"]["json"], {"authorization": key})
    )

    assert status == entry["status"]
    assert_alike(body, entry["response"])


def assert_alike(played: Any, recorded: Any) -> None:
    """The same kinds of values; what is played has no field that Dify does not have."""
    if isinstance(played, dict) and isinstance(recorded, dict):
        assert played.keys() <= recorded.keys()
        for name in played:
            assert_alike(played[name], recorded[name])
        if "code" in recorded:
            assert played["code"] == recorded["code"]
    elif isinstance(played, list) and isinstance(recorded, list) and played and recorded:
        assert_alike(played[0], recorded[0])
    elif played is not None and recorded is not None:
        assert isinstance(played, type(recorded)) or {type(played), type(recorded)} <= {int, float}


# --- reading ---


def test_all_pages_are_read_by_what_the_server_says(
    server: KnowledgeApiServer, api: KnowledgeApi, base: KnowledgeBase
) -> None:
    long = next(document for document in api.documents(base.id) if document.name == "長い規程.md")
    server.requests.clear()

    chunks = list(api.segments(base.id, long.id))

    assert [chunk.text for chunk in chunks] == [f"第{n}条の定めです。" for n in range(250)]
    assert [urlsplit(request.path).query for request in server.requests] == [f"page={n}&limit=100" for n in (1, 2, 3)]


def test_only_as_many_pages_are_read_as_are_wanted(
    server: KnowledgeApiServer, api: KnowledgeApi, base: KnowledgeBase
) -> None:
    long = next(document for document in api.documents(base.id) if document.name == "長い規程.md")
    server.requests.clear()

    next(api.segments(base.id, long.id))

    assert len(server.requests) == 1


@pytest.mark.parametrize("name", ["社内規程", " 社内規程 "])
def test_a_knowledge_base_is_found_by_name_or_id(name: str, api: KnowledgeApi, base: KnowledgeBase) -> None:
    assert api.find_dataset(name).id == base.id
    assert api.find_dataset(base.id).name == "社内規程"


def test_a_knowledge_base_that_is_not_there_is_told_with_those_that_are(api: KnowledgeApi) -> None:
    error = refused(lambda: api.find_dataset("就業規則"))

    assert (error.reason, error.values) == (
        Reason.KNOWLEDGE_NOT_FOUND,
        {"knowledge": "就業規則", "known": "社内規程"},
    )
    assert refused(lambda: api.find_dataset(UNKNOWN)).values["knowledge"] == UNKNOWN


def test_a_search_takes_its_settings_along_and_no_more_than_the_api_allows(
    server: KnowledgeApiServer, api: KnowledgeApi, base: KnowledgeBase
) -> None:
    settings = {"search_method": "semantic_search", "reranking_enable": False, "top_k": 1}

    hits = api.retrieve(base.id, "出張の日当" + "は" * 300, settings)

    assert [hit.document for hit in hits] == ["旅費.md"]
    body = server.requests[-1].body
    assert (len(body["query"]), body["retrieval_model"]) == (250, settings)


# --- what goes wrong ---


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 0])
def test_what_passes_is_tried_again(status: int, server: KnowledgeApiServer, api: KnowledgeApi) -> None:
    failures = [(status, ""), (status, "")]
    server.before = lambda _request: failures.pop() if failures else None

    assert [dataset.name for dataset in api.datasets()] == ["社内規程"]
    assert len(server.requests) == 3


def test_what_does_not_pass_is_told_after_three_tries(server: KnowledgeApiServer, api: KnowledgeApi) -> None:
    server.before = lambda _request: (500, {"code": "internal_server_error", "message": "QueuePool limit"})

    assert refused(lambda: list(api.datasets())).reason is Reason.KNOWLEDGE_UNAVAILABLE
    assert len(server.requests) == 3


def test_a_server_that_never_answers_is_given_up(
    server: KnowledgeApiServer, api: KnowledgeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(knowledge, "PATIENCE", (1.0, 0.1))
    release = threading.Event()

    def hang(_request: Served) -> Answer | None:
        release.wait(5)
        return None

    server.before = hang
    try:
        assert refused(lambda: list(api.datasets())).reason is Reason.KNOWLEDGE_UNAVAILABLE
    finally:
        release.set()


def test_an_answer_without_end_is_given_up(
    server: KnowledgeApiServer, api: KnowledgeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(knowledge, "MAX_BYTES", 1000)
    server.before = lambda _request: (200, {"data": ["x" * 10_000]})

    assert refused(lambda: list(api.datasets())).reason is Reason.KNOWLEDGE_UNAVAILABLE


def test_a_server_that_always_has_more_is_left(
    server: KnowledgeApiServer, api: KnowledgeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(knowledge, "MAX_PAGES", 5)
    server.before = lambda _request: (200, {"data": [{"id": "a", "name": "b"}], "has_more": True})
    assert len(list(api.datasets())) == 5
    server.before = lambda _request: (200, {"data": [], "has_more": True})
    assert list(api.datasets()) == []


@pytest.mark.parametrize("body", ["<html>Sign in</html>", [], None, 3])
def test_an_answer_that_is_no_api_is_no_dify(body: Any, server: KnowledgeApiServer, api: KnowledgeApi) -> None:
    server.before = lambda _request: (200, body)

    assert refused(lambda: list(api.datasets())).reason is Reason.KNOWLEDGE_ADDRESS


@pytest.mark.parametrize("data", [None, "text", [None, 3, "… 2 more"], {"a": 1}])
def test_rows_that_are_none_are_no_rows(data: Any, server: KnowledgeApiServer, api: KnowledgeApi) -> None:
    server.before = lambda _request: (200, {"data": data, "has_more": False})

    assert list(api.datasets()) == []


def test_fields_of_another_kind_read_as_empty(server: KnowledgeApiServer, api: KnowledgeApi) -> None:
    server.before = lambda _request: (200, {"records": [{"segment": {"content": 3, "document": 4}, "score": None}]})

    [hit] = api.retrieve(UNKNOWN, "質問")

    assert (hit.segment.text, hit.document, hit.score) == ("", "", 0.0)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "api.dify.ai/v1",
        "ftp://dify/v1",
        "http://",
        "http://user:secret@dify/v1",
        "http://a b/v1",
        "http://x:99999/v1",
    ],
)
def test_an_address_that_is_none_is_told_before_anything_is_sent(address: str) -> None:
    assert refused(lambda: KnowledgeApi(address, KEY)).reason is Reason.KNOWLEDGE_ADDRESS


@pytest.mark.parametrize("ending", ["", "/", "/v1", "/v1/", "/v1/datasets", "/datasets"])
def test_the_address_may_end_as_people_write_it(ending: str, server: KnowledgeApiServer) -> None:
    api = KnowledgeApi(f" {server.url.removesuffix('/v1')}{ending} ", KEY)

    assert [dataset.name for dataset in api.datasets()] == ["社内規程"]


def test_nobody_at_the_address_is_told_at_once() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]

    assert (
        refused(lambda: list(KnowledgeApi(f"http://127.0.0.1:{port}", KEY).datasets())).reason
        is Reason.KNOWLEDGE_ADDRESS
    )
    assert refused(lambda: list(KnowledgeApi("http://no-such-host.invalid", KEY).datasets())).reason is (
        Reason.KNOWLEDGE_ADDRESS
    )


# --- the key ---


@pytest.mark.parametrize("key", ["", " ", "dataset-\nX-Evil: 1", "鍵", "a b", "k" * 501])
def test_a_key_that_can_be_none_is_not_sent(key: str, server: KnowledgeApiServer) -> None:
    assert refused(lambda: KnowledgeApi(server.url, key)).reason is Reason.KNOWLEDGE_UNAUTHORIZED
    assert server.requests == []


def test_a_key_with_its_word_before_it_is_taken(server: KnowledgeApiServer) -> None:
    assert list(KnowledgeApi(server.url, f" Bearer {KEY}\n").datasets())


def test_the_key_is_not_taken_along_by_a_redirect(
    server: KnowledgeApiServer, api: KnowledgeApi, base: KnowledgeBase
) -> None:
    with KnowledgeApiServer([base], KEY) as elsewhere:
        server.before = lambda _request: (302, f"{elsewhere.url}/datasets")
        assert refused(lambda: list(api.datasets())).reason is Reason.KNOWLEDGE_ADDRESS
        assert elsewhere.requests == []


def test_a_password_of_the_machine_does_not_take_the_keys_place(
    api: KnowledgeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login other password other\n", encoding="utf-8")
    monkeypatch.setitem(os.environ, "NETRC", str(netrc))

    assert [dataset.name for dataset in api.datasets()] == ["社内規程"]


@pytest.mark.parametrize("status", [0, 200, 302, 400, 401, 404, 500])
def test_no_error_and_no_log_holds_the_key_or_what_the_server_said(
    status: int, server: KnowledgeApiServer, api: KnowledgeApi, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    said = {"message": f"no such key {KEY}", "code": "x"}
    server.before = lambda _request: (status, "" if status == 0 else f"<p>{KEY}</p>" if status == 200 else said)

    error = refused(lambda: api.retrieve(UNKNOWN, "質問"))

    assert KEY not in f"{error} {error.values} {error.__cause__!r} {error.__context__!r} {api.__dict__}"
    assert KEY not in caplog.text
