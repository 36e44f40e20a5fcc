"""What a Knowledge Retrieval node of a real Dify handed to a tool, as a variable and as text (recorded)."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.model_server import ScriptedModelServer
from tests.tools.conftest import Run
from tests.tools.support import data_of

WIRE = Path(__file__).parent.parent / "data" / "wire"
CHUNKS = [
    "夏季休暇は7月から9月の間に5日取得できます。",
    "有給休暇の申請は3日前までに勤怠システムで行います。",
    "有給休暇は入社6か月後に10日付与されます。",
    "結婚休暇は5日です。",
]


def recorded_contexts(name: str) -> Any:
    first = json.loads((WIRE / name).read_text(encoding="utf-8").splitlines()[0])
    return first["line"]["data"]["tool_parameters"]["contexts"]


@pytest.mark.parametrize("name", ["tool_model_embedding_storage.jsonl", "tool_contexts_as_text.jsonl"])
def test_recorded_contexts_are_read_in_both_wirings(name: str, run: Run, judge: ScriptedModelServer) -> None:
    output = run("context_precision", contexts=recorded_contexts(name))
    details = output.variables["details"]
    assert [chunk["text"] for chunk in details["chunks"]] == CHUNKS
    assert {chunk["title"] for chunk in details["chunks"]} == {"休暇規程.txt"}
    assert sorted(data_of(call)["context"] for call in judge.judge_calls) == sorted(CHUNKS)
