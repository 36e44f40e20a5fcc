"""Runs that stop and go on: killed, out of time, two at once, out of storage. Nothing is lost or paid for twice."""

import json
import os
import signal
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from devhost.app_stream import Envelope, Event
from devhost.apps import AppCall, Apps, PlayedApp
from devhost.daemon import PluginDied, PluginProcess, ToolOutput
from devhost.dify_side import Storage
from devhost.knowledge import KnowledgeBase
from tests.apps.conftest import Evaluate, Publish
from tests.apps.support import (
    answer_of,
    bot_answer,
    changed,
    chatflow,
    counts,
    invoke_app,
    judged,
    parameters,
    progress,
    question,
    tag,
)
from tests.model_server import HttpError, Request, ScriptedModelServer
from tests.tools.support import data_of

CALLS = 5
ROWS = 6
KILLED = 3


class WatchedStorage(Storage):
    """Tells of every value that is written, and may be small."""

    def __init__(self, limit: int = 1_000_000) -> None:
        super().__init__(limit)
        self.on_write: Callable[[str, bytes], None] = lambda *_: None

    def set(self, key: str, value: bytes, *, limit: int | None = None) -> None:
        super().set(key, value, limit=min(self.limit, limit or self.limit))
        self.on_write(key, value)


@pytest.fixture
def storage() -> WatchedStorage:
    return WatchedStorage()


def state_of(value: bytes) -> str:
    return str(json.loads(zlib.decompress(value))["state"])


def forget_lock(storage: Storage) -> None:
    """What the passing of half a minute does: the lock of a call that was killed counts no more."""
    [key] = [key for key in storage.snapshot() if key.endswith("/lock")]
    storage.set(key, json.dumps({"owner": "killed", "at": 0}).encode())


class Holding:
    """An app that answers no question before it is let go."""

    def __init__(self, judge: ScriptedModelServer) -> None:
        self.asked, self.go_on = threading.Event(), threading.Event()
        judge.on_chat(self._held)

    def _held(self, request: Request) -> str:
        self.asked.set()
        assert self.go_on.wait(30)
        return answer_of(request)


def number(output: ToolOutput) -> int:
    return int(output.variables["details"]["run"]["number"])


def test_after_a_stop_the_next_call_joins_the_run_that_goes_on_unseen(
    plugin: PluginProcess, apps: Apps, evaluate: Evaluate, judge: ScriptedModelServer
) -> None:
    holding = Holding(judge)
    with ThreadPoolExecutor() as pool:
        # Dify no longer reads what the plugin writes, and does not tell it.
        stopped = pool.submit(invoke_app, plugin, parameters(3))
        assert holding.asked.wait(30)
        second = pool.submit(evaluate, 3)
        time.sleep(0.5)
        holding.go_on.set()
        outputs = [stopped.result(), second.result()]
    assert [progress(output) for output in outputs] == [("scored", "", 3, 3)] * 2
    assert [number(output) for output in outputs] == [1, 1]
    assert outputs[0].variables["scores"] == outputs[1].variables["scores"]
    assert [apps.asked(question(n)) for n in (1, 2, 3)] == [1, 1, 1]
    assert judged(judge) == {tag(n): CALLS for n in (1, 2, 3)}
    assert number(evaluate(3)) == 2


def test_a_call_that_can_not_wait_so_long_is_told_since_when_and_how_far_and_the_next_is_shown_the_result(
    hasty: PluginProcess, apps: Apps, judge: ScriptedModelServer
) -> None:
    holding = Holding(judge)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(invoke_app, hasty, parameters(2, time_limit=30))
        assert holding.asked.wait(30)
        busy = invoke_app(hasty, parameters(2, time_limit=5))
        holding.go_on.set()
        assert progress(first.result()) == ("scored", "", 2, 2)
    assert progress(busy) == ("failed", "run_busy", 0, 0)
    assert "約1分前から実行中で、2件のうち0件まで" in busy.text
    shown = invoke_app(hasty, parameters(2))
    assert (progress(shown), number(shown)) == (("scored", "", 2, 2), 1)
    assert "質問はし直していません" in shown.text
    assert len(apps.calls) == 2
    assert number(invoke_app(hasty, parameters(2))) == 2


def test_another_table_under_the_same_name_runs_beside_it(
    plugin: PluginProcess, evaluate: Evaluate, judge: ScriptedModelServer
) -> None:
    holding = Holding(judge)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(invoke_app, plugin, parameters(2))
        assert holding.asked.wait(30)
        second = pool.submit(evaluate, 3)
        time.sleep(0.5)
        holding.go_on.set()
        outputs = [first.result(), second.result()]
    assert [progress(output)[2:] for output in outputs] == [(2, 2), (3, 3)]
    assert [number(output) for output in outputs] == [1, 2]


