"""The Knowledge API of a Dify: its knowledge bases, their documents and chunks, and a search in one.

Only what is read is named here; nothing in the knowledge base is changed. The key goes into one header of each request
and nowhere else: no error, message or log of this module holds it, nor what the server said.
"""

import json
import random
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import requests
from requests.auth import AuthBase
from urllib3.exceptions import MaxRetryError

from evaluation.errors import EvaluationError, Reason

# Seconds to connect, and without a byte.
PATIENCE = (5.0, 20.0)
# What one answer may take in all: a server that sends a byte now and then would hold the call for ever.
LONGEST_SECONDS = 60.0
MAX_BYTES = 50_000_000
# The server gives no more at a time, whatever is asked for.
PAGE = 100
# No base has that many pages; a server that says "there is more" for ever ends here.
MAX_PAGES = 1000
TRIES = 3
# The API refuses longer ones.
MAX_QUERY_CHARACTERS = 250
_PASSING = frozenset({429, 500, 502, 503, 504})
_UUID = r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"


@dataclass(frozen=True)
class Dataset:
    """A knowledge base.

    Attributes:
        technique: "high_quality" or "economy", "" where it is not told.
        form: "text_model", "hierarchical_model" (parent-child), "qa_model".
        retrieval: its settings for a search as the API shows them. One whose settings were never saved shows others
            than it uses.
    """

    id: str
    name: str
    documents: int = 0
    technique: str = ""
    form: str = ""
    retrieval: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Document:
    """A document of a knowledge base. `available`: indexed, enabled and not archived, so that a search may find it."""

    id: str
    name: str
    available: bool = True
    form: str = ""


@dataclass(frozen=True)
class Segment:
    """A chunk.

    Attributes:
        text: as a chatflow's Knowledge Retrieval node hands it on; of a Q&A base "question:… answer:…".
        children: the texts of its child chunks in a parent-child base.
        available: enabled and indexed.
    """

    id: str
    document_id: str
    text: str
    position: int = 0
    children: tuple[str, ...] = ()
    available: bool = True


@dataclass(frozen=True)
class Hit:
    """A chunk that a search found; `score` is 0.0 always in an economy base."""

    segment: Segment
    document: str
    score: float


