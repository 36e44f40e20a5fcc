"""Who gets in: nobody without the key, nothing without the form's token, and no header shown or kept."""

import re

import pytest

from bridge.pages import access as subject
from bridge.pages.access import COOKIE, PAUSE_SECONDS, WINDOW_SECONDS, WRONG_TRIES, Access, Tries
from devhost.daemon import PluginProcess
from devhost.dify_side import Storage
from devhost.web import EndpointServer
from tests.pages.conftest import KEY, READER, SETTINGS, Browser, Enter

PAGES = ["", "runs/abc", "runs/abc/1", "runs/abc/1/rows/1-1", "runs/abc/1/download.csv", "assets/pages.css", "nowhere"]


def token_of(text: str) -> str:
    found = re.search(r'name="token" value="(\w+)"', text)
    assert found
    return found[1]


@pytest.mark.parametrize("path", PAGES)
def test_without_the_key_there_is_the_form_and_nothing_else(stranger: Browser, path: str) -> None:
    answer = stranger.get(path)
    assert answer.status_code == 401
    assert 'type="password"' in answer.text
    assert "token" not in answer.text
    assert "Set-Cookie" not in answer.headers
    assert stranger.post(path).status_code == 401


def test_the_key_is_entered_once_and_leads_to_where_one_wanted_to_go(stranger: Browser) -> None:
    asked = stranger.get("runs/abc?text=a b&group=sound")
    assert 'value="/runs/abc?text=a+b&amp;group=sound"' in asked.text or "group=sound" in asked.text
    after = re.search(r'name="after" value="([^"]*)"', asked.text)
    assert after
    entered = stranger.post("enter", {"key": KEY, "after": after[1].replace("&amp;", "&")}, allow_redirects=False)
    assert entered.status_code == 303
    assert entered.headers["Location"].startswith("/e/h0okid1234567890/runs/abc?")
    cookie = entered.headers["Set-Cookie"]
    assert cookie.startswith(f"{COOKIE}=")
    for part in ("Path=/e/h0okid1234567890/", "HttpOnly", "SameSite=Lax", "Max-Age="):
        assert part in cookie
    assert "Secure" not in cookie
    assert KEY not in cookie
    assert stranger.get().status_code == 200


@pytest.mark.parametrize(
    "after", ["https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)", "/nowhere", "", "a"]
)
def test_entering_leads_to_pages_of_ours_alone(stranger: Browser, after: str) -> None:
    answer = stranger.post("enter", {"key": KEY, "after": after}, allow_redirects=False)
    assert answer.headers["Location"] == "/e/h0okid1234567890/"


def test_the_cookie_is_secure_where_the_browser_uses_https(stranger: Browser) -> None:
    headers = {"X-Forwarded-Proto": "https"}
    answer = stranger.post("enter", {"key": KEY}, headers=headers, allow_redirects=False)
    assert "; Secure" in answer.headers["Set-Cookie"]


@pytest.mark.parametrize("key", ["", "wrong", KEY[:-1], KEY + " ", KEY.upper(), "日本"])
def test_another_key_opens_nothing(stranger: Browser, key: str) -> None:
    answer = stranger.post("enter", {"key": key}, allow_redirects=False)
    assert answer.status_code == 401
    assert "Set-Cookie" not in answer.headers
    subject_of_text = "キーが違います" in answer.text or "もう一度入力" in answer.text
    assert subject_of_text


def test_forged_and_changed_cookies_are_none(member: Browser, stranger: Browser) -> None:
    good = member.session.cookies[COOKIE]
    body, _, signature = good.rpartition(".")
    for value in ("", "x", good[:-1], good + "x", f"{body}.{signature[::-1]}", "e30.aaaa.bbbb", "🐙"):
        header = {"Cookie": f"{COOKIE}={value}".encode()}
        assert stranger.get(headers=header).status_code == 401, value
    assert stranger.get(headers={"Cookie": f"a=1; {COOKIE}={good}; b=2"}).status_code == 200


def test_a_changed_key_ends_every_session(server: EndpointServer, member: Browser) -> None:
    server.settings = {**SETTINGS, "access_key": "another-key-for-all"}
    assert member.get().status_code == 401


@pytest.mark.parametrize("key", ["", "short", None])
def test_without_a_long_key_nobody_enters(server: EndpointServer, member: Browser, key: str | None) -> None:
    server.settings = {**SETTINGS, "access_key": key}
    answer = member.get()
    assert answer.status_code == 503
    assert "12 文字以上" in answer.text
    assert member.post("enter", {"key": key or ""}).status_code == 503


