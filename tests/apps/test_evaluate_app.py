"""evaluate_app over the real plugin process: an app run by graphon is asked, a scripted judge scores its answers."""

import io
from typing import Any

import pytest
from openpyxl import load_workbook

from devhost.apps import Apps, agent, chatbot
from devhost.daemon import PluginProcess, ToolOutput
from devhost.dify_side import Storage
from devhost.knowledge import KnowledgeBase
from tests.apps.conftest import Evaluate, Publish
from tests.apps.support import (
    answer_of,
    bot_answer,
    changed,
    chatflow,
    counts,
    invoke_app,
    judged,
    parameters,
    progress,
    question,
    rows,
    scored_chatflow,
    selector,
    table,
    tag,
    workflow,
)
from tests.model_server import Request, ScriptedModelServer
from tests.tools.support import METRICS, data_of

# Economy, four scores, no embedding model: two calls each for faithfulness and relevancy, one for the retrieval.
CALLS = 5


def cells(output: ToolOutput) -> list[str]:
    """The texts in the spreadsheet."""
    book = load_workbook(io.BytesIO(output.files[1].blob))
    return [str(cell) for sheet in book for row in sheet.iter_rows(values_only=True) for cell in row if cell]


def test_twenty_questions_are_asked_once_judged_once_and_reported(
    evaluate: Evaluate, apps: Apps, judge: ScriptedModelServer
) -> None:
    output = evaluate(20)
    assert progress(output) == ("scored", "", 20, 20)
    assert output.variables["scores"] == dict.fromkeys(METRICS, 1)
    assert [counts(output, metric)["scored"] for metric in METRICS] == [20] * 4
    assert [apps.asked(question(n)) for n in range(1, 21)] == [1] * 20
    assert judged(judge) == {tag(n): CALLS for n in range(1, 21)}
    assert output.variables["details"]["usage"]["judge_calls"] == 20 * CALLS
    assert 1 < apps.most_in_flight <= 4
    page = output.files[0].blob.decode()
    assert all(question(n) in page for n in range(1, 21))
    assert set(map(question, range(1, 21))) <= set(cells(output))


def test_the_app_is_called_as_a_tool_of_its_user_may_call_it(
    evaluate: Evaluate, apps: Apps, judge: ScriptedModelServer
) -> None:
    evaluate(2, concurrency=1)
    assert [(call.app_id, call.query) for call in apps.calls] == [("bot", question(1)), ("bot", question(2))]
    [bot] = {request.body["model"] for request in judge.requests if request.prompt is None}
    assert bot == "bot"


def test_the_scores_in_a_reply_are_not_judged_with_it(
    evaluate: Evaluate, publish: Publish, judge: ScriptedModelServer, knowledge: KnowledgeBase
) -> None:
    publish(scored_chatflow(knowledge))
    output = evaluate(2, metrics="answer")
    assert progress(output) == ("scored", "", 2, 2)
    # Each answer is judged by the template and by evaluate_app, and is the same to both.
    answers = [data_of(request)["answer"] for request in judge.calls("faithfulness.statements")]
    assert sorted(answers) == [bot_answer(1)] * 2 + [bot_answer(2)] * 2


def test_standard_depth_judges_every_chunk_on_its_own(evaluate: Evaluate, judge: ScriptedModelServer) -> None:
    assert progress(evaluate(1, depth="standard")) == ("scored", "", 1, 1)
    assert len(judge.calls("precision.chunk")) == 2
    assert len(judge.calls("recall.parts")) == 1


def test_a_workflow_a_chatbot_and_an_agent_are_asked_the_same_way(
    evaluate: Evaluate, publish: Publish, apps: Apps, knowledge: KnowledgeBase, judge: ScriptedModelServer
) -> None:
    publish(workflow(knowledge), "workflow")
    source = {"position": 1, "document_name": "規程.md", "content": f"{tag(1)}の申請は1日前までです。"}
    apps.publish("chatbot", chatbot([bot_answer(1)], [source]))
    apps.publish("agent", agent([bot_answer(1)], "dataset_1", str(source["content"])))
    for app_id in ("workflow", "chatbot", "agent"):
        judge.clear()
        output = evaluate(1, app=selector(app_id), run_name=app_id, fresh=True)
        assert progress(output) == ("scored", "", 1, 1), app_id
        assert counts(output)["mean"] == 1
        [request] = judge.calls("faithfulness.verdicts")
        assert "申請は1日前までです。" in request.user


