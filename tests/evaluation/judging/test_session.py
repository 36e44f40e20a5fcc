"""Asking a judge: second tries, waits, the time budget, parallel calls, windows, what calls cost."""

import json
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from evaluation.errors import TRANSIENT, EvaluationError, JudgeError, Reason
from evaluation.judging import session as session_module
from evaluation.judging.clock import Clock, spawn
from evaluation.judging.models import Charge
from evaluation.judging.prompts import load_prompt
from evaluation.judging.replies import Judgement, JudgementOf, Shape
from evaluation.judging.session import EMBEDDING_BATCH, PARALLEL_CALLS, SHOWN_CHARACTERS, TRIES, JudgeSession
from evaluation.judging.usage import Usage
from evaluation.judging.windows import split_text, split_windows
from evaluation.languages import LANGUAGES, Language
from evaluation.metrics import METRICS, evaluate_metric
from evaluation.metrics.statements import STATEMENTS
from evaluation.metrics.verdicts import BY_ID
from tests.evaluation.fakes import (
    FakeClock,
    ScriptedJudge,
    failing,
    parts,
    questions,
    sample,
    session,
    statements,
    verdicts,
)

ONE = Shape(Judgement)
YES = {"reason": "r", "verdict": 1}


def refused(call: Callable[[], Any]) -> EvaluationError:
    with pytest.raises(EvaluationError) as caught:
        call()
    return caught.value


def ask_chunk(asking: JudgeSession) -> bool:
    return asking.ask("precision.chunk", {"context": "甲"}, ONE).items[0].verdict


# The reply


def test_good_reply_takes_one_call_and_is_accounted_for() -> None:
    judge = ScriptedJudge(precision__chunk=YES)
    asking = session(judge)
    assert ask_chunk(asking)
    prompt = load_prompt("precision.chunk", "ja")
    assert asking.prompts_used == {"precision.chunk": prompt.version}
    assert asking.usage.as_dict() == {
        "judge_calls": 1,
        "embedding_calls": 0,
        "retries": 0,
        "prompt_characters": len(prompt.system) + len(judge.calls[0][2]),
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "total_tokens": 15,
        "price": 0.001,
        "currency": "USD",
        "other_prices": {},
    }


@pytest.mark.parametrize("language", LANGUAGES)
def test_unreadable_reply_is_asked_again_with_what_was_wrong(language: Language) -> None:
    judge = ScriptedJudge(precision__chunk=['so "yes"\nI\'d say 東京', YES])
    asking = session(judge, language=language)
    assert ask_chunk(asking)
    first, second = (user for _, _, user in judge.calls)
    note = asking.texts.get("ask_again.shape")
    assert note not in first
    data, complaint = second.split("\n\n")
    assert json.loads(data.split("\n")[1]) == {"context": "甲"}
    assert complaint == f'{note} "so \\"yes\\"\\nI\'d say 東京"'


def test_only_the_beginning_of_a_long_wrong_reply_is_shown() -> None:
    judge = ScriptedJudge(precision__chunk=["a" * 5_000_000, YES])
    assert ask_chunk(session(judge))
    assert judge.calls[1][2].endswith(f' "{"a" * SHOWN_CHARACTERS}"')


def test_reply_that_stays_unreadable_is_told_as_such_after_two_calls() -> None:
    judge = ScriptedJudge(precision__chunk="1. Yes.\n2. No.")
    assert refused(lambda: ask_chunk(session(judge))).reason is Reason.JUDGE_UNPARSEABLE
    assert len(judge.calls) == 2


@pytest.mark.parametrize("text", ["", "   ", '{"type": "object", "properties": {"verdict": {}}}'])
def test_empty_and_shapeless_replies_are_unparseable(text: str) -> None:
    assert refused(lambda: ask_chunk(session(ScriptedJudge(precision__chunk=text)))).reason is Reason.JUDGE_UNPARSEABLE


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't help with that.",
        "I’m sorry, but I can’t assist with this request.",
        "申し訳ございませんが、その内容にはお答えできません。",
        "抱歉，我无法协助处理此请求。",
    ],
)
def test_refusal_is_told_as_such(text: str) -> None:
    assert refused(lambda: ask_chunk(session(ScriptedJudge(precision__chunk=text)))).reason is Reason.JUDGE_REFUSED


