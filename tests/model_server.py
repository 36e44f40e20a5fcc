"""A real HTTP model server for tests: OpenAI-compatible, and its replies are scripted.

Judge calls are told apart by the first line of their system message, `rag-evaluator <prompt> v<version> <language>`.
"""

import hashlib
import itertools
import json
import math
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

EMBEDDING_DIMENSIONS = 64
FIRST_LINE = re.compile(r"rag-evaluator (?P<prompt>\S+) v(?P<version>\S+) (?P<language>\S+)")


@dataclass(frozen=True)
class HttpError:
    """An error status with a body; a dict body is sent as JSON."""

    status: int
    body: str | Mapping[str, Any] = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Hang:
    """No answer for some seconds, then the connection is closed; ends at once when the server is closed."""

    seconds: float


@dataclass(frozen=True)
class Cut:
    """The connection ends in the middle of the reply."""


@dataclass(frozen=True)
class NoReply:
    """The connection ends without a reply."""


@dataclass(frozen=True)
class Html:
    """Status 200 with an HTML page, as a wrong address or a login wall gives."""

    page: str = "<html><body>Sign in</body></html>"


type Failure = HttpError | Hang | Cut | NoReply | Html
type Reply = str | Mapping[str, Any] | Failure
type Script = Reply | Sequence[Reply] | Callable[["Request"], Reply]
type Vectors = Sequence[Sequence[float]]


@dataclass
class Request:
    """One request as the server saw it.

    Attributes:
        path: such as "/v1/chat/completions".
        body: the request's JSON.
        prompt: the judge prompt's name; None for other chats and for embeddings.
        version: the prompt's version, without the "v".
        language: the prompt's language.
        system: the text of the system messages.
        user: the text of the user messages.
        started: time.perf_counter() at the request's arrival.
        ended: time.perf_counter() when the reply was written; None before.
        in_flight: how many requests the server was working on at the arrival, this one included.
        headers: the request's headers, names in lower case.
    """

    path: str
    body: dict[str, Any]
    prompt: str | None
    version: str | None
    language: str | None
    system: str
    user: str
    started: float
    in_flight: int
    headers: dict[str, str]
    ended: float | None = None