def test_a_wrong_answer_lowers_the_means_and_is_the_first_in_the_report(
    evaluate: Evaluate, judge: ScriptedModelServer
) -> None:
    def verdicts(request: Request) -> dict[str, Any]:
        wrong = tag(3) in request.user
        return {"verdicts": [{"id": 1, "reason": "資料は4日前", "verdict": int(not wrong)}]}

    judge.on("faithfulness.verdicts", verdicts)
    output = evaluate(4, threshold=0.8)
    # 1, 1, 0, 1
    assert output.variables["scores"]["faithfulness"] == 0.75
    assert output.variables["passed"] is False
    assert counts(output)["low"] < 0.75 < counts(output)["high"]
    page = output.files[0].blob.decode()
    assert page.index(question(3)) < page.index(question(1))
    assert "資料は4日前" in page


def test_further_columns_fill_the_inputs_of_the_app(
    evaluate: Evaluate, publish: Publish, apps: Apps, knowledge: KnowledgeBase
) -> None:
    declared = {"label": "部署", "type": "text-input", "variable": "dept", "required": True}
    publish(changed(chatflow(knowledge), "start", variables=[declared]))
    records = [{**record, "dept": "総務部"} for record in rows(2)]
    assert progress(evaluate(golden=table(records))) == ("scored", "", 2, 2)
    assert {call.inputs["dept"] for call in apps.calls} == {"総務部"}


def test_a_column_wins_over_the_input_that_is_set_with_the_app(evaluate: Evaluate, apps: Apps) -> None:
    records = [{**rows(1)[0], "dept": "総務部"}]
    evaluate(golden=table(records), app=selector("bot", dept="人事部", site="東京"))
    assert (apps.calls[0].inputs["dept"], apps.calls[0].inputs["site"]) == ("総務部", "東京")


def test_an_input_that_is_missing_is_named(evaluate: Evaluate, publish: Publish, knowledge: KnowledgeBase) -> None:
    declared = {"label": "部署", "type": "text-input", "variable": "dept", "required": True}
    publish(changed(chatflow(knowledge), "start", variables=[declared]))
    output = evaluate(2)
    assert output.variables["status"] == "failed"
    assert output.variables["details"]["failed_rows"] == 2
    assert "dept is required in input form" in output.files[0].blob.decode()


def test_the_question_is_given_to_a_chatflow_whose_inputs_of_the_usual_names_mean_something_else(
    evaluate: Evaluate, publish: Publish, apps: Apps, knowledge: KnowledgeBase
) -> None:
    short = {"label": "件名", "type": "text-input", "variable": "text", "required": False, "max_length": 5}
    choice = {"label": "種類", "type": "select", "variable": "input", "required": False, "options": ["a", "b"]}
    publish(changed(chatflow(knowledge), "start", variables=[short, choice]))
    assert progress(evaluate(3, concurrency=1)) == ("scored", "", 3, 3)
    # The first row finds out what does not fit, the others leave it out.
    assert len(apps.calls) == 5
    assert not {"text", "input"} & set(apps.calls[-1].inputs)


def test_categories_have_statistics_of_their_own(evaluate: Evaluate) -> None:
    records = [{**record, "カテゴリ": "休暇" if n % 2 else "出張"} for n, record in enumerate(rows(3), start=1)]
    output = evaluate(golden=table(records))
    categories = output.variables["details"]["categories"]
    assert {name: metrics["faithfulness"]["scored"] for name, metrics in categories.items()} == {"休暇": 2, "出張": 1}


