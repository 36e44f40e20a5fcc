"""Models that fail, babble, refuse or keep silent: a reason code and a sentence, and never an invented score."""

import json
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from devhost.daemon import PluginProcess, ToolOutput
from devhost.dify_side import DifySide, ModelServer, Prices, ReverseCall, ReverseCallError, Storage
from tests.model_server import Cut, Failure, Hang, Html, HttpError, NoReply, Request, ScriptedModelServer
from tests.tools.conftest import Run
from tests.tools.support import (
    EMBEDDING,
    METRICS,
    invoke,
    outcome,
    parts,
    passing_failure,
    questions,
    rate_limited,
    sample,
    statements,
    verdicts,
)

RECORDED: Mapping[str, Any] = json.loads(
    (Path(__file__).parent.parent / "data" / "wire" / "judge_errors.json").read_text(encoding="utf-8")
)
FIRST_PROMPT = {
    "answer_relevancy": "relevancy.questions",
    "faithfulness": "faithfulness.statements",
    "context_recall": "recall.parts",
    "context_precision": "precision.chunk",
}
DECOYS = '{"verdict": 1, "score": 1, "statements": ["a"], "questions": [], "parts": []}'


def at_once(plugin: PluginProcess, *tools: str) -> dict[str, ToolOutput]:
    """Calls the tools at the same time, with the ordinary sample."""
    with ThreadPoolExecutor(len(tools)) as pool:
        return dict(zip(tools, pool.map(lambda tool: invoke(plugin, tool, sample()), tools), strict=True))


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("[status=400]", "context_too_long"),
        ("[status=401]", "model_unauthorized"),
        ("[status=404]", "model_not_found"),
    ],
)
def test_lasting_failures_as_a_real_dify_words_them_are_told_apart_without_a_second_try(
    case: str, reason: str, run: Run, plugin: PluginProcess, judge: ScriptedModelServer, storage: Storage
) -> None:
    calls: list[ReverseCall] = []
    plugin.dify = words_of_dify(judge, storage, case, calls)
    output = run("answer_relevancy")
    assert outcome(output) == ("failed", reason)
    assert len(calls) == 1
    assert output.variables["details"]["usage"]["retries"] == 0


def words_of_dify(judge: ScriptedModelServer, storage: Storage, case: str, calls: list[ReverseCall]) -> DifySide:
    dify = DifySide(ModelServer(judge.url), storage)

    def refuse(call: ReverseCall) -> Iterator[tuple[str, dict[str, Any]]]:
        calls.append(call)
        raise ReverseCallError(RECORDED[case]["data"]["message"])
        yield

    dify.handlers["llm"] = refuse
    return dify


def test_failures_that_may_pass_are_tried_four_times(plugin: PluginProcess, judge: ScriptedModelServer) -> None:
    # At once, because each waits 1, 2 and 4 s between its tries: no provider names a time here.
    failures: Mapping[str, Failure] = dict(
        zip(METRICS, (NoReply(), Cut(), Html(), HttpError(500, "oops")), strict=True)
    )
    for tool, failure in failures.items():
        judge.on(FIRST_PROMPT[tool], failure)
    outputs = at_once(plugin, *METRICS)
    for tool, output in outputs.items():
        assert outcome(output) == ("failed", "model_unavailable"), tool
        assert "モデルのサーバーに接続できないか" in output.variables["summary"]
        per_call = len(judge.calls(FIRST_PROMPT[tool])) / output.variables["details"]["usage"]["judge_calls"]
        assert per_call == 4, tool


@pytest.mark.parametrize("failure", [HttpError(429, rate_limited()), HttpError(503, passing_failure())], ids=str)
@pytest.mark.parametrize("tool", METRICS)
def test_a_failure_that_passes_leaves_no_trace_in_the_score(
    tool: str, failure: Failure, run: Run, judge: ScriptedModelServer
) -> None:
    expected = run(tool)
    judge.clear()
    script: dict[str, Any] = {
        "answer_relevancy": questions("有給休暇は何日ですか", "有給は何日もらえますか", "休暇の日数は"),
        "faithfulness": statements("有給休暇は10日である", "申請は当日でよい"),
        "context_recall": parts(1, 1),
        "context_precision": {"reason": "理由", "verdict": 1},
    }
    judge.on(FIRST_PROMPT[tool], [failure, failure, script[tool]])
    output = run(tool)
    assert output.variables["score"] == expected.variables["score"]
    assert outcome(output) == ("scored", "")
    assert output.variables["details"]["usage"]["retries"] == 2


