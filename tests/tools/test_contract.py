"""Every way that a call can end: the same contract, a fixed reason, a sentence in the question's language."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from devhost.daemon import PluginProcess
from devhost.dify_side import DifySide, ModelServer, ReverseCall, ReverseCallError, Storage
from evaluation.errors import UNSEEN, Reason
from tests.model_server import Failure, HttpError, ScriptedModelServer
from tests.tools.conftest import Run
from tests.tools.support import (
    METRICS,
    MODEL,
    NOT_EVALUATED,
    TEXTS,
    outcome,
    parts,
    passing_failure,
    questions,
    rate_limited,
    statements,
    verdicts,
)

FILE = {
    "dify_model_identity": "__dify__file__",
    "url": "http://127.0.0.1:9/a.pdf",
    "mime_type": "application/pdf",
    "type": "document",
    "filename": "a.pdf",
    "extension": ".pdf",
    "size": 12,
}
TOO_LONG = HttpError(400, {"error": {"message": "This model's maximum context length is 8192 tokens. Please reduce."}})
PROMPTS = (
    "relevancy.questions",
    "faithfulness.statements",
    "recall.parts",
    "correctness.statements",
    "precision.chunk",
)

type Arrangement = Callable[[ScriptedModelServer], None]


def every_prompt(reply: Any) -> Arrangement:
    def arrange(server: ScriptedModelServer) -> None:
        for prompt in PROMPTS:
            server.on(prompt, reply)

    return arrange


def on(prompt: str, reply: Any) -> Arrangement:
    return lambda server: server.on(prompt, reply)


def embedding(failure: Failure | Callable[[list[str]], Any]) -> Arrangement:
    return lambda server: server.on_embedding(failure)


def nothing(_: ScriptedModelServer) -> None:
    pass


@dataclass(frozen=True)
class Path:
    """One way that a call ends.

    Attributes:
        changes: to the ordinary sample; None leaves a parameter out.
    """

    tools: tuple[str, ...]
    status: str
    reason: Reason
    arrange: Arrangement = nothing
    changes: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.reason or self.status}-{self.tools[0]}"


TABLE = "質問\t参照\n{question}\t十日\n"
LOOKUP = ("reference_lookup",)
SETTINGS = ("judge_settings",)
WITH_ANSWER = ("answer_relevancy", "faithfulness")
WITH_REFERENCE = ("context_recall", "context_precision")
WITH_CONTEXTS = METRICS[1:]

PATHS = [
    Path(METRICS, "scored", Reason.NONE),
    Path(("answer_relevancy",), "scored", Reason.NONE, changes={"embedding_model": None}),
    Path(LOOKUP, "scored", Reason.NONE, changes={"golden": TABLE}),
    Path(SETTINGS, "scored", Reason.NONE),
    Path(METRICS, "failed", Reason.NO_QUESTION, changes={"question": ""}),
    Path(LOOKUP, "failed", Reason.NO_QUESTION, changes={"question": "", "golden": TABLE}),
    Path(WITH_ANSWER, "not_applicable", Reason.NO_ANSWER, changes={"answer": None}),
    Path(WITH_ANSWER, "not_applicable", Reason.ONLY_THOUGHTS, changes={"answer": "<think>10日か20日か"}),
    Path(WITH_REFERENCE, "not_applicable", Reason.NO_REFERENCE, changes={"reference": ""}),
    Path(LOOKUP, "not_applicable", Reason.NO_REFERENCE, changes={"golden": "質問\t参照\n{question}\t\n他\t答え\n"}),
    Path(WITH_CONTEXTS, "scored", Reason.NO_CONTEXTS, changes={"contexts": []}),
    Path(("faithfulness",), "not_applicable", Reason.NO_CLAIMS, on("faithfulness.statements", statements())),
    Path(
        ("answer_relevancy",),
        "scored",
        Reason.NONCOMMITTAL,
        on("relevancy.questions", questions("有給休暇は何日ですか", flags=(1,))),
    ),
    Path((*METRICS, *LOOKUP), "failed", Reason.NOT_TEXT, changes={"question": FILE, "golden": TABLE}),
    Path((*METRICS, *LOOKUP), "failed", Reason.NOT_CONNECTED, changes={"question": "sys.query", "golden": TABLE}),
    Path(WITH_ANSWER, "failed", Reason.INPUT_TOO_LONG, changes={"answer": "あ" * 100_001}),
    Path((*METRICS, *LOOKUP), "failed", Reason.INVALID_SETTING, changes={
        "threshold": 2, "min_similarity": -1, "golden": TABLE,
    }),
    Path((*METRICS, *SETTINGS), "failed", Reason.MODEL_NOT_SELECTED, changes={"model": None}),
    Path(METRICS, "failed", Reason.JUDGE_UNPARSEABLE, every_prompt("よく分かりませんでした。")),
    Path(METRICS, "failed", Reason.JUDGE_REFUSED, every_prompt("申し訳ありませんが、お答えできません。")),
    Path(METRICS, "failed", Reason.JUDGE_UNPARSEABLE, every_prompt("<think>10日か20日か")),
    Path(("faithfulness",), "partial", Reason.VERDICTS_MISSING, on("faithfulness.verdicts", verdicts({1: 1}))),
    Path(METRICS, "failed", Reason.RATE_LIMITED, every_prompt(HttpError(429, rate_limited()))),
    Path(METRICS, "failed", Reason.QUOTA_EXHAUSTED, every_prompt(HttpError(402, "Insufficient Balance"))),
    Path(METRICS, "failed", Reason.CONTEXT_TOO_LONG, every_prompt(TOO_LONG)),
    Path(METRICS, "failed", Reason.MODEL_UNAVAILABLE, every_prompt(HttpError(503, passing_failure()))),
    Path(METRICS, "failed", Reason.MODEL_UNAUTHORIZED, every_prompt(HttpError(401, {"error": {"message": "key"}}))),
    Path(METRICS, "failed", Reason.MODEL_NOT_FOUND, every_prompt(HttpError(404, {"error": {"message": "no model"}}))),
    Path(METRICS, "failed", Reason.MODEL_ERROR, every_prompt(HttpError(400, {"error": {"message": "odd"}}))),
    Path(("answer_relevancy",), "failed", Reason.EMBEDDING_INVALID, embedding(lambda texts: [[0.0]] * len(texts))),
    Path(LOOKUP, "failed", Reason.EMBEDDING_INVALID, embedding(lambda texts: [[0.0]] * len(texts)), {
        "golden": "質問\t参照\n休みの日数\t十日\n",
    }),
    Path(LOOKUP, "failed", Reason.NO_TABLE, changes={"golden": " \n"}),
    Path(LOOKUP, "failed", Reason.TABLE_UNREADABLE, changes={"golden": "表です"}),
    Path(LOOKUP, "not_applicable", Reason.NOT_FOUND, changes={
        "golden": "質問\t参照\n経費の締めはいつ\t月末\n", "embedding_model": None,
    }),
    Path(LOOKUP, "not_applicable", Reason.AMBIGUOUS_MATCH, changes={
        "golden": "質問\t参照\n{question}甲\t十日\n{question}乙\t二十日\n", "embedding_model": None,
    }),
]  # fmt: skip
# Reached in tests of their own: they need an app, a storage or a process of another kind.
ELSEWHERE = {Reason.NO_APP, Reason.STORAGE_FAILED, Reason.TIMEOUT, Reason.INTERNAL_ERROR, Reason.DIFY_BUSY}
# Those that only evaluate_app gives.
OF_APPS = {reason for reason in Reason if reason.startswith(("app_", "run_", "file_"))} | {
    *UNSEEN,
    Reason.TOO_MANY_ROWS,
    Reason.STORAGE_FULL,
}
# Those of tables that are kept and of drafts for them: tests/tools/test_question_table.py, test_draft_golden.py.
OF_TABLES = {
    *(
        reason
        for reason in Reason
        if reason.startswith(("table_", "knowledge_")) and reason is not Reason.TABLE_UNREADABLE
    ),
    *(Reason.NO_TABLE_NAME, Reason.KEPT_BY_NEWER, Reason.NO_PASSAGES, Reason.FEWER_DRAFTS),
    *(Reason.CALL_LIMIT, Reason.DRAFTING_BUSY),
}


def in_language(text: str, language: str) -> bool:
    kana, han = re.search(r"[\u3041-\u30ff]", text), re.search(r"[\u4e00-\u9fff]", text)
    return {"ja": bool(kana), "en": not kana and not han, "zh": bool(han) and not kana}[language]


@pytest.mark.parametrize("language", ["ja", "en", "zh"])
@pytest.mark.parametrize("path", PATHS, ids=str)
def test_every_end_of_a_call_keeps_the_contract_in_the_questions_language(
    path: Path, language: str, run: Run, judge: ScriptedModelServer
) -> None:
    path.arrange(judge)
    question = TEXTS[language]["question"]
    changes = {
        name: value.format(question=question) if name == "golden" else value for name, value in path.changes.items()
    }
    for tool in path.tools:
        # judge_settings has no text of its own to tell the language from.
        setting = {"language": language} if tool == "judge_settings" else {}
        output = run(tool, language, **changes, **setting)
        assert outcome(output) == (path.status, path.reason.value), output.variables["summary"]
        spoken = output.variables["summary"]
        for quoted in _quoted(output.variables):
            spoken = spoken.replace(quoted, "")
        assert in_language(spoken, language), spoken
        if path.status in {"failed", "not_applicable"} and tool in METRICS:
            assert output.variables["score_text"] == NOT_EVALUATED[language]


def _quoted(variables: Mapping[str, Any]) -> list[str]:
    """What a summary may quote in another language: the judge's and the table's words, and model names."""
    details = variables["details"]
    entries = [*details.get("claims", []), *details.get("parts", []), *details.get("questions", [])]
    names = [details.get("nearest", ""), variables.get("matched_question", "")]
    said = [text for entry in entries for text in (entry["text"], entry.get("reason", ""))]
    return [text for text in [*said, *names] if text]


def test_the_table_above_reaches_every_reason_there_is() -> None:
    assert {path.reason for path in PATHS} | ELSEWHERE == set(Reason) - OF_APPS - OF_TABLES
    assert not {path.reason for path in PATHS} & ELSEWHERE


@pytest.mark.parametrize("tool", METRICS)
@pytest.mark.parametrize(("threshold", "passed"), [(None, None), (0, True), (0.4, True), (1, False), ("50%", True)])
def test_passed_follows_the_threshold(tool: str, threshold: Any, passed: bool | None, run: Run, judge: Any) -> None:
    # Each score is .5: one of two claims, parts, equally near questions; chunks (0, 1) -> (1/2) / 1.
    judge.on("recall.parts", parts(1, 0))
    judge.on("precision.chunk", lambda request: {"verdict": int("二" in request.user)})
    judge.on_embedding(lambda texts: [[1.0, 0.0], *[[0.5, 0.75**0.5]] * (len(texts) - 1)])
    output = run(tool, threshold=threshold, contexts=["一", "二"])
    assert output.variables["score"] == pytest.approx(0.5, abs=1e-12)
    assert output.variables["passed"] is passed


def test_settings_outside_of_an_app_say_so(run: Run) -> None:
    output = run("judge_settings", app_id=None, language="en")
    assert outcome(output) == ("failed", Reason.NO_APP)
    assert output.variables["saved"] is False


def test_a_storage_without_space_is_said_and_not_raised(
    run: Run, plugin: PluginProcess, judge: ScriptedModelServer
) -> None:
    dify = DifySide(ModelServer(judge.url))
    answer = dify.handlers["storage"]
    # As if the manifest had asked for ten bytes.
    dify.handlers["storage"] = lambda call: answer(replace(call, permission={"storage": {"enabled": True, "size": 10}}))
    plugin.dify = dify
    output = run("judge_settings")
    assert outcome(output) == ("failed", Reason.STORAGE_FAILED)
    assert output.variables["saved"] is False


def test_a_judge_without_an_answer_in_time_is_a_timeout(
    plugin: PluginProcess, judge: ScriptedModelServer, storage: Storage, run: Run
) -> None:
    # The SDK's words after 250 s without an answer.
    dify = DifySide(ModelServer(judge.url), storage)
    dify.handlers["llm"] = refuse("invocation exited without response after 250 seconds")
    plugin.dify = dify
    for tool in METRICS:
        assert outcome(run(tool)) == ("failed", Reason.TIMEOUT)


def refuse(words: str) -> Callable[[ReverseCall], Any]:
    def handler(_: ReverseCall) -> Any:
        raise ReverseCallError(words)

    return handler


@pytest.mark.parametrize("field", ["provider", "model"])
def test_a_selector_without_a_name_selects_nothing(field: str, run: Run) -> None:
    assert outcome(run("faithfulness", model={**MODEL, field: ""})) == ("failed", Reason.MODEL_NOT_SELECTED)
