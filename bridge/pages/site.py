"""Which address shows what: every request is answered here, and no fault in a page reaches its visitor as an exception.

A signed-in member's browser sends Dify's own cookies along, and in docker the page has Studio's origin. So one cookie
is read by name, nothing that a browser sent is logged, and a strict policy goes with each answer.
"""

import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from dify_plugin import Endpoint
from werkzeug import Request, Response
from werkzeug.exceptions import HTTPException
from werkzeug.routing import Map, MapAdapter, RequestRedirect, Rule

from bridge.dify.places import SharedStorage
from bridge.pages.access import COOKIE, Access, Tries, Visitor, cookie_header
from bridge.pages.address import note_address
from evaluation.errors import EvaluationError, Reason, whereabouts
from evaluation.languages import LANGUAGES, Language
from evaluation.report.pages.render import ASSETS, asset, asset_version, render
from evaluation.storage.values import Values
from evaluation.texts import Texts, load_texts

logger = logging.getLogger("rag_evaluator")

# What the daemon lets through of a request; beyond it a body arrives cut without a word.
MAX_BODY_BYTES = 10 * 1024 * 1024
_POLICY = "default-src 'none'; {}img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Vary": "Cookie, Accept-Language",
}
PIECE_BYTES = 500_000
_TYPES = {
    "html": "text/html; charset=utf-8",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "csv": "text/csv; charset=utf-8",
    "json": "application/json; charset=utf-8",
}
_TRIES: dict[str, Tries] = {}


@dataclass(frozen=True)
class Visit:
    """A request of somebody who may see the pages.

    Attributes:
        urls: makes the pages' own addresses, from the root on.
    """

    request: Request
    visitor: Visitor
    texts: Texts
    values: Values
    urls: MapAdapter
    settings: Mapping[str, Any]

    def url(self, page: str, /, **values: Any) -> str:
        """The address of a page; further values stand in its query."""
        return self.urls.build(page, {key: value for key, value in values.items() if value not in (None, "")})

    def page(self, template: str, status: int = 200, **values: Any) -> Response:
        """A rendered page with what all pages share."""
        assets = {name: asset_version(name) for name in ASSETS}
        return _answer(render(template, self.texts, visit=self, assets=assets, **values), status)

    @property
    def here(self) -> str:
        """The address that was asked for, as a form sends it back to come here again."""
        return self.request.full_path.rstrip("?") if self.request.method == "GET" else ""

    def file(self, data: bytes, name: str) -> Response:
        """A file to keep. In pieces: an answer of some 2.6 MB in one would kill the plugin's process."""
        headers = {
            **HEADERS,
            "Content-Length": str(len(data)),
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name)}",
            "Content-Security-Policy": "sandbox",
        }
        pieces = (data[start : start + PIECE_BYTES] for start in range(0, len(data), PIECE_BYTES))
        return Response(pieces, 200, headers, content_type=_TYPES[name.rpartition(".")[2]])

    def send_on(self, page: str, /, **values: Any) -> Response:
        """To another page, after something was done."""
        return Response("", 303, {**HEADERS, "Location": self.url(page, **values)})


type Handler = Callable[..., Response]


@dataclass
class Site:
    """The pages by address. Handlers take a Visit and the address's values."""

    _handlers: dict[str, Handler] = field(default_factory=dict)
    _rules: list[Rule] = field(default_factory=list)

    def add(self, name: str, path: str, handler: Handler, method: str = "GET") -> None:
        """A page; what POST does needs the right to edit and the form's token."""
        self._handlers[name] = handler
        self._rules.append(Rule(path, endpoint=name, methods=[method], strict_slashes=False))

    def addresses(self, hook: str) -> MapAdapter:
        return Map([rule.empty() for rule in self._rules], merge_slashes=False).bind("page", script_name=f"/e/{hook}/")

    def handler(self, name: str) -> Handler:
        return self._handlers[name]


class PageEndpoint(Endpoint):
    """Answers every request; never raises, since the text of an exception would be shown to whoever asked."""

    def _invoke(self, r: Request, values: Mapping[str, Any], settings: Mapping[str, Any]) -> Response:  # noqa: ARG002
        texts = load_texts("en")
        try:
            texts = load_texts(_language(r, settings, None))
            return _respond(r, settings or {}, SharedStorage(self.session.storage), texts)
        except BaseException:
            # Also SystemExit: it would leave the visitor waiting for ever.
            logger.exception("a page failed unexpectedly: %s", whereabouts())
            return _plain(texts.reason(Reason.INTERNAL_ERROR, {}), 500)


def _respond(request: Request, settings: Mapping[str, Any], storage: Values, texts: Texts) -> Response:
    """What a stranger gets: the form for the key, and nothing else; and whoever has a cookie the page asked for."""
    hook = "".join(char for char in request.headers.get("Dify-Hook-Id", "") if char.isalnum())
    access = Access(settings, hook)
    if not access.usable:
        return _plain(texts.get("pages.no_key"), 503)
    if request.headers.get("Sec-Fetch-Site") == "cross-site" and request.method == "POST":
        return _plain(texts.get("pages.cross_site"), 403)
    from bridge.pages.map import SITE  # noqa: PLC0415 - the pages' own needs are loaded at the first visit

    urls = SITE.addresses(hook)
    visitor = access.visitor(request.cookies.get(COOKIE))
    if visitor is None:
        entering = request.method == "POST" and request.path == "/enter"
        answer = _enter(request, access, hook, texts, urls) if entering else None
        return answer or _closed(texts, urls, after=request.full_path.rstrip("?") if request.method == "GET" else "")
    note_address(storage, request.headers.get("Dify-Hook-Url", ""), hook, settings)
    texts = load_texts(_language(request, settings, visitor.language))
    return _show(Visit(request, visitor, texts, storage, urls, settings), access, hook, SITE)


