"""evaluate_app over whole question tables: speed against the judge's own, memory, statistics, a slow storage.

    python -m benchmarks.batch [--rows 500]

The plugin runs as Dify starts it. The app that is asked answers at once with five chunks of 800 characters, so that
what is measured is the evaluation; behind the plugin stands a scripted judge.
"""

import argparse
import math
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

from benchmarks.speed import ANSWERS, CHAT_SECONDS, EMBEDDING_SECONDS, ROOT, Row, show
from devhost.app_stream import Envelope, Event
from devhost.apps import USAGE, AppCall, Apps, PlayedApp
from devhost.daemon import PluginProcess, ToolOutput, collect
from devhost.dify_side import DifySide, ModelServer, Storage
from evaluation.judging.models import ModelIdentity
from evaluation.judging.places import MOST_CALLS
from evaluation.runs.records import RowRecord, RunSettings
from evaluation.runs.summary import build_report
from tests.model_server import ScriptedModelServer
from tests.tools.support import EMBEDDING, METRICS, MODEL, long_sample, script

# What a run alone gets of the process's places: one is kept for the storage and one for chats.
PARALLEL_CALLS = MOST_CALLS - 2
ROWS_AT_A_TIME = (4, 8, 16)
MANY_ROWS = 500
# What the runs over a slow storage have: as on a Dify whose database is busy.
SLOW_ROWS, STORAGE_SECONDS = 600, 0.02
SAMPLE = long_sample("ja")