def test_a_change_needs_the_forms_token(member: Browser, enter: Enter) -> None:
    token = token_of(member.get().text)
    for wrong in ("", "x", token[:-1], token_of(enter().get().text)):
        answer = member.post("language", {"language": "en", "token": wrong}, allow_redirects=False)
        assert answer.status_code == 403
    answer = member.post("language", {"language": "en", "token": token, "after": "/"}, allow_redirects=False)
    assert answer.status_code == 303
    assert "Results" in member.get().text


def test_another_sites_form_is_refused(member: Browser) -> None:
    token = token_of(member.get().text)
    headers = {"Sec-Fetch-Site": "cross-site", "Origin": "http://evil.example"}
    assert member.post("language", {"language": "en", "token": token}, headers=headers).status_code == 403


def test_the_second_key_reads(enter: Enter) -> None:
    reader = enter(READER)
    assert "閲覧だけ" in reader.get().text


def test_leaving_ends_the_session(member: Browser) -> None:
    token = token_of(member.get().text)
    member.post("leave", {"token": token})
    assert member.get().status_code == 401


def test_every_answer_has_a_strict_policy_and_is_kept_nowhere(member: Browser, stranger: Browser) -> None:
    for answer in (member.get(), member.get("nowhere"), stranger.get(), stranger.post("enter", {"key": "x"})):
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert "http" not in policy
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["X-Frame-Options"] == "DENY"


def test_cookies_and_headers_are_neither_shown_nor_kept_nor_logged(
    member: Browser, plugin: PluginProcess, storage: Storage
) -> None:
    planted = "access_token=planted-4711; refresh_token=planted-4712"
    cookie = f"{planted}; {COOKIE}={member.session.cookies[COOKIE]}"
    headers = {"Cookie": cookie, "Authorization": "Bearer planted-4713", "X-Secret": "planted-4714"}
    for path in ("", "nowhere", "runs/abc/1", "runs/%3Cscript%3E/1"):
        assert "planted-47" not in member.get(path, headers=headers).text
    assert not any(b"planted-47" in value for value in storage._values.values())
    assert "planted-47" not in str([*plugin.logs, *plugin.errors, plugin.stderr_tail])


@pytest.mark.parametrize("path", ["runs/..%2F..%2Fetc", "runs/a/1/rows/../../x", "runs/a/99999999999999999999"])
def test_odd_paths_are_answered_in_plain_words(member: Browser, path: str) -> None:
    answer = member.get(path)
    assert answer.status_code in {400, 404}
    assert "Traceback" not in answer.text


def test_after_ten_wrong_keys_one_is_looked_at_every_few_seconds() -> None:
    tries = Tries()
    for number in range(WRONG_TRIES):
        assert tries.wait(now=float(number)) == 0.0
        tries.was_wrong(now=float(number))
    last = float(WRONG_TRIES - 1)
    assert tries.wait(now=last + 1) == pytest.approx(PAUSE_SECONDS - 1)
    assert tries.wait(now=last + PAUSE_SECONDS) == 0.0
    # Looked at, so the next one waits again; after the window all is forgotten.
    assert tries.wait(now=last + PAUSE_SECONDS + 1) > 0
    assert tries.wait(now=last + WINDOW_SECONDS + 60) == 0.0


def test_ten_wrong_keys_slow_down_over_the_process(server: EndpointServer) -> None:
    server.hook = "an0ther"
    other = Browser(server)
    other.server.url = server.url.replace("h0okid1234567890", "an0ther")
    statuses = [other.post("enter", {"key": "wrong"}).status_code for _ in range(WRONG_TRIES + 2)]
    assert statuses[:WRONG_TRIES] == [401] * WRONG_TRIES
    assert statuses[-1] == 429
    assert other.post("enter", {"key": KEY}).status_code == 429


def test_sessions_end(monkeypatch: pytest.MonkeyPatch) -> None:
    access = Access(SETTINGS, "hook")
    value = access.cookie_value("edit")
    assert access.visitor(value)
    monkeypatch.setattr(subject, "SESSION_SECONDS", -1)
    assert access.visitor(value) is None


def test_cookies_of_another_endpoint_are_none() -> None:
    value = Access(SETTINGS, "one").cookie_value("edit")
    assert Access(SETTINGS, "other").visitor(value) is None


def test_a_reading_key_that_is_too_short_opens_nothing() -> None:
    access = Access({**SETTINGS, "reader_key": "short"}, "hook")
    assert access.role_of("short") is None
    assert access.role_of("") is None