class ScriptedModelServer:
    """Serves /v1/chat/completions (plain and streamed) and /v1/embeddings on a free port of 127.0.0.1.

    A context manager. A judge prompt without a script gets status 501, so that a forgotten script is seen.

    Attributes:
        latency: seconds before each chat reply.
        embedding_latency: seconds before each embedding reply.
        finish_reason: of all chat replies.
        usage: reported by all chat replies instead of character counts; {} reports none.
    """

    def __init__(self) -> None:
        self.latency = 0.0
        self.embedding_latency = 0.0
        self.finish_reason = "stop"
        self.usage: Mapping[str, int] | None = None
        self._scripts: dict[str, Script] = {}
        self._chat_script: Script = "OK."
        self._used: dict[str | None, int] = {}
        self._vectors: dict[str, Sequence[float]] = {}
        self._embedding_script: Failure | Callable[[list[str]], Vectors | Failure] | None = None
        self._requests: list[Request] = []
        self._in_flight = 0
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._http = _HttpServer(("127.0.0.1", 0), _handler_for(self))
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop serving; requests that hang end at once."""
        self._closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(5)

    @property
    def url(self) -> str:
        """The base URL, up to and with /v1."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def on(self, prompt: str, reply: Script) -> None:
        """Set the reply to a judge prompt, such as "faithfulness.verdicts".

        Args:
            prompt: the prompt's name.
            reply: a text; a dict, sent as JSON text; a failure; a list of those, one per call and the last one for
                ever; or a function from the Request to one of them.
        """
        with self._lock:
            self._scripts[prompt] = reply
            self._used.pop(prompt, None)

    def on_chat(self, reply: Script) -> None:
        """Set the reply to chats that are no judge call: the bot's own model."""
        with self._lock:
            self._chat_script = reply
            self._used.pop(None, None)

    def on_embedding(self, reply: Failure | Callable[[list[str]], Vectors | Failure] | None) -> None:
        """Set how texts become vectors: a failure, or a function from all texts of a request; None for the default."""
        self._embedding_script = reply

    def embed_as(self, text: str, vector: Sequence[float]) -> None:
        """Set the vector of one text."""
        self._vectors[text] = vector

    @property
    def requests(self) -> list[Request]:
        """All requests so far, in the order of arrival."""
        with self._lock:
            return list(self._requests)

    @property
    def judge_calls(self) -> list[Request]:
        """The requests that carry a judge prompt."""
        return [request for request in self.requests if request.prompt is not None]

    @property
    def embedding_calls(self) -> list[Request]:
        """The requests for embeddings."""
        return [request for request in self.requests if request.path.endswith("/embeddings")]

    def calls(self, prompt: str) -> list[Request]:
        """Return the requests with this judge prompt."""
        return [request for request in self.requests if request.prompt == prompt]

    def prompt_characters(self) -> int:
        """Return the number of characters in all messages of all judge calls."""
        return sum(
            len(_text(message["content"])) for request in self.judge_calls for message in request.body["messages"]
        )

    def max_in_flight(self) -> int:
        """Return how many requests were being worked on at the same time, at most."""
        return max((request.in_flight for request in self.requests), default=0)

    def clear(self) -> None:
        """Forget the requests so far; scripts stay."""
        with self._lock:
            self._requests.clear()
            self._used.clear()

    def _receive(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> Request:
        messages = body.get("messages") or []
        system = "\n".join(_text(message["content"]) for message in messages if message["role"] == "system")
        user = "\n".join(_text(message["content"]) for message in messages if message["role"] == "user")
        first = FIRST_LINE.fullmatch(system.partition("\n")[0].strip())
        prompt, version, language = first.group("prompt", "version", "language") if first else (None, None, None)
        with self._lock:
            self._in_flight += 1
            request = Request(
                path, body, prompt, version, language, system, user, time.perf_counter(), self._in_flight, headers
            )
            self._requests.append(request)
        return request

    def _finish(self, request: Request) -> None:
        with self._lock:
            self._in_flight -= 1
            request.ended = time.perf_counter()

    def _chat_reply(self, request: Request) -> Reply:
        with self._lock:
            if request.prompt is None:
                script = self._chat_script
            elif request.prompt in self._scripts:
                script = self._scripts[request.prompt]
            else:
                return HttpError(501, f"the test has no reply for the prompt {request.prompt}")
            used = self._used.get(request.prompt, 0)
            self._used[request.prompt] = used + 1
        if callable(script):
            return script(request)
        if isinstance(script, Sequence) and not isinstance(script, str):
            return script[min(used, len(script) - 1)]
        return script

    def _usage(self, request: Request, reply: str) -> Mapping[str, int]:
        if self.usage is not None:
            return self.usage
        prompt = len(request.system) + len(request.user)
        return {"prompt_tokens": prompt, "completion_tokens": len(reply), "total_tokens": prompt + len(reply)}

    def _embedding_reply(self, texts: list[str]) -> Vectors | Failure:
        script = self._embedding_script
        if callable(script):
            return script(texts)
        if script is not None:
            return script
        return [self._vectors[text] if text in self._vectors else bigram_vector(text) for text in texts]


def bigram_vector(text: str) -> list[float]:
    """Return a unit vector of hashed character pairs: texts that share characters are near one another."""
    vector = [0.0] * EMBEDDING_DIMENSIONS
    padded = f" {text} "
    for first, second in itertools.pairwise(padded):
        digest = hashlib.blake2b((first + second).encode(), digest_size=4).digest()
        vector[int.from_bytes(digest) % EMBEDDING_DIMENSIONS] += 1.0
    length = math.hypot(*vector)
    return [value / length for value in vector]


class _HttpServer(ThreadingHTTPServer):
    request_queue_size = 64


def _handler_for(server: ScriptedModelServer) -> type[BaseHTTPRequestHandler]:
    class Handler(_Handler):
        scripted = server

    return Handler


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    scripted: ScriptedModelServer

    def log_message(self, *_: object) -> None:
        """Keep the tests' output quiet."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.close_connection = True
        request = self.scripted._receive(self.path, body, headers)
        try:
            if self.path.endswith("/chat/completions"):
                self._chat(request)
            elif self.path.endswith("/embeddings"):
                self._embeddings(request)
            else:
                self._send(404, "application/json", '{"error": {"message": "no such path"}}')
        except (BrokenPipeError, ConnectionResetError):
            # The caller gave up.
            return
        finally:
            self.scripted._finish(request)

    def _chat(self, request: Request) -> None:
        self.scripted._closing.wait(self.scripted.latency)
        reply = self.scripted._chat_reply(request)
        if isinstance(reply, Mapping):
            reply = json.dumps(reply, ensure_ascii=False)
        if not isinstance(reply, str):
            self._fail(reply)
        elif request.body.get("stream"):
            self._stream(request, reply)
        else:
            choice = {
                "index": 0,
                "message": {"role": "assistant", "content": reply},
                "finish_reason": self.scripted.finish_reason,
            }
            self._send_json(
                {
                    **_head(request, "chat.completion"),
                    "choices": [choice],
                    "usage": self.scripted._usage(request, reply),
                }
            )

    def _embeddings(self, request: Request) -> None:
        self.scripted._closing.wait(self.scripted.embedding_latency)
        texts = request.body["input"]
        texts = [texts] if isinstance(texts, str) else texts
        vectors = self.scripted._embedding_reply(texts)
        if isinstance(vectors, HttpError | Hang | Cut | NoReply | Html):
            self._fail(vectors)
            return
        tokens = sum(len(text) for text in texts)
        items = [{"object": "embedding", "index": i, "embedding": list(v)} for i, v in enumerate(vectors)]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        self._send_json({"object": "list", "model": request.body["model"], "data": items, "usage": usage})

    def _fail(self, failure: Failure) -> None:
        match failure:
            case HttpError(status, body, headers):
                text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
                self._send(status, "application/json", text, headers)
            case Hang(seconds):
                self.scripted._closing.wait(seconds)
            case Cut():
                self._start_chunks("application/json")
                self._chunk('{"id": "chatcmpl-1", "choices": [{"index": 0, "mess')
            case NoReply():
                return
            case Html(page):
                self._send(200, "text/html; charset=utf-8", page)

    def _stream(self, request: Request, text: str) -> None:
        self._start_chunks("text/event-stream")
        for start in range(0, len(text), 8):
            self._event({**_head(request, "chat.completion.chunk"), "choices": [_delta(text[start : start + 8], None)]})
        self._event(
            {
                **_head(request, "chat.completion.chunk"),
                "choices": [_delta("", self.scripted.finish_reason)],
                "usage": self.scripted._usage(request, text),
            }
        )
        self._chunk("data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _event(self, data: Mapping[str, Any]) -> None:
        self._chunk(f"data: {json.dumps(data, ensure_ascii=False)}\n\n")

    def _start_chunks(self, content_type: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Connection", "close")
        self.end_headers()

    def _chunk(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _send_json(self, data: Mapping[str, Any]) -> None:
        self._send(200, "application/json", json.dumps(data, ensure_ascii=False, allow_nan=False))

    def _send(self, status: int, content_type: str, text: str, headers: Mapping[str, str] | None = None) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Connection", "close")
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


def _head(request: Request, kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 0, "model": request.body["model"]}


def _delta(text: str, finish_reason: str | None) -> dict[str, Any]:
    return {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": finish_reason}


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return ""
