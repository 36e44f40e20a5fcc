"""A scripted judge that decides by what a text holds, however it is asked: one by one, all at once, in one call."""

from collections.abc import Callable, Mapping
from typing import Any

from devhost.chatflow import ChatReply
from tests.model_server import Request, ScriptedModelServer
from tests.tools.support import data_of

WITH_REFERENCE = "有給休暇は入社後いつ、何日もらえますか"
WITHOUT_REFERENCE = "出張の宿泊費は1泊いくらまで出ますか"
ANSWER = "入社して6か月たつと10日付与されます。毎年20日もらえます。"
STATEMENTS = ["入社して6か月たつと10日付与されます。", "毎年20日もらえます。"]
PARTS = ["6か月で10日付与", "翌年度まで繰り越し"]
# For `WITH_REFERENCE` these two stand at ranks 1 and 3, and this between them.
DOCUMENTS = {
    "paid_leave.md": "有給休暇は入社6か月後に10日付与します。",
    "remote_work.md": "在宅勤務は週3日までです。",
    "travel_expenses.md": "宿泊費は1泊12,000円までです。",
}
SUPPORTED = ("10日",)
RELEVANT = ("有給", "宿泊")

type Ask = Callable[..., ChatReply]
type Reply = Mapping[str, Any]


def script(server: ScriptedModelServer) -> None:
    """Every prompt answered alike: 1 of 2 statements, 1 of 2 parts of the reference, the chunks at ranks 1 and 3."""
    server.on("relevancy.questions", {"questions": [{"question": WITH_REFERENCE, "noncommittal": 0}] * 3})
    server.on("relevancy.grades", {"grades": [{"id": item, "reason": "", "grade": 3} for item in (1, 2, 3)]})
    server.on("faithfulness.statements", {"statements": STATEMENTS})
    server.on("correctness.statements", {"statements": PARTS})
    server.on("faithfulness.verdicts", lambda request: {"verdicts": _verdicts(request, "statements", SUPPORTED)})
    server.on("recall.parts", {"parts": _parts()})
    server.on("precision.chunk", lambda request: _verdict(data_of(request)["context"], RELEVANT))
    server.on("precision.chunks", lambda request: {"verdicts": _verdicts(request, "contexts", RELEVANT)})
    server.on(
        "retrieval.economy", lambda request: {"parts": _parts(), "chunks": _verdicts(request, "contexts", RELEVANT)}
    )
    server.on_chat(ANSWER)


def _parts() -> list[Reply]:
    return [{"text": part, **_verdict(part, SUPPORTED)} for part in PARTS]


def _verdicts(request: Request, listed: str, words: tuple[str, ...]) -> list[Reply]:
    return [{"id": item["id"], **_verdict(item["text"], words)} for item in data_of(request)[listed]]


def _verdict(text: str, words: tuple[str, ...]) -> Reply:
    holds = any(word in text for word in words)
    return {"reason": "資料にあります" if holds else "資料にありません", "verdict": int(holds)}
