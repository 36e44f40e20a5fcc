"""A Dify with few database connections, runs and chats at the same time, and a ledger of all calls that reach it."""

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from devhost.app_stream import Envelope, Event
from devhost.apps import USAGE, AppCall, Apps, NodeModels, PlayedApp
from devhost.connections import Connections
from devhost.daemon import PluginProcess, ToolOutput, collect
from devhost.dify_side import DifySide, ModelError, ModelServer, Replies, ReverseCall, Storage
from tests.apps.support import bot_answer, invoke_app, parameters, script, tag
from tests.model_server import ScriptedModelServer
from tests.tools.support import MODEL, items

ROWS = 12
CHUNKS = 5


@dataclass
class Entry:
    """A call that reached Dify: its type, the app in which the tool runs that made it, when it began."""

    kind: str
    app_id: str
    begun: float


class Ledger(DifySide):
    """Dify, and what has reached it.

    Attributes:
        entries: every call, in order.
        most: how many there were at the same time, at most.
    """

    def __init__(self, models: ModelServer, storage: Storage | None = None, connections: Connections | None = None):
        super().__init__(models, storage, connections)
        self.entries: list[Entry] = []
        self.most = 0
        self._in_flight = 0
        self._counting = threading.Lock()

    def answer(self, call: ReverseCall) -> Replies:
        """As DifySide does."""
        with self._counting:
            self.entries.append(Entry(call.type, str(call.session.get("app_id")), time.perf_counter()))
            self._in_flight += 1
            self.most = max(self.most, self._in_flight)
        try:
            yield from super().answer(call)
        finally:
            with self._counting:
                self._in_flight -= 1


class Site:
    """A plugin process before a Dify of so many connections, with an app "bot" and a judge of that latency."""

    def __init__(self, plugin: PluginProcess, judge: ScriptedModelServer, connections: Connections) -> None:
        self.plugin, self.judge, self.connections = plugin, judge, connections
        self.dify = Ledger(ModelServer(judge.url), connections=connections)
        self.apps = Apps(connections=connections)
        self.apps.publish("bot", bot(judge, connections))
        self.dify.handlers["app"] = self.apps.answer
        plugin.dify = self.dify
        script(judge)

    def run(self, name: str, **changes: Any) -> ToolOutput:
        """A whole run of evaluate_app."""
        values = {"count": ROWS, "run_name": name, "depth": "standard", **changes}
        return invoke_app(self.plugin, parameters(**values), name)

    def chat(self, name: str) -> tuple[ToolOutput, float, float]:
        """One answer scored in a chat; when it was asked for, and when it was there."""
        chunks = [f"{tag(1)}の申請は1日前までです。（{n}）" for n in range(CHUNKS)]
        values = {
            "question": f"{tag(1)}では何日前までに申請しますか",
            "answer": bot_answer(1),
            "reference": f"{tag(1)}は1日前までです。",
            "contexts": items(*chunks),
            "model": MODEL,
        }
        begun = time.perf_counter()
        output = collect(self.plugin.invoke_tool("evaluate_answer", values, app_id=name, timeout=60))
        return output, begun, time.perf_counter()

    def together(self, runs: int, chats: int = 0, after: float = 0.0) -> "Together":
        """Runs at once, and chats that begin all together some seconds later."""
        with ThreadPoolExecutor(runs + chats) as pool:
            begun = time.perf_counter()
            running = [pool.submit(self.run, f"run {n}") for n in range(runs)]
            time.sleep(after)
            chatting = [pool.submit(self.chat, f"chat {n}") for n in range(chats)]
            answers = [one.result() for one in chatting]
            outputs = [one.result() for one in running]
        return Together(outputs, answers, time.perf_counter() - begun)

    def begun(self, who: str, since: float, until: float) -> list[Entry]:
        """The calls of models and apps that those whose names begin so have made within a time."""
        return [
            entry
            for entry in self.dify.entries
            if entry.app_id.startswith(who) and entry.kind != "storage" and since <= entry.begun <= until
        ]


@dataclass
class Together:
    """What came of runs and chats at the same time; seconds of all of it."""

    runs: Sequence[ToolOutput]
    chats: Sequence[tuple[ToolOutput, float, float]]
    seconds: float


def bot(judge: ScriptedModelServer, connections: Connections) -> PlayedApp:
    """A chatbot whose one model call holds a connection as well, and that shows the row's document."""
    models = NodeModels(judge.url, connections)

    def play(call: AppCall, envelope: Envelope) -> Iterator[Event]:
        yield {"event": "ping"}
        asked = {"model": "bot", "prompt_messages": [{"role": "user", "content": call.query}]}
        try:
            for chunk in models.chat(asked):
                yield envelope.message("message", chunk["delta"]["message"]["content"])
        except ModelError as error:
            yield {"event": "error", "code": "completion_request_error", "message": error.message, "status": 400}
            return
        row = int(call.query[2:4])
        source = {"document_name": f"{tag(row)}.md", "content": f"{tag(row)}の申請は{row}日前までです。"}
        yield envelope.message_end([source], USAGE)

    return PlayedApp("chat", play)


@contextmanager
def site(plugin: PluginProcess, connections: Connections, latency: float) -> Iterator[Site]:
    """The site with a judge of its own."""
    with ScriptedModelServer() as judge:
        judge.latency = latency
        yield Site(plugin, judge, connections)