class SlowStorage(Storage):
    """A storage that takes its time over each call, and counts them.

    Attributes:
        seconds: of one call.
        calls: when each was made.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0
        self.calls: list[float] = []

    def get(self, key: str) -> bytes:
        self._pass()
        return super().get(key)

    def set(self, key: str, value: bytes, *, limit: int | None = None) -> None:
        self._pass()
        super().set(key, value, limit=limit)

    def delete(self, key: str) -> int:
        self._pass()
        return super().delete(key)

    def exists(self, key: str) -> bool:
        self._pass()
        return super().exists(key)

    def _pass(self) -> None:
        self.calls.append(time.perf_counter())
        time.sleep(self.seconds)


class Batch:
    """A plugin process with an app, a judge and a storage behind it.

    Attributes:
        asked: when the app was asked each question.
    """

    def __init__(self, plugin: PluginProcess, judge: ScriptedModelServer, storage: SlowStorage) -> None:
        self.plugin, self.judge, self.storage = plugin, judge, storage
        self.asked: list[float] = []

    def run(self, rows: int, name: str, **changes: Any) -> tuple[ToolOutput, float]:
        """A finished run over so many rows, and its seconds."""
        lines = [f"{SAMPLE['question']}（{row}）\t{SAMPLE['reference']}" for row in range(1, rows + 1)]
        parameters = {
            "app": {"app_id": "app", "inputs": {}},
            "golden": "\n".join(["質問\t参照", *lines]),
            "model": MODEL,
            "embedding_model": EMBEDDING,
            "run_name": name,
            "time_limit": 480,
            **changes,
        }
        started = time.perf_counter()
        output = collect(self.plugin.invoke_tool("evaluate_app", parameters, app_id="evaluation"))
        seconds = time.perf_counter() - started
        if "time_limit" not in changes and (output.variables["status"], output.variables["done"]) != ("scored", rows):
            raise SystemExit(f"the run was not scored: {output.variables['summary']}")
        return output, seconds


@contextmanager
def batch() -> Iterator[Batch]:
    """A started plugin before an app whose every answer is another one."""

    def play(call: AppCall, envelope: Envelope) -> Iterator[Event]:
        running.asked.append(time.perf_counter())
        yield envelope.message("message", f"{SAMPLE['answer']}{call.query}")
        sources = [{"document_name": item["title"], "content": item["content"]} for item in SAMPLE["contexts"]]
        yield envelope.message_end(sources, USAGE)

    with ScriptedModelServer() as judge:
        script(judge)
        storage = SlowStorage()
        dify = DifySide(ModelServer(judge.url), storage)
        apps = Apps()
        apps.publish("app", PlayedApp("chat", play))
        dify.handlers["app"] = apps.answer
        with PluginProcess(ROOT, dify) as plugin:
            running = Batch(plugin, judge, storage)
            yield running


def twenty_rows(batch: Batch) -> list[Row]:
    """Twenty rows against what the calls take with no gap between them, as many at a time as a run may make."""
    # The first report of a process loads what reports need.
    batch.run(1, "first")
    batch.judge.latency, batch.judge.embedding_latency = CHAT_SECONDS, EMBEDDING_SECONDS
    rows = []
    for at_a_time in ROWS_AT_A_TIME:
        batch.judge.clear()
        _, seconds = batch.run(ANSWERS, f"{at_a_time} at a time", concurrency=at_a_time, fresh=True)
        rows.append(Row(f"{ANSWERS} rows, {at_a_time} at a time", seconds, " s"))
    calls = batch.judge.judge_calls
    judging = max(call.ended or 0.0 for call in calls) - min(call.started for call in calls)
    floor = len(calls) * CHAT_SECONDS / PARALLEL_CALLS
    in_rounds = math.ceil(len(calls) / PARALLEL_CALLS) * CHAT_SECONDS
    batch.judge.latency = batch.judge.embedding_latency = 0.0
    return [
        *rows,
        Row(
            f"the last of these / {floor:g} s ({len(calls)} calls x {CHAT_SECONDS:g} s / {PARALLEL_CALLS})",
            seconds / floor,
            " x",
            1.1,
        ),
        Row(
            f"its judging, first call to last / {in_rounds:g} s (as whole rounds of {PARALLEL_CALLS})",
            judging / in_rounds,
            " x",
            1.1,
        ),
        Row("its judge calls at the same time, at most", batch.judge.max_in_flight(), most=PARALLEL_CALLS),
    ]


def many_rows(batch: Batch, count: int) -> list[Row]:
    """One run over very many rows with a judge that answers at once, and the same again from the scores kept."""
    before = memory(batch, "before")
    output, seconds = batch.run(count, "many", depth="economy", concurrency=8)
    first = memory(batch, f"after {count} rows")
    _, again = batch.run(count, "many", depth="economy", concurrency=8)
    sizes = {str(file.filename).rpartition(".")[2]: len(file.blob) / 1e6 for file in output.files}
    return [
        before,
        Row(f"{count} rows, app and judge without latency", seconds, " s"),
        first,
        Row(f"{count} rows again, scores reused, compared", again, " s"),
        memory(batch, "after that"),
        *(Row(f"report of {count} rows as {ending}", size, " MB") for ending, size in sizes.items()),
    ]


def slow_storage(batch: Batch, count: int = SLOW_ROWS) -> list[Row]:
    """A storage of 20 ms a call: what it takes to begin a run, to go on with one that is nearly done, and to end it."""
    batch.storage.seconds = STORAGE_SECONDS
    changes = {"depth": "economy", "concurrency": 8}
    batch.run(count, "before", **changes)
    begun = _phases(batch, count, "now", compare_with="before", **changes)
    # A call that ends before its rows do, and the next one.
    output, _ = batch.run(count, "parts", **{**changes, "concurrency": 1, "time_limit": 30})
    done = output.variables["done"]
    gone_on = _phases(batch, count, "parts", **changes)
    batch.storage.seconds = 0.0
    name = f"{count} rows, storage at {STORAGE_SECONDS * 1000:g} ms a call"
    return [
        Row(f"{name}: until the first question", begun.beginning, " s", 2),
        Row("  its storage calls", begun.beginning_calls, most=60),
        Row(f"{name}: going on after {done} rows, until the first question", gone_on.beginning, " s", 4),
        Row("  its storage calls", gone_on.beginning_calls, most=done + 160),
        Row(f"{name}: from the last question to the last line", begun.ending, " s", 8),
        Row("  its storage calls", begun.ending_calls, most=80),
        Row(f"{name}: the whole run", begun.whole, " s"),
        Row("  its storage calls for each row", begun.calls / count, " calls", 6),
    ]


@dataclass(frozen=True)
class _Phases:
    """Seconds and storage calls of a run: until the first question, after the last one, of the whole."""

    beginning: float
    beginning_calls: int
    ending: float
    ending_calls: int
    whole: float
    calls: int


def _phases(batch: Batch, count: int, name: str, **changes: Any) -> _Phases:
    batch.asked.clear()
    batch.storage.calls.clear()
    started = time.perf_counter()
    _, seconds = batch.run(count, name, **changes)
    first, last = min(batch.asked), max(batch.asked)
    calls = list(batch.storage.calls)
    return _Phases(
        first - started,
        sum(call < first for call in calls),
        started + seconds - last,
        sum(call > last for call in calls),
        seconds,
        len(calls),
    )


def memory(batch: Batch, when: str) -> Row:
    return Row(f"memory, peak {when}", (batch.plugin.peak_memory_bytes() or 0) / 1e6, " MB", 256)


def statistics(count: int) -> list[Row]:
    """Statistics, intervals and comparison of so many rows and five metrics, as a report needs them."""
    metrics = (*METRICS, "answer_correctness")
    settings = RunSettings("app", ModelIdentity("", "judge"), ModelIdentity(), metrics, {"depth": "standard"}, 1, "ja")
    before, now = scored(count, metrics, 1), scored(count, metrics, 2)
    build_report("warm", 1, "", "app", settings, now[:2], before=before[:2])
    started = time.perf_counter()
    build_report("run", 2, "", "app", settings, now, before=before, compared_with="run #1")
    milliseconds = (time.perf_counter() - started) * 1000
    return [Row(f"statistics and comparison of {count} rows x {len(metrics)} metrics", milliseconds, " ms", 1000)]


def scored(count: int, metrics: tuple[str, ...], seed: int) -> list[RowRecord]:
    """Finished rows with made-up scores."""
    generator = random.Random(seed)
    values = {key: generator.random() for key in product(range(1, count + 1), metrics)}
    return [
        RowRecord(
            row,
            f"質問{row}",
            state="done",
            category=f"分類{row % 5}",
            metrics={name: {"score": values[row, name], "status": "scored"} for name in metrics},
        )
        for row in islice(range(1, count + 1), count)
    ]


def measure(count: int = MANY_ROWS) -> list[Row]:
    """All of it."""
    with batch() as running:
        return [*twenty_rows(running), *many_rows(running, count), *slow_storage(running), *statistics(count)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=MANY_ROWS)
    show(measure(parser.parse_args().rows))


if __name__ == "__main__":
    main()
