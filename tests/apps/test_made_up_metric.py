"""A metric is added by its module, words, prompts and tool, and is everywhere then; see made_up_metric/."""

import io
import shutil
from pathlib import Path

import pytest
import yaml
from openpyxl import load_workbook

from devhost.apps import Apps
from devhost.daemon import PluginProcess, collect
from devhost.dify_side import DifySide, ModelServer, Storage
from tests.apps.support import bot_answer, invoke_app, parameters
from tests.conftest import PluginRuns
from tests.model_server import ScriptedModelServer
from tests.tools.conftest import PACKAGE
from tests.tools.support import ROOT, sample

FILES = Path(__file__).parent / "made_up_metric"
CLASS = 'from bridge import metric\n\n\nclass Politeness(metric.MetricTool):\n    metric = "politeness"\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plugin with one metric more: nothing that is there is changed, but for the line that lists the new tool."""
    plugin = tmp_path_factory.mktemp("made_up")
    for name in (*PACKAGE, "main.py"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, plugin / name)
    shutil.copy(FILES / "politeness.py", plugin / "evaluation/metrics")
    shutil.copy(FILES / "politeness.toml", plugin / "evaluation/texts/metrics")
    for prompt in FILES.glob("*.md"):
        shutil.copy(prompt, plugin / "evaluation/judging/prompts")
    tool = yaml.safe_load((ROOT / "tools/faithfulness.yaml").read_text(encoding="utf-8"))
    tool["identity"]["name"] = "politeness"
    tool["extra"]["python"]["source"] = "tools/politeness.py"
    (plugin / "tools/politeness.yaml").write_text(yaml.safe_dump(tool, allow_unicode=True), encoding="utf-8")
    (plugin / "tools/politeness.py").write_text(CLASS, encoding="utf-8")
    provider = plugin / "provider/rag_evaluator.yaml"
    listed = yaml.safe_load(provider.read_text(encoding="utf-8"))
    listed["tools"].append("tools/politeness.yaml")
    provider.write_text(yaml.safe_dump(listed, allow_unicode=True), encoding="utf-8")
    return plugin


@pytest.fixture
def polite(
    folder: Path, plugin_runs: PluginRuns, judge: ScriptedModelServer, storage: Storage, apps: Apps
) -> PluginProcess:
    """The plugin with the metric, before a judge that finds every second statement impolite."""
    judge.on("faithfulness.statements", {"statements": ["10日です。", "知らないよ。"]})
    verdicts = [{"id": 1, "verdict": 1}, {"id": 2, "verdict": 0, "reason": "投げやり"}]
    judge.on("politeness.verdicts", {"verdicts": verdicts})
    dify = DifySide(ModelServer(judge.url), storage)
    dify.handlers["app"] = apps.answer
    return plugin_runs.running(folder, dify)


def test_its_tool_scores_and_says_what_it_found(polite: PluginProcess) -> None:
    output = collect(polite.invoke_tool("politeness", sample(threshold=0.7)))
    assert (output.variables["score"], output.variables["passed"]) == (0.5, False)
    assert "丁寧さ 0.50" in output.text
    assert "2文のうち1文が丁寧ではありません：「知らないよ。」" in output.text


def test_it_is_on_the_scorecard_with_its_threshold_and_its_list(polite: PluginProcess) -> None:
    changes = {"metrics": "faithfulness, politeness", "politeness_threshold": 0.9}
    output = collect(polite.invoke_tool("evaluate_answer", sample(**changes)))
    details = output.variables["details"]["metrics"]
    assert list(details) == ["faithfulness", "politeness"]
    assert (output.variables["politeness"], output.variables["passed"]) == (0.5, False)
    assert details["politeness"]["sentences"][1]["verdict"] == 0
    for words in ("丁寧さ", "回答の文", "「知らないよ。」→ 投げやり"):
        assert words in output.text
    refused = collect(polite.invoke_tool("evaluate_answer", sample(politeness_threshold="高い")))
    assert "丁寧さのしきい値" in refused.text


def test_it_belongs_to_the_presets_that_it_names(polite: PluginProcess) -> None:
    output = collect(polite.invoke_tool("evaluate_answer", sample(metrics="answer", answer=bot_answer(1))))
    assert set(output.variables["details"]["metrics"]) == {"faithfulness", "answer_relevancy", "politeness"}


def test_it_is_in_a_run_its_page_and_its_spreadsheet(polite: PluginProcess) -> None:
    output = invoke_app(polite, parameters(2, metrics="politeness", politeness_threshold=0.4))
    assert output.variables["scores"] == {"politeness": 0.5}
    assert output.variables["passed"] is True
    page, sheet = (file.blob for file in output.files)
    for words in ("丁寧さ", "丁寧に答えているか", "回答の文", "2文のうち1文が丁寧ではありません", "知らないよ。"):
        assert words in page.decode()
    cells = [cell for sheet in load_workbook(io.BytesIO(sheet)) for row in sheet.values for cell in row]
    for words in ("丁寧さ", "丁寧ではない文", "知らないよ。（投げやり）"):
        assert words in cells
