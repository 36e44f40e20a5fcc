from collections.abc import Iterator

import pytest

from devhost.daemon import PluginProcess
from devhost.dify_side import DifySide, ModelServer
from tests.apps.conftest import VARIANT
from tests.tools.conftest import PACKAGE
from tests.tools.support import ROOT


@pytest.fixture(scope="module")
def process() -> Iterator[PluginProcess]:
    """A process of a file's own: the limit is the process's, and one that was lowered stays so for a while."""
    with PluginProcess(ROOT, DifySide(ModelServer("http://127.0.0.1:9"))) as process:
        yield process


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PluginProcess]:
    """The same, whose calls may end after one second."""
    folder = tmp_path_factory.mktemp("load_variant")
    for name in PACKAGE:
        (folder / name).symlink_to(ROOT / name)
    (folder / "main.py").symlink_to(VARIANT / "main.py")
    with PluginProcess(folder, DifySide(ModelServer("http://127.0.0.1:9"))) as process:
        yield process
