"""Kept tables on the page: filled from a file, edited in place by two at once, states, versions, out and in again."""

import io
import re
from typing import Any

import pytest
import requests
from openpyxl import load_workbook

from devhost.dify_side import Storage
from evaluation.golden.kept import KeptTables
from evaluation.golden.kept_rows import KeptRow
from tests.pages.conftest import READER, Browser, Enter
from tests.pages.samples import Direct

NAME = "社内規程"
TABLE = "質問,参照,カテゴリ,部署\n有給は何日？,10日です,休暇,総務\n=1+1は？,'=2です,計算,\n"


def token_of(text: str) -> str:
    found = re.search(r'name="token" value="(\w+)"', text)
    assert found
    return found[1]


def send(browser: Browser, path: str, files: dict[str, Any] | None = None, **fields: str) -> requests.Response:
    data = {"token": token_of(browser.get("tables").text), **fields}
    if files:
        return browser.session.post(browser.address(path), data, files=files, timeout=20)
    return browser.post(path, data)


@pytest.fixture
def base(member: Browser) -> str:
    """The address of a table that was uploaded."""
    answer = send(member, "tables/new/upload", {"file": ("表.csv", TABLE.encode())}, name=NAME, version="0")
    assert answer.status_code == 200
    found = re.search(r"/tables/(\w{16,})", member.get("tables").text)
    assert found
    return f"tables/{found[1]}"


@pytest.fixture
def kept(storage: Storage, base: str) -> KeptTables:
    assert base
    return KeptTables(Direct(storage))


def rows(kept: KeptTables) -> tuple[KeptRow, ...]:
    return kept.read(NAME).rows


def test_a_file_becomes_a_table(member: Browser, base: str, kept: KeptTables) -> None:
    assert [(row.row.question, row.row.reference, row.row.category) for row in rows(kept)] == [
        ("有給は何日？", "10日です", "休暇"),
        ("=1+1は？", "=2です", "計算"),
    ]
    assert rows(kept)[0].row.others == {"部署": "総務"}
    text = member.get(base).text
    for part in (NAME, "有給は何日？", "10日です", "部署=総務", "第1版", "確認済み"):
        assert part in text
    assert "=1+1" not in member.get(f"{base}?text=有給").text


def test_a_row_is_edited_in_place_and_a_new_one_added(member: Browser, base: str, kept: KeptTables) -> None:
    row = rows(kept)[0]
    form = member.get(f"{base}/rows/{row.id}").text
    assert "10日です" in form
    send(member, f"{base}/rows/{row.id}", question=row.row.question, reference="20日です", state="off", version="1")
    changed = rows(kept)[0]
    assert (changed.id, changed.row.reference, changed.state) == (row.id, "20日です", "off")
    assert changed.row.others == {"部署": "総務"}
    send(member, f"{base}/rows/new", question="新しい質問", reference="", state="confirmed", version="2")
    assert [row.row.question for row in rows(kept)][-1] == "新しい質問"
    assert kept.read(NAME).version.number == 3
    assert send(member, f"{base}/rows/new", question=" ", version="3").status_code == 400


def test_of_two_who_edit_at_once_none_loses_anything(
    member: Browser, enter: Enter, base: str, kept: KeptTables
) -> None:
    row, other = rows(kept)[0], enter()
    send(other, f"{base}/rows/{row.id}", question=row.row.question, reference="先の人", state="confirmed", version="1")
    answer = send(
        member, f"{base}/rows/{row.id}", question=row.row.question, reference="後の人", state="confirmed", version="1"
    )
    assert answer.status_code == 409
    assert "先の人" in answer.text
    assert "後の人" in answer.text
    assert rows(kept)[0].row.reference == "先の人"
    fields = {"question": row.row.question, "reference": "後の人", "state": "confirmed"}
    send(member, f"{base}/rows/{row.id}", version="2", **fields)
    assert rows(kept)[0].row.reference == "後の人"
    assert kept.read(NAME, 2).rows[0].row.reference == "先の人"


def test_states_are_switched_and_filtered(member: Browser, base: str, kept: KeptTables) -> None:
    send(member, f"{base}/state", row=rows(kept)[1].id, state="draft")
    assert [row.state for row in rows(kept)] == ["confirmed", "draft"]
    drafts = member.get(f"{base}?state=draft").text
    assert "=1+1は？" in drafts
    assert "有給は何日？" not in drafts
    assert send(member, f"{base}/state", row=rows(kept)[1].id, state="nonsense").status_code == 400


