"""The pages of runs that evaluate_app made: over time, one run filtered, one row, two beside each other, as files."""

import csv
import io
import json
import re
from urllib.parse import quote

import pytest
from openpyxl import load_workbook

from devhost.apps import Apps
from devhost.daemon import PluginProcess
from devhost.dify_side import Storage
from tests.apps.support import bot_answer, invoke_app, parameters, question
from tests.model_server import ScriptedModelServer
from tests.pages.conftest import Browser

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)> {{ 7*7 }} \u202e"


def link(text: str, pattern: str) -> str:
    found = re.search(rf'href="({pattern})"', text)
    assert found, pattern
    return found[1].replace("&amp;", "&")


def test_no_runs_and_no_data_are_said(member: Browser) -> None:
    assert "まだ結果がありません" in member.get().text


def test_the_start_lists_names_with_their_newest_run(member: Browser, two_runs: str) -> None:
    text = member.get().text
    assert two_runs in text
    assert "#2" in text
    assert "不合格" in text
    assert "忠実性" in text


@pytest.fixture
def of_name(member: Browser, two_runs: str) -> str:
    """The page of the runs' name."""
    assert two_runs
    return member.get(link(member.get().text, r"/e/h0okid1234567890/runs/\w+")).text


def test_a_names_page_shows_each_metric_over_its_runs(of_name: str) -> None:
    assert of_name.count('<svg class="chart"') == 4
    assert of_name.count("<circle") == 8
    assert "しきい値 0.80" in of_name
    assert "#1" in of_name
    assert "#2 と比べる" not in of_name
    assert "#1 と比べる" in of_name


def test_a_run_is_filtered_by_what_stands_in_the_address(member: Browser, of_name: str) -> None:
    address = link(of_name, r"/e/h0okid1234567890/runs/\w+/2")
    whole = member.get(address).text
    assert all(question(n) in whole for n in range(1, 5))
    assert "資料にないことを答えた" in whole
    found = member.get(f"{address}?text={quote('R-03')}").text
    assert question(3) in found
    assert question(1) not in found
    assert "4件のうち1件" in found
    assert question(1) not in member.get(f"{address}?group=sound").text
    assert question(1) in member.get(f"{address}?metric=faithfulness").text
    assert question(1) not in member.get(f"{address}?metric=context_recall").text
    assert question(1) in member.get(f"{address}?metric=nonsense&group=&text=").text


def test_a_row_shows_its_answer_claims_and_chunks_now_and_before(member: Browser, of_name: str) -> None:
    address = link(of_name, r"/e/h0okid1234567890/runs/\w+/2")
    text = member.get(f"{address}/rows/2-1").text
    for part in (question(2), bot_answer(2), "資料では違います", "R-02の申請は2日前までです。", "前回 #1 は 1.00"):
        assert part in text
    assert member.get(f"{address}/rows/9-1").status_code == 400
    assert member.get(address.replace("/2", "/7")).status_code == 400


def test_two_runs_beside_each_other_begin_with_what_newly_fails(member: Browser, of_name: str) -> None:
    text = member.get(link(of_name, r"/e/h0okid1234567890/runs/\w+/2/against/1")).text
    newly = text.split("新しく問題が出た質問")[1].split("問題がなくなった質問")[0]
    assert all(question(n) in newly for n in range(1, 5))
    assert "−1.00" in text


def test_a_run_comes_as_files(member: Browser, of_name: str) -> None:
    address = link(of_name, r"/e/h0okid1234567890/runs/\w+/2")
    table = member.get(f"{address}/download.csv")
    assert "attachment" in table.headers["Content-Disposition"]
    rows = list(csv.DictReader(io.StringIO(table.content.decode("utf-8-sig"))))
    assert [row["question"] for row in rows] == [question(n) for n in range(1, 5)]
    assert {row["faithfulness"] for row in rows} == {"0.0"}
    kept = json.loads(member.get(f"{address}/download.json").content)
    assert kept["summary"]["number"] == 2
    assert len(kept["rows"]) == 4
    sheet = load_workbook(io.BytesIO(member.get(f"{address}/download.xlsx").content))
    assert len(sheet.worksheets) == 2
    assert question(1) in member.get(f"{address}/download.html").content.decode()
    assert member.get(f"{address}/download.exe").status_code == 404


def test_a_run_made_otherwise_breaks_the_line_and_says_why(
    member: Browser, plugin: PluginProcess, apps: Apps, two_runs: str
) -> None:
    assert apps
    assert two_runs
    invoke_app(plugin, parameters(3, threshold=0.8, votes=3))
    text = member.get(link(member.get().text, r"/e/h0okid1234567890/runs/\w+")).text
    assert "#2 → #3" in text
    assert "質問の表" in text
    assert text.count("<polyline") == 4


def test_hostile_texts_stay_texts(
    member: Browser, plugin: PluginProcess, apps: Apps, judge: ScriptedModelServer, storage: Storage
) -> None:
    assert apps
    assert storage
    reply = {"verdicts": [{"id": 1, "reason": HOSTILE, "verdict": 0}]}
    judge.on("faithfulness.verdicts", reply)
    judge.on_chat(HOSTILE)
    rows = [{"質問": f"R-01 {HOSTILE}", "参照": HOSTILE, "カテゴリ": HOSTILE}]
    table = "\n".join(["\t".join(rows[0]), "\t".join(rows[0].values())])
    invoke_app(plugin, parameters(golden=table, run_name=f"名前 {HOSTILE}"))
    pages = [member.get()]
    pages.append(member.get(link(pages[0].text, r"/e/h0okid1234567890/runs/\w+")))
    pages.append(member.get(link(pages[1].text, r"/e/h0okid1234567890/runs/\w+/1") + f"?text={quote('<script>')}"))
    run = link(pages[1].text, r"/e/h0okid1234567890/runs/\w+/1")
    pages += [member.get(run), member.get(f"{run}/rows/1-1")]
    for page in pages:
        assert page.status_code == 200
        assert "<script>alert" not in page.text
        assert "<img" not in page.text
    assert "{{ 7*7 }}" in pages[-1].text.replace("&#39;", "'")


def test_a_run_tells_where_its_page_is_once_somebody_has_opened_the_pages(
    member: Browser, plugin: PluginProcess, apps: Apps
) -> None:
    assert apps
    assert "結果のページ" not in invoke_app(plugin, parameters(1)).text
    member.get()
    output = invoke_app(plugin, parameters(2))
    found = re.search(r"\[結果のページで見る\]\((http://127\.0\.0\.1:\d+/e/h0okid1234567890/runs/\w+/2)\)", output.text)
    assert found
    assert question(2) in member.session.get(found[1], timeout=20).text
