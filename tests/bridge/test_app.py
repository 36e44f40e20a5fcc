import json
from typing import Any

import pytest

from bridge import app
from bridge.app import MAX_ROWS, AppTool, first_rows, read_request
from bridge.tables import read_questions
from evaluation.errors import EvaluationError, Reason
from evaluation.golden.table import Row, Table
from evaluation.judging.clock import Clock, Deadline
from evaluation.report import spreadsheet
from evaluation.runs.lock import RunLock
from evaluation.runs.request import RunRequest
from evaluation.runs.store import LOCK, RunStore, run_base
from evaluation.sample import MAX_TEXT_CHARACTERS
from evaluation.texts import load_texts
from tests.bridge.support import MODEL, Place, Result, Upload, judge
from tests.evaluation.fakes import failing
from tests.evaluation.runs.fakes import ManualClock, MemoryValues, settings

TABLE = "質問\t参照\n有給休暇は何日ですか\t10日です\n日当はいくらですか\t2,000円です\n"
APP = {"app_id": "app-2"}


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evaluation.storage.lock.SETTLING_SECONDS", 0.0)
    monkeypatch.setattr("evaluation.storage.register.SETTLING_SECONDS", 0.0)


@pytest.fixture
def place() -> Place:
    return Place(AppTool, "evaluate_app")


def evaluate(place: Place, **changes: Any) -> Result:
    parameters = {"app": APP, "golden": TABLE, "model": MODEL, "concurrency": 1.0, **changes}
    return place.call({name: value for name, value in parameters.items() if value is not None})


def read_rows(parameters: dict[str, Any]) -> Table:
    return first_rows(read_questions(parameters, MemoryValues()), parameters).table


def reason_of(parameters: dict[str, Any]) -> Reason:
    with pytest.raises(EvaluationError) as caught:
        read_rows(parameters)
    return caught.value.reason


# --- the table ---


def test_files_are_read_behind_the_pasted_table() -> None:
    first = Upload.of("質問,参照\n三つ目,C\n".encode("cp932"))
    second = Upload.of(b'{"question": "four", "reference": "D"}', "more.jsonl")

    table = read_rows({"golden": "質問\t参照\n一つ目\tA\n二つ目\tB", "golden_file": [first, second]})

    assert [row.question for row in table.rows] == ["一つ目", "二つ目", "三つ目", "four"]


@pytest.mark.parametrize(
    "parameters",
    [
        {"golden_file": Upload.of(TABLE.encode())},
        {"golden_file": [Upload.of(TABLE.encode())], "golden": ""},
        # Variables that are connected but empty.
        {"golden_file": [None, Upload.of(TABLE.encode())], "golden": [None]},
        {"golden_file": [None], "golden": TABLE},
        {"golden_file": None, "golden": [TABLE]},
        {"golden_file": [], "golden": TABLE},
    ],
)
def test_one_of_both_is_enough(parameters: dict[str, Any]) -> None:
    assert read_rows(parameters).rows == (
        Row("有給休暇は何日ですか", "10日です"),
        Row("日当はいくらですか", "2,000円です"),
    )


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({}, Reason.NO_TABLE),
        ({"golden": "  ", "golden_file": [None]}, Reason.NO_TABLE),
        ({"golden_file": [Upload.of(b"", size=1)]}, Reason.NO_TABLE),
        ({"golden_file": [Upload.of(b"\x89PNG\r\n\x1a\n\xff\xfe")]}, Reason.TABLE_UNREADABLE),
        ({"golden_file": [Upload.of(b"x", size=40_000_000)]}, Reason.FILE_TOO_LARGE),
        ({"golden_file": [Upload.of(b"x" * 10_000_001, size=1)]}, Reason.FILE_TOO_LARGE),
        ({"golden": {"a": 1}}, Reason.NOT_TEXT),
        ({"golden": "{{#start.table#}}"}, Reason.NOT_CONNECTED),
    ],
)
def test_a_table_that_can_not_be_read_is_told(parameters: dict[str, Any], reason: Reason) -> None:
    assert reason_of(parameters) is reason


def test_a_file_that_can_not_be_fetched_is_told_with_its_name() -> None:
    # Its address has expired.
    gone = Upload(url="nowhere", filename="質問.csv", size=10, type=Upload.of(b"x").type)

    with pytest.raises(EvaluationError) as caught:
        read_rows({"golden_file": [gone]})

    assert (caught.value.reason, caught.value.values) == (Reason.FILE_UNREACHABLE, {"file": "質問.csv"})


