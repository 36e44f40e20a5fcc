from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from devhost.daemon import PluginProcess, ToolOutput
from devhost.dify_side import DifySide, ModelServer, Storage
from tests.model_server import ScriptedModelServer
from tests.tools.support import ROOT, invoke, sample, script

type Run = Callable[..., ToolOutput]
VARIANT = Path(__file__).parent / "variant"
PACKAGE = ("manifest.yaml", "_assets", "provider", "tools", "endpoints", "group", "bridge", "evaluation")


@pytest.fixture(autouse=True)
def judge(model_server: ScriptedModelServer) -> ScriptedModelServer:
    """The model server of this test, which answers every prompt sensibly until told otherwise."""
    script(model_server)
    return model_server


@pytest.fixture
def run(plugin: PluginProcess) -> Run:
    """Calls a tool with an ordinary sample in a language, changed as named, and checks its output's contract."""

    def call(tool: str, spoken: str = "ja", app_id: str | None = "app-1", **changes: Any) -> ToolOutput:
        return invoke(plugin, tool, sample(spoken, **changes), app_id)

    return call


@pytest.fixture(scope="session")
def variant_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PluginProcess]:
    folder = tmp_path_factory.mktemp("variant")
    for name in PACKAGE:
        (folder / name).symlink_to(ROOT / name)
    (folder / "main.py").symlink_to(VARIANT / "main.py")
    with ScriptedModelServer() as unused, PluginProcess(folder, DifySide(ModelServer(unused.url))) as process:
        yield process


@pytest.fixture
def variant(variant_process: PluginProcess, judge: ScriptedModelServer, storage: Storage) -> PluginProcess:
    """The plugin with little time and with faults in two of its metrics; see variant/main.py."""
    variant_process.dify = DifySide(ModelServer(judge.url), storage)
    variant_process.lines = None
    return variant_process
