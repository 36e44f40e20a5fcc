"""The local web server gives the plugin the requests that the daemon gave it, byte for byte as recorded."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devhost.web import EndpointServer

RECORDED = [
    json.loads(line)
    for line in (Path(__file__).parent.parent / "data/wire/endpoint_raw.jsonl").read_text("utf-8").splitlines()
]
HOOK, HOST = "t5eiqtm373xlvnwd", "127.0.0.1:5002"


class Listening:
    """Stands for the plugin's process: keeps the requests and answers what it was told to."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []
        self.answers: list[dict[str, Any]] = [{"status": 200, "headers": {}, "result": ""}]

    def invoke_endpoint(self, raw: bytes, _: object, *, endpoint_id: str) -> Iterator[dict[str, Any]]:
        assert endpoint_id
        self.requests.append(raw)
        return iter(self.answers)


def send(server: EndpointServer, request: bytes) -> bytes:
    port = int(server.url.split(":")[2].split("/")[0])
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.fixture
def plugin() -> Listening:
    return Listening()


@pytest.fixture
def server(plugin: Listening) -> Iterator[EndpointServer]:
    with EndpointServer(plugin, {}, hook=HOOK) as running:  # type: ignore[arg-type]
        yield running


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: str(recorded["test"]))
def test_the_plugin_gets_what_the_daemon_sends(
    server: EndpointServer, plugin: Listening, recorded: dict[str, Any]
) -> None:
    request = recorded["request"]
    body = request.get("body", "").encode()
    headers = [tuple(header) for header in request["headers"]]
    names = {name.lower() for name, _ in headers}
    if "host" not in names:
        headers.insert(0, ("Host", HOST))
    if body and "transfer-encoding" not in names:
        headers.append(("Content-Length", str(len(body))))
    head = [f"{request['method']} /e/{HOOK}{request['path']} HTTP/1.1", *(f"{n}: {v}" for n, v in headers)]
    send(server, "\r\n".join([*head, "Connection: close"]).encode() + b"\r\n\r\n" + body)
    assert plugin.requests[0].decode() == recorded["raw"]


def get(server: EndpointServer, path: str) -> bytes:
    return send(server, f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode())


def test_an_address_without_a_slash_is_sent_on(server: EndpointServer, plugin: Listening) -> None:
    answer = get(server, f"/e/{HOOK}?a=1")
    assert answer.startswith(b"HTTP/1.1 301 ")
    assert f"Location: /e/{HOOK}/?a=1".encode() in answer
    assert plugin.requests == []


def test_another_hook_and_broken_escapes_do_not_reach_the_plugin(server: EndpointServer, plugin: Listening) -> None:
    assert get(server, "/e/another/").startswith(b"HTTP/1.1 404 ")
    assert get(server, f"/e/{HOOK}/p/a%zz").startswith(b"HTTP/1.1 400 ")
    assert send(server, f"PATCH /e/{HOOK}/ HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode()).startswith(
        b"HTTP/1.1 404 "
    )
    assert plugin.requests == []


def test_a_streamed_answer_comes_piece_by_piece(server: EndpointServer, plugin: Listening) -> None:
    plugin.answers = [{"status": 200, "headers": {"ETag": "1"}}, {"result": b"one".hex()}, {"result": b"two".hex()}]
    head, _, body = get(server, f"/e/{HOOK}/").partition(b"\r\n\r\n")
    assert b"Etag: 1" in head
    assert b"Transfer-Encoding: chunked" in head
    assert body == b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"


def test_an_answer_in_one_piece_has_its_length(server: EndpointServer, plugin: Listening) -> None:
    plugin.answers = [{"status": 404, "headers": {"Content-Type": "text/plain"}, "result": "日本".encode().hex()}]
    head, _, body = get(server, f"/e/{HOOK}/").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 404 ")
    assert b"Content-Length: 6" in head
    assert body.decode() == "日本"


def test_a_body_beyond_ten_mebibytes_is_cut_without_a_word(server: EndpointServer, plugin: Listening) -> None:
    size = 10 * 1024 * 1024 + 5
    head = f"POST /e/{HOOK}/ HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n"
    send(server, head.encode() + b"x" * size)
    assert b"Content-Length: 10485760" in plugin.requests[0]