def many(count: int) -> str:
    return "質問\t参照\n" + "".join(f"質問{n}\t正解{n}\n" for n in range(count))


def test_too_many_rows_are_told_before_anything_is_asked(place: Place) -> None:
    result = evaluate(place, golden=many(10_000))

    assert (result["status"], result["reason"]) == ("failed", "too_many_rows")
    assert "10,000" in result["summary"]
    assert place.chat.asked == []


@pytest.mark.parametrize(
    ("most", "count"), [(None, MAX_ROWS), (3.0, 3), ("3", 3), (MAX_ROWS, MAX_ROWS), ("", MAX_ROWS)]
)
def test_the_first_rows_are_taken(most: object, count: int) -> None:
    assert len(read_rows({"golden": many(MAX_ROWS), "max_rows": most}).rows) == count


def test_of_more_rows_than_allowed_the_wanted_ones_are_taken() -> None:
    assert len(read_rows({"golden": many(10_000), "max_rows": 20}).rows) == 20


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ("{long}\t正解\t総務", "question"),
        ("質問\t{long}\t総務", "reference"),
        ("質問\t正解\t{long}", "golden"),
    ],
)
def test_a_row_that_is_too_long_to_be_sent_is_told_before_anything_is_asked(row: str, field: str) -> None:
    text = "質問\t参照\t部署\n" + row.format(long="あ" * MAX_TEXT_CHARACTERS)

    with pytest.raises(EvaluationError) as caught:
        read_rows({"golden": text})

    assert caught.value.reason is Reason.INPUT_TOO_LONG
    assert caught.value.values["field"] == field
    assert len(read_rows({"golden": text + "\n質問\t正解\t総務", "max_rows": 1} | {"golden": TABLE}).rows) == 1


# --- the settings ---


def request(**parameters: Any) -> RunRequest:
    return read_request(parameters, [Row("質問")], settings(), load_texts("ja"), Clock().now())


def test_a_call_without_settings_has_the_usual_ones() -> None:
    made = request()

    assert (made.name, made.title, made.concurrency, made.deadline.seconds) == ("", "評価したアプリ", 4, 240.0)
    assert (made.fresh, made.retry_failed, made.compare_with, made.keep_runs) == (False, False, "", 20)


def test_the_time_runs_from_the_entry_and_leaves_some_for_the_report() -> None:
    entered = Clock().now() - 30
    made = read_request({"time_limit": 480}, [Row("質問")] * 600, settings(), load_texts("ja"), entered)

    assert 449 < made.deadline.left() <= 450
    # 2 s, and 10 ms a row.
    assert 441 < made.working.left() <= 442
    short = read_request({"time_limit": 20}, [Row("質問")] * 2000, settings(), load_texts("ja"), Clock().now())
    assert 9 < short.working.left() <= 10


@pytest.mark.parametrize("fresh", [True, "true", "1", "yes", "True"])
def test_settings_come_as_forms_and_variables_give_them(fresh: object) -> None:
    made = request(
        run_name=" 朝の評価 ",
        concurrency="８",
        time_limit=480.0,
        fresh=fresh,
        retry_failed=fresh,
        compare_with=["基準"],
        keep_runs="3",
    )

    assert (made.name, made.title, made.concurrency, made.deadline.seconds) == ("朝の評価", "朝の評価", 8, 480.0)
    assert (made.fresh, made.retry_failed, made.compare_with, made.keep_runs) == (True, True, "基準", 3)


@pytest.mark.parametrize(
    "parameters",
    [
        {"concurrency": 0},
        {"concurrency": 17},
        {"concurrency": 2.5},
        {"time_limit": 19},
        {"time_limit": 481},
        {"time_limit": "long"},
        {"keep_runs": 0},
        {"keep_runs": 1001},
        {"repeat": 11},
        {"repeat": 0},
        {"max_rows": 0},
        {"max_rows": 2001},
        {"votes": 2},
        {"depth": "deep"},
        {"metrics": "taste"},
        {"question_count": 11},
        {"threshold": 1.5},
        {"faithfulness_threshold": -1},
    ],
)
def test_a_setting_out_of_its_limits_is_named(place: Place, parameters: dict[str, Any]) -> None:
    result = evaluate(place, **parameters)

    assert (result["status"], result["reason"]) == ("failed", "invalid_setting")
    (value,) = parameters.values()
    assert str(value) in result["summary"]
    assert place.chat.asked == []


