"""Dify's side of a plugin's reverse calls, for development and tests.

`DifySide` answers what a plugin asks of Dify while a tool runs: language models, embeddings, storage. Replies and
errors have the shape and the wording that Dify 1.16 and its plugin daemon give them.
"""

import json
import posixpath
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from typing import Any
from urllib.parse import urlsplit

import requests

from devhost.connections import Connections, NoConnectionError

CONNECT_TIMEOUT_SECONDS = 10.0
MODEL_TIMEOUT_SECONDS = 300.0
MAX_KEY_BYTES = 255
DEFAULT_STORAGE_BYTES = 100 * 1024 * 1024
STORAGE_FOLDER = "/app/storage/persistence"

# How the daemon names a call's type.
MODEL_KINDS = {"llm": "llm model", "text_embedding": "text-embedding model"}

# The order decides, as in Dify's OpenAI-compatible model plugin: a ConnectTimeout is a ConnectionError first.
_UNIFIED_ERRORS: tuple[tuple[str, str, tuple[type[Exception], ...]], ...] = (
    (
        "InvokeAuthorizationError",
        "Incorrect model credentials provided, please check and try again. ",
        (requests.exceptions.InvalidHeader,),
    ),
    (
        "InvokeBadRequestError",
        "Bad Request Error, {}",
        (requests.exceptions.HTTPError, requests.exceptions.InvalidURL),
    ),
    ("InvokeRateLimitError", "Rate Limit Error, {}", (requests.exceptions.RetryError,)),
    ("InvokeServerUnavailableError", "Server Unavailable Error, {}", (requests.exceptions.ConnectionError,)),
    ("InvokeConnectionError", "Connection Error, {}", (requests.exceptions.ReadTimeout,)),
)


class ReverseCallError(Exception):
    """A reverse call that Dify refuses; the text reaches the plugin unchanged."""


class ModelError(Exception):
    """A model call that failed.

    Attributes:
        error_type: the model plugin's error class, such as "InvokeError".
        message: the model plugin's text, such as "[models] Error: API request failed with status code 429: …".
    """

    def __init__(self, error_type: str, message: str) -> None:
        super().__init__(message)
        self.error_type = error_type
        self.message = message


@dataclass(frozen=True)
class ReverseCall:
    """One request of a plugin to Dify.

    Attributes:
        type: "llm", "text_embedding", "storage", …
        request: the request's fields as the plugin sent them.
        permission: `resource.permission` of the plugin's manifest.
        session: the daemon's session fields (session_id, conversation_id, message_id, app_id, endpoint_id, context)
            and user_id.
    """

    type: str
    request: Mapping[str, Any]
    permission: Mapping[str, Any] = field(default_factory=dict)
    session: Mapping[str, Any] = field(default_factory=dict)


type Replies = Iterator[tuple[str, dict[str, Any]]]
"""Pairs of the reply's kind ("stream" or "struct") and its data."""


class DifySide:
    """Answers reverse calls with a model server and a storage.

    `handlers` maps a call's type to the function that answers it; a further type is one more entry.

    Args:
        models: where llm and text_embedding calls go.
        storage: the plugin's storage; a new empty one when omitted.
        connections: of Dify's database; each call holds one. No end of them when omitted.
    """

    def __init__(
        self, models: "ModelServer", storage: "Storage | None" = None, connections: Connections | None = None
    ) -> None:
        self.models = models
        self.connections = connections
        self.storage = Storage() if storage is None else storage
        self.handlers: dict[str, Callable[[ReverseCall], Replies]] = {
            "llm": self._llm,
            "text_embedding": self._text_embedding,
            "storage": self._storage,
        }

    def answer(self, call: ReverseCall) -> Replies:
        """Yield the replies to one call.

        Raises:
            ReverseCallError: what Dify or the daemon would refuse, in their wording.
        """
        handler = self.handlers.get(call.type)
        if handler is None:
            raise ReverseCallError(f"unsupported invoke type: {call.type}")
        _check_permission(call)
        try:
            with self.connections.one() if self.connections else nullcontext():
                yield from handler(call)
        except NoConnectionError as error:
            raise ReverseCallError(_without_connection(call.type)) from error

    def _llm(self, call: ReverseCall) -> Replies:
        try:
            for chunk in self.models.chat(call.request):
                yield "stream", chunk
        except ModelError as error:
            raise ReverseCallError(_refused_model_call(MODEL_KINDS[call.type], error)) from error

    def _text_embedding(self, call: ReverseCall) -> Replies:
        try:
            yield "struct", self.models.embed(call.request)
        except ModelError as error:
            raise ReverseCallError(_refused_model_call(MODEL_KINDS[call.type], error)) from error

    def _storage(self, call: ReverseCall) -> Replies:
        key = str(call.request.get("key", ""))
        match call.request.get("opt"):
            case "get":
                yield "struct", {"data": self.storage.get(key).hex()}
            case "set":
                declared = (call.permission.get("storage") or {}).get("size")
                self.storage.set(key, _from_hex(call.request.get("value")), limit=declared)
                yield "struct", {"data": "ok"}
            case "del":
                yield "struct", {"data": "ok", "deleted_num": self.storage.delete(key)}
            case "exist":
                found = self.storage.exists(key)
                yield "struct", {"data": found, "exist_num": int(found)}


