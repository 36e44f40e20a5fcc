"""An app to evaluate behind the running plugin, and calls of evaluate_app whose output's contract is checked."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from devhost.apps import Apps, FlowApp
from devhost.chatflow import Chatflow
from devhost.daemon import PluginProcess, ToolOutput
from devhost.dify_side import DifySide, ModelServer, Storage
from devhost.files import HostedFiles
from devhost.knowledge import KnowledgeBase
from tests.apps.support import Document, chatflow, documents, invoke_app, parameters, script
from tests.conftest import PluginRuns
from tests.model_server import ScriptedModelServer
from tests.tools.conftest import PACKAGE
from tests.tools.support import ROOT

type Evaluate = Callable[..., ToolOutput]
type Publish = Callable[..., None]
VARIANT = Path(__file__).parent / "variant"
ROWS = 20


@pytest.fixture
def judge(model_server: ScriptedModelServer) -> ScriptedModelServer:
    """The model server of this test, for the bot and the judge."""
    script(model_server)
    return model_server


@pytest.fixture
def knowledge(tmp_path: Path) -> KnowledgeBase:
    folder = tmp_path / "knowledge"
    folder.mkdir()
    return documents(folder, ROWS)


@pytest.fixture
def apps(plugin: PluginProcess, judge: ScriptedModelServer, knowledge: KnowledgeBase) -> Apps:
    """The workspace's apps; "bot" is a chatflow without scores."""
    workspace = Apps()
    plugin.dify.handlers["app"] = workspace.answer
    workspace.publish("bot", flow_app(chatflow(knowledge), plugin, judge, knowledge))
    return workspace


@pytest.fixture
def publish(apps: Apps, plugin: PluginProcess, judge: ScriptedModelServer, knowledge: KnowledgeBase) -> Publish:
    """Puts a flow in the place of the bot."""

    def call(document: Document, app_id: str = "bot") -> None:
        apps.publish(app_id, flow_app(document, plugin, judge, knowledge, app_id))

    return call


@pytest.fixture
def evaluate(plugin: PluginProcess, apps: Apps) -> Evaluate:  # noqa: ARG001 - the apps must be there
    """Calls evaluate_app over some rows; further arguments are parameters, None leaves one out."""

    def call(count: int = 3, **changes: Any) -> ToolOutput:
        return invoke_app(plugin, parameters(count, **changes))

    return call


@pytest.fixture
def files() -> Iterator[HostedFiles]:
    with HostedFiles() as hosted:
        yield hosted


@pytest.fixture(scope="session")
def variant_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plugin with other limits of time; see variant/main.py."""
    folder = tmp_path_factory.mktemp("apps_variant")
    for name in PACKAGE:
        (folder / name).symlink_to(ROOT / name)
    (folder / "main.py").symlink_to(VARIANT / "main.py")
    return folder


@pytest.fixture
def hasty(
    plugin_runs: PluginRuns, variant_folder: Path, judge: ScriptedModelServer, storage: Storage, apps: Apps
) -> PluginProcess:
    """The running plugin with other limits of time, before the same apps; a test may kill it."""
    dify = DifySide(ModelServer(judge.url), storage)
    dify.handlers["app"] = apps.answer
    return plugin_runs.running(variant_folder, dify)


def flow_app(
    document: Document,
    plugin: PluginProcess,
    judge: ScriptedModelServer,
    knowledge: KnowledgeBase,
    app_id: str = "bot",
) -> FlowApp:
    return FlowApp(Chatflow(document, plugin, ModelServer(judge.url), [knowledge], app_id=app_id))
