"""Speed, calls, prompt size, start and memory of the real plugin process, against the project's goals.

    python -m benchmarks.speed [--starts 5] [--rounds 3] [--strict]

The plugin runs as Dify starts it; behind it stands a scripted model server that takes 1.0 s for a chat and 0.1 s for
an embedding. One answer has five chunks of 800 characters. Figures of Ragas 0.4.3 on the same work, measured once
elsewhere, stand beside ours as anchors; they are not measured here.
"""

import argparse
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devhost.daemon import PluginProcess
from devhost.dify_side import DifySide, ModelServer
from evaluation.judging.places import MOST_CALLS
from tests.model_server import Request, Script, ScriptedModelServer
from tests.tools.support import METRICS, K, data_of, invoke, long_sample, outcome, script

ROOT = Path(__file__).parent.parent
EMPTY_PLUGIN = ROOT / "tests" / "probe_plugin"
CHAT_SECONDS, EMBEDDING_SECONDS = 1.0, 0.1
ANSWERS, PARALLEL_TOOLS = 20, 16
# Of the process's places one is kept for the storage.
CHAT_PLACES = MOST_CALLS - 1
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Row:
    """A line of the printed table.

    Attributes:
        most: the goal; None when there is none.
        anchor: Ragas 0.4.3 on the same work.
    """

    name: str
    value: float
    unit: str = ""
    most: float | None = None
    anchor: str = ""

    @property
    def missed(self) -> bool:
        return self.most is not None and self.value > self.most

    def cells(self) -> list[str]:
        goal = "" if self.most is None else f"at most {self.most:,g}{self.unit}"
        mark = "" if self.most is None else "MISSED" if self.missed else "ok"
        return [
            self.name,
            f"{self.value:,.4g}{self.unit}" if self.unit else f"{self.value:,.0f}",
            goal,
            mark,
            self.anchor,
        ]


class Bench:
    """A plugin process with a model server of known latency behind it."""

    def __init__(self, plugin: PluginProcess, server: ScriptedModelServer) -> None:
        self.plugin, self.server = plugin, server

    def call(self, tool: str, parameters: Mapping[str, Any]) -> None:
        """One tool call, which must score."""
        output = invoke(self.plugin, tool, parameters)
        if outcome(output) != ("scored", ""):
            raise SystemExit(f"{tool} was not scored: {output.variables['summary']}")

    def seconds(self, tools: Iterable[str], parameters: Mapping[str, Any], workers: int) -> float:
        """Seconds for the calls, with so many at the same time."""
        with ThreadPoolExecutor(workers) as pool:
            started = time.perf_counter()
            list(pool.map(lambda tool: self.call(tool, parameters), tools))
            return time.perf_counter() - started

    def used(self) -> tuple[int, int, int]:
        """Judge calls, prompt characters, and how many of those are the data to judge."""
        calls = self.server.judge_calls
        data = sum(len("".join(_texts(data_of(call)))) for call in calls)
        return len(calls), self.server.prompt_characters(), data


def _texts(value: object) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, Sequence):
        for item in value:
            yield from _texts(item)


@contextmanager
def bench() -> Any:
    """A started plugin; latencies as the goals name them."""
    with ScriptedModelServer() as server:
        script(server)
        server.latency, server.embedding_latency = CHAT_SECONDS, EMBEDDING_SECONDS
        with PluginProcess(ROOT, DifySide(ModelServer(server.url))) as plugin:
            yield Bench(plugin, server)


def one_answer(bench: Bench, rounds: int) -> list[Row]:
    """Four tools at once on one answer, against the same one after the other."""
    rows = []
    for depth, most_calls, most_characters in (("standard", 9, 22_000), ("economy", 5, 18_000)):
        parameters = long_sample("ja", depth=depth)
        taken = []
        for _ in range(rounds):
            bench.server.clear()
            taken.append(bench.seconds(METRICS, parameters, len(METRICS)))
        calls, characters, data = bench.used()
        name = f"one answer, {depth}"
        standard = depth == "standard"
        rows += [
            Row(f"{name}: median of {rounds}", statistics.median(taken), " s", 2.3, "5.6 to 5.9 s" if standard else ""),
            Row(f"{name}: judge calls", calls, most=most_calls, anchor="9 to 11" if standard else ""),
            Row(
                f"{name}: prompt characters ({data:,} of them data)",
                characters,
                most=most_characters,
                anchor="45,147 to 61,149" if standard else "",
            ),
        ]
    rows += one_node(bench, "standard", 9, 22_000) + one_node(bench, "economy", 4, 13_000)
    return rows


def one_node(bench: Bench, depth: str, most_calls: int, most_characters: int) -> list[Row]:
    """All four metrics in one evaluate_answer node."""
    bench.server.clear()
    seconds = bench.seconds(["evaluate_answer"], long_sample("ja", depth=depth), 1)
    calls, characters, data = bench.used()
    name = f"evaluate_answer, {depth}"
    return [
        Row(name, seconds, " s", 2.3),
        Row(f"{name}: judge calls", calls, most=most_calls),
        Row(f"{name}: prompt characters ({data:,} of them data)", characters, most=most_characters),
    ]


