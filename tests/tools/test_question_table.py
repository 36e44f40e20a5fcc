"""Question tables kept by name, over the real process and its storage."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from threading import Thread
from typing import Any

import pytest

from devhost.daemon import PluginProcess, ToolOutput, collect
from devhost.dify_side import DifySide, ModelServer, ReverseCall, Storage
from devhost.files import HostedFiles
from tests.model_server import ScriptedModelServer
from tests.tools.conftest import Run
from tests.tools.support import QUESTION, invoke, outcome

type Tables = Callable[..., ToolOutput]

NAME = "経費の質問"
TABLE = "質問\t参照\t部署\n出張の日当はいくらですか\t2,000円です\t営業\n締め日はいつですか\t月末です\t\n"


@pytest.fixture
def tables(plugin: PluginProcess) -> Tables:
    """Calls question_table for a table and checks its output's contract."""

    def call(action: str = "show", **parameters: Any) -> ToolOutput:
        return invoke(plugin, "question_table", {"action": action, "table_name": NAME, **parameters})

    return call


def rows(output: ToolOutput) -> list[dict[str, str]]:
    value: list[dict[str, str]] = json.loads(output.variables["table"] or "[]")
    return value


def version(output: ToolOutput) -> tuple[bool, int | None, int]:
    return output.variables["saved"], output.variables["version"], output.variables["rows"]


def test_a_table_is_saved_shown_and_listed(tables: Tables) -> None:
    saved = tables("replace", golden=TABLE)
    assert outcome(saved) == ("scored", "")
    assert version(saved) == (True, 1, 2)
    assert (
        saved.variables["summary"] == f"「{NAME}」を第1版として保存しました（2行：確認済み2件、下書き0件、使わない0件）"
    )
    shown = tables()
    assert version(shown) == (False, 1, 2)
    assert rows(shown)[0] | {"行ID": ""} == {
        "質問": "出張の日当はいくらですか",
        "参照": "2,000円です",
        "部署": "営業",
        "行の状態": "確認済み",
        "行ID": "",
    }
    assert "- 出張の日当はいくらですか → 2,000円です" in shown.text
    listed = tables("list")
    [entry] = listed.variables["details"]["tables"]
    assert (entry["name"], entry["version"], entry["rows"], entry["confirmed"]) == (NAME, 1, 2, 2)
    assert f"「{NAME}」：第1版" in listed.text


def test_who_saved_a_version_is_kept(plugin: PluginProcess, tables: Tables) -> None:
    saved = {"action": "replace", "table_name": NAME, "golden": TABLE}
    collect(plugin.invoke_tool("question_table", saved, user_id="user-7"))
    assert tables().variables["details"]["versions"][0]["by"] == "user-7"


def test_what_was_shown_can_be_changed_and_saved_again_and_rows_keep_their_ids(tables: Tables) -> None:
    before = rows(tables("replace", golden=TABLE))
    changed = tables().variables["table"].replace("月末です", "毎月末日です").replace("確認済み", "下書き", 1)
    after = rows(tables("replace", golden=changed))
    assert [row["行ID"] for row in after] == [row["行ID"] for row in before]
    assert [(row["参照"], row["行の状態"]) for row in after] == [
        ("2,000円です", "下書き"),
        ("毎月末日です", "確認済み"),
    ]
    assert version(tables("replace", golden=changed)) == (False, 2, 2)


def test_rows_are_added_and_those_that_were_there_are_said(tables: Tables) -> None:
    tables("replace", golden=TABLE)
    more = "質問\t参照\t部署\n締め日は いつですか？\t月末です。\t\n"
    more += "出張の日当はいくらですか\t3,000円です\t営業\n新しい質問\t答え\t\n"
    added = tables("append", golden=more)
    assert version(added) == (True, 2, 4)
    assert added.variables["details"]["added"] == 2
    assert added.variables["details"]["already_there"] == ["締め日は いつですか？"]
    assert added.variables["details"]["other_reference"] == ["出張の日当はいくらですか"]
    assert "すでに表にあるため追加しなかった質問1件：「締め日は いつですか？」" in added.text
    assert "先にある行を使います" in added.variables["summary"]


def test_files_are_saved_with_the_pasted_rows(tables: Tables) -> None:
    with HostedFiles() as files:
        file = files.add("q.csv", "質問,参照\nVPNの申請先は,情報システム部です\n".encode("cp932")).to_plugin_parameter()
        assert version(tables("replace", golden=TABLE, golden_file=[file])) == (True, 1, 3)


