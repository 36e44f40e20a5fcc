"""Inputs that are no text, are missing, or are far too large: said in the question's language, never raised."""

from typing import Any

import pytest

from devhost.daemon import PluginProcess, collect
from tests.model_server import ScriptedModelServer
from tests.tools.conftest import Run
from tests.tools.support import (
    DECLARED,
    METRICS,
    PARAMETERS,
    SCHEMAS,
    check,
    data_of,
    items,
    outcome,
    statements,
    verdicts,
)
from tests.tools.test_contract import FILE, TOO_LONG

READS = {
    "answer_relevancy": ("question", "answer"),
    "faithfulness": ("question", "answer"),
    "context_recall": ("question", "reference"),
    "context_precision": ("question", "reference"),
    "reference_lookup": ("question", "golden"),
}
FIELDS = [(tool, name) for tool, names in READS.items() for name in names]
MISSING = {
    "question": ("failed", "no_question"),
    "answer": ("not_applicable", "no_answer"),
    "reference": ("not_applicable", "no_reference"),
    "golden": ("failed", "no_table"),
}
LABELS = {
    "question": "質問",
    "answer": "回答",
    "reference": "参照",
    "golden": "質問と参照の表",
    "contexts": "コンテキスト",
}
TABLE = "質問\t参照\n有給休暇は何日もらえますか\t10日\n"


QUOTED = "kr_result *a* [x](https://a.example/b_c) <b> & $1 `z` ~ | 社内"


@pytest.mark.parametrize(
    "tool", [*METRICS, "evaluate_answer", "answer_correctness", "reference_lookup", "judge_settings"]
)
def test_what_a_summary_quotes_stands_in_it_as_it_is(tool: str, run: Run, judge: ScriptedModelServer) -> None:
    judge.on("faithfulness.statements", statements(QUOTED))
    judge.on("faithfulness.verdicts", verdicts(0, reason=QUOTED))
    judge.on("recall.parts", {"parts": [{"text": QUOTED, "reason": QUOTED, "verdict": 0}]})
    judge.on("relevancy.questions", {"questions": [{"question": QUOTED, "noncommittal": 0}]})
    judge.on_embedding(lambda texts: [[1.0, float(index)] for index, _ in enumerate(texts)])
    changes: dict[str, Any] = {"golden": f"質問\t参照\n{QUOTED}\t10日\n", "question": f"{QUOTED}？"}
    if tool == "judge_settings":
        changes["model"] = {"provider": "p", "model": QUOTED, "mode": "chat"}
    # `run` holds every summary against the contract: no entity, no Markdown of ours.
    output = run(tool, **changes)
    if tool in {"faithfulness", "context_recall", "judge_settings"}:
        assert QUOTED in output.variables["summary"]
    assert "<b>" not in output.text
    assert "](" not in output.text


@pytest.mark.parametrize("value", [None, [None], [""], "", "  \n", []], ids=repr)
@pytest.mark.parametrize(("tool", "field"), FIELDS)
def test_an_unset_text_is_missing(tool: str, field: str, value: Any, run: Run) -> None:
    output = run(tool, **{"golden": TABLE, field: value})
    assert outcome(output) == MISSING[field]


@pytest.mark.parametrize("value", [FILE, [FILE], [FILE, FILE], 42, True, {"a": 1}, ["一", "二"]], ids=str)
@pytest.mark.parametrize(("tool", "field"), FIELDS)
def test_what_is_no_text_is_named_in_the_summary(
    tool: str, field: str, value: Any, run: Run, judge: ScriptedModelServer
) -> None:
    output = run(tool, **{"golden": TABLE, field: value})
    assert outcome(output) == ("failed", "not_text")
    assert output.variables["summary"].count(LABELS[field]) == 1 + (LABELS[field] in _name(tool))
    assert "文章ではありません" in output.variables["summary"]
    assert not judge.requests


def _name(tool: str) -> str:
    return "回答関連性" if tool == "answer_relevancy" else ""