def test_thresholds_may_be_texts_and_one_of_a_score_counts_before_that_for_all(place: Place) -> None:
    result = evaluate(place, threshold="90%", faithfulness_threshold="0,5", answer_correctness_threshold=1.0)

    assert result["passed"] is True
    # Only those of the scores that are given.
    assert result["details"]["settings"]["thresholds"] == {
        "answer_relevancy": 0.9,
        "context_precision": 0.9,
        "context_recall": 0.9,
        "faithfulness": 0.5,
    }
    assert evaluate(place, threshold=0.9)["passed"] is False


def test_every_setting_that_scores_depend_on_is_in_the_account(place: Place) -> None:
    model = {**MODEL, "completion_params": {"top_p": 0.5}}
    app = {"app_id": "app-2", "inputs": {"部署": "総務"}}
    options = {"depth": "economy", "question_count": 5, "similarity_weight": "0.5"}

    made = evaluate(place, app=app, model=model, votes="1", repeat=2, metrics="answer", **options)["details"]

    assert made["settings"] == {
        "app_id": "app-2",
        "judge": {"provider": "p", "name": "judge-1", "parameters": {"temperature": 0, "top_p": 0.5}},
        "embedding_model": {"provider": "", "name": "", "parameters": {}},
        "metrics": ["faithfulness", "answer_relevancy"],
        "options": {"depth": "economy", "question_count": 5, "similarity_weight": 0.5},
        "votes": 1,
        "language": "ja",
        "thresholds": {},
        "repeat": 2,
        "inputs": {"部署": "総務"},
        "gate": "mean",
        "max_failed": 0.0,
    }


# --- the result ---


def test_a_finished_run(place: Place) -> None:
    result = evaluate(place, run_name="朝の評価", threshold=0.4)

    assert (result["status"], result["reason"], result["passed"]) == ("scored", "", True)
    assert (result["finished"], result["done"], result["total"]) == (True, 2, 2)
    assert result["scores"] == {
        "faithfulness": 0.5,
        "answer_relevancy": 1.0,
        "context_recall": 1.0,
        "context_precision": 1.0,
    }
    assert result["details"]["run"]["number"] == 1
    assert result["details"]["statistics"]["faithfulness"]["scored"] == 2
    assert "朝の評価 #1" in result["summary"]
    assert place.chat.asked == ["有給休暇は何日ですか", "日当はいくらですか"]
    page, sheet = result.files["朝の評価-1.html"], result.files["朝の評価-1.xlsx"]
    assert page[0] == "text/html"
    assert "有給休暇は何日ですか" in page[1].decode()
    assert sheet[0].endswith("spreadsheetml.sheet")
    assert sheet[1].startswith(b"PK")


def test_details_are_json_of_bounded_size_for_many_categories(place: Place) -> None:
    rows = "".join(f"質問{n}\t正解{n}\t{'分類' * 100}{n}\n" for n in range(60))

    result = evaluate(place, golden="質問\t参照\tカテゴリ\n" + rows, metrics="retrieval", concurrency=16)

    assert len(result["details"]["categories"]) == 60
    assert len(json.dumps(result.variables, allow_nan=False, ensure_ascii=False)) < 200_000


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("朝の評価 v2.1", "朝の評価_v2_1-1.html"),
        ("../../etc/passwd", "______etc_passwd-1.html"),
        ("a" * 200, "a" * 60 + "-1.html"),
        ("", "評価したアプリ-1.html"),
    ],
)
def test_the_files_have_names_that_every_system_takes(place: Place, name: str, file: str) -> None:
    assert file in evaluate(place, run_name=name, max_rows=1).files


