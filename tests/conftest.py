"""Fixtures shared by all tests: a scripted model server and the running plugin."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

# Importing dify_plugin patches threads, sockets and pipes of the whole process for gevent. In the plugin's own process
# that is as it should be; in the tests' process it would take the model server's threads away.
sys.modules.setdefault("dify_plugin._gevent", ModuleType("dify_plugin._gevent"))

from devhost.daemon import PluginProcess  # noqa: E402
from devhost.dify_side import DifySide, ModelServer, Storage  # noqa: E402
from tests.model_server import ScriptedModelServer  # noqa: E402

ROOT = Path(__file__).parent.parent


@pytest.fixture
def model_server() -> Iterator[ScriptedModelServer]:
    """A model server of this test alone."""
    with ScriptedModelServer() as server:
        yield server


@pytest.fixture
def storage() -> Storage:
    """The plugin's storage in this test, empty at first."""
    return Storage()


@pytest.fixture(scope="session")
def plugin_runs() -> Iterator["PluginRuns"]:
    """Keeps one process per plugin folder for all tests; not for tests themselves."""
    runs = PluginRuns()
    yield runs
    runs.close()


@pytest.fixture
def plugin(plugin_runs: "PluginRuns", model_server: ScriptedModelServer, storage: Storage) -> PluginProcess:
    """This repository's plugin, running, with this test's model server and storage behind it."""
    return plugin_runs.running(ROOT, DifySide(ModelServer(model_server.url), storage))


class PluginRuns:
    """Plugin processes by folder: started at the first use, and again after one has ended."""

    def __init__(self) -> None:
        self._processes: dict[Path, PluginProcess] = {}

    def running(self, folder: Path, dify: DifySide) -> PluginProcess:
        """Return the process of a folder with a new Dify side; calls of earlier tests keep their own."""
        process = self._processes.get(folder)
        if process is None or not process.alive:
            if process is not None:
                process.close()
            process = PluginProcess(folder, dify)
            process.start()
            self._processes[folder] = process
        process.dify = dify
        process.lines = None
        return process

    def close(self) -> None:
        for process in self._processes.values():
            process.close()
