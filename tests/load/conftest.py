from collections.abc import Iterator
from pathlib import Path

import pytest

from devhost.daemon import PluginProcess
from devhost.dify_side import DifySide, ModelServer
from tests.apps.conftest import variant_folder
from tests.tools.support import ROOT

__all__ = ["variant_folder"]


@pytest.fixture(scope="module")
def process() -> Iterator[PluginProcess]:
    """A process of a file's own: the limit is the process's, and one that was lowered stays so for a while."""
    with PluginProcess(ROOT, DifySide(ModelServer("http://127.0.0.1:9"))) as process:
        yield process


@pytest.fixture(scope="module")
def short(variant_folder: Path) -> Iterator[PluginProcess]:
    """The same, whose calls may end after one second."""
    with PluginProcess(variant_folder, DifySide(ModelServer("http://127.0.0.1:9"))) as process:
        yield process
