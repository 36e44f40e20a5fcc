"""The apps of a workspace, called by a plugin through Dify: published ones answer, the others are refused as Dify does.

apps = Apps()
apps.publish("an id", FlowApp(chatflow))
dify_side.handlers["app"] = apps.answer
"""

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

from devhost.app_stream import Envelope, Event, stream
from devhost.chatflow import Chatflow, FlowCall
from devhost.connections import Connections, NoConnectionError
from devhost.dify_side import ModelError, ModelServer, Replies, ReverseCall, ReverseCallError

CHATS = ("advanced-chat", "chat", "agent-chat")


@dataclass
class AppCall:
    """One call of an app.

    Attributes:
        query: "" when there was none.
        inputs: as they were given.
        user_id: who runs the tool that calls.
        started, ended: time.perf_counter(); ended is None while the app answers.
    """

    app_id: str
    query: str
    inputs: Mapping[str, Any]
    user_id: str
    started: float = field(default_factory=time.perf_counter)
    ended: float | None = None


class App(Protocol):
    """A published app; `mode` is one of Dify's: advanced-chat, chat, agent-chat, workflow, completion."""

    mode: str

    def events(self, call: AppCall) -> Iterator[Event]:
        """The events of one call.

        Raises:
            ValueError: the call is refused before the app runs; the text is Dify's.
        """
        ...


class FlowApp:
    """A chatflow or a workflow, run by graphon; every call is a conversation of its own."""

    def __init__(self, flow: Chatflow) -> None:
        self.mode = flow.mode
        self._flow = flow

    def events(self, call: AppCall) -> Iterator[Event]:
        """Run the flow."""
        run = self._flow.start(FlowCall(call.query, call.inputs, user_id=call.user_id))
        return stream(run, chat=self.mode == "advanced-chat")


