"""The core needs nothing of Dify: it is imported, and used, in a process that can't import dify_plugin."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
BLOCK = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"dify_plugin", "bridge", "tools", "devhost", "tests"}:
            raise ImportError(f"{name} must not be imported by the core")

sys.meta_path.insert(0, Blocked())
"""
IMPORT_ALL = """
import importlib, pkgutil, evaluation
names = [module.name for module in pkgutil.walk_packages(evaluation.__path__, "evaluation.")]
for name in names:
    importlib.import_module(name)
print(len(names), not any(name.split(".")[0] == "dify_plugin" for name in sys.modules))
"""
USE = """
from evaluation.judging.models import Charge
from evaluation.judging.session import JudgeSession
from evaluation.metrics import evaluate_metric
from evaluation.sample import Sample, read_contexts

class Judge:
    name = "fixed"
    def complete(self, system, user):
        return '{"statements": ["a"], "verdicts": [{"id": 1, "verdict": 1}]}', Charge()

sample = Sample("q", "a", "", read_contexts(["a"]))
print(evaluate_metric("faithfulness", JudgeSession(Judge(), None, "ja"), sample, {}).score)
"""


def run(code: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", BLOCK + code], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_every_module_of_the_core_is_imported_without_dify() -> None:
    modules = list((ROOT / "evaluation").rglob("*.py"))
    assert run(IMPORT_ALL) == f"{len(modules) - 1} True"


def test_metric_runs_without_dify() -> None:
    assert run(USE) == "1.0"


def test_block_works() -> None:
    result = subprocess.run(
        [sys.executable, "-c", BLOCK + "import dify_plugin"], capture_output=True, text=True, check=False, timeout=60
    )
    assert "must not be imported" in result.stderr
