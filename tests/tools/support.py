"""A well-behaved judge, an ordinary sample, and what holds for every call of every tool."""

import json
import math
import re
from collections.abc import Callable, Mapping
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import yaml

from devhost.daemon import MAX_LINE_BYTES, PluginProcess, ToolOutput, collect
from tests.model_server import Request, ScriptedModelServer

ROOT = Path(__file__).parent.parent.parent
METRICS = ("answer_relevancy", "faithfulness", "context_recall", "context_precision")
DECLARED = {
    path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted((ROOT / "tools").glob("*.yaml"))
}
SCHEMAS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    tool: declared["output_schema"]["properties"] for tool, declared in DECLARED.items()
}
PARAMETERS = {tool: [entry["name"] for entry in declared["parameters"]] for tool, declared in DECLARED.items()}
TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
}
STATUSES = {"scored", "partial", "not_applicable", "failed"}
NOT_EVALUATED = {"ja": "未評価", "en": "not evaluated", "zh": "未评估"}

PROVIDER = "langgenius/openai_api_compatible/openai_api_compatible"
MODEL = {
    "provider": PROVIDER,
    "model": "judge-1",
    "model_type": "llm",
    "mode": "chat",
    "completion_params": {},
}
EMBEDDING = {"provider": PROVIDER, "model": "embedding-1", "model_type": "text-embedding", "mode": ""}

QUESTION = "有給休暇は何日もらえますか"
CHUNKS = ["有給休暇は入社6か月後に10日付与されます。", "申請は3営業日前までです。", "出張の日当は2,000円です。"]
TEXTS: Mapping[str, Mapping[str, str]] = {
    "ja": {
        "question": QUESTION,
        "answer": "有給休暇は10日です。申請は当日で大丈夫です。",
        "reference": "10日付与されます。申請は3営業日前までです。",
    },
    "en": {
        "question": "How many days of paid leave do I get?",
        "answer": "You get 10 days of paid leave. You can ask for them on the same day.",
        "reference": "10 days are granted. Ask three working days before.",
    },
    "zh": {
        "question": "带薪年假有多少天？",
        "answer": "带薪年假有10天。可以当天申请。",
        "reference": "共有10天。须提前3个工作日申请。",
    },
}

K, CHUNK = 5, 800
FILLING = {
    "ja": "有給休暇は入社6か月後に10日付与され、申請は3営業日前までに上長へ行います。",
    "en": "Ten days of paid leave are granted after six months; ask your manager three working days before. ",
    "zh": "入职满6个月后有10天带薪年假，须提前3个工作日向上级申请，并在系统中登记。",
}


def items(*texts: str) -> list[dict[str, Any]]:
    """Chunks as a Knowledge Retrieval node hands them on."""
    return [
        {
            "metadata": {"_source": "knowledge", "score": 0.9 - rank / 10, "position": rank},
            "title": f"規程{rank}.md",
            "files": None,
            "content": text,
            "summary": None,
        }
        for rank, text in enumerate(texts, start=1)
    ]


def sample(spoken: str = "ja", **changes: Any) -> dict[str, Any]:
    """The parameters of an ordinary call of any metric; `None` as a change leaves the parameter out."""
    parameters = {**TEXTS[spoken], "contexts": items(*CHUNKS), "model": MODEL, "embedding_model": EMBEDDING}
    return {name: value for name, value in (parameters | changes).items() if value is not None}


def long_sample(language: str, **changes: Any) -> dict[str, Any]:
    """Five chunks of 800 characters, an answer and a reference of 400: the size of the published comparison."""

    def text(start: str, length: int) -> str:
        return start + "".join(islice(cycle(FILLING[language]), length - len(start)))

    chunks = [text(f"{rank}: ", CHUNK) for rank in range(1, K + 1)]
    long = {"answer": text("A: ", 400), "reference": text("R: ", 400), "contexts": items(*chunks)}
    return sample(language, **long, language="auto", **changes)


def data_of(request: Request) -> dict[str, Any]:
    """The data that a judge was given, read as strictly as it was written."""
    _, data, _ = request.user.split("\n", 2)
    value: dict[str, Any] = json.loads(data)
    return value


def verdicts(
    values: Mapping[int, Any] | Any, listed: str = "statements", reason: str = "理由"
) -> Callable[[Request], dict[str, Any]]:
    """Answers each id that is asked about with its value, or all with the same one."""

    def reply(request: Request) -> dict[str, Any]:
        ids = [item["id"] for item in data_of(request)[listed]]
        chosen = values if isinstance(values, Mapping) else dict.fromkeys(ids, values)
        return {"verdicts": [{"id": n, "reason": reason, "verdict": chosen[n]} for n in ids if n in chosen]}

    return reply


def by_chunk(values: Mapping[str, Any]) -> Callable[[Request], dict[str, Any]]:
    """Answers for a chunk by what stands in it; 0 for any other."""

    def reply(request: Request) -> dict[str, Any]:
        text = data_of(request)["context"]
        verdict = next((value for words, value in values.items() if words in text), 0)
        return {"reason": "理由", "verdict": verdict}

    return reply


