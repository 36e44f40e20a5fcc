"""The plugin's process: many calls at once, calls that fail, processes that end."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from devhost.daemon import MAX_LINE_BYTES, Message, PluginDied, PluginProcess, ToolFailed, collect
from devhost.dify_side import DifySide, ModelServer, ReverseCall
from tests.devhost.conftest import PROBE
from tests.model_server import Hang, ScriptedModelServer

MODEL = {"provider": "a/b/c", "model": "m", "model_type": "llm", "mode": "chat", "completion_params": {}}


def misbehave(process: PluginProcess, action: Any, timeout: float = 20) -> Any:
    return collect(process.invoke_tool("misbehave", {"action": action}, provider="probe", timeout=timeout))


def until_error(messages: Iterator[Message]) -> tuple[list[str], ToolFailed]:
    received: list[str] = []
    try:
        for message in messages:
            received.append(message["type"])  # noqa: PERF401 - what came before the error counts
    except ToolFailed as error:
        return received, error
    raise AssertionError("the tool did not raise")


@pytest.fixture
def mortal(model_server: ScriptedModelServer) -> Iterator[PluginProcess]:
    """A probe process of this test alone, for tests that end it."""
    with PluginProcess(PROBE, DifySide(ModelServer(model_server.url))) as process:
        yield process


def test_model_calls_of_one_tool_run_at_the_same_time(probe: PluginProcess, model_server: ScriptedModelServer) -> None:
    model_server.latency = 0.3
    output = misbehave(probe, {"do": "ask", "times": 8})
    assert output.json[0]["replies"] == ["OK."] * 8
    assert model_server.max_in_flight() == 8


def test_tools_called_from_many_threads_keep_their_answers_apart(
    probe: PluginProcess, model_server: ScriptedModelServer
) -> None:
    model_server.latency = 0.2
    model_server.on_chat(lambda request: f"re: {request.user}")
    with ThreadPoolExecutor(6) as pool:
        outputs = list(
            pool.map(
                lambda number: collect(
                    probe.invoke_tool(
                        "take", {"question": f"q{number}", "model": MODEL}, provider="probe", app_id=str(number)
                    )
                ),
                range(6),
            )
        )
    assert [output.json[0]["llm"]["content"] for output in outputs] == [f"re: question: q{n}" for n in range(6)]
    assert [output.json[0]["app_id"] for output in outputs] == [str(n) for n in range(6)]
    assert model_server.max_in_flight() > 1


def test_a_tool_that_raises_gives_its_type_text_and_trace_after_its_messages(probe: PluginProcess) -> None:
    received, error = until_error(probe.invoke_tool("take", {"question": "raise"}, provider="probe"))
    assert received == ["text", "json", "variable", "variable", "variable", "variable"]
    assert error.error_type == "RuntimeError"
    assert error.message == "planted-secret-123"
    assert "in _invoke" in error.error_args["traceback"]


def test_an_unknown_tool_is_an_error_of_the_plugin(probe: PluginProcess) -> None:
    with pytest.raises(ToolFailed, match="Tool `absent` not found"):
        list(probe.invoke_tool("absent", {}, provider="probe"))


def test_a_call_that_takes_too_long_ends_and_leaves_the_plugin_usable(
    probe: PluginProcess, model_server: ScriptedModelServer
) -> None:
    model_server.on_chat([Hang(30), "later"])
    started = time.monotonic()
    with pytest.raises(TimeoutError, match=r"not done after 0\.5 s"):
        misbehave(probe, {"do": "ask", "times": 1}, timeout=0.5)
    assert time.monotonic() - started < 5
    assert misbehave(probe, {"do": "ask", "times": 1}).json[0]["replies"] == ["later"]


def test_a_killed_process_ends_its_calls_and_refuses_new_ones(mortal: PluginProcess) -> None:
    calls = [mortal.invoke_tool("misbehave", {"action": "sleep"}, provider="probe") for _ in range(2)]
    os.kill(mortal.pid, signal.SIGKILL)
    for call in calls:
        with pytest.raises(PluginDied, match="exit code -9"):
            next(call)
    assert not mortal.alive
    with pytest.raises(PluginDied):
        mortal.invoke_tool("take", {"question": "q"}, provider="probe")


def test_a_plugin_that_exits_says_with_what_code(mortal: PluginProcess) -> None:
    misbehave(mortal, {"do": "write_stderr", "lines": 1})
    with pytest.raises(PluginDied, match=r"(?s)exit code 3\).*noise on stderr"):
        misbehave(mortal, "die")


def test_a_line_over_the_daemons_limit_kills_the_plugin(mortal: PluginProcess) -> None:
    output = misbehave(mortal, {"do": "long_line", "bytes": MAX_LINE_BYTES - 1000})
    assert len(output.text) == MAX_LINE_BYTES - 1000
    with pytest.raises(PluginDied, match="a line of more than 5242880 bytes"):
        misbehave(mortal, {"do": "long_line", "bytes": MAX_LINE_BYTES})
    assert not mortal.alive


def test_closing_ends_a_plugin_that_is_busy(mortal: PluginProcess) -> None:
    mortal.invoke_tool("misbehave", {"action": "sleep"}, provider="probe")
    started = time.monotonic()
    mortal.close()
    assert time.monotonic() - started < 8
    assert not mortal.alive
    mortal.close()


def test_closing_ends_a_plugin_that_reads_nothing_any_more(mortal: PluginProcess) -> None:
    os.kill(mortal.pid, signal.SIGSTOP)
    # more than the pipe takes, so that the writer waits
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(mortal.invoke_tool, "take", {"question": "x" * 1_000_000}, provider="probe")
        started = time.monotonic()
        mortal.close()
        assert time.monotonic() - started < 8
        with pytest.raises(PluginDied):
            call.result(5)
    assert not mortal.alive


def test_a_plugin_that_does_not_start_shows_its_stderr(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text("raise SystemExit('no manifest here')")
    with pytest.raises(PluginDied, match=r"(?s)did not start: .*exit code 1.*no manifest here"):
        PluginProcess(tmp_path, DifySide(ModelServer("http://127.0.0.1:9"))).start()


def test_a_plugin_that_stays_silent_is_given_up(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text("import time\ntime.sleep(60)")
    with pytest.raises(PluginDied, match=r"no declaration within 0\.5 s"):
        PluginProcess(tmp_path, DifySide(ModelServer("http://127.0.0.1:9")), start_timeout=0.5).start()


def test_lines_that_are_no_json_and_noise_on_stderr_do_no_harm(probe: PluginProcess) -> None:
    probe.errors.clear()
    misbehave(probe, "print")
    misbehave(probe, {"do": "write_stderr", "lines": 5000})
    assert probe.errors[0]["line"] == "a stray line\n"
    assert misbehave(probe, {"do": "emit", "value": 1}).variables == {"value": 1}
    assert len(probe.stderr_tail.splitlines()) <= 200


def test_a_value_that_is_no_number_leaves_the_plugin_as_null(probe: PluginProcess) -> None:
    assert misbehave(probe, "emit_nan").variables == {"value": None}


def test_a_fault_of_the_host_reaches_the_plugin_as_an_error(probe: PluginProcess) -> None:
    def broken(_: ReverseCall) -> Iterator[tuple[str, dict[str, Any]]]:
        raise LookupError("broken")

    probe.errors.clear()
    probe.dify.handlers["storage"] = broken
    output = misbehave(probe, {"do": "storage", "steps": [["get", "k"]]})
    assert output.json[0]["results"] == ["Exception: development host: LookupError('broken')"]
    assert "LookupError" in probe.errors[0]["error"]


def test_a_reverse_call_knows_its_session(probe: PluginProcess) -> None:
    seen: list[ReverseCall] = []

    def remember(call: ReverseCall) -> Iterator[tuple[str, dict[str, Any]]]:
        seen.append(call)
        return iter([("struct", {"data": False})])

    probe.dify.handlers["storage"] = remember
    action = {"do": "storage", "steps": [["exist", "k"]]}
    collect(probe.invoke_tool("misbehave", {"action": action}, provider="probe", app_id="app-1", user_id="user-1"))
    assert seen[0].request == {"opt": "exist", "key": "k"}
    assert (seen[0].session["app_id"], seen[0].session["user_id"]) == ("app-1", "user-1")
    assert seen[0].permission["storage"]["size"] == 1048576


def test_a_started_process_knows_its_cost(probe: PluginProcess) -> None:
    assert 0 < probe.seconds_to_ready < 60
    peak = probe.peak_memory_bytes()
    if sys.platform == "linux":
        assert peak is not None
        assert 20_000_000 < peak < 1_000_000_000
    else:
        assert peak is None