def test_the_wait_is_the_one_that_the_provider_asks_for(run: Run, judge: ScriptedModelServer) -> None:
    judge.on("recall.parts", [HttpError(429, rate_limited("0.6s")), parts(1)])
    run("context_recall")
    first, second = judge.calls("recall.parts")
    assert first.ended is not None
    assert 0.6 <= second.started - first.ended < 2


@pytest.mark.parametrize(
    "failure", [HttpError(429, rate_limited()), HttpError(401), "I can't help with that."], ids=str
)
@pytest.mark.parametrize("tool", METRICS)
def test_one_tools_failure_leaves_the_others_alone(
    tool: str, failure: Any, plugin: PluginProcess, judge: ScriptedModelServer
) -> None:
    judge.on(FIRST_PROMPT[tool], failure)
    outputs = at_once(plugin, *METRICS)
    assert outputs.pop(tool).variables["status"] == "failed"
    assert {outcome(output) for output in outputs.values()} == {("scored", "")}


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "judge_unparseable"),
        ("   \n", "judge_unparseable"),
        ("とてもよい回答だと思います。" * 20, "judge_unparseable"),
        ("満点です。10/10", "judge_unparseable"),
        ("verdict: 1\nscore: 1", "judge_unparseable"),
        ("<think>" + DECOYS * 3, "judge_unparseable"),
        ('{"type": "object", "properties": {"verdict": {"type": "integer", "enum": [0, 1]}}}', "judge_unparseable"),
        ("null", "judge_unparseable"),
        ("[]", "judge_unparseable"),
        ("I'm sorry, but I can't assist with that request.", "judge_refused"),
        ("申し訳ございませんが、この内容にはお答えできません。", "judge_refused"),
        ("抱歉，我无法协助处理这个请求。", "judge_refused"),
    ],
)
@pytest.mark.parametrize("tool", METRICS)
def test_a_reply_without_a_judgement_is_asked_for_once_more_and_then_said(
    tool: str, reply: str, reason: str, run: Run, judge: ScriptedModelServer
) -> None:
    judge.on(FIRST_PROMPT[tool], reply)
    output = run(tool, contexts=["一"])
    assert outcome(output) == ("failed", reason)
    assert [call.prompt for call in judge.judge_calls] == [FIRST_PROMPT[tool]] * 2
    second = judge.judge_calls[1].user
    assert json.dumps(reply[:300], ensure_ascii=False) in second, "the judge is shown what was wrong"


@pytest.mark.parametrize("tool", METRICS)
def test_a_better_second_reply_counts(tool: str, run: Run, judge: ScriptedModelServer) -> None:
    expected = run(tool, contexts=["一"]).variables["score"]
    good = judge._scripts[FIRST_PROMPT[tool]]
    judge.on(FIRST_PROMPT[tool], ["ええと、", good])
    output = run(tool, contexts=["一"])
    assert (outcome(output), output.variables["score"]) == (("scored", ""), expected)


def test_a_judge_that_babbles_for_megabytes_is_read_at_its_end(run: Run, judge: ScriptedModelServer) -> None:
    babble = "なるほど、{これ}は[難しい]問題です。" * 30_000
    judge.on("precision.chunk", babble + '{"reason": "違う", "verdict": 0}')
    started = time.monotonic()
    output = run("context_precision", contexts=["一"])
    assert (outcome(output), output.variables["score"]) == (("scored", ""), 0)
    assert time.monotonic() - started < 8


def test_endless_reasons_do_not_make_an_endless_output(run: Run, judge: ScriptedModelServer) -> None:
    judge.on("precision.chunk", {"reason": "長" * 30_000, "verdict": 1})
    output = run("context_precision", contexts=[f"資料{n}" for n in range(8)])
    assert output.variables["score"] == 1
    assert len(json.dumps(output.variables["details"], ensure_ascii=False)) <= 200_000


