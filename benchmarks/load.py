"""Runs at once, and chats beside them, before a Dify that has 40 database connections.

    python -m benchmarks.load

The plugin runs as Dify starts it; the judge and the app's model take half a second. Without a limit of the whole
process three such runs took a real Dify 170 s and all of its connections, where one took 16 s.
"""

import statistics

from benchmarks.speed import ROOT, Row, show
from devhost.connections import OVERFLOW, SIZE, Connections
from devhost.daemon import PluginProcess
from devhost.dify_side import DifySide, ModelServer
from evaluation.judging.places import MOST_CALLS
from tests.apps.support import progress
from tests.load.support import ROWS, Site, Together, site
from tests.tools.support import outcome

RUNS = (1, 3, 6)
CHATS = 10
LATENCY = 0.5


def runs(site: Site, count: int) -> list[Row]:
    """So many runs at once."""
    together = site.together(count)
    _require_all(together)
    name = f"{count} run{'s at once' * (count > 1)} of {ROWS} rows"
    return [Row(name, together.seconds, " s"), *_held(site, name)]


def chats(site: Site) -> list[Row]:
    """Chats that are asked all at once while the most runs go on, and one alone for comparison."""
    _, begun, ended = site.chat("alone")
    alone = ended - begun
    together = site.together(max(RUNS), CHATS, after=3.0)
    _require_all(together)
    waits = [until - since for _, since, until in together.chats]
    first, last = min(since for _, since, _ in together.chats), max(until for _, _, until in together.chats)
    chat_calls, row_calls = (len(site.begun(who, first, last)) for who in ("chat", "run"))
    floor = chat_calls * LATENCY / (MOST_CALLS - 1)
    return [
        Row("one chat scored, alone", alone, " s"),
        Row(f"{CHATS} chats beside {max(RUNS)} runs, median", statistics.median(waits), " s"),
        Row(f"{CHATS} chats beside {max(RUNS)} runs, slowest", max(waits), " s"),
        Row(f"their {chat_calls} calls with no gap and no run", floor, " s"),
        Row("calls of the runs in that time", row_calls, most=chat_calls / 3),
        Row(f"{max(RUNS)} runs with the chats beside", together.seconds, " s"),
        *_held(site, "the same"),
    ]


def _held(site: Site, name: str) -> list[Row]:
    return [
        Row(f"{name}: calls at the same time", site.dify.most, most=MOST_CALLS),
        Row(f"{name}: connections at the same time", site.connections.most, most=SIZE + OVERFLOW - 1),
    ]


def _require_all(together: Together) -> None:
    for output in together.runs:
        if progress(output) != ("scored", "", ROWS, ROWS):
            raise SystemExit(f"a run was not scored: {output.variables['summary']}")
    for output, _, _ in together.chats:
        if outcome(output) != ("scored", ""):
            raise SystemExit(f"a chat was not scored: {output.variables['summary']}")


def measure() -> list[Row]:
    """All of it."""
    rows = []
    with PluginProcess(ROOT, DifySide(ModelServer("http://127.0.0.1:9"))) as plugin:
        for count in RUNS:
            with site(plugin, Connections(), LATENCY) as made:
                rows += runs(made, count)
        with site(plugin, Connections(), LATENCY) as made:
            rows += chats(made)
    return rows


if __name__ == "__main__":
    show(measure())