def _show(visit: Visit, access: Access, hook: str, site: Site) -> Response:
    request, texts = visit.request, visit.texts
    try:
        name, arguments = visit.urls.match(request.path, request.method)
    except (HTTPException, RequestRedirect):
        return visit.page("message.html.jinja", 404, title=texts.get("pages.not_found"), message="")
    if request.method == "POST" and (refused := _refused(visit, access)):
        return refused
    if name == "leave":
        return _with_cookie(visit.send_on("start"), cookie_header("", hook, secure=_is_secure(request), seconds=0))
    if name == "language":
        wanted: Any = request.form.get("language")
        chosen: Language | None = wanted if wanted in LANGUAGES else None
        value = access.cookie_value(visit.visitor.role, chosen, visit.visitor.id)
        return _with_cookie(_back(visit), cookie_header(value, hook, secure=_is_secure(request)))
    try:
        return site.handler(name)(visit, **arguments)
    except EvaluationError as error:
        message = texts.reason(error.reason, error.values)
        return visit.page("message.html.jinja", 400, title=texts.get("pages.can_not"), message=message)


def _is_secure(request: Request) -> bool:
    """Whether the browser is known to use https; behind another proxy it may not be, and the cookie must work."""
    return request.headers.get("Dify-Hook-Url", "").startswith("https://")


def _refused(visit: Visit, access: Access) -> Response | None:
    """Why a change is not made: no right to, a body that arrived cut, a form of another session."""
    texts = visit.texts
    if (visit.request.content_length or 0) >= MAX_BODY_BYTES:
        return visit.page("message.html.jinja", 413, title=texts.get("pages.too_large"), message="")
    if not access.allows(visit.visitor, visit.request.form.get("token")):
        message = texts.get("pages.old_form")
        return visit.page("message.html.jinja", 403, title=texts.get("pages.can_not"), message=message)
    if visit.visitor.role != "edit" and visit.request.path not in {"/leave", "/language"}:
        message = texts.get("pages.reading_only")
        return visit.page("message.html.jinja", 403, title=texts.get("pages.can_not"), message=message)
    return None


def _enter(request: Request, access: Access, hook: str, texts: Texts, urls: MapAdapter) -> Response:
    after = request.form.get("after", "")
    tries = _TRIES.setdefault(hook, Tries())
    if (wait := tries.wait()) > 0:
        closed = _closed(texts, urls, after=after, message=texts.get("pages.slow_down", seconds=round(wait + 0.5)))
        closed.status_code = 429
        closed.headers["Retry-After"] = str(round(wait + 0.5))
        return closed
    role = access.role_of(request.form.get("key", ""))
    if role is None:
        tries.was_wrong()
        return _closed(texts, urls, after=after, message=texts.get("pages.wrong_key"))
    sent_on = Response("", 303, {**HEADERS, "Location": _own(after, urls)})
    return _with_cookie(sent_on, cookie_header(access.cookie_value(role), hook, secure=_is_secure(request)))


def _own(after: str, urls: MapAdapter) -> str:
    """An address of ours, from the root on; anything else leads to the start."""
    path, _, query = after.partition("?")
    try:
        urls.match(path, "GET")
    except (HTTPException, RequestRedirect):
        return urls.build("start")
    root = urls.build("start").rstrip("/")
    quoted = Request({"PATH_INFO": path.encode().decode("latin-1"), "QUERY_STRING": query}).full_path.rstrip("?")
    return root + quoted if path.startswith("/") and not path.startswith("//") else urls.build("start")


def _back(visit: Visit) -> Response:
    return Response("", 303, {**HEADERS, "Location": _own(visit.request.form.get("after", ""), visit.urls)})


def _closed(texts: Texts, urls: MapAdapter, *, after: str, message: str = "") -> Response:
    """The form that asks for the key, and nothing else. Its style stands in the page: nothing else is served yet."""
    nonce = secrets.token_urlsafe(12)
    values = {"enter": urls.build("enter"), "after": after, "message": message, "style": asset("pages.css")}
    body = render("enter.html.jinja", texts, nonce=nonce, **values)
    return _answer(body, 401, f"style-src 'nonce-{nonce}'; ")


def _answer(body: str, status: int = 200, sources: str = "style-src 'self'; script-src 'self'; ") -> Response:
    headers = {**HEADERS, "Content-Security-Policy": _POLICY.format(sources)}
    return Response(body, status, headers, content_type="text/html; charset=utf-8")


def _plain(text: str, status: int) -> Response:
    headers = {**HEADERS, "Content-Security-Policy": "default-src 'none'"}
    return Response(text, status, headers, content_type="text/plain; charset=utf-8")


def _with_cookie(response: Response, header: str) -> Response:
    response.headers["Set-Cookie"] = header
    return response


def _language(request: Request, settings: Mapping[str, Any], chosen: Language | None) -> Language:
    """Chosen on the page, else set for the endpoint, else the browser's."""
    setting: Any = (settings or {}).get("language")
    if chosen or setting in LANGUAGES:
        return chosen or setting
    best: Any = request.accept_languages.best_match(LANGUAGES)
    return best or "en"