@pytest.mark.parametrize("text", ["<think>so it is", "[THINK]I can't help with that, but", "so it is</think>"])
def test_a_judge_that_only_thinks_has_spent_its_limit_on_that(text: str) -> None:
    judge = ScriptedJudge(precision__chunk=text)
    error = refused(lambda: ask_chunk(session(judge)))
    assert (error.reason, error.values) == (Reason.JUDGE_UNPARSEABLE, {"why": "spent_on_thinking"})
    assert len(judge.calls) == 2


@pytest.mark.parametrize(("tokens", "spent"), [(0, False), (2, False), (4096, True)])
def test_an_empty_reply_that_took_many_tokens_was_spent_on_thinking(tokens: int, spent: bool) -> None:
    class Silent(ScriptedJudge):
        def complete(self, system: str, user: str) -> tuple[str, Charge]:
            return super().complete(system, user)[0], Charge(10, tokens)

    error = refused(lambda: ask_chunk(session(Silent(precision__chunk=""))))
    assert (error.reason, error.values.get("why") == "spent_on_thinking") == (Reason.JUDGE_UNPARSEABLE, spent)


def test_refusal_that_still_gives_a_verdict_counts_by_its_verdict() -> None:
    judge = ScriptedJudge(precision__chunk='I can\'t help much, but: {"reason": "r", "verdict": 0}')
    assert not ask_chunk(session(judge))


@pytest.mark.parametrize("language", LANGUAGES)
def test_form_of_the_prompt_repeated_by_the_judge_is_no_reply(language: Language) -> None:
    form = load_prompt("faithfulness.verdicts", language).form
    judge = ScriptedJudge(faithfulness__verdicts=form)
    asking = session(judge, language=language)
    error = refused(lambda: asking.ask("faithfulness.verdicts", {}, BY_ID))
    assert error.reason is Reason.JUDGE_UNPARSEABLE
    judge = ScriptedJudge(faithfulness__verdicts=form + '\n{"verdicts": [{"id": 1, "verdict": 0}]}\n' + form)
    reply = session(judge, language=language).ask("faithfulness.verdicts", {}, BY_ID)
    assert [(item.id, item.verdict) for item in reply.items] == [(1, False)]


CUT = '{"statements": ["甲", "乙", "丙'


def ask_statements(*replies: Any) -> tuple[list[str], bool, int]:
    judge = ScriptedJudge(faithfulness__statements=list(replies))
    reply = session(judge).ask("faithfulness.statements", {"answer": "x"}, STATEMENTS)
    return [item.text for item in reply.items], reply.cut, len(judge.calls)


def test_list_without_ids_that_was_cut_off_is_asked_for_again() -> None:
    assert ask_statements(CUT, statements("甲", "乙", "丙")) == (["甲", "乙", "丙"], False, 2)


def test_second_whole_list_wins_though_it_is_shorter() -> None:
    assert ask_statements(CUT, statements("甲")) == (["甲"], False, 2)


@pytest.mark.parametrize(
    ("second", "kept"),
    [
        ("no JSON", ["甲", "乙"]),
        ('{"statements": ["甲", "', ["甲", "乙"]),
        ('{"statements": ["一", "二", "三", "', ["一", "二", "三"]),
        (failing(Reason.TIMEOUT), ["甲", "乙"]),
        (failing(Reason.CONTEXT_TOO_LONG), ["甲", "乙"]),
    ],
)
def test_cut_list_is_kept_when_the_second_try_is_no_better(second: Any, kept: list[str]) -> None:
    assert ask_statements(CUT, second) == (kept, True, 2)


def test_cut_off_before_anything_and_then_unreadable_is_unparseable() -> None:
    assert refused(lambda: ask_statements('{"statements": ["甲', "no JSON")).reason is Reason.JUDGE_UNPARSEABLE


