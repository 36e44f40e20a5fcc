"""Who may see the pages: a key, entered once and kept as a signed cookie; a second key gives reading only."""

import hashlib
import hmac
import secrets
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from itsdangerous import BadData, URLSafeTimedSerializer

from evaluation.languages import LANGUAGES, Language

Role = Literal["edit", "read"]

COOKIE = "rag_evaluator_pages"
MIN_KEY_CHARACTERS = 12
SESSION_SECONDS = 12 * 3600
# After so many wrong tries within the window only one is looked at every few seconds: by then somebody guesses. Who
# has a cookie is not held up. No client's address is known, so it holds for all who try.
WRONG_TRIES, WINDOW_SECONDS, PAUSE_SECONDS = 10, 600.0, 5.0


@dataclass(frozen=True)
class Visitor:
    """Somebody with a valid cookie.

    Attributes:
        role: edit, or read.
        language: chosen on the page, None where the browser's counts.
        id: of the session, by chance.
        token: what every form that changes something must send back.
    """

    role: Role
    language: Language | None
    id: str
    token: str


class Access:
    """The keys of one endpoint and the cookies made from them. A changed key ends every session.

    Args:
        settings: of the endpoint: access_key, reader_key.
        hook: the endpoint's id.
    """

    def __init__(self, settings: Mapping[str, Any], hook: str) -> None:
        self._keys: dict[Role, str] = {
            "edit": str(settings.get("access_key") or ""),
            "read": str(settings.get("reader_key") or ""),
        }
        self._secret = hashlib.sha256(
            b"\0".join([b"rag-evaluator pages", hook.encode(), *(key.encode() for key in self._keys.values())])
        ).digest()
        self._cookies = URLSafeTimedSerializer(self._secret, salt="session")

    @property
    def usable(self) -> bool:
        """Whether the key is long enough; without one nobody enters."""
        return len(self._keys["edit"]) >= MIN_KEY_CHARACTERS

    def role_of(self, key: str) -> Role | None:
        """What a key opens, None when it is wrong. Compared in constant time; too short a second key opens nothing."""
        role: Role | None = None
        for candidate, own in self._keys.items():
            same = hmac.compare_digest(hashlib.sha256(key.encode()).digest(), hashlib.sha256(own.encode()).digest())
            if same and len(own) >= MIN_KEY_CHARACTERS and role is None:
                role = candidate
        return role

    def cookie_value(self, role: Role, language: Language | None = None, session: str = "") -> str:
        """The signed value of a session's cookie; a new session without an id."""
        return self._cookies.dumps([role, language or "", session or secrets.token_urlsafe(12)])

    def visitor(self, cookie: str | None) -> Visitor | None:
        """The visitor of a cookie's value, None when it is missing, forged, changed or over."""
        try:
            role, language, session = self._cookies.loads(cookie or "", max_age=SESSION_SECONDS)
        except (BadData, ValueError, TypeError):
            return None
        if role == "read" and len(self._keys["read"]) < MIN_KEY_CHARACTERS:
            return None
        return Visitor(role, language if language in LANGUAGES else None, session, self._token(session))

    def _token(self, session: str) -> str:
        return hmac.new(self._secret, f"token {session}".encode(), hashlib.sha256).hexdigest()

    def allows(self, visitor: Visitor, token: object) -> bool:
        """Whether a form's token is that of the visitor's session."""
        return hmac.compare_digest(visitor.token.encode(), str(token or "").encode())


def cookie_header(value: str, hook: str, *, secure: bool, seconds: int = SESSION_SECONDS) -> str:
    """The Set-Cookie header: for the pages alone, out of scripts' reach, with an end."""
    parts = [f"{COOKIE}={value}", f"Path=/e/{hook}/", f"Max-Age={seconds}", "HttpOnly", "SameSite=Lax"]
    return "; ".join([*parts, *(["Secure"] if secure else [])])


@dataclass
class Tries:
    """The wrong keys of late, of one endpoint; safe to use from several threads."""

    _wrong: deque[float] = field(default_factory=deque)
    _looked_at: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def wait(self, now: float | None = None) -> float:
        """Seconds until a key is looked at again, 0.0 when this one is."""
        now = time.monotonic() if now is None else now
        with self._lock:
            while self._wrong and now - self._wrong[0] > WINDOW_SECONDS:
                self._wrong.popleft()
            left = self._looked_at + PAUSE_SECONDS - now
            if len(self._wrong) >= WRONG_TRIES and left > 0:
                return left
            self._looked_at = now
            return 0.0

    def was_wrong(self, now: float | None = None) -> None:
        """Counts a wrong key."""
        with self._lock:
            self._wrong.append(time.monotonic() if now is None else now)
            while len(self._wrong) > WRONG_TRIES:
                self._wrong.popleft()