@pytest.mark.parametrize("value", [FILE, [FILE], 42, [1, 2], [True]], ids=str)
@pytest.mark.parametrize("tool", METRICS[1:])
def test_contexts_without_any_text_are_refused_and_not_taken_for_an_empty_retrieval(
    tool: str, value: Any, run: Run
) -> None:
    output = run(tool, contexts=value)
    assert outcome(output) == ("failed", "not_text")
    assert LABELS["contexts"] in output.variables["summary"]


def test_items_without_text_are_left_out_and_counted(run: Run) -> None:
    output = run("context_precision", contexts=[None, *items("一", "  ", "二", "一"), {"content": None}, FILE])
    assert output.variables["details"]["contexts"] == {"chunks": 2, "dropped": 4, "duplicates": 1}


@pytest.mark.parametrize("tool", SCHEMAS)
def test_a_call_without_any_parameter_is_answered(tool: str, plugin: PluginProcess) -> None:
    output = collect(plugin.invoke_tool(tool, {}, timeout=20))
    check(tool, output)
    assert output.variables["status"] == "failed"


@pytest.mark.parametrize("tool", SCHEMAS)
def test_parameters_of_every_wrong_type_are_answered(tool: str, plugin: PluginProcess) -> None:
    for value in ({"a": [1, None]}, [[[]]], -7.5, True, [None, None], "…", FILE):
        output = collect(plugin.invoke_tool(tool, dict.fromkeys(PARAMETERS[tool], value), timeout=20))
        check(tool, output)
        assert output.variables["status"] == "failed"
        assert output.variables["reason"] != "internal_error"


@pytest.mark.parametrize(
    ("tool", "name"),
    [
        (tool, entry["name"])
        for tool in (*READS, "answer_correctness", "evaluate_answer")
        for entry in DECLARED[tool]["parameters"]
        if entry["type"] == "number"
    ],
)
def test_every_number_that_is_none_is_named(tool: str, name: str, run: Run) -> None:
    output = run(tool, **{"golden": TABLE, name: "たくさん"})
    assert outcome(output) == ("failed", "invalid_setting")
    assert "「たくさん」は使えません" in output.variables["summary"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("threshold", "高い"),
        ("threshold", 1.5),
        ("threshold", True),
        ("votes", 2),
        ("votes", "たくさん"),
        ("depth", "deep"),
        ("depth", {}),
        ("depth", ["careful"]),
    ],
)
def test_a_setting_that_can_not_be_is_named(name: str, value: Any, run: Run, judge: ScriptedModelServer) -> None:
    output = run("faithfulness", **{name: value})
    assert outcome(output) == ("failed", "invalid_setting")
    assert f"（{name}）" in output.variables["summary"]
    assert not judge.requests


@pytest.mark.parametrize("value", [0, 11, 2.5, "三"])
def test_a_question_count_that_can_not_be_is_named(value: Any, run: Run) -> None:
    output = run("answer_relevancy", question_count=value)
    assert outcome(output) == ("failed", "invalid_setting")
    assert "（question_count）" in output.variables["summary"]


@pytest.mark.parametrize("value", [None, "", 0.7, "0.7", "０．７", "70%"])
def test_an_empty_or_oddly_written_threshold_is_read(value: Any, run: Run) -> None:
    output = run("faithfulness", threshold=value)
    assert output.variables["passed"] is (False if value else None)


@pytest.mark.parametrize("language", ["fr", "", None, 3, {}])
def test_an_unknown_language_follows_the_question(language: Any, run: Run, judge: ScriptedModelServer) -> None:
    assert run("faithfulness", language=language).variables["details"]["language"] == "ja"
    assert {call.language for call in judge.judge_calls} == {"ja"}


def test_an_answer_of_four_megabytes_is_refused_with_its_length(run: Run, judge: ScriptedModelServer) -> None:
    text = "有給休暇は10日です。" * 120_000
    output = run("faithfulness", answer=text)
    assert outcome(output) == ("failed", "input_too_long")
    assert "1,320,000文字" in output.variables["summary"]
    assert "100,000文字" in output.variables["summary"]
    assert not judge.requests