def test_drafts_are_read_one_after_another(member: Browser, base: str, kept: KeptTables) -> None:
    first, second = (row.id for row in rows(kept))
    for row in (first, second):
        send(member, f"{base}/state", row=row, state="draft")
    form = member.get(f"{base}/rows/{first}").text
    assert f'name="next" value="{second}"' in form
    assert 'data-key="c"' in form
    fields = {"question": "有給は何日？", "reference": "10日です", "state": "confirmed", "version": "3"}
    answer = send(member, f"{base}/rows/{first}", next=second, **fields)
    assert "=1+1は？" in answer.text
    assert [row.state for row in rows(kept)] == ["confirmed", "draft"]


def test_an_earlier_version_is_looked_at_and_brought_back(member: Browser, base: str, kept: KeptTables) -> None:
    send(member, f"{base}/upload", {"file": ("b.csv", b"question,reference\nq,r\n")}, how="replace", version="1")
    assert [row.row.question for row in rows(kept)] == ["q"]
    old = member.get(f"{base}?version=1").text
    assert "以前の版" in old
    assert "有給は何日？" in old
    send(member, f"{base}/restore", number="1")
    assert len(rows(kept)) == 2
    assert kept.read(NAME).version.number == 3
    assert send(member, f"{base}/restore", number="99").status_code == 400


@pytest.mark.parametrize("ending", ["csv", "xlsx", "json"])
def test_what_is_downloaded_and_uploaded_again_is_the_same(
    member: Browser, base: str, kept: KeptTables, ending: str
) -> None:
    send(member, f"{base}/state", row=rows(kept)[1].id, state="draft")
    before = rows(kept)
    data = member.get(f"{base}/download.{ending}").content
    answer = send(member, f"{base}/upload", {"file": (f"x.{ending}", data)}, how="replace", version="2")
    assert answer.status_code == 200
    assert kept.read(NAME).version.number == 2
    assert rows(kept) == before


def test_no_cell_of_a_download_is_a_formula(member: Browser, base: str) -> None:
    assert "\n'=1+1は？" in member.get(f"{base}/download.csv").content.decode("utf-8-sig").replace("\r", "")
    sheet = load_workbook(io.BytesIO(member.get(f"{base}/download.xlsx").content)).worksheets[0]
    assert {cell.data_type for row in sheet.iter_rows() for cell in row if cell.value} == {"s"}


def test_rows_that_are_there_already_are_said(member: Browser, base: str, kept: KeptTables) -> None:
    more = "質問,参照,部署\n有給は何日？,10日です,総務\n別の質問,答え,\n".encode()
    answer = send(member, f"{base}/upload", {"file": ("c.csv", more)}, how="append", version="1")
    assert "すでに表にある" in answer.text
    assert [row.row.question for row in rows(kept)] == ["有給は何日？", "=1+1は？", "別の質問"]


def test_an_unreadable_file_and_an_old_version_change_nothing(member: Browser, base: str, kept: KeptTables) -> None:
    picture = {"file": ("x.png", b"\x89PNG\r\n\x1a\n" + bytes(100))}
    assert send(member, f"{base}/upload", picture, how="append", version="1").status_code == 400
    assert send(member, f"{base}/upload", {}, how="append", version="1").status_code == 400
    send(member, f"{base}/state", row=rows(kept)[0].id, state="off")
    stale = send(
        member, f"{base}/upload", {"file": ("c.csv", b"question,reference\nq,r\n")}, how="replace", version="1"
    )
    assert stale.status_code == 400
    assert len(rows(kept)) == 2


def test_a_file_beyond_the_limit_is_refused_whole(member: Browser, base: str, kept: KeptTables) -> None:
    large = {"file": ("x.csv", b"question,reference\n" + b"q,r\n" * 3_000_000)}
    assert send(member, f"{base}/upload", large, how="append", version="1").status_code in {400, 403, 413}
    assert kept.read(NAME).version.number == 1


def test_the_reading_key_changes_nothing(enter: Enter, base: str, kept: KeptTables) -> None:
    reader = enter(READER)
    text = reader.get(base).text
    assert "有給は何日？" in text
    assert 'action="/e/h0okid1234567890/tables/' not in re.sub(r'method="get"[^>]*', "", text)
    answer = send(reader, f"{base}/state", row=rows(kept)[0].id, state="off")
    assert answer.status_code == 403
    assert rows(kept)[0].state == "confirmed"


def test_hostile_cells_stay_texts(member: Browser, kept: KeptTables, base: str) -> None:
    hostile = "<script>alert(1)</script>\"'<b>"
    send(member, f"{base}/rows/new", question=hostile, reference=hostile, documents=hostile, state="draft", version="1")
    row = rows(kept)[-1]
    for page in (member.get(base), member.get(f"{base}/rows/{row.id}"), member.get("tables")):
        assert "<script>alert" not in page.text
        assert "<b>" not in page.text.replace("<b>10", "")