class Storage:
    """The storage of one plugin in one workspace, kept in memory.

    A value that is refused for its size is written all the same, and a value that was read before stays in a cache
    until the next accepted write: both are the daemon's behaviour.

    Args:
        limit: bytes for all values together when the manifest declares none.
    """

    def __init__(self, limit: int = DEFAULT_STORAGE_BYTES) -> None:
        self.limit = limit
        self._values: dict[str, bytes] = {}
        self._cache: dict[str, bytes] = {}
        self._allocated = 0
        self._lock = threading.Lock()

    def get(self, key: str) -> bytes:
        """Return the value of a key; raises ReverseCallError when there is none."""
        with self._lock:
            if key not in self._cache:
                if _key_refusal(key) or _clean(key) not in self._values:
                    raise ReverseCallError(
                        "load data failed, please check if the key is correct or you have not set it"
                    )
                self._cache[key] = self._values[_clean(key)]
            return self._cache[key]

    def set(self, key: str, value: bytes, *, limit: int | None = None) -> None:
        """Write a value; raises ReverseCallError for a refused key or, after writing, for the size.

        Args:
            key: 1 to 255 bytes; "/" is allowed, ".." is not.
            value: the bytes to keep.
            limit: bytes for all values together, as the manifest declares them.
        """
        if refusal := _key_refusal(key):
            raise ReverseCallError(f"save data failed: {refusal}")
        limit = self.limit if limit is None else limit
        with self._lock:
            growth = len(value) - len(self._values.get(_clean(key), b""))
            self._values[_clean(key)] = value
            if self._allocated + growth > limit:
                raise ReverseCallError("save data failed: allocated size is greater than max storage size")
            self._allocated += growth
            self._cache.pop(key, None)

    def delete(self, key: str) -> int:
        """Remove a key; returns how many cached copies went with it. Raises ReverseCallError when there is none."""
        refusal = _key_refusal(key)
        with self._lock:
            cached = self._cache.pop(key, None)
            if refusal is None and _clean(key) not in self._values:
                refusal = f"stat {STORAGE_FOLDER}/{_clean(key)}: no such file or directory"
            if refusal:
                raise ReverseCallError(f"delete data failed: {refusal}")
            self._allocated -= len(self._values.pop(_clean(key)))
            return int(cached is not None)

    def exists(self, key: str) -> bool:
        """Say whether a key has a value; raises ReverseCallError for a refused key."""
        if refusal := _key_refusal(key):
            raise ReverseCallError(f"exist data failed: {refusal}")
        with self._lock:
            return key in self._cache or _clean(key) in self._values

    def snapshot(self) -> dict[str, bytes]:
        """Return a copy of all keys and values as they are written, past any cache."""
        with self._lock:
            return dict(self._values)


@dataclass(frozen=True)
class Prices:
    """What tokens cost.

    Attributes:
        input: price of one input token, times `unit`.
        output: price of one output token, times `unit`.
        unit: 0.001 when the prices are per thousand tokens.
        currency: three letters.
    """

    input: Decimal = Decimal(0)
    output: Decimal = Decimal(0)
    unit: Decimal = Decimal(0)
    currency: str = "USD"

    def of(self, tokens: int, price: Decimal) -> str:
        """Return the amount as Dify writes it: at most seven decimals, "0" for nothing."""
        amount = tokens * price * self.unit
        return str(amount.quantize(Decimal("0.0000001"), rounding=ROUND_HALF_UP)) if amount else "0"


