from pathlib import Path

import pytest

from devhost.daemon import PluginProcess
from devhost.dify_side import DifySide, ModelServer, Storage
from tests.conftest import PluginRuns
from tests.model_server import ScriptedModelServer

PROBE = Path(__file__).parent.parent / "probe_plugin"


@pytest.fixture
def probe(plugin_runs: PluginRuns, model_server: ScriptedModelServer, storage: Storage) -> PluginProcess:
    """The probe plugin, running, with this test's model server and storage behind it."""
    return plugin_runs.running(PROBE, DifySide(ModelServer(model_server.url), storage))
