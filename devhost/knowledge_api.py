"""Dify's Knowledge API over folders of documents, on this machine; shapes, statuses and words as recorded of Dify 1.16.

A test compares it with the recordings in tests/data/knowledge_api.
"""

import json
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Self
from urllib.parse import parse_qs, urlsplit

from devhost.knowledge import KnowledgeBase, Segment, stable_id

# Whatever limit is asked for.
MOST_ROWS = 100
MAX_QUERY_CHARACTERS = 250
_METHODS = ("semantic_search", "full_text_search", "hybrid_search", "keyword_search")
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_HTML = "<!doctype html>\n<html lang=en>\n<title>{0}</title>\n<h1>{0}</h1>\n"
_NO_BEARER = "Authorization header must be provided and start with 'Bearer'"

type Answer = tuple[int, Any]
"""Status and body: an object is sent as JSON, a text as HTML."""


@dataclass
class Served:
    """A request as the server saw it: method, path with query, JSON body, and its headers in lower case."""

    method: str
    path: str
    body: Any
    headers: dict[str, str] = field(default_factory=dict)


class KnowledgeApiServer:
    """Serves knowledge bases under /v1 on a free port of 127.0.0.1; a context manager.

    Attributes:
        requests: all so far.
        disabled: names of documents that are switched off.
        before: called with each request; an answer of its own goes before the server's, None lets that through.
        answers: of Q&A chunks, by their content.
    """

    def __init__(self, bases: Sequence[KnowledgeBase], key: str = "dataset-played") -> None:
        self.bases = list(bases)
        self.key = key
        self.requests: list[Served] = []
        self.disabled: set[str] = set()
        self.answers: dict[str, str] = {}
        self.before: Callable[[Served], Answer | None] = lambda _request: None
        handler = type("Handler", (_Handler,), {"api": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._http.daemon_threads = True

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    @property
    def url(self) -> str:
        """The address as Dify shows it, with /v1."""
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    def answer(self, request: Served) -> Answer:
        """What Dify answers."""
        parts = urlsplit(request.path)
        query = {name: values[-1] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        if (refusal := self._refusal(request.headers.get("authorization", ""))) is not None:
            return refusal
        rest = re.fullmatch(
            rf"/v1/datasets(?:/({_UUID})(?:/(documents|retrieve)(?:/({_UUID})/segments)?)?)?", parts.path
        )
        if rest is None:
            return 404, _HTML.format("404 Not Found")
        dataset_id, kind, document_id = rest.groups()
        if dataset_id is None:
            return _page([self._dataset(base) for base in self.bases], query)
        base = next((base for base in self.bases if base.id == dataset_id), None)
        if base is None:
            return _error(404, "not_found", "Dataset not found.")
        if kind == "retrieve":
            return self._retrieve(base, request)
        return self._documents(base, document_id, query) if kind else (200, self._dataset(base))

    def _documents(self, base: KnowledgeBase, document_id: str | None, query: Mapping[str, str]) -> Answer:
        """The documents, or the chunks of one."""
        if document_id is None:
            return _page([self._document(base, name) for name in _names(base)], query)
        name = next((name for name in _names(base) if stable_id(base.id, name) == document_id), None)
        if name is None:
            return _error(404, "not_found", "Document not found.")
        segments = [self._segment(base, segment) for segment in base.segments if segment.document == name]
        return _page(segments, query, doc_form=self._form(base))

    def _refusal(self, header: str) -> Answer | None:
        if not header.startswith("Bearer "):
            return _error(401, "unauthorized", _NO_BEARER)
        return None if header == f"Bearer {self.key}" else _error(401, "unauthorized", "Access token is invalid")

    def _form(self, base: KnowledgeBase) -> str:
        return "qa_model" if any(segment.content in self.answers for segment in base.segments) else "text_model"

    def _dataset(self, base: KnowledgeBase) -> dict[str, Any]:
        retrieval = {
            "search_method": "semantic_search",
            "reranking_enable": False,
            "top_k": 2,
            "score_threshold_enabled": False,
            "score_threshold": None,
        }
        return {
            "id": base.id,
            "name": base.name,
            "indexing_technique": "high_quality",
            "document_count": len(_names(base)),
            "retrieval_model_dict": retrieval,
            "doc_form": self._form(base),
        }

    def _document(self, base: KnowledgeBase, name: str) -> dict[str, Any]:
        enabled = name not in self.disabled
        return {
            "id": stable_id(base.id, name),
            "name": name,
            "indexing_status": "completed",
            "enabled": enabled,
            "archived": False,
            "display_status": "available" if enabled else "disabled",
            "doc_form": self._form(base),
            "doc_metadata": [],
        }

    def _segment(self, base: KnowledgeBase, segment: Segment) -> dict[str, Any]:
        return {
            "id": stable_id(base.id, segment.document, str(segment.position)),
            "position": segment.position,
            "document_id": stable_id(base.id, segment.document),
            "content": segment.content,
            "answer": self.answers.get(segment.content),
            "word_count": len(segment.content),
            "enabled": True,
            "status": "completed",
            "child_chunks": [],
        }

    def _retrieve(self, base: KnowledgeBase, request: Served) -> Answer:
        if request.method != "POST":
            return _error(405, "method_not_allowed", "The method is not allowed for the requested URL.")
        body = request.body if isinstance(request.body, Mapping) else {}
        asked, settings = str(body.get("query") or ""), body.get("retrieval_model") or {"top_k": 4}
        if not asked:
            return _error(400, "invalid_param", "Query or attachment_ids is required")
        if len(asked) > MAX_QUERY_CHARACTERS:
            return _error(400, "invalid_param", "String should have at most 250 characters")
        if settings.get("search_method", _METHODS[0]) not in _METHODS or not 0 < settings.get("top_k", 4) <= MOST_ROWS:
            return _error(400, "invalid_param", "1 validation error for HitTestingPayload")
        threshold = settings.get("score_threshold") if settings.get("score_threshold_enabled") else None
        items = base.retrieve(asked, settings.get("top_k", 4), threshold)
        return 200, {"query": {"content": asked}, "records": [self._record(base, item) for item in items]}

    def _record(self, base: KnowledgeBase, item: Mapping[str, Any]) -> dict[str, Any]:
        found = next(s for s in base.segments if (s.document, s.content) == (item["title"], item["content"]))
        document = {"id": stable_id(base.id, found.document), "name": found.document, "doc_metadata": None}
        segment = {**self._segment(base, found), "document": document}
        del segment["child_chunks"]
        return {"segment": segment, "child_chunks": [], "score": item["metadata"]["score"], "files": []}


def _names(base: KnowledgeBase) -> list[str]:
    return list(dict.fromkeys(segment.document for segment in base.segments))


def _page(rows: list[dict[str, Any]], query: Mapping[str, str], **more: Any) -> Answer:
    try:
        limit, page = int(query.get("limit", "20")), max(1, int(query.get("page", "1")))
    except ValueError:
        return _error(400, "invalid_param", "1 validation error: Input should be a valid integer")
    keyword = query.get("keyword", "")
    rows = [row for row in rows if keyword in row.get("name", row.get("content", ""))]
    size = max(1, min(limit, MOST_ROWS))
    start = (page - 1) * size
    shown = rows[start : start + size]
    has_more = limit > 0 and start + size < len(rows)
    return 200, {"data": shown, **more, "has_more": has_more, "limit": limit, "total": len(rows), "page": page}


def _error(status: int, code: str, message: str) -> Answer:
    return status, {"code": code, "message": message, "status": status}


class _Handler(BaseHTTPRequestHandler):
    api: ClassVar[KnowledgeApiServer]

    def log_message(self, *_: object) -> None:
        """Keep the output quiet."""

    def do_GET(self) -> None:
        self._serve(None)

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        self._serve(json.loads(self.rfile.read(length) or b"null"))

    def _serve(self, body: Any) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Served(self.command, self.path, body, headers)
        self.api.requests.append(request)
        status, answer = self.api.before(request) or self.api.answer(request)
        if status == 0:
            # The connection ends without an answer, after so many seconds.
            time.sleep(float(answer or 0))
            return
        data = answer.encode() if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8" if isinstance(answer, str) else "application/json")
        if 300 <= status < 400:
            self.send_header("Location", str(answer))
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