class ModelServer:
    """Calls an OpenAI-compatible server over HTTP, as Dify's model plugin for such servers does.

    A request that asks for no stream goes to the server without one and comes back as a single chunk: that is how
    Dify treats a tool's call, and why a tool never sees the finish reason.

    Args:
        base_url: the part before /chat/completions, such as "http://127.0.0.1:8000/v1".
        api_key: sent as a bearer token; "" sends none.
        embedding_base_url: the part before /embeddings; `base_url` when omitted.
        embedding_api_key: `api_key` when omitted.
        timeout: seconds that a silent server may hold a call.
        prices: what the usage of a reply is charged with; free when omitted.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str = "",
        *,
        embedding_base_url: str | None = None,
        embedding_api_key: str | None = None,
        timeout: float = MODEL_TIMEOUT_SECONDS,
        prices: "Prices | None" = None,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self.api_key = api_key
        self.embedding_base_url = (embedding_base_url or base_url).rstrip("/")
        self.embedding_api_key = api_key if embedding_api_key is None else embedding_api_key
        self.timeout = timeout
        self.prices = Prices() if prices is None else prices

    def chat(self, request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the reply's chunks in Dify's form: model, delta (index, message, usage, finish_reason).

        Args:
            request: model, prompt_messages (role, content), and optionally completion_params, tools, stop, stream.

        Raises:
            ModelError: the server refused, failed or could not be read.
        """
        started = time.perf_counter()
        stream = bool(request.get("stream"))
        body: dict[str, Any] = {"model": request["model"], "stream": stream}
        body |= _completion_params(request.get("completion_params") or {})
        body["messages"] = [_openai_message(message) for message in request["prompt_messages"]]
        if request.get("stop"):
            body["stop"] = request["stop"]
        if stream:
            body["stream_options"] = {"include_usage": True}
        try:
            with self._post(self.base_url, "/chat/completions", self.api_key, body, stream=stream) as response:
                _require_ok(response)
                if stream:
                    yield from self._streamed_chunks(request, response, started)
                else:
                    yield self._single_chunk(request, response, started)
        except Exception as error:
            raise _unified(error) from error

    def embed(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return model, embeddings (one list of numbers a text) and usage.

        Args:
            request: model and texts.

        Raises:
            ModelError: the server refused, failed or could not be read.
        """
        started = time.perf_counter()
        body = {"model": request["model"], "input": list(request["texts"]), "encoding_format": "float"}
        try:
            with self._post(self.embedding_base_url, "/embeddings", self.embedding_api_key, body) as response:
                response.raise_for_status()
                reply = response.json()
                tokens = reply["usage"]["total_tokens"]
                return {
                    "model": request["model"],
                    "embeddings": [item["embedding"] for item in reply["data"]],
                    "usage": {
                        "tokens": tokens,
                        "total_tokens": tokens,
                        "unit_price": str(self.prices.input),
                        "price_unit": str(self.prices.unit),
                        "total_price": self.prices.of(tokens, self.prices.input),
                        "currency": self.prices.currency,
                        "latency": time.perf_counter() - started,
                    },
                }
        except Exception as error:
            raise _unified(error) from error

    def _post(
        self, base_url: str, path: str, api_key: str, body: Mapping[str, Any], *, stream: bool = False
    ) -> requests.Response:
        headers = {"Content-Type": "application/json"}
        if api_key:
            headers["Authorization"] = f"Bearer {api_key}"
        with requests.Session() as session:
            # A proxy of the environment can't reach this machine's own servers.
            session.trust_env = urlsplit(base_url).hostname not in ("127.0.0.1", "localhost", "::1")
            response = session.post(
                base_url + path,
                headers=headers,
                data=json.dumps(body, ensure_ascii=False).encode(),
                timeout=(CONNECT_TIMEOUT_SECONDS, self.timeout),
                stream=stream,
            )
        if response.encoding in (None, "ISO-8859-1"):
            response.encoding = "utf-8"
        return response

    def _single_chunk(self, request: Mapping[str, Any], response: requests.Response, started: float) -> dict[str, Any]:
        reply = response.json()
        text = reply["choices"][0]["message"]["content"] or ""
        usage = self._usage(reply.get("usage"), request, text, started)
        return _chunk(reply.get("model", request["model"]), 0, text, usage, "")

    def _streamed_chunks(
        self, request: Mapping[str, Any], response: requests.Response, started: float
    ) -> Iterator[dict[str, Any]]:
        index, text, counted, finish_reason = 0, "", None, None
        for line in response.iter_lines():
            payload = line.decode().removeprefix("data:").strip()
            if not payload or payload.startswith(":") or payload == "[DONE]":
                continue
            try:
                event = json.loads(payload)
            except json.JSONDecodeError:
                finish_reason = "Non-JSON encountered."
                break
            if event.get("error") and event.get("choices") is None:
                raise ValueError(event["error"])
            counted = event.get("usage") or counted
            if not event.get("choices"):
                continue
            choice = event["choices"][0]
            finish_reason = choice.get("finish_reason")
            piece = (choice.get("delta") or {}).get("content")
            if piece:
                yield _chunk(request["model"], index, piece, None, None)
                index, text = index + 1, text + piece
        yield _chunk(request["model"], index, "", self._usage(counted, request, text, started), finish_reason)

    def _usage(
        self, counted: Mapping[str, int] | None, request: Mapping[str, Any], text: str, started: float
    ) -> dict[str, Any]:
        if counted:
            prompt, completion = counted["prompt_tokens"], counted["completion_tokens"]
        else:
            prompt = _estimated_tokens(json.dumps(request["prompt_messages"], ensure_ascii=False))
            completion = _estimated_tokens(text)
        prompt_price = self.prices.of(prompt, self.prices.input)
        completion_price = self.prices.of(completion, self.prices.output)
        return {
            "prompt_tokens": prompt,
            "prompt_unit_price": str(self.prices.input),
            "prompt_price_unit": str(self.prices.unit),
            "prompt_price": prompt_price,
            "completion_tokens": completion,
            "completion_unit_price": str(self.prices.output),
            "completion_price_unit": str(self.prices.unit),
            "completion_price": completion_price,
            "total_tokens": prompt + completion,
            "total_price": str(Decimal(prompt_price) + Decimal(completion_price)),
            "currency": self.prices.currency,
            "latency": time.perf_counter() - started,
        }


def _completion_params(params: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(params)
    schema = merged.pop("json_schema", None)
    match merged.get("response_format"):
        case "json_schema":
            merged["response_format"] = {"type": "json_schema", "json_schema": json.loads(schema)}
        case str(name) if name:
            merged["response_format"] = {"type": name}
    return merged


def _openai_message(message: Mapping[str, Any]) -> dict[str, Any]:
    content = message["content"]
    if isinstance(content, list):
        content = [{"type": "text", "text": part["data"]} for part in content if part["type"] == "text"]
    return {"role": message["role"], "content": content}


def _chunk(
    model: str, index: int, text: str, usage: Mapping[str, Any] | None, finish_reason: str | None
) -> dict[str, Any]:
    return {
        "model": model,
        "system_fingerprint": "",
        "prompt_messages": [],
        "delta": {
            "index": index,
            "message": {"role": "assistant", "content": text, "name": "", "tool_calls": [], "tool_call_id": ""},
            "usage": usage,
            "finish_reason": finish_reason,
        },
    }


def _estimated_tokens(text: str) -> int:
    """Guess at a token count for servers that report none: three characters a token."""
    return -(-len(text) // 3)


def _require_ok(response: requests.Response) -> None:
    if response.status_code != requests.codes.ok:
        raise ValueError(f"API request failed with status code {response.status_code}: {response.text}")


def _unified(error: Exception) -> ModelError:
    for error_type, wording, causes in _UNIFIED_ERRORS:
        if isinstance(error, causes):
            return ModelError(error_type, f"[models] {wording.format(error)}")
    return ModelError("InvokeError", f"[models] Error: {error}")


def _refused_model_call(kind: str, error: ModelError) -> str:
    """Wrap a model's error as Dify's inner API and then the daemon wrap it: the status is 400 whatever happened."""
    message = error.message
    if error.error_type == "InvokeError":
        inner = {"args": {"description": message}, "error_type": error.error_type, "message": message}
        message = f"req_id: {uuid.uuid4().hex[:10]} PluginInvokeError: {_go_json(inner)}"
    body = json.dumps({"code": "invalid_param", "message": message, "status": 400})
    return f"invoke {kind} failed: request failed with status code: 400 and respond with: {body}\n"


def _without_connection(kind: str) -> str:
    """What a call that got no connection is refused with: who a model is called for is looked up first, and in vain."""
    if kind in MODEL_KINDS:
        return _refused_model_call(MODEL_KINDS[kind], ModelError("", "user not found"))
    body = json.dumps({"code": "unknown", "message": "Internal Server Error", "status": 500})
    return f"invoke {kind} failed: request failed with status code: 500 and respond with: {body}\n"


def _go_json(value: Any) -> str:
    """Serialise as the daemon's language does by default: no spaces, and markup characters escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _check_permission(call: ReverseCall) -> None:
    models = call.permission.get("model") or {}
    allowed, name = {
        "llm": (models.get("enabled") and models.get("llm"), "llm"),
        "text_embedding": (models.get("enabled") and models.get("text_embedding"), "text-embedding"),
    }.get(call.type, ((call.permission.get(call.type) or {}).get("enabled"), call.type))
    if not allowed:
        raise ReverseCallError(f"permission denied, you need to enable {name} access in plugin manifest")


def _from_hex(value: object) -> bytes:
    try:
        return bytes.fromhex(str(value))
    except ValueError as error:
        raise ReverseCallError(f"decode data failed: {error}") from error


def _clean(key: str) -> str:
    return posixpath.normpath(key)


def _key_refusal(key: str) -> str | None:
    if not key:
        return f"open {STORAGE_FOLDER}: is a directory"
    if ".." in _clean(key) or "\\" in key:
        return "invalid key: path traversal attempt detected"
    if len(key.encode()) > MAX_KEY_BYTES:
        return "key length must be less than 256 characters"
    return None
