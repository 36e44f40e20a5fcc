"""The end of the demo: a whole question table against the demo's chatflow, and the report on it."""

import copy
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from devhost.app_stream import Event
from devhost.apps import AppCall, Apps, FlowApp
from devhost.chatflow import Chatflow, selector
from devhost.daemon import PluginProcess, ToolOutput, collect
from devhost.demo.models import DemoModels
from devhost.demo.show import framed
from devhost.knowledge import KnowledgeBase

REPORT_FOLDER = "demo_report"
TABLE = Path(__file__).parents[1] / "template_texts" / "golden_ja.tsv"
BOT_NODES = ("start", "knowledge", "llm", "reply")
APP_ID = "demo-bot"
# The demo is to be over within five minutes: a slow machine shows a part of the table in the report rather than none.
DEMO_SECONDS = 290
LEAST_SECONDS, MOST_SECONDS = 40, 180


class Told:
    """An app that tells of every question that it is asked."""

    def __init__(self, app: FlowApp, questions: int, out: TextIO) -> None:
        self.mode = app.mode
        self._app = app
        self._questions = questions
        self._asked = 0
        self._out = out

    def events(self, call: AppCall) -> Iterator[Event]:
        """The app's own events."""
        self._asked += 1
        print(f"  {self._asked}/{self._questions} 質問中: {call.query}", file=self._out, flush=True)
        return self._app.events(call)


def unscored(dsl: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the chatflow with what makes the reply alone: what scores it is left out."""
    document = copy.deepcopy(dict(dsl))
    graph = document["workflow"]["graph"]
    graph["nodes"] = [node for node in graph["nodes"] if node["id"] in BOT_NODES]
    graph["edges"] = [edge for edge in graph["edges"] if edge["target"] in BOT_NODES]
    return document


def evaluate_table(
    dsl: Mapping[str, Any],
    plugin: PluginProcess,
    models: DemoModels,
    knowledge: KnowledgeBase,
    out: TextIO,
    seconds_used: float = 0.0,
) -> list[Path]:
    """Ask the chatflow the questions of the sample table, print the summary, write the reports.

    Args:
        seconds_used: by the demo so far; the table gets what is left.

    Returns:
        The files that were written, in a folder of the current one.
    """
    if models.slow:
        print("組み込みの判定モデルは遅いので、ここでは回答の2つの指標だけを採点します。", file=out, flush=True)
    golden = TABLE.read_text(encoding="utf-8")
    questions = len(golden.splitlines()) - 1
    flow = Chatflow(unscored(dsl), plugin, models.server, [knowledge], app_id=APP_ID)
    apps = Apps()
    apps.publish(APP_ID, Told(FlowApp(flow), questions, out))
    plugin.dify.handlers["app"] = apps.answer
    parameters = {
        "app": {"app_id": APP_ID, "files": [], "inputs": {}},
        "golden": golden,
        "run_name": "demo",
        "model": selector("llm", models.chat_model, models.parameters)["value"],
        "language": "ja",
        "metrics": "answer" if models.slow else "four",
        "depth": "economy",
        "concurrency": 1,
        "time_limit": min(MOST_SECONDS, max(LEAST_SECONDS, int(DEMO_SECONDS - seconds_used))),
    }
    if models.embedding_model:
        parameters["embedding_model"] = selector("text-embedding", models.embedding_model)["value"]
    started = time.monotonic()
    output = collect(plugin.invoke_tool("evaluate_app", parameters, app_id="demo-batch"))
    print(f"結果（{time.monotonic() - started:.0f} 秒）:\n{framed(output.text)}", file=out, flush=True)
    return write(output, Path(REPORT_FOLDER))


def write(output: ToolOutput, folder: Path) -> list[Path]:
    """Write a tool's files to a folder, which is made when it is missing."""
    paths = []
    for file in output.files:
        folder.mkdir(exist_ok=True)
        paths.append(folder / (file.filename or "report"))
        paths[-1].write_bytes(file.blob)
    return paths