def test_one_chunk_without_a_verdict_makes_the_precision_partial(run: Run, judge: ScriptedModelServer) -> None:
    # (1, missing, 1): (1/1 + 2/3) / 2
    judge.on("precision.chunk", lambda request: {"verdict": "?" if "二" in request.user else 1})
    output = run("context_precision", contexts=["一", "二", "三"])
    assert outcome(output) == ("partial", "verdicts_missing")
    assert output.variables["score"] == pytest.approx(5 / 6, abs=1e-12)
    assert "2/3件だけ判定できました" in output.variables["summary"]


def test_one_chunk_whose_call_fails_makes_the_precision_partial(run: Run, judge: ScriptedModelServer) -> None:
    def reply(request: Request) -> Any:
        return HttpError(401, "key") if "二" in request.user else {"verdict": 1}

    judge.on("precision.chunk", reply)
    output = run("context_precision", contexts=["一", "二", "三"])
    assert outcome(output) == ("partial", "model_unauthorized")
    assert output.variables["score"] == pytest.approx(5 / 6, abs=1e-12)


BAD_VECTORS: Mapping[str, Any] = {
    "empty": lambda texts: [[] for _ in texts],
    "zero": lambda texts: [[0.0, 0.0] for _ in texts],
    "null": lambda texts: [[None, 1.0] for _ in texts],
    "one null": lambda texts: [[1.0, 0.0]] * (len(texts) - 1) + [[None, None]],
    "other length": lambda texts: [[1.0, 0.0]] + [[1.0, 0.0, 0.0]] * (len(texts) - 1),
    "fewer": lambda texts: [[1.0, 0.0]] * (len(texts) - 1),
    "more": lambda texts: [[1.0, 0.0]] * (len(texts) + 1),
    "none": lambda _: [],
    "nested": lambda texts: [[[1.0]] for _ in texts],
}


@pytest.mark.parametrize("kind", BAD_VECTORS)
@pytest.mark.parametrize("tool", ["answer_relevancy", "reference_lookup"])
def test_vectors_without_meaning_are_an_invalid_embedding(
    tool: str, kind: str, run: Run, judge: ScriptedModelServer
) -> None:
    # Report 15. NaN can't travel as JSON: Dify sends null in its place.
    judge.on_embedding(BAD_VECTORS[kind])
    output = run(tool, golden="質問\t参照\n休みの日数\t10日")
    assert outcome(output) == ("failed", "embedding_invalid")
    assert "別の埋め込みモデル" in output.variables["summary"]


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (HttpError(401, "bad key"), "model_unauthorized"),
        (HttpError(404, "no such model"), "model_not_found"),
        (HttpError(400, "odd"), "model_error"),
    ],
)
def test_an_embedding_model_that_fails_is_said(
    failure: Failure, reason: str, run: Run, judge: ScriptedModelServer
) -> None:
    judge.on_embedding(failure)
    assert outcome(run("answer_relevancy")) == ("failed", reason)


def test_many_texts_are_embedded_in_batches_and_in_order(run: Run, judge: ScriptedModelServer) -> None:
    table = "質問\t参照\n" + "".join(f"休みの日数を知りたい{chr(0x3042 + n)}\t{n}\n" for n in range(80))
    wanted = f"休みの日数を知りたい{chr(0x3042 + 70)}"
    judge.on_embedding(lambda texts: [[1.0, 0.0] if text in {wanted, "休暇"} else [0.0, 1.0] for text in texts])
    output = run("reference_lookup", question="休暇", golden=table)
    assert output.variables["reference"] == "70"
    assert sorted(len(call.body["input"]) for call in judge.embedding_calls) == [31, 50]


def test_usage_counts_calls_tokens_and_price(
    run: Run, plugin: PluginProcess, judge: ScriptedModelServer, storage: Storage
) -> None:
    prices = Prices(Decimal("0.002"), Decimal("0.008"), Decimal("0.001"), "USD")
    plugin.dify = DifySide(ModelServer(judge.url, prices=prices), storage)
    judge.usage = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
    usage = run("faithfulness").variables["details"]["usage"]
    assert (usage["judge_calls"], usage["embedding_calls"], usage["retries"]) == (2, 0, 0)
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (2000, 200, 2200)
    # Twice 1000 x .002 / 1000 + 100 x .008 / 1000
    assert usage["price"] == pytest.approx(0.0056, abs=1e-12)
    assert usage["currency"] == "USD"
    assert usage["prompt_characters"] == judge.prompt_characters()