def test_second_try_that_fails_after_an_unreadable_reply_is_told() -> None:
    assert refused(lambda: ask_statements("no JSON", failing(Reason.TIMEOUT))).reason is Reason.TIMEOUT


def test_second_try_for_a_cut_list_says_so() -> None:
    judge = ScriptedJudge(faithfulness__statements=[CUT, statements("甲")])
    asking = session(judge)
    asking.ask("faithfulness.statements", {}, STATEMENTS)
    assert asking.texts.get("ask_again.cut") in judge.calls[1][2]


def test_cut_list_with_ids_is_left_to_the_caller_unless_it_is_empty() -> None:
    judge = ScriptedJudge(faithfulness__verdicts=['{"verdicts": [{"id": 1, "verdict": 1}, {"id'])
    reply = session(judge).ask("faithfulness.verdicts", {}, BY_ID)
    assert ([item.id for item in reply.items], reply.cut, len(judge.calls)) == ([1], True, 1)
    judge = ScriptedJudge(faithfulness__verdicts=['{"verdicts": [{"id', verdicts(1)])
    assert len(session(judge).ask("faithfulness.verdicts", {}, BY_ID).items) == 1
    assert len(judge.calls) == 2


def test_verdict_whose_reason_was_cut_off_needs_no_second_try() -> None:
    judge = ScriptedJudge(precision__chunk='{"verdict": 0, "reason": "話題が近')
    assert not ask_chunk(session(judge))
    assert len(judge.calls) == 1


def test_reply_with_several_lists_needs_all_of_them() -> None:
    both = (Shape(JudgementOf, "answer"), Shape(JudgementOf, "reference"))
    half = {"answer": [{"id": 1, "verdict": 1}]}
    whole = {**half, "reference": [{"id": 1, "verdict": 0}, {"id": 2, "verdict": 1}]}
    judge = ScriptedJudge(correctness__classify=[half, whole])
    replies = session(judge).ask_for("correctness.classify", {}, both)
    assert [[item.verdict for item in reply.items] for reply in replies] == [[True], [False, True]]
    bare = '[{"id": 1, "verdict": 1}]'
    judge = ScriptedJudge(correctness__classify=bare)
    error = refused(lambda: session(judge).ask_for("correctness.classify", {}, both))
    assert error.reason is Reason.JUDGE_UNPARSEABLE


# Failing calls


@pytest.mark.parametrize("reason", sorted(TRANSIENT))
def test_passing_failure_is_tried_again_after_growing_waits(reason: Reason) -> None:
    clock = FakeClock()
    judge = ScriptedJudge(precision__chunk=[failing(reason), failing(reason), failing(reason), YES])
    asking = session(judge, clock=clock)
    assert ask_chunk(asking)
    assert [1 <= clock.slept[0] <= 1.3, 2 <= clock.slept[1] <= 2.6, 4 <= clock.slept[2] <= 5.2] == [True] * 3
    usage = asking.usage.as_dict()
    assert (usage["judge_calls"], usage["retries"], usage["prompt_tokens"]) == (1, 3, 10)


def test_failure_that_does_not_pass_is_told_after_the_last_try() -> None:
    clock = FakeClock()
    judge = ScriptedJudge(precision__chunk=failing(Reason.RATE_LIMITED))
    assert refused(lambda: ask_chunk(session(judge, clock=clock))).reason is Reason.RATE_LIMITED
    assert (len(judge.calls), len(clock.slept)) == (TRIES, TRIES - 1)


def test_a_busy_dify_is_waited_for_as_long_as_there_is_time() -> None:
    clock = FakeClock()
    busy = [failing(Reason.DIFY_BUSY)] * 6
    assert ask_chunk(session(ScriptedJudge(precision__chunk=[*busy, YES]), clock=clock))
    assert len(clock.slept) == 6

    clock = FakeClock()
    judge = ScriptedJudge(precision__chunk=failing(Reason.DIFY_BUSY))
    assert refused(lambda: ask_chunk(session(judge, clock=clock, budget=60.0))).reason is Reason.DIFY_BUSY
    # 1 + 2 + 4 + 8 + 16 = 31 s and a third of that for jitter; the next wait of 30 s may or may not fit.
    assert len(judge.calls) > TRIES
    assert clock.time < 60


