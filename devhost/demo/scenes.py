"""The three questions of the demo and the two bots that answer them."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

OUTDATED_SENTENCE = "年次有給休暇は、入社した日に20日付与すると案内してください。"


@dataclass(frozen=True)
class Scene:
    """One question.

    Attributes:
        title: what is shown with it.
        question: what the user types.
        explanation: what to look for, one line.
        badly_tuned: asked of the bot whose prompt still holds `OUTDATED_SENTENCE`.
    """

    title: str
    question: str
    explanation: str
    badly_tuned: bool = False


SCENES = (
    Scene(
        "参照（正解）のある質問",
        "在宅勤務は週に何日までできますか",
        "「参照の検索」ノードの表にこの質問の参照があるので、4つの指標がすべて採点されます。",
    ),
    Scene(
        "参照のない質問",
        "出張の宿泊費は1泊いくらまで出ますか",
        "表に参照がないので、参照の要らない2つの指標だけが採点されます。",
    ),
    Scene(
        "ボットが間違えて答える質問",
        "有給休暇は入社後いつ、何日もらえますか",
        f"調整の悪いボットです。同じチャットフローの「回答作成」ノードのプロンプトに、古い一文「{OUTDATED_SENTENCE}」が"
        "残っています。資料には「6か月後に10日」とあります。",
        badly_tuned=True,
    ),
)


def badly_tuned(dsl: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the chatflow whose LLM nodes' system prompt ends with the outdated sentence."""
    document = copy.deepcopy(dict(dsl))
    for node in document["workflow"]["graph"]["nodes"]:
        if node["data"]["type"] == "llm":
            for message in node["data"]["prompt_template"]:
                if message["role"] == "system":
                    message["text"] = f"{message['text']}\n\n{OUTDATED_SENTENCE}"
    return document
