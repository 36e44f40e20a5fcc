"""Apps to evaluate, question tables, and a bot and a judge whose calls can be told apart row by row."""

import copy
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from devhost.chatflow import choose
from devhost.daemon import PluginProcess, ToolOutput, collect
from devhost.demo.table import unscored
from devhost.knowledge import KnowledgeBase
from tests.model_server import Request, ScriptedModelServer
from tests.tools.support import MODEL, check, data_of

ROOT = Path(__file__).parents[2]
SCORED = ROOT / "workflows" / "rag_chat_scored.yml"
SIDES = ("answer", "reference")
TAG = re.compile(r"R-\d\d")

type Document = dict[str, Any]


def parameters(count: int = 3, **changes: Any) -> dict[str, Any]:
    """The parameters of an ordinary call over the first rows; `None` as a change leaves a parameter out."""
    ordinary = {
        "app": selector("bot"),
        "golden": table(rows(count)),
        "model": MODEL,
        "depth": "economy",
        "run_name": "毎週の確認",
    }
    return {name: value for name, value in (ordinary | changes).items() if value is not None}


def selector(app_id: str, **inputs: str) -> dict[str, Any]:
    """The value of an app selector as Dify sends it."""
    return {"app_id": app_id, "files": [], "inputs": inputs, "type": "app-selector"}


def invoke_app(plugin: PluginProcess, values: Mapping[str, Any], app_id: str | None = "evaluation") -> ToolOutput:
    """Calls evaluate_app and holds its output against the contract: reports come when there is something to report."""
    output = collect(plugin.invoke_tool("evaluate_app", values, app_id=app_id, timeout=60))
    endings = [str(file.filename).rpartition(".")[2] for file in output.files]
    assert endings == (["html", "xlsx"] if output.variables["done"] else [])
    without_files = [message for message in output.messages if message["type"] != "blob"]
    check("evaluate_app", ToolOutput(output.text, output.json, output.variables, [], without_files))
    return output


def progress(output: ToolOutput) -> tuple[str, str, int, int]:
    """Status, reason, rows done, rows in all."""
    variables = output.variables
    assert variables["finished"] == (0 < variables["total"] == variables["done"])
    return variables["status"], variables["reason"], variables["done"], variables["total"]


def counts(output: ToolOutput, metric: str = "faithfulness") -> dict[str, Any]:
    """A metric's mean and how many rows it was scored for, was not, failed for."""
    statistics: dict[str, Any] = output.variables["details"]["statistics"][metric]
    return statistics


def tag(row: int) -> str:
    """The word that stands in everything about a row and nowhere else."""
    return f"R-{row:02}"


def question(row: int) -> str:
    return f"{tag(row)}では何日前までに申請しますか"


def bot_answer(row: int) -> str:
    return f"{tag(row)}では{row}日前までに申請します。"


def rows(count: int) -> list[dict[str, str]]:
    """A table's rows: a question and its reference each."""
    return [{"質問": question(n), "参照": f"{tag(n)}は{n}日前までです。"} for n in range(1, count + 1)]


def table(records: Sequence[Mapping[str, str]]) -> str:
    """The rows as a spreadsheet's cells are pasted."""
    names = list(dict.fromkeys(name for record in records for name in record))
    lines = ["\t".join(names), *("\t".join(record.get(name, "") for name in names) for record in records)]
    return "\n".join(lines)


def documents(folder: Path, count: int) -> KnowledgeBase:
    """A document for each row, and nothing else."""
    for n in range(1, count + 1):
        (folder / f"{tag(n)}.md").write_text(f"{tag(n)}の申請は{n}日前までです。", encoding="utf-8")
    return KnowledgeBase(folder)