def test_calls_that_failed_together_do_not_come_again_together() -> None:
    waits = set()
    for _ in range(20):
        clock = FakeClock()
        judge = ScriptedJudge(precision__chunk=[failing(Reason.DIFY_BUSY)] * 5 + [YES])
        assert ask_chunk(session(judge, clock=clock))
        waits.add(round(clock.time, 1))
    assert len(waits) > 10


@pytest.mark.parametrize("reason", sorted(set(Reason) - TRANSIENT))
def test_other_failures_are_not_tried_again(reason: Reason) -> None:
    clock = FakeClock()
    judge = ScriptedJudge(precision__chunk=[failing(reason), YES])
    assert refused(lambda: ask_chunk(session(judge, clock=clock))).reason is reason
    assert (len(judge.calls), clock.slept) == (1, [])


@pytest.mark.parametrize(("asked", "low", "high"), [(0.0, 0, 0), (0.25, 0.25, 0.325), (20.0, 20, 26), (3600.0, 30, 39)])
def test_wait_that_the_provider_names_is_kept_within_bounds(asked: float, low: float, high: float) -> None:
    clock = FakeClock()
    judge = ScriptedJudge(precision__chunk=[JudgeError(Reason.RATE_LIMITED, retry_after=asked), YES])
    assert ask_chunk(session(judge, clock=clock))
    assert low <= clock.slept[0] <= high


def test_no_wait_that_the_budget_does_not_hold() -> None:
    clock = FakeClock()
    judge = ScriptedJudge(precision__chunk=[JudgeError(Reason.RATE_LIMITED, retry_after=20.0), YES])
    assert refused(lambda: ask_chunk(session(judge, clock=clock, budget=15.0))).reason is Reason.RATE_LIMITED
    assert clock.slept == []


def test_unexpected_error_of_a_judge_is_not_swallowed() -> None:
    judge = ScriptedJudge(precision__chunk=ZeroDivisionError("x"))
    with pytest.raises(ZeroDivisionError):
        ask_chunk(session(judge))


# Time


class SlowJudge:
    """Answers when it is let go."""

    name = "slow"

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.running = self.most = self.calls = 0
        self._lock = threading.Lock()

    def complete(self, system: str, user: str) -> tuple[str, Charge]:  # noqa: ARG002
        with self._lock:
            self.calls += 1
            self.running += 1
            self.most = max(self.most, self.running)
        self.gate.wait(10)
        with self._lock:
            self.running -= 1
        return json.dumps(YES), Charge()


def test_calls_that_do_not_come_back_are_left_behind_when_the_budget_ends() -> None:
    judge = SlowJudge()
    begun = time.monotonic()
    asking = JudgeSession(judge, None, "ja", budget=0.1)
    assert refused(lambda: ask_chunk(asking)).reason is Reason.TIMEOUT
    assert time.monotonic() - begun < 2
    # The call and its one more try.
    assert judge.running == 2
    time.sleep(0.1)
    assert refused(lambda: ask_chunk(asking)).reason is Reason.TIMEOUT
    assert judge.calls == 2
    judge.gate.set()


class StubbornJudge:
    """Hangs in the calls of these numbers until it is let go; a call costs 7 tokens."""

    name = "stubborn"

    def __init__(self, *hanging: int) -> None:
        self.gate = threading.Event()
        self.calls = 0
        self._hanging = hanging
        self._lock = threading.Lock()

    def complete(self, system: str, user: str) -> tuple[str, Charge]:  # noqa: ARG002
        with self._lock:
            self.calls += 1
            number = self.calls
        if number in self._hanging:
            self.gate.wait(10)
        return json.dumps(YES), Charge(7)


def test_a_call_that_hangs_is_asked_once_more_long_before_the_budget_ends() -> None:
    judge = StubbornJudge(1)
    asking = JudgeSession(judge, None, "ja", budget=1.5)
    begun = time.monotonic()
    assert ask_chunk(asking)
    # A third of what is left.
    assert 0.4 < time.monotonic() - begun < 1.4
    usage = asking.usage.as_dict()
    assert (judge.calls, usage["judge_calls"], usage["retries"], usage["prompt_tokens"]) == (2, 1, 1, 7)
    judge.gate.set()


