"""A judge that drafts from whatever passage it is given."""

import re
from collections.abc import Callable
from typing import Any

from evaluation.golden.drafts.drafting import Sessions
from evaluation.golden.drafts.passages import Passage, read_passages
from evaluation.golden.kept_rows import KINDS
from evaluation.judging.session import JudgeSession
from evaluation.sample import Chunk
from tests.evaluation.fakes import ScriptedJudge, session

TOPICS = ("有給休暇", "出張の日当", "在宅勤務手当", "宿泊費", "通勤手当", "慶弔休暇", "研修費", "住宅手当")
WORDING = {
    "fact": "{topic}はいくつですか",
    "condition": "{topic}は入社してすぐの場合いくつになりますか",
    "comparison": "{topic}ともう一方ではどちらが多いですか",
    "messy": "{topic} いくつ？",
    "false_premise": "{topic}は99ですよね、いつからですか",
    "unanswerable": "{topic}を家族に譲ることはできますか",
}


def text_of(place: int) -> str:
    """A passage about one topic, with one number."""
    topic = TOPICS[place % len(TOPICS)]
    return f"{topic}は、入社して6か月たった社員に{place + 11}を付与します。申請は所属の上長を通じて人事部に行います。"


def passages(count: int = 4, documents: int = 2) -> list[Passage]:
    found, _ = read_passages(Chunk(text_of(n), f"規程{n % documents}.md") for n in range(count))
    return found


def topic_of(text: str) -> str:
    return text.split("は、", maxsplit=1)[0]


def write(kind: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A sound draft of the kind; the second for the same passage asks for something else."""

    def reply(data: dict[str, Any]) -> dict[str, Any]:
        texts = [passage["text"] for passage in data["passages"]]
        number = re.findall(r"\d+", texts[0])[1]
        again = len([question for question in data.get("asked", []) if topic_of(texts[0]) in question])
        question = WORDING[kind].format(topic=topic_of(texts[0])) + "（念のため）" * again
        quotes = [text.split("。")[0] + "。" for text in texts]
        wrong = "いいえ、" if kind == "false_premise" else ""
        draft = {"question": question, "reference": f"{wrong}{number}です。{'ほかの点も同じです。' * again}"}
        return {**draft, "quotes": quotes} if len(texts) > 1 else {**draft, "quote": quotes[0]}

    return reply


def judge(**replies: Any) -> ScriptedJudge:
    """Writes sound drafts of all kinds and finds nothing wrong with them; no passage answers what is not told."""
    ordinary: dict[str, Any] = {f"draft.{kind}": write(kind) for kind in KINDS}
    ordinary |= {"draft.clear": {"verdict": 1}, "draft.check": {"verdict": 1}, "draft.answerable": {"verdict": 0}}
    return ScriptedJudge(**{**ordinary, **{name.replace("__", "."): reply for name, reply in replies.items()}})


def sessions(scripted: ScriptedJudge, vectors: Any = None, **options: Any) -> Sessions:
    def open_session(language: Any) -> JudgeSession:
        return session(scripted, vectors, language=language, **options)

    return Sessions(open_session)