class NodeModels(ModelServer):
    """The models of an app's nodes: each of their calls holds a connection of Dify's database as well."""

    def __init__(self, base_url: str, connections: Connections) -> None:
        super().__init__(base_url)
        self._connections = connections

    def chat(self, request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the reply's chunks.

        Raises:
            ModelError: no connection in time, or what the server did.
        """
        try:
            with self._connections.one():
                yield from super().chat(request)
        except NoConnectionError as error:
            raise ModelError("InvokeError", str(error)) from error


class PlayedApp:
    """A chatbot or an agent, or any other app as a test wants it: a function from a call to its events.

    Args:
        mode: one of Dify's.
        play: gets the call and an envelope for its events.
    """

    def __init__(self, mode: str, play: Callable[[AppCall, Envelope], Iterator[Event]]) -> None:
        self.mode = mode
        self._play = play

    def events(self, call: AppCall) -> Iterator[Event]:
        """Play the events."""
        run_id = str(uuid.uuid4()) if self.mode in {"advanced-chat", "workflow"} else None
        return self._play(call, Envelope(self.mode in CHATS, run_id, str(uuid.uuid4())))


def chatbot(answer: Sequence[str], resources: Sequence[Mapping[str, Any]] = ()) -> PlayedApp:
    """A basic chatbot: the pieces of its answer, and its sources when it shows them."""

    def play(_: AppCall, envelope: Envelope) -> Iterator[Event]:
        yield {"event": "ping"}
        for piece in answer:
            yield envelope.message("message", piece, from_variable_selector=None)
        yield envelope.message_end(resources, USAGE)

    return PlayedApp("chat", play)


def text_generator() -> PlayedApp:
    """A text generation app, which Dify can't run for a plugin: it misses the query even where there is one."""

    def play(_: AppCall, __: Envelope) -> Iterator[Event]:
        raise refused(MESSAGES[500], 500)
        yield

    return PlayedApp("completion", play)


def agent(answer: Sequence[str], tool: str, observation: str, resources: Sequence[Mapping[str, Any]] = ()) -> PlayedApp:
    """An agent that calls one tool and then answers.

    Args:
        answer: the pieces of its answer.
        tool: the tool's name; a knowledge base is a tool too.
        observation: what the tool gave.
        resources: the sources, when the agent shows them.
    """

    def play(_: AppCall, envelope: Envelope) -> Iterator[Event]:
        thought = {"id": str(uuid.uuid4()), "position": 1, "thought": "", "tool": tool, "tool_labels": {}}
        thought |= {"tool_input": json.dumps({tool: {"query": "…"}}), "message_files": []}
        yield envelope.event("agent_thought", **thought, observation="")
        seen = json.dumps({tool: observation}, ensure_ascii=False)
        yield envelope.event("agent_thought", **thought, observation=seen)
        for piece in answer:
            yield envelope.message("agent_message", piece)
        yield envelope.message_end(resources, USAGE)

    return PlayedApp("agent-chat", play)


USAGE = {"prompt_tokens": 30, "completion_tokens": 7, "total_tokens": 37, "total_price": "0", "currency": "USD"}


class Apps:
    """The apps of a workspace by id.

    Args:
        most_at_once: calls beyond this many at the same time are refused; None refuses none.
        refusal: the status of that: 500 (Dify's database has no connection left) or 429 (the app's own limit).
        connections: of Dify's database; an app's run holds one beside that of the call. None: no end of them.

    Attributes:
        calls: every call that reached an app, in order.
        most_in_flight: how many were answered at the same time, at most.
    """

    def __init__(
        self, *, most_at_once: int | None = None, refusal: int = 500, connections: Connections | None = None
    ) -> None:
        self.most_at_once = most_at_once
        self.refusal = refusal
        self.connections = connections
        self.calls: list[AppCall] = []
        self.most_in_flight = 0
        self._apps: dict[str, App | None] = {}
        self._in_flight = 0
        self._lock = threading.Lock()

    def publish(self, app_id: str, app: App) -> None:
        """Make an app callable, in place of the one that had the id."""
        self._apps[app_id] = app

    def draft(self, app_id: str) -> None:
        """Add an app that was never published."""
        self._apps[app_id] = None

    def asked(self, query: str) -> int:
        """How often a question was asked, of any app."""
        return sum(call.query == query for call in self.calls)

    def answer(self, reverse: ReverseCall) -> Replies:
        """Answer a reverse call of type "app", in streaming mode alone.

        Raises:
            ReverseCallError: an app that is unknown or not published, an input that is missing, too many at once.
        """
        request = reverse.request
        if request.get("response_mode") != "streaming":
            raise NotImplementedError("only streaming calls of apps are played here")
        call = AppCall(
            str(request.get("app_id")),
            str(request.get("query") or ""),
            dict(request.get("inputs") or {}),
            str(reverse.session.get("user_id") or uuid.uuid4()),
        )
        app = self._find(call)
        with self._place():
            self.calls.append(call)
            try:
                with self.connections.one() if self.connections else nullcontext():
                    for event in _begun(app, call):
                        yield "stream", event
            except NoConnectionError as error:
                raise ReverseCallError(f"read app failed: {error}") from error
            finally:
                call.ended = time.perf_counter()

    def _find(self, call: AppCall) -> App:
        if call.app_id not in self._apps:
            raise refused("app not found")
        app = self._apps[call.app_id]
        if app is None:
            raise refused("unexpected app type")
        if app.mode in CHATS and not call.query:
            raise refused("missing query")
        return app

    @contextmanager
    def _place(self) -> Iterator[None]:
        """One of the places for calls at the same time."""
        with self._lock:
            if self.most_at_once is not None and self._in_flight >= self.most_at_once:
                raise refused(MESSAGES[self.refusal], self.refusal)
            self._in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self._in_flight)
        try:
            yield
        finally:
            with self._lock:
                self._in_flight -= 1


def _begun(app: App, call: AppCall) -> Iterator[Event]:
    try:
        return app.events(call)
    except ValueError as error:
        raise refused(str(error)) from error


MESSAGES = {
    429: "Too many requests. Please try again later. The current maximum concurrent requests allowed is reached.",
    500: "Internal Server Error",
}
CODES = {400: "invalid_param", 429: "too_many_requests", 500: "unknown"}


def refused(message: str, status: int = 400) -> ReverseCallError:
    """The error that a plugin gets when Dify refuses a call of an app with that status."""
    body = json.dumps({"code": CODES[status], "message": message, "status": status})
    return ReverseCallError(f"invoke app failed: request failed with status code: {status} and respond with: {body}\n")