def test_a_call_has_45_seconds_however_much_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    assert session_module.CALL_SECONDS == 45
    monkeypatch.setattr(session_module, "CALL_SECONDS", 0.1)
    judge = StubbornJudge(1)
    begun = time.monotonic()
    assert ask_chunk(JudgeSession(judge, None, "ja"))
    assert time.monotonic() - begun < 5
    judge.gate.set()


def test_an_answer_that_comes_while_it_is_asked_for_again_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "CALL_SECONDS", 0.5)
    judge = StubbornJudge(1, 2)

    def let_first_go() -> None:
        while judge.calls < 2:
            time.sleep(0.005)
        judge.gate.set()

    spawn(let_first_go)
    asking = JudgeSession(judge, None, "ja")
    assert ask_chunk(asking)
    # Both answer in the end, and both are paid for.
    deadline = time.monotonic() + 5
    while asking.usage.prompt_tokens < 14 and time.monotonic() < deadline:
        time.sleep(0.005)
    assert (judge.calls, asking.usage.prompt_tokens) == (2, 14)


def test_a_second_try_that_fails_does_not_end_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "CALL_SECONDS", 0.2)
    judge = StubbornJudge(1)
    answer = judge.complete

    def complete(system: str, user: str) -> tuple[str, Charge]:
        if judge.calls == 1:
            judge.calls += 1
            spawn(lambda: (time.sleep(0.05), judge.gate.set()))
            raise JudgeError(Reason.MODEL_ERROR)
        return answer(system, user)

    judge.complete = complete  # type: ignore[method-assign]
    assert ask_chunk(JudgeSession(judge, None, "ja"))


def test_a_judge_that_works_on_one_call_after_the_other_is_slow_and_not_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "CALL_SECONDS", 0.4)
    calls, one_at_a_time = [], threading.Lock()

    def reply(_: Any) -> dict[str, Any]:
        calls.append(1)
        with one_at_a_time:
            time.sleep(0.15)
        return YES

    asking = session(ScriptedJudge(precision__chunk=reply))
    # The last one waits for 1.2 s, but never long for a sign of life.
    assert asking.gather([lambda: ask_chunk(asking)] * 8) == [True] * 8
    assert len(calls) == 8


def test_a_judge_that_is_known_to_be_slow_is_not_asked_twice_when_time_is_short() -> None:
    clock = Clock()
    clock.slowest = 0.4
    judge = ScriptedJudge(precision__chunk=lambda _: (time.sleep(0.4), YES)[1])
    # A third of it is less than the judge takes.
    assert ask_chunk(session(judge, budget=0.9, clock=clock))
    assert len(judge.calls) == 1


def test_how_long_the_slowest_answer_took_is_known_to_all_that_share_the_clock() -> None:
    clock = Clock()
    judge = ScriptedJudge(precision__chunk=[lambda _: (time.sleep(0.1), YES)[1], YES])
    for _ in range(2):
        assert ask_chunk(session(judge, clock=clock))
    assert 0.1 <= clock.slowest < 1


