"""The host's lines against lines recorded between Dify's own daemon and a plugin like the probe."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devhost.daemon import PluginProcess, ToolFailed, collect
from tests.model_server import HttpError, ScriptedModelServer

RECORDED = Path(__file__).parent.parent / "data" / "wire"
VOLATILE = frozenset({"latency", "s", "traceback"})

type Line = tuple[str, dict[str, Any]]


def recorded(name: str) -> list[Line]:
    rows = [json.loads(row) for row in (RECORDED / name).read_text().splitlines()]
    return [(row["from"], row["line"]) for row in rows]


def walk(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from walk(item)


def comparable(lines: list[Line]) -> tuple[list[Any], dict[str, list[Any]]]:
    """Split into the plugin's lines and the daemon's, by reverse call; ids become numbers, times and traces go.

    The daemon's answers to different calls may come in any order, those to one call may not.
    """
    ids: dict[str, str] = {}
    for _, line in lines:
        for item in walk(line):
            for name in ("session_id", "backwards_request_id", "id"):
                if isinstance(item.get(name), str):
                    ids.setdefault(item[name], f"#{len(ids)}")
    plugin: list[Any] = []
    daemon: dict[str, list[Any]] = {}
    for sender, line in lines:
        text = json.dumps(line)
        for found, number in ids.items():
            text = text.replace(found, number)
        clean = json.loads(text)
        for item in walk(clean):
            for name in VOLATILE & item.keys():
                item[name] = type(item[name]).__name__ if name == "traceback" else "time"
        if sender == "plugin":
            plugin.append(clean)
        else:
            daemon.setdefault(clean["data"].get("backwards_request_id", "request"), []).append(clean)
    return plugin, daemon


def replay(probe: PluginProcess, model_server: ScriptedModelServer, lines: list[Line]) -> list[Line]:
    """Send a recorded request through the host, with models that say what they said then."""
    request = lines[0][1]
    for _, line in lines:
        data = line["data"].get("data") or {}
        if "delta" in data:
            model_server.on_chat(data["delta"]["message"]["content"])
            model_server.usage = data["delta"]["usage"]
        if "embeddings" in data:
            for text, vector in zip(["あ", "b"], data["embeddings"], strict=True):
                model_server.embed_as(text, vector)
    probe.lines = []
    messages = probe.invoke_tool(
        request["data"]["tool"],
        request["data"]["tool_parameters"],
        provider=request["data"]["provider"],
        app_id=request["app_id"],
        conversation_id=request["conversation_id"],
        user_id=request["data"]["user_id"],
        timeout=20,
    )
    try:
        for _ in messages:
            pass
    except ToolFailed:
        pass
    # The answer to the last storage call may still be on its way when the tool has ended.
    expected = len(lines)
    for _ in range(200):
        if len(probe.lines) >= expected:
            break
        probe._ended.wait(0.01)
    return probe.lines


def test_declaration_has_the_fields_of_the_recorded_one(probe: PluginProcess) -> None:
    assert probe.declaration.keys() == recorded("start.jsonl")[0][1].keys()


@pytest.mark.parametrize("name", ["tool_files.jsonl", "tool_raises.jsonl"])
def test_lines_of_a_tool_call_equal_the_recorded_ones(
    name: str, probe: PluginProcess, model_server: ScriptedModelServer
) -> None:
    lines = recorded(name)
    plugin, daemon = comparable(replay(probe, model_server, lines))
    recorded_plugin, recorded_daemon = comparable(lines)
    assert plugin == recorded_plugin
    assert daemon == recorded_daemon


def test_lines_of_a_failed_model_call_equal_the_recorded_ones(
    probe: PluginProcess, model_server: ScriptedModelServer
) -> None:
    lines = recorded("tool_judge_429.jsonl")
    message = lines[2][1]["data"]["message"]
    req_id = message.partition("req_id: ")[2][:10]
    body = json.loads(json.loads(message.partition("respond with: ")[2])["message"].partition("Error: ")[2])
    model_server.on_chat(HttpError(429, body["message"].partition("429: ")[2]))
    sent = replay(probe, model_server, lines)
    new_id = sent[2][1]["data"]["message"].partition("req_id: ")[2][:10]
    assert new_id != req_id
    sent = [(sender, json.loads(json.dumps(line).replace(new_id, req_id))) for sender, line in sent]
    assert comparable(sent)[0] == comparable(lines)[0]
    assert comparable(sent)[1] == comparable(lines)[1]


def test_output_is_gathered_as_a_tool_node_does(probe: PluginProcess, model_server: ScriptedModelServer) -> None:
    model_server.on_chat("はい")
    model = {"provider": "a/b/c", "model": "m", "model_type": "llm", "mode": "chat", "completion_params": {}}
    output = collect(probe.invoke_tool("take", {"question": "file", "model": model}, provider="probe"))
    assert output.text == "**take** 0.5"
    assert output.json[0]["llm"]["content"] == "はい"
    assert list(output.variables) == ["score", "score_text", "passed", "details"]
    assert output.variables["details"] == output.json[0]
    assert [(file.filename, file.mime_type) for file in output.files] == [
        ("rows.csv", "text/csv"),
        ("report.html", "text/html"),
    ]
    assert output.files[0].blob == "a,b\n1,日本\n".encode()


def test_a_file_of_many_chunks_comes_out_whole(probe: PluginProcess) -> None:
    # 3 bytes x 100,000 = 300,000 bytes in chunks of 8192
    action = {"do": "blob", "hex": "00ff41", "times": 100_000}
    output = collect(probe.invoke_tool("misbehave", {"action": action}, provider="probe"))
    assert output.files[0].blob == b"\x00\xffA" * 100_000


@pytest.mark.parametrize(
    ("sent", "seen"),
    [(0.7, ["float", "0.7"]), (1.0, ["int", "1"]), (0.0, ["int", "0"]), (1e-7, ["float", "1e-07"])],
)
def test_numbers_arrive_as_the_daemon_writes_them(sent: float, seen: list[str], probe: PluginProcess) -> None:
    output = collect(probe.invoke_tool("take", {"question": "q", "threshold": sent}, provider="probe"))
    assert output.json[0]["seen"]["threshold"] == seen


@pytest.mark.parametrize(
    ("emitted", "received"), [(1.0, 1), (None, None), ({"b": [2.0], "a": "x"}, {"a": "x", "b": [2]})]
)
def test_values_leave_the_tool_as_the_daemon_writes_them(emitted: Any, received: Any, probe: PluginProcess) -> None:
    output = collect(probe.invoke_tool("misbehave", {"action": {"do": "emit", "value": emitted}}, provider="probe"))
    assert json.dumps(output.variables["value"]) == json.dumps(received)


def test_what_is_not_set_is_absent_in_the_tool(probe: PluginProcess) -> None:
    output = collect(probe.invoke_tool("take", {"question": "q"}, provider="probe"))
    assert list(output.json[0]["seen"]) == ["question"]