def test_a_report_that_can_not_be_made_is_named_and_the_scores_are_given(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> bytes:
        raise RuntimeError("sk-秘密")

    monkeypatch.setattr("evaluation.report.page.render_html", broken)
    monkeypatch.setattr(spreadsheet, "render_xlsx", broken)

    result = evaluate(place)

    assert (result["status"], result.files) == ("scored", {})
    for shown in (result.text, result["summary"]):
        assert "html のレポートを作れませんでした" in shown
        assert "xlsx のレポートを作れませんでした" in shown
        assert "sk-" not in shown


def test_rows_without_a_question_are_told(place: Place) -> None:
    result = evaluate(place, golden=TABLE + "\t質問のない参照\n")

    assert (result["total"], result["details"]["rows_unreadable"]) == (2, 1)
    assert "読み取れない行が1件あります" in result.text.splitlines()[0]
    assert "読み取れない行が1件あります" in result["summary"]


def statuses(result: Result) -> tuple[Any, ...]:
    return result["status"], result["reason"], result["finished"], result["done"]


def test_a_row_whose_app_fails_makes_the_result_partial(place: Place) -> None:
    place.chat.reply = lambda query: "" if "日当" in query else "10日です"

    result = evaluate(place)

    assert statuses(result) == ("partial", "", True, 2)
    assert result["details"]["failed_rows"] == 1


def test_a_score_that_fails_makes_the_result_partial(place: Place) -> None:
    place.judge.replies["recall.parts"] = failing(Reason.MODEL_ERROR)

    result = evaluate(place)

    assert statuses(result) == ("partial", "", True, 2)
    assert result["scores"]["context_recall"] is None


def test_rows_without_what_the_scores_need_are_no_failure(place: Place) -> None:
    result = evaluate(place, golden="質問\t参照\n有給休暇は何日ですか\t\n", metrics="retrieval", threshold=0.5)

    assert statuses(result) == ("not_applicable", "", True, 1)
    assert result["passed"] is None


def test_scores_that_apply_to_no_row_neither_pass_nor_fail(place: Place) -> None:
    golden = "質問\t参照\n有給休暇は何日ですか\t\n"

    assert evaluate(place, golden=golden, threshold=0.5)["passed"] is True
    assert evaluate(place, golden=golden, threshold=0.6)["passed"] is False


def test_nothing_but_failures_is_a_failure(place: Place) -> None:
    place.chat.reply = lambda _: ""

    assert statuses(evaluate(place)) == ("failed", "app_empty_answer", True, 2)


def test_a_run_that_has_only_begun_is_partial_and_has_no_verdict(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    # Not time enough to begin a row.
    monkeypatch.setattr("evaluation.runs.runner.SPARE_SECONDS", 10_000)

    result = evaluate(place, threshold=0.1)

    assert statuses(result) == ("partial", "", False, 0)
    assert result["passed"] is None
    assert result["scores"] == dict.fromkeys(result["scores"])
    assert "2件のうち0件まで" in result["summary"]
    assert result.files == {}


def test_what_stopped_a_run_is_told_with_what_is_there(place: Place) -> None:
    place.values.storage.limit = 1500

    result = evaluate(place)

    assert result["reason"] == "storage_full"
    assert result["status"] == "partial"
    assert result["done"] > 0
    assert "ストレージがいっぱい" in result.text.splitlines()[0]
    assert "ストレージがいっぱい" in result["summary"]


def test_a_call_whose_time_ends_while_another_one_is_at_work_is_told_since_when_and_how_far(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    monkeypatch.setattr(app, "Clock", lambda: clock)
    monkeypatch.setattr("evaluation.judging.clock.Clock", lambda: clock)
    evaluate(place, run_name="朝の評価")
    store = RunStore(place.values, run_base("朝の評価", "app-2"))
    place.values.delete(store.key(1, "summary"))
    lock = RunLock(place.values, store.key(1, LOCK), 2)
    lock.take()
    place.chat.asked.clear()

    result = evaluate(place, run_name="朝の評価")
    lock.release()

    assert statuses(result) == ("failed", "run_busy", False, 0)
    assert "約1分前から実行中で、2件のうち0件まで" in result["summary"]
    assert result["scores"] == {}
    assert place.chat.asked == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"app": None}, "app_not_selected"),
        ({"app": {"app_id": "app-1"}}, "app_is_self"),
        ({"golden": None}, "no_table"),
        ({"model": None}, "model_not_selected"),
        ({"compare_with": "基準"}, "run_not_found"),
    ],
)
def test_a_wrong_wiring_is_told_before_anything_is_asked(place: Place, changes: dict[str, Any], reason: str) -> None:
    result = evaluate(place, **changes)

    assert statuses(result) == ("failed", reason, False, 0)
    assert result.text == f"- {result['summary']}"
    assert place.chat.asked == []