class LateGrant:
    """Places that grant one only after a while."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.taken = 0

    def acquire(self, *, timeout: float) -> bool:  # noqa: ARG002
        time.sleep(self.seconds)
        self.taken += 1
        return True

    def release(self) -> None:
        self.taken -= 1


def test_a_place_that_is_granted_after_the_deadline_is_given_back() -> None:
    places = LateGrant(0.05)
    judge = ScriptedJudge(precision__chunk=YES)
    asking = session(judge, places=places, budget=0.02)
    assert refused(lambda: ask_chunk(asking)).reason is Reason.TIMEOUT
    assert (places.taken, judge.calls) == (0, [])


def test_hanging_calls_that_take_all_places_do_not_hold_up_the_others_for_ever() -> None:
    judge = SlowJudge()
    asking = JudgeSession(judge, None, "ja", budget=0.2)
    outcomes = asking.gather([lambda: ask_chunk(asking)] * (PARALLEL_CALLS + 4))
    assert [isinstance(outcome, EvaluationError) and outcome.reason for outcome in outcomes] == [Reason.TIMEOUT] * 12
    assert judge.calls == PARALLEL_CALLS
    judge.gate.set()


def let_go(judge: SlowJudge, waiting: int) -> None:
    """Opens the gate once that many calls wait at it, and a moment later, so that more could have come."""

    def run() -> None:
        deadline = time.monotonic() + 5
        while judge.running < waiting and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(0.05)
        judge.gate.set()

    threading.Thread(target=run, daemon=True).start()


def test_at_most_eight_calls_at_a_time() -> None:
    judge = SlowJudge()
    let_go(judge, PARALLEL_CALLS)
    asking = JudgeSession(judge, None, "ja")
    outcomes = asking.gather([lambda: ask_chunk(asking)] * 20)
    assert outcomes == [True] * 20
    assert (judge.most, judge.calls) == (8, 20)


def test_sessions_with_the_same_places_share_the_limit() -> None:
    judge = SlowJudge()
    let_go(judge, 3)
    places = threading.Semaphore(3)
    sessions = [JudgeSession(judge, None, "ja", places=places) for _ in range(2)]
    runs = [spawn(lambda asking=asking: asking.gather([lambda: ask_chunk(asking)] * 5)) for asking in sessions]
    assert [run.result() for run in runs] == [[True] * 5] * 2
    assert judge.most == 3


def test_place_of_a_failed_call_is_free_again() -> None:
    judge = ScriptedJudge(precision__chunk=failing(Reason.MODEL_ERROR))
    asking = session(judge, places=threading.Semaphore(1), budget=5.0)
    for _ in range(3):
        assert refused(lambda: ask_chunk(asking)).reason is Reason.MODEL_ERROR
    assert len(judge.calls) == 3


def test_metrics_before_the_end_of_the_budget_keep_their_scores() -> None:
    clock = FakeClock()
    judge = ScriptedJudge(
        relevancy__questions=questions("Q"),
        faithfulness__statements=statements("甲"),
        faithfulness__verdicts=verdicts(1),
        recall__parts=parts(1),
        precision__chunk=YES,
    )
    asking = session(judge, lambda texts: [[1.0, 0.0]] * len(texts), clock=clock, budget=30.0)
    results = []
    for name in ("answer_relevancy", "faithfulness", "context_recall", "context_precision"):
        results.append(evaluate_metric(name, asking, sample(), {}))
        clock.time += 15.0
    assert [(result.status, result.score, result.reason) for result in results] == [
        ("scored", 1.0, Reason.NONE),
        ("scored", 1.0, Reason.NONE),
        ("failed", None, Reason.TIMEOUT),
        ("failed", None, Reason.TIMEOUT),
    ]


def test_failure_of_one_metric_leaves_the_others_alone() -> None:
    judge = ScriptedJudge(
        relevancy__questions=failing(Reason.RATE_LIMITED),
        faithfulness__statements=statements("甲"),
        faithfulness__verdicts=verdicts(1),
        recall__parts=ZeroDivisionError("secret"),
        precision__chunk=YES,
    )
    asking = session(judge, clock=FakeClock())
    found = {name: evaluate_metric(name, asking, sample(), {}) for name in METRICS if name != "answer_correctness"}
    assert {name: (result.score, result.reason) for name, result in found.items()} == {
        "answer_relevancy": (None, Reason.RATE_LIMITED),
        "faithfulness": (1.0, Reason.NONE),
        "context_recall": (None, Reason.INTERNAL_ERROR),
        "context_precision": (1.0, Reason.NONE),
    }


def test_real_clock_runs_forward() -> None:
    clock = Clock()
    begun = clock.now()
    clock.sleep(0.01)
    assert clock.now() - begun >= 0.01


# Several calls


def test_gather_keeps_the_order_and_puts_errors_in_their_places() -> None:
    def fail() -> str:
        raise EvaluationError(Reason.TIMEOUT)

    outcomes = session(ScriptedJudge()).gather([lambda: "a", fail, lambda: "b"])
    assert outcomes[0] == "a"
    assert isinstance(outcomes[1], EvaluationError)
    assert outcomes[2] == "b"
    assert session(ScriptedJudge()).gather([]) == []


@pytest.mark.parametrize("count", [1, 3])
def test_gather_raises_what_is_no_evaluation_error(count: int) -> None:
    def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        session(ScriptedJudge()).gather([fail] * count)


def test_what_metrics_share_is_asked_for_once_also_when_it_fails() -> None:
    asking = session(ScriptedJudge())
    gate, calls = threading.Event(), []

    def call() -> str:
        calls.append(1)
        gate.wait(5)
        return "a"

    waiting = [spawn(lambda: asking.once("key", call)) for _ in range(3)]
    gate.set()
    assert [future.result() for future in waiting] == ["a"] * 3
    assert len(calls) == 1
    assert asking.once("other", lambda: "b") == "b"

    def fail() -> None:
        calls.append(1)
        raise EvaluationError(Reason.TIMEOUT)

    for _ in range(2):
        assert refused(lambda: asking.once("failing", fail)).reason is Reason.TIMEOUT
    assert len(calls) == 2


# Windows


@pytest.mark.parametrize(
    ("pieces", "size", "windows"),
    [
        ([], 10, [[]]),
        (["a" * 10], 10, [["a" * 10]]),
        (["aaaa", "bbbb", "cccc"], 8, [["aaaa", "bbbb"], ["cccc"]]),
        (["aaaa", "b" * 10, "cc"], 6, [["aaaa"], ["bbbbbb"], ["bbbb", "cc"]]),
        (["", "a"], 1, [["", "a"]]),
        (["abc"], 1, [["a"], ["b"], ["c"]]),
    ],
)
def test_pieces_go_into_as_few_windows_as_hold_them_in_order(
    pieces: list[str], size: int, windows: list[list[str]]
) -> None:
    assert split_windows(pieces, size) == windows


@pytest.mark.parametrize("size", [1, 2, 3, 7, 20, 1000])
def test_windows_lose_nothing_and_are_never_too_long(size: int) -> None:
    pieces = ["第1条。年10日。" * 9, "", "a. b. c.\nd", "x" * 50]
    windows = split_windows(pieces, size)
    assert "".join(part for window in windows for part in window) == "".join(pieces)
    assert all(sum(map(len, window)) <= size for window in windows)


@pytest.mark.parametrize(
    ("text", "size", "cut"),
    [
        ("一二三四。五六七八", 6, ["一二三四。", "五六七八"]),
        ("aaaa. bbbb", 7, ["aaaa.", " bbbb"]),
        ("aa\nbbbbbb", 6, ["aa\nbbb", "bbb"]),
        ("aaaaa\nbbb", 6, ["aaaaa\n", "bbb"]),
        ("", 5, [""]),
        ("abcde", 5, ["abcde"]),
        ("本当？そう！はい．", 5, ["本当？", "そう！", "はい．"]),
    ],
)
def test_long_text_is_split_at_the_end_of_a_sentence_in_its_second_half(text: str, size: int, cut: list[str]) -> None:
    assert split_text(text, size) == cut


def windowed(limit: int, window: int, pieces: Sequence[str]) -> tuple[list[Any], list[list[str]]]:
    asked: list[list[str]] = []

    def call(window: list[str]) -> int:
        asked.append(window)
        if sum(map(len, window)) > limit:
            raise JudgeError(Reason.CONTEXT_TOO_LONG)
        return len(window)

    outcomes = session(ScriptedJudge(), window_characters=window).over_windows(pieces, call)
    return outcomes, sorted(asked)


def test_windows_are_halved_when_the_judge_can_not_read_one() -> None:
    outcomes, asked = windowed(50, 100, ["a" * 40, "b" * 40])
    assert outcomes == [1, 1]
    assert asked == sorted([["a" * 40, "b" * 40], ["a" * 40], ["b" * 40]])


def test_windows_are_halved_once_only() -> None:
    outcomes, asked = windowed(10, 100, ["a" * 80])
    assert [outcome.reason for outcome in outcomes] == [Reason.CONTEXT_TOO_LONG] * 2
    assert [len(window[0]) for window in asked] == [40, 40, 80]


def test_half_is_of_what_was_asked_not_of_what_could_have_been() -> None:
    outcomes, asked = windowed(30, 40_000, ["a" * 50])
    assert outcomes == [1, 1]
    assert [len(window[0]) for window in asked] == [25, 25, 50]


def test_other_failures_halve_nothing() -> None:
    def call(_: list[str]) -> None:
        raise JudgeError(Reason.MODEL_ERROR)

    outcomes = session(ScriptedJudge()).over_windows(["a"], call)
    assert [outcome.reason for outcome in outcomes] == [Reason.MODEL_ERROR]


# Embeddings


def test_texts_are_embedded_in_batches_and_come_back_in_order() -> None:
    sizes = []

    def vectors(texts: Sequence[str]) -> list[list[float]]:
        sizes.append(len(texts))
        return [[float(text)] for text in texts]

    asking = session(ScriptedJudge(), vectors)
    found = asking.embed([str(n) for n in range(2 * EMBEDDING_BATCH + 1)])
    assert found == [[float(n)] for n in range(2 * EMBEDDING_BATCH + 1)]
    assert sorted(sizes) == [1, EMBEDDING_BATCH, EMBEDDING_BATCH]
    assert asking.usage.as_dict()["embedding_calls"] == 3
    assert asking.embed([]) == []


@pytest.mark.parametrize("count", [0, 1, 3])
def test_another_number_of_vectors_is_invalid(count: int) -> None:
    asking = session(ScriptedJudge(), lambda _: [[1.0]] * count)
    assert refused(lambda: asking.embed(["a", "b"])).reason is Reason.EMBEDDING_INVALID


def test_failing_embedding_model_is_told_and_a_missing_one_too() -> None:
    asking = session(ScriptedJudge(), lambda _: failing(Reason.MODEL_UNAUTHORIZED))
    assert refused(lambda: asking.embed(["a"])).reason is Reason.MODEL_UNAUTHORIZED
    error = refused(lambda: session(ScriptedJudge()).embed(["a"]))
    assert (error.reason, error.values) == (Reason.MODEL_NOT_SELECTED, {"field": "embedding_model"})


def test_embedding_model_is_tried_again_after_a_passing_failure() -> None:
    outcomes = iter([failing(Reason.RATE_LIMITED), [[1.0]]])
    asking = session(ScriptedJudge(), lambda _: next(outcomes), clock=FakeClock())
    assert asking.embed(["a"]) == [[1.0]]
    assert asking.usage.retries == 1


# Usage


def test_usage_adds_up_from_many_threads() -> None:
    usage = Usage()

    def work() -> None:
        for _ in range(200):
            usage.add(Charge(3, 2, 0.5, "USD"))
            usage.count(judge_calls=1, prompt_characters=7)

    for future in [spawn(work) for _ in range(8)]:
        future.result()
    found = usage.as_dict()
    assert (found["prompt_tokens"], found["completion_tokens"], found["total_tokens"]) == (4800, 3200, 8000)
    assert (found["judge_calls"], found["prompt_characters"], found["price"]) == (1600, 11200, 800.0)


def test_prices_in_several_currencies_stay_apart() -> None:
    usage = Usage()
    for charge in (Charge(1, 1, 0.2, "USD"), Charge(1, 1, 3.0, "RMB"), Charge(1, 1, 0.1, "USD"), Charge(1, 1, 0.0, "")):
        usage.add(charge)
    found = usage.as_dict()
    assert (found["price"], found["currency"]) == (3.0, "RMB")
    assert found["other_prices"] == pytest.approx({"USD": 0.3})
    json.dumps(found, allow_nan=False)


def test_without_prices_there_is_no_currency() -> None:
    usage = Usage()
    usage.add(Charge(1, 1))
    assert (usage.as_dict()["price"], usage.as_dict()["currency"]) == (0.0, "")
