"""Tools with a session in memory. Over the real process they are called in tests/tools and tests/apps."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml
from dify_plugin.entities.tool import ToolRuntime
from dify_plugin.file.entities import FileType
from dify_plugin.file.file import File

from bridge.edge import EvaluatorTool
from devhost.files import HostedFiles
from tests.evaluation.fakes import ScriptedJudge, parts, questions, statements, verdicts
from tests.evaluation.runs.fakes import MemoryValues

ROOT = Path(__file__).parents[2]
MODEL = {"provider": "p", "model": "judge-1", "mode": "chat", "completion_params": {}}
TYPES = {"string": str, "number": (int, float), "boolean": bool, "object": dict}


@cache
def declared_outputs(tool: str) -> dict[str, str]:
    """The types of a tool's outputs by name."""
    declared = yaml.safe_load((ROOT / "tools" / f"{tool}.yaml").read_text(encoding="utf-8"))
    return {name: value["type"] for name, value in declared["output_schema"]["properties"].items()}


def judge(**replies: Any) -> ScriptedJudge:
    """Faithfulness 1/2; context recall, context precision and answer relevancy 1."""
    return ScriptedJudge(
        **{
            "faithfulness.statements": statements("10日付与される", "当日申請できる"),
            "faithfulness.verdicts": verdicts(1, 0),
            "recall.parts": parts(1),
            "precision.chunk": {"reason": "理由", "verdict": 1},
            "relevancy.questions": questions("何日もらえますか"),
            "relevancy.grades": {"grades": [{"id": 1, "reason": "同じ", "grade": 3}]},
            **replies,
        }
    )


class Llm:
    """A session's `model.llm` that a scripted judge answers."""

    def __init__(self, scripted: ScriptedJudge) -> None:
        self._judge = scripted

    def invoke(self, *, prompt_messages: Sequence[Any], **_: Any) -> Any:
        text, _ = self._judge.complete(*(message.content for message in prompt_messages))
        return SimpleNamespace(message=SimpleNamespace(content=text), usage=None)


class Chat:
    """A session's `app.chat`: one chunk and an answer for every question."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.reply: Callable[[str], str] = lambda query: f"{query}の答え"

    def invoke(self, *, query: str, **_: Any) -> Any:
        self.asked.append(query)
        result = [{"content": "有給休暇は10日", "title": "規程.md"}]
        yield {
            "event": "node_finished",
            "data": {"node_id": "kr", "node_type": "knowledge-retrieval", "outputs": {"result": result}},
        }
        yield {"event": "message", "answer": self.reply(query)}
        yield {"event": "message_end", "metadata": {}}


class Place:
    """A workspace in which tools are called one after the other.

    Attributes:
        taken: how many of a call's messages are taken before Dify waits no longer, None for all.
    """

    def __init__(self, tool: type[EvaluatorTool], name: str, scripted: ScriptedJudge | None = None) -> None:
        self.values = MemoryValues()
        self.chat = Chat()
        self.taken: int | None = None
        self.judge = scripted or judge()
        self._tool = tool
        self._outputs = declared_outputs(name)

    def call(self, parameters: Mapping[str, Any]) -> "Result":
        """The tool's messages, held against its declared outputs."""
        session: Any = SimpleNamespace(
            app_id="app-1",
            storage=self.values,
            app=SimpleNamespace(chat=self.chat),
            model=SimpleNamespace(llm=Llm(self.judge), text_embedding=None),
        )
        runtime = ToolRuntime(credentials={}, user_id=None, session_id=None)
        messages = self._tool(runtime=runtime, session=session)._invoke(dict(parameters))
        result = Result(list(islice(messages, self.taken)))
        if self.taken is not None:
            return result
        assert list(result.variables) == list(self._outputs)
        assert result.json == result.variables
        for name, value in result.variables.items():
            assert value is None or isinstance(value, TYPES[self._outputs[name]]), f"{name} is {value!r}"
        return result


class Result:
    """A tool's output: text, JSON, variables by name, files by name."""

    def __init__(self, messages: Sequence[Any]) -> None:
        by_type: dict[str, list[Any]] = {}
        for message in messages:
            by_type.setdefault(message.type.value, []).append(message)
        (self.text,) = (message.message.text for message in by_type["text"])
        (self.json,) = (message.message.json_object for message in by_type["json"])
        self.variables = {m.message.variable_name: m.message.variable_value for m in by_type["variable"]}
        self.files = {m.meta["filename"]: (m.meta["mime_type"], m.message.blob) for m in by_type.get("blob", [])}

    def __getitem__(self, name: str) -> Any:
        return self.variables[name]


@cache
def served() -> HostedFiles:
    """What files are fetched from, as long as the tests run."""
    return HostedFiles().__enter__()


class Upload(File):
    """A file as Dify hands it over."""

    @classmethod
    def of(cls, data: bytes, name: str | None = "questions.csv", size: int | None = None) -> "Upload":
        url = served().add(name or "file", data).remote_url
        return cls(url=str(url), filename=name, size=size or len(data), type=FileType.DOCUMENT)
