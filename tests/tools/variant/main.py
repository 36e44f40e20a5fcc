"""The plugin with 1.5 s for a tool call, a context_recall that exits and a context_precision that breaks."""

import dataclasses
import sys

from dify_plugin import DifyPluginEnv, Plugin

from evaluation import metrics
from evaluation.judging.session import JudgeSession

PLANTED = "planted-secret-4711"

defaults = JudgeSession.__init__.__kwdefaults__
assert defaults is not None
assert "budget" in defaults
defaults["budget"] = 1.5


def exits(*_: object, **__: object) -> None:
    sys.exit(1)


def breaks(*_: object, **__: object) -> None:
    raise RuntimeError(PLANTED)


assert isinstance(metrics.METRICS, dict)
for name, fault in (("context_recall", exits), ("context_precision", breaks)):
    metrics.METRICS[name] = dataclasses.replace(metrics.METRICS[name], evaluate=fault)

if __name__ == "__main__":
    Plugin(DifyPluginEnv(MAX_REQUEST_TIMEOUT=600)).run()