def statements(*texts: str) -> dict[str, Any]:
    return {"statements": list(texts)}


def parts(*values: Any) -> dict[str, Any]:
    return {"parts": [{"text": f"部分{n}", "reason": "理由", "verdict": v} for n, v in enumerate(values, start=1)]}


def questions(*texts: str, flags: tuple[Any, ...] = ()) -> dict[str, Any]:
    flags = flags or (0,) * len(texts)
    return {"questions": [{"question": t, "noncommittal": f} for t, f in zip(texts, flags, strict=True)]}


def script(server: ScriptedModelServer) -> None:
    """A judge that finds one of two claims unsupported and everything else in order."""
    server.on("relevancy.questions", questions("有給休暇は何日ですか", "有給は何日もらえますか", "休暇の日数は"))
    server.on("relevancy.grades", {"grades": [{"id": n, "reason": "同じ", "grade": 3} for n in (1, 2, 3)]})
    server.on("faithfulness.statements", statements("有給休暇は10日である", "申請は当日でよい"))
    server.on("faithfulness.verdicts", verdicts({1: 1, 2: 0}))
    server.on("correctness.statements", statements("10日付与される", "申請は3営業日前まで"))
    server.on(
        "correctness.classify", {name: [{"id": n, "verdict": 1} for n in (1, 2)] for name in ("answer", "reference")}
    )
    server.on("recall.parts", parts(1, 1))
    server.on("retrieval.economy", _both)
    server.on("precision.chunk", {"reason": "理由", "verdict": 1})
    server.on("precision.chunks", verdicts(1, "contexts"))


def _both(request: Request) -> dict[str, Any]:
    return parts(1, 1) | {"chunks": verdicts(1, "contexts")(request)["verdicts"]}


def invoke(plugin: PluginProcess, tool: str, parameters: Mapping[str, Any], app_id: str | None = "app-1") -> ToolOutput:
    """Calls a tool and holds its output against the contract."""
    output = collect(plugin.invoke_tool(tool, parameters, app_id=app_id, timeout=60))
    check(tool, output)
    return output


def check(tool: str, output: ToolOutput) -> None:
    """Text, JSON, and exactly the declared variables with the declared types, whatever happened."""
    schema, variables = SCHEMAS[tool], output.variables
    kinds = [message["type"] for message in output.messages]
    assert kinds == ["text", "json", *["variable"] * len(schema)]
    assert output.json == [variables]
    assert list(variables) == list(schema)
    for name, value in variables.items():
        if value is None:
            # Only numbers and booleans whose help text says when they are empty.
            assert schema[name]["type"] in {"number", "boolean"}, f"{name} is null"
            assert "empty" in schema[name]["description"], f"{name} is null"
            continue
        expected = TYPES[schema[name]["type"]]
        assert isinstance(value, expected), f"{name} is {value!r}"
        assert bool in expected or not isinstance(value, bool), f"{name} is {value!r}"
    size = len(json.dumps(variables, allow_nan=False, ensure_ascii=False))
    # The line with the JSON and the one with `details` each repeat all of it.
    assert size < MAX_LINE_BYTES / 4
    assert variables["status"] in STATUSES
    assert "\n" not in variables["summary"]
    # It is plain text: what Markdown has to escape stands as it is.
    assert not re.search(r"&#\d+;|\u2060", variables["summary"]), variables["summary"]
    for shown in (output.text, variables["summary"]):
        assert shown.strip()
        assert not re.search(r"\b(None|null|NaN|nan|undefined|Traceback)\b", shown), shown
    if "score" in schema:
        assert "\n" not in output.text
        _check_score(output)


def _check_score(output: ToolOutput) -> None:
    variables = output.variables
    scored = variables["status"] in {"scored", "partial"}
    assert (variables["score"] is not None) == scored
    assert scored or variables["passed"] is None
    assert scored or variables["reason"]
    if scored:
        assert 0 <= variables["score"] <= 1
        assert math.isclose(float(variables["score_text"]), variables["score"], abs_tol=0.01)
    else:
        assert variables["score_text"] in NOT_EVALUATED.values()
    assert variables["score_text"] in variables["summary"]
    assert variables["score_text"] in output.text


def outcome(output: ToolOutput) -> tuple[str, str]:
    """Status and reason."""
    return output.variables["status"], output.variables["reason"]


def rate_limited(wait: str = "10ms") -> dict[str, Any]:
    """The body of a 429; `wait` is what the provider asks for."""
    message = f"Rate limit reached for judge-1 on requests per min. Please try again in {wait}."
    return {"error": {"message": message, "code": "rate_limit_exceeded"}}


def passing_failure(wait: str = "10ms") -> dict[str, Any]:
    """The body of a 500 whose next try may come at once."""
    return {"error": {"message": f"The engine is overloaded. Please try again in {wait}."}}
