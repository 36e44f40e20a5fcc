"""What fails because Dify is busy passes; what a provider or Dify refuses for good is told at once."""

import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from devhost.apps import text_generator
from devhost.connections import Connections
from devhost.daemon import PluginProcess
from devhost.dify_side import Replies, ReverseCall, ReverseCallError
from tests.apps.conftest import flow_app
from tests.apps.support import bot_answer, documents, judged, progress, question, scored_chatflow, tag
from tests.load.support import ROWS, Site, site
from tests.model_server import HttpError
from tests.tools.support import outcome

POOL = "QueuePool limit of size 30 overflow 10 reached, connection timed out, timeout 30.00"
QUOTAS = json.loads((Path(__file__).parents[1] / "data/reports/26_quota_used_up/errors.json").read_text("utf-8"))


def refused(kind: str, message: str, status: int) -> str:
    body = json.dumps({"code": "unknown", "message": message, "status": status})
    return f"invoke {kind} failed: request failed with status code: {status} and respond with: {body}\n"


NO_USER = refused("llm model", "user not found", 400)
BARE = "Internal Server Error"


class FailingFirst:
    """Refuses the first calls of a type with these texts, then lets all through.

    Attributes:
        calls: how many there were.
    """

    def __init__(self, site: Site, kind: str, *texts: str, always: bool = False) -> None:
        self.calls = 0
        self._texts = list(texts)
        self._always = always
        self._answer = site.dify.handlers[kind]
        self._lock = threading.Lock()
        site.dify.handlers[kind] = self._handle

    def _handle(self, call: ReverseCall) -> Replies:
        with self._lock:
            self.calls += 1
            number = 0 if self._always else self.calls - 1
        if number < len(self._texts):
            raise ReverseCallError(self._texts[number])
        yield from self._answer(call)


@pytest.fixture
def here(process: PluginProcess) -> Any:
    with site(process, Connections(), 0.0) as made:
        yield made


@pytest.fixture
def hurried(short: PluginProcess) -> Any:
    with site(short, Connections(), 0.0) as made:
        yield made


# --- first, while Dify has served this process well: kinds that can't be asked ---


@pytest.mark.parametrize("language", ["ja", "en", "zh"])
def test_a_text_generation_app_is_told_at_once(language: str, here: Site) -> None:
    here.apps.publish("bot", text_generator())
    output = here.run("文章", language=language, concurrency=1)
    assert progress(output) == ("failed", "app_kind_unsupported", 0, ROWS)
    words = {"ja": "テキストジェネレーター", "en": "text generation apps", "zh": "文本生成应用"}
    assert words[language] in output.variables["summary"]
    # Twice with the question, and once without one between them.
    assert (here.apps.asked(question(1)), len(here.apps.calls)) == (2, 3)


# --- what passes ---


@pytest.mark.parametrize(
    "texts",
    [
        [NO_USER] * 5,
        [refused("llm model", BARE, 500)] * 5,
        [refused("llm model", "tenant not found", 400), refused("llm model", POOL, 400), NO_USER],
    ],
    ids=["user not found", "bare 500", "mixed"],
)
def test_a_judge_that_dify_has_no_connection_for_is_asked_again(texts: list[str], here: Site) -> None:
    judge = FailingFirst(here, "llm", *texts)
    output = here.run("判定", count=3, depth="economy")
    assert progress(output) == ("scored", "", 3, 3)
    assert judge.calls == len(texts) + sum(judged(here.judge).values())
    assert len(here.apps.calls) == 3


@pytest.mark.parametrize(
    "text",
    [f"read app failed: {POOL}", refused("app", BARE, 500), refused("app", "user not found", 400)],
    ids=["pool", "bare 500", "user not found"],
)
def test_an_app_that_dify_has_no_connection_for_is_asked_again(text: str, here: Site) -> None:
    app = FailingFirst(here, "app", text, text)
    output = here.run("アプリ", count=2, depth="economy")
    assert progress(output) == ("scored", "", 2, 2)
    assert [here.apps.asked(question(row)) for row in (1, 2)] == [1, 1]
    assert app.calls >= 4


def test_a_chat_whose_judge_dify_has_no_connection_for_gets_its_scores(here: Site) -> None:
    FailingFirst(here, "llm", *[NO_USER] * 6)
    output, _, _ = here.chat("chat")
    assert outcome(output) == ("scored", "")


