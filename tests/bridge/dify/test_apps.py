import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bridge.dify import apps, places
from bridge.dify.apps import MESSAGE_CHARACTERS, QUESTION_INPUTS, app_failure, asker, read_app
from evaluation.errors import EvaluationError, Reason
from evaluation.judging.places import Places
from evaluation.runs.records import RowRecord

WIRE = Path(__file__).parents[2] / "data" / "wire"
END = {"event": "message_end", "metadata": {}}
POOL = "QueuePool limit of size 30 overflow 10 reached, connection timed out, timeout 30.00"


def refusal(message: str, status: int = 400) -> str:
    """What a plugin gets when Dify refuses to run an app."""
    body = json.dumps({"code": "invalid_param", "message": message, "status": status})
    return f"invoke app failed: request failed with status code: {status} and respond with: {body}\n"


class Chat:
    """The `chat` of a session's `app`: answers each call with events, or refuses it.

    Attributes:
        calls: the arguments of each call.
    """

    def __init__(self, reply: Callable[[dict[str, Any]], list[dict[str, Any]]]) -> None:
        self.calls: list[dict[str, Any]] = []
        self._reply = reply

    @property
    def chat(self) -> "Chat":
        return self

    def invoke(self, **arguments: Any) -> Iterator[dict[str, Any]]:
        # Like the SDK: nothing happens before the first event is asked for.
        self.calls.append(arguments)
        yield from self._reply(arguments)

    def inputs(self) -> list[set[str]]:
        return [set(call["inputs"]) for call in self.calls]


def raised(text: str) -> list[dict[str, Any]]:
    raise Exception(text)  # noqa: TRY002 - as the SDK does


def saying(text: str = "10日です") -> Chat:
    return Chat(lambda _: [{"event": "message", "answer": text}, END])


def start_node(*, required: bool = False, **limits: int) -> Chat:
    """An app whose inputs of those names are short texts of at most so many characters."""

    def reply(arguments: dict[str, Any]) -> list[dict[str, Any]]:
        for name, limit in limits.items():
            value = arguments["inputs"].get(name)
            if value is None and required:
                raise Exception(refusal(f"{name} is required in input form"))  # noqa: TRY002 - as the SDK does
            if value is not None and len(value) > limit:
                raise Exception(refusal(f"{name} in input form must be less than {limit} characters"))  # noqa: TRY002
        return [{"event": "message", "answer": "10日です"}, END]

    return Chat(reply)


def failing_app(error: Exception) -> Chat:
    def reply(_: dict[str, Any]) -> list[dict[str, Any]]:
        raise error

    return Chat(reply)


def reason_of(call: Callable[[], object]) -> Reason:
    with pytest.raises(EvaluationError) as caught:
        call()
    return caught.value.reason


# --- which app ---


def test_the_chosen_app_and_its_fixed_inputs() -> None:
    value = {"app_id": "app-2", "type": "app-selector", "inputs": {"部署": "総務"}, "files": []}

    assert read_app(value, "app-1") == ("app-2", {"部署": "総務"})
    assert read_app({"app_id": "app-2", "inputs": None}, None) == ("app-2", {})


@pytest.mark.parametrize("value", [None, "", {}, [], "app-2", {"app_id": ""}, {"app_id": None}, {"app_id": 7}])
def test_no_app_is_told(value: object) -> None:
    assert reason_of(lambda: read_app(value, "app-1")) is Reason.APP_NOT_SELECTED


def test_an_app_can_not_evaluate_itself() -> None:
    assert reason_of(lambda: read_app({"app_id": "app-1"}, "app-1")) is Reason.APP_IS_SELF


# --- asking ---


def test_an_app_is_asked_in_streaming_mode_with_the_question_wherever_it_may_be_wanted() -> None:
    app = saying()

    answer = asker(app, "app-2", {"部署": "総務"})(RowRecord(1, "有給休暇は何日ですか", inputs={"地域": "大阪"}))

    question = dict.fromkeys(QUESTION_INPUTS, "有給休暇は何日ですか")
    assert answer.text == "10日です"
    assert app.calls == [
        {
            "app_id": "app-2",
            "query": "有給休暇は何日ですか",
            "inputs": {**question, "部署": "総務", "地域": "大阪"},
            "response_mode": "streaming",
        }
    ]


