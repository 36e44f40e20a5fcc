"""A local web server that hands requests to the plugin's endpoint as Dify's plugin daemon does.

The daemon takes /e/<hook> off the path, writes the request anew (sorted query and headers, its own two headers added)
and gives the browser one value for each header of the answer. Recorded from a running one: tests/data/wire.
"""

import json
import re
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar, Self
from urllib.parse import parse_qsl, quote, quote_plus, unquote_to_bytes

from devhost.daemon import Message, PluginDied, PluginProcess, ToolFailed

MAX_BODY_BYTES = 10 * 1024 * 1024
# Go leaves these in a path as they are.
_PATH_SAFE = "/$&+,:;=@~"
_REMOVED = re.compile(r"(?i)X-Forwarded(-For)?|X-Real-Ip|X-Original-.*")
_WRITTEN_ANEW = frozenset(
    {"Host", "User-Agent", "Content-Length", "Transfer-Encoding", "Connection", "Dify-Hook-Id", "Dify-Hook-Url"}
)
_JSON = "application/json; charset=utf-8"


class EndpointServer:
    """Serves a plugin's endpoint on a free port of this machine; a context manager.

    Args:
        hook: the endpoint's id in its address.
        settings: as its form was filled in.

    Attributes:
        plugin: may be exchanged at any time.
        url: of the first page.
    """

    def __init__(
        self, plugin: PluginProcess, settings: Mapping[str, Any], *, hook: str = "h0okid1234567890", port: int = 0
    ) -> None:
        self.plugin = plugin
        self.settings = dict(settings)
        self.hook = hook
        handler = type("Handler", (_Handler,), {"endpoint": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/e/{hook}/"

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    endpoint: ClassVar[EndpointServer]
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the base class's name
        """Says nothing: addresses may be secret."""

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        own = f"/e/{self.endpoint.hook}"
        if path == own:
            self._redirect(f"{own}/{f'?{query}' if query else ''}")
        elif not path.startswith(f"{own}/"):
            message = {"message": "endpoint not found", "error_type": "PluginDaemonBadRequestError", "args": None}
            self._answer_json(404, {"code": -400, "message": json.dumps(message), "data": None})
        elif re.search(r"%(?![0-9A-Fa-f]{2})", path):
            self._answer(400, "text/plain; charset=utf-8", b"400 Bad Request")
        else:
            self._hand_over(path.removeprefix(own), query)

    do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = do_GET  # noqa: N815 - the base class's names

    def do_PATCH(self) -> None:
        self._answer_json(404, {"code": "not_found", "message": "route not found"})

    def _hand_over(self, path: str, query: str) -> None:
        raw = rewritten(self.command, path, query, list(self.headers.items()), self._body(), self.endpoint.hook)
        messages = self.endpoint.plugin.invoke_endpoint(raw, self.endpoint.settings, endpoint_id="endpoint-1")
        try:
            first = next(messages)
        except (ToolFailed, PluginDied, StopIteration) as error:
            self._answer_json(500, {"code": -500, "message": str(error), "data": None})
            return
        self._stream(first, messages)

    def _body(self) -> bytes:
        """What the browser sent, cut at 10 MiB without a word; the rest is read so that the connection goes on."""
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            whole = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                whole += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return whole[:MAX_BODY_BYTES]
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))[:MAX_BODY_BYTES]

    def _stream(self, first: Message, messages: Iterator[Message]) -> None:
        headers = {canonical(name): str(value) for name, value in first["headers"].items()}
        self.send_response_only(first["status"])
        chunked = "Content-Length" not in headers and first["status"] not in {204, 304}
        if chunked and "result" in first:
            headers["Content-Length"], chunked = str(len(first["result"]) // 2), False
        for name in sorted(headers):
            # Go writes header values as UTF-8.
            self.send_header(name, headers[name].encode().decode("latin-1"))
        if chunked:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self._write(first, chunked)
        for message in messages:
            self._write(message, chunked)
        if chunked:
            self.wfile.write(b"0\r\n\r\n")

    def _write(self, message: Message, chunked: bool) -> None:
        data = bytes.fromhex(message.get("result", ""))
        if not data or self.command == "HEAD":
            return
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data) if chunked else data)
        self.wfile.flush()

    def _redirect(self, location: str) -> None:
        self.send_response_only(301)
        self.send_header("Location", location)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _answer_json(self, status: int, value: Mapping[str, Any]) -> None:
        self._answer(status, _JSON, json.dumps(value).encode())

    def _answer(self, status: int, content_type: str, data: bytes) -> None:
        self.send_response_only(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def rewritten(method: str, path: str, query: str, headers: list[tuple[str, str]], body: bytes, hook: str) -> bytes:
    """The request as the daemon writes it for the plugin.

    Args:
        path: without /e/<hook>, as the browser sent it.
        headers: in order, also several of one name.
    """
    plain = unquote_to_bytes(path).decode("utf-8", "replace")
    target = quote(unquote_to_bytes(path), safe=_PATH_SAFE)
    if query:
        pairs = sorted(parse_qsl(query, keep_blank_values=True), key=lambda pair: pair[0])
        target += "?" + "&".join(f"{quote_plus(name)}={quote_plus(value)}" for name, value in pairs)
    named = [(canonical(name), value) for name, value in headers]
    known = dict(reversed(named))
    host = known.get("X-Original-Host") or known.get("Host", "")
    scheme = "https" if known.get("X-Forwarded-Proto") == "https" else "http"
    url = re.sub(r"[\r\n]", " ", known.get("Dify-Hook-Url") or f"{scheme}://{host}/e/{hook}{plain}")
    framing = {
        "Host",
        "User-Agent",
        "Content-Length",
        "Transfer-Encoding",
        "Connection",
        "Dify-Hook-Id",
        "Dify-Hook-Url",
    }
    others = [(name, value) for name, value in named if name not in framing and not _REMOVED.fullmatch(name)]
    others += [("Dify-Hook-Id", hook), ("Dify-Hook-Url", url)]
    head = [("Host", host), ("User-Agent", known.get("User-Agent", "Go-http-client/1.1"))]
    if body:
        head.append(("Content-Length", str(len(body))))
    elif method in {"POST", "PUT"}:
        head.append(("Transfer-Encoding", "chunked"))
        body = b"0\r\n\r\n"
    lines = [f"{method} {target} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in (*head, *sorted(others, key=lambda item: item[0]))]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def canonical(name: str) -> str:
    """A header's name as Go writes it: If-None-Match, Etag, X-Real-Ip."""
    return "-".join(part[:1].upper() + part[1:].lower() for part in name.split("-"))