def test_a_judge_that_hangs_is_left_and_the_other_tools_answer(
    variant: PluginProcess, judge: ScriptedModelServer
) -> None:
    # Reports 29, 30; this process has 1.5 s for a call.
    judge.on("faithfulness.verdicts", Hang(30))
    started = time.monotonic()
    outputs = at_once(variant, "answer_relevancy", "faithfulness")
    assert time.monotonic() - started < 8
    assert outcome(outputs["faithfulness"]) == ("failed", "timeout")
    assert "制限時間" in outputs["faithfulness"].variables["summary"]
    assert outcome(outputs["answer_relevancy"]) == ("scored", "")


def test_a_call_that_hangs_is_asked_once_more_and_counts(variant: PluginProcess, judge: ScriptedModelServer) -> None:
    judge.on("faithfulness.statements", [Hang(30), statements("有給休暇は10日である", "申請は当日でよい")])
    output = invoke(variant, "faithfulness", sample())
    assert (outcome(output), output.variables["score"]) == (("scored", ""), 0.5)
    assert len(judge.calls("faithfulness.statements")) == 2
    usage = output.variables["details"]["usage"]
    assert (usage["judge_calls"], usage["retries"]) == (2, 1)


def test_a_wait_beyond_the_time_limit_is_not_begun(variant: PluginProcess, judge: ScriptedModelServer) -> None:
    judge.on("faithfulness.statements", HttpError(429, rate_limited("20s")))
    started = time.monotonic()
    assert outcome(invoke(variant, "faithfulness", sample())) == ("failed", "rate_limited")
    assert time.monotonic() - started < 1.5


def test_an_embedding_model_that_hangs_is_left(variant: PluginProcess, judge: ScriptedModelServer) -> None:
    judge.on_embedding(Hang(30))
    assert outcome(invoke(variant, "answer_relevancy", sample())) == ("failed", "timeout")


def test_what_was_judged_in_time_is_kept(variant: PluginProcess, judge: ScriptedModelServer) -> None:
    judge.on("faithfulness.statements", statements(*(f"主張{n}" for n in range(30))))

    def reply(request: Request) -> Any:
        return Hang(30) if '"id":26' in request.user else verdicts(1)(request)

    judge.on("faithfulness.verdicts", reply)
    output = invoke(variant, "faithfulness", sample())
    assert outcome(output) == ("partial", "timeout")
    assert output.variables["score"] == pytest.approx(25 / 30, abs=1e-12)
    assert "25/30件だけ判定できました" in output.variables["summary"]


def test_a_tool_that_exits_is_a_failed_result_and_the_process_lives(variant: PluginProcess) -> None:
    # Report 47
    assert outcome(invoke(variant, "context_recall", sample())) == ("failed", "internal_error")
    assert "SystemExit in main.py:" in variant.logs[-1]["message"]
    assert variant.alive
    assert outcome(invoke(variant, "faithfulness", sample())) == ("scored", "")


def test_an_unexpected_error_is_a_general_sentence_without_its_text(variant: PluginProcess) -> None:
    variant.lines = lines = []
    output = invoke(variant, "context_precision", sample())
    assert outcome(output) == ("failed", "internal_error")
    assert "プラグインのログ" in output.variables["summary"]
    assert "planted-secret-4711" not in json.dumps([line for _, line in lines])
    assert "context_precision failed unexpectedly: RuntimeError in main.py:" in variant.logs[-1]["message"]


def test_the_providers_words_and_keys_do_not_reach_the_output(run: Run, judge: ScriptedModelServer) -> None:
    judge.on("recall.parts", HttpError(401, {"error": {"message": "Incorrect API key provided: sk-proj-4711."}}))
    judge.on_embedding(HttpError(400, "internal host 10.1.2.3 said no"))
    shown = json.dumps([run("context_recall").variables, run("answer_relevancy", embedding_model=EMBEDDING).variables])
    assert "sk-proj" not in shown
    assert "10.1.2.3" not in shown
