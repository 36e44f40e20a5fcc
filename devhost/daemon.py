"""Starts a plugin as Dify's plugin daemon does and calls its tools over the same lines.

The plugin runs in its own process (`python -m main` in its folder, INSTALL_METHOD=local) and speaks JSON lines over
stdin and stdout. Its reverse calls go to a `DifySide`, each in a thread of its own.
"""

import base64
import contextlib
import json
import logging
import os
import queue
import subprocess
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Self

from devhost.dify_side import DifySide, ReverseCall, ReverseCallError

MAX_LINE_BYTES = 5 * 1024 * 1024
TOOL_TIMEOUT_SECONDS = 600.0
START_TIMEOUT_SECONDS = 60.0
STOP_TIMEOUT_SECONDS = 2.0
KEPT_EVENTS = 500
KEPT_STDERR_LINES = 200
MAX_STDERR_LINE_BYTES = 4096
# The plugin must find its own modules alone, as it does when installed.
HIDDEN_VARIABLES = frozenset({"PYTHONPATH", "PYTHONHOME", "PYTHONSAFEPATH"})

type Message = dict[str, Any]
"""A tool message as on the wire: {"type", "message", "meta"}; a blob's bytes are base64 text."""

logger = logging.getLogger(__name__)


class ToolFailed(Exception):  # noqa: N818 - says what happened
    """A tool that raised.

    Attributes:
        error_type: name of the exception's class in the plugin.
        message: the exception's text, which Dify shows to the chat's user.
        error_args: {"traceback": …}, as the plugin sent it.
    """

    def __init__(self, error_type: str, message: str, error_args: Mapping[str, Any]) -> None:
        super().__init__(f"{error_type}: {message}")
        self.error_type = error_type
        self.message = message
        self.error_args = error_args


class PluginDied(Exception):  # noqa: N818 - says what happened
    """The plugin's process has ended; the text holds its exit code and the end of its stderr."""


@dataclass(frozen=True)
class OutputFile:
    """A file that a tool made."""

    blob: bytes
    mime_type: str | None
    filename: str | None


@dataclass
class ToolOutput:
    """What a tool node of Dify makes of a tool's messages.

    Attributes:
        text: all text messages joined.
        json: the object of every json message, in order.
        variables: the last value of every variable; streamed parts of a variable are joined.
        files: the blobs.
        messages: the messages themselves.
    """

    text: str = ""
    json: list[Any] = field(default_factory=list)
    variables: dict[str, Any] = field(default_factory=dict)
    files: list[OutputFile] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)


@dataclass
class _Session:
    dify: DifySide
    id: str
    fields: dict[str, Any]
    user_id: str
    events: "queue.SimpleQueue[dict[str, Any]]" = field(default_factory=queue.SimpleQueue)