def test_what_is_unexpected_ends_no_chat(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Any:
        raise RuntimeError("sk-秘密")

    monkeypatch.setattr(app, "run", broken)

    result = evaluate(place)

    assert statuses(result) == ("failed", "internal_error", False, 0)
    assert "sk-" not in result.text


def test_a_report_for_which_no_time_is_left_is_named(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Deadline, "left", lambda deadline: -31.0 if deadline.seconds == 20 else 9.0)

    result = evaluate(place, time_limit=20)

    assert (result["status"], result.files) == ("scored", {})
    assert "xlsx のレポートを作れませんでした" in result["summary"]


def test_a_result_that_was_not_taken_to_its_end_is_shown_by_the_next_call(place: Place) -> None:
    place.taken = 3
    evaluate(place)
    place.taken = None

    again, third = evaluate(place), evaluate(place)

    assert (again["details"]["run"]["number"], again["finished"]) == (1, True)
    assert "質問はし直していません" in again.text.splitlines()[0]
    assert "質問はし直していません" in again["summary"]
    assert third["details"]["run"]["number"] == 2
    assert len(place.chat.asked) == 4


def test_failed_questions_are_asked_again_alone(place: Place) -> None:
    place.chat.reply = lambda query: "" if "日当" in query else "10日です"
    assert evaluate(place)["details"]["failed_rows"] == 1
    place.chat.reply = lambda query: f"{query}の答え"
    place.chat.asked.clear()

    result = evaluate(place, retry_failed=True)

    assert place.chat.asked == ["日当はいくらですか"]
    assert (result["details"]["run"]["number"], result["status"], result["details"]["failed_rows"]) == (1, "scored", 0)
    assert "失敗した質問がないため" in evaluate(place, retry_failed="true").text.splitlines()[0]


def test_the_last_runs_and_all_names_are_in_the_details(place: Place) -> None:
    evaluate(place, run_name="朝の評価")
    evaluate(place, run_name="朝の評価", threshold=0.9)

    details = evaluate(place)["details"]
    assert (details["past_runs"], details["run_names"]) == ([], ["app-2", "朝の評価"])
    details = evaluate(place, run_name="朝の評価")["details"]

    assert [(run["number"], run["passed"], run["means"]["faithfulness"]) for run in details["past_runs"]] == [
        (2, False, 0.5),
        (1, None, 0.5),
    ]


def test_old_runs_that_made_room_are_named(place: Place) -> None:
    for _ in range(3):
        evaluate(place, metrics="answer")
    place.values.storage.limit = sum(map(len, place.values.storage.snapshot().values())) + 10

    result = evaluate(place, metrics="answer")

    assert (result["status"], result["reason"]) == ("scored", "")
    assert "古い実行を消して空きを作りました：#1" in result.text.splitlines()[0]


# --- the language ---


@pytest.mark.parametrize(
    ("table", "language"),
    [
        ("question,reference\nHow many days of leave?,Ten\n", "en"),
        ("question,reference\nVPN?,Yes\n有給休暇は何日ですか,10日です\n", "ja"),
        ("質問,参照\n有給休暇日数,10日です\n", "ja"),
        ("问题,参考答案\n年假有几天,十天\n", "zh"),
    ],
)
def test_auto_follows_the_questions_of_a_pasted_table_and_of_a_file(table: str, language: str) -> None:
    for given in ({"golden": table}, {"golden": None, "golden_file": [Upload.of(table.encode())]}):
        result = evaluate(Place(AppTool, "evaluate_app"), language="auto", **given)
        assert result["details"]["settings"]["language"] == language


def test_a_setting_wins_over_the_questions(place: Place) -> None:
    result = evaluate(place, language="en")

    assert result["details"]["settings"]["language"] == "en"
    assert "Faithfulness" in result.text


def test_an_error_behind_the_table_is_told_in_the_tables_language(place: Place) -> None:
    result = evaluate(place, golden=None, golden_file=[Upload.of(TABLE.encode("cp932"))], model=None)

    assert "モデルを選んでください" in result["summary"]


# --- the next call ---


def test_the_next_call_compares_and_takes_scores_over(place: Place) -> None:
    evaluate(place)
    place.chat.reply = lambda query: "20日です" if "有給" in query else f"{query}の答え"

    result = evaluate(place)

    assert result["details"]["compared_with"] == "評価したアプリ #1"
    assert result["details"]["comparison"]["differences"]["faithfulness"]["pairs"] == 2
    assert result["details"]["reused_rows"] == 1


def test_a_judge_that_was_chosen_for_the_app_is_used(place: Place) -> None:
    place.values.set("judge_settings/app/app-1", json.dumps({"model": MODEL}).encode())

    result = evaluate(place, model=None)

    assert result["details"]["settings"]["judge"]["name"] == "judge-1"
    assert result["status"] == "scored"


def test_a_wrong_key_of_the_judge_stops_the_run_at_once() -> None:
    names = ("faithfulness.statements", "recall.parts", "precision.chunk", "relevancy.questions")
    unauthorized = Exception("[models] Incorrect API key provided, Error code: 401")
    place = Place(AppTool, "evaluate_app", judge(**dict.fromkeys(names, unauthorized)))

    result = evaluate(place)

    assert statuses(result) == ("failed", "model_unauthorized", False, 0)
    assert place.chat.asked == ["有給休暇は何日ですか"]