class KnowledgeApi:
    """The Knowledge API at an address, read with a key that opens every knowledge base of its workspace.

    Each method raises EvaluationError: knowledge_address (nothing answers there, or no Dify), knowledge_unauthorized,
    knowledge_not_found, knowledge_unavailable (after three tries), knowledge_failed. Safe to use from several threads.

    Args:
        address: as Dify shows it, with or without /v1 at its end.
    """

    def __init__(self, address: str, key: str) -> None:
        self._base = _base_address(address)
        self._auth = _Bearer(key)

    def datasets(self, keyword: str = "") -> Iterator[Dataset]:
        """The knowledge bases whose name holds the keyword, all without one."""
        for value in self._pages("/datasets", {"keyword": keyword} if keyword else {}):
            yield _dataset(value)

    def find_dataset(self, name_or_id: str) -> Dataset:
        """The knowledge base of that id, or of that name; width and case do not matter where one alone is meant."""
        wanted = name_or_id.strip()
        if re.fullmatch(_UUID, wanted):
            return _dataset(self._get(f"/datasets/{wanted}"))
        named = list(self.datasets())
        found = [dataset for dataset in named if dataset.name.strip() == wanted]
        found = found or [dataset for dataset in named if dataset.name.strip().casefold() == wanted.casefold()]
        if not found:
            known = ", ".join(dataset.name for dataset in named[:5])
            raise EvaluationError(Reason.KNOWLEDGE_NOT_FOUND, knowledge=wanted, known=known or "—")
        return found[0]

    def documents(self, dataset_id: str) -> Iterator[Document]:
        """The documents of a knowledge base, those that a search can't find too."""
        for value in self._pages(f"/datasets/{_id(dataset_id)}/documents"):
            yield Document(
                _text(value, "id"),
                _text(value, "name"),
                # The status in the address is no filter to rely on: an unknown word of another version is ignored.
                value.get("display_status") == "available"
                or (value.get("display_status") is None and value.get("enabled") is True),
                _text(value, "doc_form"),
            )

    def segments(self, dataset_id: str, document_id: str) -> Iterator[Segment]:
        """The chunks of a document in their order."""
        for value in self._pages(f"/datasets/{_id(dataset_id)}/documents/{_id(document_id)}/segments"):
            yield _segment(value)

    def retrieve(self, dataset_id: str, query: str, retrieval: Mapping[str, Any] | None = None) -> list[Hit]:
        """What a search finds, best rank first.

        Args:
            query: the API takes no more than 250 characters; what is longer is cut.
            retrieval: the settings of this search alone; None for those of the knowledge base.
        """
        body = {"query": query[:MAX_QUERY_CHARACTERS], **({"retrieval_model": dict(retrieval)} if retrieval else {})}
        records = self._ask("POST", f"/datasets/{_id(dataset_id)}/retrieve", json=body).get("records")
        return [_hit(record) for record in _mappings(records)]

    def _pages(self, path: str, query: Mapping[str, str] | None = None) -> Iterator[Mapping[str, Any]]:
        for page in range(1, MAX_PAGES + 1):
            answer = self._get(path, {**(query or {}), "page": str(page), "limit": str(PAGE)})
            rows = list(_mappings(answer.get("data")))
            yield from rows
            # Fewer rows than asked for are no end: the server has a limit of its own.
            if answer.get("has_more") is not True or not rows:
                return

    def _get(self, path: str, query: Mapping[str, str] | None = None) -> Mapping[str, Any]:
        return self._ask("GET", path, params=query)

    def _ask(self, method: str, path: str, **request: Any) -> Mapping[str, Any]:
        """The answer's object; what passes is tried again."""
        for attempt in range(1, TRIES + 1):
            try:
                return self._once(method, path, **request)
            except EvaluationError as error:
                if error.reason is not Reason.KNOWLEDGE_UNAVAILABLE or attempt == TRIES:
                    raise
            time.sleep(2.0 ** (attempt - 1) * random.uniform(0.5, 1.0))
        raise EvaluationError(Reason.KNOWLEDGE_UNAVAILABLE)

    def _once(self, method: str, path: str, **request: Any) -> Mapping[str, Any]:
        status, content, is_json = 0, b"", False
        try:
            # A redirect would take the key somewhere else.
            with requests.request(
                method,
                self._base + path,
                auth=self._auth,
                timeout=PATIENCE,
                allow_redirects=False,
                stream=True,
                **request,
            ) as response:
                status = response.status_code
                is_json = "json" in response.headers.get("Content-Type", "")
                content = _content(response)
        except (requests.exceptions.SSLError, requests.exceptions.InvalidURL):
            reason = Reason.KNOWLEDGE_ADDRESS
        except requests.ConnectionError as error:
            # Nobody listens there or the name is unknown; else the server has gone away in between.
            nobody = bool(error.args) and isinstance(error.args[0], MaxRetryError)
            reason = Reason.KNOWLEDGE_ADDRESS if nobody else Reason.KNOWLEDGE_UNAVAILABLE
        except (requests.RequestException, ValueError):
            reason = Reason.KNOWLEDGE_UNAVAILABLE
        else:
            if status == 200 and (value := _object(content)) is not None:
                return value
            reason = _reason(status, is_json=is_json)
        # Outside of the handlers: what libraries say of a request may quote its headers.
        if reason is Reason.KNOWLEDGE_NOT_FOUND:
            raise EvaluationError(reason, knowledge=unquote(path.split("/")[2]), known="—")
        raise EvaluationError(reason)