def test_contexts_of_300_kb_are_judged_whole_in_windows(run: Run, judge: ScriptedModelServer) -> None:
    # 125 chunks of 800 characters, 300 kB in UTF-8; what supports the claim stands in the last one.
    chunks = [f"{n:03}" + "資料の文です。" * 114 for n in range(124)] + ["124根拠" + "あ" * 790]
    assert sum(len(chunk.encode()) for chunk in chunks) > 290_000
    judge.on("faithfulness.statements", statements("主張"))
    judge.on("faithfulness.verdicts", lambda request: verdicts(int("根拠" in request.user))(request))
    output = run("faithfulness", contexts=items(*chunks))
    assert (outcome(output), output.variables["score"]) == (("scored", ""), 1)
    seen = [text for call in judge.calls("faithfulness.verdicts") for text in data_of(call)["contexts"]]
    assert sorted(seen) == chunks
    assert len(judge.calls("faithfulness.verdicts")) > 1


def test_contexts_of_300_kb_in_one_chunk_are_judged_whole(run: Run, judge: ScriptedModelServer) -> None:
    text = "資料の文です。" * 14_000 + "根拠"
    judge.on("precision.chunk", lambda request: {"verdict": int("根拠" in request.user)})
    output = run("context_precision", contexts=[text])
    assert (outcome(output), output.variables["score"]) == (("scored", ""), 1)
    assert sum(len(data_of(call)["context"]) for call in judge.calls("precision.chunk")) == len(text)


def test_a_chunk_that_the_judge_can_not_read_at_once_is_halved(run: Run, judge: ScriptedModelServer) -> None:
    judge.on("precision.chunk", lambda r: TOO_LONG if len(r.user) > 3000 else {"verdict": int("根拠" in r.user)})
    output = run("context_precision", contexts=["資料の文です。" * 700 + "根拠"])
    assert (outcome(output), output.variables["score"]) == (("scored", ""), 1)


@pytest.mark.parametrize(
    ("inputs", "language"),
    [
        ({"question": FILE, "answer": "Ten days."}, "en"),
        ({"question": FILE}, "ja"),
        ({"question": [None]}, "ja"),
        ({"question": "sys.query"}, "ja"),
        ({"question": 42, "answer": "共10天，当天申请也可以吗"}, "zh"),
        # Written without kana, but with characters that only Chinese has.
        ({"question": "带薪年假有多少天？", "answer": "10天"}, "zh"),
        # Could be either: the answer's kana decides.
        ({"question": "有給休暇日数"}, "ja"),
        ({"question": "有給休暇日数", "answer": "十日", "contexts": None}, "zh"),
        ({"question": "???", "answer": "…"}, "ja"),
    ],
)
def test_the_language_comes_from_the_first_input_that_is_text(inputs: Any, language: str, run: Run) -> None:
    word = {"ja": "忠実性", "en": "Faithfulness", "zh": "忠实度"}[language]
    assert word in run("faithfulness", reference=None, **inputs).variables["summary"]


HOSTILE = "| a | b |\n</details><script>x</script> [link](http://x.example) **b** $x$ `c` <img src=x>\u202e"


def test_what_a_summary_quotes_can_not_break_the_chats_markdown(run: Run, judge: ScriptedModelServer) -> None:
    judge.on("faithfulness.statements", statements(HOSTILE))
    judge.on("faithfulness.verdicts", verdicts(0))
    judge.on("recall.parts", {"parts": [{"text": HOSTILE, "reason": HOSTILE, "verdict": 0}]})
    shown = [run(tool).text for tool in ("faithfulness", "context_recall")]
    shown += [run("faithfulness", question=f"{HOSTILE[:20]}.text").text, run("faithfulness", votes=HOSTILE).text]
    shown.append(run("reference_lookup", golden=f"質問\t参照\n有給{HOSTILE.splitlines()[1]}\t10日").text)
    shown.append(run("judge_settings", model={"provider": "a", "model": HOSTILE}).text)
    for text in shown:
        rest = text.replace("**", "", 2)
        assert not any(mark in rest for mark in ("<", "|", "**", "](", "$", "`", "http://x", "\u202e")), text
