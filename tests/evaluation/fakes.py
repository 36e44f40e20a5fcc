"""A judge and an embedding model in memory, for the core alone. The real ones are asked over HTTP in tests/tools."""

import json
import threading
from collections.abc import Callable, Sequence
from typing import Any

from evaluation.errors import JudgeError, Reason
from evaluation.judging.clock import Clock
from evaluation.judging.models import Charge, ModelIdentity
from evaluation.judging.session import JudgeSession
from evaluation.sample import Sample, read_contexts

Reply = str | dict[str, Any] | Exception


def failing(reason: Reason, **values: object) -> JudgeError:
    return JudgeError(reason, **values)


class ScriptedJudge:
    """Answers by the prompt's name: a list is used up, its last reply repeats; a callable gets the data."""

    name = "scripted"
    identity = ModelIdentity("scripts", "scripted", {"temperature": 0})

    def __init__(self, **replies: Any) -> None:
        self.replies = {name.replace("__", "."): reply for name, reply in replies.items()}
        self.calls: list[tuple[str, dict[str, Any], str]] = []
        self._lock = threading.Lock()

    def complete(self, system: str, user: str) -> tuple[str, Charge]:
        name = system.splitlines()[0].split()[1]
        data = json.loads(user.split("\n")[1])
        with self._lock:
            self.calls.append((name, data, user))
            reply = self.replies[name]
            if isinstance(reply, list):
                reply = reply.pop(0) if len(reply) > 1 else reply[0]
        if callable(reply):
            reply = reply(data)
        if isinstance(reply, Exception):
            raise reply
        text = reply if isinstance(reply, str) else json.dumps(reply, ensure_ascii=False)
        return text, Charge(10, 5, 0.001, "USD")

    def names(self) -> list[str]:
        return [name for name, _, _ in self.calls]


class ScriptedEmbedder:
    name = "scripted-embedding"
    identity = ModelIdentity("scripts", "scripted-embedding")

    def __init__(self, vectors: Callable[[Sequence[str]], Any]) -> None:
        self.vectors = vectors

    def embed(self, texts: Sequence[str]) -> tuple[list[list[float]], Charge]:
        vectors = self.vectors(texts)
        if isinstance(vectors, Exception):
            raise vectors
        return vectors, Charge(3, 0, 0.0001, "USD")


class FakeClock(Clock):
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.time = 0.0
        self.slept: list[float] = []

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds


def session(
    judge: ScriptedJudge, vectors: Callable[[Sequence[str]], Any] | None = None, **options: Any
) -> JudgeSession:
    language = options.pop("language", "ja")
    return JudgeSession(judge, ScriptedEmbedder(vectors) if vectors else None, language, **options)


def sample(**fields: Any) -> Sample:
    texts = {"question": "有給休暇は何日ですか", "answer": "10日です", "reference": "10日付与されます", **fields}
    contexts = texts.pop("contexts", ["有給休暇は10日", "日当は2,000円"])
    return Sample(**texts, contexts=read_contexts(contexts))


def verdicts(*values: Any, key: str = "verdicts") -> dict[str, Any]:
    return {key: [{"id": number, "reason": "理由", "verdict": value} for number, value in enumerate(values, start=1)]}


def statements(*texts: str) -> dict[str, Any]:
    return {"statements": list(texts)}


def parts(*values: Any) -> dict[str, Any]:
    return {"parts": [{"text": f"部分{n}", "reason": "理由", "verdict": v} for n, v in enumerate(values, start=1)]}


def questions(*texts: str, noncommittal: Sequence[int] = ()) -> dict[str, Any]:
    flags = noncommittal or [0] * len(texts)
    return {"questions": [{"question": t, "noncommittal": f} for t, f in zip(texts, flags, strict=True)]}