def test_each_question_is_asked_as_often_as_wanted(evaluate: Evaluate, apps: Apps, judge: ScriptedModelServer) -> None:
    output = evaluate(2, repeat=3)
    assert progress(output) == ("scored", "", 6, 6)
    assert (apps.asked(question(1)), apps.asked(question(2))) == (3, 3)
    assert counts(output)["scored"] == 6
    # The same answers each time: they are judged once.
    assert output.variables["details"]["reused_rows"] + len(judge.calls("faithfulness.statements")) >= 6


def test_answers_that_have_not_changed_keep_their_scores(
    evaluate: Evaluate, apps: Apps, judge: ScriptedModelServer
) -> None:
    evaluate(3)
    changed_answer = f"{tag(2)}には期限がありません。"
    judge.on_chat(lambda request: changed_answer if tag(2) in request.user else answer_of(request))
    judge.clear()
    output = evaluate(3)
    assert progress(output) == ("scored", "", 3, 3)
    assert [apps.asked(question(n)) for n in (1, 2, 3)] == [2, 2, 2]
    assert output.variables["details"]["reused_rows"] == 2
    assert judged(judge) == {tag(2): CALLS}
    judge.clear()
    again = evaluate(3, fresh=True)
    assert again.variables["details"]["reused_rows"] == 0
    assert set(judged(judge)) == {tag(1), tag(2), tag(3)}


def test_a_run_is_compared_with_the_one_before_and_with_a_named_one(
    evaluate: Evaluate, judge: ScriptedModelServer
) -> None:
    evaluate(8, run_name="基準")
    judge.on("faithfulness.verdicts", {"verdicts": [{"id": 1, "reason": "", "verdict": 0}]})
    worse = evaluate(8, run_name="変更後", compare_with="基準", fresh=True)
    assert worse.variables["details"]["compared_with"] == "基準 #1"
    difference = worse.variables["details"]["comparison"]["differences"]["faithfulness"]
    assert (difference["mean"], difference["pairs"], difference["sign"]) == (-1, 8, "worse")
    same = evaluate(8, run_name="変更後")
    assert same.variables["details"]["compared_with"] == "変更後 #1"
    assert same.variables["details"]["comparison"]["differences"]["faithfulness"]["sign"] == "no_clear_difference"


def test_old_runs_are_deleted_only_when_asked(evaluate: Evaluate, storage: Storage) -> None:
    for _ in range(2):
        evaluate(1)
    assert len(rows_kept(storage)) == 2
    evaluate(1, keep_runs=1)
    assert len(rows_kept(storage)) == 1


def rows_kept(storage: Storage) -> list[str]:
    return [key for key in storage.snapshot() if key.startswith("runs/") and key.endswith("/1-1")]


@pytest.mark.parametrize("metrics", ["four_and_correctness", "retrieval"])
def test_only_the_chosen_scores_are_given(metrics: str, evaluate: Evaluate) -> None:
    expected = {
        "four_and_correctness": [*METRICS, "answer_correctness"],
        "retrieval": ["context_recall", "context_precision"],
    }
    output = evaluate(1, metrics=metrics)
    assert list(output.variables["scores"]) == sorted(expected[metrics])


def test_the_result_is_in_the_language_of_the_questions(evaluate: Evaluate, judge: ScriptedModelServer) -> None:
    output = evaluate(golden="question,reference\nHow many days before for R-01?,One day before.", run_name="en")
    assert output.files[0].blob.decode().count('lang="en"') == 1
    assert {request.language for request in judge.judge_calls} == {"en"}


def test_models_come_from_judge_settings_when_none_is_chosen(plugin: PluginProcess, evaluate: Evaluate) -> None:
    settings = {"model": parameters()["model"]}
    list(plugin.invoke_tool("judge_settings", settings, app_id="evaluation"))
    assert progress(evaluate(1, model=None)) == ("scored", "", 1, 1)
    other = invoke_app(plugin, parameters(1, model=None), "another app")
    assert progress(other) == ("failed", "model_not_selected", 0, 0)
