"""Many runs and chats at once before a Dify with few database connections: all finish, and chats do not wait."""

from collections.abc import Iterator

import pytest

from devhost.connections import Connections
from devhost.daemon import PluginProcess, ToolOutput
from tests.apps.support import counts, progress
from tests.load.support import ROWS, Site, site
from tests.tools.support import outcome

pytestmark = pytest.mark.slow

MOST_CALLS = 12
LATENCY = 0.1
# Long enough that the plugin's own work between two calls of a chat leaves no place to the runs.
CHAT_LATENCY = 0.3


@pytest.fixture
def roomy(process: PluginProcess) -> Iterator[Site]:
    """A Dify with its own 30 + 10 connections."""
    with site(process, Connections(), LATENCY) as made:
        yield made


def finished(output: ToolOutput) -> None:
    assert progress(output) == ("scored", "", ROWS, ROWS), output.text[:300]
    assert output.variables["details"]["failed_rows"] == 0
    assert (counts(output)["scored"], counts(output)["failed"]) == (ROWS, 0)


@pytest.mark.parametrize("runs", [1, 3, 6])
def test_runs_at_once_all_finish_within_the_limit(runs: int, roomy: Site) -> None:
    together = roomy.together(runs)
    for output in together.runs:
        finished(output)
    assert MOST_CALLS - 3 <= roomy.dify.most <= MOST_CALLS
    # Far from the 40 that there are, although an app holds three of them.
    assert roomy.connections.failures == 0
    assert roomy.connections.most <= 30
    # Every question was asked once.
    assert len(roomy.apps.calls) == runs * ROWS


def test_chats_beside_six_runs_go_first(roomy: Site) -> None:
    roomy.judge.latency = CHAT_LATENCY
    together = roomy.together(6, chats=10, after=1.0)
    for output in together.runs:
        finished(output)
    for number, (output, since, until) in enumerate(together.chats):
        assert outcome(output) == ("scored", "")
        first = roomy.begun(f"chat {number}", since, until)[0].begun
        # It waits for other chats; of the places that become free meanwhile the runs keep one in all. Until its request
        # has reached the plugin, the runs may take what is free.
        assert len(roomy.begun("run", since, first)) <= MOST_CALLS + len(roomy.begun("chat", since, first)) / 4
    begun = min(since for _, since, _ in together.chats)
    ended = max(until for _, _, until in together.chats)
    chats, rows = roomy.begun("chat", begun, ended), roomy.begun("run", begun, ended)
    assert len(chats) == 10 * 10
    assert len(rows) < len(chats) / 3
    assert roomy.dify.most <= MOST_CALLS
    assert roomy.connections.failures == 0


def test_runs_finish_though_dify_fails_for_want_of_connections(process: PluginProcess) -> None:
    with site(process, Connections(4, 2, timeout=0.1), LATENCY) as small:
        together = small.together(3)
        for output in together.runs:
            finished(output)
        assert small.connections.failures > 0
