"""evaluate_app over a table that is kept under a name."""

import pytest

from devhost.apps import Apps
from devhost.daemon import PluginProcess
from tests.apps.conftest import Evaluate
from tests.apps.support import progress, question, rows, table
from tests.tools.support import invoke

NAME = "申請の質問"


def keep(plugin: PluginProcess, count: int, **states: str) -> None:
    records = [{**row, "行の状態": states.get(f"q{n}", "")} for n, row in enumerate(rows(count), start=1)]
    parameters = {"action": "replace", "table_name": NAME, "golden": table(records)}
    assert invoke(plugin, "question_table", parameters).variables["saved"] is True


def test_a_kept_table_is_asked_and_the_result_names_it_with_its_version(
    evaluate: Evaluate, plugin: PluginProcess, apps: Apps
) -> None:
    keep(plugin, 2)
    keep(plugin, 3)
    output = evaluate(golden=None, table_name=NAME)
    assert progress(output) == ("scored", "", 3, 3)
    assert {call.query for call in apps.calls} == {question(n) for n in (1, 2, 3)}
    assert f"「{NAME}」第2版の質問" in output.text
    assert f"「{NAME}」第2版の質問" in output.variables["summary"]
    page = next(file for file in output.files if str(file.filename).endswith(".html"))
    assert f"「{NAME}」第2版" in page.blob.decode()
    details = output.variables["details"]["table"]
    assert (details["name"], details["version"], details["rows"]) == (NAME, 2, 3)


def test_drafts_are_asked_only_when_wanted_and_rows_that_are_off_never(
    evaluate: Evaluate, plugin: PluginProcess, apps: Apps
) -> None:
    keep(plugin, 3, q2="下書き", q3="使わない")
    without = evaluate(golden="", golden_file=[None], table_name=NAME)
    assert progress(without) == ("scored", "", 1, 1)
    assert "下書き1件は使っていません。「使わない」の1件は除きました" in without.text
    drafts = evaluate(golden=None, table_name=NAME, include_drafts=True, fresh=True)
    assert progress(drafts) == ("scored", "", 2, 2)
    assert "下書き1件を含みます" in drafts.text
    assert question(3) not in {call.query for call in apps.calls}


def test_a_pasted_table_goes_before_the_named_one_and_it_is_said(evaluate: Evaluate, plugin: PluginProcess) -> None:
    keep(plugin, 3)
    output = evaluate(1, table_name=NAME)
    assert progress(output) == ("scored", "", 1, 1)
    assert f"「{NAME}」ではなく、貼り付けた表を使います" in output.text


def test_the_first_rows_of_a_kept_table_are_taken_when_asked(evaluate: Evaluate, plugin: PluginProcess) -> None:
    keep(plugin, 3, q2="下書き")
    output = evaluate(golden=None, table_name=NAME, include_drafts=True, max_rows=1)
    assert progress(output) == ("scored", "", 1, 1)
    assert output.variables["details"]["table"]["drafts"] == 0


@pytest.mark.parametrize(
    ("states", "name", "reason"),
    [({}, "別の表", "table_not_found"), ({"q1": "下書き"}, NAME, "table_empty"), ({}, "", "no_table")],
)
def test_a_table_that_can_not_be_used_is_told_and_nothing_is_asked(
    states: dict[str, str], name: str, reason: str, evaluate: Evaluate, plugin: PluginProcess, apps: Apps
) -> None:
    keep(plugin, 1, **states)
    assert progress(evaluate(golden=None, table_name=name)) == ("failed", reason, 0, 0)
    assert apps.calls == []


def test_the_next_run_knows_which_version_the_last_one_asked(evaluate: Evaluate, plugin: PluginProcess) -> None:
    keep(plugin, 1)
    evaluate(golden=None, table_name=NAME)
    keep(plugin, 2)
    [past] = evaluate(golden=None, table_name=NAME).variables["details"]["past_runs"]
    assert (past["table_name"], past["table_version"]) == (NAME, 1)