def test_a_column_wins_over_a_fixed_input_and_both_over_the_question() -> None:
    app = saying()

    asker(app, "app-2", {"text": "固定", "部署": "総務"})(RowRecord(1, "質問", inputs={"部署": "人事", "query": "列"}))

    assert app.calls[0]["inputs"] == {
        "question": "質問",
        "input": "質問",
        "text": "固定",
        "部署": "人事",
        "query": "列",
    }


def test_half_a_character_of_a_table_does_not_end_the_call() -> None:
    app = saying()

    asker(app, "app-2", {})(RowRecord(1, "質問\ud83d", inputs={"部署": "\ud83d"}))

    assert (app.calls[0]["query"], app.calls[0]["inputs"]["部署"]) == ("質問?", "?")


def test_an_input_that_means_something_else_is_left_out_from_then_on() -> None:
    app = start_node(text=3, input=2)
    ask = asker(app, "app-2", {})

    for row in (1, 2):
        assert ask(RowRecord(row, "有給休暇は何日ですか")).text == "10日です"

    everywhere = set(QUESTION_INPUTS)
    assert app.inputs() == [
        everywhere,
        everywhere - {"text"},
        everywhere - {"text", "input"},
        everywhere - {"text", "input"},
    ]


def test_one_question_that_is_too_long_for_the_app_does_not_take_the_input_from_the_others() -> None:
    app = start_node(required=True, query=5)
    ask = asker(app, "app-2", {})

    with pytest.raises(EvaluationError) as caught:
        ask(RowRecord(1, "とても長い質問です"))
    answers = [ask(RowRecord(row, "日当は")).text for row in (2, 3)]

    assert caught.value.reason is Reason.APP_FAILED
    assert caught.value.values["text"] == "query in input form must be less than 5 characters"
    assert answers == ["10日です"] * 2


def test_an_input_that_another_question_has_made_to_be_left_out_is_filled_again_where_it_is_required() -> None:
    # The long question's second try has not come back yet.
    app = start_node(required=True, query=5)
    ask = asker(app, "app-2", {})
    short = RowRecord(2, "日当は")
    answers: list[str] = []
    reply = app._reply

    def meanwhile(arguments: dict[str, Any]) -> list[dict[str, Any]]:
        if "query" not in arguments["inputs"] and not answers:
            answers.append("")
            answers.append(ask(short).text)
        return reply(arguments)

    app._reply = meanwhile

    assert reason_of(lambda: ask(RowRecord(1, "とても長い質問です"))) is Reason.APP_FAILED
    assert answers == ["", "10日です"]


def test_a_column_that_does_not_fit_is_told_and_not_left_out() -> None:
    app = start_node(text=3)

    with pytest.raises(EvaluationError) as caught:
        asker(app, "app-2", {})(RowRecord(1, "質問", inputs={"text": "長い文章"}))

    assert caught.value.reason is Reason.APP_FAILED
    assert caught.value.values["text"] == "text in input form must be less than 3 characters"
    assert len(app.calls) == 1


def test_an_input_that_the_table_lacks_is_named() -> None:
    app = failing_app(Exception(refusal("部署 is required in input form")))

    with pytest.raises(EvaluationError) as caught:
        asker(app, "app-2", {})(RowRecord(1, "質問"))

    assert caught.value.reason is Reason.APP_INPUT_MISSING
    assert caught.value.values["text"] == "部署 is required in input form"


# --- a Dify that fails ---


class Scripted(Chat):
    """Answers the calls with what stands here for each: a text to refuse it with, or events. The last one repeats."""

    def __init__(self, *replies: str | list[dict[str, Any]]) -> None:
        super().__init__(self._next)
        self._replies = list(replies)

    def _next(self, _: dict[str, Any]) -> list[dict[str, Any]]:
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        return raised(reply) if isinstance(reply, str) else reply

    def queries(self) -> list[str]:
        return [call["query"] for call in self.calls]


BARE = refusal("Internal Server Error", 500)
ANSWER = [{"event": "message", "answer": "10日です"}, END]
ROW = RowRecord(1, "質問")


@pytest.fixture(autouse=True)
def _places_as_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "PLACES", Places())