def test_states_choose_the_rows_that_are_shown(tables: Tables) -> None:
    tables("replace", golden="質問\t参照\t行の状態\nQ1\tA1\t下書き\nQ2\tA2\t使わない\nQ3\tA3\t\n")
    assert {
        state: [row["質問"] for row in rows(tables(state=state))] for state in ("draft", "off", "confirmed", "all")
    } == {
        "draft": ["Q1"],
        "off": ["Q2"],
        "confirmed": ["Q3"],
        "all": ["Q1", "Q2", "Q3"],
    }
    tables("replace", golden=TABLE)
    none = tables(state="off")
    assert (none.variables["table"], none.variables["rows"]) == ("", 0)
    assert "この状態の行はありません" in none.text


def test_an_earlier_version_is_shown_and_brought_back(tables: Tables) -> None:
    tables("replace", golden=TABLE)
    tables("replace", golden="質問\t参照\n一つだけ\tの行\n")
    earlier = tables(version=1)
    assert version(earlier) == (False, 1, 2)
    assert "最新は第2版" in earlier.text
    assert version(tables("restore", version=1)) == (True, 3, 2)
    # Without a number the one before the newest, which takes the last save back.
    assert version(tables("restore")) == (True, 4, 1)
    assert outcome(tables("restore", version=9)) == ("failed", "table_version_not_found")


def test_a_save_on_an_old_version_saves_nothing_and_shows_both_sides(tables: Tables) -> None:
    tables("replace", golden=TABLE)
    mine = tables().variables["table"].replace("月末です", "20日です")
    tables("replace", golden=tables().variables["table"].replace("月末です", "25日です"), version=1)
    refused = tables("replace", golden=mine, version=1)
    assert outcome(refused) == ("failed", "table_conflict")
    assert (version(refused), "25日です" in refused.variables["table"]) == ((False, 2, 2), True)
    [pair] = refused.variables["details"]["differences"]
    assert (pair["yours"]["参照"], pair["saved"]["参照"]) == ("20日です", "25日です")
    assert [row["参照"] for row in refused.variables["details"]["yours"]] == ["2,000円です", "20日です"]
    assert "- 自分の編集：締め日はいつですか → 20日です" in refused.text
    assert "- 保存済み：締め日はいつですか → 25日です" in refused.text
    assert version(tables("replace", golden=mine, version=2)) == (True, 3, 2)