def test_failed_questions_are_asked_again_alone(evaluate: Evaluate, apps: Apps, judge: ScriptedModelServer) -> None:
    judge.on_chat(lambda request: HttpError(400, "no such thing") if tag(2) in request.user else answer_of(request))
    assert progress(evaluate(3)) == ("partial", "", 3, 3)
    judge.on_chat(answer_of)
    output = evaluate(3, retry_failed=True)
    assert (progress(output), number(output)) == (("scored", "", 3, 3), 1)
    assert [apps.asked(question(n)) for n in (1, 2, 3)] == [1, 2, 1]
    assert judged(judge) == {tag(n): CALLS for n in (1, 2, 3)}
    again = evaluate(3, retry_failed=True)
    assert "失敗した質問がないため" in again.text
    assert len(apps.calls) == 4


def test_a_run_whose_plugin_died_when_all_was_done_is_shown_without_asking_again(
    hasty: PluginProcess, evaluate: Evaluate, apps: Apps, storage: WatchedStorage
) -> None:
    storage.on_write = lambda name, _: os.kill(hasty.pid, signal.SIGKILL) if name.endswith("/summary") else None
    with pytest.raises(PluginDied):
        invoke_app(hasty, parameters(3))
    forget_lock(storage)
    output = evaluate(3)
    assert (progress(output), number(output)) == (("scored", "", 3, 3), 1)
    assert "質問はし直していません" in output.text
    assert len(apps.calls) == 3


def test_two_names_run_at_the_same_time(plugin: PluginProcess, apps: Apps) -> None:
    with ThreadPoolExecutor() as pool:
        runs = [pool.submit(invoke_app, plugin, parameters(2, run_name=name)) for name in ("朝", "夕")]
        assert [progress(run.result()) for run in runs] == [("scored", "", 2, 2)] * 2
    assert len(apps.calls) == 4


def test_time_that_runs_out_ends_the_call_in_good_order_and_the_next_one_goes_on(
    hasty: PluginProcess, apps: Apps, judge: ScriptedModelServer
) -> None:
    judge.latency = 0.2
    first = invoke_app(hasty, parameters(20, concurrency=1, time_limit=10))
    status, reason, done, total = progress(first)
    assert (status, reason, total) == ("partial", "", 20)
    assert 0 < done < 20
    assert f"{done}" in first.variables["summary"]
    assert "20" in first.variables["summary"]
    assert first.variables["passed"] is None
    judge.latency = 0
    second = invoke_app(hasty, parameters(20, concurrency=4, time_limit=60))
    assert progress(second) == ("scored", "", 20, 20)
    assert second.variables["details"]["run"]["number"] == 1
    asked = [apps.asked(question(n)) for n in range(1, 21)]
    assert asked[:done] == [1] * done
    assert sum(asked) <= 21
    cost = judged(judge)
    # What hangs near the end is asked once more.
    assert [cost[tag(n)] for n in range(1, done)] == [CALLS] * (done - 1)


def test_the_row_at_which_the_app_fails_is_reported_and_the_others_are_scored(
    evaluate: Evaluate, apps: Apps, judge: ScriptedModelServer
) -> None:
    judge.on_chat(lambda request: HttpError(400, "no such thing") if tag(7) in request.user else answer_of(request))
    output = evaluate(8)
    assert progress(output) == ("partial", "", 8, 8)
    assert output.variables["details"]["failed_rows"] == 1
    assert (counts(output)["scored"], counts(output)["failed"], counts(output)["mean"]) == (7, 1, 1)
    assert "API request failed with status code 400" in output.files[0].blob.decode()
    assert apps.asked(question(7)) == 1


def test_a_row_that_failed_is_tried_again_when_its_run_goes_on(
    hasty: PluginProcess, apps: Apps, judge: ScriptedModelServer
) -> None:
    judge.on_chat(lambda request: HttpError(400, "no such thing") if tag(1) in request.user else answer_of(request))
    judge.latency = 0.1
    first = invoke_app(hasty, parameters(10, concurrency=1, time_limit=3))
    assert first.variables["details"]["failed_rows"] == 1
    assert not first.variables["finished"]
    judge.on_chat(answer_of)
    judge.latency = 0
    second = invoke_app(hasty, parameters(10, time_limit=60))
    assert progress(second) == ("scored", "", 10, 10)
    assert apps.asked(question(1)) == 2


def test_an_app_that_says_nothing_has_failed_at_the_row(
    evaluate: Evaluate, publish: Publish, knowledge: KnowledgeBase
) -> None:
    publish(changed(chatflow(knowledge), "reply", answer="{{#llm.reasoning_content#}}"))
    output = evaluate(2)
    assert progress(output) == ("failed", "app_empty_answer", 2, 2)
    assert output.variables["details"]["failed_rows"] == 2
    assert output.variables["scores"]["faithfulness"] is None


