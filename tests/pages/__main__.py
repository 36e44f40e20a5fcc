"""Serves the pages with sample runs: `make page`. Ends with Ctrl+C."""

import sys
import threading
from types import ModuleType

sys.modules.setdefault("dify_plugin._gevent", ModuleType("dify_plugin._gevent"))

from devhost.daemon import PluginProcess  # noqa: E402
from devhost.dify_side import DifySide, ModelServer, Storage  # noqa: E402
from devhost.web import EndpointServer  # noqa: E402
from tests.pages.samples import Direct, keep_runs, keep_table  # noqa: E402
from tests.tools.support import ROOT  # noqa: E402

KEY = "try-the-pages-here"


def main() -> None:
    storage = Storage()
    for language in ("ja", "en", "zh"):
        keep_runs(Direct(storage), language)
        keep_table(Direct(storage), language)
    dify = DifySide(ModelServer("http://127.0.0.1:9"), storage)
    with PluginProcess(ROOT, dify) as plugin, EndpointServer(plugin, {"access_key": KEY}, port=8900) as server:
        print(f"{server.url}\nキー / key: {KEY}")
        threading.Event().wait()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