def test_two_additions_at_the_same_moment_are_both_there(tables: Tables) -> None:
    tables("replace", golden=TABLE)
    outputs: list[ToolOutput] = []
    threads = [
        Thread(target=lambda n=n: outputs.append(tables("append", golden=f"質問\t参照\n同時の質問{n}\t答え{n}\n")))
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    saved = [output for output in outputs if outcome(output) == ("scored", "")]
    assert {outcome(output) for output in outputs} <= {("scored", ""), ("failed", "table_busy")}
    assert len(saved) > 1
    assert sorted(output.variables["version"] for output in saved) == list(range(2, len(saved) + 2))
    assert tables().variables["rows"] == 2 + len(saved)


def test_two_thousand_rows_are_kept_and_shown(tables: Tables) -> None:
    many = "質問\t参照\n" + "".join(f"質問{n}の申請はどこにしますか\t{n}番の窓口です\n" for n in range(2000))
    assert version(tables("replace", golden=many)) == (True, 1, 2000)
    assert version(tables("append", golden="質問\t参照\n最後の質問\t答え\n")) == (True, 2, 2001)
    shown = tables()
    assert rows(shown)[-1]["質問"] == "最後の質問"
    assert "ほか1981行" in shown.text


def test_a_table_that_is_longer_than_an_output_is_cut_and_it_is_said(tables: Tables) -> None:
    tables("replace", golden="質問\t参照\n" + "".join(f"質問{n}\t{'長い答え' * 1000}\n" for n in range(200)))
    shown = tables()
    assert 0 < shown.variables["rows"] < 200
    assert f"終わりの{200 - shown.variables['rows']}行を省いています" in shown.variables["summary"]


@pytest.mark.parametrize(
    ("action", "parameters", "reason"),
    [
        ("show", {}, "table_not_found"),
        ("show", {"table_name": " "}, "no_table_name"),
        ("show", {"table_name": "llm.text"}, "variable_not_connected"),
        ("replace", {"table_name": None, "golden": TABLE}, "no_table_name"),
        ("replace", {"table_name": "名" * 101, "golden": TABLE}, "input_too_long"),
        ("replace", {}, "no_table"),
        ("replace", {"golden": "", "golden_file": [None]}, "no_table"),
        ("append", {"golden": "文章です"}, "table_unreadable"),
        ("replace", {"golden": TABLE, "version": 7}, "table_not_found"),
        ("replace", {"golden": f"質問\t参照\nQ\t{'あ' * 100_001}"}, "input_too_long"),
        ("replace", {"golden": "質問\t参照\n" + "Q\tA\n" * 5001}, "table_too_large"),
        ("restore", {}, "table_not_found"),
        ("show", {"version": "二"}, "invalid_setting"),
        ("show", {"version": 1.5}, "invalid_setting"),
        ("show", {"version": 0}, "invalid_setting"),
        ("erase", {}, "invalid_setting"),
        ("show", {"state": ["draft"]}, "table_not_found"),
    ],
)
def test_what_can_not_be_done_is_told(action: str, parameters: dict[str, Any], reason: str, tables: Tables) -> None:
    output = tables(action, **parameters)
    assert outcome(output) == ("failed", reason)
    assert output.variables["saved"] is False
    assert "None" not in output.text


def test_without_any_table_the_list_says_how_to_make_one(tables: Tables) -> None:
    listed = tables("list", table_name=None, language="ja")
    assert outcome(listed) == ("scored", "")
    assert "保存した表はまだありません" in listed.text


HOSTILE = "<img src=x onerror=alert(1)>|[x](javascript:1)\u202e`*_"


def test_hostile_texts_are_kept_as_they_are_and_shown_harmless(tables: Tables) -> None:
    table = json.dumps([{"質問": HOSTILE, "参照": "</details>\n# 見出し", "=cmd()": "${7*7}"}], ensure_ascii=False)
    tables("replace", table_name=HOSTILE, golden=table)
    shown = tables(table_name=HOSTILE)
    assert rows(shown)[0]["質問"] == HOSTILE
    assert shown.variables["table_name"] == HOSTILE
    assert not re.search(r"<img|</details>|\]\(|^#", shown.text, re.MULTILINE)
    assert not re.search(r"<img|</details>|\]\(", tables("list").text)


@pytest.mark.parametrize("language", ["ja", "en", "zh"])
def test_everything_is_said_in_the_language_that_is_set(language: str, tables: Tables) -> None:
    words = {"ja": "保存しました", "en": "Saved “", "zh": "已将"}
    assert words[language] in tables("replace", golden=TABLE, language=language).text
    labels = {"ja": "行の状態", "en": "Row state", "zh": "行状态"}
    assert labels[language] in rows(tables(language=language))[0]


def test_a_storage_without_room_keeps_the_table_as_it_was(
    tables: Tables, plugin: PluginProcess, judge: ScriptedModelServer, storage: Storage
) -> None:
    tables("replace", golden=TABLE)
    dify = DifySide(ModelServer(judge.url), storage)
    answer = dify.handlers["storage"]

    def small(call: ReverseCall) -> Any:
        return answer(replace(call, permission={"storage": {"enabled": True, "size": 2500}}))

    dify.handlers["storage"] = small
    plugin.dify = dify
    many = "質問\t参照\n" + "".join(f"質問{n * 7919}\t{n * 104_729}\n" for n in range(900))
    assert outcome(tables("replace", golden=many)) == ("failed", "storage_full")
    dify.handlers["storage"] = answer
    assert version(tables()) == (False, 1, 2)


# --- where a kept table is used ---


def test_a_reference_is_found_in_a_kept_table(tables: Tables, run: Run) -> None:
    tables("replace", golden=f"質問\t参照\n{QUESTION}\t10日\n")
    found = run("reference_lookup", table_name="経費の質問 ", golden="")
    assert (outcome(found), found.variables["reference"]) == (("scored", ""), "10日")
    assert found.variables["details"]["table"]["name"] == NAME
    assert found.variables["details"]["table"]["version"] == 1


def test_a_pasted_table_goes_before_the_named_one_and_it_is_said(tables: Tables, run: Run) -> None:
    tables("replace", golden=f"質問\t参照\n{QUESTION}\t10日\n")
    found = run("reference_lookup", table_name=NAME, golden=f"質問\t参照\n{QUESTION}\t12日\n")
    assert found.variables["reference"] == "12日"
    assert f"「{NAME}」ではなく、貼り付けた表を使います" in found.text
    assert outcome(run("reference_lookup", golden=None, table_name=None)) == ("failed", "no_table")
    assert outcome(run("reference_lookup", golden=None, table_name="別の表")) == ("failed", "table_not_found")


def test_drafts_are_used_only_when_asked_for_and_rows_that_are_off_never(tables: Tables, run: Run) -> None:
    tables("replace", golden=f"質問\t参照\t行の状態\n{QUESTION}\t10日\t下書き\n他の質問\t答え\t\n")
    without = run("reference_lookup", table_name=NAME)
    assert (outcome(without), without.variables["reference"]) == (("not_applicable", "not_found"), "")
    assert "下書き1件は使っていません" in without.text
    drafts = run("reference_lookup", table_name=NAME, include_drafts=True)
    assert drafts.variables["reference"] == "10日"
    assert "まだ確認していない下書き" in drafts.text
    tables("replace", golden=f"質問\t参照\t行の状態\n{QUESTION}\t10日\t使わない\n")
    off = run("reference_lookup", table_name=NAME, include_drafts=True)
    assert outcome(off) == ("failed", "table_empty")
    assert "使わない1件" in off.text