def test_the_storage_of_a_busy_dify_is_read_again(here: Site) -> None:
    FailingFirst(here, "storage", refused("storage", BARE, 500), refused("storage", BARE, 500))
    assert progress(here.run("保存", count=1, depth="economy")) == ("scored", "", 1, 1)


@pytest.mark.parametrize("kind", ["llm", "app"])
def test_a_row_for_which_dify_stays_busy_stays_open_and_the_next_call_goes_on(kind: str, hurried: Site) -> None:
    before = hurried.dify.handlers[kind]
    FailingFirst(hurried, kind, NO_USER, always=True)
    output = hurried.run(f"混雑 {kind}", count=2, depth="economy", time_limit=4)
    assert progress(output) == ("failed", "dify_busy", 0, 2)
    assert "混み合って" in output.variables["summary"]
    assert output.variables["details"]["failed_rows"] == 0
    hurried.dify.handlers[kind] = before
    output = hurried.run(f"混雑 {kind}", count=2, depth="economy", time_limit=60)
    assert progress(output) == ("scored", "", 2, 2)
    assert output.variables["details"]["run"]["number"] == 1
    assert [hurried.apps.asked(question(row)) for row in (1, 2)] == [1, 1]


# --- what does not pass ---


@pytest.mark.parametrize("provider", QUOTAS)
def test_a_judge_without_quota_is_asked_once_and_told(provider: str, here: Site) -> None:
    for prompt in list(here.judge._scripts):
        here.judge.on(prompt, HttpError(*QUOTAS[provider]))
    output, _, _ = here.chat("chat")
    assert outcome(output) == ("failed", "quota_exhausted")
    assert "残高" in output.variables["summary"]
    usage = output.variables["details"]["usage"]
    assert (usage["judge_calls"], usage["retries"]) == (len(here.judge.judge_calls), 0)


def test_a_run_ends_with_the_quota_and_goes_on_when_there_is_one_again(here: Site) -> None:
    good = dict(here.judge._scripts)

    def reply(name: str) -> Any:
        def answer(request: Any) -> Any:
            if tag(3) in request.user:
                return HttpError(*QUOTAS["openai"])
            return good[name](request) if callable(good[name]) else good[name]

        return answer

    for prompt in good:
        here.judge.on(prompt, reply(prompt))
    first = here.run("枠", concurrency=1, depth="economy")
    assert progress(first)[:2] == ("partial", "quota_exhausted")
    assert first.variables["done"] == 2
    assert len(here.apps.calls) == 3
    for prompt, script in good.items():
        here.judge.on(prompt, script)
    assert progress(here.run("枠", concurrency=4, depth="economy")) == ("scored", "", ROWS, ROWS)
    assert len(here.apps.calls) == ROWS


def test_a_run_ends_when_the_apps_own_model_has_no_quota(here: Site) -> None:
    here.judge.on_chat(HttpError(*QUOTAS["deepseek"]))
    output = here.run("アプリの枠", concurrency=1)
    assert progress(output) == ("failed", "app_quota_exhausted", 0, ROWS)
    assert "残高" in output.variables["summary"]
    assert len(here.apps.calls) == 1


def test_an_app_that_is_too_slow_for_the_time_limit_says_what_to_raise(hurried: Site) -> None:
    hurried.judge.on_chat(lambda request: bot_answer(1) if tag(1) in request.user else _held(request))
    hold.clear()
    try:
        output = hurried.run("遅い", count=2, depth="economy", time_limit=5)
    finally:
        hold.set()
    assert output.variables["details"]["failed_rows"] == 1
    page = output.files[0].blob.decode()
    assert re.search(r"アプリの回答が [12] 秒以内に終わりませんでした", page)
    assert "制限時間（time_limit）" in page


hold = threading.Event()


def _held(_: Any) -> str:
    hold.wait(20)
    return "遅れました"


# --- an app that is scored in its own chat ---


def test_a_scored_app_is_evaluated_without_waiting_for_itself(here: Site, tmp_path: Path) -> None:
    # All rows at once: their app calls hold places while the tools in those apps wait for some.
    knowledge = documents(tmp_path, ROWS)
    app = flow_app(scored_chatflow(knowledge), here.plugin, here.judge, knowledge, "scored")
    here.apps.publish("bot", app)
    output = here.run("採点付き", concurrency=16, count=8, depth="economy")
    assert progress(output) == ("scored", "", 8, 8)
    assert here.dify.most <= 12
    inside = [entry for entry in here.dify.entries if entry.app_id == "scored" and entry.kind == "llm"]
    assert len(inside) >= 8 * 2
