"""The plugin's pages behind the served endpoint, with runs that evaluate_app made, and a browser without a screen."""

from collections.abc import Callable, Iterator

import pytest
import requests

from devhost.apps import Apps
from devhost.daemon import PluginProcess
from devhost.knowledge import KnowledgeBase
from devhost.web import EndpointServer
from tests.apps.conftest import apps, evaluate, judge, knowledge  # noqa: F401 - fixtures
from tests.apps.support import invoke_app, parameters
from tests.model_server import ScriptedModelServer

KEY, READER = "correct-horse-battery", "only-reading-please"
SETTINGS = {"access_key": KEY, "reader_key": READER, "language": "ja", "model": None, "embedding_model": None}

type Enter = Callable[..., "Browser"]


class Browser:
    """Keeps cookies and follows the pages' own links."""

    def __init__(self, server: EndpointServer) -> None:
        self.server = server
        self.session = requests.Session()

    def get(self, path: str = "", **options: object) -> requests.Response:
        return self.session.get(self.address(path), timeout=20, **options)  # type: ignore[arg-type]

    def post(self, path: str, data: dict[str, str] | None = None, **options: object) -> requests.Response:
        return self.session.post(self.address(path), data or {}, timeout=20, **options)  # type: ignore[arg-type]

    def address(self, path: str) -> str:
        if path.startswith("/e/"):
            return self.server.url.split("/e/")[0] + path
        return self.server.url + path


@pytest.fixture
def server(plugin: PluginProcess) -> Iterator[EndpointServer]:
    with EndpointServer(plugin, SETTINGS) as running:
        yield running


@pytest.fixture
def stranger(server: EndpointServer) -> Browser:
    return Browser(server)


@pytest.fixture
def enter(server: EndpointServer) -> Enter:
    """A browser that has entered, with the key for all or the one for reading."""

    def call(key: str = KEY) -> Browser:
        browser = Browser(server)
        answer = browser.post("enter", {"key": key, "after": "/"}, allow_redirects=False)
        assert answer.status_code == 303
        return browser

    return call


@pytest.fixture
def member(enter: Enter) -> Browser:
    return enter()


@pytest.fixture
def two_runs(plugin: PluginProcess, apps: Apps, judge: ScriptedModelServer, knowledge: KnowledgeBase) -> str:  # noqa: F811, ARG001
    """Two runs of a name, the second with half of its claims unsupported; the name."""
    invoke_app(plugin, parameters(4, threshold=0.8))
    judge.on("faithfulness.verdicts", {"verdicts": [{"id": 1, "reason": "資料では違います", "verdict": 0}]})
    invoke_app(plugin, parameters(4, threshold=0.8, fresh=True))
    return "毎週の確認"