def test_an_app_that_streams_without_end_has_failed_at_the_row(hasty: PluginProcess, apps: Apps) -> None:
    ended = threading.Event()

    def play(call: AppCall, envelope: Envelope) -> Iterator[Event]:
        while tag(2) in call.query and not ended.wait(0.2):
            yield envelope.message("message", "まだです。")
        yield envelope.message("message", bot_answer(int(call.query[2:4])))
        yield envelope.message_end([{"content": "有給休暇は10日"}], {})

    apps.publish("bot", PlayedApp("chat", play))
    try:
        output = invoke_app(hasty, parameters(3, time_limit=20))
    finally:
        ended.set()
    assert progress(output) == ("partial", "", 3, 3)
    assert output.variables["details"]["failed_rows"] == 1
    assert counts(output)["scored"] == 2


@pytest.mark.parametrize("refusal", [500, 429])
def test_an_app_that_has_no_place_left_is_asked_again(refusal: int, evaluate: Evaluate, apps: Apps) -> None:
    apps.most_at_once, apps.refusal = 1, refusal
    assert progress(evaluate(2, concurrency=2)) == ("scored", "", 2, 2)
    assert apps.most_in_flight == 1


def test_a_full_storage_is_told_and_what_is_done_is_still_reported(
    evaluate: Evaluate, storage: WatchedStorage, apps: Apps
) -> None:
    storage.limit = 9_000
    output = evaluate(20, concurrency=1)
    status, reason, done, total = progress(output)
    assert (status, reason, total) == ("partial", "storage_full", 20)
    assert 0 < done < 20
    assert len(apps.calls) <= done + 1
    storage.limit = 1_000_000
    again = evaluate(20)
    assert progress(again) == ("scored", "", 20, 20)
    assert again.variables["details"]["run"]["number"] == 1
    assert sum(apps.asked(question(n)) for n in range(1, 21)) <= 21


def test_a_storage_that_is_full_from_the_beginning_is_told_before_anything_is_asked(
    evaluate: Evaluate, storage: WatchedStorage, apps: Apps
) -> None:
    storage.limit = 10
    assert progress(evaluate(2)) == ("failed", "storage_full", 0, 0)
    assert apps.calls == []


@pytest.mark.parametrize("moment", ["between two rows", "in the middle of one"])
def test_a_run_that_was_killed_goes_on_and_pays_at_most_one_row_twice(
    moment: str,
    hasty: PluginProcess,
    evaluate: Evaluate,
    apps: Apps,
    judge: ScriptedModelServer,
    storage: WatchedStorage,
) -> None:
    def kill() -> None:
        if hasty.alive:
            os.kill(hasty.pid, signal.SIGKILL)

    def statements(request: Request) -> dict[str, object]:
        if tag(KILLED) in request.user:
            kill()
        return {"statements": [data_of(request)["answer"]]}

    if moment == "in the middle of one":
        judge.on("faithfulness.statements", statements)
    else:
        key = f"/{KILLED}-1"
        storage.on_write = lambda name, value: kill() if name.endswith(key) and state_of(value) == "done" else None
    with pytest.raises(PluginDied):
        invoke_app(hasty, parameters(ROWS, concurrency=1))
    assert len(apps.calls) == KILLED
    forget_lock(storage)
    output = evaluate(ROWS, concurrency=1)
    assert progress(output) == ("scored", "", ROWS, ROWS)
    assert output.variables["details"]["run"]["number"] == 1
    assert [apps.asked(question(n)) for n in range(1, ROWS + 1)] == [1] * ROWS
    cost = judged(judge)
    in_doubt = cost.pop(tag(KILLED))
    assert cost == {tag(n): CALLS for n in range(1, ROWS + 1) if n != KILLED}
    assert in_doubt == CALLS if moment == "between two rows" else CALLS < in_doubt <= 2 * CALLS


def test_an_app_that_was_answering_when_its_run_was_killed_is_asked_that_one_question_again(
    hasty: PluginProcess, evaluate: Evaluate, apps: Apps, judge: ScriptedModelServer, storage: WatchedStorage
) -> None:
    def answering(request: Request) -> str:
        if tag(2) in request.user and hasty.alive:
            os.kill(hasty.pid, signal.SIGKILL)
        return answer_of(request)

    judge.on_chat(answering)
    with pytest.raises(PluginDied):
        invoke_app(hasty, parameters(3, concurrency=1))
    forget_lock(storage)
    assert progress(evaluate(3)) == ("scored", "", 3, 3)
    assert [apps.asked(question(n)) for n in (1, 2, 3)] == [1, 2, 1]
    assert judged(judge) == {tag(n): CALLS for n in (1, 2, 3)}
