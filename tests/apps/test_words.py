"""What people read of a run, over the process: causes, names, languages."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devhost.app_stream import Event
from devhost.apps import AppCall, Apps, PlayedApp
from devhost.daemon import PluginProcess, ToolOutput, collect
from tests.apps.conftest import Evaluate
from tests.apps.support import invoke_app, parameters, progress, rows, table
from tests.model_server import HttpError, ScriptedModelServer
from tests.tools.support import MODEL

CASE = Path(__file__).parents[1] / "data" / "reports" / "20_all_rows_failed"
LABEL = "社内ヘルプデスク *本番*"


def of_case(name: str) -> Any:
    return json.loads((CASE / f"{name}.json").read_text(encoding="utf-8"))


def played(name: str) -> PlayedApp:
    events: list[Event] = of_case(name)

    def play(_: AppCall, __: object) -> Iterator[Event]:
        yield from events

    return PlayedApp("agent-chat", play)


def page_of(output: ToolOutput) -> str:
    return output.files[0].blob.decode()


@pytest.mark.parametrize(
    ("name", "reason", "said"),
    [
        ("empty", "app_empty_answer", "アプリの回答が空でした（5件）"),
        ("error", "app_failed", "アプリがエラーになりました（API key invalid）（5件）"),
    ],
)
@pytest.mark.parametrize("threshold", [None, 0.8])
def test_when_the_app_fails_at_every_row_everything_names_the_cause(
    name: str, reason: str, said: str, threshold: float | None, evaluate: Evaluate, apps: Apps
) -> None:
    apps.publish("bot", played(name))
    output = evaluate(golden=(CASE / "table.tsv").read_text(encoding="utf-8"), threshold=threshold)
    assert progress(output) == ("failed", reason, 5, 5)
    assert output.variables["passed"] is None
    for text in (output.text, output.variables["summary"], page_of(output)):
        assert said in text
        for wrong in (of_case("expected")["not"], "質問を増やす", "合格です"):
            assert wrong not in text


def test_a_judge_without_balance_is_told_with_what_to_do_before_going_on(
    evaluate: Evaluate, judge: ScriptedModelServer
) -> None:
    judge.on_chat("答え1です。")
    refusal = of_case("judge")
    for prompt in ("faithfulness.statements", "relevancy.questions", "retrieval.economy"):
        judge.on(prompt, HttpError(refusal["status"], refusal["body"]))
    output = evaluate(golden=(CASE / "table.tsv").read_text(encoding="utf-8"))
    assert output.variables["reason"] == "quota_exhausted"
    for text in (output.text, output.variables["summary"]):
        assert "残高" in text
        assert "原因を解消してからもう一度実行すると" in text


def test_an_app_is_named_by_its_label_and_its_id_stands_where_the_run_is_described(evaluate: Evaluate) -> None:
    output = evaluate(2, app_label=LABEL)
    assert output.variables["summary"].startswith(f"{LABEL}（毎週の確認 #1）：")
    page = page_of(output)
    assert re.search(rf"<h1><bdi>{re.escape(LABEL)}</bdi></h1>", page)
    assert "毎週の確認 #1" in page
    # Its row in the list of how the run was made.
    assert page.count(">bot<") == 1
    assert LABEL not in output.text
    assert "社内ヘルプデスク &#42;本番&#42;（毎週の確認 #1）" in output.text


@pytest.mark.parametrize(
    ("changes", "heading"),
    [
        ({"app_label": None}, "毎週の確認"),
        ({"app_label": LABEL, "run_name": None}, LABEL),
        ({"app_label": None, "run_name": None}, "評価したアプリ"),
    ],
)
def test_without_a_label_the_run_gives_its_name_and_never_the_id(
    changes: dict[str, Any], heading: str, evaluate: Evaluate
) -> None:
    output = evaluate(1, **changes)
    assert f"<h1><bdi>{heading}</bdi>" in page_of(output)
    assert output.variables["summary"].startswith(f"{heading} #1：")


def test_the_first_run_says_so_and_the_second_compares(evaluate: Evaluate) -> None:
    assert "初回の実行です" in evaluate(2).text
    second = evaluate(2, fresh=True).text
    assert "初回の実行です" not in second
    assert "「毎週の確認 #1」と" in second


def test_a_comparison_with_another_apps_run_says_so_first(evaluate: Evaluate, apps: Apps) -> None:
    evaluate(2)
    apps.publish("other", played("empty"))
    output = evaluate(2, app={"app_id": "other", "inputs": {}}, run_name="別", compare_with="毎週の確認")
    assert "「毎週の確認 #1」は、別のアプリを評価した実行です" in page_of(output)


# --- what no text tells the language of ---


def choose(plugin: PluginProcess, language: str, **changes: Any) -> None:
    given = {"model": MODEL, "language": language, **changes}
    collect(plugin.invoke_tool("judge_settings", given, app_id="evaluation", timeout=60))


@pytest.mark.parametrize(
    ("language", "said"),
    [
        ("ja", "質問の表がありません。実行画面でファイルを渡すか、表を貼り付けてください"),
        ("en", "there is no table of questions"),
        ("zh", "没有问题表"),
        ("auto", "there is no table of questions"),
    ],
)
def test_without_a_table_the_apps_language_is_spoken(
    language: str, said: str, plugin: PluginProcess, evaluate: Evaluate
) -> None:
    choose(plugin, language)
    output = evaluate(golden=None)
    assert progress(output) == ("failed", "no_table", 0, 0)
    assert said in output.variables["summary"]


def test_the_languages_of_the_call_and_of_its_table_go_before(plugin: PluginProcess, evaluate: Evaluate) -> None:
    choose(plugin, "zh")
    assert "忠実性" in evaluate(1).text
    assert "Faithfulness" in evaluate(1, language="en").text
    choose(plugin, "en", workspace_default=True)
    assert "忠実性" in evaluate(1).text


def test_a_workspaces_language_stands_behind_the_apps(plugin: PluginProcess) -> None:
    choose(plugin, "ja", workspace_default=True)
    other = invoke_app(plugin, parameters(golden=None), app_id="yet another")
    assert "質問の表がありません" in other.variables["summary"]
    choose(plugin, "zh")
    own = invoke_app(plugin, parameters(golden=None))
    assert "没有问题表" in own.variables["summary"]


def test_rows_without_a_reference_say_where_to_write_it(evaluate: Evaluate) -> None:
    asked = [{"質問": row["質問"]} for row in rows(2)]
    output = evaluate(golden=table(asked), metrics="retrieval")
    for text in (output.text, page_of(output)):
        assert "参照（正解）がありません（質問の表に書き加えると採点します）" in text
        assert "参照の検索" not in text
