"""Question tables as people have them: pasted, in files of every kind and encoding, broken, much too large."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from openpyxl import Workbook

from devhost.apps import Apps
from devhost.daemon import ToolOutput
from devhost.files import HostedFiles
from devhost.knowledge import KnowledgeBase
from tests.apps.conftest import Evaluate, Publish
from tests.apps.support import progress, question, rows, scored_chatflow, selector, table, tag
from tests.model_server import ScriptedModelServer

MANY = [{"質問": f"質問{n}", "参照": "正解"} for n in range(10_000)]


def two_rows(number: int) -> list[dict[str, str]]:
    """The rows of a file: each file has others."""
    return rows(2 * number)[-2:]


def csv(records: list[dict[str, str]]) -> str:
    return "\r\n".join(["質問,参照", *(f'"{record["質問"]}",{record["参照"]}' for record in records)])


def chinese(records: list[dict[str, str]]) -> str:
    questions = [record["質問"].replace("では何日前までに申請しますか", "需要提前几天申请？") for record in records]
    return "\n".join(["问题,参考答案", *(f"{question},须提前几天申请。" for question in questions)])


def workbook(records: list[dict[str, str]]) -> bytes:
    book, data = Workbook(), io.BytesIO()
    sheet = book.active
    assert sheet is not None
    for cells in (["質問", "参照"], *([*record.values()] for record in records)):
        sheet.append(cells)
    book.save(data)
    return data.getvalue()


FILES = {
    "utf8.csv": csv(two_rows(1)).encode(),
    "excel.csv": csv(two_rows(2)).encode("utf-8-sig"),
    "shift_jis.csv": csv(two_rows(3)).encode("cp932"),
    "table.tsv": table(two_rows(4)).encode(),
    "table.xlsx": workbook(two_rows(5)),
    "table.json": json.dumps(two_rows(6), ensure_ascii=False).encode(),
    "table.jsonl": "\n".join(json.dumps(record) for record in two_rows(7)).encode(),
    "gbk.csv": chinese(two_rows(8)).encode("gbk"),
}


@pytest.fixture
def from_file(evaluate: Evaluate, files: HostedFiles) -> Any:
    def call(*added: tuple[str, bytes], size: int | None = None, **changes: Any) -> ToolOutput:
        hosted = [files.add(name, data, size=size).to_plugin_parameter() for name, data in added]
        return evaluate(golden=None, golden_file=hosted, **changes)

    return call


def test_files_of_any_kind_and_encoding_are_read(from_file: Any, apps: Apps) -> None:
    assert progress(from_file(*FILES.items(), metrics="retrieval")) == ("scored", "", 16, 16)
    japanese, last = [question(n) for n in range(1, 15)], [f"{tag(n)}需要提前几天申请？" for n in (15, 16)]
    assert {call.query for call in apps.calls} == {*japanese, *last}


RECORDED = Path(__file__).parents[1] / "data" / "tables"


@pytest.mark.parametrize(
    ("name", "asked", "remark"),
    [
        ("title_row_above_header_table.xlsx", "有給休暇は何日もらえますか", "見出しは3行目"),
        ("merged_cells_table.xlsx", "有給休暇は何日もらえますか", ""),
        (
            "formula_without_value_table.xlsx",
            "担当者のフルネームは何ですか",
            "数式の計算結果が保存されていないセルがあります（B2、A3）",
        ),
        ("x000d_table.xlsx", "申請の手順を教えてください\n有給休暇の場合です", ""),
        ("korean_cp949_table.csv", "연차 휴가는 며칠인가요?", ""),
        ("langfuse_export_dataset.csv", "有給休暇は何日もらえますか", ""),
        ("json_in_csv_table.csv", "見積もりの日付はいつですか", "3行目"),
    ],
)
def test_tables_that_people_gave_are_asked_as_they_were_meant(
    name: str, asked: str, remark: str, from_file: Any, apps: Apps, judge: ScriptedModelServer
) -> None:
    judge.on_chat("はい。")
    output = from_file((name, (RECORDED / name).read_bytes()), metrics="retrieval", concurrency=1, language="ja")
    assert apps.calls[0].query == asked
    assert remark in output.text
    assert remark in output.variables["summary"]
    assert bool(output.variables["details"]["table"]["notes"]) == bool(remark)


def test_a_table_whose_columns_can_not_be_told_is_asked_about(evaluate: Evaluate, apps: Apps) -> None:
    output = evaluate(golden="No.\t内容\t備考\n1\t有給は？\t10日\n2\t日当は？\t千円", language="ja")
    assert progress(output) == ("failed", "table_unreadable", 0, 0)
    assert "「No. / 内容 / 備考」" in output.text
    assert "「質問」" in output.text
    assert apps.calls == []


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        (
            "旧.xls",
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "Workbook".encode("utf-16-le") + bytes(3000),
            "古い形式の Excel",
        ),
        ("鍵.xlsx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"), "パスワード"),
        ("案内.pdf", b"%PDF-1.7\n", "PDF"),
        ("壊れた.csv", bytes(range(128, 256)) * 9, "文字コード"),
    ],
)
def test_a_file_that_is_no_table_is_told_with_what_to_save_it_as(
    name: str, data: bytes, told: str, from_file: Any
) -> None:
    output = from_file((name, data), language="ja")
    assert progress(output) == ("failed", "table_unreadable", 0, 0)
    assert name in output.text
    assert told in output.text
    assert "xlsx" in output.text


def test_rows_with_more_columns_than_the_header_are_told_and_not_asked(evaluate: Evaluate, apps: Apps) -> None:
    golden = f"質問,参照\n{question(1)},国内,海外\n{question(2)},1,000円です\n{question(3)},3日前\n"
    output = evaluate(golden=golden, metrics="retrieval")
    assert progress(output) == ("scored", "", 2, 2)
    assert {call.query for call in apps.calls} == {question(2), question(3)}
    assert output.variables["details"]["rows_unreadable"] == 1
    assert "見出しより列の多い行は使いません（2行目）" in output.text
    assert "3行目" in output.text


def test_notes_name_their_file_when_there_are_several(from_file: Any) -> None:
    titled = ("題.csv", ("質問一覧,\n" + csv(two_rows(1))).encode())
    output = from_file(titled, ("表.csv", csv(two_rows(2)).encode()), metrics="retrieval")
    assert progress(output) == ("scored", "", 4, 4)
    assert "ファイル「題.csv」：見出しは2行目" in output.text


def test_pasted_rows_come_before_those_of_the_files(evaluate: Evaluate, files: HostedFiles, apps: Apps) -> None:
    hosted = [files.add(f"{n}.tsv", table(rows(n)[n - 1 :]).encode()).to_plugin_parameter() for n in (2, 3)]
    output = evaluate(1, golden_file=hosted, concurrency=1, metrics="retrieval")
    assert progress(output) == ("scored", "", 3, 3)
    assert [call.query for call in apps.calls] == [question(1), question(2), question(3)]


def test_a_file_list_that_was_left_empty_counts_as_none(evaluate: Evaluate) -> None:
    assert progress(evaluate(1, golden_file=[None])) == ("scored", "", 1, 1)


@pytest.mark.parametrize(
    ("golden", "reason"),
    [
        pytest.param("", "no_table", id="nothing"),
        pytest.param("番号\t名前\t正解\n1\t山田\t10日\n", "table_unreadable", id="no question column"),
        pytest.param("ただの文章です。", "table_unreadable", id="a sentence"),
        pytest.param("質問\t参照\n", "table_unreadable", id="a header alone"),
        pytest.param("質問\t参照\n\t正解だけ\n\t\n", "table_unreadable", id="no row has a question"),
        pytest.param(table(MANY), "too_many_rows", id="10,000 rows"),
    ],
)
def test_a_table_that_can_not_be_used_is_told_and_nothing_is_asked(
    golden: str, reason: str, evaluate: Evaluate, apps: Apps
) -> None:
    output = evaluate(golden=golden)
    assert progress(output) == ("failed", reason, 0, 0)
    assert apps.calls == []


def test_the_first_rows_of_a_table_that_is_too_long_are_taken_when_asked(evaluate: Evaluate, apps: Apps) -> None:
    assert progress(evaluate(golden=table([*rows(2), *MANY]), max_rows=2)) == ("scored", "", 2, 2)
    assert len(apps.calls) == 2


def test_one_row_is_a_table(evaluate: Evaluate) -> None:
    output = evaluate(1)
    assert progress(output) == ("scored", "", 1, 1)
    statistics = output.variables["details"]["statistics"]["faithfulness"]
    assert 0 < statistics["low"] < statistics["mean"] == statistics["high"] == 1


def test_duplicate_rows_are_asked_and_judged_each_for_itself(
    evaluate: Evaluate, apps: Apps, judge: ScriptedModelServer
) -> None:
    output = evaluate(golden=table([*rows(1), *rows(1), *rows(1)]), concurrency=1)
    assert progress(output) == ("scored", "", 3, 3)
    assert apps.asked(question(1)) == 3
    assert len(judge.calls("faithfulness.statements")) == 3
    assert output.variables["details"]["reused_rows"] == 0


def test_cells_that_are_empty_leave_out_what_needs_them(evaluate: Evaluate) -> None:
    lines = [
        "質問\t参照\tカテゴリ",
        f"{question(1)}\t\t",
        "\t正解だけ\t休暇",
        "\t\t",
        f"{question(2)}\t2日前までです。\t休暇",
    ]
    output = evaluate(golden="\n".join(lines))
    assert progress(output) == ("scored", "", 2, 2)
    statistics = output.variables["details"]["statistics"]
    assert (statistics["faithfulness"]["scored"], statistics["context_recall"]["scored"]) == (2, 1)
    assert statistics["context_recall"]["not_applicable"] == 1
    assert set(output.variables["details"]["categories"]) == {"", "休暇"}


def test_a_file_of_40_megabytes_is_refused_before_it_is_fetched(from_file: Any, files: HostedFiles, apps: Apps) -> None:
    output = from_file(("big.csv", b"x"), size=40_000_000)
    assert progress(output) == ("failed", "file_too_large", 0, 0)
    assert "40" in output.text
    assert (files.fetched, apps.calls) == ([], [])


def test_a_file_that_hides_its_size_is_refused_for_it(from_file: Any) -> None:
    output = from_file(("big.csv", b"x" * 10_000_001), size=-1)
    assert progress(output) == ("failed", "file_too_large", 0, 0)


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("empty.csv", b"", "no_table"),
        ("broken.xlsx", workbook(rows(2))[:2000], "table_unreadable"),
        ("picture.csv", bytes(range(256)) * 4, "table_unreadable"),
    ],
)
def test_a_file_that_is_no_table_is_told(name: str, data: bytes, reason: str, from_file: Any) -> None:
    assert progress(from_file((name, data))) == ("failed", reason, 0, 0)


def test_a_file_whose_address_has_expired_is_told(evaluate: Evaluate, files: HostedFiles) -> None:
    parameter = files.add("table.csv", b"x").to_plugin_parameter()
    parameter["url"] = parameter["url"].replace("/files/", "/files/gone-")
    output = evaluate(golden=None, golden_file=[parameter])
    assert progress(output) == ("failed", "file_unreachable", 0, 0)
    assert "table.csv" in output.text


@pytest.mark.parametrize(
    ("app", "reason"),
    [
        (None, "app_not_selected"),
        ({}, "app_not_selected"),
        ("bot", "app_not_selected"),
        (selector(""), "app_not_selected"),
        (selector("evaluation"), "app_is_self"),
        (selector("unknown"), "app_not_found"),
        (selector("draft"), "app_not_published"),
    ],
)
def test_an_app_that_can_not_be_asked_is_told(
    app: object, reason: str, evaluate: Evaluate, apps: Apps, judge: ScriptedModelServer
) -> None:
    apps.draft("draft")
    status, told, done, _ = progress(evaluate(3, app=app))
    assert (status, told, done) == ("failed", reason, 0)
    assert (apps.calls, judge.requests) == ([], [])


def test_an_app_that_evaluates_itself_by_way_of_its_template_is_refused(
    evaluate: Evaluate, publish: Publish, apps: Apps, knowledge: KnowledgeBase
) -> None:
    publish(scored_chatflow(knowledge), "evaluation")
    assert progress(evaluate(1, app=selector("evaluation"))) == ("failed", "app_is_self", 0, 0)
    assert apps.calls == []


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("concurrency", 0),
        ("concurrency", 99),
        ("repeat", "たくさん"),
        ("time_limit", 5),
        ("max_rows", -1),
        ("metrics", "all"),
        ("depth", "deep"),
        ("threshold", 2),
        ("keep_runs", 0),
        ("votes", "2"),
    ],
)
def test_a_setting_that_is_out_of_range_is_named_and_nothing_is_asked(
    setting: str, value: object, evaluate: Evaluate, apps: Apps
) -> None:
    output = evaluate(1, **{setting: value})
    assert progress(output) == ("failed", "invalid_setting", 0, 0)
    assert apps.calls == []