class PluginProcess:
    """A running plugin; a context manager that starts it and stops it.

    Several threads may call tools at once.

    Args:
        folder: the plugin's folder, the one with manifest.yaml.
        dify: answers the plugin's reverse calls; may be exchanged at any time, calls under way keep theirs.
        python: the interpreter that has the plugin's requirements.
        start_timeout: seconds until the plugin must have declared itself.

    Attributes:
        declaration: the plugin's own first line.
        seconds_to_ready: from the start of the process to that line.
        logs: the last log events of the plugin.
        errors: the last errors outside of a tool call: error events, lines that are no JSON, failures of this host.
        lines: when set, every line in both directions goes to this list as (from, line); for tests.

    Raises:
        PluginDied: the plugin ended or did not declare itself in time.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        dify: DifySide,
        python: str = sys.executable,
        *,
        start_timeout: float = START_TIMEOUT_SECONDS,
    ) -> None:
        self.folder = Path(folder)
        self.dify = dify
        self.python = python
        self.start_timeout = start_timeout
        self.declaration: dict[str, Any] = {}
        self.seconds_to_ready = 0.0
        self.logs: deque[dict[str, Any]] = deque(maxlen=KEPT_EVENTS)
        self.errors: deque[dict[str, Any]] = deque(maxlen=KEPT_EVENTS)
        self.lines: list[tuple[str, dict[str, Any]]] | None = None
        self._stderr: deque[str] = deque(maxlen=KEPT_STDERR_LINES)
        self._sessions: dict[str, _Session] = {}
        self._lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._declared = threading.Event()
        self._ended = threading.Event()
        self._end_reason = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._readers: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start the process and wait for its declaration."""
        environment = {name: value for name, value in os.environ.items() if name not in HIDDEN_VARIABLES}
        started = time.perf_counter()
        process = subprocess.Popen(
            [self.python, "-m", "main"],
            cwd=self.folder,
            env=environment | {"INSTALL_METHOD": "local"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._process = process
        self._readers = [
            threading.Thread(target=self._read_stderr, args=(_pipe(process.stderr),), daemon=True),
            threading.Thread(target=self._read_stdout, args=(_pipe(process.stdout),), daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        declared = self._declared.wait(self.start_timeout)
        if not declared or not self.declaration:
            reason = self._death() if self._ended.is_set() else f"no declaration within {self.start_timeout:g} s"
            self.close()
            raise PluginDied(f"the plugin in {self.folder} did not start: {reason}")
        self.seconds_to_ready = time.perf_counter() - started

    def close(self) -> None:
        """Stop the process; returns within a few seconds whatever the plugin does."""
        process = self._process
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for reader in self._readers:
            reader.join(STOP_TIMEOUT_SECONDS)
        for pipe in (process.stdin, process.stdout, process.stderr):
            # A reader that is still in its read holds the pipe's lock; closing it then would wait for ever.
            if pipe is not None and not any(reader.is_alive() for reader in self._readers):
                _close_quietly(pipe)

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("the plugin has not been started")
        return self._process

    @property
    def pid(self) -> int:
        """The process id of the plugin."""
        return self._running.pid

    @property
    def alive(self) -> bool:
        """Whether the process runs and its lines are read."""
        return self._process is not None and self._process.poll() is None and not self._ended.is_set()

    @property
    def stderr_tail(self) -> str:
        """The last lines that the plugin wrote to stderr."""
        return "\n".join(self._stderr)

    def peak_memory_bytes(self) -> int | None:
        """Return the largest resident size so far; None where the system does not tell (only Linux does)."""
        try:
            status = Path(f"/proc/{self.pid}/status").read_text()
        except OSError:
            return None
        peak = next((line for line in status.splitlines() if line.startswith("VmHWM:")), None)
        return None if peak is None else int(peak.split()[1]) * 1024

    def invoke_tool(
        self,
        tool: str,
        parameters: Mapping[str, Any],
        *,
        provider: str = "rag_evaluator",
        app_id: str | None = None,
        conversation_id: str | None = None,
        user_id: str | None = None,
        timeout: float = TOOL_TIMEOUT_SECONDS,
    ) -> Iterator[Message]:
        """Call a tool; the request is sent at once, the messages come as the plugin sends them.

        Parameters and messages go through the daemon's number type on their way: 1.0 becomes 1, and the keys of
        objects are sorted.

        Args:
            tool: the tool's name.
            parameters: its parameters; what is not set stays absent.
            provider: the tool provider's name.
            app_id: the app that the tool runs in.
            conversation_id: None in a single step run.
            user_id: a new id when omitted.
            timeout: seconds for the whole call.

        Raises:
            ToolFailed: the tool raised.
            TimeoutError: the call was not done in time; the plugin goes on with it.
            PluginDied: the process ended.
        """
        data = {
            "action": "invoke_tool",
            "credential_type": "api-key",
            "credentials": {},
            "provider": provider,
            "tool": tool,
            "tool_parameters": as_daemon_value(parameters),
            "type": "tool",
            "user_id": str(uuid.uuid4()) if user_id is None else user_id,
        }
        session = self._open_session(data, app_id=app_id, conversation_id=conversation_id)
        return _join_blobs(self._events(session, time.monotonic() + timeout, timeout))

    def invoke_endpoint(
        self,
        raw_http_request: bytes,
        settings: Mapping[str, Any],
        *,
        endpoint_id: str,
        timeout: float = TOOL_TIMEOUT_SECONDS,
    ) -> Iterator[Message]:
        """Hand a request to the plugin's endpoint; see devhost/web.py for what the daemon makes of a browser's.

        Args:
            settings: of the endpoint, as its form was filled in.

        Yields:
            {"status", "headers"} and hex of the body under "result", in the first message or in several.

        Raises:
            ToolFailed, TimeoutError, PluginDied: as a tool's call.
        """
        data = {
            "action": "invoke_endpoint",
            "raw_http_request": raw_http_request.hex(),
            "settings": as_daemon_value(settings),
            "type": "endpoint",
            "user_id": "",
        }
        session = self._open_session(data, endpoint_id=endpoint_id)
        return self._events(session, time.monotonic() + timeout, timeout)

    def _open_session(
        self,
        data: dict[str, Any],
        *,
        app_id: str | None = None,
        conversation_id: str | None = None,
        endpoint_id: str | None = None,
    ) -> _Session:
        """Send a request of any kind and register who receives its events."""
        session_id = str(uuid.uuid4())
        fields = {
            "session_id": session_id,
            "conversation_id": conversation_id,
            "message_id": None,
            "app_id": app_id,
            "endpoint_id": endpoint_id,
            "context": None,
        }
        session = _Session(self.dify, session_id, fields, data["user_id"])
        with self._lock:
            self._sessions[session.id] = session
        self._write({**fields, "event": "request", "data": data})
        return session

    def _events(self, session: _Session, deadline: float, timeout: float) -> Iterator[Message]:
        try:
            while True:
                try:
                    event = session.events.get(timeout=max(0.0, deadline - time.monotonic()))
                except queue.Empty:
                    raise TimeoutError(f"the tool was not done after {timeout:g} s") from None
                match event["type"]:
                    case "stream":
                        yield as_daemon_value(event["data"])
                    case "error":
                        error = event["data"]
                        raise ToolFailed(error["error_type"], error["message"], error["args"])
                    case "died":
                        raise PluginDied(self._death())
                    case "end":
                        return
        finally:
            with self._lock:
                self._sessions.pop(session.id, None)

    def _read_stdout(self, stdout: IO[bytes]) -> None:
        try:
            while line := stdout.readline(MAX_LINE_BYTES + 1):
                if len(line) > MAX_LINE_BYTES:
                    self._end_reason = f"a line of more than {MAX_LINE_BYTES} bytes"
                    break
                if line.strip():
                    self._take_line(line)
        finally:
            self._end()

    def _end(self) -> None:
        process = self._running
        if not self._end_reason:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1)
        process.kill()
        process.wait()
        self._ended.set()
        self._declared.set()
        with self._lock:
            sessions = list(self._sessions.values())
        for session in sessions:
            session.events.put({"type": "died"})

    def _take_line(self, raw: bytes) -> None:
        try:
            line = json.loads(raw)
            if self.lines is not None:
                self.lines.append(("plugin", line))
            self._take_event(line)
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            start = raw[:200].decode(errors="replace")
            self.errors.append({"error": f"a line that the daemon can't read: {error!r}", "line": start})
            logger.warning("a line that the daemon can't read: %s", start)

    def _take_event(self, line: dict[str, Any]) -> None:
        match line.get("event"):
            case None:
                self.declaration = line
                self._declared.set()
            case "session":
                self._take_session_event(line)
            case "log":
                self.logs.append(line["data"])
                logger.info("plugin: %s", line["data"].get("message"))
            case "error":
                self.errors.append(line["data"])
                logger.warning("plugin: %s", line["data"])

    def _take_session_event(self, line: dict[str, Any]) -> None:
        with self._lock:
            session = self._sessions.get(line["session_id"])
        if session is None:
            return
        event = line["data"]
        if event["type"] == "invoke":
            threading.Thread(target=self._answer, args=(session, event["data"]), daemon=True).start()
        else:
            session.events.put(event)

    def _answer(self, session: _Session, data: dict[str, Any]) -> None:
        call = ReverseCall(
            type=data["type"],
            request=data["request"],
            permission=(self.declaration.get("resource") or {}).get("permission") or {},
            session={**session.fields, "user_id": session.user_id},
        )
        call_id = data["backwards_request_id"]
        try:
            for kind, payload in session.dify.answer(call):
                self._reply(session, call_id, "response", kind, as_daemon_value(payload))
        except ReverseCallError as refusal:
            self._reply(session, call_id, "error", str(refusal), None)
        except Exception as error:
            logger.exception("answering a %s call failed", call.type)
            self.errors.append({"error": f"answering a {call.type} call failed: {error!r}"})
            self._reply(session, call_id, "error", f"development host: {error!r}", None)
        self._reply(session, call_id, "end", "", None)

    def _reply(self, session: _Session, call_id: str, event: str, message: str, data: Any) -> None:
        reply = {"backwards_request_id": call_id, "event": event, "message": message, "data": data}
        try:
            self._write({**session.fields, "event": "backwards_response", "data": reply})
        except PluginDied:
            logger.debug("the plugin ended before a reply could be written")

    def _write(self, line: dict[str, Any]) -> None:
        stdin = _pipe(self._running.stdin)
        encoded = json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        try:
            with self._write_lock:
                if self._ended.is_set():
                    raise PluginDied(self._death())
                if self.lines is not None:
                    self.lines.append(("daemon", line))
                stdin.write(encoded)
                stdin.flush()
        except (OSError, ValueError) as error:
            raise PluginDied(self._death()) from error

    def _death(self) -> str:
        cause = self._end_reason or f"exit code {self._running.poll()}"
        # What it wrote last may still be on its way to the reader of stderr, which ends with the process.
        self._readers[0].join(STOP_TIMEOUT_SECONDS)
        tail = self.stderr_tail[-2000:]
        return f"the plugin's process has ended ({cause})" + (f"; its stderr ends with:\n{tail}" if tail else "")

    def _read_stderr(self, stderr: IO[bytes]) -> None:
        while line := stderr.readline(MAX_STDERR_LINE_BYTES):
            self._stderr.append(line.decode(errors="replace").rstrip("\n"))


def collect(messages: Iterable[Message]) -> ToolOutput:
    """Gather a tool's messages into what a tool node of Dify hands on."""
    output = ToolOutput()
    for message in messages:
        output.messages.append(message)
        payload = message["message"]
        match message["type"]:
            case "text":
                output.text += payload["text"]
            case "json":
                output.json.append(payload["json_object"])
            case "variable" if payload["stream"]:
                name = payload["variable_name"]
                output.variables[name] = output.variables.get(name, "") + payload["variable_value"]
            case "variable":
                output.variables[payload["variable_name"]] = payload["variable_value"]
            case "blob":
                meta = message["meta"] or {}
                blob = base64.b64decode(payload["blob"])
                output.files.append(OutputFile(blob, meta.get("mime_type"), meta.get("filename")))
    return output


def as_daemon_value(value: Any) -> Any:
    """Return a value as it leaves the daemon, which knows one number type and sorts the keys of objects."""
    if isinstance(value, Mapping):
        return {key: as_daemon_value(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [as_daemon_value(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return int(value)
    return value


def _join_blobs(messages: Iterator[Message]) -> Iterator[Message]:
    parts: dict[str, list[bytes]] = {}
    for message in messages:
        if message["type"] != "blob_chunk":
            yield message
            continue
        chunk = message["message"]
        parts.setdefault(chunk["id"], []).append(base64.b64decode(chunk["blob"]))
        if chunk["end"]:
            blob = base64.b64encode(b"".join(parts.pop(chunk["id"]))).decode()
            yield {"type": "blob", "message": {"blob": blob}, "meta": message["meta"]}


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise RuntimeError("the process was started without pipes")
    return pipe


def _close_quietly(pipe: IO[bytes]) -> None:
    # Closing flushes bytes that the ended process can't take any more.
    with contextlib.suppress(OSError):
        pipe.close()