def script(server: ScriptedModelServer) -> None:
    """A bot that answers by the question's tag, and a judge that finds everything in order and repeats the tag."""
    server.on_chat(answer_of)
    server.on("relevancy.questions", lambda request: {"questions": [_generated(request)] * 3})
    server.on("relevancy.grades", {"grades": [{"id": n, "reason": "", "grade": 3} for n in (1, 2, 3)]})
    server.on("faithfulness.statements", lambda request: {"statements": [data_of(request)["answer"]]})
    server.on("faithfulness.verdicts", lambda request: {"verdicts": _verdicts(data_of(request)["statements"])})
    server.on("recall.parts", lambda request: {"parts": [_part(request)]})
    server.on("precision.chunk", lambda request: {"reason": "", "verdict": int(_same_tag(request))})
    server.on("precision.chunks", lambda request: {"verdicts": _chunks(request)})
    server.on("retrieval.economy", lambda request: {"parts": [_part(request)], "chunks": _chunks(request)})
    server.on("correctness.statements", lambda request: {"statements": [_part(request)["text"]]})
    server.on("correctness.classify", lambda request: {side: _verdicts(data_of(request)[side]) for side in SIDES})


def tags(text: str) -> list[str]:
    return TAG.findall(text)


def answer_of(request: Request) -> str:
    """The bot's answer to the question in a request."""
    return bot_answer(int(tags(request.user)[-1][-2:]))


def _generated(request: Request) -> dict[str, Any]:
    return {"question": question(int(tags(data_of(request)["answer"])[0][-2:])), "noncommittal": 0}


def _verdicts(items: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{"id": item["id"], "reason": "", "verdict": 1} for item in items]


def _part(request: Request) -> dict[str, Any]:
    data = data_of(request)
    return {"text": data.get("reference", data.get("answer")), "reason": "", "verdict": 1}


def _same_tag(request: Request) -> bool:
    data = data_of(request)
    return tags(data["question"])[0] in data["context"]


def _chunks(request: Request) -> list[dict[str, Any]]:
    data = data_of(request)
    wanted = tags(data["question"])[0]
    return [{"id": item["id"], "reason": "", "verdict": int(wanted in item["text"])} for item in data["contexts"]]


def judged(server: ScriptedModelServer) -> Counter[str]:
    """How many judge calls each row cost, by its tag."""
    return Counter(subject(request) for request in server.judge_calls)


def subject(request: Request) -> str:
    """The tag of the row that a judge call is about: other rows' chunks may be in it too."""
    data = data_of(request)
    for name in ("question", "answer", "reference"):
        if found := tags(str(data.get(name, ""))):
            return found[0]
    return tags(str(data["statements"]))[0]


def chatflow(knowledge: KnowledgeBase, *, top_k: int = 2) -> Document:
    """Knowledge Retrieval, LLM, Answer: the scored template without what scores."""
    document = unscored(scored_chatflow(knowledge, judge_model=None))
    data(document, "knowledge")["multiple_retrieval_config"]["top_k"] = top_k
    return document


def scored_chatflow(knowledge: KnowledgeBase, *, judge_model: str | None = "judge-1") -> Document:
    """The scored template with everything chosen."""
    return choose(SCORED, knowledge=[knowledge], chat_model="bot", judge_model=judge_model, embedding_model=None)


def workflow(knowledge: KnowledgeBase) -> Document:
    """The same as a workflow: the question is an input, the answer and the sources are outputs."""
    document = chatflow(knowledge)
    document["app"]["mode"] = "workflow"
    start = {"label": "質問", "required": True, "type": "paragraph", "variable": "question", "max_length": 500}
    data(document, "start")["variables"] = [start]
    data(document, "knowledge")["query_variable_selector"] = ["start", "question"]
    data(document, "llm")["prompt_template"][1]["text"] = "{{#start.question#}}"
    reply = data(document, "reply")
    del reply["answer"]
    outputs = [("sources", ["knowledge", "result"], "array[object]"), ("answer", ["llm", "text"], "string")]
    reply |= {
        "type": "end",
        "outputs": [
            {"variable": name, "value_selector": selector, "value_type": kind} for name, selector, kind in outputs
        ],
    }
    return document


def data(document: Document, node_id: str) -> dict[str, Any]:
    """A node's data, to be changed."""
    [found] = [node["data"] for node in document["workflow"]["graph"]["nodes"] if node["id"] == node_id]
    return found


def changed(document: Document, node_id: str, **fields: Any) -> Document:
    """A copy with some of a node's fields changed."""
    copied = copy.deepcopy(document)
    data(copied, node_id).update(fields)
    return copied