def overlap(bench: Bench) -> list[Row]:
    """How much the calls overlap: the same work at once and in a row, in one run."""
    parameters = long_sample("ja")
    row = bench.seconds(METRICS, parameters, 1)
    at_once = bench.seconds(METRICS, parameters, len(METRICS))
    precision = bench.seconds(["context_precision"], parameters, 1)
    return [
        Row("four tools one after the other", row, " s"),
        Row("four tools at once", at_once, " s"),
        Row("at once / one after the other", at_once / row, " x", 0.6),
        Row(f"context_precision, {K} calls of {CHAT_SECONDS:g} s", precision, " s", 1.5),
    ]


def twenty_answers(bench: Bench) -> list[Row]:
    """Twenty answers with 16 tool calls at a time and a provider that serves 16 chats at a time.

    The floor is what the calls take with no gap between them, as many at a time as the process makes.
    """
    server = bench.server
    places = threading.Semaphore(PARALLEL_TOOLS)
    saved, server.latency = server.latency, 0.0
    scripts = dict(server._scripts)
    for prompt, reply in scripts.items():
        server.on(prompt, _limited(places, reply))
    server.clear()
    try:
        taken = bench.seconds([tool for _ in range(ANSWERS) for tool in METRICS], long_sample("ja"), PARALLEL_TOOLS)
    finally:
        server.latency = saved
        for prompt, reply in scripts.items():
            server.on(prompt, reply)
    calls, _, _ = bench.used()
    floor = calls * CHAT_SECONDS / CHAT_PLACES
    return [
        Row(f"{ANSWERS} answers, {PARALLEL_TOOLS} tool calls at a time", taken, " s", anchor="18.3 s"),
        Row(f"floor: {calls} calls x {CHAT_SECONDS:g} s / {CHAT_PLACES}", floor, " s", anchor="11.3 s"),
        Row(f"{ANSWERS} answers / floor", taken / floor, " x", 1.1, "1.6 x"),
    ]


def _limited(places: threading.Semaphore, reply: Script) -> Callable[[Request], Any]:
    def answer(request: Request) -> Any:
        with places:
            time.sleep(CHAT_SECONDS)
        return reply(request) if callable(reply) else reply

    return answer


def starts(count: int) -> list[Row]:
    """Time and processor time until the plugin has declared itself; an empty plugin on the same SDK beside it."""
    ours, empty = zip(*((start(ROOT), start(EMPTY_PLUGIN)) for _ in range(count)), strict=True)
    return [
        Row(
            f"ready after the start, best of {count}",
            min(ready for ready, _ in ours),
            " s",
            1.5,
            "3.4 to 3.8 s, import alone",
        ),
        Row("ready after the start, median", statistics.median(ready for ready, _ in ours), " s"),
        Row("the same of an empty plugin, median", statistics.median(ready for ready, _ in empty), " s"),
        Row("processor time until ready, median", statistics.median(work for _, work in ours), " s"),
        Row("the same of an empty plugin, median", statistics.median(work for _, work in empty), " s"),
    ]


def start(folder: Path) -> tuple[float, float]:
    """Seconds until a plugin is ready, and the processor seconds that it took."""
    # Nothing is called, so no model server is needed.
    with PluginProcess(folder, DifySide(ModelServer("http://127.0.0.1:9"))) as plugin:
        return plugin.seconds_to_ready, processor_seconds(plugin.pid)


def processor_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory(bench: Bench, name: str, most: float | None = None, anchor: str = "") -> Row:
    """The process's largest resident size so far."""
    return Row(f"memory, peak {name}", (bench.plugin.peak_memory_bytes() or 0) / 1e6, " MB", most, anchor)


def show(rows: Iterable[Row]) -> None:
    """Prints the table, each column as wide as its widest cell."""
    table = [["", "measured", "goal", "", "Ragas 0.4.3"], *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    for line in table:
        first, *others = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        print("  ".join([first, *others]).rstrip())


def main() -> None:
    """Measures and prints; with --strict a missed goal is an error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--strict", action="store_true", help="exit with an error when a goal is missed")
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} processors, load {load:.1f} at the beginning (times mean little when it is high)\n")
    rows = starts(arguments.starts)
    with bench() as running:
        rows.append(memory(running, "when ready"))
        rows += one_answer(running, arguments.rounds)
        rows += overlap(running)
        rows.append(memory(running, "after single answers", 110, "235 MB"))
        rows += twenty_answers(running)
        rows.append(memory(running, f"after {PARALLEL_TOOLS} tool calls at a time", 110))
    show(rows)
    if arguments.strict and any(row.missed for row in rows):
        raise SystemExit("a goal is missed")


if __name__ == "__main__":
    main()
