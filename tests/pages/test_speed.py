"""Lists are made from summaries: how many values are read does not depend on how many rows the runs have."""

import pytest

from devhost.daemon import PluginProcess
from devhost.dify_side import DifySide, ReverseCall, Storage
from tests.pages.conftest import Browser
from tests.pages.samples import Direct, keep_runs


@pytest.mark.parametrize("copies", [1, 25])
def test_the_first_page_and_a_runs_page_read_no_rows(
    member: Browser, plugin: PluginProcess, storage: Storage, copies: int
) -> None:
    keep_runs(Direct(storage), "ja", runs=3, copies=copies)
    read: list[str] = []
    dify: DifySide = plugin.dify
    answer = dify.handlers["storage"]

    def noted(call: ReverseCall) -> object:
        read.append(str(call.request["key"]))
        return answer(call)

    dify.handlers["storage"] = noted
    start = member.get().text
    assert "#3" in start
    at_start = len(read)
    base = start.split("/runs/")[1].split('"')[0]
    assert f"{20 * copies}件" in member.get(f"runs/{base}/3").text
    rows = [key for key in read if key.rpartition("/")[2].count("-") == 1]
    assert rows == []
    assert at_start <= 20
    assert len(read) <= 40 + 2 * copies // 10
