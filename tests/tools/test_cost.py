"""How many calls and prompt characters a score costs, and that independent calls run at the same time."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from devhost.daemon import PluginProcess, ToolOutput
from tests.model_server import ScriptedModelServer
from tests.tools.conftest import Run
from tests.tools.support import CHUNK, METRICS, TEXTS, K, by_chunk, invoke, long_sample, outcome, sample


def four_at_once(plugin: PluginProcess, parameters: dict[str, Any]) -> dict[str, ToolOutput]:
    with ThreadPoolExecutor(len(METRICS)) as pool:
        outputs = list(pool.map(lambda tool: invoke(plugin, tool, parameters), METRICS))
    assert {outcome(output) for output in outputs} == {("scored", "")}
    return dict(zip(METRICS, outputs, strict=True))


@pytest.mark.parametrize("language", ["ja", "en", "zh"])
@pytest.mark.parametrize(("depth", "calls", "characters"), [("standard", 9, 22_000), ("economy", 5, 18_000)])
def test_four_scores_of_one_answer_keep_to_the_budget(
    depth: str, calls: int, characters: int, language: str, plugin: PluginProcess, judge: ScriptedModelServer
) -> None:
    outputs = four_at_once(plugin, long_sample(language, depth=depth))
    assert len(judge.judge_calls) == calls
    assert {call.language for call in judge.judge_calls} == {language}
    assert judge.prompt_characters() <= characters
    # Nothing was left out to get there: the chunks go once to three tools, and the judges see all of each.
    assert judge.prompt_characters() > 3 * K * CHUNK
    assert len(judge.embedding_calls) == 1
    assert sum(output.variables["details"]["usage"]["judge_calls"] for output in outputs.values()) == calls


@pytest.mark.parametrize("language", ["ja", "en", "zh"])
@pytest.mark.parametrize(("depth", "calls", "characters"), [("standard", 9, 22_000), ("economy", 4, 13_000)])
def test_one_node_for_all_scores_keeps_to_the_budget(
    depth: str, calls: int, characters: int, language: str, plugin: PluginProcess, judge: ScriptedModelServer
) -> None:
    output = invoke(plugin, "evaluate_answer", long_sample(language, depth=depth))
    assert outcome(output) == ("scored", "")
    assert output.variables["context_precision"] == 1
    assert len(judge.judge_calls) == calls
    assert 2 * K * CHUNK < judge.prompt_characters() <= characters


@pytest.mark.parametrize(
    ("tool", "changes", "calls"),
    [
        ("answer_relevancy", {}, 1),
        ("answer_relevancy", {"embedding_model": None}, 2),
        ("answer_relevancy", {"question_count": 5}, 1),
        ("faithfulness", {}, 2),
        ("faithfulness", {"votes": "3"}, 4),
        ("faithfulness", {"depth": "careful"}, 3),
        ("faithfulness", {"contexts": []}, 1),
        ("context_recall", {}, 1),
        ("context_recall", {"reference": ""}, 0),
        ("context_precision", {}, 3),
        ("context_precision", {"votes": "3"}, 9),
        ("context_precision", {"depth": "economy"}, 1),
        ("context_precision", {"reference": ""}, 0),
    ],
)
def test_a_tool_makes_no_call_more_than_its_steps(
    tool: str, changes: dict[str, Any], calls: int, run: Run, judge: ScriptedModelServer
) -> None:
    run(tool, **changes)
    assert len(judge.judge_calls) == calls


def test_chunks_are_judged_at_the_same_time_but_never_more_than_eight(run: Run, judge: ScriptedModelServer) -> None:
    judge.latency = 0.15
    started = time.monotonic()
    output = run("context_precision", contexts=[f"資料{n}" for n in range(20)])
    seconds = time.monotonic() - started
    assert output.variables["score"] == 1
    assert judge.max_in_flight() == 8
    # Three rounds of .15 s; one after the other they would take 3 s.
    assert seconds < 1.5


def test_votes_and_batches_share_the_limit_of_eight(run: Run, judge: ScriptedModelServer) -> None:
    judge.latency = 0.05
    run("context_precision", contexts=[f"資料{n}" for n in range(6)], votes=5)
    assert len(judge.judge_calls) == 30
    assert judge.max_in_flight() == 8


def test_four_tools_at_once_overlap(plugin: PluginProcess, judge: ScriptedModelServer) -> None:
    judge.latency = 0.4
    started = time.monotonic()
    four_at_once(plugin, long_sample("ja"))
    seconds = time.monotonic() - started
    # Relevancy, statements, recall and five chunks begin together.
    assert judge.max_in_flight() == 8
    # Two calls in a row at most; all nine in a row would take 3.6 s.
    assert 0.8 <= seconds < 2.4


def test_the_order_of_finishing_does_not_change_the_ranks(run: Run, judge: ScriptedModelServer) -> None:
    verdict = by_chunk({"一": 1, "三": 1})

    def slow_first(request: Any) -> dict[str, Any]:
        time.sleep({"一": 0.3, "二": 0.1}.get(next(c for c in "一二三" if c in request.user), 0))
        return verdict(request)

    judge.on("precision.chunk", slow_first)
    output = run("context_precision", contexts=["一", "二", "三"])
    assert output.variables["score"] == pytest.approx(5 / 6, abs=1e-12)
    assert [chunk["verdict"] for chunk in output.variables["details"]["chunks"]] == [1, 0, 1]


def test_calls_of_two_users_at_once_do_not_mix(plugin: PluginProcess, judge: ScriptedModelServer) -> None:
    judge.latency = 0.05
    judge.on("recall.parts", lambda r: {"parts": [{"text": r.user[r.user.index("番号") :][:4], "verdict": 1}]})
    with ThreadPoolExecutor(12) as pool:
        outputs = list(
            pool.map(
                lambda n: invoke(plugin, "context_recall", sample(reference=f"番号{n:02}です"), f"app-{n}"), range(12)
            )
        )
    assert [output.variables["details"]["parts"][0]["text"] for output in outputs] == [f"番号{n:02}" for n in range(12)]
    assert TEXTS["ja"]["question"] in judge.judge_calls[0].user