def test_a_text_generation_app_is_told_when_the_same_question_fails_again() -> None:
    app = Scripted(BARE)
    ask = asker(app, "app-2", {})

    assert [reason_of(lambda: ask(ROW)) for _ in range(2)] == [Reason.APP_UNAVAILABLE, Reason.APP_KIND_UNSUPPORTED]
    # The second call is one without a query: a chat refuses it, a workflow runs.
    assert app.queries() == ["質問", "", "質問"]


def test_a_chat_whose_dify_fails_at_once_is_known_by_refusing_an_empty_query() -> None:
    app = Scripted(BARE, refusal("missing query"), BARE, BARE, ANSWER)
    ask = asker(app, "app-2", {})

    assert [reason_of(lambda: ask(ROW)) for _ in range(3)] == [Reason.DIFY_BUSY] * 3
    assert ask(ROW).text == "10日です"
    assert app.queries() == ["質問", "", "質問", "質問", "質問"]


def test_a_workflow_whose_dify_failed_once_answers_without_a_query() -> None:
    app = Scripted(BARE, ANSWER)

    assert asker(app, "app-2", {})(ROW).text == "10日です"
    assert app.inputs()[1] == set(QUESTION_INPUTS)


def test_an_app_that_has_answered_before_is_no_text_generation_app() -> None:
    ask = asker(Scripted(ANSWER, BARE), "app-2", {})

    assert ask(ROW).text == "10日です"
    assert [reason_of(lambda: ask(ROW)) for _ in range(3)] == [Reason.DIFY_BUSY] * 3


def test_an_app_that_has_begun_to_answer_is_none_either() -> None:
    def begun() -> Iterator[dict[str, Any]]:
        yield {"event": "workflow_started"}
        others.append(reason_of(lambda: ask(RowRecord(2, "別の質問"))))
        yield from ANSWER

    others: list[Reason] = []
    app = Chat(lambda arguments: begun() if arguments["query"] == "質問" else raised(BARE))  # type: ignore[arg-type,return-value]
    ask = asker(app, "app-2", {})

    assert ask(ROW).text == "10日です"
    assert others == [Reason.DIFY_BUSY]


def test_nothing_is_concluded_while_dify_is_in_trouble_elsewhere() -> None:
    ask = asker(Scripted(BARE), "app-2", {}, lambda: False)

    assert [reason_of(lambda: ask(ROW)) for _ in range(3)] == [Reason.DIFY_BUSY] * 3


def test_a_server_error_that_took_its_time_has_waited_for_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apps, "QUICK_SECONDS", 0.0)
    app = Scripted(BARE, refusal("app not found"))
    ask = asker(app, "app-2", {})

    assert [reason_of(lambda: ask(ROW)) for _ in range(2)] == [Reason.DIFY_BUSY] * 2
    assert app.queries() == ["質問"] * 2


def test_an_app_that_answered_is_not_gone_when_dify_can_not_look_it_up() -> None:
    ask = asker(Scripted(ANSWER, refusal("app not found")), "app-2", {})

    assert ask(ROW).text == "10日です"
    assert reason_of(lambda: ask(ROW)) is Reason.DIFY_BUSY


def test_an_app_that_is_not_there_is_told_each_time() -> None:
    ask = asker(Scripted(refusal("app not found")), "app-2", {})

    assert [reason_of(lambda: ask(ROW)) for _ in range(2)] == [Reason.APP_NOT_FOUND] * 2


def test_a_busy_dify_lowers_the_limit_of_calls_and_a_kind_that_can_not_be_asked_does_not() -> None:
    for reply, limit in ((f"read app failed: {POOL}", 6), (refusal("user not found"), 3), (BARE, 3)):
        with pytest.raises(EvaluationError):
            asker(Scripted(reply), "app-2", {})(ROW)
        assert places.PLACES.limit == limit


def test_an_app_in_whose_run_dify_had_no_connection_left_has_not_failed() -> None:
    app = Chat(lambda _: [{"event": "error", "message": f"Run failed: {POOL}", "status": 400}])

    assert reason_of(lambda: asker(app, "app-2", {})(ROW)) is Reason.DIFY_BUSY