class _Bearer(AuthBase):
    """The key in its header. As a header of its own it would give way to a password in the machine's .netrc."""

    def __init__(self, key: str) -> None:
        key = key.strip().removeprefix("Bearer ").strip()
        if not re.fullmatch(r"[!-~]{1,500}", key):
            raise EvaluationError(Reason.KNOWLEDGE_UNAUTHORIZED)
        self._key = key

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._key}"
        return request

    def __repr__(self) -> str:
        return "_Bearer(…)"


def _base_address(address: str) -> str:
    """The address up to /v1."""
    plain = address.strip().rstrip("/")
    try:
        parts = urlsplit(plain)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and not parts.username
        # Reading it says whether the port is one.
        usable = usable and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable or re.search(r"[\s\\]", plain):
        raise EvaluationError(Reason.KNOWLEDGE_ADDRESS)
    path = re.sub(r"/v1(/datasets)?$|/datasets$", "", parts.path)
    return f"{parts.scheme}://{parts.netloc}{path}/v1"


def _content(response: requests.Response) -> bytes:
    """The body.

    Raises:
        ValueError: it is too long, or takes too long.
    """
    until = time.monotonic() + LONGEST_SECONDS
    content = bytearray()
    for part in response.iter_content(65_536):
        content += part
        if len(content) > MAX_BYTES or time.monotonic() > until:
            raise ValueError("an answer without end")
    return bytes(content)


def _object(content: bytes) -> Mapping[str, Any] | None:
    try:
        value = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, Mapping) else None


def _reason(status: int, *, is_json: bool) -> Reason:
    if status in {401, 403}:
        return Reason.KNOWLEDGE_UNAUTHORIZED
    if status in _PASSING:
        return Reason.KNOWLEDGE_UNAVAILABLE
    if status == 404 and is_json:
        return Reason.KNOWLEDGE_NOT_FOUND
    if 400 <= status < 500 and is_json:
        return Reason.KNOWLEDGE_FAILED
    # A page of another program, a login, a redirect: there is no Dify API.
    return Reason.KNOWLEDGE_ADDRESS


def _id(value: str) -> str:
    """An id as a part of a path, so that it can't be another path."""
    return quote(value, safe="")


def _mappings(value: object) -> Iterator[Mapping[str, Any]]:
    for item in value if isinstance(value, list) else ():
        if isinstance(item, Mapping):
            yield item


def _text(value: Mapping[str, Any], name: str) -> str:
    text = value.get(name)
    return text if isinstance(text, str) else ""


def _dataset(value: Mapping[str, Any]) -> Dataset:
    count, retrieval = value.get("document_count"), value.get("retrieval_model_dict")
    return Dataset(
        _text(value, "id"),
        _text(value, "name"),
        count if isinstance(count, int) else 0,
        _text(value, "indexing_technique"),
        _text(value, "doc_form"),
        retrieval if isinstance(retrieval, Mapping) else {},
    )


def _segment(value: Mapping[str, Any]) -> Segment:
    text, answer = _text(value, "content"), _text(value, "answer")
    position = value.get("position")
    return Segment(
        _text(value, "id"),
        _text(value, "document_id"),
        f"question:{text} \nanswer:{answer}" if answer else text,
        position if isinstance(position, int) else 0,
        tuple(_text(child, "content") for child in _mappings(value.get("child_chunks"))),
        value.get("enabled") is not False and value.get("status") in {None, "completed"},
    )


def _hit(record: Mapping[str, Any]) -> Hit:
    segment = record.get("segment")
    segment = segment if isinstance(segment, Mapping) else {}
    document, score = segment.get("document"), record.get("score")
    children = record.get("child_chunks")
    return Hit(
        _segment({**segment, "child_chunks": children}),
        _text(document, "name") if isinstance(document, Mapping) else "",
        float(score) if isinstance(score, (int, float)) else 0.0,
    )