def test_an_app_whose_model_has_no_quota_left_is_told_in_the_providers_words() -> None:
    text = "[models] Error: API request failed with status code 402: Insufficient Balance"
    app = Chat(lambda _: [{"event": "error", "message": text, "status": 400}])

    with pytest.raises(EvaluationError) as caught:
        asker(app, "app-2", {})(ROW)

    assert caught.value.reason is Reason.APP_QUOTA_EXHAUSTED
    assert "Insufficient Balance" in str(caught.value.values["text"])


# --- why a call failed ---


def recorded_refusal() -> str:
    lines = [json.loads(line)["line"] for line in (WIRE / "tool_runs_app_error.jsonl").read_text().splitlines()]
    errors = [line["data"]["message"] for line in lines if line["data"].get("event") == "error"]
    return str(errors[0])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (recorded_refusal(), Reason.APP_NOT_FOUND),
        (refusal("unexpected app type"), Reason.APP_NOT_PUBLISHED),
        (refusal("Workflow not published"), Reason.APP_NOT_PUBLISHED),
        (refusal(""), Reason.APP_NOT_PUBLISHED),
        (refusal("", 500), Reason.APP_UNAVAILABLE),
        (refusal("Internal Server Error", 500), Reason.APP_UNAVAILABLE),
        (refusal("Too many requests", 429), Reason.APP_UNAVAILABLE),
        ("request failed with status code: 502 and respond with: <html>", Reason.APP_UNAVAILABLE),
        (refusal("user not found"), Reason.DIFY_BUSY),
        (refusal("tenant not found"), Reason.DIFY_BUSY),
        (f"read app failed: {POOL}", Reason.DIFY_BUSY),
        ("invocation exited without response", Reason.TIMEOUT),
        (refusal("部署 is required in input form"), Reason.APP_INPUT_MISSING),
        (refusal("query is required"), Reason.APP_FAILED),
        (refusal("missing query"), Reason.APP_INPUT_MISSING),
        (refusal("部署 in input form must be one of the following: ['総務']"), Reason.APP_FAILED),
        # A number in what the app says is not a status.
        (refusal("order 500 was refused with status code: 429"), Reason.APP_FAILED),
        ("", Reason.APP_FAILED),
    ],
)
def test_why_an_app_could_not_be_run(text: str, reason: Reason) -> None:
    assert app_failure(text).reason is reason


def test_what_an_app_says_of_its_failure_is_bounded() -> None:
    assert app_failure(refusal("x" * 5000)).values["text"] == "x" * MESSAGE_CHARACTERS


def model_errors() -> dict[str, str]:
    recorded = json.loads((WIRE / "judge_errors.json").read_text(encoding="utf-8"))
    inner = {}
    for name, entry in recorded.items():
        text = entry["data"]["message"]
        inner[name] = json.loads(text[text.index("respond with: ") + len("respond with: ") :])["message"]
    return inner


@pytest.mark.parametrize(
    ("failed", "reason"),
    [
        ("[status=429]", Reason.APP_UNAVAILABLE),
        ("[status=503]", Reason.APP_UNAVAILABLE),
        ("[status=500]", Reason.APP_UNAVAILABLE),
        ("[noreply]", Reason.APP_UNAVAILABLE),
        ("[cut]", Reason.APP_UNAVAILABLE),
        ("[status=401]", Reason.APP_FAILED),
        ("[status=400]", Reason.APP_FAILED),
    ],
)
def test_an_apps_own_model_that_is_busy_is_worth_another_try_and_one_that_refuses_is_not(
    failed: str, reason: Reason
) -> None:
    text = model_errors()[failed]
    app = Chat(lambda _: [{"event": "error", "code": "completion_request_error", "message": text, "status": 400}])

    with pytest.raises(EvaluationError) as caught:
        asker(app, "app-2", {})(RowRecord(1, "質問"))

    assert caught.value.reason is reason
    shown = str(caught.value.values["text"])
    assert "req_id" not in shown
    assert 0 < len(shown) <= MESSAGE_CHARACTERS


def test_other_failures_of_an_answer_stay_what_they_are() -> None:
    assert reason_of(lambda: asker(saying(""), "app-2", {})(RowRecord(1, "質問"))) is Reason.APP_EMPTY_ANSWER
    assert reason_of(lambda: asker(Chat(lambda _: []), "app-2", {})(RowRecord(1, "質問"))) is Reason.APP_UNAVAILABLE
